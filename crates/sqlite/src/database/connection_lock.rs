//! Locks between connections of this VFS: words in the side file ([`crate::store::locks`]). A transaction locks
//! without a system call.
//!
//! A connection owns a slot while it is open. The kernel is asked whether an owner is alive only when that connection
//! is in the way.
//!
//! A connection that finds the lock for reading or for beginning to write busy waits in a queue
//! ([`crate::store::write_queue`]): one that commits again and again lets it pass. The exclusive lock has no queue: its
//! owner waits for readers that are there, and keeps new ones out.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::thread;
use std::time::Duration;

use pm::{Memory as _, Off, Plain, monotonic_us};

use crate::database::contract::Failure;
use crate::database::open_close_lock::check_not_forked;
use crate::database::side_queue::SideQueue;
use crate::database::slot_owners::{SLOTS, SlotOwners};
use crate::database::waiting::{forget_busy, note_busy};
use crate::store::layout::{LOCK_WORDS, LOCKS_AT, QUEUE_LINES};
use crate::store::locks::{Answer, Connection, Level, MOMENT, Words};
use crate::store::write_queue::{Outcome, Place, Wish, WriteQueue};

const PAUSE: Duration = Duration::from_millis(1);

/// The lock words in the side file.
#[derive(Debug)]
struct SideWords(Plain);

impl SideWords {
    fn at(word: usize) -> Off<u64> {
        Off::new(LOCKS_AT + word as u64 * 8)
    }
}

impl Words for SideWords {
    fn load(&self, word: usize) -> u64 {
        // The side file has the words from the start, and its mapping never shrinks.
        self.0.load(Self::at(word), Ordering::Acquire).unwrap_or(0)
    }

    fn store(&self, word: usize, value: u64) {
        self.0.store(Self::at(word), value);
        // Later loads of other words come after this store: of two threads that store and then load, one
        // sees the other.
        fence(Ordering::SeqCst);
    }

    fn swap(&self, word: usize, old: u64, new: u64) -> bool {
        let swapped = self.0.cas(Self::at(word), old, new).is_ok();
        fence(Ordering::SeqCst);
        swapped
    }

    fn pause(&self, before: u32) {
        if before < MOMENT { thread::yield_now() } else { thread::sleep(PAUSE) }
    }

    fn microseconds(&self) -> u64 {
        monotonic_us()
    }
}

/// The outcome of a lock request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum LockOutcome {
    /// The connection has the lock.
    Locked,
    /// A writer died halfway. The caller has exclusive access: it recovers and then calls
    /// [`ConnectionLock::end_recovery`] or [`ConnectionLock::abandon`].
    MustRecover,
}

/// The lock of one connection against others of this VFS.
#[derive(Debug)]
pub(crate) struct ConnectionLock {
    side: Plain,
    /// The connection owns its slot, so that others take it for alive.
    has_slot: bool,
    connection: Connection<SideWords, SlotOwners>,
    queue: Arc<SideQueue>,
    /// The lock that was busy when this connection last asked for it.
    wish: Option<(Wish, Level)>,
    /// The wish that was fulfilled when this connection began to read.
    wish_to_read: Option<Wish>,
    /// The connection has written since it last began to read.
    was_writer: bool,
    /// The connection has begun to read, and has not asked for more since.
    only_reads: bool,
}

impl ConnectionLock {
    /// Claims a slot in the words of a side file. The caller holds the open-close lock. If `alone`, no
    /// other connection has the file open, and the words are reset.
    ///
    /// # Errors
    /// All slots are taken.
    pub(crate) fn claim(side: &Plain, alone: bool) -> Result<(Self, LockOutcome), Failure> {
        let (words, queue) = (SideWords(side.clone()), Arc::new(SideQueue::of(side)));
        if alone {
            (0..LOCK_WORDS as usize).for_each(|word| words.store(word, 0));
            queue.reset();
        }
        let slot = SlotOwners::take_free(side)?;
        let (connection, answer) = Connection::claim(words, SlotOwners::of(side), SLOTS, slot);
        let taken =
            if answer == Answer::Replay { LockOutcome::MustRecover } else { LockOutcome::Locked };
        let lock = Self {
            side: side.clone(),
            has_slot: true,
            connection,
            queue,
            wish: None,
            wish_to_read: None,
            was_writer: false,
            only_reads: false,
        };
        if lock.has_line() {
            lock.queue().join();
        }
        Ok((lock, taken))
    }

    /// The slot, which is the connection's line in WAL mode too.
    pub(crate) fn slot(&self) -> usize {
        self.connection.slot()
    }

    /// Returns whether the connection owns its slot, and with it the words there. A forked child owns none.
    pub(crate) fn has_slot(&self) -> bool {
        self.has_slot && check_not_forked(&self.side).is_ok()
    }

    pub(crate) fn level(&self) -> Level {
        self.connection.level()
    }

    fn place(&self) -> Place {
        Place { line: self.connection.slot(), owner: self.connection.owner_word() }
    }

