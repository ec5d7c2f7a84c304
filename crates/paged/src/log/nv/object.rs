//! Log objects, and the segments in which they lie.
//!
//! An object is a [record](mod@super::super::record) at the begin of a line. A segment is taken by
//! a lane, filled, and free again when the head has passed its newest object.

use parking_lot::{Mutex, MutexGuard};
use pm::{LINE_BYTES, Memory, Off, Range};

use super::super::record::{self, Decoded, HEADER_BYTES};
use crate::ids::Lsn;

/// Objects begin at multiples of this, and take as many bytes.
pub(super) const ALIGN: u64 = LINE_BYTES;

/// The bytes that an object with such a payload takes.
pub(super) fn bytes(payload: usize) -> u64 {
    ((HEADER_BYTES + payload) as u64).next_multiple_of(ALIGN)
}

/// A sound object.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) read: Decoded,
    /// The whole record.
    pub(super) bytes: Vec<u8>,
    pub(super) range: Range,
}

/// Reads the object at a place that is followed by `limit` bytes of its segment. One that is `trusted`
/// is taken for sound whatever its checksum says.
pub(super) fn read<M: Memory>(memory: &M, place: u64, limit: u64, trusted: bool) -> Option<Found> {
    let mut header = [0; HEADER_BYTES];
    memory.read_into(Off::new(place), &mut header).ok()?;
    let length = record::bytes_of(&header);
    if length < HEADER_BYTES || length as u64 > limit {
        return None;
    }
    let mut bytes = vec![0; length];
    memory.read_into(Off::new(place), &mut bytes).ok()?;
    if trusted {
        let sum = crc32c::crc32c(&bytes[4..]);
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
    }
    let read = record::decode(&bytes)?;
    Some(Found { read, bytes, range: Range::new(place, length as u64) })
}

/// A segment, the bytes up to the end of its newest object, and that one's LSN.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    segment: usize,
    used: u64,
    last: Lsn,
}

/// A way for a thread to append in parallel with others.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) number: usize,
    /// The segment that it has taken.
    taken: Option<Used>,
    /// Bytes of objects that were placed since the log was opened.
    appended: u64,
    /// The object that is made: in DRAM first, and used again.
    pub(super) object: Vec<u8>,
}

/// The segments that no lane has.
#[derive(Debug, Default)]
struct Untaken {
    free: Vec<usize>,
    /// Segments that a restart has found half full: they are taken first.
    begun: Vec<Used>,
    filled: Vec<Used>,
}

/// All segments.
#[derive(Debug)]
pub(super) struct Segments {
    ranges: Vec<Range>,
    lanes: Vec<Mutex<Lane>>,
    untaken: Mutex<Untaken>,
    /// The segments in which objects were found, by number.
    found: Vec<Used>,
}

impl Segments {
    pub(super) fn new(ranges: &[Range], lanes: usize) -> Self {
        let mut ranges = ranges.to_vec();
        ranges.sort_by_key(|range| range.start);
        let untaken = Untaken { free: (0..ranges.len()).collect(), ..Untaken::default() };
        Self {
            lanes: (0..lanes)
                .map(|number| Mutex::new(Lane { number, ..Lane::default() }))
                .collect(),
            untaken: Mutex::new(untaken),
            found: vec![Used::default(); ranges.len()],
            ranges,
        }
    }

    fn segment_of(&self, place: u64) -> Option<usize> {
        let segment = self.ranges.partition_point(|range| range.end() <= place);
        self.ranges.get(segment).is_some_and(|range| range.start <= place).then_some(segment)
    }

    /// The bytes from a place to the end of its segment, if it lies in one.
    pub(super) fn limit(&self, place: u64) -> Option<u64> {
        Some(self.ranges[self.segment_of(place)?].end() - place)
    }

    /// Notes an object that a restart has found.
    pub(super) fn found(&mut self, range: Range, lsn: Lsn) {
        if let Some(segment) = self.segment_of(range.start) {
            let end = range.end().next_multiple_of(ALIGN) - self.ranges[segment].start;
            let found = &mut self.found[segment];
            (found.used, found.last) = (found.used.max(end), found.last.max(lsn));
        }
    }

    /// Parts the free segments from those with objects, and these by whether a record of the largest
    /// size still fits. Returns the bytes up to the newest object of each.
    pub(super) fn sort_out(&mut self, record_bytes: u64) -> u64 {
        let mut untaken = Untaken::default();
        let mut bytes = 0;
        for (segment, found) in self.found.iter().enumerate() {
            let Used { used, last, .. } = *found;
            bytes += used;
            if used == 0 {
                untaken.free.push(segment);
            } else if used + record_bytes <= self.ranges[segment].len {
                untaken.begun.push(Used { segment, used, last });
            } else {
                untaken.filled.push(Used { segment, used, last });
            }
        }
        self.untaken = Mutex::new(untaken);
        bytes
    }

    /// A lane that no other thread uses now, or that of the thread with this number.
    pub(super) fn lane(&self, thread: usize) -> MutexGuard<'_, Lane> {
        let own = thread % self.lanes.len();
        let (before, from) = self.lanes.split_at(own);
        let free = from.iter().chain(before).find_map(Mutex::try_lock);
        free.unwrap_or_else(|| self.lanes[own].lock())
    }

    /// Returns the bytes of objects that were placed since the log was opened.
    pub(super) fn appended(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.lock().appended).sum()
    }

    /// The place of a new object. There is room: it was set aside.
    pub(super) fn place(&self, lane: &mut Lane, bytes: u64) -> u64 {
        lane.appended += bytes;
        let full =
            lane.taken.is_none_or(|taken| self.ranges[taken.segment].len - taken.used < bytes);
        if full {
            let mut untaken = self.untaken.lock();
            untaken.filled.extend(lane.taken.take());
            let begun = untaken.begun.pop();
            lane.taken = Some(begun.unwrap_or_else(|| {
                let segment = untaken.free.pop().expect("room was set aside");
                Used { segment, used: 0, last: Lsn::NONE }
            }));
        }
        let taken = lane.taken.as_mut().expect("the lane has a segment");
        let place = self.ranges[taken.segment].start + taken.used;
        taken.used += bytes;
        place
    }

    /// Notes the LSN of the newest object of a lane.
    pub(super) fn placed(&self, lane: &mut Lane, lsn: Lsn) {
        let taken = lane.taken.as_mut().expect("the lane has a segment");
        taken.last = taken.last.max(lsn);
    }

    /// Frees the filled segments whose objects all lie before `keep`; returns the bytes of these.
    pub(super) fn free_before(&self, keep: Lsn) -> u64 {
        let mut untaken = self.untaken.lock();
        let Untaken { free, filled, .. } = &mut *untaken;
        let mut bytes = 0;
        filled.retain(|one| {
            let passed = one.last < keep;
            if passed {
                free.push(one.segment);
                bytes += one.used;
            }
            !passed
        });
        bytes
    }
}
