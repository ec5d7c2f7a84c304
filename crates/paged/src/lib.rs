//! A storage manager for databases larger than memory: slotted pages, a buffer pool, B+trees, row
//! locks, and ARIES over a log that is chosen (P2).
//!
//! | question | module |
//! |---|---|
//! | which numbers name pages, trees, transactions and places in the log | [`ids`] |
//! | what a log manager promises | [`log`] |
//! | who may read and write which row | [`lock`] |
//! | how is a database what it was after a crash | [`recovery`] |
//! | how threads wait for each other | [`threads`] |
//!
//! It knows no engine and no schema: keys and rows are bytes, keys ordered as their bytes are.

#![forbid(unsafe_code)]

mod error;
pub mod ids;
pub mod lock;
pub mod log;
pub mod recovery;
pub mod threads;

pub use error::{Conflict, PagedError};

/// The result of an operation of this crate.
pub type Result<T> = std::result::Result<T, PagedError>;
