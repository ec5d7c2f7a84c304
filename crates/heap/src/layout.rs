//! The layout of what the allocator keeps in memory: `docs/format/heap.md` draws it.

use pm::{Off, POOL_DATA_START};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Bytes of the superblock with a root directory of the least size; `directory_names` says more.
pub const SUPERBLOCK_BYTES: u64 = 4096;
/// Bytes of one lane's area: hints, then the mini-transaction log.
pub const LANE_AREA_BYTES: u64 = 8192;
/// Bytes of a chunk's header; its bitmap follows.
pub const CHUNK_HEADER_BYTES: u64 = 64;

pub(crate) const SUPERBLOCK_AT: u64 = POOL_DATA_START;
pub(crate) const SUPERBLOCK_MAGIC: u64 = u64::from_le_bytes(*b"PDHEAP01");
pub(crate) const CHUNK_MAGIC: u32 = u32::from_le_bytes(*b"PDCK");
pub(crate) const NAME_BYTES: usize = 48;
/// The place where the root directory begins.
const NAMES_AT: u64 = SUPERBLOCK_AT + 128;
/// Words for hints: 128 classes for each purpose.
pub(crate) const HINT_CLASSES: u64 = 128;
pub(crate) const HINTS_BYTES: u64 = 3 * HINT_CLASSES * 8;
pub(crate) const MINI_LOG_AT: u64 = HINTS_BYTES;
/// The place, in the line of the mini-transaction log's header, of the number of the chunk that the
/// lane took last, plus one.
pub(crate) const TAKEN_AT: u64 = MINI_LOG_AT + 8;
pub(crate) const MINI_LOG_WORDS: usize =
    ((LANE_AREA_BYTES - MINI_LOG_AT - 64) / size_of::<MiniEntry>() as u64) as usize;

/// The fixed part of the superblock, written once when the heap is formatted.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, Debug)]
#[repr(C)]
pub(crate) struct Superblock {
    pub(crate) magic: u64,
    pub(crate) chunk_bytes: u64,
    pub(crate) lanes: u32,
    pub(crate) names: u32,
    pub(crate) chunks_at: u64,
    pub(crate) reserved: [u64; 3],
    pub(crate) checksum: u64,
}

/// A word of its own line: how many chunks have been taken from the memory so far.
pub(crate) const HIGH_WATER: Off<u64> = Off::new(SUPERBLOCK_AT + 64);

/// The link to the first block of lanes, in the superblock's line; zero where there is none.
pub(crate) const FIRST_BLOCK: Off<u64> = Off::new(SUPERBLOCK_AT + 72);

/// The class in the tag of a block's first chunk; the word with its length stands where a span has
/// it, the link to the next block after that.
pub(crate) const BLOCK_CLASS: u8 = 254;
pub(crate) const NEXT_BLOCK_AT: u64 = 16;
/// A block of lanes takes so many bytes, in whole chunks; where a chunk is larger, one chunk.
pub(crate) const BLOCK_BYTES: u64 = 64 << 10;
/// Bytes at the start of a lane's area that are zero when the lane is made: the hints, and the line
/// with the header word of the mini-transaction.
pub(crate) const FRESH_BYTES: u64 = MINI_LOG_AT + 64;

/// The class in the tag of a span's first chunk, and where the word with its length stands there.
pub(crate) const SPAN_CLASS: u8 = 255;
pub(crate) const SPAN_WORD_AT: u64 = 8;

/// An entry of the root directory. It counts while `state` is `NAME_SET`.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, Debug)]
#[repr(C)]
pub(crate) struct NameEntry {
    pub(crate) name: [u8; NAME_BYTES],
    pub(crate) root: u64,
    pub(crate) state: u64,
}

pub(crate) const NAME_SET: u64 = u64::from_le_bytes(*b"NAME SET");

/// A word and the value that a mini-transaction gives it.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct MiniEntry {
    pub(crate) at: u64,
    pub(crate) value: u64,
}

const _: () = assert!(size_of::<Superblock>() == 64);
const _: () = assert!(size_of::<NameEntry>() == 64);
const _: () = assert!(size_of::<MiniEntry>() == 16);
const _: () = assert!(directory_names(1) == 62 && lanes_at(62) == SUPERBLOCK_AT + SUPERBLOCK_BYTES);
const _: () = assert!(MINI_LOG_WORDS == 316);
const _: () = assert!(FIRST_BLOCK.get() / 64 == HIGH_WATER.get() / 64);

/// Returns how many names the root directory of a heap with so many lanes has room for: at least
/// one a lane, and as many as fit into the superblock's pages.
pub(crate) const fn directory_names(lanes: u32) -> u32 {
    let bytes = 128 + lanes as u64 * size_of::<NameEntry>() as u64;
    let whole = bytes.next_multiple_of(SUPERBLOCK_BYTES);
    ((whole - 128) / size_of::<NameEntry>() as u64) as u32
}

/// Returns where the area of lane 0 starts: directly after the root directory.
pub(crate) const fn lanes_at(names: u32) -> u64 {
    NAMES_AT + names as u64 * size_of::<NameEntry>() as u64
}

pub(crate) fn name_at(index: u32) -> Off<NameEntry> {
    Off::new(NAMES_AT + u64::from(index) * 64)
}

/// The first word of a chunk: which class its slots have, what they are for, and whose they are.
/// Zero in a chunk that was never used. One 8-byte store changes all of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ChunkTag {
    pub(crate) class: u8,
    pub(crate) purpose: u8,
    pub(crate) lane: u16,
}

impl ChunkTag {
    pub(crate) fn encode(self) -> u64 {
        u64::from(CHUNK_MAGIC)
            | u64::from(self.class) << 32
            | u64::from(self.purpose) << 40
            | u64::from(self.lane) << 48
    }

    pub(crate) fn decode(word: u64) -> Option<Self> {
        (word as u32 == CHUNK_MAGIC).then_some(Self {
            class: (word >> 32) as u8,
            purpose: (word >> 40) as u8,
            lane: (word >> 48) as u16,
        })
    }
}
