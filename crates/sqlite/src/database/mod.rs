//! A database file as one connection sees it: locks, the side file, and the store.

mod calls;
mod connection_lock;
mod contract;
mod journal_bytes;
mod mapped;
mod memory_file;
mod names;
mod not_taken;
mod open_close_lock;
mod parameters;
mod placeholder_journal;
mod plain_retry;
mod side_queue;
mod slot_owners;
mod stock_lock;
mod stock_sharing;
mod waiting;
mod wal;
mod wal_mode;

pub use contract::{
    Failure, IndexLock, JournalEpoch, Level, LogFile, LogOpener, MainFile, OpenOptions, Opened,
    Opener, SuperJournalNotice,
};
pub(crate) use journal_bytes::JournalBytes;
pub use mapped::{Mapped, MappedOpener, SIDE_SUFFIX};
pub use memory_file::MemoryFile;
pub use not_taken::why_not_taken;
pub use placeholder_journal::name_at_end;
pub(crate) use placeholder_journal::{JOURNAL_MAGIC, NAMED_BYTES};
pub(crate) use waiting::sleep as sleep_until_free;
pub use wal::{
    Commits, Counters, DiffFiles, DiffLog, MappedLog, RECORDS_SUFFIX, WalDatabase, WalFile,
    WalShared, WalWord, create_records, recover_records,
};
