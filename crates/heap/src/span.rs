//! Spans: objects that no slot of a chunk holds take neighbouring chunks, all of their bytes one
//! after the other. `docs/format/heap.md` draws them.
//!
//! Invariants:
//! - A span is one object with one persisted bit, in the header of its first chunk, whose tag has a
//!   class of its own. The word after the tag says how many chunks there are. Of the others no
//!   byte is the allocator's: a walk over all chunks goes past them.
//! - A chunk has a tag of its own, or none and is free, or lies in a span, at every moment and after
//!   every crash.
//!
//! *Taking.* Neighbours that are free, or fresh ones. The words of the first chunk; hints that name
//! one of them go; **fence**. Then the tag; **fence**. Contents come after that. *Crash before the
//! tag:* the chunks are what they were.
//!
//! *Giving back.* In the others the word where a tag would stand becomes zero; **fence**. Then the
//! first one's tag becomes zero; **fence**. Then they are anybody's. *Crash before the tag is gone:*
//! it is the span of an object that is not persisted.

use std::sync::atomic::Ordering::Acquire;

use pm::{Bad, Memory, Off, Range};

use crate::chunk::Chunk;
use crate::classes::{LARGE_ALIGN, SPAN_INDEX, Shape};
use crate::error::HeapError;
use crate::lane::{DISCOVER_STEP, Lane};
use crate::layout::{
    BLOCK_CLASS, CHUNK_HEADER_BYTES, ChunkTag, HIGH_WATER, HINTS_BYTES, SPAN_CLASS, SPAN_WORD_AT,
};
use crate::purpose::Purpose;
use crate::shared::{Heap, Hints, Met, Supply, bitmap_word};

/// Bytes of the largest object.
pub const MAX_OBJECT_BYTES: u64 = 1 << 30;

/// Returns where a span's object starts, from the start of its first chunk, in a heap whose chunks
/// start at `chunks_at`.
pub(crate) fn object_at(chunks_at: u64) -> u32 {
    let phase = chunks_at % LARGE_ALIGN;
    ((CHUNK_HEADER_BYTES + 8 + phase).next_multiple_of(LARGE_ALIGN) - phase) as u32
}

/// The word after the tag: how many chunks there are, with a checksum.
fn span_word(number: u32, chunks: u32) -> u64 {
    let sum = crc32c::crc32c(&number.to_le_bytes());
    u64::from(crc32c::crc32c_append(sum, &chunks.to_le_bytes())) << 32 | u64::from(chunks)
}

impl Supply {
    /// The chunk after the span of this process that `number` lies in and does not begin, if it does.
    fn end_of_span(&self, number: u32) -> Option<u32> {
        let (start, chunks) = self.spans.range(..number).next_back()?;
        Some(start + chunks).filter(|end| number < *end)
    }

    /// The first of so many neighbours to take: free ones, as few as possible, or the free ones
    /// before the high-water mark, with fresh ones.
    fn neighbours(&self, chunks: u32) -> u64 {
        let mut best: Option<(u32, u32)> = None;
        let mut last = None;
        let mut free = self.free.iter().copied().peekable();
        while let Some(start) = free.next() {
            let mut many = 1;
            while free.next_if_eq(&(start + many)).is_some() {
                many += 1;
            }
            if many >= chunks && best.is_none_or(|best| many < best.1) {
                best = Some((start, many));
            }
            last = Some(start).filter(|_| u64::from(start + many) == self.high_water);
        }
        best.map(|best| best.0).or(last).map_or(self.high_water, u64::from)
    }
}

impl<M: Memory> Heap<M> {
    /// Returns how the slots of a chunk with this tag lie, and how many chunks it is.
    pub(crate) fn shape_of(&self, number: u32, tag: ChunkTag) -> Result<(Shape, u32), Bad> {
        self.shape_in(&self.supply(), number, tag)
    }

    fn shape_in(&self, supply: &Supply, number: u32, tag: ChunkTag) -> Result<(Shape, u32), Bad> {
        if tag.class < BLOCK_CLASS {
            return Ok((self.0.shapes[usize::from(tag.class)], 1));
        }
        let chunks = self.length_in(supply, number)?;
        if tag.class == SPAN_CLASS {
            return Ok((self.span_shape(chunks), chunks));
        }
        if supply.block_of(tag.lane).is_none_or(|block| block.chunk != number) {
            return Err(Bad::Damaged { what: "block of lanes", at: self.chunk_at(number) });
        }
        Ok((Shape::default(), chunks))
    }

    /// Returns how many chunks the span, or the block of lanes, is that begins with this one.
    pub(crate) fn length_of(&self, number: u32) -> Result<u32, Bad> {
        self.length_in(&self.supply(), number)
    }

