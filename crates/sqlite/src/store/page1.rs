//! Page 1: the marker that keeps stock SQLite out, and what SQLite is shown in its place.
//!
//! The read version of a file that only this VFS can read is `MARKER`, and a reserved word has the side file's tag.
//! SQLite above this VFS sees neither.

use std::ops::Range;

use pm::{LineSet, Memory};

use crate::store::error::Result;
use crate::store::layout::{
    COUNTERS, DATABASE_MAGIC, DATABASE_TAG, FRACTIONS, FRACTIONS_ALWAYS, GRANULE, HEADER_BYTES,
    MARKER, READ_VERSION, RESERVED, VERSIONS_AT, WRITE_VERSION,
};
use crate::store::region::Region;

/// The bytes at the offsets in [`COUNTERS`], of which the first has four.
pub(crate) type Counters = [[u8; 8]; 2];

const COUNTER_AT: u64 = COUNTERS[0].start as u64;
const VALID_FOR_AT: u64 = COUNTERS[1].start as u64;

/// Returns whether the marker is set in a file that begins with these bytes.
pub fn is_marked(header: &[u8]) -> bool {
    // A database that is being created has only the marker, or the beginning of the magic.
    let begins = |(found, magic): (&u8, &u8)| found == magic || *found == 0;
    header.len() > READ_VERSION
        && header.iter().zip(DATABASE_MAGIC).all(begins)
        && header[READ_VERSION] == MARKER
}

/// Returns whether a page 1 that begins with these bytes is in SQLite's form, or zeroed: the marker and the tag then take
/// the place of bytes whose values are known. An extension that encrypts writes others, perhaps after a part of the
/// header that is SQLite's. Where pages have bytes reserved, an extension may have a checksum there, which would not
/// match after a recovery has raised the change counter.
pub(crate) fn has_sqlites_form(header: &[u8]) -> bool {
    let is_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
    // A kill may have left the tag.
    let is_header = header.len() >= HEADER_BYTES as usize
        && header.starts_with(DATABASE_MAGIC)
        && header[FRACTIONS] == FRACTIONS_ALWAYS
        && header[RESERVED] == 0
        && is_zero(&header[DATABASE_TAG.end..COUNTERS[1].start]);
    is_header || is_zero(header)
}

/// Returns whether a file that begins with these bytes is in SQLite's WAL mode.
pub(crate) fn is_in_wal_mode(header: &[u8]) -> bool {
    header.len() > READ_VERSION && header[WRITE_VERSION] == 2 && header[READ_VERSION] == 2
}

/// The first bytes of a file, at most a header.
pub fn header<M: Memory>(data: &Region<M>, size: u64) -> Result<Vec<u8>> {
    let mut header = vec![0; size.min(data.len()).min(HEADER_BYTES) as usize];
    data.read_into(0, &mut header)?;
    Ok(header)
}

/// Bytes of the database in a plain file of `size` bytes. A file of zeros, apart from a tag, is a new database
/// whose first commit was interrupted before the marker was set: it is empty.
pub(crate) fn plain_size<M: Memory>(data: &Region<M>, size: u64) -> Result<u64> {
    let mut bytes = header(data, size)?;
    let tag = DATABASE_TAG.start.min(bytes.len())..DATABASE_TAG.end.min(bytes.len());
    bytes[tag].fill(0);
    let mut at = bytes.len() as u64;
    while bytes.iter().all(|byte| *byte == 0) {
        if at >= size {
            return Ok(0);
        }
        bytes.resize((size - at).min(GRANULE) as usize, 0);
        data.read_into(at, &mut bytes)?;
        at += bytes.len() as u64;
    }
    Ok(size)
}

/// Hides the marker and the tag in bytes from `at` on.
pub(crate) fn show(at: u64, bytes: &mut [u8], write_version: u8) {
    let mut put = |place: usize, byte: u8| {
        let index = (place as u64).checked_sub(at).and_then(|index| usize::try_from(index).ok());
        if let Some(there) = index.and_then(|index| bytes.get_mut(index)) {
            *there = byte;
        }
    };
    put(READ_VERSION, write_version);
    DATABASE_TAG.for_each(|place| put(place, 0));
}

/// Puts the marker and the tag into a page 1.
pub(crate) fn mark(page: &mut [u8], tag: u64) {
    page[READ_VERSION] = MARKER;
    page[DATABASE_TAG].copy_from_slice(&tag.to_le_bytes());
}

/// Replaces the WAL mode in page 1, as in a copied database, by rollback mode. Returns whether there was one.
pub(crate) fn refuse_wal(granule: &mut [u8; GRANULE as usize]) -> bool {
    let refused = granule[WRITE_VERSION] == 2;
    if refused {
        (granule[WRITE_VERSION], granule[READ_VERSION]) = (1, 1);
    }
    refused
}

