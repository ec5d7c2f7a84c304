//! Latches: short locks, and the hook by which a test decides which thread runs.
//!
//! Under such a test, a thread that finds a latch taken calls its [`Pause`] and tries again; otherwise it waits as
//! threads of the operating system do.

use std::fmt::Debug;
use std::sync::Arc;

use crate::sync::{
    PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError, TryLockResult, yield_now,
};

/// A test's hook to let other threads run.
pub trait Pause: Send + Sync + Debug {
    /// Lets another thread run: the calling one cannot go on.
    fn pause(&self);
}

/// A way of waiting.
#[derive(Clone, Default, Debug)]
pub struct Waiting(Option<Arc<dyn Pause>>);

impl Waiting {
    /// A test's.
    pub fn through(pause: Arc<dyn Pause>) -> Self {
        Self(Some(pause))
    }

    /// Lets another thread run.
    pub(crate) fn pause(&self) {
        match &self.0 {
            Some(pause) => pause.pause(),
            None => yield_now(),
        }
    }

    fn until<G>(&self, mut attempt: impl FnMut() -> TryLockResult<G>) -> Option<G> {
        let pause = self.0.as_ref()?;
        loop {
            match attempt() {
                Ok(guard) => return Some(guard),
                Err(TryLockError::Poisoned(guard)) => return Some(guard.into_inner()),
                Err(TryLockError::WouldBlock) => pause.pause(),
            }
        }
    }
}

/// A value that a latch protects.
#[derive(Debug)]
pub(crate) struct Latch<T> {
    inner: RwLock<T>,
    waiting: Waiting,
}

impl<T> Latch<T> {
    pub(crate) fn new(value: T, waiting: &Waiting) -> Self {
        Self { inner: RwLock::new(value), waiting: waiting.clone() }
    }

    /// A latch of something else, with the same way of waiting.
    pub(crate) fn like<V>(&self, value: V) -> Latch<V> {
        Latch::new(value, &self.waiting)
    }

    pub(crate) fn into_inner(self) -> T {
        self.inner.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        let taken = self.waiting.until(|| self.inner.try_read());
        taken.unwrap_or_else(|| self.inner.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes the latch if it is free.
    pub(crate) fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        match self.inner.try_write() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(guard)) => Some(guard.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Lets another thread run, while the latch is taken.
    pub(crate) fn pause(&self) {
        self.waiting.pause();
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        let taken = self.waiting.until(|| self.inner.try_write());
        taken.unwrap_or_else(|| self.inner.write().unwrap_or_else(PoisonError::into_inner))
    }
}
