//! Finds an entry of an SSTable.

use index::Bloom;
use index::bloom::BLOOM_BLOCK_BYTES;
use pm::{File, Files, Memory, View};
use zerocopy::FromBytes;

use super::layout::{FOOTER_BYTES, Footer, MAGIC, PAGE_HEADER_BYTES, VERSION};
use super::{SsInfo, sstable_name};
use crate::lsm::block::{self, Block, BlockAt, FILTER_HEIGHT};
use crate::lsm::cache::{BlockCache, Found};
use crate::lsm::error::LsmError;
use crate::lsm::record::{MALFORMED, Record};

/// Levels of index blocks: each is at least twice as large as the one above it.
const MAX_HEIGHT: u32 = 32;

/// An SSTable that can be read.
#[derive(Debug)]
pub struct SsTable<R: File> {
    pub(super) file: R,
    pub(super) name: String,
    info: SsInfo,
    pub(super) root: BlockAt,
    pub(super) height: u8,
    /// The place where the blocks end.
    pub(super) filter_at: u64,
    filter_bytes: u64,
    page_bytes: u32,
    bloom: Bloom,
    pub(super) blocks: u64,
    index_bytes: u64,
}

impl<R: File> SsTable<R> {
    /// Opens a file that the manifest names: `info` is what it must be. Reads the footer only.
    ///
    /// # Errors
    /// [`LsmError::Missing`], [`LsmError::Foreign`], [`LsmError::Damaged`] or
    /// [`LsmError::Version`]; [`LsmError::Io`].
    pub fn open<F: Files<File = R>>(
        files: &F,
        partition: u32,
        info: SsInfo,
    ) -> Result<Self, LsmError> {
        let name = sstable_name(partition, info.file);
        let file = match files.open(&name) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(LsmError::Missing { name });
            }
            opened => opened.map_err(LsmError::io("open", &name))?,
        };
        let bytes = file.len().map_err(LsmError::io("read", &name))?;
        let footer_at = bytes.saturating_sub(FOOTER_BYTES);
        let mut footer = [0; FOOTER_BYTES as usize];
        let filled = file.read_at(footer_at, &mut footer).map_err(LsmError::io("read", &name))?;
        let damaged = |what| LsmError::damaged(&name, footer_at, what);
        let footer = Footer::read_from_bytes(&footer[..filled])
            .map_err(|_| damaged("the file is shorter than its footer"))?;
        if footer.magic != MAGIC {
            return Err(damaged(if bytes < info.bytes {
                "the file has lost its end"
            } else {
                "there is no footer at its end"
            }));
        }
        if footer.version.get() != VERSION {
            let found = footer.version.get();
            return Err(LsmError::Version { name, found, supported: VERSION });
        }
        if footer.checksum.get() != footer.sum() {
            return Err(damaged("the footer's checksum is wrong"));
        }
        let table = Self {
            info: SsInfo {
                file: footer.file.get(),
                bytes,
                entries: footer.entries.get(),
                tombstones: footer.tombstones.get(),
                checksum: footer.checksum.get(),
            },
            root: BlockAt { at: footer.root_at.get(), bytes: footer.root_bytes.get() },
            height: footer.height.get().min(MAX_HEIGHT) as u8,
            filter_at: footer.filter_at.get(),
            filter_bytes: footer.filter_bytes.get(),
            page_bytes: footer.page_bytes.get(),
            bloom: Bloom::new(footer.bits_per_key.get()),
            blocks: footer.blocks.get(),
            index_bytes: footer.index_bytes.get(),
            file,
            name,
        };
        if footer.partition.get() != partition {
            return Err(table.foreign("it belongs to another partition"));
        }
        if table.info != info || footer.file_bytes.get() != bytes {
            return Err(table.foreign("number, size or checksum differ"));
        }
        if !table.makes_sense(footer_at) || footer.height.get() > MAX_HEIGHT {
            return Err(table.damaged(footer_at, "the footer does not make sense"));
        }
        Ok(table)
    }

    /// Returns whether the sizes in the footer fit together.
    fn makes_sense(&self, footer_at: u64) -> bool {
        let lines = u64::from(self.page_bytes).checked_sub(PAGE_HEADER_BYTES);
        let Some(lines) =
            lines.filter(|lines| *lines > 0 && lines.is_multiple_of(BLOOM_BLOCK_BYTES))
        else {
            return false;
        };
        let pages = self.filter_bytes.div_ceil(lines);
        let filter_end = self
            .filter_at
            .checked_add(self.filter_bytes)
            .and_then(|end| end.checked_add(pages.checked_mul(PAGE_HEADER_BYTES)?));
        filter_end == Some(footer_at)
            && self.filter_bytes.is_multiple_of(BLOOM_BLOCK_BYTES)
            && self.info.entries > 0
            && self.index_bytes <= self.filter_at
    }

    fn foreign(&self, what: &'static str) -> LsmError {
        LsmError::Foreign { name: self.name.clone(), what }
    }

    pub(super) fn damaged(&self, at: u64, what: &'static str) -> LsmError {
        LsmError::damaged(&self.name, at, what)
    }

    /// Returns what the file is known by.
    pub fn info(&self) -> SsInfo {
        self.info
    }

    /// Bytes of the file that serve finding: the blocks of the index, the filter, the footer.
    pub fn index_bytes(&self) -> u64 {
        self.index_bytes + self.info.bytes.saturating_sub(self.filter_at)
    }

    /// The file's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads a block and checks it.
    pub(super) fn load(&self, at: BlockAt, height: u8, out: &mut [u8]) -> Result<(), LsmError> {
        let result = self.file.read_at(at.at, out);
        let filled = result.map_err(LsmError::io("read", &self.name))?;
        if filled < out.len() {
            return Err(self.damaged(at.at, "the file ends in the middle of a block"));
        }
        block::check(out, self.info.file, at.at, height).map_err(|what| self.damaged(at.at, what))
    }

    /// Gives a block to `search`, from the cache if it is there.
    #[inline]
    pub(super) fn with_block<M: Memory, T>(
        &self,
        cache: &BlockCache<M>,
        at: BlockAt,
        height: u8,
        search: impl FnOnce(Block<Found<'_, M>>) -> T,
    ) -> Result<T, LsmError> {
        let end = if height == FILTER_HEIGHT { self.info.bytes } else { self.filter_at };
        if at.at.checked_add(u64::from(at.bytes)).is_none_or(|here| here > end)
            || (at.bytes as usize) < block::BLOCK_HEADER_BYTES
        {
            return Err(self.damaged(at.at, "a pointer leads out of the file"));
        }
        let place = (self.info.file, at.at, at.bytes);
        let found = cache.with(
            place,
            |out| self.load(at, height, out),
            // One that was in the cache was asked for by another pointer, perhaps.
            |block| (block.height() == height).then(|| search(block)),
        );
        found?.ok_or_else(|| self.damaged(at.at, "a pointer leads to a block of another height"))
    }

    /// Returns whether the file may have an entry for the key with this hash; if not, it has none.
    ///
    /// # Errors
    /// Damage, or the file cannot be read.
    pub fn may_contain<M: Memory>(
        &self,
        cache: &BlockCache<M>,
        hash: u64,
    ) -> Result<bool, LsmError> {
        let mut line = [0u8; BLOOM_BLOCK_BYTES as usize];
        let mut loaded = false;
        self.bloom.may_contain_in(self.filter_bytes, hash, |at| {
            if !std::mem::replace(&mut loaded, true) {
                self.filter_line(cache, at - at % BLOOM_BLOCK_BYTES, &mut line)?;
            }
            let word = (at % BLOOM_BLOCK_BYTES) as usize;
            Ok(u64::from_le_bytes(std::array::from_fn(|byte| line[word + byte])))
        })
    }

    /// All bits of a key lie in one line.
    fn filter_line<M: Memory>(
        &self,
        cache: &BlockCache<M>,
        at: u64,
        line: &mut [u8; BLOOM_BLOCK_BYTES as usize],
    ) -> Result<(), LsmError> {
        let lines = u64::from(self.page_bytes) - PAGE_HEADER_BYTES;
        let (page, within) = (at / lines, at % lines);
        let bytes = (self.filter_bytes - page * lines).min(lines) + PAGE_HEADER_BYTES;
        let page =
            BlockAt { at: self.filter_at + page * u64::from(self.page_bytes), bytes: bytes as u32 };
        self.with_block(cache, page, FILTER_HEIGHT, |block| {
            let (from, bytes) = ((PAGE_HEADER_BYTES + within) as usize, line.len());
            block.0.bytes(from, bytes).copy_to(line);
        })
    }

    /// Gives the entry of `key` to `read`, if there is one.
    ///
    /// # Errors
    /// Damage, or the file cannot be read.
    pub fn get<M: Memory, T>(
        &self,
        cache: &BlockCache<M>,
        key: &[u8],
        read: impl FnOnce(Record<Found<'_, M>>) -> T,
    ) -> Result<Option<T>, LsmError> {
        let mut at = self.root;
        for height in (1..=self.height).rev() {
            let child = self.with_block(cache, at, height, |block| {
                let (index, _) = block.lower_bound(key);
                (index < block.len()).then(|| block.pointer(index))
            })?;
            let Some(child) = child else { return Ok(None) };
            at = child.ok_or_else(|| self.damaged(at.at, "a pointer does not make sense"))?;
        }
        let found = self.with_block(cache, at, 0, |block| {
            let (index, here) = block.lower_bound(key);
            here.then(|| {
                let (kind, body) = block.place(index);
                Record::within(block.0, kind, body).map(read)
            })
        })?;
        match found {
            None => Ok(None),
            Some(Some(value)) => Ok(Some(value)),
            Some(None) => Err(self.damaged(at.at, MALFORMED)),
        }
    }
}
