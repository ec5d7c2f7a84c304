//! Ids of an array's elements, which are handed out once.
//!
//! The header of the array says how many are reserved; that is fenced before one of them is handed
//! out. After a crash the next id is the first one that is not reserved: those between are holes. So that openings
//! do not use ids up, a store that was opened reserves at most as many at once as it has handed out, and
//! [`Ids::unreserve`] gives back those that were not handed out.

use std::sync::atomic::Ordering::Acquire;

use pm::{Bad, LineSet, Memory, Off};

use crate::Result;
use crate::array::Shape;
use crate::latch::{Latch, Waiting};

/// The ids that a store which was opened reserves first.
const FIRST_RESERVE: u64 = 16;

#[derive(Debug)]
pub(crate) struct Ids {
    at: Off<u64>,
    reserve: u64,
    next: Latch<Next>,
    /// The elements that were reserved when the store was opened.
    pub(crate) opened: u64,
}

#[derive(Debug)]
struct Next {
    next: u64,
    reserved: u64,
}

impl Ids {
    /// The ids of an array whose word of reserved ones is at `at`; the first `skipped` are never used.
    pub(crate) fn open<M: Memory>(
        memory: &M,
        at: Off<u64>,
        skipped: u64,
        reserve: u32,
        waiting: &Waiting,
    ) -> Result<Self> {
        let reserved = memory.load(at, Acquire)?;
        // Each takes a byte at least.
        if reserved > memory.len() {
            return Err(Bad::Damaged { what: "number of an array's elements", at: at.get() }.into());
        }
        let next = Next { next: reserved.max(skipped), reserved };
        let next = Latch::new(next, waiting);
        Ok(Self { at, reserve: u64::from(reserve), next, opened: reserved })
    }

    /// The id that would be handed out next.
    pub(crate) fn next(&self) -> u64 {
        self.next.read().next
    }

    /// The number of ids that are reserved together, when `first` is the next one.
    fn reserve_at(&self, first: u64) -> u64 {
        match self.opened {
            0 => self.reserve,
            opened => (first - opened).max(FIRST_RESERVE).min(self.reserve),
        }
    }

    /// Gives back the ids that are reserved and were not handed out. What is stored is added to `lines`, for the
    /// caller to make durable: until then these ids are holes after a crash.
    pub(crate) fn unreserve<M: Memory>(&self, memory: &M, lines: &mut LineSet) {
        let mut state = self.next.write();
        if state.reserved > state.next {
            state.reserved = state.next;
            memory.store(self.at, state.reserved);
            lines.add(self.at.range());
        }
    }

    /// Hands out `many` ids in one segment; `grow` makes a segment if it is not there.
    pub(crate) fn take<M: Memory>(
        &self,
        memory: &M,
        shape: Shape,
        many: u64,
        grow: impl FnOnce(u64) -> Result<()>,
    ) -> Result<u64> {
        let mut state = self.next.write();
        let mut first = state.next;
        let mut segment = shape.segment(first);
        let mut end = shape.start(segment + 1);
        if first + many > end {
            (first, segment) = (end, segment + 1);
            end = shape.start(segment + 1);
        }
        if first + many > state.reserved {
            grow(segment)?;
            state.reserved = (first + many.max(self.reserve_at(first))).min(end);
            memory.store(self.at, state.reserved);
            memory.flush_word(self.at);
            memory.fence();
        }
        state.next = first + many;
        Ok(first)
    }
}
