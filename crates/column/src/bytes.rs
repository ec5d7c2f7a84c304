//! The bytes of a dictionary's values: an array of words, of which a value has neighbouring ones, or
//! an object of its own for a value that is too long for that.

use heap::{Lane, Purpose};
use pm::{LineSet, Memory, Off, Range};

use crate::Result;
use crate::array::{Array, zeroed};
use crate::ids::Ids;
use crate::latch::Latch;

/// The bytes of a dictionary.
#[derive(Debug)]
pub(crate) struct Bytes {
    pub(crate) words: Array<u64>,
    pub(crate) ids: Ids,
}

impl Bytes {
    /// Returns whether a value has neighbouring words, and no object.
    pub(crate) fn is_short(&self, bytes: usize) -> bool {
        bytes as u64 <= self.words.shape.elements(0) * 4
    }

    /// Writes a short value; returns where it is.
    #[track_caller]
    pub(crate) fn put<M: Memory>(
        &self,
        lane: &Latch<Lane<M>>,
        memory: &M,
        bytes: &[u8],
        lines: &mut LineSet,
    ) -> Result<u64> {
        let words = bytes.len().div_ceil(8) as u64;
        let shape = self.words.shape;
        let grow = |segment| add_segment(&mut lane.write(), &self.words, segment);
        let first = self.ids.take(memory, shape, words, grow)?;
        let segment = shape.segment(first);
        let place = *self.words.segment(memory, segment, Ok)?;
        let at = place + (first - shape.start(segment)) * 8;
        memory.copy(Off::new(at), bytes);
        lines.add(Range::new(at, bytes.len() as u64));
        Ok(at)
    }

    /// Makes an object for a long value, in a mini-transaction that stores `words` as well: what leads
    /// to it, by its place.
    pub(crate) fn put_long<M: Memory>(
        lane: &mut Lane<M>,
        bytes: &[u8],
        words: impl FnOnce(u64) -> [(Off<u64>, u64); 2],
    ) -> Result<()> {
        let at = lane.allocate(bytes.len().next_multiple_of(64) as u64, Purpose::Table)?;
        lane.memory().copy(Off::new(at), bytes);
        let mut lines = LineSet::new();
        lines.add(Range::new(at, bytes.len() as u64));
        lane.mini_persist(at)?;
        for (word, value) in words(at) {
            lane.mini_store(word, value);
        }
        lane.mini_commit(&mut lines);
        lane.fence_flushed();
        Ok(())
    }
}

/// Adds a segment of zeros to an array of words, if it is not there.
pub(crate) fn add_segment<M: Memory>(
    lane: &mut Lane<M>,
    array: &Array<u64>,
    segment: u64,
) -> Result<()> {
    add_sized(lane, array, segment, 8)
}

/// The same for elements of so many bytes.
pub(crate) fn add_sized<M: Memory>(
    lane: &mut Lane<M>,
    array: &Array<u64>,
    segment: u64,
    bytes: u64,
) -> Result<()> {
    let memory = lane.memory().clone();
    if array.place(&memory, segment)?.is_some() {
        return Ok(());
    }
    let object = zeroed(lane, array.shape.elements(segment) * bytes)?;
    memory.fence();
    array.add(lane, segment, object, &[object])
}

#[cfg(test)]
mod tests {
    use heap::{Heap, HeapOptions};
    use sim::Recording;

    use super::*;
    use crate::array::Shape;
    use crate::layout::{ARRAY_BYTES, Options};

    #[test]
    fn a_segment_is_given_back_where_there_is_no_room_for_its_page() {
        let memory = Recording::pool(16 << 10, 1 << 20).unwrap();
        let heap = Heap::format(memory, HeapOptions { chunk_bytes: 16 << 10, lanes: 1 }).unwrap();
        let mut lane = heap.lane(0);
        let header = zeroed(&mut lane, ARRAY_BYTES).unwrap();
        let options = Options { first_rows: 64, most_rows: 64, ..Options::default() };
        let array = Array::new(header, Shape::of(&options));
        let mut last = 0;
        while let Ok(object) = lane.allocate(64 * 8, Purpose::Table) {
            last = object;
        }
        while lane.allocate(64, Purpose::Table).is_ok() {}
        lane.release(last);
        for _ in 0..2 {
            assert!(add_segment(&mut lane, &array, 0).is_err());
            assert_eq!(lane.allocate(64 * 8, Purpose::Table).unwrap(), last);
            lane.release(last);
        }
    }
}
