//! Offsets in `NAME-shm`: `docs/format/sqlite-wal-index.md`. The file is volatile: its first user makes it anew.
//!
//! It begins as a file of stock SQLite's does, with two copies of a header, whose version is none that stock SQLite
//! knows: the *gate*. Stock SQLite then refuses the database. SQLite above this VFS has its own header in the regions,
//! which come later.

/// The bytes of the gate.
pub(crate) const GATE_BYTES: usize = 2 * HEADER_BYTES;
/// The byte on which each connection with this file open holds a shared kernel lock, as stock SQLite does.
pub(crate) const DEAD_MAN_AT: u64 = 128;
/// The bytes on which stock SQLite has locks.
pub(crate) const STOCK_LOCKS: (u64, u64) = (120, 9);
/// The first word of ours.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"PerduraW");
pub(crate) const MAGIC_AT: u64 = 136;
/// The format's version.
pub(crate) const VERSION: u64 = 4;
pub(crate) const VERSION_AT: u64 = 144;
/// The number of the side file of the connections that have this file.
pub(crate) const SIDE_FILE_AT: u64 = 152;
/// The number of the file of the differential log that the connections with the log open have; 0 if they have none.
pub(crate) const RECORDS_FILE_AT: u64 = 160;
/// The number of lines that are or were in use.
pub(crate) const LINES_AT: u64 = 192;

// Words about the differential log:
/// Its generation, and how often the following words have changed, 32 bits each.
pub(crate) const RECORDS_TURN_AT: u64 = 256;
/// Its durable length.
pub(crate) const RECORDS_SYNCED_AT: u64 = 264;
/// The ends of the last two commits in it, in turns, each: frames of the log and a checksum, 32 bits each.
pub(crate) const RECORDS_END_AT: u64 = 272;
/// The offset of such an end.
pub(crate) const RECORDS_AT: u64 = 280;
/// The end of these words.
pub(crate) const RECORDS_WORDS_END: u64 = RECORDS_AT + 24;

/// The owners of the locks, each in a line.
pub(crate) const OWNERS_AT: u64 = 4096;
// In the line of the lock for writing:
/// The owner that gets the lock next.
pub(crate) const CLAIM_AT: u64 = OWNERS_AT + 8;
/// The time when a claimant last got it.
pub(crate) const HANDED_AT: u64 = OWNERS_AT + 16;

// Words about the two files. They change when a file's length does, or with a commit in a domain that flushes:
/// How often the log was truncated.
pub(crate) const CUTS_AT: u64 = 4608;
/// The lines of the log that are stored, and not durable: the first one, and the one after the last, 32 bits each.
pub(crate) const UNFLUSHED_AT: u64 = 4616;
/// The log's length that is durable.
pub(crate) const LOG_SYNCED_AT: u64 = 4624;
/// Twice how often the database's length changed; odd while the file is truncated.
pub(crate) const RESIZED_AT: u64 = 4632;
/// The database's length that is durable.
pub(crate) const SYNCED_AT: u64 = 4640;

/// The connections' lines. Words: locks, shared locks taken, since when the connection waits for the lock for writing,
/// until when that counts, and a number that wakes it.
pub(crate) const LINE_AT: u64 = 4672;
/// The number of lines.
pub(crate) const LINES: usize = 255;
/// The first region.
pub(crate) const REGIONS_AT: u64 = 32768;
/// The bytes of a region.
pub(crate) const REGION_BYTES: u64 = 32768;
/// Bytes of SQLite's two headers and of what follows them, at the beginning of the first region.
pub(crate) const INDEX_HEADER_BYTES: usize = 136;
/// In SQLite's header: the last frame that is committed, 32 bits, in a word.
pub(crate) const SHOWN_AT: u64 = REGIONS_AT + 16;

const _: () = assert!(
    LINE_AT.is_multiple_of(64)
        && LINE_AT + LINES as u64 * 64 <= REGIONS_AT
        && OWNERS_AT + 8 * 64 <= CUTS_AT
        && SYNCED_AT + 8 <= LINE_AT
        && LINES_AT.is_multiple_of(64)
        && RECORDS_FILE_AT + 8 <= LINES_AT
        && LINES_AT + 8 <= RECORDS_TURN_AT
        && RECORDS_WORDS_END <= OWNERS_AT
        && GATE_BYTES as u64 <= STOCK_LOCKS.0
);

/// Bytes of a header of SQLite's.
const HEADER_BYTES: usize = 48;
/// The version in a header that stock SQLite knows.
const STOCK_VERSION: u32 = 3_007_000;
/// The version in the gate.
const GATE_VERSION: u32 = STOCK_VERSION + 80;

/// The gate: a valid header, twice, that stock SQLite refuses because of its version.
pub(crate) fn gate() -> [u8; GATE_BYTES] {
    let mut words = [0_u32; HEADER_BYTES / 4];
    words[0] = GATE_VERSION;
    // The byte that says that it is initialized.
    words[3] = u32::from_ne_bytes([1, 0, 0, 0]);
    let (mut first, mut second) = (0_u32, 0_u32);
    for pair in words[..10].chunks(2) {
        first = first.wrapping_add(pair[0]).wrapping_add(second);
        second = second.wrapping_add(pair[1]).wrapping_add(first);
    }
    (words[10], words[11]) = (first, second);
    let mut gate = [0; GATE_BYTES];
    for (at, byte) in words.iter().flat_map(|word| word.to_ne_bytes()).enumerate() {
        (gate[at], gate[at + HEADER_BYTES]) = (byte, byte);
    }
    gate
}
