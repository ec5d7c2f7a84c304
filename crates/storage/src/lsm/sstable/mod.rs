//! SSTables (P1 3.3): a run of entries in a file, sorted, immutable, with an index of its blocks
//! and a Bloom filter. The bytes are drawn in `docs/format/sstable.md`.
//!
//! Invariants:
//! - A file is complete and durable before the manifest names it, and never changes afterwards.
//! - Every byte is under a checksum that also says where it belongs. A block is checked when it is
//!   read, and one that fails its check is not used.
//!
//! The index is a static B+tree above the data, its blocks of the same form as those of the data,
//! so that index, filter and data share one cache, and opening a run reads its footer only.

mod cursor;
mod layout;
mod reader;
mod sequence;
mod writer;

pub use cursor::SsCursor;
pub use layout::FOOTER_BYTES;
pub use reader::SsTable;
pub use sequence::Sequence;
pub use writer::SsWriter;

use super::block::BLOCK_HEADER_BYTES;
use super::error::LsmError;

/// The most bytes of an entry besides its key and its body, and of a pointer to a block.
const RECORD_BYTES: u64 = 8;
const POINTER_BYTES: u64 = 24;

/// The facts that a complete SSTable is known by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SsInfo {
    /// The file's number.
    pub file: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Entries in it.
    pub entries: u64,
    /// The number of them that are tombstones.
    pub tombstones: u64,
    /// The checksum in its footer.
    pub checksum: u32,
}

/// The options with which SSTables are written.
#[derive(Clone, Copy, Debug)]
pub struct SsOptions {
    /// Bytes of a block; one with a larger tuple is larger. At least 256.
    pub block_bytes: u32,
    /// Bits of the Bloom filter for each key.
    pub bits_per_key: u32,
}

impl SsOptions {
    /// Bytes that the file of so many entries has at most: `bytes` are those of their keys and bodies,
    /// of which no key has more than `key_bytes`, and no key and body together more than `both`.
    pub fn most_bytes(&self, entries: u64, bytes: u64, (key_bytes, both): (u64, u64)) -> u64 {
        let (block, head) = (u64::from(self.block_bytes), BLOCK_HEADER_BYTES as u64);
        // Of two blocks in succession neither takes what is in both; and none takes one entry more.
        let filled = (block - head).saturating_sub(both.saturating_add(RECORD_BYTES));
        let records = bytes + RECORD_BYTES * entries;
        let blocks = entries.min(records / filled.max((block - head) / 2) + 1);
        // Each level of the index has at most a fourth of the blocks below it.
        let index = (blocks + blocks / 3 + 2) * (key_bytes + RECORD_BYTES + POINTER_BYTES + head);
        let filter = index::Bloom::bytes_for(entries, self.bits_per_key);
        let pages = filter / (block / 2) + 1;
        records + blocks * head + index + filter + pages * layout::PAGE_HEADER_BYTES + FOOTER_BYTES
    }
}

/// The name of file `file` of a partition.
pub fn sstable_name(partition: u32, file: u64) -> String {
    format!("{}{file:016x}", sstable_prefix(partition))
}

/// Returns what the names of a partition's SSTables start with.
pub fn sstable_prefix(partition: u32) -> String {
    format!("sstable-{partition}-")
}

/// A sequence of entries in the order of their keys, or against it.
pub trait Cursor {
    /// The key of the entry at hand; `None` at the end.
    fn key(&self) -> Option<&[u8]>;
    /// Kind and body of the entry at hand, in the form of [`super::record`].
    ///
    /// # Panics
    /// At the end there is none.
    fn entry(&self) -> (u8, &[u8]);
    /// Goes on to the next entry.
    ///
    /// # Errors
    /// It cannot be read.
    fn advance(&mut self) -> Result<(), LsmError>;
}

impl<C: Cursor + ?Sized> Cursor for Box<C> {
    fn key(&self) -> Option<&[u8]> {
        (**self).key()
    }

    fn entry(&self) -> (u8, &[u8]) {
        (**self).entry()
    }

    fn advance(&mut self) -> Result<(), LsmError> {
        (**self).advance()
    }
}