/// Takes the counters out of a page 1 that SQLite wrote, and puts those of the frame there.
pub(crate) fn take_counters(page: &mut [u8], held: &[u8]) -> Counters {
    COUNTERS.map(|range| {
        let mut bytes = [0; 8];
        bytes[..range.len()].copy_from_slice(&page[range.clone()]);
        page[range.clone()].copy_from_slice(&held[range]);
        bytes
    })
}

/// Raises SQLite's counter by one, so that its own cache is not valid after the commit.
pub(crate) fn raise(counters: &mut Counters) {
    let written = counters[0].first_chunk().copied().map_or(0, u32::from_be_bytes);
    let next = written.wrapping_add(1).to_be_bytes();
    counters.iter_mut().for_each(|bytes| bytes[..4].copy_from_slice(&next));
}

/// Stores what precedes the marker: the tag, and a change counter that is one higher, so that stock SQLite reads
/// page 1 again.
pub(crate) fn announce<M: Memory>(
    data: &Region<M>,
    tag: u64,
    size: u64,
    lines: &mut LineSet,
) -> Result<()> {
    data.store(DATABASE_TAG.start as u64, tag);
    if size >= HEADER_BYTES {
        for at in [COUNTER_AT, VALID_FOR_AT] {
            let mut counter = [0; 4];
            data.read_into(at, &mut counter)?;
            let next = u32::from_be_bytes(counter).wrapping_add(1);
            data.copy(at, &next.to_be_bytes());
        }
    }
    data.note(lines, 0, HEADER_BYTES);
    Ok(())
}

/// Stores the marker. What it stands for is durable.
pub(crate) fn set_marker<M: Memory>(data: &Region<M>, lines: &mut LineSet) -> Result<()> {
    store_read_version(data, MARKER, lines)
}

/// Clears the marker. The file is plain once this is durable.
pub(crate) fn clear_marker<M: Memory>(data: &Region<M>, lines: &mut LineSet) -> Result<()> {
    let mut version = [0];
    data.read_into(WRITE_VERSION as u64, &mut version)?;
    store_read_version(data, version[0], lines)
}

/// Clears the tag of a plain file.
pub(crate) fn clear_tag<M: Memory>(data: &Region<M>, lines: &mut LineSet) {
    data.store(DATABASE_TAG.start as u64, 0);
    data.note(lines, DATABASE_TAG.start as u64, 8);
}

fn store_read_version<M: Memory>(data: &Region<M>, version: u8, lines: &mut LineSet) -> Result<()> {
    let mut word = data.load(VERSIONS_AT)?.to_le_bytes();
    word[READ_VERSION - VERSIONS_AT as usize] = version;
    data.store(VERSIONS_AT, u64::from_le_bytes(word));
    data.note(lines, VERSIONS_AT, 8);
    Ok(())
}

/// Raises the change counter, which invalidates caches. The size in the header is valid, as after every commit; the
/// two counters may have become durable separately.
pub(crate) fn raise_counters<M: Memory>(data: &Region<M>, lines: &mut LineSet) -> Result<()> {
    let mut counter = [0; 4];
    data.read_into(COUNTER_AT, &mut counter)?;
    let next = u32::from_be_bytes(counter).wrapping_add(1).to_be_bytes();
    data.copy(COUNTER_AT, &next);
    data.copy(VALID_FOR_AT, &next);
    data.note(lines, COUNTER_AT, 4);
    data.note(lines, VALID_FOR_AT, 8);
    Ok(())
}

/// The change counter that SQLite wrote, or the file's plus one if SQLite's is not later.
pub(crate) fn later_counter<M: Memory>(data: &Region<M>, written: &[u8]) -> Result<[u8; 4]> {
    let (mut there, mut counter) = ([0; 4], [0; 4]);
    counter.copy_from_slice(&written[..4]);
    data.read_into(COUNTER_AT, &mut there)?;
    let (there, written) = (u32::from_be_bytes(there), u32::from_be_bytes(counter));
    let is_later = written.wrapping_sub(there).cast_signed() > 0;
    Ok(if is_later { counter } else { there.wrapping_add(1).to_be_bytes() })
}

/// The parts of `len` bytes from `at` on that are not counters. Logged bytes may include old ones, whose replay
/// would make stale caches valid.
pub(crate) fn all_but_counters(at: u64, len: usize) -> impl Iterator<Item = Range<usize>> {
    let [first, second] = COUNTERS.map(|range| (range.start as u64, range.end as u64));
    let around = [(0, first.0), (first.1, second.0), (second.1, u64::MAX)];
    let within = move |place: u64| place.saturating_sub(at).min(len as u64) as usize;
    let parts = around.into_iter().map(move |(start, end)| within(start)..within(end));
    parts.filter(|part| !part.is_empty())
}

/// The tag in page 1.
pub(crate) fn tag<M: Memory>(data: &Region<M>) -> Result<u64> {
    Ok(data.load(DATABASE_TAG.start as u64)?)
}
