//! The files of a connection in WAL mode: mapped, and with the words of its index file.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pm::{Domain, Memory as _, Off, Plain, Range};

use crate::database::contract::Failure;
use crate::database::wal::connection::WalConnection;
use crate::database::wal::database::WalDatabase;
use crate::database::wal::index_file::IndexFile;
use crate::database::wal::log::MappedLog;
use crate::database::wal::media::{Counters, WalFile, WalShared, WalWord};
use crate::store::wal_index::{CUTS_AT, LOG_SYNCED_AT, RESIZED_AT, SYNCED_AT, UNFLUSHED_AT};

/// One connection's log.
pub(super) type Log = MappedLog<MappedFile, Joined>;
/// One connection's database, while its log is open.
pub(crate) type Database = WalDatabase<MappedFile, Joined>;

impl Database {
    /// The database of a connection, while its log is open.
    ///
    /// # Errors
    /// The kernel does not say how long the file is.
    pub(crate) fn of(wal: &Arc<WalConnection>, path: &Path) -> Result<Option<Self>, Failure> {
        let Some(index) = wal.index() else { return Ok(None) };
        let joined = Joined { index, wal: Arc::clone(wal), is_log: false };
        Ok(Some(Self::new(MappedFile::of_database(wal.data.clone(), path), joined)?))
    }

    /// Returns an error if others do not see this connection's locks: the medium of the index has failed, or that of the
    /// side file, where this connection has given up its slot, so that it counts as dead.
    pub(crate) fn healthy(&self) -> Result<(), Failure> {
        let joined = self.shared();
        joined.wal.side.healthy()?;
        Ok(joined.index.file().healthy()?)
    }
}

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
    /// The log.
    pub(super) fn new(file: Plain, path: &Path) -> Self {
        Self { file, path: path.to_owned(), is_database: false, is_changed: Cell::new(false) }
    }

    fn of_database(file: Plain, path: &Path) -> Self {
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
        Ok(self.file.see()?)
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

/// The state that connections share in the index file.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(super) index: Arc<IndexFile>,
    pub(super) wal: Arc<WalConnection>,
    /// It belongs to the log: SQLite closes that last.
    pub(super) is_log: bool,
}

impl WalShared for Joined {
    #[inline]
    fn load(&self, word: WalWord) -> u64 {
        self.index.load(place_of(word))
    }

    #[inline]
    fn store(&self, word: WalWord, value: u64) {
        self.index.store(place_of(word), value);
    }

    #[inline]
    fn is_writer(&self) -> bool {
        self.wal.is_writer()
    }

    #[inline]
    fn counters(&self) -> &Counters {
        &self.wal.counters
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        if self.is_log {
            self.wal.log_closed();
        }
    }
}

#[inline]
fn place_of(word: WalWord) -> u64 {
    match word {
        WalWord::Cuts => CUTS_AT,
        WalWord::Unflushed => UNFLUSHED_AT,
        WalWord::LogSynced => LOG_SYNCED_AT,
        WalWord::Resized => RESIZED_AT,
        WalWord::Synced => SYNCED_AT,
    }
}
