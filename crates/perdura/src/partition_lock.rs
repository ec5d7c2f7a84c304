//! The lock of a partition, with its queue: writers, readers and the thread in the background.
//!
//! A lock alone would not do:
//!
//! - A thread that gives the lock back and takes it again at once is faster than one that has to be
//!   woken first, so the background thread could do step after step while a writer waits. Therefore
//!   a thread that finds the partition taken registers as waiting, and the background thread lets
//!   it go first: a writer waits for one step at most.
//! - A writer that waits keeps readers out, or it could wait for ever. But then a long read holds
//!   up every reader that comes after the writer. So readers pass a waiting writer: the first
//!   [`PASSES_AT_ONCE`] at once, which is enough for short reads to overlap and leave; the next
//!   ones after [`READ_WAIT`], so that the partition is free as soon as the long read ends; and
//!   none beyond [`MOST_PASSES`], so that the writer has its turn at last.
//! - A thread that already reads, and that waited for a writer, would wait for itself. And while
//!   the partition is copied, which takes long, all readers would wait for the copy. These readers
//!   always pass.
//! - A thread that would wait for what it holds itself gets an error at once. A thread that holds
//!   another partition meanwhile waits for a limited time (`held.rs`).
//! - An owner keeps a partition for as long as it likes. The background thread waits a little,
//!   longer each time, and goes on with the other partitions.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;

use engines::Syncer;

use crate::group::Group;
use crate::held::{self, Hold};
use crate::holder::Holder;
use crate::sync::{
    AtomicBool, AtomicU32, MOST_PASSES, PASSES_AT_ONCE, RwLock, RwLockReadGuard, RwLockWriteGuard,
    yield_now,
};

/// The reason why a partition cannot be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Taken {
    /// The thread would wait for itself.
    Nested,
    /// Another thread has kept it for longer than the call may wait.
    Busy(Holder),
}

/// The lock of a partition; see the module's comment. It is not poisoned by a panic in a
/// transaction, which has been aborted, so that the data under the lock is as before.
#[derive(Debug)]
pub(crate) struct PartitionLock<T> {
    lock: RwLock<T>,
    /// The number of threads that copy it, or wait to do so.
    copying: AtomicU32,
    /// The number of threads that wait for it, apart from the background thread.
    waiting: AtomicU32,
    /// The number of threads that have waited and got it.
    served: AtomicU32,
    /// The number of readers that have passed waiting writers since one of those had its turn.
    passed: AtomicU32,
    /// Threads of the database's own wait for it.
    wanted: AtomicU32,
    /// Set if there is work for the background thread. Set by threads that may write.
    backlog: AtomicBool,
    /// The number of times that the background thread has waited in vain since its last step.
    missed: AtomicU32,
    /// Set while the partition is owned; for messages.
    owned: AtomicBool,
    stepping: AtomicBool,
    /// The time that a thread waits while it holds another partition.
    patience: Duration,
    /// The number of threads that wait for it to run a transaction.
    joining: AtomicU32,
    /// The commits that wait for a sync.
    pub(crate) group: Group,
    /// Makes that sync, if it does not need the partition.
    pub(crate) syncer: Option<Arc<dyn Syncer>>,
}

/// The number of times that the background thread checks for waiting threads before it asks for the
/// lock again, and then waits itself.
const PATIENCE: u32 = 1000;
/// The time that the background thread waits for one partition, at first. It doubles each time that
/// the thread has waited in vain, or writers that wait longer would always be first.
const STEP_WAIT: Duration = Duration::from_millis(1);
/// The number of times that it is doubled.
const MOST_MISSED: u32 = 7;
/// The time that a reader waits before it looks again whether it may pass, at first.
const READ_WAIT: Duration = Duration::from_millis(5);

impl<T> PartitionLock<T> {
    /// Makes a lock. A thread that holds another one waits for `patience`; `syncer` syncs without
    /// the lock.
    pub(crate) fn new(value: T, patience: Duration, syncer: Option<Arc<dyn Syncer>>) -> Self {
        Self {
            lock: RwLock::new(value),
            copying: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            served: AtomicU32::new(0),
            passed: AtomicU32::new(0),
            wanted: AtomicU32::new(0),
            backlog: AtomicBool::new(false),
            missed: AtomicU32::new(0),
            owned: AtomicBool::new(false),
            stepping: AtomicBool::new(false),
            patience,
            joining: AtomicU32::new(0),
            group: Group::new(syncer.is_some()),
            syncer,
        }
    }

