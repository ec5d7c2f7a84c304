//! The database file while its log is open: SQLite reads its pages where they are, and its checkpoints write there.
//!
//! A checkpoint writes no page that another connection may read from the file, so pages can be read in place. What lies
//! beyond the file's end is written by a call of the kernel, as in the log. A counter shows others that the length has
//! changed. It is odd while the file is truncated, and as long as it is, others look at the length each time: one that
//! looked in between, and no more, would store beyond the end if the truncating process died before it counted again.
//!
//! *Durability*: what a checkpoint stores is flushed, and fenced at its end. SQLite syncs only after a complete
//! checkpoint, and may complete one that another connection has begun, so each one is fenced.

use pm::Range;

use crate::database::contract::Failure;
use crate::database::wal::media::{WalFile, WalShared, WalWord, count};
use crate::store::fetch::overread_bytes;

/// The database of one connection in WAL mode.
#[derive(Debug)]
pub struct WalDatabase<F, S> {
    file: F,
    shared: S,
    /// The count of changed lengths when the file's length was last seen.
    resized: u64,
}

impl<F: WalFile, S: WalShared> WalDatabase<F, S> {
    /// The database of a connection whose log is open.
    ///
    /// # Errors
    /// The kernel does not say how long the file is.
    pub fn new(file: F, shared: S) -> Result<Self, Failure> {
        let resized = shared.load(WalWord::Resized);
        file.see()?;
        Ok(Self { file, shared, resized })
    }

    /// The state that the connection shares.
    pub(super) fn shared(&self) -> &S {
        &self.shared
    }

    /// Returns whether a range lies within the file, whose length others change.
    #[inline]
    fn is_there(&mut self, end: u64) -> Result<bool, Failure> {
        let resized = self.shared.load(WalWord::Resized);
        if resized != self.resized || is_odd(resized) {
            self.file.see()?;
            self.resized = resized;
        }
        Ok(end <= self.file.bytes())
    }

    /// Copies bytes from `at` on, zeros past the end. Returns how many bytes there are.
    ///
    /// # Errors
    /// The medium fails.
    pub fn read(&mut self, at: u64, out: &mut [u8]) -> Result<usize, Failure> {
        let mut there = out.len();
        if !self.is_there(at + out.len() as u64)? {
            self.file.see()?;
            there = self.file.bytes().saturating_sub(at).min(out.len() as u64) as usize;
        }
        let (wanted, rest) = out.split_at_mut(there);
        rest.fill(0);
        if there > 0 {
            self.file.read_into(at, wanted)?;
        }
        self.file.healthy()?;
        Ok(there)
    }

    /// The address of bytes; `None` if not all of them are there, with what SQLite may read after a damaged page.
    ///
    /// # Errors
    /// The medium fails.
    pub fn fetch(&mut self, at: u64, len: u64) -> Result<Option<*const u8>, Failure> {
        if !self.is_there(at + len + overread_bytes(len))? {
            return Ok(None);
        }
        Ok(Some(self.file.address(Range::new(at, len))?))
    }

    /// Stores a page, as a checkpoint does.
    ///
    /// # Errors
    /// No room, or the medium fails.
    pub fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Failure> {
        self.file.healthy()?;
        self.end_truncation_of_the_dead()?;
        let range = Range::new(at, bytes.len() as u64);
        if self.is_there(range.end())? {
            self.file.copy(at, bytes);
        } else {
            self.file.write_at(at, bytes)?;
            self.resized = self.resized.wrapping_add(2);
            self.shared.store(WalWord::Resized, self.resized);
        }
        if self.file.needs_flush() {
            self.file.flush(range);
            let (first, end) = range.lines();
            count(&self.shared.counters().lines, end - first);
        }
        self.file.healthy()
    }

    /// Ends a truncation during which a process died: no other connection checkpoints now.
    fn end_truncation_of_the_dead(&mut self) -> Result<(), Failure> {
        let resized = self.shared.load(WalWord::Resized);
        if is_odd(resized) {
            self.file.see()?;
            self.shared.store(WalWord::Resized, resized.wrapping_add(1));
        }
        Ok(())
    }

    /// Sets the file's length, after a checkpoint.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn truncate(&mut self, to: u64) -> Result<(), Failure> {
        self.file.healthy()?;
        if self.is_there(to)? && self.file.bytes() == to {
            return Ok(());
        }
        let resized = self.shared.load(WalWord::Resized) | 1;
        self.shared.store(WalWord::Resized, resized);
        let synced = self.shared.load(WalWord::Synced);
        self.shared.store(WalWord::Synced, synced.min(to));
        self.file.cut(to)?;
        self.shared.store(WalWord::Resized, resized.wrapping_add(1));
        Ok(())
    }

    /// The bytes of the file.
    ///
    /// # Errors
    /// The kernel does not say.
    pub fn size(&mut self) -> Result<u64, Failure> {
        self.is_there(0)?;
        Ok(self.file.bytes())
    }

    /// Makes durable what a checkpoint has stored.
    ///
    /// # Errors
    /// The medium fails.
    pub fn end_checkpoint(&mut self) -> Result<(), Failure> {
        if self.file.needs_flush() {
            self.file.fence();
            count(&self.shared.counters().fences, 1);
        }
        self.file.healthy()
    }

    /// Makes the file's length durable, too.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn sync(&mut self) -> Result<(), Failure> {
        if self.file.outlasts_power() {
            let bytes = self.size()?;
            if bytes != self.shared.load(WalWord::Synced) {
                self.file.sync_length()?;
                self.shared.store(WalWord::Synced, bytes);
            }
        }
        self.end_checkpoint()
    }
}

/// Returns whether a count of changed lengths says that the file is being truncated.
fn is_odd(resized: u64) -> bool {
    resized % 2 == 1
}
