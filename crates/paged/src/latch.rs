//! Latches and mutexes of pages, and the seam through which threads wait for them.
//!
//! [`Native`] costs nothing: a latch that is free is taken as it would be without the seam.
//! [`Followed`] goes on where [`Threads`] let it, so that a test decides at every point which
//! thread does.

use std::cell::RefCell;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::flaw::Flaw;
use crate::threads::{Baton, Host, Threads};

/// The time for which a thread lets others go on that have no processor.
const DOZE: Duration = Duration::from_micros(250);

/// A way in which threads wait for latches.
pub trait Latching: Send + Sync + Debug + 'static {
    /// A place where another thread may go on instead.
    fn point();

    /// Waits until `attempt` succeeds. `block` does the same and lets the kernel wait.
    fn wait<R>(attempt: impl FnMut() -> Option<R>, block: impl FnOnce() -> R) -> R;

    /// Lets others go on, because what is needed is held by one of them.
    fn pause();

    /// Lets others go on for longer: the thread that holds what is needed may not have a processor
    /// now.
    fn doze() {
        Self::pause();
    }

    /// Returns whether a policy is wrong, in a test.
    #[inline]
    fn has(_flaw: Flaw) -> bool {
        false
    }
}

/// The threads of the host.
#[derive(Clone, Copy, Debug)]
pub struct Native;

impl Latching for Native {
    #[inline]
    fn point() {}

    #[inline]
    fn wait<R>(_attempt: impl FnMut() -> Option<R>, block: impl FnOnce() -> R) -> R {
        block()
    }

    fn pause() {
        std::thread::yield_now();
    }

    fn doze() {
        std::thread::sleep(DOZE);
    }
}

thread_local! {
    static FOLLOWED: RefCell<Option<Arc<dyn Threads>>> = const { RefCell::new(None) };
}

/// The most points, where others may run, at which a thread looks for a latch.
const MOST_POINTS: usize = 1 << 20;

/// Threads that go on where a [`Threads`] lets them, for tests: see [`Followed::by`].
#[derive(Clone, Copy, Debug)]
pub struct Followed;

impl Followed {
    /// Does some work whose thread goes on where `threads` lets it.
    pub fn by<R>(threads: Arc<dyn Threads>, work: impl FnOnce() -> R) -> R {
        let before = FOLLOWED.replace(Some(threads));
        let done = work();
        FOLLOWED.set(before);
        done
    }
}

impl Latching for Followed {
    fn point() {
        let threads = FOLLOWED.with_borrow(Clone::clone);
        if let Some(threads) = threads {
            threads.point();
        }
    }

    fn wait<R>(mut attempt: impl FnMut() -> Option<R>, block: impl FnOnce() -> R) -> R {
        if FOLLOWED.with_borrow(Option::is_none) {
            return block();
        }
        for _ in 0..MOST_POINTS {
            Self::point();
            if let Some(held) = attempt() {
                return held;
            }
        }
        panic!("a latch is never let go: threads wait in a circle");
    }

    fn pause() {
        Self::point();
    }

    fn has(flaw: Flaw) -> bool {
        FOLLOWED.with_borrow(|threads| threads.as_ref().is_some_and(|threads| threads.has(flaw)))
    }
}

/// Threads with the latches that go with them: all that a store waits for goes through one seam.
pub trait Latched: Threads + 'static {
    /// The way in which these threads wait for latches.
    type Latching: Latching;
}

impl Latched for Host {
    type Latching = Native;
}

/// A thread of a baton does its work within [`Followed::by`].
impl Latched for Baton {
    type Latching = Followed;
}

/// A latch: shared by readers, or held by one writer.
#[derive(Debug)]
pub(crate) struct Latch<T, V> {
    inner: RwLock<V>,
    threads: PhantomData<T>,
}

impl<T: Latching, V> Latch<T, V> {
    pub(crate) fn new(value: V) -> Self {
        Self { inner: RwLock::new(value), threads: PhantomData }
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, V> {
        T::point();
        match self.inner.try_read() {
            Some(guard) => guard,
            None => T::wait(|| self.inner.try_read(), || self.inner.read()),
        }
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, V> {
        T::point();
        match self.inner.try_write() {
            Some(guard) => guard,
            None => T::wait(|| self.inner.try_write(), || self.inner.write()),
        }
    }

    pub(crate) fn try_read(&self) -> Option<RwLockReadGuard<'_, V>> {
        T::point();
        self.inner.try_read()
    }
}

/// A mutex, held for a short time or for one batch of input and output.
#[derive(Debug)]
pub(crate) struct Exclusive<T, V> {
    inner: Mutex<V>,
    threads: PhantomData<T>,
}

impl<T: Latching, V> Exclusive<T, V> {
    pub(crate) fn new(value: V) -> Self {
        Self { inner: Mutex::new(value), threads: PhantomData }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, V> {
        T::point();
        match self.inner.try_lock() {
            Some(guard) => guard,
            None => T::wait(|| self.inner.try_lock(), || self.inner.lock()),
        }
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, V>> {
        T::point();
        self.inner.try_lock()
    }
}
