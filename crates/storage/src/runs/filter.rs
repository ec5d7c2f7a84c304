//! Building a run's Bloom filter, in steps (P1 4.3: one for each immutable MemTable).
//!
//! 1. Go over the run's trees, and set the bits of each key in a buffer.
//! 2. Copy the buffer into pieces in memory, some of it a step; flush. Nothing leads to them yet.
//! 3. One mini-transaction: the list of the pieces, the words of the run that name the filter, the
//!    pieces' persisted bits.
//!
//! A crash before 3 leaves no trace; the filter is built anew. Until it is there, look-ups go to
//! the tree. A run that is frozen meanwhile waits for the filter that has been begun. The filter of
//! a merge's result waits for those of frozen runs, and then continues from where it was.

use std::ops::Bound;

use heap::{HeapError, Purpose};
use index::{Bloom, Cursor, Direction};
use pm::{Bad, LineSet, Memory, Off, Range};
use zerocopy::IntoBytes;

use crate::error::StorageError;
use crate::lsm::tree::LEVELS;
use crate::runs::Runs;
use crate::runs::keys::{Cursors, RunKey, by_layout, filter_hash};
use crate::runs::layout::{FILTER_AT, FILTER_BITS_AT, PIECE_BYTES_AT, PIECES_AT};
use crate::runs::run::{FILTER_BITS, Filter, MAX_PIECES, Run};

/// Keys that a step adds.
const KEYS_A_STEP: u64 = 128;
/// Bytes that a step copies.
const BYTES_A_STEP: u64 = 8 << 10;

/// A filter that is being built.
#[derive(Debug)]
pub(crate) struct Filling {
    pub(crate) run: u64,
    table: usize,
    cursors: Option<Cursors>,
    bits: Vec<u8>,
    piece_bytes: u64,
    /// The pieces so far, and how many bytes of the buffer are in them.
    pieces: Vec<u64>,
    copied: u64,
}

impl<M: Memory> Runs<M> {
    /// Does a step of building the filter of the run at `run`; returns how many entries it looked
    /// at, or lines it wrote.
    pub(crate) fn fill(&mut self, run: u64) -> Result<u64, StorageError> {
        let mut filling = match self.fillings.iter().position(|filling| filling.run == run) {
            Some(begun) => self.fillings.swap_remove(begun),
            None => self.begin_filter(run)?,
        };
        if filling.table < self.tables.tables.len() {
            let layout = self.tables.tables[filling.table].layout.clone();
            let done = by_layout!(layout.primary, Form => self.fill_from::<Form>(&mut filling))?;
            self.fillings.push(filling);
            return Ok(done);
        }
        let done = if filling.copied < filling.bits.len() as u64 {
            self.copy_some(&mut filling)
        } else {
            self.finish_filter(&mut filling)
        };
        match done {
            Ok((lines, finished)) => {
                if !finished {
                    self.fillings.push(filling);
                }
                Ok(lines)
            }
            Err(error) => {
                self.give_up_filter(filling);
                self.no_filters = true;
                match error {
                    StorageError::Heap(HeapError::Full(_)) => Ok(1),
                    error => Err(error),
                }
            }
        }
    }

    /// A frozen run without a filter, if there is one: one whose filter has been begun, or the
    /// newest.
    pub(crate) fn bare_run(&self) -> Option<u64> {
        let bare = || self.runs.iter().filter(|run| run.filter.is_none() && run.keys > 0);
        let begun = |run: &&Run| self.fillings.iter().any(|filling| filling.run == run.at);
        bare().find(begun).or_else(|| bare().next()).map(|run| run.at)
    }

    /// Gives up all filters that have been begun; none is tried until the next MemTable is frozen.
    pub(crate) fn give_up_fillings(&mut self) {
        self.no_filters = true;
        for filling in std::mem::take(&mut self.fillings) {
            self.give_up_filter(filling);
        }
    }

    fn give_up_filter(&mut self, filling: Filling) {
        for piece in filling.pieces {
            self.tables.lane.release(piece);
        }
    }

    fn run_or_result(&self, at: u64) -> Result<&Run, Bad> {
        let result = self.merging.as_ref().map(|merging| &merging.result);
        let run = result.filter(|run| run.at == at).or_else(|| self.run_at(at));
        run.ok_or(Bad::Damaged { what: "run", at })
    }

