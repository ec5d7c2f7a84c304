//! Merging runs into a larger one, in steps (P1 4.3: immutable MemTables make a new, larger one).
//!
//! 1. *Start.* Write the descriptor of the result, which names its inputs; one mini-transaction
//!    makes it persisted and the directory's `building`.
//! 2. *Build.* Step by step, take the next keys of all inputs in order. A key that one input alone
//!    has, or whose newest entry hides the others, moves by its word: the entry stays where it is.
//!    Otherwise an entry with the words of all is written. The keys of a step become one leaf of
//!    the result; the leaf, its path from the root, and the new entries change in one
//!    mini-transaction. Meanwhile all readers read the inputs.
//! 3. *Replace.* With its filter built, one mini-transaction puts the result in the directory in
//!    place of its inputs, and makes it the one whose inputs are taken apart (`dismantle.rs`).
//!
//! The mini-transactions of 1 and 2 have no fence of their own. One fence follows the last of a
//! transaction or of a call of [`Runs::work`]: the fences of another thread do not cover it. All
//! their words are changed by other mini-transactions only, except the persisted bits of new
//! entries. The one thing that the same thread does to these before its next fence is to clear
//! superseded slots, which recovery repeats.
//!
//! A crash in 2 loses nothing: building goes on after the last key of the result. Tombstones are
//! dropped where no run lies below, since they have nothing left to hide.

use std::ops::Bound;
use std::sync::atomic::Ordering::Acquire;

use heap::Purpose;
use index::{Cursor, Direction, LeafEntry};
use pm::{Bad, LineSet, Memory, Off, Range};
use zerocopy::IntoBytes;

use crate::error::StorageError;
use crate::lsm::change::{Change, Coalescing, ColumnSet};
use crate::lsm::levels::Merge;
use crate::lsm::tree::LEVELS;
use crate::runs::entry::{Entry, TOMBSTONE, owned_bytes, partial_words};
use crate::runs::keys::{Cursors, RunKey, by_layout};
use crate::runs::layout::{
    BUILDING, BYTES_AT, DISMANTLING, KEYS_AT, MAX_LEVEL, MAX_RUNS, TO_BOTTOM, input_at, read_header,
};
use crate::runs::read::take_words;
use crate::runs::run::Run;
use crate::runs::scan::next_of_all;
use crate::runs::{Runs, word_at};
use crate::table::Table;

/// Entries of a leaf at most that are written anew: each is a line or more of the mini-transaction.
pub(crate) const NEW_ENTRIES_A_STEP: usize = 32;

/// A merge that is being built.
#[derive(Debug)]
pub(crate) struct Merging {
    /// The run that it makes, with its level and the entries that it has by now. Its bytes start
    /// with those of the inputs that merges made. What comes from a MemTable, and what is written
    /// anew, is counted and added. Taking the inputs apart subtracts what the result has not taken
    /// over from those that merges made. So each entry is counted once, not in each merge.
    pub(crate) result: Run,
    /// The inputs, newest first.
    inputs: Vec<u64>,
    to_bottom: bool,
    /// The table that is being merged, and where its inputs are.
    table: usize,
    cursors: Option<Cursors>,
}

/// The entries that the step of a merge has collected.
struct Leaf<K> {
    entries: Vec<LeafEntry<K>>,
    /// Entries that were written, and their bytes.
    fresh: Vec<u64>,
    bytes: u64,
    /// Bytes of the slots of entries that are not among the result's bytes yet.
    added_bytes: u64,
    lines: LineSet,
    looked_at: u64,
}

impl<M: Memory> Runs<M> {
    /// Starts the merge; a run that is alone just goes down a level.
    pub(crate) fn start_merge(&mut self, merge: Merge) -> Result<(), StorageError> {
        let levels = merge.from..=merge.into;
        let inputs: Vec<u64> =
            self.runs.iter().filter(|run| levels.contains(&run.level)).map(|run| run.at).collect();
        if let [alone] = inputs[..] {
            let words: Vec<u64> = self
                .runs
                .iter()
                .map(|run| run.at | if run.at == alone { merge.into } else { run.level } as u64)
                .collect();
            self.mini_directory(&words);
            self.tables.lane.mini_commit(&mut LineSet::new());
            if let Some(run) = self.runs.iter_mut().find(|run| run.at == alone) {
                run.level = merge.into;
            }
            return Ok(());
        }
        let counted = self.runs.iter().filter(|run| run.merged && inputs.contains(&run.at));
        let bytes = counted.fold(0u64, |sum, run| sum.saturating_add(run.bytes));
        let plan = merge.into as u64 | if merge.to_bottom { TO_BOTTOM } else { 0 };
        let mut lines = LineSet::new();
        let (tables, lane) = (self.tables.tables.len(), &mut self.tables.lane);
        let at = Self::write_run(lane, tables, &mut lines, Some((plan, bytes, &inputs)))?;
        lane.mini_store(word_at(self.directory, BUILDING), at);
        lane.mini_persist(at)?;
        lane.mini_commit(&mut lines);
        self.resume_merge(at)
    }

