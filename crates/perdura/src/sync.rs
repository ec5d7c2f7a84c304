//! Locks and what else threads share. `tests/interleavings` compiles the modules that use them a
//! second time over those of a scheduler that tries interleavings.
//!
//! Partitions have `parking_lot`'s lock: a reader can pass a writer that waits, which that of the
//! standard library has not.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
pub(crate) use std::thread::yield_now;
pub(crate) use std::thread_local;

use std::time::{Duration, Instant};

pub(crate) use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Readers that pass a writer that waits at once, and readers that pass it at all: see
/// [`crate::partition_lock`].
pub(crate) const PASSES_AT_ONCE: u32 = 64;
pub(crate) const MOST_PASSES: u32 = 4096;

/// A stopwatch.
#[derive(Debug)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    /// Returns true if more than this time has passed.
    pub(crate) fn is_over(&self, most: Duration) -> bool {
        self.elapsed() >= most
    }
}
