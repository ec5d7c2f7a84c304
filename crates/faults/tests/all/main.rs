//! The examiner on all engines, in one program, so that what the tests share is compiled once.
//! Tests that need a process to themselves (an allocator that fails, a filter of system calls) have
//! files of their own next to this folder.

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
mod locking;
mod long;
mod paged;
mod points;
mod pool;
mod seeds;
mod shared;
mod threads;
mod whole;
mod workloads;