    #[inline]
    pub(crate) fn write(&self) -> Result<WriteGuard<'_, T>, Taken> {
        match self.lock.try_write() {
            Some(guard) => Ok(WriteGuard::new(guard, self)),
            None => self.write_in_turn(None),
        }
    }

    /// Works as [`Self::write`], but waits for this time at most.
    pub(crate) fn write_for(&self, time: Duration) -> Result<WriteGuard<'_, T>, Taken> {
        match self.lock.try_write() {
            Some(guard) => Ok(WriteGuard::new(guard, self)),
            None => self.write_in_turn(Some(time)),
        }
    }

    /// Works as [`Self::write`], for a thread that has just given it back.
    pub(crate) fn write_again(&self) -> WriteGuard<'_, T> {
        let guard = self.lock.try_write();
        let guard = guard.unwrap_or_else(|| self.wait_for(|| self.lock.write()));
        self.passed.store(0, Relaxed);
        WriteGuard::new(guard, self)
    }

    #[cold]
    fn write_in_turn(&self, time: Option<Duration>) -> Result<WriteGuard<'_, T>, Taken> {
        if held::any(|hold| hold == self.alone() || hold == self.shared()) {
            return Err(Taken::Nested);
        }
        let most = self.limit(time);
        let guard = self.wait_or_name(0, || match most {
            Some(time) => self.lock.try_write_for(time),
            None => Some(self.lock.write()),
        })?;
        self.passed.store(0, Relaxed);
        Ok(WriteGuard::new(guard, self))
    }

    /// Takes the lock with `take`, to run a transaction.
    #[inline]
    pub(crate) fn join<'a, F>(
        &'a self,
        take: impl FnOnce() -> Result<WriteGuard<'a, T>, F>,
    ) -> Result<WriteGuard<'a, T>, F> {
        match self.lock.try_write() {
            Some(guard) => Ok(WriteGuard::new(guard, self)),
            None => self.join_in_turn(take),
        }
    }

    #[cold]
    fn join_in_turn<'a, F>(
        &'a self,
        take: impl FnOnce() -> Result<WriteGuard<'a, T>, F>,
    ) -> Result<WriteGuard<'a, T>, F> {
        self.joining.fetch_add(1, SeqCst);
        let guard = take();
        self.joining.fetch_sub(1, SeqCst);
        if guard.is_err() {
            self.leave();
        }
        guard
    }

    /// Returns the number of threads that wait for it to run a transaction.
    pub(crate) fn joining(&self) -> u32 {
        self.joining.load(SeqCst)
    }

    /// Returns true if a commit had better leave its sync to the group: a thread waits to run a
    /// transaction meanwhile, or for a sync.
    #[inline]
    pub(crate) fn has_company(&self) -> bool {
        self.joining.load(Relaxed) > 0 || self.group.has_company()
    }

    /// Gives the lock back, or gives up waiting for it. If a sync needs it, and no other thread is
    /// to come that would sync, one of the threads that wait for the sync has to.
    #[inline]
    fn leave(&self) {
        if self.group.has_members() {
            self.leave_members();
        }
    }

    #[cold]
    fn leave_members(&self) {
        if !self.group.is_outside() && self.joining() == 0 {
            self.group.vacate();
        }
    }

    /// Returns how long this thread waits for the lock, given the time that it would like to wait.
    fn limit(&self, time: Option<Duration>) -> Option<Duration> {
        let most = held::anything().then_some(self.patience);
        match (time, most) {
            (Some(time), Some(most)) => Some(time.min(most)),
            (time, most) => time.or(most),
        }
    }

    fn alone(&self) -> Hold {
        Hold::alone(&self.lock)
    }

    fn shared(&self) -> Hold {
        Hold::shared(&self.lock)
    }

    /// Notes whether the partition is owned from now on.
    pub(crate) fn own(&self, owned: bool) {
        self.owned.store(owned, SeqCst);
    }

    /// Returns the probable holder, for a message; `None` if the lock is free. `own` is the number
    /// of copies that the caller itself is about to make.
    fn holder(&self, own: u32) -> Option<Holder> {
        if self.copying.load(SeqCst) > own {
            Some(Holder::Copy)
        } else if self.owned.load(SeqCst) {
            Some(Holder::Owner)
        } else if self.stepping.load(SeqCst) {
            Some(Holder::Background)
        } else if self.lock.is_locked_exclusive() {
            Some(Holder::Writer)
        } else {
            self.lock.is_locked().then_some(Holder::Readers)
        }
    }

    /// Calls `take`, which waits for the lock for a limited time. If the holder gives the lock back
    /// just after that time, the error names the holder from before the wait. For `own` see
    /// [`Self::holder`].
    fn wait_or_name<G>(&self, own: u32, take: impl FnOnce() -> Option<G>) -> Result<G, Taken> {
        let before = self.holder(own);
        self.wait_for(take)
            .ok_or_else(|| Taken::Busy(self.holder(own).or(before).unwrap_or(Holder::Writer)))
    }

    #[inline]
    pub(crate) fn read(&self) -> Result<ReadGuard<'_, T>, Taken> {
        match self.lock.try_read() {
            Some(guard) => Ok(ReadGuard::new(guard)),
            None => self.read_in_turn(),
        }
    }

    #[cold]
    fn read_in_turn(&self) -> Result<ReadGuard<'_, T>, Taken> {
        if held::any(|hold| hold == self.alone()) {
            return Err(Taken::Nested);
        }
        let guard = match self.limit(None) {
            Some(most) => self.wait_or_name(0, || self.pass(Some(most))),
            None => self.wait_or_name(0, || self.wait_to_read()),
        };
        guard.map(ReadGuard::new)
    }

    fn wait_to_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        let (mut wait, mut most) = (READ_WAIT, PASSES_AT_ONCE);
        loop {
            if self.copying.load(SeqCst) > 0 {
                return self.pass(None);
            }
            if self.passed.load(Relaxed) < most
                && let Some(guard) = self.lock.try_read_recursive()
            {
                self.passed.fetch_add(1, Relaxed);
                return Some(guard);
            }
            most = MOST_PASSES;
            if let Some(guard) = self.lock.try_read_for(wait) {
                return Some(guard);
            }
            // The reader now queues again, after the others; each try waits longer, at last longer
            // than all of them take.
            wait = wait.saturating_mul(2);
        }
    }

    /// Reads without regard for waiting writers: a thread that holds something already would wait
    /// for itself.
    fn pass(&self, most: Option<Duration>) -> Option<RwLockReadGuard<'_, T>> {
        match most {
            Some(most) => self.lock.try_read_recursive_for(most),
            None => Some(self.lock.read_recursive()),
        }
    }

    /// Reads for long, while other readers do not wait. It waits for `most` at most.
    pub(crate) fn copy(&self, most: Option<Duration>) -> Result<CopyGuard<'_, T>, Taken> {
        // Before the lock is asked for: from now on readers pass the waiting writers.
        let others = self.copying.fetch_add(1, SeqCst) > 0;
        let until = Until { copying: &self.copying };
        if held::any(|hold| hold == self.alone()) {
            return Err(Taken::Nested);
        }
        let passes = others || held::reading();
        let guard = match self.lock.try_read() {
            Some(guard) => guard,
            None => self.wait_or_name(1, || match most {
                Some(_) => self.pass(most),
                None if passes => self.pass(None),
                None => Some(self.lock.read()),
            })?,
        };
        Ok(CopyGuard { reading: ReadGuard::new(guard), _until: until })
    }

    /// Returns how long this thread waits because it holds another partition; `None` if it holds
    /// none.
    pub(crate) fn patience(&self) -> Option<Duration> {
        self.limit(None)
    }

    #[cold]
    fn wait_for<G>(&self, take: impl FnOnce() -> G) -> G {
        self.waiting.fetch_add(1, SeqCst);
        let guard = take();
        self.waiting.fetch_sub(1, SeqCst);
        self.served.fetch_add(1, SeqCst);
        guard
    }

    /// Does a step of the background thread; `work` also returns whether there is more to do.
    /// Returns when a thread that waited meanwhile has had its turn; or without having done
    /// anything, if the partition is not given back.
    pub(crate) fn step<R>(&self, work: impl FnOnce(&mut T) -> (R, bool)) -> Option<R> {
        let missed = self.missed.load(Relaxed);
        self.wanted.fetch_add(1, SeqCst);
        let guard = self.lock.try_write_for(STEP_WAIT.saturating_mul(1 << missed.min(MOST_MISSED)));
        self.wanted.fetch_sub(1, SeqCst);
        self.missed.store(if guard.is_none() { missed.saturating_add(1) } else { 0 }, Relaxed);
        let mut guard = WriteGuard::new(guard?, self);
        self.passed.store(0, Relaxed);
        self.stepping.store(true, SeqCst);
        // Before the work: in an engine with sessions, transactions may leave more meanwhile.
        self.backlog.store(false, SeqCst);
        let (done, more) = work(&mut guard);
        if more {
            self.backlog.store(true, SeqCst);
        }
        let served = self.served.load(SeqCst);
        self.stepping.store(false, SeqCst);
        drop(guard);
        for _ in 0..PATIENCE {
            if self.queue() != Some(served) {
                break;
            }
            yield_now();
        }
        Some(done)
    }

    /// Runs `work` for a thread of the database's own, if the lock can be had in this time.
    pub(crate) fn visit<R>(&self, time: Duration, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.wanted.fetch_add(1, SeqCst);
        let guard = self.lock.try_write_for(time);
        self.wanted.fetch_sub(1, SeqCst);
        let mut guard = WriteGuard::new(guard?, self);
        self.passed.store(0, Relaxed);
        Some(work(&mut guard))
    }

    /// Returns the number of threads that have waited and got the lock, if any thread waits.
    pub(crate) fn queue(&self) -> Option<u32> {
        (self.waiting.load(SeqCst) > 0).then(|| self.served.load(SeqCst))
    }

    /// Notes that there is work for the background thread. Called by threads that may write.
    #[inline]
    pub(crate) fn leave_backlog(&self) {
        if !self.backlog.load(Relaxed) {
            self.backlog.store(true, SeqCst);
        }
    }

    /// Returns true if there is work for the background thread.
    pub(crate) fn has_backlog(&self) -> bool {
        self.backlog.load(SeqCst)
    }

    /// Returns true if the background thread waits for its turn.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Relaxed) > 0
    }

    /// Waits until the background thread has had its turn, or has it, or has given up. Called,
    /// without the lock, by a thread that had it for long.
    pub(crate) fn let_in(&self) {
        while self.is_wanted() {
            yield_now();
        }
    }
}