    /// Takes a merge up again that a crash or a lack of room has cut off.
    pub(crate) fn resume_merge(&mut self, at: u64) -> Result<(), StorageError> {
        let memory = self.memory();
        let damaged = Bad::Damaged { what: "merge of runs", at };
        let plan = read_header(memory, at, self.tables.tables.len())?.plan;
        let level = (plan & !TO_BOTTOM) as usize;
        if level > MAX_LEVEL {
            return Err(damaged.into());
        }
        let result = Run::open(memory, &self.tables.tables, at, level)?;
        let mut inputs = Vec::new();
        for number in 0..MAX_RUNS {
            let input = memory.load(input_at(at, number), Acquire)?;
            if input == 0 {
                break;
            }
            self.run_at(input).ok_or(damaged)?;
            inputs.push(input);
        }
        // Trees are built in the order of the tables: the last that has one is the one to continue
        // with, and those before it are done.
        let mut table = 0;
        for (number, Table { layout, .. }) in self.tables.tables.iter().enumerate() {
            let tree = &result.trees[number];
            let there = by_layout!(layout.primary, Form => Form::tree(tree).exists(memory))?;
            if there {
                table = number;
            }
        }
        let to_bottom = plan & TO_BOTTOM != 0;
        self.merging = Some(Merging { result, inputs, to_bottom, table, cursors: None });
        Ok(())
    }

    /// Does a step of the merge that is being built; returns how many entries it looked at.
    pub(crate) fn merge_step(&mut self) -> Result<u64, StorageError> {
        let Some(mut merging) = self.merging.take() else { return Ok(0) };
        if merging.table == self.tables.tables.len() {
            let (at, filter) = (merging.result.at, merging.result.filter.is_some());
            let empty = merging.result.keys == 0;
            self.merging = Some(merging);
            if !filter && !empty && !self.no_filters {
                return self.fill(at);
            }
            self.replace_inputs()?;
            return Ok(1);
        }
        let layout = self.tables.tables[merging.table].layout.clone();
        // On an error the merge is taken up again from what is there.
        let done = by_layout!(layout.primary, Form => self.merge_leaf::<Form>(&mut merging))?;
        self.merging = Some(merging);
        Ok(done)
    }

    fn merge_leaf<K: RunKey>(&mut self, merging: &mut Merging) -> Result<u64, StorageError> {
        let mut leaf = Leaf {
            entries: Vec::new(),
            fresh: Vec::new(),
            bytes: 0,
            added_bytes: 0,
            lines: LineSet::new(),
            looked_at: 0,
        };
        let table = merging.table;
        // The inputs are read while entries are written.
        let runs = std::mem::take(&mut self.runs);
        let collected = self.collect_leaf::<K>(&runs, merging, &mut leaf);
        self.runs = runs;
        let ended = match collected {
            Ok(ended) => ended,
            Err(error) => {
                self.give_back_leaf(leaf);
                return Err(error);
            }
        };
        if !leaf.entries.is_empty() {
            let tree = K::tree_mut(&mut merging.result.trees[table]);
            let lane = &mut self.tables.lane;
            let at = merging.result.at;
            let bytes = merging.result.bytes.saturating_add(leaf.added_bytes);
            let keys = merging.result.keys + leaf.entries.len() as u64;
            lane.mini_store(Off::new(at + BYTES_AT), bytes);
            lane.mini_store(Off::new(at + KEYS_AT), keys);
            let persisted = leaf.fresh.iter().try_for_each(|slot| lane.mini_persist(*slot));
            let appended = match persisted {
                Ok(()) => tree.append_leaf(lane, &leaf.entries, &mut leaf.lines),
                Err(bad) => {
                    lane.mini_cancel();
                    Err(bad.into())
                }
            };
            if let Err(error) = appended {
                self.give_back_leaf(leaf);
                return Err(error.into());
            }
            let leaf_bytes = tree.shape().node_bytes as u64;
            let level = merging.result.level.min(LEVELS - 1);
            self.stats.merged_bytes[level] += leaf_bytes + leaf.bytes;
            (merging.result.bytes, merging.result.keys) = (bytes, keys);
        }
        if ended {
            merging.table += 1;
            merging.cursors = None;
        }
        Ok(leaf.looked_at.max(1))
    }

    fn give_back_leaf<K>(&mut self, leaf: Leaf<K>) {
        for slot in leaf.fresh {
            self.tables.lane.release(slot);
        }
    }

