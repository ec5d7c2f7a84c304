//! The words of the locks in `NAME-shm`.

use std::sync::atomic::Ordering;
use std::time::Instant;

use pm::{Memory as _, Off, Plain};

use crate::store::shm_locks::{LockWords, Word};
use crate::store::wal_index::{LINE_AT, LINES_AT, OWNERS_AT};

/// The lock words in a mapped index file.
#[derive(Debug)]
pub(crate) struct IndexWords {
    file: Plain,
    start: Instant,
}

impl IndexWords {
    pub(super) fn new(file: &Plain) -> Self {
        Self { file: file.clone(), start: Instant::now() }
    }

    fn at(word: Word) -> Off<u64> {
        Off::new(match word {
            Word::Owner(lock) => OWNERS_AT + lock as u64 * 64,
            Word::Lines => LINES_AT,
            Word::Line(line) => LINE_AT + line as u64 * 64,
            Word::Takes(line) => LINE_AT + line as u64 * 64 + 8,
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

    fn microseconds(&self) -> u64 {
        self.start.elapsed().as_micros() as u64
    }
}
