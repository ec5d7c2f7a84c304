//! Writing an SSTable from front to back, in steps as small as the caller likes.

use std::sync::Arc;

use index::Bloom;
use index::bloom::{BLOOM_BLOCK_BYTES, hash};
use pm::{File, Files};
use zerocopy::IntoBytes;

use super::layout::{FOOTER_BYTES, Footer, MAGIC, PAGE_HEADER_BYTES, VERSION};
use super::{SsInfo, SsOptions, sstable_name};
use crate::logs::segments::Spare;
use crate::lsm::block::{BlockAt, BlockBuilder, FILTER_HEIGHT, POINTER, seal};
use crate::lsm::error::LsmError;
use crate::lsm::record::KIND_TOMBSTONE;

/// Bytes that are written at once.
const BUFFER_BYTES: usize = 64 << 10;
/// Bytes after which the file is synced while it grows, so that the last sync has little to do.
const SYNC_BYTES: u64 = 4 << 20;

/// An SSTable that is being written. Nothing but its file knows of it until [`Self::finish`].
#[derive(Debug)]
pub struct SsWriter<R: File> {
    file: Arc<R>,
    /// True if the file has space ahead, which is given back at its end.
    has_space: bool,
    name: String,
    number: u64,
    partition: u32,
    options: SsOptions,
    /// Bytes that have been written, and those that have been synced.
    written: u64,
    synced: u64,
    buffer: Vec<u8>,
    /// The block that is being filled at each height; the data come first.
    open: Vec<BlockBuilder>,
    bloom: Bloom,
    filter: Vec<u8>,
    entries: u64,
    tombstones: u64,
    blocks: u64,
    index_bytes: u64,
    end: Option<End>,
}

/// The part that is written after the entries.
#[derive(Clone, Copy, Debug)]
struct End {
    root: BlockAt,
    height: usize,
    filter_at: u64,
    /// Bytes of the filter that are in their pages.
    filter_done: usize,
}

/// Pointers that a block has at least before it is full, however wide the keys: with one in each
/// there would be no end of levels.
const MIN_FANOUT: usize = 4;

