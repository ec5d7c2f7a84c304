//! Changes of the MemTable in two halves, as [`crate::Tables`] has them: the first writes to places
//! that no reader sees, the engine's log entry becomes durable, the second makes the change count.
//!
//! An update of columns that are in no index goes into the words of the MemTable's entry, if it has
//! them: [`Update::Fields`]. Everything else is a [`Replacement`]: the MemTable gets another entry
//! for the key, which is a new slot with the words of the old one that stay, a tombstone, or none.
//! So the columns of a tuple that an index holds never change within an entry, and the keys that
//! undo needs can be made from entries alone, in whatever order they became durable.

use std::sync::atomic::Ordering::Acquire;

use heap::Purpose;
use index::{Append, BTree};
use pm::{Bad, Durable, Memory, Off, Range};
use zerocopy::IntoBytes;

use crate::error::StorageError;
use crate::logs::undo_entry::NewField;
use crate::lsm::change::{Change, ColumnSet};
use crate::rows::catalog::{KeyLayout, TableLayout};
use crate::rows::key::TableKey;
use crate::rows::value::Value;
use crate::runs::Runs;
use crate::runs::entry::{Entry, Fields, SECONDARY, TOMBSTONE, owned_apart, partial_words};
use crate::runs::keys::{RunKey, by_form};
use crate::runs::read::Found;
use crate::runs::run::TREE_ENTRY_BYTES;
use crate::table::words::owned_slot;
use crate::table::{
    NewFields, TableIndex, key_of_words, prepare_entry, release_words, write_value, write_words,
};

/// A change of what the MemTable says of a key, before it is made; a log entry has just this.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "what is prepared must be published or given back"]
pub struct Replacement {
    /// The table's number.
    pub table: u16,
    /// An entry that has the key.
    pub witness: u64,
    /// The word that the MemTable has now; zero is nothing.
    pub old: u64,
    /// The word that it will have; zero is nothing.
    pub new: u64,
    /// Checksums of the new entry and of its keys in the secondary indexes.
    pub checksums: u64,
}

/// The way in which an update is done.
#[derive(Debug)]
#[must_use = "what is prepared must be published or given back"]
pub enum Update {
    /// Words of the MemTable's entry are replaced; they are in the tables' list of new fields.
    Fields(NewFields),
    /// The MemTable gets another entry.
    Entry(Replacement),
}

