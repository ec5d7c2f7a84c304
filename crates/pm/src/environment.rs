//! Which memories and files a database is made of.

use crate::dram::Dram;
use crate::files::{Files, HostFiles, RecordingFiles};
use crate::memory::Memory;
use crate::pool::Pool;
use crate::recording::Recording;

/// One choice of a volatile memory, a durable memory, and files.
pub trait Environment: Sized + 'static {
    /// Where volatile structures live.
    type Volatile: Memory;
    /// Where durable structures live.
    type Durable: Memory;
    /// Where logs and checkpoints of the traditional engines live.
    type Files: Files;
}

/// DRAM, a pool file and the host's files: what ships.
#[derive(Debug)]
pub enum Native {}

impl Environment for Native {
    type Volatile = Dram;
    type Durable = Pool;
    type Files = HostFiles;
}

/// DRAM beside a recording memory and recording files: what crash tests use.
#[derive(Debug)]
pub enum Recorded {}

impl Environment for Recorded {
    type Volatile = Dram;
    type Durable = Recording;
    type Files = RecordingFiles;
}