    fn queue(&self) -> WriteQueue<'_, SideQueue> {
        self.queue.at(self.place())
    }

    /// Leaves the queue, at the end of the connection.
    pub(crate) fn leave_queue(&mut self) {
        if self.wish.take().is_some() && check_not_forked(&self.side).is_ok() {
            self.queue().leave(Outcome::Busy);
        }
    }

    /// Returns whether the connection can wait in the queue.
    fn has_line(&self) -> bool {
        self.connection.slot() < QUEUE_LINES
    }

    /// Raises the lock.
    ///
    /// # Errors
    /// Busy. If the exclusive lock was requested, no new reader gets in until [`Self::unlock`].
    pub(crate) fn lock(&mut self, to: Level) -> Result<LockOutcome, Failure> {
        check_not_forked(&self.side)?;
        if to > Level::Reserved || to <= self.connection.level() {
            let taken = self.lock_at_once(to);
            if matches!(taken, Err(Failure::Busy)) {
                forget_busy();
            }
            return taken;
        }
        // One that has begun to read lets no other one pass: a writer would wait for this reader.
        let lets_pass = self.connection.level() == Level::None && self.was_writer;
        // A thread that slept for this connection may have claimed the lock, and another one uses the connection now.
        let has_claim = if lets_pass { self.queue().let_pass() } else { self.queue().has_claim() };
        if self.connection.level() == Level::None {
            self.wish_to_read = None;
        }
        self.was_writer = false;
        let taken = self.lock_at_once(to);
        let is_busy = matches!(taken, Err(Failure::Busy));
        self.only_reads = !is_busy && to == Level::Shared;
        if is_busy || has_claim || self.wish.is_some() {
            self.note_attempt(to, is_busy);
        }
        taken
    }

    fn lock_at_once(&mut self, to: Level) -> Result<LockOutcome, Failure> {
        match self.connection.lock(to) {
            Answer::Got => Ok(LockOutcome::Locked),
            Answer::Busy => Err(Failure::Busy),
            Answer::Replay => Ok(LockOutcome::MustRecover),
        }
    }

    /// Notes the outcome of an attempt to take a lock that is or was busy.
    #[cold]
    fn note_attempt(&mut self, to: Level, is_busy: bool) {
        if !self.has_line() {
            return forget_busy();
        }
        let wanted = self.wish.map_or(to, |(_, level)| level.max(to));
        if is_busy {
            self.queue().leave(Outcome::Busy);
            let before = self.wish.map(|(wish, _)| wish).or(self.wish_to_read.take());
            let wish = Wish::renewed(before, monotonic_us());
            self.wish = Some((wish, wanted));
            self.queue.note_wish(wanted == Level::Shared);
            let queue = Arc::downgrade(&self.queue);
            return note_busy(queue, self.place(), wish);
        }
        forget_busy();
        self.queue.note_wish(false);
        // A connection that waits until it can write keeps its claim while it begins to read.
        if wanted == to {
            self.queue().leave(if to == Level::Shared { Outcome::Reads } else { Outcome::Turn });
            // It may have begun to read in order to write, and is no newcomer then.
            self.wish_to_read =
                self.wish.take().map(|(wish, _)| wish).filter(|_| to == Level::Shared);
        }
    }

    /// Wakes the connection that is next in the queue, if this one has had the lock for writing.
    fn end_turn(&self, wrote: bool) {
        if wrote {
            self.queue().released();
        }
    }

    /// Raises the shared lock to the exclusive one if no other connection reads or has begun to write;
    /// returns whether it did. Others are not refused as long as [`Self::unlock`] comes soon.
    pub(crate) fn lock_exclusive_if_idle(&mut self) -> bool {
        if check_not_forked(&self.side).is_err() {
            return false;
        }
        let taken = self.connection.lock_exclusive_if_idle();
        // It may have been a writer for a moment.
        self.end_turn(!taken);
        taken
    }

    /// Raises the shared lock to the exclusive one. A refused connection keeps no new reader out.
    ///
    /// # Errors
    /// Busy.
    pub(crate) fn lock_exclusive_or_stay(&mut self) -> Result<(), Failure> {
        check_not_forked(&self.side)?;
        match self.connection.lock_exclusive_or_stay() {
            Answer::Got => Ok(()),
            // A connection with the shared lock has nothing to replay.
            Answer::Busy | Answer::Replay => {
                forget_busy();
                self.end_turn(true);
                Err(Failure::Busy)
            }
        }
    }

    /// Lowers the lock. In a forked child it changes nothing.
    pub(crate) fn unlock(&mut self, to: Level) {
        if check_not_forked(&self.side).is_ok() {
            let writes = self.connection.is_writer();
            self.was_writer |= writes;
            if to == Level::None && std::mem::take(&mut self.only_reads) && self.wish.is_some() {
                // It has given up to write.
                self.wish = None;
                self.queue().leave(Outcome::Reads);
            }
            self.connection.unlock(to);
            self.end_turn(writes);
            self.give_up_if_failed();
        }
    }

    /// Releases the slot if the side file's medium has failed: stores to the words are lost then, and
    /// others would wait for a lock that is never released.
    fn give_up_if_failed(&mut self) {
        if self.side.healthy().is_err() {
            self.has_slot = false;
            SlotOwners::give_up(&self.side, self.connection.slot());
        }
    }

    /// Ends a recovery. The connection holds no lock afterwards.
    pub(crate) fn end_recovery(&mut self) {
        self.connection.end_replay();
        self.end_turn(true);
    }

    /// Abandons a commit or a recovery that failed halfway: the next connection recovers. This one holds no
    /// lock afterwards.
    pub(crate) fn abandon(&mut self) {
        if check_not_forked(&self.side).is_ok() {
            self.connection.abandon();
            self.end_turn(true);
            self.give_up_if_failed();
        }
    }

    /// Returns whether any connection has begun to write.
    pub(crate) fn is_reserved(&self) -> Result<bool, Failure> {
        check_not_forked(&self.side)?;
        Ok(self.connection.is_reserved())
    }
}
