//! Inserts, updates and deletes in two halves; see the table in the parent module.

use std::sync::atomic::Ordering::Acquire;

use heap::{Lane, Purpose};
use index::{IndexError, LeafLayout, Prepared};
use pm::{Bad, Component, Durable, Flushed, LineSet, Memory, Off, Range, fence_for, observe};
use zerocopy::IntoBytes;

use super::{
    Image, NewFields, NewTuple, Table, TableIndex, Tables, key_of_words, prepare_entry,
    prepare_for_words, publish_entry,
};
use crate::error::StorageError;
use crate::logs::undo_entry::NewField;
use crate::rows::key::TableKey;
use crate::rows::value::Value;
use crate::table::slots::SlotLayout;
use crate::table::tuple::put_inlined;
use crate::table::words::FieldForm;
use crate::table::words::{field_at, object_bytes, owned_slot, short_word, slot_word};

impl<M: Memory, L: LeafLayout> Tables<M, L> {
    /// First half of an insert: writes the tuple and its index entries to places that no reader
    /// sees.
    ///
    /// # Errors
    /// Wrong values, a duplicate key, or no room; nothing has changed then.
    #[track_caller]
    pub fn write_tuple(
        &mut self,
        table: u16,
        values: &[Value<'_>],
    ) -> Result<NewTuple, StorageError> {
        self.fence_removals(table, None);
        let Self { lane, tables, lines, words, prepared, .. } = self;
        let Table { layout, indexes } = &mut tables[usize::from(table)];
        layout.check_tuple(values)?;
        words.clear();
        let written = write_words(lane, lines, layout, values, words);
        let offset = match written {
            Ok(offset) => offset,
            Err(error) => {
                release_words(lane, layout, words);
                lines.clear();
                return Err(error);
            }
        };
        let tuple = NewTuple { table, offset, checksum: crc32c::crc32c(words.as_bytes()) };
        prepared.clear();
        for (index, tree) in indexes.iter_mut().enumerate() {
            match prepare_for_words(lane, lines, layout, (index, tree), words, offset) {
                Ok(entry) => prepared.push((index as u16, entry)),
                Err(error) => {
                    self.give_back_tuple(tuple);
                    return Err(error);
                }
            }
        }
        Ok(tuple)
    }

    /// An index entry that is about to be written may take the place of one that was removed in
    /// the same transaction. Until that removal is durable, a crash brings the removed entry back
    /// with what stands in its place: then a fence comes first. `columns` are those that change;
    /// without an indexed one among them no entry is written.
    #[inline]
    #[track_caller]
    pub(crate) fn fence_removals(&mut self, table: u16, columns: Option<&[(u16, Value<'_>)]>) {
        if self.unsettled {
            let indexed = &self.tables[usize::from(table)].layout.indexed;
            let writes = |columns: &[(u16, Value<'_>)]| {
                columns.iter().any(|(column, _)| indexed[usize::from(*column)])
            };
            if columns.is_none_or(writes) {
                self.unsettled = false;
                self.lines.flush(self.lane.memory());
                self.lane.memory().fence();
            }
        }
    }

    /// Gives a tuple back that was written and will not be published.
    #[expect(clippy::needless_pass_by_value, reason = "the tuple is used up")]
    pub fn give_back_tuple(&mut self, tuple: NewTuple) {
        let Self { lane, tables, lines, words, .. } = self;
        release_words(lane, &tables[usize::from(tuple.table)].layout, words);
        lane.release(tuple.offset);
        lines.clear();
        self.prepared.clear();
    }

    /// Second half of an insert, step one: the tuple and its fields become persisted.
    #[track_caller]
    pub fn mark_tuple(&mut self, tuple: &Durable<NewTuple>) {
        self.unsettled = false;
        let NewTuple { table, offset, .. } = *tuple.get();
        let Self { lane, tables, lines, words, .. } = self;
        observe!(M: lane.memory().enter(Component::Storage));
        for (form, word) in tables[usize::from(table)].layout.forms.iter().zip(&*words) {
            if let Some(slot) = owned_slot(*form, *word) {
                lane.mark_persisted(slot, lines);
            }
        }
        lane.mark_persisted(offset, lines);
    }

    /// Second half of an insert, step two: the tuple becomes visible in its indexes.
    ///
    /// # Errors
    /// Damage.
    #[track_caller]
    pub fn publish_tuple(&mut self, tuple: Durable<NewTuple>) -> Result<(), Bad> {
        let table = tuple.get().table;
        let entries = tuple.vouch_for(std::mem::take(&mut self.prepared));
        self.publish_entries(table, entries)
    }

    #[track_caller]
    pub(crate) fn publish_entries(
        &mut self,
        table: u16,
        mut entries: Durable<Vec<(u16, Prepared)>>,
    ) -> Result<(), Bad> {
        let Self { lane, tables, lines, .. } = self;
        for entry in entries.drain() {
            let tree = &mut tables[usize::from(table)].indexes[usize::from(entry.get().0)];
            publish_entry(tree, lane.memory(), entry.part(|entry| entry.1), lines)?;
        }
        self.prepared = entries.into_inner();
        Ok(())
    }

    /// First half of an update: writes the new values, and new index entries where an indexed
    /// column changes, to places that no reader sees. They are in [`Self::fields`]. For an inlined
    /// column it writes an image, that of `image`, for the log entry to lead to.
    ///
    /// # Errors
    /// Wrong values, no such tuple, or no room; nothing has changed then.
    #[track_caller]
    pub fn write_fields(
        &mut self,
        table: u16,
        tuple: u64,
        changes: &[(u16, Value<'_>)],
        image: Image,
    ) -> Result<NewFields, StorageError> {
        let layout = &self.tables[usize::from(table)].layout;
        layout.check_changes(changes)?;
        self.fence_removals(table, Some(changes));
        observe!(M: self.lane.memory().enter(Component::Storage));
        self.fields.clear();
        self.outdated.clear();
        self.prepared.clear();
        let new = NewFields { table, tuple, images: self.images.len() };
        let mut indexed = false;
        for (column, value) in changes {
            let layout = &self.tables[usize::from(table)].layout;
            if layout.forms[usize::from(*column)] == FieldForm::Inline {
                match self.write_image((table, tuple), *column, value, image) {
                    Ok(field) => self.fields.push(field),
                    Err(error) => {
                        self.give_back_fields(new);
                        return Err(error);
                    }
                }
                continue;
            }
            let Self { lane, tables, lines, fields, .. } = self;
            let layout = &tables[usize::from(table)].layout;
            indexed |= layout.indexed[usize::from(*column)];
            // The same column twice: the later value replaces the earlier one.
            let earlier = fields.iter().rev().find(|field| field.column == *column);
            let field = match earlier {
                Some(earlier) => Ok(earlier.new),
                None => lane.memory().load(field_at(tuple, *column), Acquire),
            }
            .map_err(StorageError::from)
            .and_then(|old| {
                let form = layout.forms[usize::from(*column)];
                let new = write_value(lane, lines, form, value)?;
                Ok(NewField { column: *column, old, new })
            });
            match field {
                Ok(field) => fields.push(field),
                Err(error) => {
                    self.give_back_fields(new);
                    return Err(error);
                }
            }
        }
        if indexed && let Err(error) = self.prepare_changed_entries(&new) {
            self.give_back_fields(new);
            return Err(error);
        }
        Ok(new)
    }

    /// Prepares the index entries that the update in `self.fields` makes necessary.
    fn prepare_changed_entries(&mut self, fields: &NewFields) -> Result<(), StorageError> {
        let layout = self.tables[usize::from(fields.table)].layout.clone();
        for index in 0..layout.secondary.len() {
            let (old, new) = self.keys_around(&layout, index, fields.tuple, &self.fields)?;
            if old != new {
                let Self { lane, tables, lines, .. } = self;
                let tree = &mut tables[usize::from(fields.table)].indexes[index + 1];
                let entry = prepare_entry(lane, lines, &layout, tree, &new, fields.tuple)?;
                self.prepared.push((index as u16 + 1, entry));
                self.outdated.push((index as u16 + 1, old));
            }
        }
        Ok(())
    }

    /// The keys of a secondary index before and after a change of fields.
    fn keys_around(
        &self,
        layout: &SlotLayout,
        index: usize,
        tuple: u64,
        fields: &[NewField],
    ) -> Result<(TableKey, TableKey), Bad> {
        let memory = self.lane.memory();
        let key = |after: bool| {
            key_of_words(memory, layout, &layout.secondary[index], |column| {
                let mut changes = fields.iter().filter(|field| field.column == column);
                let word = if after {
                    changes.next_back().map(|field| field.new)
                } else {
                    changes.next().map(|field| field.old)
                };
                word.map_or_else(|| self.field(tuple, column), Ok)
            })
        };
        Ok((key(false)?, key(true)?))
    }

    /// Gives new values back that will not be put in place.
    #[expect(clippy::needless_pass_by_value, reason = "the fields are used up")]
    pub fn give_back_fields(&mut self, new: NewFields) {
        let layout = &self.tables[usize::from(new.table)].layout;
        while let Some(field) = self.fields.pop() {
            if let Some(slot) = owned_slot(layout.forms[usize::from(field.column)], field.new) {
                self.lane.release(slot);
            }
        }
        self.give_back_images(new.images);
        self.prepared.clear();
        self.outdated.clear();
        self.lines.clear();
    }

    /// Second half of an update: new values become persisted, stand in the tuple, and the indexes
    /// follow. The slots of the old values are in [`Self::superseded`]. `changes` are those of the
    /// first half.
    ///
    /// # Errors
    /// Damage.
    #[track_caller]
    pub fn replace_fields(
        &mut self,
        new: Durable<NewFields>,
        changes: &[(u16, Value<'_>)],
    ) -> Result<(), Bad> {
        self.unsettled = false;
        let NewFields { table, tuple, .. } = *new.get();
        let Self { lane, tables, lines, fields, superseded, .. } = self;
        let layout = &tables[usize::from(table)].layout;
        observe!(M: lane.memory().enter(Component::Storage));
        for (field, (column, value)) in fields.iter().zip(changes) {
            let form = layout.forms[usize::from(field.column)];
            if form == FieldForm::Inline {
                let bytes = value.as_bytes().unwrap_or_default();
                put_inlined(lane.memory(), lines, layout, (tuple, *column), bytes)?;
                continue;
            }
            if let Some(slot) = owned_slot(form, field.new) {
                lane.mark_persisted(slot, lines);
            }
            superseded.extend(owned_slot(form, field.old));
            let at = field_at(tuple, field.column);
            lane.memory().store(at, field.new);
            lines.add(at.range());
        }
        if self.prepared.is_empty() {
            return Ok(());
        }
        let entries = new.vouch_for(std::mem::take(&mut self.prepared));
        self.publish_entries(table, entries)?;
        while let Some((index, key)) = self.outdated.pop() {
            self.remove_entry(table, index, &key, tuple)?;
        }
        Ok(())
    }

    /// Second half of a delete: the tuple leaves its indexes. Its slots are in
    /// [`Self::superseded`].
    ///
    /// # Errors
    /// Damage.
    #[track_caller]
    pub fn unlink(&mut self, table: u16, tuple: u64) -> Result<(), Bad> {
        for index in 0..self.tables[usize::from(table)].indexes.len() {
            let key = self.key_of_tuple(table, index, tuple)?;
            self.remove_entry(table, index as u16, &key, tuple)?;
        }
        let mut superseded = std::mem::take(&mut self.superseded);
        let result = self.slots_of_tuple(table, tuple, &mut superseded);
        self.superseded = superseded;
        result
    }

    /// Adds the tuple's slot and those of its fields to `slots`.
    pub(crate) fn slots_of_tuple(
        &self,
        table: u16,
        tuple: u64,
        slots: &mut Vec<u64>,
    ) -> Result<(), Bad> {
        let layout = &self.tables[usize::from(table)].layout;
        observe!(M: self.lane.memory().enter(Component::Storage));
        for (column, form) in layout.forms.iter().enumerate() {
            if *form == FieldForm::Slot {
                slots.extend(owned_slot(*form, self.field(tuple, column as u16)?));
            }
        }
        slots.push(tuple);
        Ok(())
    }

    #[track_caller]
    pub(crate) fn remove_entry(
        &mut self,
        table: u16,
        index: u16,
        key: &TableKey,
        tuple: u64,
    ) -> Result<(), Bad> {
        let Self { lane, tables, lines, .. } = self;
        let tree = &mut tables[usize::from(table)].indexes[usize::from(index)];
        let removed = match (tree, key) {
            (TableIndex::Narrow(tree), TableKey::Narrow(key)) => {
                tree.remove(lane.memory(), key, tuple, lines)?
            }
            (TableIndex::Wide(tree), TableKey::Wide(key)) => {
                tree.remove(lane.memory(), key, tuple, lines)?
            }
            (TableIndex::Long(tree), TableKey::Long(key)) => {
                tree.remove(lane.memory(), key, tuple, lines)?
            }
            _ => unreachable!("a key has the form of its index"),
        };
        if removed {
            self.removed.push((table, index, key.clone()));
            self.unsettled = true;
        }
        Ok(())
    }

    /// Puts an index entry back that undo needs. Fences before. Never needs a new node: see the
    /// module comment of [`index::BTree`].
    #[track_caller]
    pub(crate) fn restore_entry(
        &mut self,
        table: u16,
        index: usize,
        key: &TableKey,
        tuple: u64,
    ) -> Result<(), StorageError> {
        let Self { lane, tables, lines, .. } = self;
        let Table { layout, indexes } = &mut tables[usize::from(table)];
        match (&indexes[index], key) {
            (TableIndex::Narrow(tree), TableKey::Narrow(key)) => {
                tree.add_leaf_lines(lane.memory(), key, lines)?;
            }
            (TableIndex::Wide(tree), TableKey::Wide(key)) => {
                tree.add_leaf_lines(lane.memory(), key, lines)?;
            }
            (TableIndex::Long(tree), TableKey::Long(key)) => {
                tree.add_leaf_lines(lane.memory(), key, lines)?;
            }
            _ => unreachable!("a key has the form of its index"),
        }
        // Places in the leaf may be free by removals that are not durable, this process's or those
        // of one that was killed: a crash would bring the entries back with half of this one.
        lines.flush(lane.memory());
        lane.memory().fence();
        self.unsettled = false;
        match prepare_entry(lane, lines, layout, &mut indexes[index], key, tuple) {
            Err(StorageError::DuplicateKey { .. }) => Ok(()),
            Err(error) => Err(error),
            Ok(entry) => {
                let memory = self.lane.memory();
                let entry = Flushed::lines(memory, &mut self.lines, vec![(index as u16, entry)]);
                let entry = fence_for(memory, entry);
                Ok(self.publish_entries(table, entry)?)
            }
        }
    }

    /// The key of a stored tuple in index `index` (0 is the primary one).
    pub(crate) fn key_of_tuple(
        &self,
        table: u16,
        index: usize,
        tuple: u64,
    ) -> Result<TableKey, Bad> {
        let table = &self.tables[usize::from(table)];
        key_of_words(self.lane.memory(), &table.layout, table.layout.key_layout(index), |column| {
            self.field(tuple, column)
        })
    }

    /// The keys of a secondary index before and after the change that a log entry describes.
    pub(crate) fn logged_keys(
        &self,
        table: u16,
        index: usize,
        tuple: u64,
        fields: &[NewField],
    ) -> Result<(TableKey, TableKey), Bad> {
        self.keys_around(&self.tables[usize::from(table)].layout, index, tuple, fields)
    }

    /// Gives space back in the indexes where entries were removed, after a commit or an abort. It
    /// makes its own fences.
    ///
    /// # Errors
    /// Damage. A lack of room is none: the next removal nearby tries again.
    pub fn tidy_indexes(&mut self) -> Result<(), StorageError> {
        self.unsettled = false;
        while let Some((table, index, key)) = self.removed.pop() {
            let tree = &mut self.tables[usize::from(table)].indexes[usize::from(index)];
            let result = match (tree, &key) {
                (TableIndex::Narrow(tree), TableKey::Narrow(key)) => tree.tidy(&mut self.lane, key),
                (TableIndex::Wide(tree), TableKey::Wide(key)) => tree.tidy(&mut self.lane, key),
                (TableIndex::Long(tree), TableKey::Long(key)) => tree.tidy(&mut self.lane, key),
                _ => unreachable!("a key has the form of its index"),
            };
            match result {
                Ok(()) | Err(IndexError::Heap(heap::HeapError::Full(_))) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Forgets the slots that the open transaction had superseded, all but so many, after a part of
    /// it was undone.
    pub fn forget_superseded(&mut self, kept: usize) {
        self.superseded.truncate(kept);
        self.unsettled = false;
        self.lines.clear();
    }

    /// Forgets what the transaction had collected, after an abort; but not where index entries were
    /// removed: the next [`Self::tidy_indexes`] needs to know.
    pub fn forget(&mut self) {
        self.unsettled = false;
        self.superseded.clear();
        self.lines.clear();
    }
}

/// Writes a tuple's fields and its words, which are in `words` then; returns where the tuple lies.
/// If it fails, the slots that `words` own are the caller's to release.
pub(crate) fn write_words<M: Memory>(
    lane: &mut Lane<M>,
    lines: &mut LineSet,
    layout: &SlotLayout,
    values: &[Value<'_>],
    words: &mut Vec<u64>,
) -> Result<u64, StorageError> {
    observe!(M: lane.memory().enter(Component::Storage));
    let offset = if layout.inlines() {
        let offset = lane.allocate(layout.tuple_bytes(), Purpose::Table)?;
        if let Err(error) = write_inlining(lane, lines, layout, offset, values, words) {
            lane.release(offset);
            return Err(error);
        }
        offset
    } else {
        for (form, value) in layout.forms.iter().zip(values) {
            words.push(write_value(lane, lines, *form, value)?);
        }
        lane.allocate(layout.tuple_bytes(), Purpose::Table)?
    };
    let bytes = words.as_bytes();
    lane.memory().copy(Off::new(offset), bytes);
    lines.add(Range::new(offset, bytes.len() as u64));
    Ok(offset)
}

/// Writes the fields of a tuple that has inlined ones and lies at `tuple`.
fn write_inlining<M: Memory>(
    lane: &mut Lane<M>,
    lines: &mut LineSet,
    layout: &SlotLayout,
    tuple: u64,
    values: &[Value<'_>],
    words: &mut Vec<u64>,
) -> Result<(), StorageError> {
    for (column, value) in values.iter().enumerate() {
        let word = match (layout.forms[column], value.as_bytes()) {
            (FieldForm::Inline, Some(bytes)) if !bytes.is_empty() => {
                let place = layout.place(tuple, column as u16);
                lane.memory().copy(Off::new(place.start), bytes);
                lines.add(Range::new(place.start, bytes.len() as u64));
                slot_word(place.start, bytes.len() as u64)
            }
            (form, _) => write_value(lane, lines, form, value)?,
        };
        words.push(word);
    }
    Ok(())
}

/// Writes what of a value does not fit into its field's word, and returns the word.
#[inline]
pub(crate) fn write_value<M: Memory>(
    lane: &mut Lane<M>,
    lines: &mut LineSet,
    form: FieldForm,
    value: &Value<'_>,
) -> Result<u64, StorageError> {
    if let Some(word) = value.as_word() {
        return Ok(word);
    }
    let Some(bytes) = value.as_bytes() else { return Ok(0) };
    if form == FieldForm::Short {
        return Ok(short_word(bytes));
    }
    write_slot(lane, lines, bytes, Purpose::Table)
}

/// Writes bytes into a slot of their own, and returns its word: zero if there are none.
#[inline]
#[track_caller]
pub(super) fn write_slot<M: Memory>(
    lane: &mut Lane<M>,
    lines: &mut LineSet,
    bytes: &[u8],
    purpose: Purpose,
) -> Result<u64, StorageError> {
    if bytes.is_empty() {
        return Ok(0);
    }
    let slot = lane.allocate(object_bytes(bytes.len() as u64), purpose)?;
    lane.memory().copy(Off::new(slot), bytes);
    lines.add(Range::new(slot, bytes.len() as u64));
    Ok(slot_word(slot, bytes.len() as u64))
}

/// Gives the slots back that these words own.
pub(crate) fn release_words<M: Memory>(lane: &mut Lane<M>, layout: &SlotLayout, words: &[u64]) {
    for (form, word) in layout.forms.iter().zip(words) {
        if let Some(slot) = owned_slot(*form, *word) {
            lane.release(slot);
        }
    }
}
