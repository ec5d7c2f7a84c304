//! Making room when there is none: deleted tuples leave the runs at once, in place, and not when
//! runs are merged, which takes room itself.
//!
//! A key is dead if its newest entry is a tombstone. All its entries in runs are hidden, so that
//! removing them is not visible:
//!
//! 1. *From the oldest entry to the newest*, the tombstone last, each in one mini-transaction: the
//!    entry leaves its leaf, its slots become free, the run's size is less. (The fields of an entry
//!    that has many go before it, some at a time. They would be read as empty then, but are never
//!    read.)
//! 2. The leaf is joined with a neighbour wherever both fit into one.
//!
//! *Crash in between:* what is left of the key is hidden still, by the newest entry.
//!
//! This is done between transactions, once an operation has found no room, and until the next
//! MemTable is frozen: after each transaction for the keys that it deleted, and for all keys once,
//! in steps. A merge that is being built would name what goes, and holds room: it is given up, leaf
//! by leaf. Inputs of a merge that are being taken apart go first. So that deleting works on a full
//! memory, some nodes are kept back for tombstones and for joining leaves, once there is little
//! room left. A memory that is filled at once by others may have no such nodes; then the space that
//! merging holds is used.

use std::ops::Bound;

use heap::{HeapError, Purpose};
use index::{Cursor, Direction, IndexError};
use pm::{Bad, LineSet, Memory, Off};

use crate::error::StorageError;
use crate::rows::key::TableKey;
use crate::runs::Runs;
use crate::runs::entry::{Entry, Fields, TOMBSTONE, owned_apart, owned_bytes};
use crate::runs::keys::{RunKey, by_form, by_layout};
use crate::runs::layout::{BUILDING, BYTES_AT, KEYS_AT};
use crate::runs::merge::NEW_ENTRIES_A_STEP;
use crate::runs::run::Run;
use crate::runs::scan::next_of_all;
use crate::runs::word_at;
use crate::table::words::owned_slot;

/// Nodes of each size that are kept back: a split of every node from the leaf to the root takes
/// fewer.
const KEPT_NODES: usize = 12;
/// MemTables that must fit into the free space, or nodes are kept back: the next one in each lane,
/// and what merging takes meanwhile.
const MEMTABLES_AHEAD: u64 = 2;
/// Keys that a step of the walk looks at.
const KEYS_A_STEP: u64 = 32;
/// Fields that go in one mini-transaction.
const FIELDS_A_STEP: usize = 64;
/// Steps of the walk that a transaction does.
const STEPS_A_COMMIT: usize = 8;
/// Steps that an operation does which has found no room, before it tries again.
const STEPS_WITHOUT_ROOM: usize = 64;

/// Relief for a pool without room: how far it has come.
#[derive(Debug, Default)]
pub(crate) struct Relief {
    /// True if there was no room lately.
    pub(crate) tight: bool,
    /// Keys that were deleted since, with their tables.
    pub(crate) dead: Vec<(usize, TableKey)>,
    walk: Option<Walk>,
}

/// The progress of the walk over everything.
#[derive(Debug, Default)]
struct Walk {
    /// Dead keys have been looked for in all tables: now leaves are joined.
    joins: bool,
    table: usize,
    /// The number among the table's trees: the indexes, then those of the runs.
    tree: usize,
    after: Option<TableKey>,
}

fn full_is_none<T: Default>(done: Result<T, IndexError>) -> Result<T, IndexError> {
    match done {
        Err(IndexError::Heap(HeapError::Full(_))) => Ok(T::default()),
        done => done,
    }
}

impl<M: Memory> Runs<M> {
    /// An operation has found no room.
    #[cold]
    pub fn tighten(&mut self) {
        if !std::mem::replace(&mut self.relief.tight, true) || self.relief.walk.is_none() {
            self.relief.walk = Some(Walk::default());
        }
        self.pace.wake();
    }

    /// Returns whether there was no room lately.
    #[inline]
    pub fn is_tight(&self) -> bool {
        self.relief.tight
    }

