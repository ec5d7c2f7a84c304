//! The room that the partitions have, in the log's order and in its files, counted so that what was
//! set aside is always found.
//!
//! A record never spans two partitions, so up to a record less a byte is lost at the end of each.
//! The room of a partition therefore counts without one record of the largest size: then records of
//! any sizes fit that together take what [`Space::free`] says.
//!
//! A file has space for its partition ahead of what is appended. Which file a partition has, its
//! header says. Invariants:
//! - What is set aside finds space that the files have: [`Space::in_files`].
//! - So does a checkpoint, and in the next partition, too, unless all files are in use: see
//!   [`Space::turn`]. So whatever the medium gives, a checkpoint can be taken, and frees what lies
//!   before it if no transaction needs that.
//! - Space of files that are free is used before the medium is asked for more, and a truncation
//!   leaves them what was promised.
//! - A file that has become longer is synced before the next record is durable: see
//!   [`Space::take_unsynced`].

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;

use pm::File;
use storage::segments::{LEAST_STEP_BYTES, Segment, is_full};

use super::layout::{SEAL_BYTES, SECTOR, Shape};

/// The share of the log that only checkpoints use.
const CHECKPOINT_SHARE: u64 = 16;

/// Bytes that a checkpoint finds ahead of what others append, or its share of a log that is small:
/// those of two thousand pages that were changed while it began.
const CHECKPOINT_BYTES: u64 = 32 << 10;

/// Bytes of a partition for which another one is worth beginning: where the medium has room, and
/// where it has none.
const WORTH_BYTES: u64 = 64 << 10;
const WORTH_BYTES_IF_FULL: u64 = 8 << 10;

/// The files of the log, and the positions of its ends in them.
#[derive(Debug)]
pub(super) struct Space<R> {
    partition_bytes: u64,
    /// The largest record.
    record_bytes: u64,
    /// Bytes in which space is reserved ahead, at most.
    step: u64,
    segments: Vec<Segment<R>>,
    /// The files of the partitions that are kept, from the oldest to the newest.
    kept: VecDeque<usize>,
    /// The file of the partition that comes next, if one is free.
    next: Option<usize>,
    /// The partition and the offset of the next record.
    pub(super) number: u32,
    pub(super) offset: u64,
    /// The medium had no room when it was last asked for more.
    pub(super) refused: bool,
    /// The files whose lengths may not be durable.
    unsynced: BTreeSet<usize>,
}

impl<R: File> Space<R> {
    /// The space of files of which these are kept.
    pub(super) fn new(
        segments: Vec<Segment<R>>,
        kept: VecDeque<usize>,
        shape: &Shape,
        (record_bytes, step): (u64, u64),
        (number, offset): (u32, u64),
    ) -> Self {
        let partition_bytes = shape.partition_bytes;
        let (next, refused) = (None, false);
        // A program that died may have reserved space in them.
        let is_free = |file: &usize| !kept.contains(file);
        let has_space = |file: &usize| segments[*file].reserved() > SECTOR as u64;
        let unsynced = (0..segments.len()).filter(is_free).filter(has_space).collect();
        let mut space = Self {
            partition_bytes,
            record_bytes,
            step,
            segments,
            kept,
            next,
            number,
            offset,
            refused,
            unsynced,
        };
        space.next = space.free_files().first().copied();
        space
    }

    /// The oldest partition that is kept.
    pub(super) fn first(&self) -> u32 {
        self.number + 1 - self.kept.len() as u32
    }

    /// The index of the file of a partition that is kept.
    pub(super) fn file(&self, number: u32) -> usize {
        self.kept[(number - self.first()) as usize]
    }

    fn current(&self) -> &Segment<R> {
        &self.segments[self.file(self.number)]
    }

    /// The free files, in the order in which they are used: that with the most space first.
    fn free_files(&self) -> Vec<usize> {
        let mut free: Vec<usize> =
            (0..self.segments.len()).filter(|file| !self.kept.contains(file)).collect();
        let round = (self.number as usize + 1) % self.segments.len();
        free.sort_by_key(|file| (u64::MAX - self.segments[*file].reserved(), *file != round));
        free
    }

