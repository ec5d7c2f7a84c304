//! A partition, which writers, readers and the thread in the background take in turns.
//!
//! A lock alone would not do: whoever gives it back and takes it again at once is faster than one
//! who has to be woken first, so that the thread could do step after step while a writer waits. So
//! whoever finds the partition taken says that it waits, and the thread lets it go first: a writer
//! waits for one step at most.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{PoisonError, TryLockError};

use crate::sync::{AtomicBool, AtomicU32, RwLock, RwLockReadGuard, RwLockWriteGuard, yield_now};

/// Something that is taken in turns; see the module's comment. A panic in a transaction has aborted
/// it, so that what is behind the lock is as before.
#[derive(Debug)]
pub(crate) struct Turns<T> {
    lock: RwLock<T>,
    /// How many wait for it, apart from the thread in the background.
    waiting: AtomicU32,
    /// How many have waited and got it.
    served: AtomicU32,
    /// The thread in the background waits for it.
    wanted: AtomicBool,
}

/// Looks after who waits before the thread asks for the lock again, which waits itself then.
const PATIENCE: u32 = 1000;

impl<T> Turns<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            lock: RwLock::new(value),
            waiting: AtomicU32::new(0),
            served: AtomicU32::new(0),
            wanted: AtomicBool::new(false),
        }
    }

    #[inline]
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        match self.lock.try_write() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                self.wait_for(|| self.lock.write().unwrap_or_else(PoisonError::into_inner))
            }
        }
    }

    #[inline]
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        match self.lock.try_read() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                self.wait_for(|| self.lock.read().unwrap_or_else(PoisonError::into_inner))
            }
        }
    }

    #[cold]
    fn wait_for<G>(&self, take: impl FnOnce() -> G) -> G {
        self.waiting.fetch_add(1, SeqCst);
        let guard = take();
        self.waiting.fetch_sub(1, SeqCst);
        self.served.fetch_add(1, SeqCst);
        guard
    }

    /// A step of the thread in the background. Returns when one who waited meanwhile has had its
    /// turn.
    pub(crate) fn step<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        self.wanted.store(true, SeqCst);
        let mut guard = self.lock.write().unwrap_or_else(PoisonError::into_inner);
        self.wanted.store(false, SeqCst);
        let done = work(&mut guard);
        let served = self.served.load(SeqCst);
        drop(guard);
        for _ in 0..PATIENCE {
            if self.queue() != Some(served) {
                break;
            }
            yield_now();
        }
        done
    }

    /// How many have waited and got it, if somebody waits.
    pub(crate) fn queue(&self) -> Option<u32> {
        (self.waiting.load(SeqCst) > 0).then(|| self.served.load(SeqCst))
    }

    /// Whether the thread in the background waits for its turn.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Relaxed)
    }

    /// Called without the lock by one who had it for long: returns when the thread in the
    /// background has had its turn, or has it.
    pub(crate) fn let_in(&self) {
        while self.is_wanted() {
            yield_now();
        }
    }
}
