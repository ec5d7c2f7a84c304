//! Reads an SSTable from front to back, past the cache: for merges and checks.

use std::sync::Arc;

use pm::File;

use super::{Cursor, SsTable};
use crate::lsm::block::{self, BLOCK_HEADER_BYTES, BlockAt, Slice, record};
use crate::lsm::error::LsmError;

/// Bytes that are read at once.
const WINDOW_BYTES: usize = 128 << 10;

/// All entries of an SSTable in the order of their keys. Blocks of the index lie between those of
/// the data and are passed over.
#[derive(Debug)]
pub struct Sequence<R: File> {
    table: Arc<SsTable<R>>,
    /// The bytes that were read of the file; `start` is where they begin in it.
    window: Vec<u8>,
    start: u64,
    /// The block of data at hand within the window, and the record at hand in it.
    block: std::ops::Range<usize>,
    index: usize,
    /// The place where the next block begins in the file.
    next: u64,
    last_key: Vec<u8>,
    at_end: bool,
    blocks: u64,
    entries: u64,
}

impl<R: File> Sequence<R> {
    /// Returns a sequence at the first entry.
    ///
    /// # Errors
    /// Damage, or the file cannot be read.
    pub fn new(table: Arc<SsTable<R>>) -> Result<Self, LsmError> {
        let mut sequence = Self {
            table,
            window: Vec::new(),
            start: 0,
            block: 0..0,
            index: 0,
            next: 0,
            last_key: Vec::new(),
            at_end: false,
            blocks: 0,
            entries: 0,
        };
        sequence.next_block()?;
        Ok(sequence)
    }

    /// The run that is read.
    pub fn table(&self) -> &Arc<SsTable<R>> {
        &self.table
    }

    /// Bytes of the file that lie before the entry at hand, about.
    pub fn position(&self) -> u64 {
        self.start + self.block.start as u64
    }

    /// The bytes `len` bytes from `at` on in the window.
    fn load(&mut self, at: u64, len: usize) -> Result<usize, LsmError> {
        let end = self.start + self.window.len() as u64;
        if at < self.start || at + len as u64 > end {
            let limit = (self.table.filter_at - at).min(len.max(WINDOW_BYTES) as u64) as usize;
            self.window.resize(limit, 0);
            let result = self.table.file.read_at(at, &mut self.window);
            let filled = result.map_err(LsmError::io("read", &self.table.name))?;
            self.window.truncate(filled);
            self.start = at;
            if filled < len {
                return Err(self.table.damaged(at, "the file ends in the middle of a block"));
            }
        }
        Ok((at - self.start) as usize)
    }

    fn next_block(&mut self) -> Result<(), LsmError> {
        loop {
            let at = self.next;
            let rest = self.table.filter_at.saturating_sub(at);
            if rest == 0 {
                self.at_end = true;
                let complete =
                    self.blocks == self.table.blocks && self.entries == self.table.info().entries;
                let what = "the number of blocks or entries is another than the footer says";
                return if complete { Ok(()) } else { Err(self.table.damaged(at, what)) };
            }
            let damaged = "a block does not fit into the file";
            if rest < BLOCK_HEADER_BYTES as u64 {
                return Err(self.table.damaged(at, damaged));
            }
            let from = self.load(at, BLOCK_HEADER_BYTES)?;
            let announced = block::announced(&self.window[from..]);
            let Some((bytes, height)) = announced.filter(|(bytes, _)| u64::from(*bytes) <= rest)
            else {
                return Err(self.table.damaged(at, damaged));
            };
            let from = self.load(at, bytes as usize)?;
            self.block = from..from + bytes as usize;
            let found = &self.window[self.block.clone()];
            block::check(found, self.table.info().file, at, height)
                .map_err(|what| self.table.damaged(at, what))?;
            self.next = at + u64::from(bytes);
            self.blocks += 1;
            if height == 0 {
                let first = record(found, 0).1;
                if self.entries > 0 && first <= &self.last_key[..] {
                    return Err(self.table.damaged(at, "the blocks are not in order"));
                }
                let records = block::Block(Slice(found)).len();
                self.last_key.clear();
                self.last_key.extend_from_slice(record(found, records - 1).1);
                self.entries += records as u64;
                self.index = 0;
                return Ok(());
            }
        }
    }

    /// Returns where the block of data at hand lies.
    pub fn block_at(&self) -> BlockAt {
        BlockAt { at: self.start + self.block.start as u64, bytes: self.block.len() as u32 }
    }
}

impl<R: File> Cursor for Sequence<R> {
    fn key(&self) -> Option<&[u8]> {
        (!self.at_end).then(|| record(&self.window[self.block.clone()], self.index).1)
    }

    fn entry(&self) -> (u8, &[u8]) {
        let (kind, _, body) = record(&self.window[self.block.clone()], self.index);
        (kind, body)
    }

    fn advance(&mut self) -> Result<(), LsmError> {
        if self.at_end {
            return Ok(());
        }
        self.index += 1;
        if self.index == block::Block(Slice(&self.window[self.block.clone()])).len() {
            self.next_block()?;
        }
        Ok(())
    }
}
