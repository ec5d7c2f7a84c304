//! The database file while its log is open: SQLite reads its pages where they are, and its checkpoints write there.
//!
//! A checkpoint writes no page that another connection may read from the file, so pages can be read in place. What lies
//! beyond the file's end is written by a call of the kernel, as in the log. A counter shows others that the length has
//! changed.
//!
//! *Durability*: what a checkpoint stores is flushed, and fenced at its end. SQLite syncs only after a complete
//! checkpoint, and may complete one that another connection has begun, so each one is fenced.

use std::sync::Arc;

use pm::{Domain, Memory as _, Off, Plain, Range};

use crate::database::contract::Failure;
use crate::database::wal::connection::{WalConnection, count};
use crate::database::wal::index_file::IndexFile;
use crate::store::fetch::overread_bytes;
use crate::store::wal_index::{RESIZED_AT, SYNCED_AT};

/// The database of one connection in WAL mode.
#[derive(Debug)]
pub(crate) struct WalDatabase {
    data: Plain,
    index: Arc<IndexFile>,
    wal: Arc<WalConnection>,
    /// The count of changed lengths when the file's length was last known.
    resized: u64,
    /// Stores have to be flushed.
    flushes: bool,
}

impl WalDatabase {
    /// The database of a connection whose log is open.
    ///
    /// # Errors
    /// The kernel does not say how long the file is.
    pub(crate) fn new(wal: &Arc<WalConnection>, index: Arc<IndexFile>) -> Result<Self, Failure> {
        let data = wal.data.clone();
        let flushes = matches!(data.domain(), Domain::Adr | Domain::Disk);
        let resized = index.load(RESIZED_AT);
        data.see()?;
        Ok(Self { data, index, wal: Arc::clone(wal), resized, flushes })
    }

    /// Returns an error if the medium of the index has failed: others do not see this connection's locks.
    pub(crate) fn healthy(&self) -> Result<(), Failure> {
        Ok(self.index.file().healthy()?)
    }

    /// Returns whether a range lies within the file, whose length others change.
    #[inline]
    fn is_there(&mut self, end: u64) -> Result<bool, Failure> {
        let resized = self.index.load(RESIZED_AT);
        if resized != self.resized {
            self.data.see()?;
            self.resized = resized;
        }
        Ok(end <= self.data.len())
    }

    /// Copies bytes from `at` on, zeros past the end. Returns how many bytes there are.
    pub(crate) fn read(&mut self, at: u64, out: &mut [u8]) -> Result<usize, Failure> {
        let mut there = out.len();
        if !self.is_there(at + out.len() as u64)? {
            self.data.see()?;
            there = self.data.len().saturating_sub(at).min(out.len() as u64) as usize;
        }
        let (wanted, rest) = out.split_at_mut(there);
        rest.fill(0);
        if there > 0 {
            self.data.read_into(Off::new(at), wanted)?;
        }
        self.data.healthy()?;
        Ok(there)
    }

    /// The address of bytes; `None` if not all of them are there, with what SQLite may read after a damaged page.
    pub(crate) fn fetch(&mut self, at: u64, len: u64) -> Result<Option<*const u8>, Failure> {
        if !self.is_there(at + len + overread_bytes(len))? {
            return Ok(None);
        }
        Ok(Some(self.data.address(Range::new(at, len))?))
    }

    /// Stores a page, as a checkpoint does.
    pub(crate) fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Failure> {
        self.data.healthy()?;
        let range = Range::new(at, bytes.len() as u64);
        if self.is_there(range.end())? {
            self.data.copy(Off::new(at), bytes);
        } else {
            self.data.write_at(at, bytes)?;
            self.note_length();
        }
        if self.flushes {
            self.data.flush(range);
            let (first, end) = range.lines();
            count(&self.wal.counters.lines, end - first);
        }
        Ok(self.data.healthy()?)
    }

    /// Sets the file's length.
    pub(crate) fn truncate(&mut self, to: u64) -> Result<(), Failure> {
        self.data.healthy()?;
        if self.is_there(to)? && self.data.len() == to {
            return Ok(());
        }
        // Before as well: a kill may come between the two.
        self.note_length();
        self.data.cut(to)?;
        self.note_length();
        self.index.update(SYNCED_AT, |synced| synced.min(to));
        Ok(())
    }

    /// Shows others that the length changes.
    fn note_length(&self) {
        self.index.update(RESIZED_AT, |count| count.wrapping_add(1));
    }

    /// The bytes of the file.
    pub(crate) fn size(&mut self) -> Result<u64, Failure> {
        self.is_there(0)?;
        Ok(self.data.len())
    }

    /// Makes durable what a checkpoint has stored.
    pub(crate) fn end_checkpoint(&mut self) -> Result<(), Failure> {
        if self.flushes {
            self.data.fence();
            count(&self.wal.counters.fences, 1);
        }
        Ok(self.data.healthy()?)
    }

    /// Makes the file's length durable, too.
    pub(crate) fn sync(&mut self) -> Result<(), Failure> {
        if self.flushes {
            let bytes = self.size()?;
            if bytes != self.index.load(SYNCED_AT) {
                self.data.sync()?;
                self.index.store(SYNCED_AT, bytes);
            }
        }
        self.end_checkpoint()
    }
}
