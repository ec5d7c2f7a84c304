//! Tables in a log-structured tree: what an operation on a tuple does to the trees of its indexes.
//!
//! The primary tree has whole tuples or changed columns; a secondary one has keys only, which end
//! with the primary key. An operation that fails has changed nothing.

use std::ops::{Bound, ControlFlow};

use index::Direction;
use pm::{Bad, Files, Memory};

use super::cache::Found;
use super::entry::{Assembly, Entry};
use super::error::LsmError;
use super::memtable::MemTable;
use super::tree::LsmTree;
use super::trees::TREE_BYTES;
use crate::error::StorageError;
use crate::rows::catalog::TableLayout;
use crate::rows::key::{TableKey, encode_key, encode_range, key_of_values, primary_in_secondary};
use crate::rows::row::Row;
use crate::rows::value::Value;

impl<F: Files, M: Memory> LsmTree<F, M> {
    fn layout(&self, table: u16) -> &TableLayout {
        self.trees.table(self.trees.tree(table, 0))
    }

    /// The key of the primary index with these values.
    ///
    /// # Errors
    /// Wrong number, type or length of values.
    #[inline]
    pub fn key(&self, table: u16, key: &[Value<'_>]) -> Result<TableKey, StorageError> {
        let layout = self.layout(table);
        encode_key(&layout.schema, &layout.primary, key)
    }

    /// The key of the primary index of a tuple, whose values have been checked.
    pub fn key_of_tuple(&self, table: u16, values: &[Value<'_>]) -> TableKey {
        let layout = self.layout(table);
        key_of_values(&layout.primary, |column| values[usize::from(column)])
    }

    /// Returns whether a secondary index has one of these columns.
    pub fn changes_index(&self, table: u16, changes: &[(u16, Value<'_>)]) -> bool {
        let indexed = &self.layout(table).indexed;
        changes.iter().any(|(column, _)| indexed[usize::from(*column)])
    }

    /// Checks the values of a new tuple, and that its key is free; returns the key.
    ///
    /// # Errors
    /// Wrong values, or a duplicate key.
    pub fn check_insert(&self, table: u16, values: &[Value<'_>]) -> Result<TableKey, LsmError> {
        let layout = self.layout(table);
        layout.check_tuple(values)?;
        let key = self.key_of_tuple(table, values);
        if self.contains(self.trees.tree(table, 0), &key)? {
            let table = layout.schema.name().into();
            return Err(StorageError::DuplicateKey { table }.into());
        }
        Ok(key)
    }

    /// Checks the columns and new values of an update.
    ///
    /// # Errors
    /// Wrong values.
    pub fn check_changes(
        &self,
        table: u16,
        changes: &[(u16, Value<'_>)],
    ) -> Result<(), StorageError> {
        self.layout(table).check_changes(changes)
    }

    /// The error that the table has no tuple with this key.
    pub fn missing(&self, table: u16) -> LsmError {
        let table = self.layout(table).schema.name().into();
        StorageError::MissingKey { table }.into()
    }

    /// Puts a tuple, whose values have been checked, and its index entries.
    ///
    /// # Errors
    /// The memory is full.
    pub fn insert(
        &mut self,
        table: u16,
        key: &TableKey,
        values: &[Value<'_>],
    ) -> Result<(), LsmError> {
        let Self { trees, active, .. } = self;
        let layout = trees.table(trees.tree(table, 0));
        all_or_nothing(active, |memtable| {
            memtable.put_whole(trees.tree(table, 0), key, values)?;
            for (index, keys) in layout.secondary.iter().enumerate() {
                let entry = key_of_values(keys, |column| values[usize::from(column)]);
                memtable.put_key(trees.tree(table, index + 1), &entry)?;
            }
            Ok(())
        })
    }

    /// Puts new values of columns, which have been checked, of a tuple that there is. Where an
    /// indexed column changes, `before` is the whole tuple.
    ///
    /// # Errors
    /// The memory is full.
    pub fn update(
        &mut self,
        table: u16,
        key: &TableKey,
        changes: &[(u16, Value<'_>)],
        before: Option<&Row>,
    ) -> Result<(), LsmError> {
        let Self { trees, active, .. } = self;
        let layout = trees.table(trees.tree(table, 0));
        all_or_nothing(active, |memtable| {
            memtable.put_fields(trees.tree(table, 0), key, changes)?;
            let Some(before) = before else { return Ok(()) };
            for (index, keys) in layout.secondary.iter().enumerate() {
                let old_value = |column: u16| before.get(usize::from(column));
                let new_value = |column: u16| {
                    let changed = changes.iter().rfind(|(changed, _)| *changed == column);
                    changed.map_or_else(|| old_value(column), |(_, value)| *value)
                };
                let old = key_of_values(keys, old_value);
                let new = key_of_values(keys, new_value);
                if old != new {
                    let tree = trees.tree(table, index + 1);
                    memtable.put_tombstone(tree, &old)?;
                    memtable.put_key(tree, &new)?;
                }
            }
            Ok(())
        })
    }

    /// Puts tombstones for a tuple that there is, whose values `before` gives.
    ///
    /// # Errors
    /// The memory is full.
    pub fn delete<'v>(
        &mut self,
        table: u16,
        key: &TableKey,
        before: impl Fn(u16) -> Value<'v>,
    ) -> Result<(), LsmError> {
        let Self { trees, active, .. } = self;
        let layout = trees.table(trees.tree(table, 0));
        all_or_nothing(active, |memtable| {
            memtable.put_tombstone(trees.tree(table, 0), key)?;
            for (index, keys) in layout.secondary.iter().enumerate() {
                let entry = key_of_values(keys, &before);
                memtable.put_tombstone(trees.tree(table, index + 1), &entry)?;
            }
            Ok(())
        })
    }

    /// Calls `visit` with the tuples of a range of an index (`None` is the primary one), in order,
    /// until it breaks. The bounds may give only the first columns of the key.
    ///
    /// # Errors
    /// Wrong values, damage, or a file cannot be read.
    #[expect(clippy::too_many_arguments, reason = "a scan is all of these")]
    pub fn scan(
        &self,
        table: u16,
        index: Option<usize>,
        low: Bound<&[Value<'_>]>,
        high: Bound<&[Value<'_>]>,
        direction: Direction,
        columns: Option<&[u16]>,
        row: &mut Row,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<(), LsmError> {
        let layout = self.layout(table);
        let position = index.map_or(0, |index| index + 1);
        let (low, high) = encode_range(&layout.schema, layout.key_layout(position), low, high)?;
        let mut range = self.range(self.trees.tree(table, position), low, high, direction)?;
        let primary = self.trees.tree(table, 0);
        while let Some(key) = range.key() {
            let found = match index {
                None => {
                    let mut tuple = Assembly::new(layout, columns, row);
                    for record in range.records() {
                        let entry = Entry::<M>::Stored(record?.in_view(Found::Read));
                        if tuple.add(&entry)? {
                            break;
                        }
                    }
                    tuple.finish()?
                }
                Some(index) => {
                    let newest = range.records().next();
                    let there = newest.transpose()?.is_some_and(|record| !record.is_tombstone());
                    if there {
                        let dangling = Bad::Damaged { what: "entry of a secondary index", at: 0 };
                        let key = primary_in_secondary(layout, index, &key[TREE_BYTES..]);
                        if !self.read(primary, &key.ok_or(dangling)?, columns, row)? {
                            return Err(dangling.into());
                        }
                    }
                    there
                }
            };
            if found && visit(row).is_break() {
                return Ok(());
            }
            range.advance()?;
        }
        Ok(())
    }

    /// Checks that every index of every table has an entry for each tuple and no other, and that
    /// the tuples lie under their keys. Returns how many tuples there are.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check_tables(&self) -> Result<u64, LsmError> {
        let mut tuples = 0;
        let mut row = Row::new();
        for tree in 0..self.trees.len() as u16 {
            if !self.trees.is_primary(tree) {
                continue;
            }
            let layout = self.trees.table(tree).clone();
            let mut in_table = 0u64;
            let whole = (Bound::Unbounded, Bound::Unbounded);
            let mut failed = Ok(());
            let (low, high) = whole;
            self.scan(
                layout.number,
                None,
                low,
                high,
                Direction::Forward,
                None,
                &mut row,
                &mut |row| {
                    in_table += 1;
                    failed = self.check_entries(tree, &layout, row);
                    if failed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
                },
            )?;
            failed?;
            for index in 1..=layout.secondary.len() {
                let tree = tree + index as u16;
                let mut range =
                    self.range(tree, Bound::Unbounded, Bound::Unbounded, Direction::Forward)?;
                let mut entries = 0;
                while range.key().is_some() {
                    let newest = range.records().next().transpose()?;
                    entries += u64::from(newest.is_some_and(|record| !record.is_tombstone()));
                    range.advance()?;
                }
                if entries != in_table {
                    return Err(Bad::Damaged { what: "secondary index", at: 0 }.into());
                }
            }
            tuples += in_table;
        }
        Ok(tuples)
    }

    /// Checks that all trees of a table have the entry of a tuple.
    fn check_entries(&self, tree: u16, layout: &TableLayout, row: &Row) -> Result<(), LsmError> {
        for index in 0..=layout.secondary.len() {
            let keys = layout.key_layout(index);
            let key = key_of_values(keys, |column| row.get(usize::from(column)));
            if !self.contains(tree + index as u16, &key)? {
                return Err(Bad::Damaged { what: "index entry", at: 0 }.into());
            }
        }
        Ok(())
    }
}

fn all_or_nothing<M: Memory>(
    memtable: &mut MemTable<M>,
    change: impl FnOnce(&mut MemTable<M>) -> Result<(), LsmError>,
) -> Result<(), LsmError> {
    let mark = memtable.mark();
    let changed = change(memtable);
    if changed.is_err() {
        memtable.undo_to(mark)?;
    }
    changed
}
