//! Undoing changes of the MemTable, newest first.
//!
//! Every operation is undone by stores of fixed values: what the log entry says and what entries
//! have that never change. So all of a transaction can be undone again, from its newest operation
//! on, after a crash in the middle, and needs one fence, at its end. Index entries that the
//! transaction itself has made are not put back, since they are removed in the end: a leaf whose
//! older entries are back already may have no place for them. ([`crate::Tables::undo`], whose keys
//! are made of fields that are updated in place, has to take each operation out of the log before
//! it undoes the next.)
//!
//! Runs that are frozen never change, and nothing is merged or taken apart while a transaction is
//! open: what the older entries of a tuple say is the same whenever it is asked.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};

use pm::{Bad, Memory};

use crate::error::StorageError;
use crate::logs::undo_entry::{UndoEntry, UndoKind};
use crate::lsm::change::{Coalescing, ColumnSet};
use crate::rows::key::TableKey;
use crate::runs::Runs;
use crate::runs::change::{add_key, indexed_columns, joined, tree_mut};
use crate::runs::entry::{Entry, Fields, SECONDARY, key_of_entry, owned_apart};
use crate::runs::keys::{RunKey, by_form};
use crate::runs::read::{Found, take_words};
use crate::table::key_of_words;
use crate::table::undo::newest_first;
use crate::table::words::owned_slot;

/// An entry of an index: its table, the index (0 is the primary one), and its key.
type IndexEntry = (u16, usize, TableKey);
/// Index entries, each with the number of a log entry. Without a random seed, so that the same
/// input takes the same instructions.
type MadeEntries = HashMap<IndexEntry, usize, BuildHasherDefault<DefaultHasher>>;

fn damaged(at: u64) -> StorageError {
    Bad::Damaged { what: "log entry", at }.into()
}

impl<M: Memory> Runs<M> {
    /// Undoes the operations of a transaction, whose entries are given oldest first. The slots that
    /// become free are added to `freed`; they may be released once the end of the transaction is
    /// durable. Its stores are flushed; a fence is the caller's. Returns how many operations were
    /// undone.
    ///
    /// # Errors
    /// Damage.
    #[track_caller]
    pub fn undo(
        &mut self,
        entries: &[UndoEntry],
        freed: &mut Vec<u64>,
    ) -> Result<u64, StorageError> {
        let mut undone = 0;
        let made = self.made_entries(entries)?;
        for (number, operation, last) in newest_first(entries) {
            undone += 1;
            self.undo_operation((number, operation, last), freed, &made)?;
        }
        self.tables.lines.flush(self.tables.lane.memory());
        Ok(undone)
    }

    /// Acts as [`Self::undo`], past damage: for salvaging. What cannot be undone stays, except an
    /// entry that was put into the MemTable.
    pub fn undo_what_can_be(&mut self, entries: &[UndoEntry]) -> u64 {
        let (mut undone, mut freed) = (0, Vec::new());
        let made = self.made_entries(entries).unwrap_or_default();
        for (number, operation, last) in newest_first(entries) {
            undone += 1;
            let done = self.undo_operation((number, operation, last), &mut freed, &made);
            let known = usize::from(last.table()) < self.tables.tables.len();
            if done.is_err() && last.kind() == Some(UndoKind::Replace) && known {
                let _ = self.undo_lost_replacement(last, &mut freed);
            }
        }
        self.tables.lines.flush(self.tables.lane.memory());
        undone
    }

    #[inline]
    #[track_caller]
    fn undo_operation(
        &mut self,
        (number, operation, last): (usize, &[UndoEntry], &UndoEntry),
        freed: &mut Vec<u64>,
        made: &MadeEntries,
    ) -> Result<(), StorageError> {
        if usize::from(last.table()) >= self.tables.tables.len() {
            return Err(damaged(last.tuple()));
        }
        match last.kind() {
            Some(UndoKind::Replace) => {
                let made_before = |entry: &IndexEntry| {
                    made.get(entry).is_some_and(|operation| *operation < number)
                };
                self.undo_replacement(last, freed, made_before)
            }
            Some(UndoKind::Update) => self.undo_fields(operation, last, freed),
            _ => Err(damaged(last.tuple())),
        }
    }