impl<M: Memory> Runs<M> {
    /// First half of an insert.
    ///
    /// # Errors
    /// Wrong values, a duplicate key, or no room; nothing has changed then.
    #[track_caller]
    pub fn write_insert(
        &mut self,
        table: u16,
        values: &[Value<'_>],
    ) -> Result<Replacement, StorageError> {
        let base = &mut self.tables;
        let layout = &base.tables[usize::from(table)].layout;
        layout.check_tuple(values)?;
        base.words.clear();
        let written = write_words(&mut base.lane, &mut base.lines, layout, values, &mut base.words);
        let offset = match written {
            Ok(offset) => offset,
            Err(error) => {
                release_words(&mut base.lane, layout, &base.words);
                base.lines.clear();
                return Err(error);
            }
        };
        let owned = layout.forms.iter().zip(&base.words);
        self.fresh.extend(owned.filter_map(|(form, word)| owned_slot(*form, *word)));
        self.fresh.push(offset);
        let bytes: usize = values.iter().filter_map(Value::as_bytes).map(<[u8]>::len).sum();
        self.added = (bytes as u64 + layout.tuple_bytes(), 0);
        let done = self.prepare_insert(usize::from(table), offset);
        if done.is_err() {
            self.give_back();
        }
        done
    }

    #[track_caller]
    fn prepare_insert(&mut self, table: usize, offset: u64) -> Result<Replacement, StorageError> {
        let layout = &self.tables.tables[table].layout;
        let words = &self.tables.words;
        self.key = key_of_words(self.memory(), layout, &layout.primary, |column| {
            Ok(words[usize::from(column)])
        })?;
        let key = self.key.clone();
        let found = by_form!(&key, key => self.newest(table, key, 0))?;
        let old = match found {
            Some(Found { value, .. }) if Entry::decode(value)? != Entry::Tombstone => {
                let table = layout.schema.name().into();
                return Err(StorageError::DuplicateKey { table });
            }
            Some(Found { source: 0, value }) => value,
            _ => 0,
        };
        let new = Entry::Whole(offset).word();
        let mut checksums = [crc32c::crc32c(self.tables.words.as_bytes()), 0];
        self.prepare_primary(table, old, new)?;
        for index in 0..self.layout(table).secondary.len() {
            let (layout, words) = (self.layout(table), &self.tables.words);
            let key = key_of_words(self.memory(), layout, &layout.secondary[index], |column| {
                Ok(words[usize::from(column)])
            })?;
            self.prepare_secondary(table, index, &key, &mut checksums[1])?;
        }
        Ok(Replacement {
            table: table as u16,
            witness: new,
            old,
            new,
            checksums: joined(checksums),
        })
    }

    /// First half of an update, which is not empty, of the tuple that [`Self::find`] found.
    ///
    /// # Errors
    /// Wrong values, or no room; nothing has changed then.
    #[track_caller]
    pub fn write_update(
        &mut self,
        table: u16,
        key: &[Value<'_>],
        found: Found,
        changes: &[(u16, Value<'_>)],
    ) -> Result<Update, StorageError> {
        let layout = self.layout(usize::from(table));
        layout.check_changes(changes)?;
        let indexed = changes.iter().any(|(column, _)| layout.indexed[usize::from(*column)]);
        self.tables.fields.clear();
        let table = usize::from(table);
        let done = if found.source == 0 && !indexed && self.has_all(table, found, changes)? {
            self.write_in_place(table, found, changes).map(Update::Fields)
        } else {
            self.key = self.encode(table, key)?;
            self.write_new_entry(table, found, changes, indexed).map(Update::Entry)
        };
        if done.is_err() {
            self.give_back();
        }
        done
    }

    /// Returns whether an entry has words for all these columns, and remembers where.
    #[inline]
    fn has_all(
        &mut self,
        table: usize,
        found: Found,
        changes: &[(u16, Value<'_>)],
    ) -> Result<bool, Bad> {
        self.cells.clear();
        let layout = &self.tables.tables[table].layout;
        let fields = Fields::of(self.tables.lane.memory(), layout, Entry::decode(found.value)?)?;
        for (column, _) in changes {
            match fields.cell(*column) {
                Some(cell) => self.cells.push(cell),
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    #[inline]
    fn write_in_place(
        &mut self,
        table: usize,
        found: Found,
        changes: &[(u16, Value<'_>)],
    ) -> Result<NewFields, StorageError> {
        self.added = (0, 0);
        let base = &mut self.tables;
        let layout = &base.tables[table].layout;
        for ((column, value), cell) in changes.iter().zip(&self.cells) {
            // The same column twice: the later value replaces the earlier one.
            let earlier = base.fields.iter().rev().find(|field| field.column == *column);
            let old = match earlier {
                Some(earlier) => earlier.new,
                None => base.lane.memory().load(*cell, Acquire)?,
            };
            let form = layout.forms[usize::from(*column)];
            let new = write_value(&mut base.lane, &mut base.lines, form, value)?;
            self.fresh.extend(owned_slot(form, new));
            self.replaced.extend(owned_slot(form, old));
            base.fields.push(NewField { column: *column, old, new });
        }
        Ok(NewFields { table: table as u16, tuple: found.value, images: 0 })
    }

    /// Writes an entry with the changed columns and those of the MemTable's entry, if it has one.
    #[track_caller]
    fn write_new_entry(
        &mut self,
        table: usize,
        found: Found,
        changes: &[(u16, Value<'_>)],
        indexed: bool,
    ) -> Result<Replacement, StorageError> {
        let base = &mut self.tables;
        let layout = &base.tables[table].layout;
        base.words.clear();
        base.words.resize(layout.forms.len(), 0);
        self.added = (TREE_ENTRY_BYTES, 0);
        let mut columns = ColumnSet::EMPTY;
        let (mut old, mut whole) = (0, false);
        if found.source == 0 {
            old = found.value;
            let entry = Entry::decode(old)?;
            let fields = Fields::of(base.lane.memory(), layout, entry)?;
            columns = match fields.change() {
                Change::Whole => ColumnSet::first(layout.forms.len()),
                Change::Partial(columns) => *columns,
                Change::Tombstone => return Err(Bad::Damaged { what: "entry", at: old }.into()),
            };
            whole = *fields.change() == Change::Whole;
            for column in columns.iter() {
                base.words[usize::from(column)] = fields.word(column).unwrap_or(0);
            }
            self.replaced.extend(entry.slot());
        }
        for (column, value) in changes {
            let place = usize::from(*column);
            let form = layout.forms[place];
            let new = write_value(&mut base.lane, &mut base.lines, form, value)?;
            let before = std::mem::replace(&mut base.words[place], new);
            if columns.contains(*column)
                && let Some(slot) = owned_slot(form, before)
            {
                // The same column twice: the first value is unused.
                match self.fresh.iter().position(|fresh| *fresh == slot) {
                    Some(twice) => base.lane.release(self.fresh.swap_remove(twice)),
                    None => self.replaced.push(slot),
                }
            }
            self.fresh.extend(owned_slot(form, new));
            columns.insert(*column);
            self.added.0 += value.as_bytes().map_or(0, <[u8]>::len) as u64 + 8;
        }
        let key = self.key.clone();
        self.entry_words.clear();
        if whole {
            self.entry_words.extend_from_slice(&base.words);
        } else {
            let out = &mut self.entry_words;
            by_form!(&key, key => partial_words(layout, &columns, key, &base.words, out));
        }
        let bytes = self.entry_words.as_bytes();
        let slot = base.lane.allocate(bytes.len() as u64, Purpose::Table)?;
        self.fresh.push(slot);
        base.lane.memory().copy(Off::new(slot), bytes);
        base.lines.add(Range::new(slot, bytes.len() as u64));
        let new = if whole { Entry::Whole(slot) } else { Entry::Partial(slot) }.word();
        let mut checksums = [crc32c::crc32c(bytes), 0];
        self.prepare_primary(table, old, new)?;
        if indexed {
            self.prepare_moves(table, found, changes, &mut checksums[1])?;
        }
        Ok(Replacement {
            table: table as u16,
            witness: new,
            old,
            new,
            checksums: joined(checksums),
        })
    }

    /// Prepares what an update of indexed columns changes in the secondary indexes.
    #[track_caller]
    fn prepare_moves(
        &mut self,
        table: usize,
        found: Found,
        changes: &[(u16, Value<'_>)],
        checksum: &mut u32,
    ) -> Result<(), StorageError> {
        let mut words = std::mem::take(&mut self.old_words);
        let wanted = indexed_columns(self.layout(table));
        let key = self.key.clone();
        let collected =
            by_form!(&key, key => self.collect(table, key, Some(found), &wanted, &mut words));
        self.old_words = words;
        collected?;
        for index in 0..self.layout(table).secondary.len() {
            let (layout, old, new) = (self.layout(table), &self.old_words, &self.tables.words);
            let key = &layout.secondary[index];
            let old = key_of_words(self.memory(), layout, key, |at| Ok(old[usize::from(at)]))?;
            let changed = |at: u16| changes.iter().any(|(column, _)| *column == at);
            let new = key_of_words(self.memory(), layout, key, |at| {
                let words = if changed(at) { new } else { &self.old_words };
                Ok(words[usize::from(at)])
            })?;
            if old != new {
                self.prepare_secondary(table, index, &new, checksum)?;
                self.tables.outdated.push((index as u16 + 1, old));
            }
        }
        Ok(())
    }

    /// First half of a delete of the tuple that [`Self::find`] found. Where no older run has the
    /// tuple, the MemTable says nothing of it afterwards; elsewhere it gets a tombstone.
    ///
    /// # Errors
    /// No room, or damage; nothing has changed then.
    #[track_caller]
    pub fn write_delete(
        &mut self,
        table: u16,
        key: &[Value<'_>],
        found: Found,
    ) -> Result<Replacement, StorageError> {
        self.key = self.encode(usize::from(table), key)?;
        self.added = (0, 0);
        let done = self.prepare_delete(usize::from(table), found);
        if done.is_err() {
            self.give_back();
        }
        done
    }

    #[track_caller]
    fn prepare_delete(&mut self, table: usize, found: Found) -> Result<Replacement, StorageError> {
        let key = self.key.clone();
        let (mut old, mut new) = (0, TOMBSTONE);
        if found.source == 0 {
            old = found.value;
            if by_form!(&key, key => self.live(table, key, 1))?.is_none() {
                new = 0;
            }
            let (layout, replaced) = (&self.tables.tables[table].layout, &mut self.replaced);
            owned_apart(self.tables.lane.memory(), layout, old, 0, |slot, _| replaced.push(slot))?;
        }
        self.prepare_primary(table, old, new)?;
        if !self.layout(table).secondary.is_empty() {
            let mut words = std::mem::take(&mut self.old_words);
            let wanted = indexed_columns(self.layout(table));
            let collected =
                by_form!(&key, key => self.collect(table, key, Some(found), &wanted, &mut words));
            self.old_words = words;
            collected?;
            for index in 0..self.layout(table).secondary.len() {
                let (layout, words) = (self.layout(table), &self.old_words);
                let key = key_of_words(self.memory(), layout, &layout.secondary[index], |at| {
                    Ok(words[usize::from(at)])
                })?;
                self.tables.outdated.push((index as u16 + 1, key));
            }
        }
        Ok(Replacement { table: table as u16, witness: found.value, old, new, checksums: 0 })
    }

    /// Prepares a place in the MemTable's tree if it has nothing for the key of the operation.
    #[track_caller]
    fn prepare_primary(&mut self, table: usize, old: u64, new: u64) -> Result<(), StorageError> {
        self.added.1 = i64::from(new != 0) - i64::from(old != 0);
        if old != 0 {
            return Ok(());
        }
        self.added.0 += TREE_ENTRY_BYTES;
        if !by_form!(&self.key, key => tree_of(&self.tables.tables[table].indexes[0], key).exists(self.memory()))?
        {
            self.tables.create_index(table as u16, 0)?;
        }
        self.prepare(table, 0, &self.key.clone(), new)
    }

    #[track_caller]
    fn prepare_secondary(
        &mut self,
        table: usize,
        index: usize,
        key: &TableKey,
        checksum: &mut u32,
    ) -> Result<(), StorageError> {
        *checksum = add_key(*checksum, key);
        self.prepare(table, index + 1, key, SECONDARY)
    }

    #[track_caller]
    fn prepare(
        &mut self,
        table: usize,
        index: usize,
        key: &TableKey,
        value: u64,
    ) -> Result<(), StorageError> {
        self.tables.fence_removals(table as u16, None);
        let base = &mut self.tables;
        let table = &mut base.tables[table];
        let tree = &mut table.indexes[index];
        let entry =
            prepare_entry(&mut base.lane, &mut base.lines, &table.layout, tree, key, value)?;
        base.prepared.push((index as u16, entry));
        Ok(())
    }

    /// Gives back what a first half has written and that will not be published.
    pub fn give_back(&mut self) {
        while let Some(slot) = self.fresh.pop() {
            self.tables.lane.release(slot);
        }
        self.replaced.clear();
        self.tables.prepared.clear();
        self.tables.outdated.clear();
        self.tables.lines.clear();
    }

    /// Second half, step one: the new slots become persisted.
    #[inline]
    #[track_caller]
    pub fn mark<T>(&mut self, _: &Durable<T>) {
        self.tables.unsettled = false;
        for slot in self.fresh.drain(..) {
            self.tables.lane.mark_persisted(slot, &mut self.tables.lines);
        }
    }

    /// Second half of an update in place: the new words stand in the entry.
    #[inline]
    #[track_caller]
    pub fn replace_fields(&mut self, _: Durable<NewFields>) {
        let base = &mut self.tables;
        for (field, cell) in base.fields.iter().zip(&self.cells) {
            base.lane.memory().store(*cell, field.new);
            base.lines.add(cell.range());
        }
        base.superseded.append(&mut self.replaced);
    }

    /// Second half of a replacement, step two: MemTable and indexes say the new thing.
    ///
    /// # Errors
    /// Damage.
    #[track_caller]
    pub fn publish(&mut self, replacement: Durable<Replacement>) -> Result<(), Bad> {
        let Replacement { table, old, new, .. } = *replacement.get();
        let base = &mut self.tables;
        let key = self.key.clone();
        if new == TOMBSTONE && self.relief.tight {
            self.relief.dead.push((usize::from(table), key.clone()));
            self.pace.wake();
        }
        if new == 0 {
            base.remove_entry(table, 0, &key, old)?;
        } else if old != 0 {
            let tree = &mut base.tables[usize::from(table)].indexes[0];
            let (memory, lines) = (base.lane.memory(), &mut base.lines);
            by_form!(&key, key => tree_mut(tree, key).replace_if(memory, key, old, new, lines))?;
        }
        if !base.prepared.is_empty() {
            let entries = replacement.vouch_for(std::mem::take(&mut base.prepared));
            base.publish_entries(table, entries)?;
        }
        while let Some((index, key)) = base.outdated.pop() {
            base.remove_entry(table, index, &key, SECONDARY)?;
        }
        base.superseded.append(&mut self.replaced);
        self.bytes = self.bytes.saturating_add(self.added.0);
        self.keys = self.keys.saturating_add_signed(self.added.1);
        Ok(())
    }

    /// Sets the MemTable's size after a part of the open transaction was undone: it is the size
    /// that it had before that, and of the slots that the transaction had superseded so many count.
    pub fn forget_part(&mut self, memtable_use: (u64, u64), kept: usize) {
        (self.bytes, self.keys) = memtable_use;
        self.tables.forget_superseded(kept);
    }

    /// Sets the MemTable's size after an abort: it is the size that it had before the transaction.
    /// Forgets what was collected.
    pub fn forget(&mut self, memtable_use: (u64, u64)) {
        (self.bytes, self.keys) = memtable_use;
        self.tables.forget();
    }
}

/// The columns of all secondary keys of a table.
pub(crate) fn indexed_columns(layout: &TableLayout) -> ColumnSet {
    let columns = |key: &KeyLayout| key.columns.iter().copied().chain(key.null_words()).collect();
    let sets = layout.secondary.iter().map(columns);
    sets.fold(ColumnSet::EMPTY, |all, one: ColumnSet| all.union(&one))
}

/// Adds a key to a checksum.
pub(crate) fn add_key(checksum: u32, key: &TableKey) -> u32 {
    match key {
        TableKey::Narrow(key) => crc32c::crc32c_append(checksum, &key.to_le_bytes()),
        TableKey::Wide(key) => crc32c::crc32c_append(checksum, key.as_bytes()),
        TableKey::Long(key) => crc32c::crc32c_append(checksum, key.as_bytes()),
    }
}

pub(crate) fn joined([entry, keys]: [u32; 2]) -> u64 {
    u64::from(keys) << 32 | u64::from(entry)
}

pub(crate) fn tree_of<'t, K: RunKey>(index: &'t TableIndex<Append>, _: &K) -> &'t BTree<K, Append> {
    K::tree(index)
}

pub(crate) fn tree_mut<'t, K: RunKey>(
    index: &'t mut TableIndex<Append>,
    _: &K,
) -> &'t mut BTree<K, Append> {
    K::tree_mut(index)
}
