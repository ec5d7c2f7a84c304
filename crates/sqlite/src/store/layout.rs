//! Places in the side file and in page 1: `docs/format/sqlite-side-file.md`.

/// The first word of a side file.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"PerduraS");
/// The format's version.
pub(crate) const VERSION: u64 = 10;

pub(crate) const MAGIC_AT: u64 = 0;
pub(crate) const VERSION_AT: u64 = 8;
/// A random word that page 1 has, too, as long as the marker is set.
pub(crate) const TAG_AT: u64 = 16;
/// Bytes of each of the two slots.
pub(crate) const SLOT_BYTES_AT: u64 = 24;
/// Checksum over what is before it.
pub(crate) const HEADER_CHECK_AT: u64 = 32;

// Words that change, each with a checksum in it (`store::sealed`):
/// Bytes of the database, as SQLite knows it.
pub(crate) const SIZE_AT: u64 = 64;
/// The number of the last commit that was begun.
pub(crate) const BEGUN_AT: u64 = 72;
/// The number of the last commit that is in place.
pub(crate) const APPLIED_AT: u64 = 80;
/// The number of the last commit that is durable where it belongs: no slot with it, or with a smaller one,
/// counts.
pub(crate) const CHECKPOINTED_AT: u64 = 88;
/// The binary logarithms of a page's bytes, and above its 8 bits of the entries of the table; 0 if frames of
/// pages mean nothing, or there is no entry.
pub(crate) const TABLE_AT: u64 = 96;
/// The number of the last commit that was prepared, as a part of a transaction over several databases; 0 if there is
/// none.
pub(crate) const PREPARED_AT: u64 = 104;
/// Bytes of the log of frames (`store::blocks`) that are committed.
pub(crate) const LOG_BYTES_AT: u64 = 112;
/// Times that it was emptied.
pub(crate) const EMPTIED_AT: u64 = 120;
/// Checksum, and the bytes of the name of its super-journal, which is behind this word.
pub(crate) const NAME_AT: u64 = 128;
/// The most bytes of such a name.
pub(crate) const NAME_MAX: u64 = LOCKS_AT - NAME_AT - 8;
/// The words of the locks of connections: the writer's, and one for each of them. They mean nothing when nobody
/// has the database open.
pub(crate) const LOCKS_AT: u64 = 4096;
/// The number of these words.
pub(crate) const LOCK_WORDS: u64 = 256;
/// How often the marker was cleared since the database was opened.
pub(crate) const CLEARED_AT: u64 = LOCKS_AT + LOCK_WORDS * 8;
/// The first of the two slots. Behind the second one is the table, and behind that room for a large commit.
pub(crate) const SLOTS_AT: u64 = 8192;

// In a slot:
/// Checksum, and above it flags and the bytes of what is logged; 0 if the slot is empty.
pub(crate) const MARK_AT: u64 = 0;
/// The lower half of the number, and the checksum over what was stored directly.
pub(crate) const NUMBER_AT: u64 = 8;
/// First the words that the flags name, then what is logged: a small commit fits into one line or two.
pub(crate) const LOGGED_AT: u64 = 16;
/// The most words that flags name.
pub(crate) const WORDS_MAX: u64 = 2;

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

const _: () = assert!(
    SIZE_AT.is_multiple_of(64)
        && PREPARED_AT < SIZE_AT + 64
        && NAME_AT == SIZE_AT + 64
        && LOCKS_AT.is_multiple_of(64)
        && CLEARED_AT + 8 <= SLOTS_AT
        && SLOTS_AT.is_multiple_of(64)
);
const _: () = assert!(MARKER != 1 && MARKER != 2 && DATABASE_TAG.start.is_multiple_of(8));
