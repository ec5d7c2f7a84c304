//! The bytes of a backup; drawn in `docs/format/backup.md`.

use serde::{Deserialize, Serialize};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use engines::below::Schema;

use crate::error::BACKUP_VERSION;

pub(super) const MAGIC: [u8; 8] = *b"PERDBAK\0";
/// Bytes of tuples after which a block ends; a larger tuple has a block of its own.
pub(super) const BLOCK_BYTES: usize = 64 << 10;

/// The description: the first block.
pub(super) const DESCRIPTION: u32 = 1;
/// Tuples of one table in one partition.
pub(super) const TUPLES: u32 = 2;
/// The end of a table in a partition: [`TableEnd`].
pub(super) const TABLE_END: u32 = 3;
/// The last block: [`Trailer`].
pub(super) const TRAILER: u32 = 4;

/// Pages of one partition, in a base backup: of each its number, eight bytes, and its bytes.
pub(super) const PAGES: u32 = 5;
/// The end of a partition in a base backup: [`PartitionEnd`].
pub(super) const PARTITION_END: u32 = 6;

/// The header at the start of the file.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
pub(super) struct Header {
    pub(super) magic: [u8; 8],
    pub(super) version: U32,
    /// CRC-32C of the header with a checksum of zero.
    pub(super) checksum: U32,
    /// The identity of this backup alone.
    pub(super) uuid: [u8; 16],
}

/// The header before each block's contents.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
pub(super) struct BlockHeader {
    /// CRC-32C of the backup's uuid, of what follows in this header, and of the contents.
    pub(super) checksum: U32,
    /// Bytes of the contents.
    pub(super) bytes: U32,
    /// The first block has number 0.
    pub(super) number: U64,
    pub(super) kind: U32,
    pub(super) partition: U32,
    pub(super) table: U32,
    /// Tuples in the contents.
    pub(super) tuples: U32,
}

/// The contents of a block that ends a table.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
pub(super) struct TableEnd {
    pub(super) tuples: U64,
    /// The sum of the CRC-32C of each tuple, modulo 2^64.
    pub(super) sum: U64,
}

/// The contents of a block that ends a partition of a base backup.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct PartitionEnd {
    /// The number that its pages and its archive have.
    pub(super) stamp: U64,
    /// The oldest LSN that it needs.
    pub(super) keep: U64,
    /// The LSN from which recovery begins.
    pub(super) start: U64,
    /// The LSN before which it is of no use.
    pub(super) end: U64,
    /// The time when that was so, in microseconds since 1970.
    pub(super) micros: U64,
    pub(super) pages: U64,
    /// The pages of its file, used or not.
    pub(super) count: U64,
    /// The archive's last segment at that time: its number, its own number, and the LSN at its end.
    pub(super) segment: U64,
    pub(super) segment_id: U64,
    pub(super) archived: U64,
    pub(super) page_bytes: U32,
    pub(super) zero: U32,
}

/// The contents of the last block.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
pub(super) struct Trailer {
    /// The number of tuples in all tables and partitions.
    pub(super) tuples: U64,
    /// Bytes of the file.
    pub(super) bytes: U64,
    /// CRC-32C of the file up to the last block.
    pub(super) checksum: U32,
    pub(super) zero: U32,
}

const _: () = assert!(size_of::<Header>() == 32);
const _: () = assert!(std::mem::offset_of!(Header, checksum) == 12);
const _: () = assert!(size_of::<BlockHeader>() == 32);
const _: () = assert!(std::mem::offset_of!(BlockHeader, number) == 8);
const _: () = assert!(std::mem::offset_of!(BlockHeader, tuples) == 28);
const _: () = assert!(size_of::<TableEnd>() == 16);
const _: () = assert!(size_of::<PartitionEnd>() == 88);
const _: () = assert!(size_of::<Trailer>() == 24);
const _: () = assert!(std::mem::offset_of!(Trailer, checksum) == 16);

impl Header {
    pub(super) fn new(uuid: [u8; 16]) -> Self {
        let version = BACKUP_VERSION.into();
        let mut header = Self { magic: MAGIC, version, checksum: 0.into(), uuid };
        header.checksum = header.sum().into();
        header
    }

    pub(super) fn sum(mut self) -> u32 {
        self.checksum = 0.into();
        crc32c::crc32c(self.as_bytes())
    }
}

impl BlockHeader {
    pub(super) fn sum(&self, uuid: &[u8; 16], contents: &[u8]) -> u32 {
        let sum = crc32c::crc32c_append(crc32c::crc32c(uuid), &self.as_bytes()[4..]);
        crc32c::crc32c_append(sum, contents)
    }
}

/// The description, in JSON.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Description {
    /// The version of Perdura that has written the backup.
    pub(super) perdura: String,
    /// The engine's name.
    pub(super) engine: String,
    pub(super) partitions: u32,
    pub(super) node_bytes: u32,
    pub(super) chunk_bytes: u64,
    pub(super) schema: Schema,
    /// It has pages, and needs an archive of the log.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) base: bool,
}
