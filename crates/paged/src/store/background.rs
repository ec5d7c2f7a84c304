//! The background thread of a store.
//!
//! 1. It does what [`Upkeep`] has, a part after the other, and parks when there is nothing. The log
//!    wakes it when a checkpoint is due or a session waits for room, the pool when pages make way
//!    for others.
//! 2. It holds the parts that it works on, never the store: the store ends it, and joins it.
//! 3. An error ends it and stops the store. So does a panic.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pm::Files;

use super::upkeep::Upkeep;
use crate::latch::Latched;
use crate::pool::Cleaner;
use crate::threads::{Threads, Waiter};
use crate::{PagedError, Result};

/// The time after which it tries again what has failed for the moment.
const PAUSE: Duration = Duration::from_millis(5);

/// The ways in which others reach the thread.
#[derive(Debug)]
struct Signal<T> {
    threads: Arc<T>,
    waiter: Arc<Waiter>,
    stop: AtomicBool,
}

impl<T: Threads> Cleaner for Signal<T> {
    fn wake(&self) {
        self.threads.wake(&self.waiter);
    }
}

/// The thread; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Worker<T: Threads> {
    signal: Arc<Signal<T>>,
    thread: Option<JoinHandle<()>>,
    /// The process that has the thread: a forked child has not.
    process: u32,
}

impl<T: Latched> Worker<T> {
    /// Starts the thread.
    ///
    /// # Errors
    /// The kernel gives none.
    pub(super) fn start<F: Files>(threads: &Arc<T>, upkeep: &Arc<Upkeep<F, T>>) -> Result<Self> {
        let (threads, waiter) = (Arc::clone(threads), Arc::new(Waiter::default()));
        upkeep.log.attend(Arc::clone(&waiter));
        let signal = Arc::new(Signal { threads, waiter, stop: AtomicBool::new(false) });
        upkeep.pool.set_cleaner(signal.clone());
        let (heard, works_on) = (Arc::clone(&signal), Arc::clone(upkeep));
        let started = thread::Builder::new()
            .name("perdura-pages".into())
            .spawn(move || work(&heard, &works_on));
        let io = |source| PagedError::Io { doing: "starting the thread of a store", source };
        let thread = Some(started.map_err(io)?);
        Ok(Self { signal, thread, process: std::process::id() })
    }
}

impl<T: Threads> Drop for Worker<T> {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if self.process != std::process::id() {
            // It stayed with the parent, perhaps with locks held.
            std::mem::forget(thread);
            return;
        }
        self.signal.stop.store(true, Ordering::Release);
        self.signal.wake();
        // A panic of it has stopped the store.
        let _ = thread.join();
    }
}

/// Stops the store if the thread panics.
struct Watch<'a, F: Files, T: Latched>(&'a Upkeep<F, T>);

impl<F: Files, T: Latched> Drop for Watch<'_, F, T> {
    fn drop(&mut self) {
        if thread::panicking() {
            let why = "the thread that works beside transactions has panicked".into();
            self.0.stop(PagedError::Stopped { why });
        }
    }
}

fn work<F: Files, T: Latched>(signal: &Signal<T>, upkeep: &Upkeep<F, T>) {
    let _watch = Watch(upkeep);
    while !signal.stop.load(Ordering::Acquire) {
        match upkeep.step() {
            Ok(true) => {}
            Ok(false) => {
                signal.threads.park(&signal.waiter, None);
            }
            Err(error) if error.is_of_the_moment() => {
                let until = signal.threads.now() + PAUSE;
                signal.threads.park(&signal.waiter, Some(until));
            }
            Err(error) => {
                upkeep.stop(error);
                return;
            }
        }
    }
}