    /// Bytes of records that surely fit into an empty partition whose file has so many bytes.
    fn sure(&self, bytes: u64) -> u64 {
        bytes.min(self.partition_bytes).saturating_sub(self.begun(0))
    }

    /// The bytes of a file in which a partition surely has so many bytes of records.
    fn begun(&self, records: u64) -> u64 {
        SECTOR as u64 + SEAL_BYTES + self.record_bytes + records
    }

    /// Bytes of records that fit after the end in its partition.
    pub(super) fn left(&self) -> u64 {
        let end = self.current().reserved().min(self.partition_bytes);
        end.saturating_sub(self.offset + SEAL_BYTES)
    }

    /// Bytes of records that surely fit into an empty log.
    pub(super) fn capacity(&self) -> u64 {
        self.segments.len() as u64 * self.sure(self.partition_bytes)
    }

    /// The part of that which only checkpoints use.
    pub(super) fn of_checkpoints(&self) -> u64 {
        self.capacity() / CHECKPOINT_SHARE
    }

    /// Bytes of records that surely fit, if the medium gives the files what they may have.
    pub(super) fn free(&self) -> u64 {
        let left = self.partition_bytes - SEAL_BYTES - self.offset;
        self.unused() + left.saturating_sub(self.record_bytes)
    }

    /// The same without the partition of the end.
    fn unused(&self) -> u64 {
        (self.segments.len() - self.kept.len()) as u64 * self.sure(self.partition_bytes)
    }

    fn in_current(&self) -> u64 {
        self.left().saturating_sub(self.record_bytes)
    }

    /// Bytes of records that surely fit into what the free files have.
    fn in_free(&self) -> u64 {
        let free = (0..self.segments.len()).filter(|file| !self.kept.contains(file));
        free.map(|file| self.sure(self.segments[file].reserved())).sum()
    }

    /// Bytes of records that surely fit into what the files have. A partition is left with a seal.
    pub(super) fn in_files(&self) -> u64 {
        self.in_current() + if self.seals() { self.in_free() } else { 0 }
    }

    /// Returns whether the partition of the end has space for a seal.
    fn seals(&self) -> bool {
        self.current().reserved() >= self.offset + SEAL_BYTES
    }

    /// Bytes that a checkpoint finds in the files, or in a log that is full.
    pub(super) fn checkpoint_bytes(&self) -> u64 {
        CHECKPOINT_BYTES.min(self.of_checkpoints())
    }

    /// The bytes of a file that is ready to be the next partition's.
    fn spare_bytes(&self) -> u64 {
        self.partition_bytes.min(self.record_bytes + LEAST_STEP_BYTES)
    }

    /// Sees to it that the files have space for records of so many bytes and a checkpoint after
    /// them. Returns false if the medium has no room.
    ///
    /// # Errors
    /// It failed.
    pub(super) fn reserve(&mut self, bytes: u64) -> io::Result<bool> {
        let spare = self.spare_bytes();
        let is_ready = self.next.is_none_or(|next| self.segments[next].reserved() >= spare);
        let wanted = bytes + self.checkpoint_bytes();
        if is_ready && self.in_current() >= wanted {
            return Ok(true);
        }
        if let Some(next) = self.next
            && !self.extend(next, spare, 0)?
        {
            return Ok(false);
        }
        self.grow(wanted)
    }

    /// The same, for records of so many bytes and nothing else.
    ///
    /// # Errors
    /// As there.
    pub(super) fn find_all(&mut self, bytes: u64) -> io::Result<bool> {
        Ok(self.in_files() >= bytes || self.grow(bytes)?)
    }

    /// The same, for a record that was set aside.
    ///
    /// # Errors
    /// As there.
    pub(super) fn find(&mut self, bytes: u64) -> io::Result<bool> {
        Ok(self.left() >= bytes || self.grow(bytes)?)
    }

