//! The locks and atomics of this crate. The test of interleavings compiles its sources over those of a
//! scheduler.

pub(crate) use std::sync::atomic::AtomicU64;
pub(crate) use std::sync::{
    PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError, TryLockResult,
};
pub(crate) use std::thread::yield_now;

/// Statements of other commits that a validation checks while other commits wait for it: see [`crate::serial`].
pub(crate) const FEW: u64 = 16;

/// Commits that are copied or dropped together with the latch of [`crate::watch`].
pub(crate) const PIECE: usize = 64;
