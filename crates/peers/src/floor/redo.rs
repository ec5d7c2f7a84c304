//! Redo log in NVM, updates in place that are written back later: 1 fence.
//!
//! 1. Append a record with the new bytes to the log; flush, fence. The update is committed.
//! 2. Store the new bytes in place. Nothing is flushed.
//! 3. When the log is full: flush everything that its records changed in place, fence, make the
//!    number of the next record durable in the header, and start again at the log's beginning.
//!
//! A record validates itself by its number and a checksum. Recovery reads records from the log's
//! beginning, from the number in the header on, until one does not fit, and stores them again.
//!
//! ```text
//! 0 number | 8 where in the file, 40 bits; how many bytes, 24 bits | 16 checksum | 24 new bytes
//! ```
//! A record of one column has 124 bytes and takes two lines.

use workloads::StoreError;
use workloads::ycsb::ROW_BYTES;

use super::{Ground, HEADER_BYTES, METHOD_AT, Method, Place, SLOT_BYTES};
use crate::flush::LINE_BYTES;
use crate::hash::checksum;

/// 131,072 records of one column between two rounds of writing back.
const LOG_BYTES: usize = 16 << 20;
const LOG_AT: usize = HEADER_BYTES;
const LOG_END: usize = LOG_AT + LOG_BYTES;
const RECORD_HEADER_BYTES: usize = 24;
const WHERE_BITS: u32 = 40;

/// The redo floor's method.
pub struct Redo {
    /// Number of the next record.
    next: u64,
    /// The place of the next record.
    tail: usize,
}

fn record_bytes(bytes: usize) -> usize {
    (RECORD_HEADER_BYTES + bytes).next_multiple_of(LINE_BYTES)
}

fn pack(at: usize, bytes: usize) -> u64 {
    at as u64 | (bytes as u64) << WHERE_BITS
}

fn unpack(target: u64) -> (usize, usize) {
    ((target & ((1 << WHERE_BITS) - 1)) as usize, (target >> WHERE_BITS) as usize)
}

fn record_checksum(number: u64, target: u64, new: &[u8]) -> u64 {
    checksum(number ^ target.rotate_left(32), new)
}

/// Returns where the record at `tail` wants its bytes, if it is a whole record with that number.
fn valid_record(ground: &Ground, tail: usize, number: u64) -> Option<(usize, usize)> {
    if tail + RECORD_HEADER_BYTES > LOG_END || ground.file.word(tail) != number {
        return None;
    }
    let target = ground.file.word(tail + 8);
    let (at, bytes) = unpack(target);
    if bytes > ROW_BYTES || tail + RECORD_HEADER_BYTES + bytes > LOG_END {
        return None;
    }
    let new = ground.file.slice(tail + RECORD_HEADER_BYTES, bytes);
    (record_checksum(number, target, new) == ground.file.word(tail + 16)).then_some((at, bytes))
}

impl Redo {
    /// Step 3.
    #[cold]
    fn restart(&mut self, ground: &mut Ground) {
        let mut at = LOG_AT;
        while at < self.tail {
            let (target, bytes) = unpack(ground.file.word(at + 8));
            ground.file.flush(target, bytes);
            at += record_bytes(bytes);
        }
        ground.file.fence();
        ground.file.store_word(METHOD_AT, self.next);
        ground.file.flush(METHOD_AT, 8);
        ground.file.fence();
        self.tail = LOG_AT;
    }
}

impl Method for Redo {
    const NAME: &'static str = "floor-redo";
    const MAGIC: u64 = u64::from_le_bytes(*b"flrredo1");
    const SPARE_SLOTS: u32 = 0;

    fn area_bytes(_: u32) -> usize {
        LOG_BYTES
    }

    fn fresh(ground: &mut Ground) -> Self {
        ground.file.store_word(METHOD_AT, 1);
        Self { next: 1, tail: LOG_AT }
    }

    fn recover(ground: &mut Ground, tuples: u32) -> Result<Self, StoreError> {
        let mut redo = Self { next: ground.file.word(METHOD_AT), tail: LOG_AT };
        let slots = ground.slots_at..ground.slots_at + tuples as usize * SLOT_BYTES;
        while let Some((at, bytes)) = valid_record(ground, redo.tail, redo.next) {
            if at < slots.start || at + bytes > slots.end {
                return Err(ground.damaged("the redo log points outside the tuples"));
            }
            ground.file.copy(redo.tail + RECORD_HEADER_BYTES, at, bytes);
            redo.tail += record_bytes(bytes);
            redo.next += 1;
        }
        redo.restart(ground);
        Ok(redo)
    }

    fn slot_of(&self, _: &Ground, tuple: u32) -> u32 {
        tuple
    }

    fn loaded(&mut self, _: &mut Ground, _: Place) {}

    fn flush_loaded(&mut self, _: &Ground) {}

    #[inline]
    fn update(
        &mut self,
        ground: &mut Ground,
        place: &mut Place,
        first_column: usize,
        values: &[u8],
    ) {
        if self.tail + record_bytes(values.len()) > LOG_END {
            self.restart(ground);
        }
        let at = ground.column_at(place.slot, first_column);
        let target = pack(at, values.len());
        ground.file.store_word(self.tail, self.next);
        ground.file.store_word(self.tail + 8, target);
        ground.file.store_word(self.tail + 16, record_checksum(self.next, target, values));
        ground.file.store(self.tail + RECORD_HEADER_BYTES, values);
        ground.file.flush(self.tail, RECORD_HEADER_BYTES + values.len());
        ground.file.fence();
        self.tail += record_bytes(values.len());
        self.next += 1;

        ground.file.store(at, values);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::floor::{Partition, RedoFloor};
    use workloads::{RowBuffer, Session, Store};

    #[test]
    fn what_was_logged_but_not_yet_in_place_is_redone() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("floor-redo.0");
        let mut partition = Partition::<Redo>::create(&path, 1).expect("creates");
        partition.load(0, &[[1; 100]; 10]).expect("has room");
        partition.finish_load();
        let place = partition.index.get_mut(&0).expect("loaded");
        partition.method.update(&mut partition.ground, place, 4, &[2; 100]);
        partition.method.update(&mut partition.ground, place, 5, &[3; 100]);
        let at = partition.ground.column_at(0, 0);
        partition.ground.file.store(at, &[1; ROW_BYTES]);
        drop(partition);

        let store = RedoFloor::open_existing(directory.path(), 1).expect("opens");
        let mut row = RowBuffer::new();
        assert!(store.session(0).expect("free").read(0, &mut row).expect("reads"));
        assert_eq!(row.columns()[3..6], [[1; 100], [2; 100], [3; 100]]);
    }

    #[test]
    fn a_full_log_starts_again_and_old_records_are_not_redone() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("floor-redo.0");
        let mut partition = Partition::<Redo>::create(&path, 1).expect("creates");
        partition.load(0, &[[0; 100]; 10]).expect("has room");
        partition.finish_load();
        let place = partition.index.get_mut(&0).expect("loaded");
        let updates = LOG_BYTES / 128 + 3;
        for number in 0..updates {
            partition.method.update(&mut partition.ground, place, 0, &[number as u8; 100]);
        }
        assert_eq!(partition.method.tail, LOG_AT + 3 * 128);
        drop(partition);

        let store = RedoFloor::open_existing(directory.path(), 1).expect("opens");
        let mut row = RowBuffer::new();
        assert!(store.session(0).expect("free").read(0, &mut row).expect("reads"));
        assert_eq!(row.columns()[0], [(updates - 1) as u8; 100]);
    }
}
