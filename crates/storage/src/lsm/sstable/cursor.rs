//! A cursor over a range of an SSTable, in either direction.

use std::ops::Bound;

use index::Direction;
use pm::{File, Memory, View};

use super::{Cursor, SsTable};
use crate::lsm::block::{Block, BlockAt, Slice, record};
use crate::lsm::cache::BlockCache;
use crate::lsm::error::LsmError;

/// A range of an SSTable, entry by entry. Keeps copies of the blocks on the way to the entry at
/// hand, so that no lock is held between two steps.
#[derive(Debug)]
pub struct SsCursor<'a, M: Memory, R: File> {
    table: &'a SsTable<R>,
    cache: &'a BlockCache<M>,
    direction: Direction,
    /// The end of the range, in the direction of the cursor.
    end: Bound<Vec<u8>>,
    /// The blocks from the root to the data, each with the record at hand.
    path: Vec<(Vec<u8>, usize)>,
    at_end: bool,
}

impl<'a, M: Memory, R: File> SsCursor<'a, M, R> {
    /// Returns a cursor at the first entry of a range.
    ///
    /// # Errors
    /// Damage, or the file cannot be read.
    pub fn new(
        table: &'a SsTable<R>,
        cache: &'a BlockCache<M>,
        (low, high): (Bound<&[u8]>, Bound<&[u8]>),
        direction: Direction,
    ) -> Result<Self, LsmError> {
        let (start, end) = match direction {
            Direction::Forward => (low, high),
            Direction::Backward => (high, low),
        };
        let mut cursor = Self {
            table,
            cache,
            direction,
            end: end.map(<[u8]>::to_vec),
            path: (0..=table.height).map(|_| (Vec::new(), 0)).collect(),
            at_end: false,
        };
        cursor.seek(start)?;
        Ok(cursor)
    }

    fn forward(&self) -> bool {
        self.direction == Direction::Forward
    }

    /// Copies a block to its place on the path.
    fn fill(&mut self, depth: usize, at: BlockAt) -> Result<(), LsmError> {
        let height = self.table.height - depth as u8;
        let copy = &mut self.path[depth].0;
        self.table.with_block(self.cache, at, height, |block| {
            copy.clear();
            block.0.bytes(0, at.bytes as usize).append_to(copy);
        })
    }

    fn block(&self, depth: usize) -> Block<Slice<'_>> {
        Block(Slice(&self.path[depth].0))
    }

    fn child(&self, depth: usize) -> Result<BlockAt, LsmError> {
        let damaged = || self.table.damaged(0, "a pointer does not make sense");
        self.block(depth).pointer(self.path[depth].1).ok_or_else(damaged)
    }

    fn seek(&mut self, start: Bound<&[u8]>) -> Result<(), LsmError> {
        let data = self.path.len() - 1;
        let mut at = self.table.root;
        for depth in 0..data {
            self.fill(depth, at)?;
            let last = self.block(depth).len() - 1;
            // The first block whose last key is not below the start may hold it. Backward, a start
            // above all keys begins at the last block.
            self.path[depth].1 = match start {
                Bound::Included(key) | Bound::Excluded(key) => {
                    let (index, _) = self.block(depth).lower_bound(key);
                    if index > last && self.forward() {
                        self.at_end = true;
                        return Ok(());
                    }
                    index.min(last)
                }
                Bound::Unbounded if self.forward() => 0,
                Bound::Unbounded => last,
            };
            at = self.child(depth)?;
        }
        self.fill(data, at)?;
        let records = self.block(data).len();
        // The number of records before the place at which the range starts.
        let before = match start {
            Bound::Unbounded if self.forward() => 0,
            Bound::Unbounded => records,
            Bound::Included(key) => {
                let (index, here) = self.block(data).lower_bound(key);
                index + usize::from(here && !self.forward())
            }
            Bound::Excluded(key) => {
                let (index, here) = self.block(data).lower_bound(key);
                index + usize::from(here && self.forward())
            }
        };
        if self.forward() {
            self.path[data].1 = before;
            if before == records {
                self.next_block()?;
            }
        } else if before == 0 {
            self.next_block()?;
        } else {
            self.path[data].1 = before - 1;
        }
        self.check_end();
        Ok(())
    }

    /// Goes to the next block of data.
    fn next_block(&mut self) -> Result<(), LsmError> {
        let data = self.path.len() - 1;
        let mut depth = data;
        loop {
            let Some(above) = depth.checked_sub(1) else {
                self.at_end = true;
                return Ok(());
            };
            depth = above;
            let index = self.path[depth].1;
            let next = if self.forward() {
                (index + 1 < self.block(depth).len()).then_some(index + 1)
            } else {
                index.checked_sub(1)
            };
            if let Some(next) = next {
                self.path[depth].1 = next;
                break;
            }
        }
        for depth in depth + 1..=data {
            let at = self.child(depth - 1)?;
            self.fill(depth, at)?;
            self.path[depth].1 = if self.forward() { 0 } else { self.block(depth).len() - 1 };
        }
        Ok(())
    }

    fn check_end(&mut self) {
        if self.at_end {
            return;
        }
        let (block, index) = &self.path[self.path.len() - 1];
        let (_, key, _) = record(block, *index);
        let within = match (&self.end, self.direction) {
            (Bound::Unbounded, _) => true,
            (Bound::Included(end), Direction::Forward) => key <= &end[..],
            (Bound::Excluded(end), Direction::Forward) => key < &end[..],
            (Bound::Included(end), Direction::Backward) => key >= &end[..],
            (Bound::Excluded(end), Direction::Backward) => key > &end[..],
        };
        self.at_end = !within;
    }
}

impl<M: Memory, R: File> Cursor for SsCursor<'_, M, R> {
    fn key(&self) -> Option<&[u8]> {
        let (block, index) = &self.path[self.path.len() - 1];
        (!self.at_end).then(|| record(block, *index).1)
    }

    fn entry(&self) -> (u8, &[u8]) {
        let (block, index) = &self.path[self.path.len() - 1];
        let (kind, _, body) = record(block, *index);
        (kind, body)
    }

    fn advance(&mut self) -> Result<(), LsmError> {
        if self.at_end {
            return Ok(());
        }
        let data = self.path.len() - 1;
        let (records, index) = (self.block(data).len(), self.path[data].1);
        let next = if self.forward() {
            (index + 1 < records).then_some(index + 1)
        } else {
            index.checked_sub(1)
        };
        match next {
            Some(next) => self.path[data].1 = next,
            None => self.next_block()?,
        }
        self.check_end();
        Ok(())
    }
}