    fn grow(&mut self, wanted: u64) -> io::Result<bool> {
        let spare = self.spare_bytes();
        let is_dead = |next: usize| self.segments[next].reserved() > spare;
        // Space that was freed is used first.
        if !(self.next.is_some_and(is_dead) && self.seals() && self.may_turn(wanted)) {
            let to = self.offset + SEAL_BYTES + self.record_bytes + wanted;
            self.extend(self.file(self.number), to, self.step)?;
        }
        for file in self.free_files() {
            let lacking = wanted.saturating_sub(self.in_files());
            if lacking == 0 {
                break;
            }
            let has = self.sure(self.segments[file].reserved());
            if !self.extend(file, self.begun(has + lacking), self.step)? {
                break;
            }
        }
        Ok(self.in_files() >= wanted)
    }

    /// Lets a file have so many bytes, or as many as a partition, and a step ahead of them. Returns
    /// false if the medium has no room.
    fn extend(&mut self, file: usize, to: u64, step: u64) -> io::Result<bool> {
        let (to, most) = (to.min(self.partition_bytes), self.partition_bytes);
        if to <= self.segments[file].reserved() {
            return Ok(true);
        }
        let done = self.segments[file].reserve(to, step, most);
        self.unsynced.insert(file);
        self.refused = done.as_ref().is_err_and(is_full);
        match done {
            Err(error) if !self.refused => Err(error),
            _ => Ok(!self.refused),
        }
    }

    /// Returns whether the partition of the end can be ended before it is full: the others have
    /// room for what is set aside, and most of them are free.
    fn may_turn(&self, aside: u64) -> bool {
        let most = (self.segments.len() / 4).max(1);
        self.kept.len() <= most && self.unused() >= aside + self.of_checkpoints()
    }

    /// Returns whether a checkpoint is worth another partition, so that what lies before it can be
    /// used again.
    pub(super) fn is_turn_due(&self, aside: u64) -> bool {
        let worth = match self.refused {
            true => WORTH_BYTES_IF_FULL.min(self.partition_bytes / 4),
            false => WORTH_BYTES,
        };
        let has_room = || !self.refused || self.in_free() >= aside + self.checkpoint_bytes();
        self.offset >= worth && self.may_turn(aside) && has_room()
    }

    /// Makes the next partition ready for a checkpoint of so many bytes that is worth it, with what
    /// is set aside for others. Returns whether it begins there.
    ///
    /// # Errors
    /// The medium failed.
    pub(super) fn turn(&mut self, others: u64, bytes: u64) -> io::Result<bool> {
        let aside = others + bytes.saturating_sub(self.checkpoint_bytes());
        let Some(next) = self.next.filter(|_| self.is_turn_due(aside)) else { return Ok(false) };
        let wanted = aside + self.checkpoint_bytes();
        if self.in_free() < wanted && !self.extend(next, self.begun(wanted), 0)? {
            return Ok(false);
        }
        Ok(self.seals() && self.in_free() >= wanted)
    }

    /// The files whose lengths have to be durable before the next record is, see [`sync_all`], but
    /// for the one that is synced with that record.
    pub(super) fn take_unsynced(&mut self, first: Option<usize>) -> Vec<Arc<R>> {
        let unsynced = std::mem::take(&mut self.unsynced).into_iter();
        let others = unsynced.filter(|file| Some(*file) != first);
        others.map(|file| Arc::clone(self.segments[file].file())).collect()
    }

    /// Lets the next partition be that of the end.
    pub(super) fn advance(&mut self) {
        self.kept.push_back(self.next.expect("room was set aside"));
        (self.number, self.offset) = (self.number + 1, SECTOR as u64);
        self.next = self.free_files().first().copied();
    }

    /// Lets the files of partitions before this one be used again. Returns whether there are some.
    pub(super) fn free_before(&mut self, first: u32) -> bool {
        let freed = first.saturating_sub(self.first()) as usize;
        self.kept.drain(..freed);
        self.next = self.free_files().first().copied();
        freed > 0
    }

