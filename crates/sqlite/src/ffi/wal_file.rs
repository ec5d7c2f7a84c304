//! A write-ahead log of this VFS, as SQLite sees it.

use std::ffi::c_int;

use super::abi::device;
use super::log_file::OpenLog;
use crate::database::{Failure, LogFile};

/// A log.
#[derive(Debug)]
pub(crate) struct Log(pub(crate) Box<dyn LogFile>);

impl OpenLog for Log {
    /// SQLite asks the database file for the others.
    const CHARACTERISTICS: c_int = device::POWERSAFE_OVERWRITE;

    fn close(self) {}
}

impl LogFile for Log {
    fn read(&mut self, at: u64, out: &mut [u8]) -> Result<usize, Failure> {
        self.0.read(at, out)
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Failure> {
        self.0.write(at, bytes)
    }

    fn truncate(&mut self, to: u64) -> Result<(), Failure> {
        self.0.truncate(to)
    }

    fn sync(&mut self) -> Result<(), Failure> {
        self.0.sync()
    }

    fn size(&mut self) -> Result<u64, Failure> {
        self.0.size()
    }
}