impl<T> Drop for PartitionLock<T> {
    fn drop(&mut self) {
        held::forget(&self.lock);
    }
}

/// The right to write, until it is dropped.
#[derive(Debug)]
pub(crate) struct WriteGuard<'a, T> {
    guard: RwLockWriteGuard<'a, T>,
    partition_lock: &'a PartitionLock<T>,
}

impl<'a, T> WriteGuard<'a, T> {
    #[inline]
    fn new(guard: RwLockWriteGuard<'a, T>, partition_lock: &'a PartitionLock<T>) -> Self {
        held::take(partition_lock.alone());
        Self { guard, partition_lock }
    }

    /// The lock that is taken.
    #[inline]
    pub(crate) fn partition_lock(&self) -> &'a PartitionLock<T> {
        self.partition_lock
    }
}

impl<T> Deref for WriteGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for WriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

impl<T> Drop for WriteGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        held::leave(self.partition_lock.alone());
        self.partition_lock.leave();
    }
}

/// The right to read, until it is dropped.
#[derive(Debug)]
pub(crate) struct ReadGuard<'a, T> {
    guard: RwLockReadGuard<'a, T>,
}

impl<'a, T> ReadGuard<'a, T> {
    #[inline]
    fn new(guard: RwLockReadGuard<'a, T>) -> Self {
        held::take(Hold::shared(RwLockReadGuard::rwlock(&guard)));
        Self { guard }
    }
}

impl<T> Deref for ReadGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> Drop for ReadGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        held::leave(Hold::shared(RwLockReadGuard::rwlock(&self.guard)));
    }
}

/// The right to read for long, until it is dropped.
#[derive(Debug)]
pub(crate) struct CopyGuard<'a, T> {
    reading: ReadGuard<'a, T>,
    _until: Until<'a>,
}

impl<T> Deref for CopyGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.reading
    }
}

/// The end of copying.
#[derive(Debug)]
struct Until<'a> {
    copying: &'a AtomicU32,
}

impl Drop for Until<'_> {
    fn drop(&mut self) {
        self.copying.fetch_sub(1, SeqCst);
    }
}
