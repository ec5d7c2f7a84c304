//! The seam through which all waiting of this crate goes, so that tests decide which thread runs
//! when.
//!
//! 1. Mutexes are held for a few instructions or one call to a medium, never while something is
//!    waited for that another thread has to do. They are not part of the seam.
//! 2. A thread that has to wait registers a [`Waiter`] under the mutex that guards what it waits
//!    for, lets the mutex go, and parks. A wake that comes before the park is not lost. A waiter
//!    may be woken for nothing: the thread looks again and parks again.
//! 3. [`Threads::point`] stands where another order of threads could make a difference: before each
//!    mutex of the lock table, the log and the latches.
//!
//! [`Host`] parks threads of the operating system; [`Baton`] lets one thread run at a time, in an
//! order that follows from a seed, with a clock of its own.

mod baton;

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

pub use self::baton::Baton;

use crate::flaw::Flaw;

/// A thing that a thread parks on and that others wake. One thread parks on it at a time.
#[derive(Debug, Default)]
pub struct Waiter {
    woken: AtomicBool,
    parked: Mutex<()>,
    changed: Condvar,
}

thread_local! {
    static OWN: Arc<Waiter> = Arc::new(Waiter::default());
    static NUMBER: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed)
    };
}

impl Waiter {
    /// The calling thread's own, for waits in which nothing else parks. It may still be woken by
    /// what an earlier wait had registered it for.
    pub fn of_this_thread() -> Arc<Self> {
        OWN.with(Arc::clone)
    }

    /// Returns whether it was woken since this was last asked.
    fn take(&self) -> bool {
        self.woken.swap(false, Ordering::AcqRel)
    }
}

/// A way for threads to wait; see the module's comment.
pub trait Threads: Send + Sync + Debug {
    /// The time since a moment that stays the same.
    fn now(&self) -> Duration;

    /// Waits until `waiter` is woken or `until` has come; returns whether it was woken.
    fn park(&self, waiter: &Waiter, until: Option<Duration>) -> bool;

    /// Wakes the thread that parks on `waiter`, or parks next.
    fn wake(&self, waiter: &Waiter);

    /// A point at which other threads may run.
    fn point(&self) {}

    /// A small number of the calling thread's own, for what is shared out among threads.
    fn number(&self) -> usize {
        NUMBER.with(|number| *number)
    }

    /// Returns whether a policy is wrong, in a test.
    #[inline]
    fn has(&self, _flaw: Flaw) -> bool {
        false
    }
}

/// The threads of the operating system.
#[derive(Debug)]
pub struct Host {
    start: Instant,
}

impl Default for Host {
    fn default() -> Self {
        Self { start: Instant::now() }
    }
}

impl Threads for Host {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn park(&self, waiter: &Waiter, until: Option<Duration>) -> bool {
        let mut parked = waiter.parked.lock();
        while !waiter.take() {
            match until {
                None => waiter.changed.wait(&mut parked),
                Some(until) => {
                    let late = waiter.changed.wait_until(&mut parked, self.start + until);
                    if late.timed_out() {
                        return waiter.take();
                    }
                }
            }
        }
        true
    }

    fn wake(&self, waiter: &Waiter) {
        let _parked = waiter.parked.lock();
        waiter.woken.store(true, Ordering::Release);
        waiter.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wake_before_the_park_is_not_lost() {
        let host = Host::default();
        let waiter = Waiter::default();
        host.wake(&waiter);
        assert!(host.park(&waiter, None));
        assert!(!host.park(&waiter, Some(Duration::ZERO)), "it counts once");
    }

    #[test]
    fn a_parked_thread_is_woken_by_another() {
        let host = Host::default();
        let (here, there) = (Waiter::default(), Waiter::default());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..1000 {
                    assert!(host.park(&there, None));
                    host.wake(&here);
                }
            });
            for _ in 0..1000 {
                host.wake(&there);
                assert!(host.park(&here, None));
            }
        });
    }
}
