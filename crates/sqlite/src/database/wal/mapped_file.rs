//! A mapped file of a connection in WAL mode.

use std::cell::Cell;
use std::path::{Path, PathBuf};

use pm::{Domain, Memory as _, Off, Plain, Range};

use crate::database::contract::Failure;
use crate::database::wal::media::WalFile;

/// A mapped file. The time of its last change is what programs look at that copy what has changed, and a store in the
/// mapping may leave it as it is. The database's is set at the first store and at the last close after one: once a
/// checkpoint would be a call in the steady state.
#[derive(Debug)]
pub(crate) struct MappedFile {
    file: Plain,
    path: PathBuf,
    is_database: bool,
    /// A store was made in the database.
    is_changed: Cell<bool>,
}

impl MappedFile {
    /// A log.
    pub(super) fn new(file: Plain, path: &Path) -> Self {
        Self { file, path: path.to_owned(), is_database: false, is_changed: Cell::new(false) }
    }

    /// The database.
    pub(super) fn of_database(file: Plain, path: &Path) -> Self {
        let mut database = Self::new(file, path);
        database.is_database = true;
        database
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        if self.is_changed.get() {
            self.file.touch();
        }
    }
}

impl WalFile for MappedFile {
    #[inline]
    fn bytes(&self) -> u64 {
        self.file.len()
    }

    fn see(&self) -> Result<(), Failure> {
        Ok(self.file.see_growing()?)
    }

    #[inline]
    fn read_into(&self, at: u64, out: &mut [u8]) -> Result<(), Failure> {
        Ok(self.file.read_into(Off::new(at), out)?)
    }

    #[inline]
    fn address(&self, range: Range) -> Result<*const u8, Failure> {
        Ok(self.file.address(range)?)
    }

    #[inline]
    fn copy(&self, at: u64, bytes: &[u8]) {
        if self.is_database && !self.is_changed.replace(true) {
            self.file.touch();
        }
        self.file.copy(Off::new(at), bytes);
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> Result<(), Failure> {
        Ok(self.file.write_at(at, bytes)?)
    }

    fn cut(&self, to: u64) -> Result<(), Failure> {
        Ok(self.file.cut(to)?)
    }

    fn sync_length(&self) -> Result<(), Failure> {
        Ok(self.file.sync()?)
    }

    fn sync_name(&self) -> Result<(), Failure> {
        Ok(self.file.sync_name(&self.path)?)
    }

    #[inline]
    fn outlasts_power(&self) -> bool {
        self.file.domain() != Domain::Process
    }

    #[inline]
    fn needs_flush(&self) -> bool {
        matches!(self.file.domain(), Domain::Adr | Domain::Disk)
    }

    fn flush(&self, range: Range) {
        self.file.flush(range);
    }

    fn fence(&self) {
        self.file.fence();
    }

    #[inline]
    fn healthy(&self) -> Result<(), Failure> {
        Ok(self.file.healthy()?)
    }
}