    /// The index entries that operations of a transaction have made, with the number of the first
    /// log entry of the oldest operation that has.
    fn made_entries(&self, entries: &[UndoEntry]) -> Result<MadeEntries, StorageError> {
        let mut made = MadeEntries::default();
        for (number, _, last) in newest_first(entries) {
            let table = last.table();
            if last.kind() != Some(UndoKind::Replace)
                || usize::from(table) >= self.tables.tables.len()
            {
                continue;
            }
            let Some((key, moves)) = self.moves(usize::from(table), last)? else { continue };
            for (index, (before, after)) in (1..).zip(moves) {
                if let (true, Some(after)) = (before != after, after) {
                    made.insert((table, index, after), number);
                }
            }
            if last.replaced().0 == 0 {
                made.insert((table, 0, key), number);
            }
        }
        Ok(made)
    }

    #[track_caller]
    fn undo_fields(
        &mut self,
        operation: &[UndoEntry],
        last: &UndoEntry,
        freed: &mut Vec<u64>,
    ) -> Result<(), StorageError> {
        let base = &mut self.tables;
        let layout = &base.tables[usize::from(last.table())].layout;
        let memory = base.lane.memory().clone();
        let entry = Entry::decode(last.tuple())?;
        let fields = Fields::of(&memory, layout, entry)?;
        for field in operation.iter().rev().flat_map(|entry| entry.fields().rev()) {
            let form = *layout
                .forms
                .get(usize::from(field.column))
                .ok_or_else(|| damaged(last.tuple()))?;
            let cell = fields.cell(field.column).ok_or_else(|| damaged(last.tuple()))?;
            memory.store(cell, field.old);
            base.lines.add(cell.range());
            if let Some(slot) = owned_slot(form, field.new) {
                base.lane.clear_persisted(slot, &mut base.lines)?;
                freed.push(slot);
            }
        }
        Ok(())
    }

    #[track_caller]
    fn undo_replacement(
        &mut self,
        entry: &UndoEntry,
        freed: &mut Vec<u64>,
        made_before: impl Fn(&IndexEntry) -> bool,
    ) -> Result<(), StorageError> {
        let table = usize::from(entry.table());
        let (old, new) = entry.replaced();
        let Some((key, moves)) = self.moves(table, entry)? else {
            // The new entry had not persisted when the log entry had: it was not used yet, and its
            // words lead nowhere that concerns us. Its bit is set after their fence.
            return match self.is_lost(entry, true)? {
                true => self.undo_lost_replacement(entry, freed),
                false => Ok(()),
            };
        };
        if self.is_lost(entry, false)? {
            return self.undo_lost_replacement(entry, freed);
        }
        for (index, (before, after)) in moves.iter().enumerate() {
            if before != after {
                let index = index + 1;
                if let Some(after) = after {
                    self.tables.remove_entry(entry.table(), index as u16, after, SECONDARY)?;
                }
                if let Some(before) = before
                    && !made_before(&(entry.table(), index, before.clone()))
                {
                    self.tables.restore_entry(entry.table(), index, before, SECONDARY)?;
                }
            }
        }
        if old == 0 {
            let there = by_form!(&key, key => {
                crate::runs::change::tree_of(&self.tables.tables[table].indexes[0], key)
                    .exists(self.memory())
            })?;
            if there {
                self.tables.remove_entry(entry.table(), 0, &key, new)?;
            }
        } else if new == 0 {
            if !made_before(&(entry.table(), 0, key.clone())) {
                self.tables.restore_entry(entry.table(), 0, &key, old)?;
            }
        } else {
            let base = &mut self.tables;
            let tree = &mut base.tables[table].indexes[0];
            let (memory, lines) = (base.lane.memory(), &mut base.lines);
            by_form!(&key, key => tree_mut(tree, key).replace_if(memory, key, new, old, lines))?;
        }
        let mut slots = Vec::new();
        owned_apart(self.memory(), self.layout(table), new, old, |slot, _| slots.push(slot))?;
        for slot in &slots {
            self.tables.lane.clear_persisted(*slot, &mut self.tables.lines)?;
        }
        freed.append(&mut slots);
        Ok(())
    }

