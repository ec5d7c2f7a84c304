//! The names of `src/sync.rs`, over the locks, atomics and threads of the scheduler.

use std::cell::Cell;
use std::time::Duration;

pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
pub(crate) use shuttle::sync::{Condvar, Mutex, MutexGuard};
pub(crate) use shuttle::thread::yield_now;
pub(crate) use shuttle::thread_local;

pub(crate) use crate::lock::{RwLock, RwLockReadGuard, RwLockWriteGuard};

pub(crate) const PASSES_AT_ONCE: u32 = 2;
pub(crate) const MOST_PASSES: u32 = 4;

/// Time passes by looking at it.
#[derive(Debug)]
pub(crate) struct Stopwatch(Cell<u32>);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(Cell::new(0))
    }

    pub(crate) fn elapsed(&self) -> Duration {
        Duration::from_millis(1)
    }

    pub(crate) fn is_over(&self, most: Duration) -> bool {
        self.0.set(self.0.get() + 1);
        most.is_zero() || self.0.get() > 3
    }
}
