//! Locks between connections of this VFS: words in the side file ([`crate::store::locks`]). A transaction locks
//! without a system call.
//!
//! A connection owns a slot for as long as it holds a kernel lock on the slot's byte of the side file. The kernel
//! drops that lock when the owner dies: a forked child has given up its copy of the open file. The kernel is asked only
//! when another connection is in the way.

use std::sync::atomic::{Ordering, fence};
use std::thread;
use std::time::Duration;

use pm::{Lock, Memory as _, Off, Plain, Range};

use crate::database::contract::Failure;
use crate::database::open_close_lock::{LOCKS_START, check_not_forked};
use crate::store::layout::{LOCK_WORDS, LOCKS_AT};
use crate::store::locks::{Answer, Connection, Level, Liveness, Words};

/// The most connections of one database.
pub(crate) const SLOTS: usize = LOCK_WORDS as usize - 1;
/// The byte that the owner of slot 0 locks.
const FIRST_SLOT: u64 = LOCKS_START + 64;

/// Pauses that only yield to another thread; later ones sleep.
const YIELDS: u32 = 32;
const PAUSE: Duration = Duration::from_millis(1);

/// The byte that the owner of a slot locks.
fn byte_of(slot: usize) -> Range {
    Range::new(FIRST_SLOT + slot as u64, 1)
}

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
        if before < YIELDS { thread::yield_now() } else { thread::sleep(PAUSE) }
    }
}

/// Liveness of slot owners, by their kernel locks.
#[derive(Debug)]
pub(crate) struct SlotOwners(Plain);

impl SlotOwners {
    /// The owners of the slots of a side file.
    pub(crate) fn of(side: &Plain) -> Self {
        Self(side.clone())
    }
}

impl Liveness for SlotOwners {
    fn is_alive(&self, slot: usize) -> bool {
        // If the kernel does not answer, waiting is safe.
        self.0.is_locked_by_others(byte_of(slot)).unwrap_or(true)
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
}

impl ConnectionLock {
    /// Claims a slot in the words of a side file. The caller holds the open-close lock. If `alone`, no
    /// other connection has the file open, and the words are reset.
    ///
    /// # Errors
    /// All slots are taken.
    pub(crate) fn claim(side: &Plain, alone: bool) -> Result<(Self, LockOutcome), Failure> {
        let words = SideWords(side.clone());
        if alone {
            (0..LOCK_WORDS as usize).for_each(|word| words.store(word, 0));
        }
        let slot = Self::free_slot(side)?;
        let (connection, answer) = Connection::claim(words, SlotOwners::of(side), SLOTS, slot);
        let taken =
            if answer == Answer::Replay { LockOutcome::MustRecover } else { LockOutcome::Locked };
        Ok((Self { side: side.clone(), has_slot: true, connection }, taken))
    }

    fn free_slot(side: &Plain) -> Result<usize, Failure> {
        for slot in 0..SLOTS {
            if side.lock(byte_of(slot), Lock::Exclusive)? {
                return Ok(slot);
            }
        }
        Err(Failure::CannotOpen(format!(
            "it has {SLOTS} connections already, and can have no more"
        )))
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

    /// Raises the lock.
    ///
    /// # Errors
    /// Busy. If the exclusive lock was requested, no new reader gets in until [`Self::unlock`].
    pub(crate) fn lock(&mut self, to: Level) -> Result<LockOutcome, Failure> {
        check_not_forked(&self.side)?;
        match self.connection.lock(to) {
            Answer::Got => Ok(LockOutcome::Locked),
            Answer::Busy => Err(Failure::Busy),
            Answer::Replay => Ok(LockOutcome::MustRecover),
        }
    }

    /// Raises the shared lock to the exclusive one if no other connection reads or has begun to write;
    /// returns whether it did. Others are not refused as long as [`Self::unlock`] comes soon.
    pub(crate) fn lock_exclusive_if_idle(&mut self) -> bool {
        check_not_forked(&self.side).is_ok() && self.connection.lock_exclusive_if_idle()
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
            Answer::Busy | Answer::Replay => Err(Failure::Busy),
        }
    }

    /// Lowers the lock. In a forked child it changes nothing.
    pub(crate) fn unlock(&mut self, to: Level) {
        if check_not_forked(&self.side).is_ok() {
            self.connection.unlock(to);
            self.give_up_if_failed();
        }
    }

    /// Releases the slot if the side file's medium has failed: stores to the words are lost then, and
    /// others would wait for a lock that is never released.
    fn give_up_if_failed(&mut self) {
        if self.side.healthy().is_err() {
            self.has_slot = false;
            let _ = self.side.unlock(byte_of(self.connection.slot()));
        }
    }

    /// Ends a recovery. The connection holds no lock afterwards.
    pub(crate) fn end_recovery(&mut self) {
        self.connection.end_replay();
    }

    /// Abandons a commit or a recovery that failed halfway: the next connection recovers. This one holds no
    /// lock afterwards.
    pub(crate) fn abandon(&mut self) {
        if check_not_forked(&self.side).is_ok() {
            self.connection.abandon();
            self.give_up_if_failed();
        }
    }

    /// Returns whether any connection has begun to write.
    pub(crate) fn is_reserved(&self) -> Result<bool, Failure> {
        check_not_forked(&self.side)?;
        Ok(self.connection.is_reserved())
    }
}
