//! The queue of the connections that found a lock of a rollback mode busy, in the side file.
//!
//! The lock is the database as a whole. It is free for a writer while no other connection writes, and for a reader while
//! none keeps readers out. Both wait in one queue. A writer that comes back at once lets the next one pass.
//!
//! There are lines for the first [`QUEUE_LINES`] connections. Later ones sleep for as long as SQLite asks, and let
//! those in the queue pass.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use pm::{Memory as _, Off, Plain, monotonic_us};

use crate::database::slot_owners::SlotOwners;
use crate::database::waiting::Queued;
use crate::store::layout::{
    LOCKS_AT, QUEUE_CLAIM_AT, QUEUE_HANDED_AT, QUEUE_LINE_AT, QUEUE_LINE_BYTES, QUEUE_LINES,
    QUEUE_LINES_AT, SLOTS_AT,
};
use crate::store::lock_words::{LockWords, Word};
use crate::store::locks::owner_of;
use crate::store::write_queue::{Place, Wish, WriteQueue};

/// The words of the queue in a mapped side file.
#[derive(Debug)]
pub(crate) struct SideQueue {
    side: Plain,
    /// The connection wants to read.
    wants_to_read: AtomicBool,
}

impl SideQueue {
    /// The queue in a side file.
    pub(crate) fn of(side: &Plain) -> Self {
        Self { side: side.clone(), wants_to_read: AtomicBool::new(false) }
    }

    /// Notes whether the connection waits to read, or to write.
    pub(crate) fn note_wish(&self, wants_to_read: bool) {
        self.wants_to_read.store(wants_to_read, Ordering::Relaxed);
    }

    /// The queue as the connection at a place uses it.
    #[inline]
    pub(crate) fn at(&self, place: Place) -> WriteQueue<'_, Self> {
        WriteQueue::new(self, QUEUE_LINES, place)
    }

    /// Empties the queue. No other connection has the side file open.
    pub(crate) fn reset(&self) {
        for at in (QUEUE_CLAIM_AT..SLOTS_AT).step_by(8) {
            self.side.store(Off::<u64>::new(at), 0);
        }
    }

    fn off(word: Word) -> Off<u64> {
        let line = |line: usize, place: u64| QUEUE_LINE_AT + line as u64 * QUEUE_LINE_BYTES + place;
        Off::new(match word {
            Word::Lines => QUEUE_LINES_AT,
            Word::Claim => QUEUE_CLAIM_AT,
            Word::Handed => QUEUE_HANDED_AT,
            Word::Since(number) => line(number, 0),
            Word::Until(number) => line(number, 8),
            Word::Wake(number) => line(number, 16),
            Word::Owner(_) | Word::Line(_) | Word::Takes(_) => {
                unreachable!("a queue changes no lock")
            }
        })
    }
}

impl LockWords for SideQueue {
    #[inline]
    fn load(&self, word: Word) -> u64 {
        if let Word::Owner(_) = word {
            let writer = self.side.load(Off::new(LOCKS_AT), Ordering::SeqCst).unwrap_or(0);
            return owner_of(writer, self.wants_to_read.load(Ordering::Relaxed));
        }
        // The side file has the words from the start, and its mapping never shrinks.
        self.side.load(Self::off(word), Ordering::SeqCst).unwrap_or(0)
    }

    fn store(&self, word: Word, value: u64) {
        self.side.store(Self::off(word), value);
    }

    fn store_first(&self, word: Word, value: u64) {
        self.side.exchange(Self::off(word), value);
    }

    fn swap(&self, word: Word, old: u64, new: u64) -> bool {
        self.side.exchange_if(Self::off(word), old, new).is_ok()
    }

    fn pause(&self) {
        std::hint::spin_loop();
    }

    fn yields(&self) {
        thread::yield_now();
    }

    fn wait(&self, word: Word, seen: u64, limit_us: u64) -> bool {
        self.side.wait_for(Self::off(word), seen, Duration::from_micros(limit_us))
    }

    fn wake(&self, word: Word) {
        self.side.wake(Self::off(word));
    }

    fn microseconds(&self) -> u64 {
        monotonic_us()
    }
}

impl Queued for SideQueue {
    fn sleep(&self, place: Place, wish: Wish, asked_us: u64) -> Option<u64> {
        // A connection whose side file has failed may have lost its slot, and a forked child has none.
        self.side.healthy().ok()?;
        Some(self.at(place).sleep(wish, asked_us, &SlotOwners::of(&self.side)))
    }
}
