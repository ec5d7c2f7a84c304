//! NVWAL's log: a sequence of frames in a chain of blocks of the heap, and one word, the tail, that
//! says how many bytes of them are committed.
//!
//! 1. Copy the frames after the tail; flush; **fence**.
//! 2. Store the tail; flush; **fence**. *Committed.*
//!
//! A checkpoint stores the contents of the frames where they belong; flush; **fence**; zero in the
//! tail; flush; **fence**. After that the blocks are written again from the first one on.
//!
//! Opening reads as many blocks as have committed frames, however long the chain has been. The
//! links of later blocks are followed when room is needed.
//!
//! A block is *pending* while it is allocated and nothing durable leads to it: after a crash it is
//! free. Its persisted bit and the word of the block before that leads to it are set together: then
//! it is *in use*.

use std::sync::atomic::Ordering::Acquire;

use heap::{Lane, Purpose};
use pm::{Bad, Flushed, LineSet, Memory, Off, Range, fence_for};
use zerocopy::IntoBytes;

use crate::Result;
use crate::flaw::{self, Flaw};
use crate::kept::Kept;
use crate::layout::FRAMES_AT;
use crate::log::{Frames, apply};
use crate::recovered::{Recovered, Watch};

/// Bytes of a block (as NVWAL's).
pub const BLOCK_BYTES: u64 = 8 << 10;
/// Bytes of frames in a block.
const PAYLOAD: u64 = BLOCK_BYTES - FRAMES_AT;
/// The place in a block of the word that leads to the next one.
const NEXT_AT: u64 = 16;

/// The log; see the module's comment.
#[derive(Debug)]
pub struct Blocks<M> {
    memory: M,
    /// The first blocks of the chain, as far as it was needed.
    blocks: Vec<u64>,
    tail: u64,
    recovered: Recovered,
    kept: Kept,
}

impl<M: Memory> Blocks<M> {
    /// Opens the log that begins with this block, and recovers: applies the frames of committed
    /// transactions and empties the log.
    ///
    /// # Errors
    /// The log is damaged.
    pub fn open(memory: M, first: u64) -> Result<Self> {
        let mut watch = Watch::start();
        let tail = memory.load(Off::new(first), Acquire)?;
        let kept = Kept::read(&memory, first)?;
        let recovered = Recovered::default();
        let mut log = Self { memory, blocks: vec![first], tail, recovered, kept };
        while tail > log.blocks.len() as u64 * PAYLOAD {
            if !log.follow()? {
                return Err(Bad::Damaged { what: "tail of the log", at: first }.into());
            }
        }
        // It may be what a killed process had stored. A zero, too, has to be durable before frames
        // are overwritten.
        let mut lines = LineSet::new();
        lines.add(log.tail_at().range());
        lines.flush(&log.memory);
        log.memory.fence();
        if tail > 0 {
            let mut frames = Frames::default();
            for (range, _) in log.pieces(0, tail) {
                let start = frames.bytes.len();
                frames.bytes.resize(start + range.len as usize, 0);
                log.memory.read_into(Off::new(range.start), &mut frames.bytes[start..])?;
            }
            frames.checked(&log.memory, first)?;
            watch.log_is_read();
            log.checkpoint(|memory, lines| {
                frames.each(|at, bytes| apply(memory, at, bytes, lines));
            });
            log.recovered = watch.recovered(0, frames.size());
        }
        Ok(log)
    }

    /// Goes on in the chain. Returns whether there was one block more.
    fn follow(&mut self) -> Result<bool> {
        let last = self.blocks[self.blocks.len() - 1];
        let next = self.memory.load(Off::new(last + NEXT_AT), Acquire)?;
        if next == 0 {
            return Ok(false);
        }
        let wild = pm::checked_range(Range::new(next, BLOCK_BYTES), self.memory.len()).is_err();
        if wild || !next.is_multiple_of(64) || self.blocks.contains(&next) {
            return Err(Bad::Damaged { what: "chain of blocks of the log", at: last }.into());
        }
        self.blocks.push(next);
        Ok(true)
    }

    fn tail_at(&self) -> Off<u64> {
        Off::new(self.blocks[0])
    }

    /// The pieces of blocks in which the bytes from `from` to `to` of the log lie, and where each
    /// piece starts in the log.
    fn pieces(&self, from: u64, to: u64) -> Vec<(Range, u64)> {
        let (mut pieces, mut at) = (Vec::new(), from);
        while at < to {
            let (block, within) = ((at / PAYLOAD) as usize, at % PAYLOAD);
            let len = (PAYLOAD - within).min(to - at);
            pieces.push((Range::new(self.blocks[block] + FRAMES_AT + within, len), at));
            at += len;
        }
        pieces
    }

