//! The files of a log and its database, and the words that connections share about them, as the code needs them that
//! stores, flushes and fences. Natively these are mapped files and words of `NAME-shm`; crash tests put recordings in
//! their place.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};

use pm::Range;

use crate::database::contract::Failure;

/// A mapped file, whose length other connections change as well.
pub trait WalFile: Send + Debug {
    /// Returns the bytes of the file, as last seen.
    fn bytes(&self) -> u64;
    /// Looks at how long others have made the file.
    ///
    /// # Errors
    /// The kernel refuses.
    fn see(&self) -> Result<(), Failure>;
    /// Copies bytes from `at` on.
    ///
    /// # Errors
    /// They are not within the file.
    fn read_into(&self, at: u64, out: &mut [u8]) -> Result<(), Failure>;
    /// Returns the address of a range.
    ///
    /// # Errors
    /// It is not within the file.
    fn address(&self, range: Range) -> Result<*const u8, Failure>;
    /// Stores bytes within the file.
    #[track_caller]
    fn copy(&self, at: u64, bytes: &[u8]);
    /// Writes bytes by a call of the kernel. A shorter file ends with them afterwards.
    ///
    /// # Errors
    /// No room, or the kernel refuses.
    fn write_at(&self, at: u64, bytes: &[u8]) -> Result<(), Failure>;
    /// Sets the file's length.
    ///
    /// # Errors
    /// The kernel refuses.
    fn cut(&self, to: u64) -> Result<(), Failure>;
    /// Makes the file's length durable.
    ///
    /// # Errors
    /// The kernel refuses.
    fn sync_length(&self) -> Result<(), Failure>;
    /// Makes the file's name durable.
    ///
    /// # Errors
    /// The kernel refuses.
    fn sync_name(&self) -> Result<(), Failure>;
    /// Returns whether anything is to outlast a power cut: then a length has to be synced.
    fn outlasts_power(&self) -> bool;
    /// Returns whether stores have to be flushed to be durable.
    fn needs_flush(&self) -> bool;
    /// Flushes a range, which the next fence makes durable.
    #[track_caller]
    fn flush(&self, range: Range);
    /// Makes durable what was flushed.
    #[track_caller]
    fn fence(&self);
    /// Returns an error if the medium has failed.
    ///
    /// # Errors
    /// It has.
    fn healthy(&self) -> Result<(), Failure>;
}

/// A shared word about the two files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WalWord {
    /// How often the log was truncated.
    Cuts,
    /// The lines of the log that are stored, and not durable: the first one, and the one after the last.
    Unflushed,
    /// The log's length that is durable.
    LogSynced,
    /// Twice the number of changes of the database's length; odd while the file is truncated.
    Resized,
    /// The database's length that is durable.
    Synced,
    /// The generation of the differential log, and how often the following words have changed.
    RecordsTurn,
    /// The frames of SQLite's log and the checksum at the end of one of the last two commits in it.
    RecordsEnd(usize),
    /// The offset of that end.
    RecordsAt(usize),
    /// The length of the differential log that is durable.
    RecordsSynced,
}

/// The state that connections share, as one of them sees it.
pub trait WalShared: Send + Debug {
    /// Returns a word's value.
    fn load(&self, word: WalWord) -> u64;
    /// Stores a word's value.
    fn store(&self, word: WalWord, value: u64);
    /// Returns whether no other connection can write to the log.
    fn is_writer(&self) -> bool;
    /// Returns the last frame that SQLite's shared index shows as committed; 0 if SQLite has its index in its own memory.
    fn published(&self) -> u32;
    /// The connection's counters.
    fn counters(&self) -> &Counters;
}

/// Counters of a connection in WAL mode.
#[derive(Debug, Default)]
pub struct Counters {
    /// Transactions in the log.
    pub commits: AtomicU64,
    /// Bytes stored in the log.
    pub bytes: AtomicU64,
    /// Frames stored in the log.
    pub frames: AtomicU64,
    /// Flushed lines, of both files.
    pub lines: AtomicU64,
    /// Fences, for both files.
    pub fences: AtomicU64,
}

/// Adds to a counter that only this connection changes.
pub(super) fn count(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

/// Lines of a log: the first one, and the one after the last. There are none if the two are the same.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Lines {
    first: u32,
    end: u32,
}

impl Lines {
    /// The lines of a range.
    pub(super) fn of(range: Range) -> Self {
        let (first, end) = range.lines();
        Self { first: first as u32, end: end as u32 }
    }

    pub(super) fn of_word(word: u64) -> Self {
        Self { first: (word >> 32) as u32, end: word as u32 }
    }

    pub(super) fn word(self) -> u64 {
        u64::from(self.first) << 32 | u64::from(self.end)
    }

    pub(super) fn is_empty(self) -> bool {
        self.first >= self.end
    }

    /// All from the first line of either to the last one.
    pub(super) fn with(self, other: Self) -> Self {
        Self { first: self.first.min(other.first), end: self.end.max(other.end) }
    }

    /// The part of them in the first `bytes` of the file.
    pub(super) fn within(self, bytes: u64) -> Self {
        Self { end: self.end.min(Self::of(Range::new(0, bytes)).end), ..self }
    }

    /// Their bytes, in a file that ends at `bytes`.
    pub(super) fn range(self, bytes: u64) -> Range {
        let [start, end] = [self.first, self.end].map(|line| u64::from(line) * pm::LINE_BYTES);
        Range::new(start, end.min(bytes).saturating_sub(start))
    }

    /// The end of their last line.
    pub(super) fn end(self) -> u64 {
        u64::from(self.end) * pm::LINE_BYTES
    }
}
