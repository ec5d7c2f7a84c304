//! The examiner let loose on all engines, in one program: what they share is compiled once. Tests that
//! need a process to themselves (an allocator that fails, a filter of system calls) have files of
//! their own beside this one.

mod catalogue;
mod checksummed;
mod common;
mod examined;
mod examiner;
mod failing_resources;
mod files;
mod history;
mod interleaved;
mod killed;
mod lints;
mod paged;
mod placed;
mod points;
mod pool;
mod seeds;
mod shared;
mod stores;
mod threads;
mod workloads;