    /// Gives back what the free files have besides so many bytes together, what a checkpoint needs,
    /// and what is set aside and does not fit into the newest partition.
    ///
    /// # Errors
    /// The medium refuses.
    pub(super) fn trim(&mut self, mut keep: u64, aside: u64) -> io::Result<()> {
        keep = keep.max(self.spare_bytes());
        let mut needed = (aside + self.checkpoint_bytes()).saturating_sub(self.in_current());
        for file in self.free_files() {
            let records = if needed > 0 { self.begun(needed) } else { 0 };
            self.segments[file].cut(keep.max(records).max(SECTOR as u64))?;
            let has = self.segments[file].reserved();
            (keep, needed) = (keep.saturating_sub(has), needed.saturating_sub(self.sure(has)));
        }
        Ok(())
    }

    /// Gives back what the newest partition has ahead, besides what a deletion and a checkpoint
    /// need, and what is set aside.
    ///
    /// # Errors
    /// The medium refuses.
    pub(super) fn trim_end(&mut self, aside: u64) -> io::Result<()> {
        let ahead = if aside > 0 { aside + self.record_bytes } else { 0 };
        let to = (self.offset + SEAL_BYTES + ahead).max(self.spare_bytes());
        let file = self.file(self.number);
        self.segments[file].cut(to)
    }
}

/// Makes the lengths of files durable, and so the space that was reserved in them.
///
/// # Errors
/// The medium failed.
pub(super) fn sync_all<R: File>(files: &[Arc<R>]) -> io::Result<()> {
    files.iter().try_for_each(|file| file.sync())
}

#[cfg(test)]
mod tests {
    use sim::RecordingFiles;

    use super::*;

    fn small(files: &RecordingFiles) -> Space<sim::RecordedFile> {
        let segments = (0..4).map(|file| Segment::create(files, &format!("{file}")));
        let segments = segments.collect::<io::Result<_>>().expect("created");
        let shape = Shape { stamp: 0, partitions: 4, partition_bytes: 4096 };
        Space::new(segments, [1].into(), &shape, (512, 512), (1, SECTOR as u64))
    }

    #[test]
    fn whatever_the_sizes_are_what_is_free_fits() {
        let mut random = 1_u64;
        for round in 0..200 {
            let mut space = small(&RecordingFiles::new());
            assert_eq!(space.capacity(), space.free());
            let mut promised = space.free();
            assert!(space.find(promised).expect("there is room"));
            while promised >= 64 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(round + 1);
                let bytes = (64 + (random >> 40) % 449 / 8 * 8).min(promised / 8 * 8);
                if bytes > space.left() {
                    space.advance();
                }
                space.offset += bytes;
                promised -= bytes;
                assert!(space.free() >= promised && space.in_files() >= promised, "round {round}");
            }
        }
    }

    /// Whatever the medium has, what was reserved fits into the files, in the order in which they
    /// are used.
    #[test]
    fn whatever_the_medium_gives_what_was_reserved_fits() {
        let mut random = 1_u64;
        for round in 0..400 {
            let files = RecordingFiles::new();
            let mut space = small(&files);
            assert!(space.reserve(0).expect("it works"));
            let has: usize = files.image().values().map(Vec::len).sum();
            let limit = has as u64 + round * 31;
            files.limit(Some(limit));
            let (mut reserved, mut refused) = (0, false);
            for _ in 0..200 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(round + 1);
                let bytes = 64 + (random >> 40) % 449 / 8 * 8;
                if reserved + bytes > space.free()
                    || !space.reserve(reserved + bytes).expect("it works")
                {
                    refused = true;
                    // Appends what was set aside.
                    while reserved > 0 {
                        let bytes = reserved.min(64 + (random >> 30) % 449 / 8 * 8);
                        assert!(space.find(bytes).expect("it works"), "round {round}");
                        if bytes > space.left() {
                            space.advance();
                        }
                        assert!(bytes <= space.left(), "round {round}");
                        space.offset += bytes;
                        reserved -= bytes;
                    }
                    // A checkpoint has its room, and frees what lies before it.
                    assert!(
                        space.find(space.checkpoint_bytes()).expect("it works"),
                        "round {round}"
                    );
                    if space.turn(0, 0).expect("it works") {
                        space.advance();
                    }
                    space.free_before(space.number);
                    break;
                }
                reserved += bytes;
            }
            assert!(refused, "round {round}");
            let all: usize = files.image().values().map(Vec::len).sum();
            assert!(all as u64 <= limit);
        }
    }
}
