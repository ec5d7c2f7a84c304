//! The words of the locks in `NAME-shm`.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use pm::{Memory as _, Off, Plain, monotonic_us};

use crate::store::shm_locks::{LockWords, Word};
use crate::store::wal_index::{CLAIM_AT, HANDED_AT, LINE_AT, LINES_AT, OWNERS_AT};

/// The lock words in a mapped index file.
#[derive(Debug)]
pub(crate) struct IndexWords {
    file: Plain,
}

impl IndexWords {
    pub(super) fn new(file: &Plain) -> Self {
        Self { file: file.clone() }
    }

    fn at(word: Word) -> Off<u64> {
        Off::new(match word {
            Word::Owner(lock) => OWNERS_AT + lock as u64 * 64,
            Word::Lines => LINES_AT,
            Word::Line(line) => LINE_AT + line as u64 * 64,
            Word::Takes(line) => LINE_AT + line as u64 * 64 + 8,
            Word::Claim => CLAIM_AT,
            Word::Handed => HANDED_AT,
            Word::Since(line) => LINE_AT + line as u64 * 64 + 16,
            Word::Until(line) => LINE_AT + line as u64 * 64 + 24,
            Word::Wake(line) => LINE_AT + line as u64 * 64 + 32,
        })
    }
}

impl LockWords for IndexWords {
    #[inline]
    fn load(&self, word: Word) -> u64 {
        // The file has the words from the start, and its mapping never shrinks.
        self.file.load(Self::at(word), Ordering::SeqCst).unwrap_or(0)
    }

    #[inline]
    fn store(&self, word: Word, value: u64) {
        self.file.store(Self::at(word), value);
    }

    #[inline]
    fn store_first(&self, word: Word, value: u64) {
        self.file.exchange(Self::at(word), value);
    }

    #[inline]
    fn swap(&self, word: Word, old: u64, new: u64) -> bool {
        self.file.exchange_if(Self::at(word), old, new).is_ok()
    }

    fn pause(&self) {
        std::hint::spin_loop();
    }

    fn yields(&self) {
        thread::yield_now();
    }

    fn wait(&self, word: Word, seen: u64, limit_us: u64) -> bool {
        self.file.wait_for(Self::at(word), seen, Duration::from_micros(limit_us))
    }

    fn wake(&self, word: Word) {
        self.file.wake(Self::at(word));
    }

    fn microseconds(&self) -> u64 {
        monotonic_us()
    }
}