    fn begin_filter(&mut self, at: u64) -> Result<Filling, StorageError> {
        // Drops the filters of runs that are gone, since a merge was given up.
        for filling in std::mem::take(&mut self.fillings) {
            if self.run_or_result(filling.run).is_ok() {
                self.fillings.push(filling);
            } else {
                self.give_up_filter(filling);
            }
        }
        let run = self.run_or_result(at)?;
        let largest = self.tables.lane.heap().max_slot_bytes().min(1 << 17);
        let largest = (largest / 2 + 1).next_power_of_two();
        let wanted = Bloom::bytes_for(run.keys, FILTER_BITS);
        let piece_bytes = wanted.next_power_of_two().min(largest);
        let pieces = wanted.div_ceil(piece_bytes).min(MAX_PIECES as u64);
        let bits = vec![0; (pieces * piece_bytes) as usize];
        let (cursors, pieces) = (None, Vec::new());
        Ok(Filling { run: at, table: 0, cursors, bits, piece_bytes, pieces, copied: 0 })
    }

    fn fill_from<K: RunKey>(&self, filling: &mut Filling) -> Result<u64, StorageError> {
        let memory = self.memory();
        let tree = K::tree(&self.run_or_result(filling.run)?.trees[filling.table]);
        let bloom = Bloom::new(FILTER_BITS);
        let range = (Bound::Unbounded, Bound::Unbounded);
        let cursors = filling
            .cursors
            .get_or_insert_with(|| K::new_cursors(vec![Cursor::new(range, Direction::Forward)]));
        let cursor = &mut K::cursors(cursors)[0];
        let mut keys = 0;
        if tree.exists(memory)? {
            while keys < KEYS_A_STEP
                && let Some((key, _)) = cursor.peek(memory, tree)?
            {
                bloom.add(&mut filling.bits, filter_hash(filling.table, key));
                cursor.advance();
                keys += 1;
            }
        }
        if keys < KEYS_A_STEP {
            filling.table += 1;
            filling.cursors = None;
        }
        Ok(keys.max(1))
    }

    /// Copies some of the buffer into a piece; returns how many lines, and that this was no end.
    fn copy_some(&mut self, filling: &mut Filling) -> Result<(u64, bool), StorageError> {
        let lane = &mut self.tables.lane;
        let within = filling.copied % filling.piece_bytes;
        if within == 0 {
            filling.pieces.push(lane.allocate(filling.piece_bytes, Purpose::Index)?);
        }
        let Some(piece) = filling.pieces.last() else { unreachable!("it has just been pushed") };
        let bytes = BYTES_A_STEP.min(filling.piece_bytes - within);
        let part = &filling.bits[filling.copied as usize..][..bytes as usize];
        let memory = lane.memory();
        memory.copy(Off::new(piece + within), part);
        memory.flush(Range::new(piece + within, bytes));
        // Another thread may do the next step.
        lane.flushed();
        filling.copied += bytes;
        Ok((bytes / 64, false))
    }

    /// Makes the filter that of its run; returns how many lines that took, and that it is done.
    fn finish_filter(&mut self, filling: &mut Filling) -> Result<(u64, bool), StorageError> {
        let (run, pieces) = (filling.run, filling.pieces.len() as u64);
        let lane = &mut self.tables.lane;
        let list = lane.allocate(pieces * 8, Purpose::Index)?;
        let mut lines = LineSet::new();
        lane.memory().copy(Off::new(list), filling.pieces.as_bytes());
        lines.add(Range::new(list, pieces * 8));
        lane.mini_store(Off::new(run + FILTER_AT), list);
        lane.mini_store(Off::new(run + PIECES_AT), pieces);
        lane.mini_store(Off::new(run + PIECE_BYTES_AT), filling.piece_bytes);
        lane.mini_store(Off::new(run + FILTER_BITS_AT), u64::from(FILTER_BITS));
        for slot in std::iter::once(&list).chain(&filling.pieces) {
            if let Err(bad) = lane.mini_persist(*slot) {
                lane.mini_cancel();
                lane.release(list);
                return Err(bad.into());
            }
        }
        // The record says nothing of the pieces, so they are durable before it.
        lane.fence_flushed();
        lane.mini_commit(&mut lines);
        let filter = Filter {
            list,
            pieces: std::mem::take(&mut filling.pieces),
            piece_bytes: filling.piece_bytes,
            bloom: Bloom::new(FILTER_BITS),
        };
        let result = self.merging.as_mut().map(|merging| &mut merging.result);
        let run = result.into_iter().chain(&mut self.runs).find(|found| found.at == run);
        if let Some(run) = run {
            run.filter = Some(filter);
            self.stats.merged_bytes[run.level.min(LEVELS - 1)] += filling.bits.len() as u64;
        }
        Ok((pieces.div_ceil(8), true))
    }
}
