//! A new copy of the tuple and a pointer to it: 2 fences.
//!
//! 1. Copy the tuple with its changes into a free slot; flush, fence.
//! 2. Store the number of the slot in the tuple's pointer; flush, fence. The update is committed.
//! 3. The old slot is free; slots are used again in the order in which they became free.
//!
//! The area of the method holds one word for each tuple: its slot. Which slots are free is found by
//! a scan of them when the file is opened.

use std::collections::VecDeque;

use workloads::StoreError;
use workloads::ycsb::{COLUMN_BYTES, ROW_BYTES};

use super::{COLUMNS_AT, Ground, HEADER_BYTES, Method, Place};

/// The copy floor's method.
pub struct Copy {
    free: VecDeque<u32>,
    loaded: u32,
}

fn pointer_at(tuple: u32) -> usize {
    HEADER_BYTES + tuple as usize * 8
}

impl Method for Copy {
    const NAME: &'static str = "floor-copy";
    const MAGIC: u64 = u64::from_le_bytes(*b"flrcopy1");
    const SPARE_SLOTS: u32 = 64;

    fn area_bytes(capacity: u32) -> usize {
        (capacity as usize * 8).next_multiple_of(4096)
    }

    fn fresh(ground: &mut Ground) -> Self {
        let capacity = ground.capacity;
        Self { free: (capacity..capacity + Self::SPARE_SLOTS).collect(), loaded: 0 }
    }

    fn recover(ground: &mut Ground, tuples: u32) -> Result<Self, StoreError> {
        let slots = (ground.capacity + Self::SPARE_SLOTS) as usize;
        let mut used = vec![false; slots];
        for tuple in 0..tuples {
            let slot = ground.file.word(pointer_at(tuple)) as usize;
            if slot >= slots || std::mem::replace(&mut used[slot], true) {
                return Err(ground.damaged(format!("tuple {tuple} points to no slot of its own")));
            }
        }
        // The slots of tuples that may yet be loaded are not spare.
        used[tuples as usize..ground.capacity as usize].fill(true);
        let free = (0..slots as u32).filter(|&slot| !used[slot as usize]).collect();
        Ok(Self { free, loaded: tuples })
    }

    fn slot_of(&self, ground: &Ground, tuple: u32) -> u32 {
        ground.file.word(pointer_at(tuple)) as u32
    }

    fn loaded(&mut self, ground: &mut Ground, place: Place) {
        ground.file.store_word(pointer_at(place.tuple), u64::from(place.slot));
        self.loaded = place.tuple + 1;
    }

    fn flush_loaded(&mut self, ground: &Ground) {
        ground.file.flush(pointer_at(0), self.loaded as usize * 8);
    }

    #[inline]
    fn update(
        &mut self,
        ground: &mut Ground,
        place: &mut Place,
        first_column: usize,
        values: &[u8],
    ) {
        let slot = self.free.pop_front().expect("each update frees the slot that it takes");
        let (old, new) = (ground.slot_at(place.slot), ground.slot_at(slot));
        ground.file.copy(old, new, COLUMNS_AT + ROW_BYTES);
        ground.file.store(new + COLUMNS_AT + first_column * COLUMN_BYTES, values);
        ground.file.flush(new, COLUMNS_AT + ROW_BYTES);
        ground.file.fence();

        ground.file.store_word(pointer_at(place.tuple), u64::from(slot));
        ground.file.flush(pointer_at(place.tuple), 8);
        ground.file.fence();

        self.free.push_back(place.slot);
        place.slot = slot;
    }
}