    fn length_in(&self, supply: &Supply, number: u32) -> Result<u32, Bad> {
        let at = self.chunk_at(number);
        let word = self.memory().load(Off::new(at + SPAN_WORD_AT), Acquire)?;
        let chunks = word as u32;
        let end = u64::from(number) + u64::from(chunks);
        if word != span_word(number, chunks) || chunks == 0 || end > supply.high_water {
            return Err(Bad::Damaged { what: "span of chunks", at });
        }
        Ok(chunks)
    }

    fn span_shape(&self, chunks: u32) -> Shape {
        let bytes = u64::from(chunks) << self.0.chunk_shift;
        Shape::span(bytes - u64::from(self.0.span_object_at), self.0.span_object_at)
    }

    /// Returns how many chunks a chunk of this class is.
    pub(crate) fn chunks_of(&self, chunk: &Chunk) -> u32 {
        if usize::from(chunk.class) < SPAN_INDEX {
            return 1;
        }
        let bytes = u64::from(chunk.shape.slot_bytes) + u64::from(chunk.shape.slots_at);
        (bytes >> self.0.chunk_shift) as u32
    }

    /// Takes hints away, of whichever lane, that name one of these chunks: what lies in a span is
    /// never to be taken for a chunk. An older hint may have reached the medium, and the one that was
    /// stored over it not: what is not known to be durable is flushed. The caller fences.
    fn forget_hints(&self, supply: &mut Supply, chunks: std::ops::Range<u64>) -> Result<(), Bad> {
        let (memory, named) = (self.memory(), chunks.start + 1..chunks.end + 1);
        let hints = supply.hints;
        let fixed = (0..self.lanes()).map(|lane| self.lane_at(lane));
        let handed_out = supply
            .blocks
            .iter()
            .flat_map(|block| block.numbers().map(|lane| self.area_in(*block, lane)));
        for area in fixed.chain(handed_out) {
            for line in 0..HINTS_BYTES / 64 {
                let mut flush = hints == Hints::Unknown;
                for word in 0..8 {
                    let at = Off::<u64>::new(area.start + line * 64 + word * 8);
                    let hint = memory.load(at, Acquire)?;
                    flush |= hint != 0 && hints != Hints::Durable;
                    if named.contains(&hint) {
                        memory.store(at, 0);
                        flush = true;
                    }
                }
                if flush {
                    memory.flush(Range::new(area.start + line * 64, 64));
                }
            }
        }
        supply.hints = Hints::Durable;
        Ok(())
    }

    /// Takes so many neighbouring chunks from the supply, which is locked, and writes their length
    /// into the first one. Returns its number, and whether all of them are fresh: none of their bytes
    /// but tags was ever stored to. Nothing of it is durable, and the first chunk is not flushed.
    ///
    /// # Errors
    /// There is no room; nothing has changed.
    #[track_caller]
    pub(crate) fn take_chunks(
        &self,
        supply: &mut Supply,
        chunks: u32,
    ) -> Result<(u32, bool), HeapError> {
        let memory = self.memory();
        let start = supply.neighbours(chunks);
        let end = start + u64::from(chunks);
        if end >= u64::from(u32::MAX) {
            return Err(HeapError::Options { what: "more than 2^32 chunks".into() });
        }
        let (number, fresh) = (start as u32, start >= supply.high_water);
        if end > supply.high_water {
            memory.grow(self.chunk_at(end as u32 - 1) + self.chunk_bytes())?;
        }
        if !fresh {
            self.forget_hints(supply, start..end)?;
        }
        if end > supply.high_water {
            supply.high_water = end;
            memory.store(HIGH_WATER, end);
            memory.flush_word(HIGH_WATER);
        }
        for free in number..end as u32 {
            supply.free.remove(&free);
        }
        supply.spans.insert(number, chunks);
        let at = self.chunk_at(number);
        memory.store(Off::new(at + SPAN_WORD_AT), span_word(number, chunks));
        Ok((number, fresh))
    }

    /// Reads a chunk's tag, with its shape and how many chunks it is: `Err` is the chunk after it, if
    /// it is free, or within a span of this process. Meanwhile no chunk changes hands.
    pub(crate) fn chunk_or_end(
        &self,
        number: u32,
        met: Met,
    ) -> Result<Result<(ChunkTag, Shape, u32), u32>, Bad> {
        let mut supply = self.supply();
        if let Some(end) = supply.end_of_span(number) {
            return Ok(Err(end));
        }
        // In volatile memory it may have contents where its tag will stand.
        if supply.free.contains(&number) {
            return Ok(Err(number + 1));
        }
        let Some(tag) = self.tag(number)? else {
            // Without a tag below the high-water mark it is free: it was given back, or a crash has
            // ended the taking half-way. Within an older span the word would be of its contents.
            if met == Met::InTurn {
                supply.free.insert(number);
            }
            return Ok(Err(number + 1));
        };
        let (shape, chunks) = self.shape_in(&supply, number, tag)?;
        Ok(Ok((tag, shape, chunks)))
    }

