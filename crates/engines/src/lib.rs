//! The papers' methods: the contract of an engine, and one file for each.
//!
//! | engine | paper | file |
//! |---|---|---|
//! | InP, in-place updates | P1 3.1 | `inp.rs` |
//! | CoW, copy-on-write updates | P1 3.2 | `cow.rs` |
//! | Log, log-structured updates | P1 3.3 | `log.rs` |
//! | NVM-InP, NVM-aware in-place updates | P1 4.1 | `nvm_inp.rs` |
//! | NVM-CoW, NVM-aware copy-on-write updates | P1 4.2 | `nvm_cow.rs` |
//! | NVM-Log, NVM-aware log-structured updates | P1 4.3 | `nvm_log.rs` |
//! | NV-Disk, pages, row locks and ARIES over a central log | P2 3.1 | `nv_disk.rs`, `paged/` |
//! | NV-Logging, the same over a log in persistent memory, with flush-on-insert or flush-on-commit | P2 4 | `nv_logging.rs`, `paged/` |
//! | FAST, FASH, NVWAL, journal, wal, slotted pages in persistent memory | P3 | `failure_atomic.rs`, `slotted/` |
//! | SOFORT, columns and versions in persistent memory | P4 | `sofort.rs` |
//!
//! Two engines each are one half of a skeleton: `undo.rs` (NVM-InP, NVM-Log), `shadow.rs` (CoW,
//! NVM-CoW), `redo.rs` (InP, Log).
//!
//! An engine object is one partition and runs one transaction at a time, as P1 3 has it; who may
//! use it when is the caller's business. An engine that runs many gives [`Sessions`]. What each is
//! stands in [`EngineTraits`].

#![forbid(unsafe_code)]

mod base;
mod contract;
mod counts;
mod cow;
mod error;
mod failure_atomic;
mod inp;
mod kind;
mod kinds;
mod list;
mod log;
mod nv_disk;
mod nv_logging;
mod nvm_cow;
mod nvm_inp;
mod nvm_log;
mod options;
mod own;
mod packed_tables;
mod paged;
mod redo;
mod savepoints;
mod scan;
mod sessions;
mod shadow;
mod slotted;
mod sofort;
mod state;
mod stats;
pub mod table2;
mod traits;
mod transaction;
mod undo;
mod version;
mod version_reader;

pub use self::paged::{
    LogFigures, Paged, PagedCounts, PagedFigures, PagedLog, find_until, inspect_paged,
};
pub use self::slotted::Slotted;
pub use base::{BasePart, BaseSource, LogUntil, Restoring, VisitPage};
pub use contract::{
    CheckReport, Early, Engine, Footprint, Method, Read, Reader, RecoveredLog, RecoveryReport,
    Resources, Scan, ScanLocks, Sessions, SnapshotSource, Syncer, VersionSource, Write,
};
pub use counts::{BufferStats, PageStats, RunStats, STATS_LEVELS};
pub use cow::{Cow, CowOptions, CowStats};
pub use error::{ConflictReason, EngineError};
pub use failure_atomic::{
    Fash, FashOptions, FashStats, Fast, FastOptions, FastStats, Journal, JournalOptions,
    JournalStats, Nvwal, NvwalOptions, NvwalStats, Wal, WalOptions, WalStats,
};
pub use inp::{Inp, InpOptions, InpStats};
pub use kind::{EngineKind, ParseEngineError};
pub use kinds::{EngineOptions, create, open};
pub use log::{Log, LogOptions, LogStats};
pub use nv_disk::{CentralLog, NvDisk, NvDiskOptions, NvDiskStats};
pub use nv_logging::{
    FlushOnCommit, FlushOnInsert, InPool, NvLoggingFoc, NvLoggingFocOptions, NvLoggingFocStats,
    NvLoggingFoi, NvLoggingFoiOptions, NvLoggingFoiStats,
};
pub use nvm_cow::{NvmCow, NvmCowOptions, NvmCowStats};
pub use nvm_inp::{NvmInp, NvmInpOptions, NvmInpStats};
pub use nvm_log::{NvmLog, NvmLogOptions, NvmLogStats};
pub use options::{EngineOption, Limits, NODE_BYTES, OptionError, OwnOptions, Setup};
pub use own::OwnStats;
pub use savepoints::Savepoints;
pub use sessions::Maker;
pub use sofort::{Sofort, SofortOptions, SofortStats};
pub use stats::{EngineStats, StructureStats};
pub use traits::{Concurrency, DurableIn, EngineTraits, Isolation, Unfinished};
pub use transaction::{Begin, InFlight, TxId};
pub use version::Version;
pub use version_reader::VersionReader;

/// Re-exports what the layers above need of the layers below.
pub mod below {
    pub use heap::{Heap, HeapError, HeapOptions, Lane, Lanes, Purpose};
    pub use index::Direction;
    pub use pm::{
        Access, AroundPath, Bad, Counters, Domain, Dram, Environment, Epoch, Escaped, File, Files,
        FilesOf, FlushInstruction, GrowError, HeaderDamage, HostFiles, IDENTITY, LastTransaction,
        LastTransactions, Left, Medium, Memory, Named, Native, NewFile, NewPool, NothingMore, Off,
        POOL_DATA_START, Pairing, ParseDomainError, Place, Pool, PoolError, PoolInfo, PoolOptions,
        Range, Site, Source, Step, Unfinished, addresses_left, boot_id, free_bytes, medium_of,
        random_uuid, read_header, remove_unfinished, share_of_addresses, stamp_of, visible_json,
    };
    pub use storage::{
        Catalog, Column, ColumnType, Constant, Description, FromValue, IndexSchema, MAX_COLUMNS,
        MAX_INLINE_BYTES, MAX_INLINE_TUPLE, MAX_VALUE_BYTES, OwnedValue, Row, RowColumn, RowError,
        RowNames, Schema, StorageError, StoredColumns, TableKey, TableLayout, TableSchema, Value,
        WorkDone, checkpoint, compare_floats, did_you_mean, json_error, lsm::LsmError, shortened,
        shown_key, text, wal, without_mark,
    };
}