impl<R: File> SsWriter<R> {
    /// Starts file `number` of a partition, which gets at most `keys` entries.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn create<F: Files<File = R>>(
        files: &F,
        partition: u32,
        number: u64,
        keys: u64,
        options: SsOptions,
    ) -> Result<Self, LsmError> {
        let name = sstable_name(partition, number);
        let file = files.create(&name).map_err(LsmError::io("create", &name))?;
        Ok(Self::begin((Arc::new(file), name, false), partition, number, keys, options))
    }

    /// The same in a file that has space set aside, and gets the name of this one. If it has space for
    /// more than `bytes` bytes, the rest stays set aside.
    ///
    /// # Errors
    /// It cannot be renamed or cut.
    ///
    /// # Panics
    /// The file is missing.
    pub fn create_in<F: Files<File = R>>(
        (spare, bytes): (&mut Spare<F>, u64),
        partition: u32,
        number: u64,
        keys: u64,
        options: SsOptions,
    ) -> Result<Self, LsmError> {
        let name = sstable_name(partition, number);
        let segment = spare.take_part(&name, bytes).map_err(LsmError::io("create", &name))?;
        let file = (segment.file().clone(), name, true);
        Ok(Self::begin(file, partition, number, keys, options))
    }

    fn begin(
        (file, name, has_space): (Arc<R>, String, bool),
        partition: u32,
        number: u64,
        keys: u64,
        options: SsOptions,
    ) -> Self {
        Self {
            file,
            has_space,
            name,
            number,
            partition,
            options,
            written: 0,
            synced: 0,
            buffer: Vec::with_capacity(BUFFER_BYTES * 2),
            open: vec![BlockBuilder::new(0)],
            bloom: Bloom::new(options.bits_per_key),
            filter: vec![0; Bloom::bytes_for(keys, options.bits_per_key) as usize],
            entries: 0,
            tombstones: 0,
            blocks: 0,
            index_bytes: 0,
            end: None,
        }
    }

    /// The file's number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The file's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether it is written in a file that had space set aside.
    pub fn has_space(&self) -> bool {
        self.has_space
    }

    /// Entries so far.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Adds an entry, whose key is above all others.
    ///
    /// # Errors
    /// The medium is full or failed; the file is of no use then.
    ///
    /// # Panics
    /// The key is not above all others, or [`Self::finish_step`] has been called.
    pub fn add(&mut self, kind: u8, key: &[u8], body: &[u8]) -> Result<(), LsmError> {
        assert!(self.end.is_none(), "the run has been ended");
        let block = &self.open[0];
        if !block.is_empty()
            && block.bytes() + BlockBuilder::record_bytes(key, body)
                > self.options.block_bytes as usize
        {
            self.close(0)?;
        }
        self.open[0].add(kind, key, body);
        self.bloom.add(&mut self.filter, hash(key));
        self.entries += 1;
        self.tombstones += u64::from(kind == KIND_TOMBSTONE);
        Ok(())
    }

    /// Ends the block at a height; the block above it gets a pointer.
    fn close(&mut self, height: usize) -> Result<(), LsmError> {
        let at = self.end_block(height)?;
        if self.open.len() == height + 1 {
            self.open.push(BlockBuilder::new(height as u8 + 1));
        }
        let (below, above) = self.open.split_at_mut(height + 1);
        let (key, body) = (below[height].last_key(), at.encode());
        if above[0].records() >= MIN_FANOUT
            && above[0].bytes() + BlockBuilder::record_bytes(key, &body)
                > self.options.block_bytes as usize
        {
            let key = key.to_vec();
            self.close(height + 1)?;
            self.open[height + 1].add(POINTER, &key, &body);
        } else {
            above[0].add(POINTER, key, &body);
        }
        Ok(())
    }

    fn end_block(&mut self, height: usize) -> Result<BlockAt, LsmError> {
        let at = self.written + self.buffer.len() as u64;
        let bytes = self.open[height].finish(self.number, at, &mut self.buffer);
        self.blocks += 1;
        if height > 0 {
            self.index_bytes += u64::from(bytes);
        }
        if self.buffer.len() >= BUFFER_BYTES {
            self.spill()?;
        }
        Ok(BlockAt { at, bytes })
    }

    fn spill(&mut self) -> Result<(), LsmError> {
        let result = self.file.write_at(self.written, &self.buffer);
        result.map_err(LsmError::io("write to", &self.name))?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        if self.written - self.synced >= SYNC_BYTES {
            self.sync()?;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), LsmError> {
        self.file.sync().map_err(LsmError::io("sync", &self.name))?;
        self.synced = self.written;
        Ok(())
    }

    /// Writes about `budget` bytes of index and filter after the last entry. Returns how many bytes
    /// are left before [`Self::finish`] has only the footer to write.
    ///
    /// # Errors
    /// The medium is full or failed; the file is of no use then.
    ///
    /// # Panics
    /// There is no entry.
    pub fn finish_step(&mut self, budget: u64) -> Result<u64, LsmError> {
        let mut end = match self.end {
            Some(end) => end,
            None => self.end_blocks()?,
        };
        let result = self.write_filter(&mut end.filter_done, budget);
        self.end = Some(end);
        result?;
        Ok((self.filter.len() - end.filter_done) as u64)
    }

    /// Writes what is left, index, filter and footer, and makes the file's contents durable. Its
    /// name is durable after the next sync of the directory.
    ///
    /// # Errors
    /// The medium is full or failed; the file is of no use then.
    ///
    /// # Panics
    /// There is no entry.
    pub fn finish(mut self) -> Result<SsInfo, LsmError> {
        self.finish_step(u64::MAX)?;
        let Some(End { root, height, filter_at, .. }) = self.end else {
            unreachable!("a step sets it")
        };
        let page_bytes = self.page_lines() * BLOOM_BLOCK_BYTES + PAGE_HEADER_BYTES;
        let mut footer = Footer {
            magic: MAGIC,
            version: VERSION.into(),
            checksum: 0.into(),
            file: self.number.into(),
            partition: self.partition.into(),
            height: (height as u32).into(),
            root_at: root.at.into(),
            root_bytes: root.bytes.into(),
            bits_per_key: self.options.bits_per_key.into(),
            filter_at: filter_at.into(),
            filter_bytes: (self.filter.len() as u64).into(),
            page_bytes: (page_bytes as u32).into(),
            reserved: 0.into(),
            entries: self.entries.into(),
            tombstones: self.tombstones.into(),
            blocks: self.blocks.into(),
            index_bytes: self.index_bytes.into(),
            file_bytes: (self.written + self.buffer.len() as u64 + FOOTER_BYTES).into(),
        };
        footer.checksum = footer.sum().into();
        self.buffer.extend_from_slice(footer.as_bytes());
        self.spill()?;
        if self.has_space {
            self.file.set_len(self.written).map_err(LsmError::io("cut", &self.name))?;
        }
        self.sync()?;
        Ok(SsInfo {
            file: self.number,
            bytes: self.written,
            entries: self.entries,
            tombstones: self.tombstones,
            checksum: footer.checksum.get(),
        })
    }

    /// Ends the open block at each height.
    fn end_blocks(&mut self) -> Result<End, LsmError> {
        assert!(self.entries > 0, "a run has entries");
        let mut height = 0;
        let root = loop {
            if height + 1 == self.open.len() {
                break self.end_block(height)?;
            }
            if !self.open[height].is_empty() {
                self.close(height)?;
            }
            height += 1;
        };
        let filter_at = self.written + self.buffer.len() as u64;
        Ok(End { root, height, filter_at, filter_done: 0 })
    }

    /// Lines of the filter in a page.
    fn page_lines(&self) -> u64 {
        (u64::from(self.options.block_bytes) / BLOOM_BLOCK_BYTES).max(2) - 1
    }

    /// Goes on with writing the filter in pages, each a block with a header of a line.
    fn write_filter(&mut self, done: &mut usize, budget: u64) -> Result<(), LsmError> {
        let page_bytes = (self.page_lines() * BLOOM_BLOCK_BYTES) as usize;
        let mut left = budget;
        while *done < self.filter.len() && left > 0 {
            let lines = &self.filter[*done..self.filter.len().min(*done + page_bytes)];
            let start = self.buffer.len();
            let at = self.written + start as u64;
            self.buffer.resize(start + PAGE_HEADER_BYTES as usize, 0);
            self.buffer[start + 12] = FILTER_HEIGHT;
            self.buffer.extend_from_slice(lines);
            *done += lines.len();
            left = left.saturating_sub(lines.len() as u64);
            seal(&mut self.buffer[start..], self.number, at);
            if self.buffer.len() >= BUFFER_BYTES {
                self.spill()?;
            }
        }
        Ok(())
    }
}
