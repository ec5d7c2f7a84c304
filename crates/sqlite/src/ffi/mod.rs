//! SQLite's side: tables of C functions that it calls and that it is called by.
//!
//! No panic leaves a function that SQLite calls: it would unwind through C.

pub mod abi;
mod absent;
pub mod api;
pub mod entry;
mod guard;
mod journal;
mod main_file;
mod registry;
mod result_code;
pub mod vfs;
