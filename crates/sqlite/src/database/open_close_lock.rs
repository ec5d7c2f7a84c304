//! The door of a database: one connection at a time opens or closes it, and finds out whether it is alone.
//!
//! Both are locks on bytes of the side file that belong to the open file: whoever dies leaves none, except to a child
//! that he has forked, for as long as that lives.

use pm::{Bad, Lock, Memory as _, Plain, Range};

use crate::database::contract::Failure;

/// The first byte of the side file that is locked: far behind those that stock SQLite locks in a database.
pub(crate) const LOCKS_START: u64 = 0x4000_0000 + 1024;
/// Held while a connection opens or closes the file.
const OPEN_CLOSE: Range = Range::new(LOCKS_START, 1);
/// Held as long as a connection is open.
const IS_OPEN: Range = Range::new(LOCKS_START + 1, 1);

/// Returns an error in a forked child: the locks are its parent's, too, and none of its calls may change
/// them.
pub(crate) fn check_not_forked(file: &Plain) -> Result<(), Failure> {
    match file.healthy() {
        Err(Bad::Forked) => Err(Failure::Io(Bad::Forked.to_string())),
        _ => Ok(()),
    }
}

/// The door of one connection's database.
#[derive(Debug)]
pub(crate) struct OpenCloseLock(Plain);

impl OpenCloseLock {
    /// The door in a side file.
    pub(crate) fn new(side: &Plain) -> Self {
        Self(side.clone())
    }

    /// Keeps others from opening and closing the file; waits for those that do.
    pub(crate) fn lock(&self) -> Result<(), Failure> {
        check_not_forked(&self.0)?;
        Ok(self.0.wait_for_lock(OPEN_CLOSE, Lock::Exclusive)?)
    }

    /// Lets others open and close it.
    pub(crate) fn unlock(&self) -> Result<(), Failure> {
        check_not_forked(&self.0)?;
        Ok(self.0.unlock(OPEN_CLOSE)?)
    }

    /// Returns whether nobody else has the file open. If so, that stays so until [`Self::unlock`].
    pub(crate) fn is_alone(&self) -> Result<bool, Failure> {
        check_not_forked(&self.0)?;
        Ok(self.0.lock(IS_OPEN, Lock::Exclusive)?)
    }

    /// Says that the file is open from now on.
    pub(crate) fn set_open(&self) -> Result<(), Failure> {
        check_not_forked(&self.0)?;
        if self.0.lock(IS_OPEN, Lock::Shared)? { Ok(()) } else { Err(Failure::Busy) }
    }

    /// Says that the file is not open any more.
    pub(crate) fn set_closed(&self) -> Result<(), Failure> {
        check_not_forked(&self.0)?;
        Ok(self.0.unlock(IS_OPEN)?)
    }
}
