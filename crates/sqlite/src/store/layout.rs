//! Offsets in the side file and in page 1: `docs/format/sqlite-side-file.md`.

/// The first word of a side file.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"PerduraS");
/// The format's version.
pub(crate) const VERSION: u64 = 11;

pub(crate) const MAGIC_AT: u64 = 0;
pub(crate) const VERSION_AT: u64 = 8;
/// A random word, also in page 1 while the marker is set.
pub(crate) const TAG_AT: u64 = 16;
/// Bytes of each of the two slots.
pub(crate) const SLOT_BYTES_AT: u64 = 24;
/// Checksum of the words before it.
pub(crate) const HEADER_CHECK_AT: u64 = 32;

// Words that change, each with its own checksum (`store::sealed`):
/// Bytes of the database, as SQLite sees it.
pub(crate) const SIZE_AT: u64 = 64;
/// The number of the last commit that has begun.
pub(crate) const BEGUN_AT: u64 = 72;
/// The number of the last commit that has been applied.
pub(crate) const APPLIED_AT: u64 = 80;
/// The number of the last commit that is durable in place: no slot with this number or a smaller one counts.
pub(crate) const CHECKPOINTED_AT: u64 = 88;
/// Binary logarithms: of a page's bytes in the lower 8 bits, of the table's entries above. 0 if commits are not
/// page-wise, or there is no entry.
pub(crate) const TABLE_AT: u64 = 96;
/// The number of the last commit that was prepared for a transaction over several databases, or 0.
pub(crate) const PREPARED_AT: u64 = 104;
/// Committed bytes of NVWAL's log (`store::nvwal_log`).
pub(crate) const LOG_BYTES_AT: u64 = 112;
/// How often that log was emptied.
pub(crate) const EMPTIED_AT: u64 = 120;
/// Checksum and length of the super-journal's name, which follows this word.
pub(crate) const NAME_AT: u64 = 128;
/// The longest name.
pub(crate) const NAME_MAX: u64 = LOCKS_AT - NAME_AT - 8;
/// The lock words: the writer's, and one for each connection. They have no meaning while no connection is open.
pub(crate) const LOCKS_AT: u64 = 4096;
/// The number of lock words.
pub(crate) const LOCK_WORDS: u64 = 256;
/// Raised before the marker is cleared, and before the file is truncated. Only a change has a meaning.
pub(crate) const CLEARED_AT: u64 = LOCKS_AT + LOCK_WORDS * 8;
/// The number of the `NAME-shm` that the connections in WAL mode have.
pub(crate) const INDEX_FILE_AT: u64 = CLEARED_AT + 8;
/// Raised before and after a file with a journal's name is created: odd while one is, and after a process that died
/// meanwhile. Only a change has a meaning.
pub(crate) const JOURNALS_AT: u64 = INDEX_FILE_AT + 8;
/// The queue of connections that found a lock busy. In a cache line of its own: the connection that gets the lock next,
/// when one last got it, and the number of connections' lines that are or were in use. The words have no meaning while no connection is
/// open.
pub(crate) const QUEUE_CLAIM_AT: u64 = 6208;
pub(crate) const QUEUE_HANDED_AT: u64 = QUEUE_CLAIM_AT + 8;
pub(crate) const QUEUE_LINES_AT: u64 = QUEUE_CLAIM_AT + 16;
/// The lines of the first connections. Words: since when the connection waits, until when that counts, and a number that
/// wakes it.
pub(crate) const QUEUE_LINE_AT: u64 = QUEUE_CLAIM_AT + 64;
pub(crate) const QUEUE_LINE_BYTES: u64 = 24;
pub(crate) const QUEUE_LINES: usize = 80;
/// The first of the two slots. After them come the table, and room for a large commit.
pub(crate) const SLOTS_AT: u64 = 8192;

// In a slot:
/// Checksum, bytes of what is logged, and flags; 0 if the slot is empty.
pub(crate) const MARK_AT: u64 = 0;
/// The lower half of the number, and the checksum of the direct stores.
pub(crate) const NUMBER_AT: u64 = 8;
/// The words that the flags name, then what is logged. A small commit fits into one or two lines.
pub(crate) const LOGGED_AT: u64 = 16;
/// The most words that flags name.
pub(crate) const WORDS_MAX: u64 = 2;

/// Bytes that are staged together.
pub(crate) const GRANULE: u64 = 4096;

// In page 1:
pub(crate) const WRITE_VERSION: usize = 18;
pub(crate) const READ_VERSION: usize = 19;
/// The word that contains the read version.
pub(crate) const VERSIONS_AT: u64 = 16;
/// The read version of a database that only this VFS can read. To stock SQLite such a file is not a database.
pub(crate) const MARKER: u8 = 80;
/// Bytes that an extension reserves at the end of each page.
pub(crate) const RESERVED: usize = 20;
/// The payload fractions, and the values that SQLite requires.
pub(crate) const FRACTIONS: std::ops::Range<usize> = 21..24;
pub(crate) const FRACTIONS_ALWAYS: [u8; 3] = [64, 32, 32];
/// The file change counter; and the counter for which the size in the header is valid, with SQLite's version.
pub(crate) const COUNTERS: [std::ops::Range<usize>; 2] = [24..28, 92..100];
/// Bytes reserved for expansion, which SQLite keeps zero.
pub(crate) const DATABASE_TAG: std::ops::Range<usize> = 72..80;
/// Bytes of the header of page 1.
pub(crate) const HEADER_BYTES: u64 = 100;
/// The first bytes of a SQLite database.
pub(crate) const DATABASE_MAGIC: &[u8; 16] = b"SQLite format 3\0";

const _: () = assert!(
    SIZE_AT.is_multiple_of(64)
        && PREPARED_AT < SIZE_AT + 64
        && NAME_AT == SIZE_AT + 64
        && LOCKS_AT.is_multiple_of(64)
        && JOURNALS_AT + 8 <= QUEUE_CLAIM_AT
        && QUEUE_CLAIM_AT.is_multiple_of(64)
        && QUEUE_LINE_AT + QUEUE_LINES as u64 * QUEUE_LINE_BYTES == SLOTS_AT
        && SLOTS_AT.is_multiple_of(64)
);
const _: () = assert!(MARKER != 1 && MARKER != 2 && DATABASE_TAG.start.is_multiple_of(8));
