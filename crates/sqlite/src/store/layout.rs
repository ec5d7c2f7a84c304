//! Places in the side file and in page 1: `docs/format/sqlite-side-file.md`.

/// The first word of a side file.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"PerduraS");
/// The format's version.
pub(crate) const VERSION: u64 = 1;

pub(crate) const MAGIC_AT: u64 = 0;
pub(crate) const VERSION_AT: u64 = 8;
/// A random word that page 1 has, too, as long as the marker is set.
pub(crate) const TAG_AT: u64 = 16;
/// Bytes of each of the two slots.
pub(crate) const SLOT_BYTES_AT: u64 = 24;
/// Checksum over what is before it.
pub(crate) const HEADER_CHECK_AT: u64 = 32;

/// Bytes of the database, as SQLite knows it.
pub(crate) const SIZE_AT: u64 = 64;
/// The number of the last commit that was begun.
pub(crate) const BEGUN_AT: u64 = 72;
/// The number of the last commit that is in place.
pub(crate) const APPLIED_AT: u64 = 80;
/// The number of the last commit that is durable where it belongs: no slot with it, or with a smaller one,
/// counts.
pub(crate) const SETTLED_AT: u64 = 88;
/// The first of the two slots; behind the second one is room for a large transaction.
pub(crate) const SLOTS_AT: u64 = 4096;

// In a slot:
pub(crate) const NUMBER_AT: u64 = 0;
/// Checksum, bytes of frames, and 1; 0 if the slot is empty.
pub(crate) const MARK_AT: u64 = 8;
/// The size of the database, and above its 48 bits what of that of the frames the mark has no room for.
pub(crate) const SIZES_AT: u64 = 16;
/// Frames lie right behind three words: a small commit fits into two lines.
pub(crate) const FRAMES_AT: u64 = 24;

/// Bytes that are staged together.
pub(crate) const GRANULE: u64 = 4096;

// In page 1:
pub(crate) const WRITE_VERSION: usize = 18;
pub(crate) const READ_VERSION: usize = 19;
/// The word that has the read version.
pub(crate) const VERSIONS_AT: u64 = 16;
/// The read version of a database that only we can read: stock SQLite says that it is none.
pub(crate) const MARKER: u8 = 80;
/// The file change counter, and the number that it had when the size in the header was valid, with
/// the version of SQLite that wrote it.
pub(crate) const COUNTERS: [std::ops::Range<usize>; 2] = [24..28, 92..100];
/// Bytes that SQLite keeps for expansion, and has zero.
pub(crate) const DATABASE_TAG: std::ops::Range<usize> = 72..80;
/// Bytes of the header of page 1.
pub(crate) const HEADER_BYTES: u64 = 100;
/// The first bytes of a database of SQLite.
pub(crate) const DATABASE_MAGIC: &[u8; 16] = b"SQLite format 3\0";

const _: () =
    assert!(SIZE_AT.is_multiple_of(64) && SETTLED_AT < SIZE_AT + 64 && SLOTS_AT.is_multiple_of(64));
const _: () = assert!(MARKER != 1 && MARKER != 2 && DATABASE_TAG.start.is_multiple_of(8));
