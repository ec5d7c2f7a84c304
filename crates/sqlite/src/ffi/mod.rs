//! The interface to SQLite: the tables of C functions in both directions.
//!
//! No panic leaves a function that SQLite calls: it would unwind through C.

pub mod abi;
mod absent;
pub mod api;
pub mod entry;
mod guard;
mod journal;
mod log_file;
mod main_file;
mod registry;
mod result_code;
pub mod vfs;
mod wal_file;
