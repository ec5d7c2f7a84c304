//! The memories and files that a database is made of.

use crate::dram::Dram;
use crate::files::{Files, HostFiles};
use crate::memory::Memory;
use crate::pool::Pool;

/// A choice of a volatile memory, a durable memory, and files.
pub trait Environment: Sized + 'static {
    /// The memory where volatile structures live.
    type Volatile: Memory;
    /// The memory where durable structures live.
    type Durable: Memory;
    /// The files where logs and checkpoints of the traditional engines live.
    type Files: Files;

    /// Engines may start threads of their own. Where what is done is recorded or counted they may not:
    /// it would depend on when those threads run.
    const STARTS_THREADS: bool = false;
}

/// DRAM, a pool file and the host's files: what ships.
#[derive(Debug)]
pub enum Native {}

impl Environment for Native {
    type Volatile = Dram;
    type Durable = Pool;
    type Files = HostFiles;
    const STARTS_THREADS: bool = true;
}