    /// The primary key of a replacement and, for each secondary index, its tuple's key before and
    /// after it; `None` if what the log entry speaks of had not persisted.
    #[expect(clippy::type_complexity, reason = "a key, and a list of keys before and after")]
    fn moves(
        &self,
        table: usize,
        entry: &UndoEntry,
    ) -> Result<Option<(TableKey, Vec<(Option<TableKey>, Option<TableKey>)>)>, StorageError> {
        let (memory, layout) = (self.memory(), self.layout(table));
        let (old, new) = entry.replaced();
        let checksums = entry.replacement_checksums();
        let mut found = [0u32; 2];
        if new != 0 && new != crate::runs::entry::TOMBSTONE {
            let Ok(fields) = Fields::of(memory, layout, Entry::decode(new)?) else {
                return Ok(None);
            };
            found[0] = fields.checksum(layout);
            if found[0] != checksums as u32 {
                return Ok(None);
            }
        }
        let key = match key_of_entry(memory, layout, Entry::decode(entry.tuple())?) {
            Ok(key) => key,
            // A key column that had not persisted.
            Err(Bad::Damaged { what: "field length", .. }) if entry.tuple() == new => {
                return Ok(None);
            }
            Err(bad) => return Err(bad.into()),
        };
        if layout.secondary.is_empty() {
            return Ok(Some((key, Vec::new())));
        }
        let before = by_form!(&key, key => self.secondary_keys(table, key, old))?;
        let after = match by_form!(&key, key => self.secondary_keys(table, key, new)) {
            Err(Bad::Damaged { what: "field length", .. }) => return Ok(None),
            after => after?,
        };
        let moves: Vec<_> = before.into_iter().zip(after).collect();
        for (before, after) in &moves {
            if let (true, Some(after)) = (before != after, after) {
                found[1] = add_key(found[1], after);
            }
        }
        let unchanged = new == crate::runs::entry::TOMBSTONE || new == 0;
        Ok((unchanged || joined(found) == checksums).then_some((key, moves)))
    }

    /// The keys in the secondary indexes of the tuple of which the MemTable says `newest`.
    pub(crate) fn secondary_keys<K: RunKey>(
        &self,
        table: usize,
        key: &K,
        newest: u64,
    ) -> Result<Vec<Option<TableKey>>, Bad> {
        let layout = self.layout(table);
        let wanted: ColumnSet = indexed_columns(layout);
        let mut words = Vec::new();
        let exists = if newest == 0 {
            let found = self.newest(table, key, 1)?;
            self.collect(table, key, found, &wanted, &mut words)?
        } else {
            // Not by the tree, which may say one thing or the other.
            words.resize(layout.forms.len(), 0);
            let mut tuple = Coalescing::new(wanted);
            take_words(self.memory(), layout, newest, &mut tuple, &mut words)?;
            let mut from = 1;
            while !tuple.is_complete() {
                let Some(Found { source, value }) = self.newest(table, key, from)? else { break };
                take_words(self.memory(), layout, value, &mut tuple, &mut words)?;
                from = source + 1;
            }
            let damaged = Bad::Damaged { what: "entries of a tuple", at: newest };
            tuple.finish().map_err(|_| damaged)?
        };
        layout
            .secondary
            .iter()
            .map(|index| {
                let word = |column: u16| Ok(words[usize::from(column)]);
                exists.then(|| key_of_words(self.memory(), layout, index, word)).transpose()
            })
            .collect()
    }

    /// The slots that the end of a committed transaction frees, from its log entries. What the next
    /// transaction did has been undone before: it may have stored into the same entries.
    ///
    /// # Errors
    /// Damage.
    pub fn superseded_by(&self, entries: &[UndoEntry]) -> Result<Vec<u64>, StorageError> {
        let mut slots = Vec::new();
        for entry in entries {
            let table = usize::from(entry.table());
            if table >= self.tables.tables.len() {
                return Err(damaged(entry.tuple()));
            }
            let layout = self.layout(table);
            match entry.kind() {
                Some(UndoKind::Replace) => {
                    let (old, new) = entry.replaced();
                    owned_apart(self.memory(), layout, old, new, |slot, _| slots.push(slot))?;
                }
                Some(UndoKind::Update) => {
                    for field in entry.fields() {
                        let form = layout.forms.get(usize::from(field.column));
                        let form = form.ok_or_else(|| damaged(entry.tuple()))?;
                        slots.extend(owned_slot(*form, field.old));
                    }
                }
                _ => return Err(damaged(entry.tuple())),
            }
        }
        Ok(slots)
    }
}
