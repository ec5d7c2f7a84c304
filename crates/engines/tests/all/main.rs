//! The tests of the engines below the public API, in one program.

mod files;
mod nvm_inp;
mod nvm_log;
mod opening;
mod options;
mod refused_checkpoint;
mod threads;
mod two_threads;
