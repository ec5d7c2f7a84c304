//! Building a run's Bloom filter, in steps (P1 4.3: one for each immutable MemTable).
//!
//! 1. Go over the run's trees, and set the bits of each key in a buffer.
//! 2. Copy the buffer into pieces in memory; flush; fence. Nothing leads to them yet.
//! 3. One mini-transaction: the words of the run that name the filter, the pieces' persisted bits.
//!
//! A crash before 3 leaves nothing behind; the filter is built anew. Until it is there, look-ups go
//! to the tree.

use std::ops::Bound;

use heap::{HeapError, Purpose};
use index::{Bloom, Cursor, Direction};
use pm::{Bad, LineSet, Memory, Off, Range};

use crate::error::StorageError;
use crate::lsm::tree::LEVELS;
use crate::runs::Runs;
use crate::runs::keys::{Cursors, RunKey, by_layout, filter_hash};
use crate::runs::layout::{FILTER_AT, FILTER_BITS_AT, PIECE_BYTES_AT, PIECES_AT};
use crate::runs::run::{FILTER_BITS, Filter, MAX_PIECES, Run};

/// Keys that a step adds.
const KEYS_A_STEP: u64 = 128;

/// A filter that is being built.
#[derive(Debug)]
pub(crate) struct Filling {
    pub(crate) run: u64,
    table: usize,
    cursors: Option<Cursors>,
    bits: Vec<u8>,
    piece_bytes: u64,
}

impl<M: Memory> Runs<M> {
    /// Does a step of building the filter of the run at `run`; returns how many entries it looked
    /// at.
    pub(crate) fn fill(&mut self, run: u64) -> Result<u64, StorageError> {
        let filling = match self.filling.take() {
            Some(filling) if filling.run == run => filling,
            _ => self.begin_filter(run)?,
        };
        let mut filling = filling;
        if filling.table == self.catalog.tables.len() {
            return self.finish_filter(filling);
        }
        let layout = self.catalog.tables[filling.table].clone();
        let done = by_layout!(layout.primary, Form => self.fill_from::<Form>(&mut filling))?;
        self.filling = Some(filling);
        Ok(done)
    }

    fn run_or_result(&self, at: u64) -> Result<&Run, Bad> {
        let result = self.merging.as_ref().map(|merging| &merging.result);
        let run = result.filter(|run| run.at == at).or_else(|| self.run_at(at));
        run.ok_or(Bad::Damaged { what: "run", at })
    }

    fn begin_filter(&self, at: u64) -> Result<Filling, StorageError> {
        let run = self.run_or_result(at)?;
        let largest = self.tables.lane.heap().max_object_bytes().min(1 << 17);
        let largest = (largest / 2 + 1).next_power_of_two();
        let wanted = Bloom::bytes_for(run.keys, FILTER_BITS);
        let piece_bytes = wanted.next_power_of_two().min(largest);
        let pieces = wanted.div_ceil(piece_bytes).min(MAX_PIECES as u64);
        let bits = vec![0; (pieces * piece_bytes) as usize];
        Ok(Filling { run: at, table: 0, cursors: None, bits, piece_bytes })
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

    #[expect(clippy::needless_pass_by_value, reason = "the buffer is used up")]
    fn finish_filter(&mut self, filling: Filling) -> Result<u64, StorageError> {
        let mut taken = Vec::new();
        let written = self.write_filter(&filling, &mut taken);
        if let Err(error) = written {
            for slot in taken {
                self.tables.lane.release(slot);
            }
            self.no_filters = true;
            return match error {
                StorageError::Heap(HeapError::Full(_)) => Ok(1),
                error => Err(error),
            };
        }
        let run = filling.run;
        let (list, pieces) = (taken[0], taken[1..].to_vec());
        let lane = &mut self.tables.lane;
        lane.mini_store(Off::new(run + FILTER_AT), list);
        lane.mini_store(Off::new(run + PIECES_AT), pieces.len() as u64);
        lane.mini_store(Off::new(run + PIECE_BYTES_AT), filling.piece_bytes);
        lane.mini_store(Off::new(run + FILTER_BITS_AT), u64::from(FILTER_BITS));
        for slot in &taken {
            lane.mini_persist(*slot)?;
        }
        // No fence behind it: only other mini-transactions change one of these words.
        lane.mini_commit(&mut LineSet::new());
        let filter = Filter {
            list,
            pieces,
            piece_bytes: filling.piece_bytes,
            bloom: Bloom::new(FILTER_BITS),
        };
        let result = self.merging.as_mut().map(|merging| &mut merging.result);
        let run = result.into_iter().chain(&mut self.runs).find(|found| found.at == run);
        if let Some(run) = run {
            run.filter = Some(filter);
            self.stats.merged_bytes[run.level.min(LEVELS - 1)] += filling.bits.len() as u64;
        }
        Ok(filling.bits.len() as u64 / 64)
    }

    /// Writes list and pieces; `taken` has the list first.
    fn write_filter(
        &mut self,
        filling: &Filling,
        taken: &mut Vec<u64>,
    ) -> Result<(), StorageError> {
        let lane = &mut self.tables.lane;
        let pieces = filling.bits.chunks_exact(filling.piece_bytes as usize);
        let list = lane.allocate(pieces.len() as u64 * 8, Purpose::Index)?;
        taken.push(list);
        for (number, bits) in pieces.enumerate() {
            let piece = lane.allocate(filling.piece_bytes, Purpose::Index)?;
            taken.push(piece);
            let memory = lane.memory();
            memory.copy(Off::new(piece), bits);
            memory.flush(Range::new(piece, filling.piece_bytes));
            let word = Off::new(list + number as u64 * 8);
            memory.store(word, piece);
        }
        let memory = lane.memory();
        memory.flush(Range::new(list, (taken.len() as u64 - 1) * 8));
        memory.fence();
        Ok(())
    }
}
