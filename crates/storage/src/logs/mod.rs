//! Logs, which make a transaction durable or take it back: the log of the engines with files, with
//! its group commit and its checkpoints, and the undo log of those with non-volatile memory.
//!
//! | what | file |
//! |---|---|
//! | files of log segments, whatever is in them: names, headers, space | `segments/` |
//! | write-ahead log in files, ordered by LSN; syncs that several share | `wal.rs`, `wal/` |
//! | what its records say | `operation.rs` |
//! | checkpoints of that log | `checkpoint.rs` |
//! | the stamp of a database in the headers of both | `stamp.rs` |
//! | undo log in non-volatile memory, its entries | `undo_log.rs`, `undo_entry.rs` |
//! | slots that a transaction has superseded, until their entries are gone | `superseded.rs` |
//!
//! Knows nothing of tables, trees and runs: those give it what to write and read it back.

pub mod checkpoint;
pub mod operation;
pub mod segments;
mod stamp;
pub(crate) mod superseded;
pub(crate) mod undo_entry;
pub(crate) mod undo_log;
pub mod wal;
