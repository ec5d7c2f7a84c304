//! Sleeping until a lock of SQLite's is free.
//!
//! SQLite's busy handler calls the VFS to sleep, and does not say for which lock. Each thread notes the lock that its
//! last refused connection waits for; a sleep that follows at once is for that lock. A connection is used by one thread
//! at a time, so nothing else happens to it during the sleep.

use std::cell::RefCell;
use std::sync::Weak;

use pm::monotonic_us;

use crate::store::write_queue::{Place, Wish};

/// A sleep that begins later after an attempt is for something else.
const AT_ONCE_US: u64 = 50_000;

/// A lock with a queue.
pub(crate) trait Queued {
    /// Sleeps for at most so many microseconds, until the lock is free for the connection at a place. Returns the
    /// microseconds that have passed; `None` if the lock is gone, and the thread has not slept.
    fn sleep(&self, place: Place, wish: Wish, asked_us: u64) -> Option<u64>;
}

/// A connection that has found a lock busy.
struct Busy {
    /// Closing the connection does not wait for this thread.
    lock: Weak<dyn Queued>,
    place: Place,
    wish: Wish,
}

thread_local! {
    static BUSY: RefCell<Option<Busy>> = const { RefCell::new(None) };
}

/// Notes that this thread's connection has just found a lock busy.
#[cold]
pub(crate) fn note_busy(lock: Weak<dyn Queued>, place: Place, wish: Wish) {
    // A thread that ends sleeps no more.
    let _ = BUSY.try_with(|last| last.replace(Some(Busy { lock, place, wish })));
}

/// Notes that this thread's connection waits for no lock with a queue: it has got one, or found another one busy.
#[cold]
pub(crate) fn forget_busy() {
    let _ = BUSY.try_with(RefCell::take);
}

/// Sleeps for at most so many microseconds, until the lock is free that this thread has just found busy. Returns the
/// microseconds that have passed; `None` if there is no such lock, and the thread has not slept.
pub(crate) fn sleep(asked_us: u64) -> Option<u64> {
    let busy = BUSY.try_with(RefCell::take).ok()??;
    if !busy.wish.is_newer_than(AT_ONCE_US, monotonic_us()) {
        return None;
    }
    busy.lock.upgrade()?.sleep(busy.place, busy.wish, asked_us)
}
