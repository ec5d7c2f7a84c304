//! Perdura's extension under the SQLite that is linked here: connections through its VFS, and P3's workload on
//! SQLite, through it and without.
//!
//! The VFS is that of `perdura-sqlite`, as programs load it; here it is registered with the SQLite of this
//! process instead, so that nothing has to be found on a disk.

mod concurrent;
mod connection;
mod contents;
mod inputs;
mod library;
mod lines;
mod mobibench;

pub use concurrent::{
    ConcurrentRan, Setup, Side, SideRan, Signals, combine, load_concurrent, run_side, run_threads,
};
pub use connection::{Parameters, Stats, VFS, answer, open, open_stock, stats, uri};
pub use contents::Contents;
pub use inputs::{Keys, Operation, ParseNameError, Spec, SpecError, Workload};
pub use library::{register, register_with};
pub use mobibench::{ParseModeError, Ran, SqliteMode, run, run_through};
