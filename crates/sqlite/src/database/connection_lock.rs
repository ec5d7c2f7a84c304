//! The locks of the connections of this VFS: words in the side file ([`crate::store::locks`]), so that a
//! transaction locks without a call to the kernel.
//!
//! A connection has a slot as long as it has a lock on the slot's byte of the side file, which the kernel takes
//! away when it dies: with the last copy of the open file, so a child that its process has forked, and that lives on
//! without an exec, lets it count as alive until it ends. The kernel is asked for that only when a connection is in
//! the way.

use std::sync::atomic::{Ordering, fence};
use std::thread;
use std::time::Duration;

use pm::{Lock, Memory as _, Off, Plain, Range};

use crate::database::contract::Failure;
use crate::database::open_close_lock::{LOCKS_START, check_not_forked};
use crate::store::layout::{LOCK_WORDS, LOCKS_AT};
use crate::store::locks::{Answer, Connection, Level, Liveness, Words};

/// The most connections that a database can have at once.
pub(crate) const SLOTS: usize = LOCK_WORDS as usize - 1;
/// The byte that the owner of slot 0 has locked.
const FIRST_SLOT: u64 = LOCKS_START + 64;

/// Pauses that only let another thread run, before others that last.
const YIELDS: u32 = 32;
const PAUSE: Duration = Duration::from_millis(1);

/// The byte that the owner of a slot has locked.
fn byte_of(slot: usize) -> Range {
    Range::new(FIRST_SLOT + slot as u64, 1)
}

/// The words in the side file.
#[derive(Debug)]
struct SideWords(Plain);

impl SideWords {
    fn at(word: usize) -> Off<u64> {
        Off::new(LOCKS_AT + word as u64 * 8)
    }
}

impl Words for SideWords {
    fn load(&self, word: usize) -> u64 {
        // The side file has the words from its beginning on, and its mapping never shrinks.
        self.0.load(Self::at(word), Ordering::Acquire).unwrap_or(0)
    }

    fn store(&self, word: usize, value: u64) {
        self.0.store(Self::at(word), value);
        // Each look at another word is behind it: of two that store and then look, one sees the other.
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

/// The kernel's knowledge of who has which slot.
#[derive(Debug)]
struct SlotOwners(Plain);

impl Liveness for SlotOwners {
    fn is_alive(&self, slot: usize) -> bool {
        // Where the kernel does not say, waiting is right.
        self.0.is_locked_by_others(byte_of(slot)).unwrap_or(true)
    }
}

/// The outcome of asking for a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum LockOutcome {
    /// The connection has it.
    Locked,
    /// A writer has died in the middle. The caller has the database to himself: it recovers, and says
    /// [`ConnectionLock::end_recovery`], or [`ConnectionLock::abandon`].
    MustRecover,
}

/// The lock that one connection has on its database, beside others of this VFS.
#[derive(Debug)]
pub(crate) struct ConnectionLock {
    side: Plain,
    connection: Connection<SideWords, SlotOwners>,
}

impl ConnectionLock {
    /// Takes a slot in the words of a side file. The caller has shut the door; `alone` says that nobody else has
    /// the file open, so nothing that the words say counts.
    ///
    /// # Errors
    /// There are too many connections.
    pub(crate) fn claim(side: &Plain, alone: bool) -> Result<(Self, LockOutcome), Failure> {
        let words = SideWords(side.clone());
        if alone {
            (0..LOCK_WORDS as usize).for_each(|word| words.store(word, 0));
        }
        let slot = Self::free_slot(side)?;
        let (connection, answer) = Connection::claim(words, SlotOwners(side.clone()), SLOTS, slot);
        let taken =
            if answer == Answer::Replay { LockOutcome::MustRecover } else { LockOutcome::Locked };
        Ok((Self { side: side.clone(), connection }, taken))
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

    pub(crate) fn level(&self) -> Level {
        self.connection.level()
    }

    /// Raises the lock.
    ///
    /// # Errors
    /// Busy; if the exclusive lock was asked for nobody new can read until [`Self::unlock`].
    pub(crate) fn lock(&mut self, to: Level) -> Result<LockOutcome, Failure> {
        check_not_forked(&self.side)?;
        match self.connection.lock(to) {
            Answer::Got => Ok(LockOutcome::Locked),
            Answer::Busy => Err(Failure::Busy),
            Answer::Replay => Ok(LockOutcome::MustRecover),
        }
    }

    /// Raises the shared lock to the exclusive one if no other connection reads or is going to write; returns whether it
    /// did. No other one is told that it is busy, as long as [`Self::unlock`] comes soon.
    pub(crate) fn lock_exclusive_if_idle(&mut self) -> bool {
        check_not_forked(&self.side).is_ok() && self.connection.lock_exclusive_if_idle()
    }

    /// Lowers the lock; that of the parent of a forked child stays.
    pub(crate) fn unlock(&mut self, to: Level) {
        if check_not_forked(&self.side).is_ok() {
            self.connection.unlock(to);
            self.give_up_if_failed();
        }
    }

    /// Counts as dead from now on if the side file's medium has failed: the words are stored where nobody sees them
    /// then, and others would wait for a lock that is never given up.
    fn give_up_if_failed(&self) {
        if self.side.healthy().is_err() {
            let _ = self.side.unlock(byte_of(self.connection.slot()));
        }
    }

    /// Ends a recovery. The connection has no lock then.
    pub(crate) fn end_recovery(&mut self) {
        self.connection.end_replay();
    }

    /// Gives up a commit or a recovery that failed in the middle: who comes next recovers. The connection has no
    /// lock then.
    pub(crate) fn abandon(&mut self) {
        if check_not_forked(&self.side).is_ok() {
            self.connection.abandon();
            self.give_up_if_failed();
        }
    }

    /// Returns whether any connection is going to write.
    pub(crate) fn is_reserved(&self) -> Result<bool, Failure> {
        check_not_forked(&self.side)?;
        Ok(self.connection.is_reserved())
    }
}