    /// Makes room for these many bytes of frames, and for so many in the log when it is empty.
    ///
    /// # Errors
    /// The memory is full, or the chain is damaged; what has been committed stays.
    pub fn reserve(&mut self, lane: &mut Lane<M>, bytes: u64, empty: u64) -> Result<()> {
        while (self.tail + bytes).max(empty) > self.blocks.len() as u64 * PAYLOAD {
            if self.follow()? {
                continue;
            }
            let block = lane.allocate(BLOCK_BYTES, Purpose::Log)?;
            let mut lines = LineSet::new();
            self.memory.copy(Off::new(block), [0, BLOCK_BYTES, 0, 0, 0, 0, 0, 0].as_bytes());
            lines.add(Range::new(block, FRAMES_AT));
            let last = self.blocks[self.blocks.len() - 1];
            lane.mini_store(Off::new(last + NEXT_AT), block);
            lane.mini_persist(block)?;
            lane.mini_commit(&mut lines);
            lane.fence_flushed();
            self.blocks.push(block);
        }
        self.kept.ask(&self.memory, self.blocks[0], empty);
        Ok(())
    }

    /// Gives blocks of the log, which is empty, back to the heap: those beyond `Kept::bytes`, the
    /// last one first, so that the chain is whole after each.
    ///
    /// # Errors
    /// The chain or the heap is damaged.
    pub fn give_back(&mut self, lane: &mut Lane<M>) -> Result<()> {
        if !self.is_empty() {
            return Ok(());
        }
        while self.follow()? {}
        let kept = self.kept.bytes().div_ceil(PAYLOAD) as usize;
        while let [.., before, last] = self.blocks[..]
            && self.blocks.len() > kept
        {
            lane.mini_store(Off::new(before + NEXT_AT), 0);
            lane.mini_free(last)?;
            lane.mini_commit(&mut LineSet::new());
            lane.fence_flushed();
            self.blocks.pop();
        }
        Ok(())
    }

    /// Appends frames, for which there is room, and commits them.
    pub fn commit(&mut self, frames: &Frames) {
        let (mut lines, from) = (LineSet::new(), self.tail);
        let to = from + frames.bytes.len() as u64;
        if flaw::has::<M>(Flaw::TailBeforeFrames) {
            self.set_tail(to);
        }
        for (range, at) in self.pieces(from, to) {
            let start = (at - from) as usize;
            self.memory
                .copy(Off::new(range.start), &frames.bytes[start..start + range.len as usize]);
            lines.add(range);
        }
        let written = Flushed::lines(&self.memory, &mut lines, ());
        let () = fence_for(&self.memory, written).into_inner();
        self.set_tail(to);
    }

    /// Stores the tail, durably.
    fn set_tail(&mut self, tail: u64) {
        self.memory.store(self.tail_at(), tail);
        let mut lines = LineSet::new();
        lines.add(self.tail_at().range());
        let stored = Flushed::lines(&self.memory, &mut lines, ());
        let () = fence_for(&self.memory, stored).into_inner();
        self.tail = tail;
    }

    /// Lets `store` store what the frames have where it belongs, makes it durable and empties the
    /// log.
    pub fn checkpoint(&mut self, store: impl FnOnce(&M, &mut LineSet)) {
        let mut lines = LineSet::new();
        if flaw::has::<M>(Flaw::BlocksReusedEarly) {
            self.set_tail(0);
        }
        store(&self.memory, &mut lines);
        let stored = Flushed::lines(&self.memory, &mut lines, ());
        let () = fence_for(&self.memory, stored).into_inner();
        self.set_tail(0);
    }

    /// The places of all blocks.
    ///
    /// # Errors
    /// The chain is damaged.
    pub fn places(&self) -> Result<Vec<u64>> {
        let (memory, blocks) = (self.memory.clone(), self.blocks.clone());
        let mut whole = Self { memory, blocks, ..*self };
        while whole.follow()? {}
        Ok(whole.blocks)
    }

    /// The work of the opening.
    pub fn recovered(&self) -> Recovered {
        self.recovered
    }

    /// Returns whether no frame is committed.
    pub fn is_empty(&self) -> bool {
        self.tail == 0
    }
}
