//! What is each paper's method? The contract of an engine, and one file for each.
//!
//! | engine | paper | file |
//! |---|---|---|
//! | InP, in-place updates | P1 3.1 | `inp.rs` |
//! | NVM-InP, NVM-aware in-place updates | P1 4.1 | `nvm_inp.rs` |
//! | NVM-Log, NVM-aware log-structured updates | P1 4.3 | `nvm_log.rs` |
//!
//! An engine object is one partition and runs one transaction at a time, as P1 3 has it; who may
//! use it when is the caller's business.

#![forbid(unsafe_code)]

mod contract;
mod error;
mod inp;
mod nvm_inp;
mod nvm_log;
pub mod table2;

pub use contract::{
    CheckReport, Engine, EngineKind, EngineOptions, Footprint, ParseEngineError, RecoveryReport,
    Resources, Scan,
};
pub use error::EngineError;
pub use inp::Inp;
pub use nvm_inp::NvmInp;
pub use nvm_log::NvmLog;

/// What the layers above need of the layers below.
pub mod below {
    pub use heap::{Heap, HeapError, HeapOptions, Lane, Purpose};
    pub use index::Direction;
    pub use pm::{
        Access, Bad, Counters, CrashPoint, DiskReplay, Domain, Dram, Environment, Event, File,
        Files, FlushInstruction, GrowError, HeaderDamage, HostFiles, Medium, Memory, Native, Off,
        POOL_DATA_START, ParseDomainError, Pool, PoolError, PoolInfo, PoolOptions, Range, Recorded,
        Recording, RecordingFiles, Replay, Site, Step, Trace, boot_id, medium_of, read_header,
    };
    pub use storage::{
        Catalog, Column, ColumnType, Description, IndexSchema, MAX_COLUMNS, MAX_VALUE_BYTES, Row,
        Schema, StorageError, TableLayout, TableSchema, Value, checkpoint, wal,
    };
}
