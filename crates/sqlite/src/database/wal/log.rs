//! `NAME-wal`: SQLite's write-ahead log, mapped.
//!
//! - *Stores*: what lies within the file is stored in the mapping. What lies beyond its end is written by a call of the
//!   kernel, so that the length stays exact and a full medium is an error.
//! - *Truncation* raises a counter, by which others learn that the file is shorter: no connection stores beyond its end.
//!   Only the connection with SQLite's lock for writing stores or truncates, and readers read only what is there.
//! - *Durability*: [`MappedLog::sync`] flushes from the last durable byte to the last stored one, whichever connection
//!   stored it, then fences: with `synchronous=NORMAL` one connection stores, and another one's checkpoint syncs. A store
//!   before the durable end lowers it. Only the writer raises it: next to another connection that writes, the end could
//!   be raised over what it has stored since. Domains in which a store is durable at once have nothing to flush.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pm::{Domain, Memory as _, Off, Plain, Range};

use crate::database::contract::{Failure, LogFile};
use crate::database::wal::connection::{WalConnection, count};
use crate::database::wal::index_file::IndexFile;
use crate::store::wal_index::{CUTS_AT, DURABLE_AT, LOG_SYNCED_AT, WRITTEN_AT};

/// A write of so many bytes is a page's.
const LEAST_PAGE_BYTES: usize = 512;
/// Bytes of the header of a frame.
const FRAME_HEADER_BYTES: usize = 24;
/// In the header of the last frame of a transaction: the number of the database's pages, which is not 0.
const PAGES: std::ops::Range<usize> = 4..8;

/// The log of one connection.
#[derive(Debug)]
pub(super) struct MappedLog {
    file: Plain,
    path: PathBuf,
    index: Arc<IndexFile>,
    wal: Arc<WalConnection>,
    /// The count of truncations when this connection last stored.
    cuts: u64,
    /// Stores have to be flushed.
    flushes: bool,
    /// The place of the last transaction's end that was counted.
    last_end: u64,
}

impl MappedLog {
    pub(super) fn new(
        file: Plain,
        path: &Path,
        index: Arc<IndexFile>,
        wal: &Arc<WalConnection>,
    ) -> Self {
        let cuts = index.load(CUTS_AT);
        let flushes = matches!(file.domain(), Domain::Adr | Domain::Disk);
        Self {
            file,
            path: path.to_owned(),
            index,
            wal: Arc::clone(wal),
            cuts,
            flushes,
            last_end: 0,
        }
    }

    /// Learns of truncations by others. The caller has SQLite's lock for writing, so the length stays.
    #[inline]
    fn see_cuts(&mut self) -> Result<(), Failure> {
        let cuts = self.index.load(CUTS_AT);
        if cuts != self.cuts {
            self.file.see()?;
            self.cuts = cuts;
        }
        Ok(())
    }

    fn healthy(&self) -> Result<(), Failure> {
        Ok(self.file.healthy()?)
    }

    /// Counts a write.
    fn count(&mut self, at: u64, bytes: &[u8]) {
        let counters = &self.wal.counters;
        count(&counters.bytes, bytes.len() as u64);
        count(&counters.frames, u64::from(bytes.len() >= LEAST_PAGE_BYTES));
        let is_end = bytes.len() == FRAME_HEADER_BYTES && bytes[PAGES] != [0; 4];
        // SQLite may write a header again, with another checksum.
        if at == 0 || is_end {
            count(&counters.commits, u64::from(at != self.last_end && at > 0));
            self.last_end = at;
        }
    }

    /// Notes which bytes are not durable.
    fn note(&self, at: u64, end: u64) {
        if at < self.index.load(DURABLE_AT) {
            self.index.store(DURABLE_AT, at);
        }
        // A log's header begins it anew.
        if at == 0 || end > self.index.load(WRITTEN_AT) {
            self.index.store(WRITTEN_AT, end);
        }
    }
}

impl LogFile for MappedLog {
    fn read(&mut self, at: u64, out: &mut [u8]) -> Result<usize, Failure> {
        // A reader knows what is there: a length from before a truncation does no harm.
        if at + out.len() as u64 > self.file.len() {
            self.file.see()?;
        }
        let there = self.file.len().saturating_sub(at).min(out.len() as u64) as usize;
        let (wanted, rest) = out.split_at_mut(there);
        rest.fill(0);
        if there > 0 {
            self.file.read_into(Off::new(at), wanted)?;
        }
        self.healthy()?;
        Ok(there)
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Failure> {
        self.healthy()?;
        self.see_cuts()?;
        let end = at + bytes.len() as u64;
        if end <= self.file.len() {
            self.file.copy(Off::new(at), bytes);
        } else {
            self.file.write_at(at, bytes)?;
        }
        if self.flushes {
            self.note(at, end);
        }
        self.count(at, bytes);
        self.healthy()
    }

    fn truncate(&mut self, to: u64) -> Result<(), Failure> {
        self.healthy()?;
        // Before: a kill may come between the two.
        self.cuts = self.index.load(CUTS_AT).wrapping_add(1);
        self.index.store(CUTS_AT, self.cuts);
        self.file.cut(to)?;
        for at in [DURABLE_AT, WRITTEN_AT, LOG_SYNCED_AT] {
            self.index.update(at, |end| end.min(to));
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Failure> {
        if !self.flushes {
            return self.healthy();
        }
        let written = self.index.load(WRITTEN_AT);
        let synced = self.index.load(LOG_SYNCED_AT);
        if written > synced {
            // Before anything in the new part is durable. A new log's name has to be found after a power cut.
            self.file.see()?;
            self.file.sync()?;
            if synced == 0 {
                self.file.sync_name(&self.path)?;
            }
            self.index.store(LOG_SYNCED_AT, self.file.len());
        }
        let durable = self.index.load(DURABLE_AT);
        if durable < written {
            self.file.see()?;
            let unflushed =
                Range::new(durable, written.min(self.file.len()).saturating_sub(durable));
            self.file.flush(unflushed);
            let (first, end) = unflushed.lines();
            count(&self.wal.counters.lines, end - first);
        }
        self.file.fence();
        count(&self.wal.counters.fences, 1);
        self.healthy()?;
        if self.wal.is_writer() {
            self.index.store(DURABLE_AT, written);
        }
        Ok(())
    }

    fn size(&mut self) -> Result<u64, Failure> {
        self.file.see()?;
        Ok(self.file.len())
    }
}

impl Drop for MappedLog {
    fn drop(&mut self) {
        self.wal.log_closed();
    }
}

const _: () = assert!(LEAST_PAGE_BYTES > 32, "a header is no page");
