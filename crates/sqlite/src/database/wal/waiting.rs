//! Sleeping until SQLite's lock for writing is free.
//!
//! SQLite's busy handler calls the VFS to sleep, and does not say for which lock. Each thread notes its connection that
//! last found the lock for writing busy; a sleep that follows at once is for that lock. A connection is used by one
//! thread at a time, so nothing else happens to it during the sleep.

use std::cell::RefCell;
use std::sync::{Arc, Weak};

use pm::{Memory as _, monotonic_us};

use crate::database::connection_lock::SlotOwners;
use crate::database::wal::connection::{Locks, WalConnection};
use crate::database::wal::index_words::IndexWords;
use crate::store::wal_index::LINES;
use crate::store::write_queue::{Place, Wish, WriteQueue};

/// A sleep that begins later after an attempt is for something else.
const AT_ONCE_US: u64 = 5_000;

/// A connection that has found the lock busy.
struct Busy {
    /// Closing the connection does not wait for this thread.
    wal: Weak<WalConnection>,
    place: Place,
    wish: Wish,
}

thread_local! {
    static BUSY: RefCell<Option<Busy>> = const { RefCell::new(None) };
}

/// Notes that this thread's connection has just found the lock for writing busy.
#[cold]
pub(crate) fn note_busy(wal: &Arc<WalConnection>, locks: &Locks) {
    let Some(wish) = locks.wish() else { return };
    let busy = Busy { wal: Arc::downgrade(wal), place: locks.place(), wish };
    // A thread that ends sleeps no more.
    let _ = BUSY.try_with(|last| last.replace(Some(busy)));
}

/// Sleeps for at most so many microseconds, until the lock for writing is free that this thread has just found busy.
/// Returns the microseconds that have passed; `None` if there is no such lock, and the thread has not slept.
pub(crate) fn sleep(asked_us: u64) -> Option<u64> {
    let busy = BUSY.try_with(RefCell::take).ok()??;
    if !busy.wish.is_newer_than(AT_ONCE_US, monotonic_us()) {
        return None;
    }
    let wal = busy.wal.upgrade()?;
    // A connection whose side file has failed may have lost its line, and a forked child has none.
    wal.side().healthy().ok()?;
    let index = wal.index()?;
    index.file().healthy().ok()?;
    let words = IndexWords::new(index.file());
    let queue = WriteQueue::new(&words, LINES, busy.place);
    Some(queue.sleep(busy.wish, asked_us, &SlotOwners::of(wal.side())))
}
