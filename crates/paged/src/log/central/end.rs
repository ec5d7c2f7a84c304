//! The end of a log that is opened again: where it is, and whether it is damage instead.
//!
//! A crash loses any of the sectors that were written and not synced, and these are all of one
//! group. So after the first place that has no record there may be sound ones, but only of its own
//! group. Each record says where its group begins ([`layout::durable_before`]): one that says that
//! the place was durable shows that the place is damage, not the end.

use std::io;
use std::ops::Range;

use pm::File;
use storage::segments::Segment;

use super::super::record::{self, Decoded, HEADER_BYTES};
use super::MOST_GROUP_BYTES;
use super::layout::{self, Head, SECTOR, Shape};
use super::walk::{Walk, Walked};
use crate::ids::Lsn;
use crate::{PagedError, Result};

const MISSING: &str = "the partition is missing";

/// The end of a log.
pub(super) struct End {
    pub(super) number: u32,
    pub(super) offset: u64,
    /// The partition has no header yet.
    pub(super) header_due: bool,
    /// The newest record.
    pub(super) newest: Lsn,
    /// The index of the file that was followed last, and its bytes that may not be durable: those
    /// of the last group.
    pub(super) last: (usize, Range<u64>),
    /// Bytes of the log from the head's start on.
    pub(super) bytes: u64,
}

/// The places where a log may end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ends {
    /// Where a crash can have ended it.
    Soundly,
    /// Where the first record is damaged.
    Anywhere,
}

fn damaged<V>(at: Lsn, what: impl Into<String>) -> Result<V> {
    Err(PagedError::DamagedLog { at, what: what.into() })
}

/// Follows the records from the head's start to the first place that has none.
///
/// # Errors
/// That place is no end, or the medium refuses.
pub(super) fn find_end<R: File>(
    files: &[Segment<R>],
    headers: &[(u32, u32)],
    shape: &Shape,
    head: &Head,
    ends: Ends,
    record_bytes: usize,
) -> Result<End> {
    let file_of = |number: u32| headers.iter().position(|(begun, _)| *begun == number);
    let was_begun = |number: u32| headers.iter().any(|(begun, _)| *begun >= number);
    let (mut number, mut offset) = layout::place_of(head.start);
    for kept in head.first..=number {
        if file_of(kept).is_none() {
            return damaged(layout::lsn_of(kept, 0), MISSING);
        }
    }
    let (mut newest, mut restart, mut unsynced, mut bytes) = (Lsn::NONE, 0, offset, 0);
    let mut index = file_of(number).expect("looked for above");
    loop {
        let (file, from) = (&**files[index].file(), offset);
        let mut walk = Walk::at(file, number, offset, shape.partition_bytes);
        let sealed = loop {
            offset = layout::place_of(walk.place()).1;
            let (placed, sealed) = match walk.next(restart, head.restart)? {
                Walked::Record(Decoded { placed, .. }, _) => (placed, false),
                Walked::Seal(placed) => (placed, true),
                Walked::End => break false,
            };
            (restart, unsynced) = (placed.mark, layout::durable_before(&placed));
            if sealed {
                break true;
            }
            newest = placed.lsn;
        };
        let end = layout::place_of(walk.place()).1;
        let last = (index, unsynced..end);
        bytes += end - from;
        if !sealed && ends == Ends::Anywhere {
            return Ok(End { number, offset, header_due: false, newest, last, bytes });
        }
        if !sealed {
            let at = layout::lsn_of(number, offset);
            // A partition is begun when the one before it is durable, with its seal.
            if was_begun(number + 1) {
                return damaged(at, "there is no sound record, though a later partition was begun");
            }
            if let Some(witness) = find_witness(file, at, head.restart, shape, record_bytes)? {
                return damaged(
                    at,
                    format!("there is no sound record, though {witness} was written after it"),
                );
            }
            return Ok(End { number, offset, header_due: false, newest, last, bytes });
        }
        (number, offset) = (number + 1, SECTOR as u64);
        index = match file_of(number) {
            Some(found) => found,
            None if was_begun(number) => return damaged(layout::lsn_of(number, 0), MISSING),
            None => return Ok(End { number, offset, header_due: true, newest, last, bytes }),
        };
        let begun = headers[index].1;
        if begun < restart || begun > head.restart {
            return damaged(layout::lsn_of(number, 0), "the partition is of another time");
        }
        // With its header a partition begins a group.
        (restart, unsynced) = (begun, 0);
    }
}

/// The first sound record, at a place without one or after it, that was written when everything
/// before it and the place was durable, or by a restart that is later than the head's.
fn find_witness<R: File>(
    file: &R,
    place: Lsn,
    restart: u32,
    shape: &Shape,
    record_bytes: usize,
) -> Result<Option<Lsn>> {
    let (number, offset) = layout::place_of(place);
    let left = (shape.partition_bytes - offset) as usize;
    // Where the next group begins, unless this one is large.
    let mut bytes = vec![0; left.min(MOST_GROUP_BYTES + 2 * record_bytes)];
    let filled = file
        .read_at(offset, &mut bytes)
        .map_err(|source| PagedError::Io { doing: "reading the log", source })?;
    bytes.truncate(filled);
    for at in (0..filled.saturating_sub(HEADER_BYTES - 1)).step_by(record::ALIGN) {
        let (header, lsn) = (&bytes[at..], layout::lsn_of(number, offset + at as u64));
        if header[8..16] != lsn.0.to_le_bytes() {
            continue;
        }
        let whole = header.get(..record::bytes_of(header));
        let Some(Decoded { placed, .. }) = whole.and_then(record::decode) else { continue };
        if placed.mark > restart || layout::durable_before(&placed) > offset {
            return Ok(Some(lsn));
        }
    }
    Ok(None)
}

/// Makes durable what a program that died may have left in the kernel's pages, also after a sync
/// that failed: the last group, which is all that can be unsynced. The rest of the sector where the
/// log ends becomes zeros: a record that was torn there is never whole again, whatever is written
/// after that sector before a crash loses what is written into it.
pub(super) fn write_anew<R: File>(files: &[Segment<R>], end: &End) -> io::Result<()> {
    let (file, Range { start, end }) = end.last.clone();
    let file = files[file].file();
    let sector = SECTOR as u64;
    // A large group is written and synced in pieces.
    let start = start.max(end.saturating_sub(MOST_GROUP_BYTES as u64));
    let from = start / sector * sector;
    let mut bytes = vec![0; (end - from) as usize];
    let filled = file.read_at(from, &mut bytes)?;
    bytes.truncate(filled);
    // After the file's end is nothing that was torn.
    let torn_to = file.len()?.min((end / sector + 1) * sector);
    bytes.resize(bytes.len().max(torn_to.saturating_sub(from) as usize), 0);
    file.write_at(from, &bytes)?;
    file.sync()
}
