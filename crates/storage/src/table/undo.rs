//! Undoing operations: shared by abort and recovery, by volatile and non-volatile tables.
//!
//! Operations are undone newest first (P1 4.1: an insert leaves its indexes, then its space is
//! released; an update gets its old fields back; a delete gets its index entries back). Every step
//! can be repeated after a crash in the middle: index entries are removed only if they lead to the
//! tuple in question, restored only if they are gone, fields are set to fixed values, and freeing
//! clears a bit.
//!
//! An operation that is undone is taken out of the log, durably, before the next older one is
//! undone: index keys are made of logged and of stored fields, and would come out wrong if an
//! operation were undone again after an older one has been.

use std::sync::atomic::Ordering::Acquire;

use pm::{Bad, Memory, Off};

use index::LeafLayout;

use crate::error::StorageError;
use crate::logs::undo_entry::NewField;
use crate::logs::undo_entry::{UndoEntry, UndoKind};
use crate::table::Tables;
use crate::table::words::FieldForm;
use crate::table::words::{field_at, owned_slot};

/// The operations of a transaction, newest first: of each the number of its first entry, its
/// entries, and the last of them. An update of many fields has several, which are undone as one.
pub(crate) fn newest_first(
    entries: &[UndoEntry],
) -> impl Iterator<Item = (usize, &[UndoEntry], &UndoEntry)> {
    let mut rest = entries;
    std::iter::from_fn(move || {
        let last = rest.last()?;
        let first = rest.iter().rposition(|entry| !entry.continues()).unwrap_or(0);
        let (before, operation) = rest.split_at(first);
        rest = before;
        Some((first, operation, last))
    })
}

impl<M: Memory, L: LeafLayout> Tables<M, L> {
    /// Undoes the operations of a transaction, whose entries are given oldest first. The slots
    /// that become free are added to `freed`; they may be released once the end of the
    /// transaction is durable. After each operation, which is durably undone then, `retract` takes
    /// the entries from its number on out of the log. Returns how many operations were undone.
    ///
    /// # Errors
    /// Damage.
    #[track_caller]
    pub fn undo(
        &mut self,
        entries: &[UndoEntry],
        freed: &mut Vec<u64>,
        mut retract: impl FnMut(usize),
    ) -> Result<u64, StorageError> {
        let mut undone = 0;
        let mut fields: Vec<NewField> = Vec::new();
        for (first, operation, last) in newest_first(entries) {
            undone += 1;
            self.undo_operation(operation, last, &mut fields, freed)?;
            self.lines.flush(self.lane.memory());
            self.lane.memory().fence();
            retract(first);
        }
        Ok(undone)
    }

    /// Acts as [`Self::undo`], past damage: for salvaging. What cannot be undone stays, except a
    /// tuple that was inserted.
    pub fn undo_what_can_be(&mut self, entries: &[UndoEntry]) -> u64 {
        let (mut undone, mut fields, mut freed) = (0, Vec::new(), Vec::new());
        for (_, operation, last) in newest_first(entries) {
            undone += 1;
            let done = self.undo_operation(operation, last, &mut fields, &mut freed);
            let (table, tuple) = (last.table(), last.tuple());
            let known = usize::from(table) < self.tables.len();
            if done.is_err() && last.kind() == Some(UndoKind::Insert) && known {
                let _ = self.undo_lost_insert((table, tuple), &mut freed);
            }
            self.lines.flush(self.lane.memory());
        }
        undone
    }

    #[inline]
    #[track_caller]
    fn undo_operation(
        &mut self,
        operation: &[UndoEntry],
        last: &UndoEntry,
        fields: &mut Vec<NewField>,
        freed: &mut Vec<u64>,
    ) -> Result<(), StorageError> {
        let (table, tuple) = (last.table(), last.tuple());
        if usize::from(table) >= self.tables.len() {
            return Err(Bad::Damaged { what: "log entry", at: tuple }.into());
        }
        match last.kind() {
            Some(UndoKind::Insert) => self.undo_insert(last, freed)?,
            Some(UndoKind::Update) => {
                fields.clear();
                fields.extend(operation.iter().flat_map(UndoEntry::fields));
                self.undo_update((table, tuple), fields, freed)?;
            }
            Some(UndoKind::Delete) => {
                for index in 0..=self.layout(table).secondary.len() {
                    let key = self.key_of_tuple(table, index, tuple)?;
                    self.restore_entry(table, index, &key, tuple)?;
                }
            }
            Some(UndoKind::Replace) | None => {
                return Err(Bad::Damaged { what: "log entry", at: tuple }.into());
            }
        }
        Ok(())
    }

