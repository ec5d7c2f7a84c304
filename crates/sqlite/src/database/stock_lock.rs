//! SQLite's lock levels on bytes of a database file, as stock SQLite uses them. The locks belong to the open file
//! description.
//!
//! A reader holds a shared lock on the shared bytes. A writer holds the reserved byte; before it waits for readers it
//! takes the pending byte, which every new reader checks. A reader that checked just before may still come in. A
//! process that dies leaves no lock.

use pm::{Lock, Plain, Range};

use crate::database::contract::{Failure, Level};
use crate::database::open_close_lock::check_not_forked;

const PENDING: Range = Range::new(0x4000_0000, 1);
const RESERVED: Range = Range::new(PENDING.start + 1, 1);
const SHARED: Range = Range::new(PENDING.start + 2, 510);
/// All bytes that stock SQLite locks.
pub(crate) const STOCK: Range = Range::new(PENDING.start, 512);

/// The lock of one connection on a file.
#[derive(Debug)]
pub(crate) struct StockLock {
    file: Plain,
    level: Level,
    /// The pending byte is locked although the level is lower.
    pending: bool,
}

impl StockLock {
    pub(crate) fn new(file: Plain) -> Self {
        Self { file, level: Level::None, pending: false }
    }

    pub(crate) fn level(&self) -> Level {
        self.level
    }

    /// Returns whether it keeps new readers out but has not the exclusive lock.
    pub(crate) fn is_pending(&self) -> bool {
        self.pending && self.level < Level::Exclusive
    }

    fn check_not_forked(&self) -> Result<(), Failure> {
        check_not_forked(&self.file)
    }

    fn take(&self, range: Range, lock: Lock) -> Result<(), Failure> {
        self.check_not_forked()?;
        if self.file.lock(range, lock)? { Ok(()) } else { Err(Failure::Busy) }
    }

    /// Raises the lock.
    ///
    /// # Errors
    /// Busy. The level is unchanged, but no new reader gets in if the exclusive lock was requested.
    pub(crate) fn lock(&mut self, to: Level) -> Result<(), Failure> {
        if to <= self.level {
            return Ok(());
        }
        self.check_not_forked()?;
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
            // All bytes at once, if there is no reader: the range contains those already held.
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

    /// Lowers the lock exactly to this level. In a forked child it changes nothing.
    ///
    /// # Errors
    /// The kernel refuses. The level says what is left.
    pub(crate) fn unlock(&mut self, to: Level) -> Result<(), Failure> {
        if self.check_not_forked().is_err() || to > Level::Shared && to >= self.level {
            return Ok(());
        }
        if to == Level::None {
            self.file.unlock(STOCK)?;
        } else if self.level > Level::Shared || self.pending {
            // The exclusive part first, so that the shared lock is never released in between.
            if self.level == Level::Exclusive {
                self.take(SHARED, Lock::Shared)?;
                self.level = to;
            }
            let above = if to == Level::Shared { 2 } else { 1 };
            self.file.unlock(Range::new(PENDING.start, above))?;
        }
        (self.level, self.pending) = (self.level.min(to), false);
        Ok(())
    }

    /// Returns whether any connection has begun to write.
    pub(crate) fn is_reserved(&self) -> Result<bool, Failure> {
        self.check_not_forked()?;
        Ok(self.level >= Level::Reserved || self.file.is_locked_by_others(RESERVED)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_is_lowered_exactly_to_the_requested_level() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = folder.path().join("db");
        let options = pm::PlainOptions { create: true, ..pm::PlainOptions::default() };
        let mut levels = StockLock::new(Plain::open(&path, &options).unwrap());
        let other = Plain::open(&path, &options).unwrap();
        let kept = || {
            [PENDING, RESERVED, SHARED].map(|range| {
                [Lock::Shared, Lock::Exclusive].map(|lock| !other.is_free(range, lock).unwrap())
            })
        };
        let all = [Level::Shared, Level::Reserved, Level::Exclusive];
        let (free, read, own) = ([false; 2], [false, true], [true; 2]);
        for from in all {
            for to in [Level::None, Level::Shared, Level::Reserved, Level::Exclusive] {
                for level in all.into_iter().filter(|level| *level <= from) {
                    levels.lock(level).unwrap();
                }
                levels.unlock(to).unwrap();
                let left = from.min(to);
                let locks = match left {
                    Level::None => [free; 3],
                    Level::Shared => [free, free, read],
                    Level::Reserved => [free, own, read],
                    _ => [own; 3],
                };
                assert_eq!((levels.level(), kept()), (left, locks), "{from:?} to {to:?}");
                levels.unlock(Level::None).unwrap();
            }
        }
    }
}
