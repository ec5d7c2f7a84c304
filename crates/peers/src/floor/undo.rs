//! Undo log in NVM, updates in place: 3 fences.
//!
//! 1. Log the old bytes; flush, fence.
//! 2. Store the new bytes in place; flush, fence.
//! 3. Mark the log empty; flush, fence. The update is committed.
//!
//! The entry validates itself by a checksum over its header and the old bytes, so that step 1 needs
//! one fence. Recovery stores the old bytes of a valid entry back.
//!
//! ```text
//! 0 number of the update, 0 if empty | 8 where in the file | 16 how many bytes | 24 checksum | 32 old bytes
//! ```

use workloads::StoreError;
use workloads::ycsb::ROW_BYTES;

use super::{Ground, HEADER_BYTES, Method, Place, SLOT_BYTES};
use crate::hash::checksum;

const ENTRY_AT: usize = HEADER_BYTES;
const WHERE_AT: usize = ENTRY_AT + 8;
const BYTES_AT: usize = ENTRY_AT + 16;
const CHECKSUM_AT: usize = ENTRY_AT + 24;
const OLD_AT: usize = ENTRY_AT + 32;

/// The undo floor's method.
pub struct Undo {
    number: u64,
}

fn entry_checksum(number: u64, at: u64, old: &[u8]) -> u64 {
    checksum(number ^ at.rotate_left(32), old)
}

fn reset(ground: &mut Ground) {
    ground.file.store_word(ENTRY_AT, 0);
    ground.file.flush(ENTRY_AT, 8);
    ground.file.fence();
}

impl Method for Undo {
    const NAME: &'static str = "floor-undo";
    const MAGIC: u64 = u64::from_le_bytes(*b"flrundo1");
    const SPARE_SLOTS: u32 = 0;

    fn area_bytes(_: u32) -> usize {
        4096
    }

    fn fresh(ground: &mut Ground) -> Self {
        reset(ground);
        Self { number: 0 }
    }

    fn recover(ground: &mut Ground, tuples: u32) -> Result<Self, StoreError> {
        let number = ground.file.word(ENTRY_AT);
        let (at, bytes) = (ground.file.word(WHERE_AT), ground.file.word(BYTES_AT) as usize);
        if number == 0 || bytes > ROW_BYTES {
            return Ok(Self { number });
        }
        let old = ground.file.slice(OLD_AT, bytes).to_vec();
        if entry_checksum(number, at, &old) != ground.file.word(CHECKSUM_AT) {
            // Written in part: the update that it is of has not changed anything yet.
            reset(ground);
            return Ok(Self { number });
        }
        let slots = ground.slots_at..ground.slots_at + tuples as usize * SLOT_BYTES;
        let at = usize::try_from(at).ok().filter(|&at| at >= slots.start && at < slots.end);
        let Some(at) = at.filter(|at| at + bytes <= slots.end) else {
            return Err(ground.damaged("the undo log points outside the tuples"));
        };
        ground.file.store(at, &old);
        ground.file.flush(at, bytes);
        ground.file.fence();
        reset(ground);
        Ok(Self { number })
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
        self.number += 1;
        let (at, bytes) = (ground.column_at(place.slot, first_column), values.len());
        let sum = entry_checksum(self.number, at as u64, ground.file.slice(at, bytes));
        ground.file.copy(at, OLD_AT, bytes);
        ground.file.store_word(WHERE_AT, at as u64);
        ground.file.store_word(BYTES_AT, bytes as u64);
        ground.file.store_word(CHECKSUM_AT, sum);
        ground.file.store_word(ENTRY_AT, self.number);
        ground.file.flush(ENTRY_AT, OLD_AT - ENTRY_AT + bytes);
        ground.file.fence();

        ground.file.store(at, values);
        ground.file.flush(at, bytes);
        ground.file.fence();

        reset(ground);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::floor::{Partition, UndoFloor};
    use workloads::{RowBuffer, Session, Store};

    #[test]
    fn an_update_that_stops_before_its_log_is_reset_is_undone() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("floor-undo.0");
        let mut partition = Partition::<Undo>::create(&path, 4).expect("creates");
        for key in 0..4 {
            partition.load(key, &[[key as u8; 100]; 10]).expect("has room");
        }
        partition.finish_load();
        let place = partition.index.get_mut(&2).expect("loaded");
        partition.method.update(&mut partition.ground, place, 3, &[9; 200]);
        // The log is left as it was before its reset; only its first word had been cleared.
        partition.ground.file.store_word(ENTRY_AT, 1);
        drop(partition);

        let store = UndoFloor::open_existing(directory.path(), 1).expect("opens");
        let mut row = RowBuffer::new();
        assert!(store.session(0).expect("free").read(2, &mut row).expect("reads"));
        assert_eq!(row.columns(), &[[2; 100]; 10]);
    }

    #[test]
    fn a_log_entry_written_in_part_changes_nothing() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("floor-undo.0");
        let mut partition = Partition::<Undo>::create(&path, 1).expect("creates");
        partition.load(0, &[[1; 100]; 10]).expect("has room");
        partition.finish_load();
        let place = partition.index.get_mut(&0).expect("loaded");
        partition.method.update(&mut partition.ground, place, 0, &[2; 100]);
        partition.ground.file.store_word(ENTRY_AT, 2);
        drop(partition);

        let store = UndoFloor::open_existing(directory.path(), 1).expect("opens");
        let mut row = RowBuffer::new();
        assert!(store.session(0).expect("free").read(0, &mut row).expect("reads"));
        assert_eq!(row.columns()[0], [2; 100]);
    }
}
