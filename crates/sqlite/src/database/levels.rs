//! SQLite's levels of locks, on bytes of a file as stock SQLite uses them in a database file, by locks that
//! belong to the open file.
//!
//! A reader has a shared lock on the shared bytes. Who is going to write has the reserved byte, and before
//! it waits for the readers to leave the pending one, which every reader looks at: no new ones
//! come. A reader that has looked just before may still come, as one that was there already. Whoever dies leaves
//! no lock.

use pm::{Bad, Lock, Memory as _, Plain, Range};

use crate::database::contract::{Failure, Level};

const PENDING: Range = Range::new(0x4000_0000, 1);
const RESERVED: Range = Range::new(PENDING.start + 1, 1);
const SHARED: Range = Range::new(PENDING.start + 2, 510);
/// All bytes that stock SQLite locks.
pub(crate) const STOCK: Range = Range::new(PENDING.start, 512);
/// Held while a connection opens or closes the file.
const DOOR: Range = Range::new(PENDING.start + 1024, 1);
/// Held as long as a connection is open.
const LIFE: Range = Range::new(PENDING.start + 1025, 1);

/// The lock that one connection has on a file.
#[derive(Debug)]
pub(crate) struct Levels {
    file: Plain,
    level: Level,
    /// The pending byte is ours, although the level is lower.
    pending: bool,
}

impl Levels {
    pub(crate) fn new(file: Plain) -> Self {
        Self { file, level: Level::None, pending: false }
    }

    pub(crate) fn level(&self) -> Level {
        self.level
    }

    /// Returns whether it keeps new readers away, and has not the exclusive lock yet.
    pub(crate) fn is_pending(&self) -> bool {
        self.pending && self.level < Level::Exclusive
    }

    /// Returns an error in a forked child: the locks are its parent's, too, and none of its calls may change
    /// them.
    fn owned(&self) -> Result<(), Failure> {
        match self.file.healthy() {
            Err(Bad::Forked) => Err(Failure::Io(Bad::Forked.to_string())),
            _ => Ok(()),
        }
    }

    fn take(&self, range: Range, lock: Lock) -> Result<(), Failure> {
        self.owned()?;
        if self.file.lock(range, lock)? { Ok(()) } else { Err(Failure::Busy) }
    }

    /// Raises the lock.
    ///
    /// # Errors
    /// Busy; the level is as before, but nobody new can read if the exclusive one was asked for.
    pub(crate) fn lock(&mut self, to: Level) -> Result<(), Failure> {
        if to <= self.level {
            return Ok(());
        }
        self.owned()?;
        if self.level == Level::None {
            if !self.file.is_free(PENDING, Lock::Shared)? {
                return Err(Failure::Busy);
            }
            self.take(SHARED, Lock::Shared)?;
            self.level = Level::Shared;
        }
        if to == Level::Reserved {
            self.take(RESERVED, Lock::Exclusive)?;
            self.level = Level::Reserved;
        }
        if to >= Level::Pending {
            // All at once, if no reader is there: what it has is part of it.
            if self.level == Level::Reserved && self.file.lock(STOCK, Lock::Exclusive)? {
                (self.level, self.pending) = (Level::Exclusive, true);
                return Ok(());
            }
            if !self.pending {
                self.take(PENDING, Lock::Exclusive)?;
                self.pending = true;
            }
            self.take(SHARED, Lock::Exclusive)?;
            self.level = Level::Exclusive;
        }
        Ok(())
    }

    /// Lowers the lock; that of the parent of a forked child stays.
    pub(crate) fn unlock(&mut self, to: Level) -> Result<(), Failure> {
        if self.owned().is_err() {
            return Ok(());
        }
        if to == Level::None {
            self.file.unlock(STOCK)?;
        } else if self.level > Level::Shared || self.pending {
            // First what was exclusive, so that the lock is never given up in between.
            self.take(SHARED, Lock::Shared)?;
            self.file.unlock(Range::new(PENDING.start, 2))?;
        }
        (self.level, self.pending) = (self.level.min(to), false);
        Ok(())
    }

    /// Returns whether any connection is going to write.
    pub(crate) fn is_reserved(&self) -> Result<bool, Failure> {
        self.owned()?;
        Ok(self.level >= Level::Reserved || self.file.is_locked_by_others(RESERVED)?)
    }

    /// Keeps others from opening and closing the file; waits for those that do.
    pub(crate) fn shut_door(&self) -> Result<(), Failure> {
        self.owned()?;
        Ok(self.file.wait_for_lock(DOOR, Lock::Exclusive)?)
    }

    /// Lets others open and close it.
    pub(crate) fn open_door(&self) -> Result<(), Failure> {
        self.owned()?;
        Ok(self.file.unlock(DOOR)?)
    }

    /// Returns whether nobody else has the file open. If so, that stays so until [`Self::open_door`].
    pub(crate) fn is_alone(&self) -> Result<bool, Failure> {
        self.owned()?;
        Ok(self.file.lock(LIFE, Lock::Exclusive)?)
    }

    /// Says that the file is open from now on.
    pub(crate) fn live(&self) -> Result<(), Failure> {
        self.take(LIFE, Lock::Shared)
    }

    /// Says that the file is not open any more.
    pub(crate) fn die(&self) -> Result<(), Failure> {
        self.owned()?;
        Ok(self.file.unlock(LIFE)?)
    }
}
