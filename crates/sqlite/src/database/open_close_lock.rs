//! The open-close lock: one connection at a time opens or closes a database, and learns whether it is the only one.
//!
//! Both locks are kernel locks on bytes of the side file that belong to the open file description. A process that dies
//! leaves none.

use pm::{Bad, Lock, Memory as _, Plain, Range};

use crate::database::contract::Failure;

/// The first locked byte of the side file, far past those that stock SQLite locks in a database.
pub(crate) const LOCKS_START: u64 = 0x4000_0000 + 1024;
/// Held while a connection opens or closes the file.
const OPEN_CLOSE: Range = Range::new(LOCKS_START, 1);
/// Held for as long as a connection is open.
const IS_OPEN: Range = Range::new(LOCKS_START + 1, 1);
/// Held for as long as a connection is in WAL mode.
const IN_WAL_MODE: Range = Range::new(LOCKS_START + 2, 1);
/// Held for as long as a connection has the write-ahead log open. The kernel drops it together with the locks by which
/// others see that the connection is alive.
const LOG_IS_OPEN: Range = Range::new(LOCKS_START + 3, 1);

/// Returns an error in a forked child: the locks belong to its parent as well, and the child may not change
/// them.
pub(crate) fn check_not_forked(file: &Plain) -> Result<(), Failure> {
    match file.healthy() {
        Err(Bad::Forked) => Err(Failure::Io(Bad::Forked.to_string())),
        _ => Ok(()),
    }
}

/// The open-close lock of one connection's database.
#[derive(Debug)]
pub(crate) struct OpenCloseLock(Plain);

impl OpenCloseLock {
    /// The lock in a side file.
    pub(crate) fn new(side: &Plain) -> Self {
        Self(side.clone())
    }

    /// Keeps others from opening and closing the file; waits for those that do.
    pub(crate) fn lock(&self) -> Result<(), Failure> {
        check_not_forked(&self.0)?;
        Ok(self.0.wait_for_lock(OPEN_CLOSE, Lock::Exclusive)?)
    }

    /// Lets others open and close the file.
    pub(crate) fn unlock(&self) -> Result<(), Failure> {
        check_not_forked(&self.0)?;
        Ok(self.0.unlock(OPEN_CLOSE)?)
    }

    /// Returns whether no other connection has the file open. If so, that holds until [`Self::unlock`].
    pub(crate) fn is_alone(&self) -> Result<bool, Failure> {
        check_not_forked(&self.0)?;
        Ok(self.0.lock(IS_OPEN, Lock::Exclusive)?)
    }

    /// Marks the file as open by this connection.
    pub(crate) fn set_open(&self) -> Result<(), Failure> {
        check_not_forked(&self.0)?;
        if self.0.lock(IS_OPEN, Lock::Shared)? { Ok(()) } else { Err(Failure::Busy) }
    }

    /// Returns whether no other connection is in WAL mode. If so, that holds until [`Self::unlock`].
    pub(crate) fn is_alone_in_wal_mode(&self) -> Result<bool, Failure> {
        check_not_forked(&self.0)?;
        Ok(self.0.lock(IN_WAL_MODE, Lock::Exclusive)?)
    }

    /// Marks this connection as in WAL mode, or not.
    pub(crate) fn set_in_wal_mode(&self, is_in: bool) -> Result<(), Failure> {
        check_not_forked(&self.0)?;
        if !is_in {
            return Ok(self.0.unlock(IN_WAL_MODE)?);
        }
        if self.0.lock(IN_WAL_MODE, Lock::Shared)? { Ok(()) } else { Err(Failure::Busy) }
    }

    /// Returns whether no other connection has the write-ahead log open. If so, that holds until [`Self::unlock`].
    pub(crate) fn has_no_log_open(&self) -> Result<bool, Failure> {
        check_not_forked(&self.0)?;
        Ok(self.0.lock(LOG_IS_OPEN, Lock::Exclusive)?)
    }

    /// Marks the write-ahead log as open by this connection, or not.
    pub(crate) fn set_log_open(&self, is_open: bool) -> Result<(), Failure> {
        check_not_forked(&self.0)?;
        if !is_open {
            return Ok(self.0.unlock(LOG_IS_OPEN)?);
        }
        if self.0.lock(LOG_IS_OPEN, Lock::Shared)? { Ok(()) } else { Err(Failure::Busy) }
    }

    /// Marks the file as closed by this connection.
    pub(crate) fn set_closed(&self) -> Result<(), Failure> {
        check_not_forked(&self.0)?;
        Ok(self.0.unlock(IS_OPEN)?)
    }
}
