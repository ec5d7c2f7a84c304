//! Blocks of lanes: lanes beyond those that the heap was formatted with lie in chunks.
//! `docs/format/heap.md` draws them.
//!
//! Invariants:
//! - A block is neighbouring chunks, as a span is, with a class of its own in the tag of the first
//!   one. Its bytes are the areas of as many lanes as fit. It has no slots, and it is never given
//!   back.
//! - Blocks are a list: a word next to the high-water mark leads to the first one, a word in each
//!   to the next. The lanes of a block have the numbers after those of the block before it; a link
//!   has a checksum over the number of the lane that the block begins with. So a list that comes
//!   back to itself is damaged.
//! - A lane whose number is in a chunk's tag lies in a block whose link is durable.
//!
//! *Making a block*, with the supply locked:
//!
//! 1. Take neighbours that are free, or fresh ones; hints that name one of them go. In the first
//!    one the tag becomes zero, the length is set, and no block follows. In areas that are not
//!    fresh, the hints and the line of the mini-transaction's header become zero. Flush; **fence**.
//! 2. The link. Flush; **fence**.
//! 3. The tag. The flush of the next block's link flushes it too.
//!
//! *Crash before the link is durable:* the chunks are free, as they were. (An older tag in one of
//! them, whose end was not durable, is that of an empty chunk of its lane.) *Crash after it:* the
//! block counts, whether its tag is durable or not, and all that is in it is. Opening stores the
//! tag again: of the last block alone it can be missing. If a killed process had stored the link,
//! and not the tag, the link may not be durable: it becomes so before the tag, or a power cut could
//! leave a tag that no link leads to, and with it chunks that are lost.
//!
//! With the tag first and the link second, a crash in between would leave just that.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use pm::{Bad, Memory, Off, Range};

use crate::error::HeapError;
use crate::layout::{
    BLOCK_BYTES, BLOCK_CLASS, CHUNK_HEADER_BYTES, ChunkTag, FIRST_BLOCK, FRESH_BYTES,
    LANE_AREA_BYTES, NEXT_BLOCK_AT,
};
use crate::purpose::Purpose;
use crate::shared::{Block, Heap, Supply};

/// The most lanes that a heap can have, those with which it was formatted among them.
pub const MAX_LANES: u32 = 65_535;

impl Block {
    fn tag(self) -> u64 {
        let (class, purpose) = (BLOCK_CLASS, Purpose::Log as u8);
        ChunkTag { class, purpose, lane: self.first as u16 }.encode()
    }
}

/// The word that leads to the block of the lanes from `first` on.
fn link_word(first: u32, chunk: u32) -> u64 {
    let sum = crc32c::crc32c_append(crc32c::crc32c(&first.to_le_bytes()), &chunk.to_le_bytes());
    u64::from(sum) << 32 | (u64::from(chunk) + 1)
}

impl Supply {
    /// The number after that of the last lane.
    fn lanes_end(&self, fixed: u32) -> u32 {
        self.blocks.last().map_or(fixed, |block| block.numbers().end)
    }

    /// The block that begins with this lane.
    pub(crate) fn block_of(&self, first: u16) -> Option<Block> {
        let found = self.blocks.binary_search_by_key(&u32::from(first), |block| block.first);
        found.ok().map(|index| self.blocks[index])
    }
}

impl<M: Memory> Heap<M> {
    /// The area of a lane of this block.
    pub(crate) fn area_in(&self, block: Block, lane: u32) -> Range {
        let start = self.chunk_at(block.chunk) + CHUNK_HEADER_BYTES;
        Range::new(start + u64::from(lane - block.first) * LANE_AREA_BYTES, LANE_AREA_BYTES)
    }

    /// Returns how many lanes a block of so many chunks has that begins with lane `first`.
    fn lanes_in(&self, chunks: u32, first: u32) -> u32 {
        let bytes = (u64::from(chunks) << self.0.chunk_shift) - CHUNK_HEADER_BYTES;
        let room = u64::from(MAX_LANES.saturating_sub(first));
        (bytes / LANE_AREA_BYTES).min(room) as u32
    }

    /// Returns where the link to the block after this one stands.
    fn next_at(&self, block: Option<&Block>) -> Off<u64> {
        let next = |block: &Block| Off::new(self.chunk_at(block.chunk) + NEXT_BLOCK_AT);
        block.map_or(FIRST_BLOCK, next)
    }

    /// Makes the next block, whose lanes can be used when this returns.
    ///
    /// # Errors
    /// There can be no more lanes; there is no room.
    pub(crate) fn make_block(&self) -> Result<Block, HeapError> {
        let memory = self.memory();
        let mut supply = self.supply();
        let first = supply.lanes_end(self.lanes());
        let chunks = (BLOCK_BYTES / self.chunk_bytes()).max(1) as u32;
        let lanes = self.lanes_in(chunks, first);
        if lanes == 0 {
            return Err(HeapError::NoLaneLeft { max: MAX_LANES });
        }
        let (chunk, fresh) = self.take_chunks(&mut supply, chunks)?;
        let block = Block { chunk, first, lanes };
        let at = self.chunk_at(chunk);
        memory.store(Off::new(at), 0);
        memory.store(Off::new(at + NEXT_BLOCK_AT), 0);
        memory.flush(Range::new(at, CHUNK_HEADER_BYTES));
        for lane in block.numbers().filter(|_| !fresh) {
            let area = Range::new(self.area_in(block, lane).start, FRESH_BYTES);
            memory.copy(Off::new(area.start), &[0; FRESH_BYTES as usize]);
            memory.flush(area);
        }
        memory.fence();
        let link = self.next_at(supply.blocks.last());
        memory.store(link, link_word(first, chunk));
        memory.flush_word(link);
        memory.fence();
        // Before the tag: a thread that sees that one finds that there is such a lane.
        self.0.all_lanes.store(block.numbers().end, Relaxed);
        memory.store(Off::new(at), block.tag());
        supply.blocks.push(block);
        Ok(block)
    }

    /// Reads the list of blocks, and finishes the last one if a crash has cut that off. The caller
    /// fences.
    ///
    /// # Errors
    /// The list is damaged.
    pub(crate) fn read_blocks(&self) -> Result<Vec<Block>, Bad> {
        let (memory, high_water) = (self.memory(), self.supply().high_water);
        let (mut blocks, mut first) = (Vec::new(), self.lanes());
        loop {
            let link_at = self.next_at(blocks.last());
            let link = memory.load(link_at, Acquire)?;
            if link == 0 {
                return Ok(blocks);
            }
            let what = "link to a block of lanes";
            let chunk = (link as u32).wrapping_sub(1);
            if u64::from(chunk) >= high_water || link != link_word(first, chunk) {
                return Err(Bad::Damaged { what, at: link_at.get() });
            }
            let lanes = self.lanes_in(self.length_of(chunk)?, first);
            let block = Block { chunk, first, lanes };
            let at = self.chunk_at(chunk);
            let tag = memory.load(Off::new(at), Acquire)?;
            let next = memory.load(self.next_at(Some(&block)), Acquire)?;
            if tag == 0 && next == 0 && lanes > 0 {
                memory.flush_word(link_at);
                memory.fence();
                memory.store(Off::new(at), block.tag());
            } else if tag != block.tag() || lanes == 0 {
                return Err(Bad::Damaged { what: "block of lanes", at });
            }
            first = block.numbers().end;
            blocks.push(block);
        }
    }
}