    /// Finds all chunks that are free.
    pub(crate) fn find_free_chunks(&self) -> Result<(), Bad> {
        let (mut next, end) = (0, self.supply().high_water as u32);
        while next < end {
            next = match self.chunk_or_end(next, Met::InTurn)? {
                Ok((_, _, chunks)) => next + chunks,
                Err(after) => after,
            };
        }
        Ok(())
    }
}

impl<M: Memory> Lane<M> {
    /// Allocates an object that no slot of a chunk holds.
    #[cold]
    pub(crate) fn allocate_span(&mut self, bytes: u64, purpose: Purpose) -> Result<u64, HeapError> {
        if bytes > MAX_OBJECT_BYTES {
            return Err(HeapError::TooLarge { bytes, max: MAX_OBJECT_BYTES });
        }
        let object_at = self.heap().0.span_object_at;
        let chunks = (bytes + u64::from(object_at)).div_ceil(self.heap().chunk_bytes()) as u32;
        self.free_given_back()?;
        self.discover(DISCOVER_STEP)?;
        let number = match self.take_span(chunks, purpose) {
            Err(HeapError::Full(_)) => {
                while self.discover(DISCOVER_STEP)? {}
                self.give_back_empty();
                match self.take_span(chunks, purpose) {
                    Err(HeapError::Full(_)) if self.heap().empty_idle_lanes()? => {
                        self.take_span(chunks, purpose)?
                    }
                    taken => taken?,
                }
            }
            taken => taken?,
        };
        let mut chunk =
            Chunk::new(self.heap().span_shape(chunks), self.span_index(purpose) as u16, vec![0]);
        chunk.take_from(0);
        self.adopt(number, chunk);
        Ok(self.heap().chunk_at(number) + u64::from(object_at))
    }

    fn span_index(&self, purpose: Purpose) -> usize {
        SPAN_INDEX + purpose as usize
    }

    fn take_span(&mut self, chunks: u32, purpose: Purpose) -> Result<u32, HeapError> {
        let heap = self.heap().clone();
        let memory = heap.memory();
        let mut supply = heap.supply();
        let (number, _) = heap.take_chunks(&mut supply, chunks)?;
        let at = heap.chunk_at(number);
        memory.store(bitmap_word(at, 0), 0);
        memory.flush(Range::new(at, CHUNK_HEADER_BYTES + 8));
        memory.fence();
        // Before the tag: a thread that sees that one stored knows that it may not be durable.
        memory.store(self.taken_at(), u64::from(number) + 1);
        let tag = ChunkTag { class: SPAN_CLASS, purpose: purpose as u8, lane: self.number as u16 };
        memory.store(Off::new(at), tag.encode());
        memory.flush_word(Off::<u64>::new(at));
        memory.fence();
        Ok(number)
    }

    /// Makes the chunks of an empty span free.
    pub(crate) fn give_back_span(&self, number: u32, chunks: u32) {
        let (heap, memory) = (&self.heap(), self.heap().memory());
        let mut supply = heap.supply();
        for other in number + 1..number + chunks {
            let word = Off::<u64>::new(heap.chunk_at(other));
            memory.store(word, 0);
            memory.flush_word(word);
        }
        memory.fence();
        let tag = Off::<u64>::new(heap.chunk_at(number));
        memory.store(tag, 0);
        memory.flush_word(tag);
        memory.fence();
        supply.spans.remove(&number);
        supply.free.extend(number..number + chunks);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    #[test]
    fn neighbours_are_the_fewest_that_are_enough() {
        let supply = |free: &[u32], high_water| Supply {
            high_water,
            free: free.iter().copied().collect::<BTreeSet<_>>(),
            spans: BTreeMap::new(),
            blocks: Vec::new(),
            hints: Hints::Durable,
        };
        let many = supply(&[1, 2, 3, 5, 6, 8, 9, 10, 11, 18, 19], 20);
        assert_eq!([1, 2, 3, 4].map(|chunks| many.neighbours(chunks)), [5, 5, 1, 8]);
        assert_eq!(many.neighbours(5), 18, "with fresh ones after the last");
        assert_eq!(supply(&[4, 5], 20).neighbours(3), 20);
        assert_eq!(supply(&[], 0).neighbours(2), 0);
    }
}
