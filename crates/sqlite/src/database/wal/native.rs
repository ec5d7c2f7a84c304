//! The files of a connection in WAL mode: mapped, and with the words of its index file.

use std::path::Path;
use std::sync::Arc;

use pm::Memory as _;

use crate::database::contract::Failure;
use crate::database::wal::connection::WalConnection;
use crate::database::wal::database::WalDatabase;
use crate::database::wal::diff::DiffLog;
use crate::database::wal::index_file::IndexFile;
use crate::database::wal::log::MappedLog;
use crate::database::wal::mapped_file::MappedFile;
use crate::database::wal::media::{Counters, WalShared, WalWord};
use crate::store::wal_index::{
    CUTS_AT, LOG_SYNCED_AT, RECORDS_AT, RECORDS_END_AT, RECORDS_SYNCED_AT, RECORDS_TURN_AT,
    RESIZED_AT, SHOWN_AT, SYNCED_AT, UNFLUSHED_AT,
};

/// One connection's log.
pub(super) type Log = MappedLog<MappedFile, Joined>;
/// One connection's log with a differential one.
pub(super) type LogWithRecords = DiffLog<MappedFile, Joined>;
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

    fn published(&self) -> u32 {
        let [first, second, third, fourth, ..] = self.index.load(SHOWN_AT).to_ne_bytes();
        u32::from_ne_bytes([first, second, third, fourth])
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
        WalWord::RecordsTurn => RECORDS_TURN_AT,
        WalWord::RecordsEnd(end) => RECORDS_END_AT + end as u64 * 16,
        WalWord::RecordsAt(end) => RECORDS_AT + end as u64 * 16,
        WalWord::RecordsSynced => RECORDS_SYNCED_AT,
    }
}
