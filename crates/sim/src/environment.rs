//! The environment of crash tests.

use pm::{Dram, Environment};

use crate::files::RecordingFiles;
use crate::recording::Recording;

/// DRAM, a recording memory and recording files: what crash tests use.
#[derive(Debug)]
pub enum Recorded {}

impl Environment for Recorded {
    type Volatile = Dram;
    type Durable = Recording;
    type Files = RecordingFiles;
}
