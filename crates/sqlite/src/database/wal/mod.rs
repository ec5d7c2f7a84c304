//! SQLite's WAL mode: what the database file and the log file of one connection share.
//!
//! - A connection *enters* WAL mode when it opens the database or its log: it opens `NAME-shm` past the gate
//!   (`database::wal::index_file`), which keeps stock SQLite out, and claims a line there for its locks. It leaves when
//!   SQLite does, at the latest when the file is closed.
//! - While its log is open, SQLite's rules for logs hold: pages of the database are read and written where they are,
//!   without the store. The database then has no marker, and each connection in WAL mode holds its shared lock, so none
//!   can commit through the store.
//! - `NAME-shm` outlives a log, for as long as any connection is in WAL mode. The connection that opens the log while no
//!   other one has it open forgets SQLite's index and the words about the two files. A log is opened and used only under
//!   the database's shared lock, so a connection in exclusive mode, whose index is its own, meets none that has it open.
//! - `NAME` and `NAME-wal` are SQLite's own. After a kill any SQLite recovers them, unless there is a differential log
//!   ([`diff`]).

mod connection;
mod database;
mod diff;
mod index_file;
mod index_words;
mod log;
mod mapped_file;
mod media;
mod native;
mod opener;
mod records;

pub(super) use connection::{Locks, Parts, WalConnection, index_path};
pub use database::WalDatabase;
pub use diff::{Commits, DiffFiles, DiffLog, create as create_records, recover as recover_records};
pub(super) use index_file::stock_lives;
pub use log::MappedLog;
pub use media::{Counters, WalFile, WalShared, WalWord};
pub(super) use native::Database;
pub(super) use opener::WalOpener;
pub use records::RECORDS_SUFFIX;
pub(super) use records::recover_closed;
