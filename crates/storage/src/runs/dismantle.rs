//! Taking the inputs of a merge apart, in steps, once its result is in the directory.
//!
//! A step takes the last leaf of an input's tree:
//! 1. For each of its entries: what the result's entry of the same key does not name loses its
//!    persisted bit. Flush; **fence**, if there is any.
//! 2. One mini-transaction: the leaf leaves the tree, with inner nodes that it was the only child
//!    of; the result's size. Fence.
//! 3. The slots are given out again.
//!
//! *Crash before 2:* the leaf is still there, its slots may be free already. So opening does the
//! step once more, before anything is allocated: clearing a bit twice changes nothing. *Crash after
//! 2:* the leaf is gone, and nothing leads to its slots. An input without trees loses its filter
//! and its descriptor in one mini-transaction, and when the last input has gone, the directory says
//! that nothing is to be taken apart.

use std::sync::atomic::Ordering::Acquire;

use pm::{Bad, LineSet, Memory, Off};

use crate::error::StorageError;
use crate::runs::Runs;
use crate::runs::entry::{owned_apart, owned_bytes};
use crate::runs::keys::{RunKey, by_layout};
use crate::runs::layout::{BYTES_AT, DISMANTLING, MAX_RUNS, input_at};
use crate::runs::run::Run;
use crate::runs::word_at;

impl<M: Memory> Runs<M> {
    /// The inputs of the merge whose result is at `result` that are still there, with their
    /// numbers.
    pub(crate) fn inputs_left(&self, result: u64) -> Result<Vec<(usize, u64)>, Bad> {
        let mut inputs = Vec::new();
        for number in 0..MAX_RUNS {
            let input = self.memory().load(input_at(result, number), Acquire)?;
            if input != 0 {
                inputs.push((number, input));
            }
        }
        Ok(inputs)
    }

    /// Does a step of taking apart the inputs of the merge whose result is at `result`; returns how
    /// many entries it looked at.
    pub(crate) fn dismantle_step(&mut self, result: u64) -> Result<u64, StorageError> {
        let Some((number, input)) = self.inputs_left(result)?.last().copied() else {
            let lane = &mut self.tables.lane;
            lane.mini_store(word_at(self.directory, DISMANTLING), 0);
            lane.mini_commit(&mut LineSet::new());
            lane.fence_flushed();
            return Ok(1);
        };
        let mut run = Run::open(self.memory(), &self.tables.tables, input, 0)?;
        for table in (0..self.tables.tables.len()).rev() {
            let layout = self.tables.tables[table].layout.clone();
            let done = by_layout!(layout.primary, Form => {
                self.drop_leaf::<Form>(table, &mut run, result)
            })?;
            if done > 0 {
                return Ok(done);
            }
        }
        let lane = &mut self.tables.lane;
        lane.mini_store(input_at(result, number), 0);
        if let Some(filter) = run.filter {
            for piece in filter.pieces {
                lane.mini_free(piece)?;
            }
            lane.mini_free(filter.list)?;
        }
        lane.mini_free(input)?;
        lane.mini_commit(&mut LineSet::new());
        lane.fence_flushed();
        Ok(1)
    }

    /// Takes the last leaf of a table's tree away, if there is one, and frees what it alone has.
    fn drop_leaf<K: RunKey>(
        &mut self,
        table: usize,
        run: &mut Run,
        result: u64,
    ) -> Result<u64, StorageError> {
        let mut entries = Vec::new();
        let tree = K::tree_mut(&mut run.trees[table]);
        if !tree.last_leaf(self.memory(), &mut entries)? {
            return Ok(0);
        }
        let (mut slots, mut hidden_bytes) = (Vec::new(), 0u64);
        let place = self.runs.iter().position(|run| run.at == result);
        let place = place.ok_or(Bad::Damaged { what: "run", at: result })?;
        for (key, value, _) in &entries {
            let kept = self.runs[place].get_unfiltered(self.memory(), table, key)?.unwrap_or(0);
            let (memory, layout) = (self.memory(), self.layout(table));
            owned_apart(memory, layout, *value, kept, |slot, _| slots.push(slot))?;
            if run.merged && *value != kept {
                hidden_bytes += owned_bytes(memory, layout, *value)?;
            }
        }
        let base = &mut self.tables;
        for slot in &slots {
            base.lane.clear_persisted(*slot, &mut base.lines)?;
        }
        if !slots.is_empty() {
            base.lines.flush(base.lane.memory());
            base.lane.memory().fence();
        }
        let bytes = self.runs[place].bytes.saturating_sub(hidden_bytes);
        base.lane.mini_store(Off::new(result + BYTES_AT), bytes);
        tree.drop_last_leaf(&mut base.lane)?;
        self.runs[place].bytes = bytes;
        for slot in slots {
            base.lane.release(slot);
        }
        Ok(entries.len() as u64 + 1)
    }
}
