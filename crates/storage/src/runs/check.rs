//! The check of a partition: each run is sound, no filter hides an entry, every tuple comes
//! together, the secondary indexes agree with the tuples, and each object has one owner.

use std::collections::BTreeSet;
use std::ops::Bound;

use index::{Append, BTree, Cursor, Direction};
use pm::{Bad, Memory};

use crate::lsm::change::Coalescing;
use crate::rows::key::TableKey;
use crate::rows::row::Row;
use crate::runs::Runs;
use crate::runs::change::indexed_columns;
use crate::runs::entry::{Entry, SECONDARY, key_of_entry, owned_apart};
use crate::runs::keys::{RunKey, by_layout};
use crate::runs::layout::read_header;
use crate::runs::read::take_words;
use crate::runs::run::Run;
use crate::runs::scan::next_of_all;
use crate::table::key_of_words;
use crate::table::tuple::read_words;

impl<M: Memory> Runs<M> {
    /// Checks everything. Calls `reachable` with the offset of every object that the tables lead
    /// to. Returns the number of tuples.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self, reachable: &mut dyn FnMut(u64)) -> Result<u64, Bad> {
        reachable(self.memtable);
        for run in &self.runs {
            run_objects(run, reachable);
        }
        let result = self.building()?.map(|at| self.open_run(at)).transpose()?;
        if let Some(result) = &result {
            run_objects(result, reachable);
        }
        let mut inputs = Vec::new();
        let dismantling = self.dismantling()?;
        if let Some(at) = dismantling {
            for (_, input) in self.inputs_left(at)? {
                inputs.push(self.open_run(input)?);
            }
        }
        inputs.iter().for_each(|input| run_objects(input, reachable));
        let mut tuples = 0;
        for table in 0..self.tables.tables.len() {
            tuples += by_layout!(self.layout(table).primary, Form => {
                if let Some(result) = &result {
                    self.check_result::<Form>(table, result, reachable)?;
                }
                if let Some(at) = dismantling {
                    self.check_inputs::<Form>(table, at, &inputs, reachable)?;
                }
                self.check_sources::<Form>(table, reachable)?;
                self.check_tuples::<Form>(table, reachable)
            })?;
        }
        Ok(tuples)
    }

    pub(crate) fn open_run(&self, at: u64) -> Result<Run, Bad> {
        read_header(self.memory(), at, self.tables.tables.len())?;
        Run::open(self.memory(), &self.tables.tables, at, 0)
    }

    /// The entries of a tree, if it exists; its nodes are reachable.
    fn tree_entries<K: RunKey>(
        &self,
        tree: &BTree<K, Append>,
        reachable: &mut dyn FnMut(u64),
    ) -> Result<Vec<(K, u64)>, Bad> {
        let mut entries = Vec::new();
        if tree.exists(self.memory())? {
            let found =
                tree.check(self.memory(), |key, value| entries.push((key.clone(), value)))?;
            found.nodes.into_iter().for_each(reachable);
        }
        Ok(entries)
    }

    /// The MemTable and the runs of the directory.
    fn check_sources<K: RunKey>(
        &self,
        table: usize,
        reachable: &mut dyn FnMut(u64),
    ) -> Result<(), Bad> {
        let (memory, layout) = (self.memory(), self.layout(table));
        let memtable = (&self.tables.tables[table].indexes[0], None);
        let runs = self.runs.iter().map(|run| (&run.trees[table], Some(run)));
        for (tree, run) in std::iter::once(memtable).chain(runs) {
            for (key, value) in self.tree_entries(K::tree(tree), reachable)? {
                let entry = Entry::decode(value)?;
                let wrong = |what| Bad::Damaged { what, at: value };
                if entry != Entry::Tombstone
                    && key_of_entry(memory, layout, entry)? != key.table_key()
                {
                    return Err(wrong("key of an entry"));
                }
                if let Some(run) = run
                    && !run.passes(memory, table, &key)?
                {
                    return Err(wrong("filter of a run"));
                }
                let mut room = Ok(());
                owned_apart(memory, layout, value, 0, |slot, bytes| {
                    room = room.and_then(|()| self.tables.lane.heap().has_room(slot, bytes));
                    reachable(slot);
                })?;
                room?;
            }
        }
        Ok(())
    }

    /// The result of a merge that is being built: what it has of its own.
    fn check_result<K: RunKey>(
        &self,
        table: usize,
        result: &Run,
        reachable: &mut dyn FnMut(u64),
    ) -> Result<(), Bad> {
        let inputs = self.inputs_left(result.at)?;
        for (key, value) in self.tree_entries(K::tree(&result.trees[table]), reachable)? {
            let mut moved = false;
            for (_, input) in &inputs {
                if let Some(run) = self.run_at(*input) {
                    moved |= run.get_unfiltered(self.memory(), table, &key)? == Some(value);
                }
            }
            if !moved && let Some(slot) = Entry::decode(value)?.slot() {
                reachable(slot);
            }
        }
        Ok(())
    }

    /// The inputs that are being taken apart: what the result does not have.
    fn check_inputs<K: RunKey>(
        &self,
        table: usize,
        result: u64,
        inputs: &[Run],
        reachable: &mut dyn FnMut(u64),
    ) -> Result<(), Bad> {
        let result = self.run_at(result).ok_or(Bad::Damaged { what: "run", at: result })?;
        for input in inputs {
            for (key, value) in self.tree_entries(K::tree(&input.trees[table]), reachable)? {
                let kept = result.get_unfiltered(self.memory(), table, &key)?.unwrap_or(0);
                let layout = self.layout(table);
                owned_apart(self.memory(), layout, value, kept, |slot, _| reachable(slot))?;
            }
        }
        Ok(())
    }

    /// Counts the tuples, and compares them with the secondary indexes.
    fn check_tuples<K: RunKey>(
        &self,
        table: usize,
        reachable: &mut dyn FnMut(u64),
    ) -> Result<u64, Bad> {
        let (memory, layout) = (self.memory(), self.layout(table));
        let wanted = indexed_columns(layout);
        let mut expected: Vec<Vec<TableKey>> = vec![Vec::new(); layout.secondary.len()];
        let trees = self.sources::<K>(table)?;
        let all = |_| Cursor::new((Bound::Unbounded, Bound::Unbounded), Direction::Forward);
        let mut cursors: Vec<Cursor<K>> = trees.iter().map(all).collect();
        let (mut values, mut words, mut tuples, mut row) = (Vec::new(), Vec::new(), 0, Row::new());
        while next_of_all(memory, &trees, &mut cursors, Direction::Forward, &mut values)?.is_some()
        {
            words.clear();
            words.resize(layout.forms.len(), 0);
            // The whole tuple has to come together, not only what is indexed.
            let mut tuple = Coalescing::new(crate::runs::read::wanted(layout, None));
            for value in &values {
                take_words(memory, layout, *value, &mut tuple, &mut words)?;
            }
            let damaged = Bad::Damaged { what: "entries of a tuple", at: values[0] };
            if !tuple.finish().map_err(|_| damaged)? {
                continue;
            }
            read_words(memory, layout, |column| words[column], None, &mut row, values[0])?;
            layout.check_row(&row, values[0])?;
            tuples += 1;
            if wanted.is_empty() {
                continue;
            }
            for (index, keys) in layout.secondary.iter().zip(&mut expected) {
                let word = |column: u16| Ok(words[usize::from(column)]);
                keys.push(key_of_words(memory, layout, index, word)?);
            }
        }
        for (index, expected) in expected.iter().enumerate() {
            let tree = &self.tables.tables[table].indexes[index + 1];
            let same = by_layout!(layout.secondary[index], Form => {
                let found = self.tree_entries(Form::tree(tree), reachable)?;
                let expected: BTreeSet<_> = expected.iter().cloned().map(Form::of).collect();
                found.iter().all(|(_, value)| *value == SECONDARY)
                    && found.iter().map(|(key, _)| key).eq(expected.iter())
            });
            if !same {
                return Err(Bad::Damaged { what: "secondary index", at: 0 });
            }
        }
        Ok(tuples)
    }
}

fn run_objects(run: &Run, reachable: &mut dyn FnMut(u64)) {
    reachable(run.at);
    if let Some(filter) = &run.filter {
        reachable(filter.list);
        filter.pieces.iter().copied().for_each(reachable);
    }
}
