//! A partition, which writers, readers and the thread in the background take in turns.
//!
//! A lock alone would not do: whoever gives it back and takes it again at once is faster than one
//! who has to be woken first, so that the thread could do step after step while a writer waits. So
//! whoever finds the partition taken says that it waits, and the thread lets it go first: a writer
//! waits for one step at most.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};
use std::thread;

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
            if self.waiting.load(SeqCst) == 0 || self.served.load(SeqCst) != served {
                break;
            }
            thread::yield_now();
        }
        done
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
            thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_who_waits_gets_its_turn_after_the_step_that_is_under_way() {
        let turns = Turns::new((0u32, 0u32));
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(SeqCst) {
                    turns.step(|(steps, _)| *steps += 1);
                }
            });
            for turn in 0..200 {
                let mut guard = turns.write();
                assert_eq!(guard.1, turn);
                guard.1 += 1;
                drop(guard);
                assert_eq!(turns.read().1, turn + 1);
            }
            while turns.read().0 == 0 {
                thread::yield_now();
            }
            done.store(true, SeqCst);
        });
        assert_eq!(turns.waiting.load(SeqCst), 0);
    }

    #[test]
    fn one_who_keeps_it_can_let_the_thread_in() {
        let turns = Turns::new(0u32);
        let mut guard = turns.write();
        thread::scope(|scope| {
            scope.spawn(|| turns.step(|steps| *steps += 1));
            while !turns.is_wanted() {
                thread::yield_now();
            }
            assert_eq!(*guard, 0);
            drop(guard);
            turns.let_in();
            guard = turns.write();
            assert_eq!(*guard, 1);
            drop(guard);
        });
    }
}
