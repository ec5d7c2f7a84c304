//! Locks, those of the standard library. `tests/interleavings.rs` compiles the modules that use them
//! a second time over those of a scheduler that tries interleavings.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
pub(crate) use std::thread::yield_now;
