//! `NAME-wal`: SQLite's write-ahead log, mapped.
//!
//! - *Stores*: what lies within the file is stored in the mapping. What lies beyond its end is written by a call of the
//!   kernel, so that the length stays exact and a full medium is an error.
//! - *Truncation* raises a counter first, by which others learn that the file is shorter: no connection stores beyond
//!   its end. Only the connection with SQLite's lock for writing stores or truncates, and readers read only what is
//!   there.
//! - *Durability*: a shared word has the lines that are stored and not durable, and [`MappedLog::sync`] flushes them,
//!   whichever connection stored them, then fences: with `synchronous=NORMAL` one connection stores, and another one's
//!   checkpoint syncs. Only the writer empties the word: next to another connection that writes, it would lose what that
//!   has stored since. Where a store is durable at once nothing is flushed, and the word says up to where the length has
//!   to be synced.
//! - *A kill* may come between any two steps. So the words say less than is durable: a store is noted before it is made,
//!   and what a truncation changes in the words is changed before it.

use std::ops::Range as Bytes;

use pm::Range;

use crate::database::contract::{Failure, LogFile};
use crate::database::wal::media::{Lines, WalFile, WalShared, WalWord, count};

/// A write of so many bytes is a page's.
const LEAST_PAGE_BYTES: usize = 512;
/// Bytes of the header of a frame.
const FRAME_HEADER_BYTES: usize = 24;
/// In the header of the last frame of a transaction: the number of the database's pages, which is not 0.
const PAGES: Bytes<usize> = 4..8;

/// The log of one connection.
#[derive(Debug)]
pub struct MappedLog<F, S> {
    file: F,
    shared: S,
    /// The count of truncations when this connection last stored; `None` if it has not stored yet.
    cuts: Option<u64>,
    /// The place of the last transaction's end that was counted.
    last_end: u64,
}

impl<F: WalFile, S: WalShared> MappedLog<F, S> {
    /// The log in a file that was just opened.
    pub fn new(file: F, shared: S) -> Self {
        Self { file, shared, cuts: None, last_end: 0 }
    }

    /// Learns of truncations by others. The caller has SQLite's lock for writing, so the length stays.
    #[inline]
    fn see_cuts(&mut self) -> Result<(), Failure> {
        let cuts = Some(self.shared.load(WalWord::Cuts));
        if cuts != self.cuts {
            self.file.see()?;
            self.cuts = cuts;
        }
        Ok(())
    }

    /// Counts a write.
    fn count(&mut self, at: u64, bytes: &[u8]) {
        let counters = self.shared.counters();
        count(&counters.bytes, bytes.len() as u64);
        count(&counters.frames, u64::from(bytes.len() >= LEAST_PAGE_BYTES));
        let is_end = bytes.len() == FRAME_HEADER_BYTES && bytes[PAGES] != [0; 4];
        // SQLite may write a header again, with another checksum.
        if at == 0 || is_end {
            count(&counters.commits, u64::from(at != self.last_end && at > 0));
            self.last_end = at;
        }
    }

    fn unflushed(&self) -> Lines {
        Lines::of_word(self.shared.load(WalWord::Unflushed))
    }

    /// Notes that a range is about to be stored.
    fn note(&self, range: Range) {
        let (before, lines) = (self.unflushed(), Lines::of(range));
        // A log's header begins it anew: all that was in it is durable in the database.
        let begins = range.start == 0 || before.is_empty();
        let after = if begins { lines } else { before.with(lines) };
        if after != before {
            self.shared.store(WalWord::Unflushed, after.word());
        }
    }

    /// Makes the length durable that the file has, before anything in a new part is. A new log's name has to be found
    /// after a power cut. `cuts` is the count of truncations before the length was seen.
    fn sync_length(&self, synced: u64, cuts: u64) -> Result<(), Failure> {
        let bytes = self.file.bytes();
        self.file.sync_length()?;
        if synced == 0 {
            self.file.sync_name()?;
        }
        // A truncation raises the count first. A length from before it is not durable any more.
        if self.shared.load(WalWord::Cuts) == cuts {
            self.shared.store(WalWord::LogSynced, bytes);
        }
        Ok(())
    }
}

impl<F: WalFile, S: WalShared> LogFile for MappedLog<F, S> {
    fn read(&mut self, at: u64, out: &mut [u8]) -> Result<usize, Failure> {
        // A reader knows what is there: a length from before a truncation does no harm.
        if at + out.len() as u64 > self.file.bytes() {
            self.file.see()?;
        }
        let there = self.file.bytes().saturating_sub(at).min(out.len() as u64) as usize;
        let (wanted, rest) = out.split_at_mut(there);
        rest.fill(0);
        if there > 0 {
            self.file.read_into(at, wanted)?;
        }
        self.file.healthy()?;
        Ok(there)
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Failure> {
        self.file.healthy()?;
        self.see_cuts()?;
        let range = Range::new(at, bytes.len() as u64);
        if self.file.outlasts_power() {
            self.note(range);
        }
        if range.end() <= self.file.bytes() {
            self.file.copy(at, bytes);
        } else {
            self.file.write_at(at, bytes)?;
        }
        self.count(at, bytes);
        self.file.healthy()
    }

    fn truncate(&mut self, to: u64) -> Result<(), Failure> {
        self.file.healthy()?;
        let cuts = self.shared.load(WalWord::Cuts).wrapping_add(1);
        self.shared.store(WalWord::Cuts, cuts);
        let synced = self.shared.load(WalWord::LogSynced);
        self.shared.store(WalWord::LogSynced, synced.min(to));
        self.shared.store(WalWord::Unflushed, self.unflushed().within(to).word());
        self.file.cut(to)?;
        self.cuts = Some(cuts);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Failure> {
        if !self.file.outlasts_power() {
            return self.file.healthy();
        }
        let flushes = self.file.needs_flush();
        let is_writer = self.shared.is_writer();
        let unflushed = self.unflushed();
        if !unflushed.is_empty() {
            let cuts = self.shared.load(WalWord::Cuts);
            if is_writer {
                self.see_cuts()?;
            }
            // Others may have stored all of it. Without the lock for writing, a length may be one from before a
            // truncation.
            if !is_writer || unflushed.end() > self.file.bytes() {
                self.file.see()?;
            }
            let range = unflushed.range(self.file.bytes());
            let synced = self.shared.load(WalWord::LogSynced);
            if range.end() > synced {
                self.sync_length(synced, cuts)?;
            }
            if flushes {
                self.file.flush(range);
                let (first, end) = range.lines();
                count(&self.shared.counters().lines, end - first);
            }
        }
        if flushes {
            self.file.fence();
            count(&self.shared.counters().fences, 1);
        }
        self.file.healthy()?;
        if is_writer {
            self.shared.store(WalWord::Unflushed, Lines::default().word());
        }
        Ok(())
    }

    fn size(&mut self) -> Result<u64, Failure> {
        self.file.see()?;
        Ok(self.file.bytes())
    }
}

const _: () = assert!(LEAST_PAGE_BYTES > 32, "a header is no page");