    /// Collects the next entries of the result; returns whether there are no more.
    fn collect_leaf<K: RunKey>(
        &mut self,
        runs: &[Run],
        merging: &mut Merging,
        leaf: &mut Leaf<K>,
    ) -> Result<bool, StorageError> {
        let table = merging.table;
        let memory = self.memory().clone();
        let tree = K::tree(&merging.result.trees[table]);
        let most = tree.shape().leaf_capacity;
        let cursors = match &mut merging.cursors {
            Some(cursors) => K::cursors(cursors),
            none => {
                let mut last = Vec::new();
                tree.last_leaf(&memory, &mut last)?;
                let last = last.last().map(|last| &last.0);
                let cursor = |_: &u64| {
                    let low = last.map_or(Bound::Unbounded, |last| Bound::Excluded(last.clone()));
                    Cursor::new((low, Bound::Unbounded), Direction::Forward)
                };
                let cursors = merging.inputs.iter().map(cursor).collect();
                K::cursors(none.insert(K::new_cursors(cursors)))
            }
        };
        // Nothing of the result depends on where the inputs are in the directory by now.
        let mut trees = Vec::with_capacity(merging.inputs.len());
        let mut is_counted = Vec::with_capacity(merging.inputs.len());
        for input in &merging.inputs {
            let run = runs.iter().find(|run| run.at == *input);
            let run = run.ok_or(Bad::Damaged { what: "run", at: *input })?;
            is_counted.push(run.merged);
            let tree = K::tree(&run.trees[table]);
            trees.push(tree.exists(&memory)?.then_some(tree));
        }
        let mut values = Vec::new();
        // At least one entry a step; a stretch of nothing but dropped tombstones is cut, too.
        while leaf.entries.len() < most
            && leaf.fresh.len() < NEW_ENTRIES_A_STEP
            && leaf.looked_at < 4 * most as u64
        {
            let next = next_of_all(&memory, &trees, cursors, Direction::Forward, &mut values)?;
            let Some((newest, key)) = next else { return Ok(true) };
            leaf.looked_at += values.len() as u64;
            let written = leaf.fresh.len();
            let value = self.merged(table, &key, &values, merging.to_bottom, leaf)?;
            if let Some(value) = value {
                if !is_counted[newest] || leaf.fresh.len() > written {
                    leaf.added_bytes += owned_bytes(&memory, self.layout(table), value)?;
                }
                leaf.entries.push((key, value, 0));
            }
        }
        Ok(false)
    }

    /// Returns what the result has for a key of which its inputs, newest first, have `values`.
    fn merged<K: RunKey>(
        &mut self,
        table: usize,
        key: &K,
        values: &[u64],
        to_bottom: bool,
        leaf: &mut Leaf<K>,
    ) -> Result<Option<u64>, StorageError> {
        let newest = values[0];
        if newest == TOMBSTONE {
            return Ok((!to_bottom).then_some(newest));
        }
        if !matches!(Entry::decode(newest)?, Entry::Partial(_)) || values.len() == 1 {
            return Ok(Some(newest));
        }
        let base = &mut self.tables;
        let layout = &base.tables[table].layout;
        let columns = layout.forms.len();
        let damaged = Bad::Damaged { what: "entries of a tuple", at: newest };
        base.words.clear();
        base.words.resize(columns, 0);
        let mut tuple = Coalescing::new(ColumnSet::first(columns));
        let mut change: Option<Change> = None;
        for value in values {
            let words = &mut base.words;
            let older = take_words(base.lane.memory(), layout, *value, &mut tuple, words)?;
            let both = change.map_or(Ok(older), |newer| newer.over(&older));
            change = Some(both.map_err(|_| damaged)?);
        }
        self.entry_words.clear();
        let entry: fn(u64) -> Entry = match change {
            Some(Change::Whole) => {
                self.entry_words.extend_from_slice(&base.words);
                Entry::Whole
            }
            Some(Change::Partial(set)) => {
                partial_words(layout, &set, key, &base.words, &mut self.entry_words);
                Entry::Partial
            }
            _ => return Err(damaged.into()),
        };
        let bytes = self.entry_words.as_bytes();
        let slot = base.lane.allocate(bytes.len() as u64, Purpose::Table)?;
        leaf.fresh.push(slot);
        leaf.bytes += bytes.len() as u64;
        base.lane.memory().copy(Off::new(slot), bytes);
        leaf.lines.add(Range::new(slot, bytes.len() as u64));
        Ok(Some(entry(slot).word()))
    }

    /// Puts the result in the place of its inputs.
    fn replace_inputs(&mut self) -> Result<(), StorageError> {
        let Some(merging) = self.merging.take() else { return Ok(()) };
        let Merging { result, inputs, .. } = merging;
        let mut rest = std::mem::take(&mut self.runs);
        let place = rest.iter().position(|run| inputs.contains(&run.at)).unwrap_or(0);
        rest.retain(|run| !inputs.contains(&run.at));
        let at = result.at;
        self.stats.merges += 1;
        rest.insert(place, result);
        self.runs = rest;
        let words: Vec<u64> = self.run_words().collect();
        self.mini_directory(&words);
        let lane = &mut self.tables.lane;
        lane.mini_store(word_at(self.directory, BUILDING), 0);
        lane.mini_store(word_at(self.directory, DISMANTLING), at);
        lane.mini_commit(&mut LineSet::new());
        lane.fence_flushed();
        Ok(())
    }
}
