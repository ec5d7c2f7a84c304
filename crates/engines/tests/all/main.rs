//! The tests of the engines below the public API, in one program.

// It has the engines over recorded memory: compiled here once more, they take a minute.
use faults as _;

mod files;
mod nvm_inp;
mod nvm_log;
mod opening;
mod options;
mod refused_checkpoint;
mod threads;
mod two_threads;
