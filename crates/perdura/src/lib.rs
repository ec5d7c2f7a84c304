//! An embedded transactional database that is already there when you restart it.
//!
//! ```
//! use perdura::{ColumnType, Database, Options, Schema, TableSchema, Value};
//!
//! # fn main() -> Result<(), perdura::Error> {
//! # let directory = std::env::temp_dir().join(format!("perdura-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&directory).unwrap();
//! # let path = directory.join("accounts");
//! let table = TableSchema::new("account")
//!     .column("id", ColumnType::U64)
//!     .column("owner", ColumnType::Text { max: 80 })
//!     .column("balance", ColumnType::I64)
//!     .key(&["id"]);
//! let db = Database::open_or_create(&path, &Schema::new().table(table), &Options::new())?;
//! let account = db.table("account")?;
//! db.write(|tx| {
//!     tx.insert(&account, &[Value::U64(1), Value::Text("Ada"), Value::I64(100)])?;
//!     tx.insert(&account, &[Value::U64(2), Value::Text("Grace"), Value::I64(50)])
//! })?; // both rows are durable, or neither is there
//! drop(db); // or kill -9
//!
//! let db = Database::open(&path, &Options::new())?; // nothing to load
//! let row = db.get(&db.table("account")?, &[Value::U64(2)])?.expect("Grace has an account");
//! assert_eq!((row.try_get("owner")?, row.i64(2)), ("Grace", 50));
//! # drop(db);
//! # std::fs::remove_dir_all(&directory).unwrap();
//! # Ok(())
//! # }
//! ```
//!
//! Columns may be NULL and have defaults, and an index may be unique:
//!
//! ```
//! use perdura::{ColumnType, Database, Error, Options, Schema, TableSchema, Value};
//!
//! # fn main() -> Result<(), perdura::Error> {
//! # let directory = std::env::temp_dir().join(format!("perdura-null-{}", std::process::id()));
//! # std::fs::create_dir_all(&directory).unwrap();
//! let user = TableSchema::new("user")
//!     .column("id", ColumnType::U64)
//!     .column("mail", ColumnType::Text { max: 80 })
//!     .nullable()
//!     .column("active", ColumnType::Bool)
//!     .default(Value::Bool(true))
//!     .key(&["id"])
//!     .unique_index("by_mail", &["mail"]);
//! let schema = Schema::new().table(user);
//! let db = Database::create(directory.join("users"), &schema, &Options::new())?;
//! let user = db.table("user")?;
//! db.write(|tx| {
//!     tx.insert(&user, &[Value::U64(1), Value::Text("ada@example.org"), Value::Bool(false)])?;
//!     // Columns that are not named get their defaults, or are NULL. No NULL equals another.
//!     tx.insert_columns(&user, &[("id", Value::U64(2))])?;
//!     tx.insert_columns(&user, &[("id", Value::U64(3))])
//! })?;
//! let row = db.get(&user, &[Value::U64(2)])?.expect("it was inserted");
//! assert!(row.is_null(1) && row.bool(2));
//! let again = [("mail", Value::Text("ada@example.org"))];
//! let refused = db.write(|tx| tx.update(&user, &[Value::U64(2)], &again));
//! assert!(matches!(refused, Err(Error::DuplicateKey { index: Some(_), .. })));
//! # drop(db);
//! # std::fs::remove_dir_all(&directory).unwrap();
//! # Ok(())
//! # }
//! ```
//!
//! A struct can declare a table, and its values are the rows then: [`TableRow`].
//!
//! Transactions, or a thread of the database, do in small parts the work that an engine defers,
//! such as merging runs: [`Options::background`].
//!
//! The durability [`Domain`] of the pool says what survives: see `docs/guarantees.md`. The
//! [`EngineKind`] is the method that stores and recovers.

#![forbid(unsafe_code)]

mod about;
mod administration;
mod any_engine;
mod background;
mod batches;
mod changes;
mod choice;
mod closer;
mod columns;
mod database;
mod declared;
mod error;
mod exports;
mod group;
mod held;
mod holder;
mod host;
mod key;
mod media;
mod opening;
mod options;
mod partition_lock;
mod point_in_time;
mod reachable;
mod read;
mod rerun;
mod rows;
mod savepoint;
mod scan;
mod sessions;
mod sharing;
mod snapshot;
mod sticky_conflict;
mod sync;
mod table;
mod transaction;
mod typed;
mod waits;
mod wakeup;

pub use administration::{
    Backup, CopyProgress, CopyStep, CopySummary, Examination, Existing, Finding, Findings,
    InspectedFiles, Inspection, LoadOptions, Salvage, Salvaged, Until, Watch, examine_parts,
    inspect, salvage,
};
pub use any_engine::Engines;
pub use choice::{EngineChoice, ParseChoiceError};
#[doc(hidden)]
pub use columns::ColumnList;
pub use columns::ColumnRef;
pub use database::{Database, Exclusive, Partition};
#[doc(inline)]
pub use derive::Table;
#[doc(hidden)]
pub use engines::Maker;
pub use engines::below::{
    MAX_INLINE_BYTES, MAX_INLINE_TUPLE, boot_id, free_bytes, medium_of, remove_unfinished,
};
pub use error::{BackupError, Error, Kept, LinesError};
pub use exports::data::{
    Column, ColumnType, Constant, Direction, FromValue, IndexSchema, Row, RowColumn, RowError,
    Schema, TableSchema, Value,
};
pub use exports::engine::{
    Concurrency, ConflictReason, DurableIn, EngineKind, EngineTraits, InFlight, Isolation,
    ParseEngineError, TxId, Unfinished,
};
pub use exports::engine_options::{
    CowOptions, EngineOption, EngineOptions, FashOptions, FastOptions, InpOptions, JournalOptions,
    Limits, LogOptions, NvDiskOptions, NvLoggingFocOptions, NvLoggingFoiOptions, NvmCowOptions,
    NvmInpOptions, NvmLogOptions, NvwalOptions, OptionError, OwnOptions, SofortOptions, WalOptions,
};
pub use exports::engine_stats::{
    BufferStats, CheckReport, CowStats, EngineStats, FashStats, FastStats, Footprint, InpStats,
    JournalStats, LogFigures, LogStats, NvDiskStats, NvLoggingFocStats, NvLoggingFoiStats,
    NvmCowStats, NvmInpStats, NvmLogStats, NvwalStats, OwnStats, PageStats, PagedFigures,
    RecoveredLog, RecoveryReport, RunStats, SofortStats, StructureStats, WalStats, WorkDone,
};
pub use exports::pool::{
    Bad, Counters, Domain, Environment, FlushInstruction, HeaderDamage, Medium, Native,
    NothingMore, ParseDomainError, PoolError, PoolInfo,
};
pub use holder::Holder;
pub use media::Media;
pub use opening::OpeningTimes;
pub use options::{Background, Commit, Options, Placement, WriteOptions};
pub use read::Read;
pub use rows::Rows;
pub use savepoint::Savepoint;
#[doc(hidden)]
pub use scan::KeyList;
pub use scan::{KeyRange, KeyValues, Scan};
pub use snapshot::Snapshot;
pub use table::Table;
pub use transaction::{ReadTx, Ticket, Tx};
#[doc(hidden)]
pub use typed::derived;
pub use typed::{Field, TableRow, TypedRows, TypedTable};