    /// Lets merges be tried again, since there is a new MemTable.
    pub(crate) fn loosen(&mut self) {
        self.relief = Relief::default();
    }

    /// Returns whether the memory may be full before the next MemTable is frozen.
    fn is_nearly_full(&self) -> bool {
        let memtables = self.policy.memtable_bytes.saturating_mul(MEMTABLES_AHEAD);
        let lanes = u64::from(self.tables.lane.heap().lanes());
        self.memory().headroom() < memtables.saturating_mul(lanes)
    }

    /// Keeps nodes back for when there is no room, if that may come before this is asked again;
    /// with `grow` the memory may grow for them.
    ///
    /// # Errors
    /// Damage.
    pub fn keep_nodes_when_nearly_full(&mut self, grow: bool) -> Result<(), StorageError> {
        if self.is_nearly_full() { self.keep_nodes(grow) } else { Ok(()) }
    }

    /// Keeps nodes back for when there is no room, as far as there are any now. Only runs make them
    /// necessary.
    fn keep_nodes(&mut self, grow: bool) -> Result<(), StorageError> {
        if self.runs.is_empty() {
            return Ok(());
        }
        for table in 0..self.tables.tables.len() {
            let bytes = self.tables.tables[table].indexes[0].shape().node_bytes as u64;
            self.tables.lane.keep(bytes, Purpose::Index, KEPT_NODES, grow)?;
        }
        Ok(())
    }

    /// Takes away what a transaction has deleted, once it is over, and does some of the walk.
    ///
    /// # Errors
    /// Damage.
    #[cold]
    pub fn relieve_after_commit(&mut self) -> Result<(), StorageError> {
        self.relieve(self.relief.dead.len() + STEPS_A_COMMIT)
    }

    /// Takes away between transactions what was deleted, for an operation that has found no room.
    ///
    /// # Errors
    /// Damage.
    #[cold]
    pub fn relieve_now(&mut self) -> Result<(), StorageError> {
        self.relieve(self.relief.dead.len() + STEPS_WITHOUT_ROOM)
    }

    fn relieve(&mut self, steps: usize) -> Result<(), StorageError> {
        for _ in 0..steps {
            let done = self.relief_step()?;
            if done == 0 {
                break;
            }
            self.count_step(done);
        }
        self.tables.lane.fence_flushed();
        Ok(())
    }

    /// Does a step; returns how many entries it looked at, 0 if there is nothing to do.
    pub(crate) fn relief_step(&mut self) -> Result<u64, StorageError> {
        if let Some(result) = self.dismantling()? {
            return self.dismantle_step(result);
        }
        if let Some(result) = self.building()? {
            return self.give_up_step(result);
        }
        self.give_up_fillings();
        self.tables.lane.use_kept(true);
        let done = match self.relief.dead.pop() {
            Some((table, key)) => by_form!(&key, key => self.drop_dead(table, key))
                .map(|()| 1 + self.runs.len() as u64),
            None => self.walk_step(),
        };
        self.tables.lane.use_kept(false);
        let done = done?;
        self.keep_nodes(false)?;
        if done == 0 {
            self.pace.rest_until_woken();
        }
        Ok(done)
    }

    /// Takes everything away that runs have of a key, if it is dead.
    fn drop_dead<K: RunKey>(&mut self, table: usize, key: &K) -> Result<(), StorageError> {
        let mut found = Vec::new();
        for (source, tree) in self.sources::<K>(table)?.into_iter().enumerate() {
            if let Some(tree) = tree
                && let Some(value) = tree.get(self.memory(), key)?
            {
                found.push((source, value));
            }
        }
        if found.first().is_none_or(|newest| newest.1 != TOMBSTONE) {
            return Ok(());
        }
        for (source, value) in found.into_iter().rev() {
            self.drop_entry(table, key, source, value)?;
        }
        Ok(())
    }

