//! The door of a database: one connection at a time opens or closes it, and finds out whether it is alone.
//!
//! Both are locks on bytes of the side file that belong to the open file: whoever dies leaves none, except to a child
//! that he has forked, for as long as that lives.

use pm::{Bad, Lock, Memory as _, Plain, Range};

use crate::database::contract::Failure;

/// The first byte of the side file that is locked: far behind those that stock SQLite locks in a database.
pub(crate) const LOCKS: u64 = 0x4000_0000 + 1024;
/// Held while a connection opens or closes the file.
const DOOR: Range = Range::new(LOCKS, 1);
/// Held as long as a connection is open.
const LIFE: Range = Range::new(LOCKS + 1, 1);

/// Returns an error in a forked child: the locks are its parent's, too, and none of its calls may change
/// them.
pub(crate) fn owned(file: &Plain) -> Result<(), Failure> {
    match file.healthy() {
        Err(Bad::Forked) => Err(Failure::Io(Bad::Forked.to_string())),
        _ => Ok(()),
    }
}

/// The door of one connection's database.
#[derive(Debug)]
pub(crate) struct Door(Plain);

impl Door {
    /// The door in a side file.
    pub(crate) fn of(side: &Plain) -> Self {
        Self(side.clone())
    }

    /// Keeps others from opening and closing the file; waits for those that do.
    pub(crate) fn shut(&self) -> Result<(), Failure> {
        owned(&self.0)?;
        Ok(self.0.wait_for_lock(DOOR, Lock::Exclusive)?)
    }

    /// Lets others open and close it.
    pub(crate) fn open(&self) -> Result<(), Failure> {
        owned(&self.0)?;
        Ok(self.0.unlock(DOOR)?)
    }

    /// Returns whether nobody else has the file open. If so, that stays so until [`Self::open`].
    pub(crate) fn is_alone(&self) -> Result<bool, Failure> {
        owned(&self.0)?;
        Ok(self.0.lock(LIFE, Lock::Exclusive)?)
    }

    /// Says that the file is open from now on.
    pub(crate) fn live(&self) -> Result<(), Failure> {
        owned(&self.0)?;
        if self.0.lock(LIFE, Lock::Shared)? { Ok(()) } else { Err(Failure::Busy) }
    }

    /// Says that the file is not open any more.
    pub(crate) fn die(&self) -> Result<(), Failure> {
        owned(&self.0)?;
        Ok(self.0.unlock(LIFE)?)
    }
}
