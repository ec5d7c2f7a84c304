//! Size classes: multiples of 8 bytes up to 256, then eight steps for each doubling, so that at
//! most an eighth of a large slot is wasted. A power of two is a class of its own, and slots whose
//! size is a multiple of 64 start on a line.

use crate::layout::CHUNK_HEADER_BYTES;

const SMALL: u64 = 256;
const SMALL_CLASSES: usize = 32;

/// Number of classes; the largest slot is 1 MiB.
pub(crate) const CLASSES: usize = SMALL_CLASSES + 12 * 8;
/// The index of the first of a lane's classes of spans: one for each purpose, after all others.
pub(crate) const SPAN_INDEX: usize = CLASSES * 3;
/// Slots of more bytes, and the objects of spans, start at multiples of [`LARGE_ALIGN`].
const LARGE: u64 = 256 << 10;
/// The number that the start of a large object is a multiple of, so that a word has room for their
/// length.
pub const LARGE_ALIGN: u64 = 512;

/// The smallest class whose slots hold `bytes` bytes, if there is one.
#[inline]
pub(crate) fn class_of(bytes: u64) -> Option<usize> {
    if bytes <= SMALL {
        return Some((bytes.max(1).div_ceil(8) - 1) as usize);
    }
    let doubling = u64::from((bytes - 1).ilog2());
    let step = 1u64 << (doubling - 3);
    let class = SMALL_CLASSES
        + (doubling - 8) as usize * 8
        + ((bytes - (1 << doubling)).div_ceil(step) - 1) as usize;
    (class < CLASSES).then_some(class)
}

/// Bytes of a slot of `class`.
pub(crate) fn slot_bytes(class: usize) -> u64 {
    if class < SMALL_CLASSES {
        return (class as u64 + 1) * 8;
    }
    let (doubling, step) = ((class - SMALL_CLASSES) / 8 + 8, (class - SMALL_CLASSES) % 8 + 1);
    (1 << doubling) + step as u64 * (1 << (doubling - 3))
}

/// Describes how the slots of a class lie in a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Shape {
    /// Bytes of a slot.
    pub(crate) slot_bytes: u32,
    /// Slots in a chunk.
    pub(crate) slots: u32,
    /// The place where the first slot starts, from the start of the chunk. The bitmap lies before
    /// it.
    pub(crate) slots_at: u32,
    /// `2^40 / slot_bytes`, rounded up: turns the division of [`Self::slot_of`] into a product.
    reciprocal: u64,
}

impl Shape {
    /// The shape of `class` in chunks of `chunk_bytes`, of which the first starts at `chunks_at`; no
    /// slots if not even one fits.
    pub(crate) fn new(class: usize, chunk_bytes: u64, chunks_at: u64) -> Self {
        let slot = slot_bytes(class);
        let align = if slot > LARGE { LARGE_ALIGN } else { 64 };
        let phase = chunks_at % align;
        let at = |slots: u64| {
            (CHUNK_HEADER_BYTES + slots.div_ceil(64) * 8 + phase).next_multiple_of(align) - phase
        };
        let mut slots = (chunk_bytes - CHUNK_HEADER_BYTES) / slot;
        while slots > 0 && at(slots) + slots * slot > chunk_bytes {
            slots -= 1;
        }
        Self {
            slot_bytes: slot as u32,
            slots: slots as u32,
            slots_at: at(slots) as u32,
            reciprocal: (1u64 << 40).div_ceil(slot),
        }
    }

    /// The shape of a span: one slot of so many bytes.
    pub(crate) fn span(slot_bytes: u64, slots_at: u32) -> Self {
        let reciprocal = (1u64 << 40).div_ceil(slot_bytes);
        Self { slot_bytes: slot_bytes as u32, slots: 1, slots_at, reciprocal }
    }

    /// Returns which slot starts `from_chunk` bytes after the start of the chunk.
    #[inline]
    pub(crate) fn slot_of(&self, from_chunk: u64) -> Option<u32> {
        let within = from_chunk.checked_sub(u64::from(self.slots_at))?;
        let slot = (within * self.reciprocal) >> 40;
        (slot < u64::from(self.slots) && slot * u64::from(self.slot_bytes) == within)
            .then_some(slot as u32)
    }

    /// Returns where slot `slot` starts, from the start of the chunk.
    #[inline]
    pub(crate) fn offset_of(&self, slot: u32) -> u64 {
        u64::from(self.slots_at) + u64::from(slot) * u64::from(self.slot_bytes)
    }

    /// Words of the bitmap.
    pub(crate) fn words(&self) -> usize {
        (self.slots as usize).div_ceil(64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_gets_the_smallest_class_that_holds_it() {
        for bytes in 1..=SMALL << 12 {
            let class = class_of(bytes).unwrap();
            assert!(slot_bytes(class) >= bytes, "{bytes} bytes in class {class}");
            assert!(class == 0 || slot_bytes(class - 1) < bytes, "{bytes} bytes in class {class}");
            if bytes > SMALL {
                assert!(slot_bytes(class) * 8 < bytes * 9 + 8, "at most an eighth is wasted");
            }
        }
        assert_eq!(class_of((SMALL << 12) + 1), None);
        assert_eq!(slot_bytes(class_of(100).unwrap()), 104);
        assert_eq!(slot_bytes(class_of(512).unwrap()), 512);
    }

    #[test]
    fn slots_fill_a_chunk_and_are_found_by_their_offset() {
        for (chunk, chunks_at) in [(16u64 << 10, 64), (256 << 10, 0), (4 << 20, 320)] {
            for class in 0..CLASSES {
                let shape = Shape::new(class, chunk, chunks_at);
                for slot in 0..shape.slots {
                    let at = shape.offset_of(slot);
                    assert!(at + u64::from(shape.slot_bytes) <= chunk);
                    assert_eq!(shape.slot_of(at), Some(slot));
                    assert_eq!(shape.slot_of(at + 4), None);
                    assert!(!shape.slot_bytes.is_multiple_of(64) || at.is_multiple_of(64));
                    let large = u64::from(shape.slot_bytes) > LARGE;
                    assert!(!large || (chunks_at + at).is_multiple_of(LARGE_ALIGN));
                }
                assert_eq!(shape.slot_of(shape.offset_of(shape.slots)), None);
            }
        }
    }
}