    /// Takes an entry away that is hidden, or a tombstone that hides nothing.
    fn drop_entry<K: RunKey>(
        &mut self,
        table: usize,
        key: &K,
        source: usize,
        value: u64,
    ) -> Result<(), StorageError> {
        let bytes = owned_bytes(self.memory(), self.layout(table), value)?;
        self.drop_fields(table, value)?;
        let Self { tables, runs, .. } = self;
        let layout = &tables.tables[table].layout;
        let mut slots = Vec::new();
        owned_apart(tables.lane.memory(), layout, value, 0, |slot, _| slots.push(slot))?;
        let lane = &mut tables.lane;
        let tree = match source.checked_sub(1) {
            None => {
                self.keys = self.keys.saturating_sub(1);
                K::tree_mut(&mut tables.tables[table].indexes[0])
            }
            Some(run) => {
                let run = &mut runs[run];
                run.bytes = run.bytes.saturating_sub(bytes);
                run.keys = run.keys.saturating_sub(1);
                lane.mini_store(Off::new(run.at + BYTES_AT), run.bytes);
                lane.mini_store(Off::new(run.at + KEYS_AT), run.keys);
                K::tree_mut(&mut run.trees[table])
            }
        };
        let there = tree.mini_remove(lane, key, value).and_then(|there| {
            slots.iter().try_for_each(|slot| lane.mini_free(*slot))?;
            Ok(there)
        });
        if !matches!(there, Ok(true)) {
            lane.mini_cancel();
            there?;
            return Err(Bad::Damaged { what: "entry of a run", at: value }.into());
        }
        lane.mini_commit(&mut LineSet::new());
        lane.fence_flushed();
        Ok(full_is_none(tree.compact(lane, key))?)
    }

    /// Takes fields of a hidden entry away, some at a time, where one mini-transaction has no room
    /// for all of them.
    fn drop_fields(&mut self, table: usize, value: u64) -> Result<(), StorageError> {
        let tables = &mut self.tables;
        let layout = &tables.tables[table].layout;
        let mut cells = Vec::new();
        {
            let fields = Fields::of(tables.lane.memory(), layout, Entry::decode(value)?)?;
            for (column, form) in layout.forms.iter().enumerate() {
                let column = column as u16;
                if let (Some(word), Some(cell)) = (fields.word(column), fields.cell(column))
                    && let Some(slot) = owned_slot(*form, word)
                {
                    cells.push((cell, slot));
                }
            }
        }
        let lane = &mut tables.lane;
        while cells.len() > FIELDS_A_STEP {
            for (cell, slot) in cells.drain(..FIELDS_A_STEP) {
                lane.mini_store(cell, 0);
                lane.mini_free(slot).inspect_err(|_| lane.mini_cancel())?;
            }
            lane.mini_commit(&mut LineSet::new());
            lane.fence_flushed();
        }
        Ok(())
    }

    /// A step of the walk: looks for dead keys, in all tables, then joins leaves, in all trees.
    fn walk_step(&mut self) -> Result<u64, StorageError> {
        let Some(mut walk) = self.relief.walk.take() else { return Ok(0) };
        if walk.table == self.tables.tables.len() {
            if !std::mem::replace(&mut walk.joins, true) {
                walk.table = 0;
                self.relief.walk = Some(walk);
            }
            return Ok(1);
        }
        let layout = self.tables.tables[walk.table].layout.clone();
        let done = if walk.joins {
            let index = if walk.tree <= layout.secondary.len() { walk.tree } else { 0 };
            by_layout!(layout.key_layout(index), Form => self.join_leaves::<Form>(&mut walk))?
        } else {
            by_layout!(layout.primary, Form => self.find_dead::<Form>(&mut walk))?
        };
        self.relief.walk = Some(walk);
        Ok(done)
    }

