//! Waiting for room in a log.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::threads::{Threads, Waiter};

/// A wait for room, which ends when some is given back.
#[derive(Debug, Default)]
pub struct RoomWait {
    /// The waiter that the waiting thread parks on.
    pub waiter: Waiter,
    over: AtomicBool,
}

impl RoomWait {
    /// Begins the wait anew. Called before it is [registered](super::LogManager::await_room).
    pub fn begin(&self) {
        self.over.store(false, Ordering::SeqCst);
    }

    /// Ends it, and wakes the threads that wait.
    pub fn end<T: Threads>(&self, threads: &T) {
        self.over.store(true, Ordering::SeqCst);
        threads.wake(&self.waiter);
    }

    /// Returns whether it has ended since it began.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }
}

/// The waits that are registered with a log.
#[derive(Debug, Default)]
pub(super) struct RoomWaits {
    waits: Mutex<Vec<Arc<RoomWait>>>,
    /// There are some.
    any: AtomicBool,
    /// A little was given back, and no wait has ended for that.
    quietly: AtomicBool,
}

impl RoomWaits {
    pub(super) fn are_some(&self) -> bool {
        self.any.load(Ordering::SeqCst)
    }

    /// Notes that a transaction that goes on gave back a little room. Waits end for that when there
    /// is one more: then all try again.
    pub(super) fn note_little(&self) {
        self.quietly.store(true, Ordering::SeqCst);
    }

    pub(super) fn add<T: Threads>(&self, wait: &Arc<RoomWait>, threads: &T) {
        if self.quietly.swap(false, Ordering::SeqCst) {
            self.end_all(threads);
        }
        let mut waits = self.waits.lock();
        waits.push(Arc::clone(wait));
        self.any.store(true, Ordering::SeqCst);
    }

    pub(super) fn remove(&self, wait: &Arc<RoomWait>) {
        let mut waits = self.waits.lock();
        waits.retain(|other| !Arc::ptr_eq(other, wait));
        self.any.store(!waits.is_empty(), Ordering::SeqCst);
    }

    /// Ends all of them.
    pub(super) fn end_all<T: Threads>(&self, threads: &T) {
        if self.are_some() {
            let mut waits = self.waits.lock();
            self.any.store(false, Ordering::SeqCst);
            waits.drain(..).for_each(|wait| wait.end(threads));
        }
    }
}