    #[track_caller]
    fn undo_insert(&mut self, entry: &UndoEntry, freed: &mut Vec<u64>) -> Result<(), StorageError> {
        let (table, tuple) = (entry.table(), entry.tuple());
        let mut words = vec![0u8; self.layout(table).words_bytes() as usize];
        self.memory().read_into(Off::new(tuple), &mut words)?;
        if crc32c::crc32c(&words) != entry.tuple_checksum() {
            // The tuple had not persisted when its log entry had: it was not used yet, and its
            // words lead nowhere that concerns us. Its bit is set after their fence.
            return match self.lane.heap().is_persisted(tuple)? {
                // Nothing has arrived, but for what was stored later.
                true if words.iter().all(|byte| *byte == 0) => {
                    self.undo_lost_insert((table, tuple), freed)
                }
                true => Err(Bad::Damaged { what: "inserted tuple", at: tuple }.into()),
                false => Ok(()),
            };
        }
        for index in 0..=self.layout(table).secondary.len() {
            if self.key_is_lost(table, index, tuple)? {
                self.remove_entries_of(table, index, tuple)?;
                continue;
            }
            match self.key_of_tuple(table, index, tuple) {
                Ok(key) => self.remove_entry(table, index as u16, &key, tuple)?,
                // A key column that had not persisted: then no index has the tuple either.
                Err(Bad::Damaged { what: "field length", .. }) => {}
                Err(bad) => return Err(bad.into()),
            }
        }
        let mut slots = Vec::new();
        self.slots_of_tuple(table, tuple, &mut slots)?;
        for slot in &slots {
            self.lane.clear_persisted(*slot, &mut self.lines)?;
        }
        freed.append(&mut slots);
        Ok(())
    }

    #[track_caller]
    fn undo_update(
        &mut self,
        (table, tuple): (u16, u64),
        fields: &[NewField],
        freed: &mut Vec<u64>,
    ) -> Result<(), StorageError> {
        let layout = self.layout(table).clone();
        if fields.iter().any(|field| usize::from(field.column) >= layout.forms.len()) {
            return Err(Bad::Damaged { what: "log entry", at: tuple }.into());
        }
        let mut restore = Vec::new();
        for index in 0..layout.secondary.len() {
            let key = &layout.secondary[index];
            if fields.iter().any(|field| key.has(field.column)) {
                let (old, new) = self.logged_keys(table, index, tuple, fields)?;
                if old != new {
                    self.remove_entry(table, index as u16 + 1, &new, tuple)?;
                    restore.push((index + 1, old));
                }
            }
        }
        for field in fields.iter().rev() {
            let form = layout.forms[usize::from(field.column)];
            if form == FieldForm::Inline {
                let place = (tuple, field.column);
                self.restore_image(&layout, place, field.old, field.new as u32)?;
                continue;
            }
            let at = field_at(tuple, field.column);
            // The place comes from the log.
            self.memory().load(at, Acquire)?;
            self.memory().store(at, field.old);
            self.lines.add(at.range());
            if let Some(slot) = owned_slot(form, field.new) {
                self.lane.clear_persisted(slot, &mut self.lines)?;
                freed.push(slot);
            }
        }
        for (index, key) in restore {
            self.restore_entry(table, index, &key, tuple)?;
        }
        Ok(())
    }

    /// The slots that the end of a committed transaction frees, from its log entries.
    ///
    /// # Errors
    /// Damage.
    pub fn superseded_by(&self, entries: &[UndoEntry]) -> Result<Vec<u64>, StorageError> {
        let mut slots = Vec::new();
        for entry in entries {
            let table = entry.table();
            let damaged = Bad::Damaged { what: "log entry", at: entry.tuple() };
            if usize::from(table) >= self.tables.len() {
                return Err(damaged.into());
            }
            let layout = self.layout(table);
            match entry.kind() {
                Some(UndoKind::Insert) => {}
                Some(UndoKind::Update) => {
                    for field in entry.fields() {
                        let form = layout.forms.get(usize::from(field.column)).ok_or(damaged)?;
                        slots.extend(owned_slot(*form, field.old));
                    }
                }
                Some(UndoKind::Delete) => self.slots_of_tuple(table, entry.tuple(), &mut slots)?,
                Some(UndoKind::Replace) | None => return Err(damaged.into()),
            }
        }
        Ok(slots)
    }
}