    fn find_dead<K: RunKey>(&mut self, walk: &mut Walk) -> Result<u64, StorageError> {
        let memory = self.memory().clone();
        let trees = self.sources::<K>(walk.table)?;
        let low = walk.after.take().map_or(Bound::Unbounded, |key| Bound::Excluded(K::of(key)));
        let cursor =
            |_: &Option<_>| Cursor::new((low.clone(), Bound::Unbounded), Direction::Forward);
        let mut cursors: Vec<Cursor<K>> = trees.iter().map(cursor).collect();
        let (mut values, mut dead) = (Vec::new(), Vec::new());
        for _ in 0..KEYS_A_STEP {
            let next = next_of_all(&memory, &trees, &mut cursors, Direction::Forward, &mut values)?;
            let Some((_, key)) = next else {
                (walk.table, walk.after) = (walk.table + 1, None);
                break;
            };
            let key = key.table_key();
            if values[0] == TOMBSTONE {
                dead.push((walk.table, key.clone()));
            }
            walk.after = Some(key);
        }
        self.relief.dead.append(&mut dead);
        Ok(KEYS_A_STEP)
    }

    fn join_leaves<K: RunKey>(&mut self, walk: &mut Walk) -> Result<u64, StorageError> {
        let Self { tables, runs, .. } = self;
        let Some(table) = tables.tables.get_mut(walk.table) else { return Ok(0) };
        let indexes = table.indexes.len();
        let tree = match walk.tree.checked_sub(indexes) {
            None => &mut table.indexes[walk.tree],
            Some(run) if run < runs.len() => &mut runs[run].trees[walk.table],
            Some(_) => {
                *walk = Walk { joins: true, table: walk.table + 1, ..Walk::default() };
                return Ok(1);
            }
        };
        let tree = K::tree_mut(tree);
        let after = walk.after.take().map(K::of);
        let last = if tree.exists(tables.lane.memory())? {
            tree.compact_next(&mut tables.lane, after.as_ref())?
        } else {
            None
        };
        match last {
            Some(last) => walk.after = Some(last.table_key()),
            None => walk.tree += 1,
        }
        Ok(tree.shape().leaf_capacity as u64)
    }

    /// Takes the last leaf of a merge's result away that is being built, with the entries that were
    /// written for it; in the end the result itself.
    fn give_up_step(&mut self, result: u64) -> Result<u64, StorageError> {
        self.merging = None;
        self.give_up_fillings();
        let mut run = self.open_run(result)?;
        for table in (0..self.tables.tables.len()).rev() {
            let layout = self.tables.tables[table].layout.clone();
            let done =
                by_layout!(layout.primary, Form => self.drop_built::<Form>(table, &mut run))?;
            if done > 0 {
                return Ok(done);
            }
        }
        let lane = &mut self.tables.lane;
        lane.mini_store(word_at(self.directory, BUILDING), 0);
        let filter = run
            .filter
            .into_iter()
            .flat_map(|filter| filter.pieces.into_iter().chain(std::iter::once(filter.list)));
        for object in filter.chain([result]) {
            lane.mini_free(object).inspect_err(|_| lane.mini_cancel())?;
        }
        lane.mini_commit(&mut LineSet::new());
        lane.fence_flushed();
        Ok(1)
    }

    fn drop_built<K: RunKey>(&mut self, table: usize, run: &mut Run) -> Result<u64, StorageError> {
        let mut entries = Vec::new();
        let inputs = self.inputs_left(run.at)?;
        let tree = K::tree_mut(&mut run.trees[table]);
        if !tree.last_leaf(self.memory(), &mut entries)? {
            return Ok(0);
        }
        let mut fresh = Vec::new();
        for (key, value, _) in &entries {
            let Some(slot) = Entry::decode(*value)?.slot() else { continue };
            let mut moved = false;
            for (_, input) in &inputs {
                if let Some(input) = self.run_at(*input) {
                    moved |= input.get_unfiltered(self.memory(), table, key)? == Some(*value);
                }
            }
            if !moved {
                fresh.push(slot);
            }
        }
        if fresh.len() > NEW_ENTRIES_A_STEP {
            return Err(Bad::Damaged { what: "merge of runs", at: run.at }.into());
        }
        let lane = &mut self.tables.lane;
        for slot in fresh {
            lane.mini_free(slot).inspect_err(|_| lane.mini_cancel())?;
        }
        tree.drop_last_leaf(lane)?;
        Ok(entries.len() as u64 + 1)
    }
}
