//! The table heap and its indexes: what engines with in-place updates share (P1 3.1, 4.1).
//!
//! Every change comes in two halves, so that an engine can put its log between them:
//!
//! | operation | before the log entry is durable | after |
//! |---|---|---|
//! | insert | [`Tables::write_tuple`]: allocate and fill slots, prepare index entries | [`Tables::publish_tuple`] |
//! | update | [`Tables::write_fields`]: fill new slots, prepare index entries | [`Tables::replace_fields`] |
//! | delete | [`Tables::find`] | [`Tables::unlink`] |
//!
//! The first half changes nothing that a reader or a recovery could see: dropping it leaves only
//! slots that are allocated and not persisted. All stores of a half go into [`Tables::lines`],
//! which the engine flushes when the half is complete.
//!
//! What a transaction has replaced or deleted is collected; the engine frees it once the
//! transaction is durable.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;

use heap::{Lane, Purpose};
use index::{BTree, Direction, IndexError, LeafLayout, Prepared, TreeUse, WideKey};
use pm::{Bad, Durable, Flushed, LineSet, Memory, Off, Range, fence_for};
use zerocopy::IntoBytes;

use crate::error::StorageError;
use crate::key::{
    TableKey, check_value, encode_key, encode_range, key_of_fields, narrow_key, ordered_field,
};
use crate::schema::{Catalog, FieldForm, KeyLayout, TableLayout};
use crate::tuple::{
    field_at, owned_slot, read_tuple, read_tuple_bytes, short_bytes, short_word, slot_range,
    slot_word,
};
use crate::value::{Row, Value};

/// An index of a table, with the fast path for keys of one number.
#[derive(Debug)]
pub(crate) enum TableIndex<L> {
    Narrow(BTree<u64, L>),
    Wide(BTree<WideKey, L>),
}

impl<L: LeafLayout> TableIndex<L> {
    /// The index whose root pointer lives at `cell`. Reads nothing.
    pub(crate) fn open(cell: Off<u64>, key: &KeyLayout) -> Self {
        if key.narrow {
            Self::Narrow(BTree::open(cell, key.shape))
        } else {
            Self::Wide(BTree::open(cell, key.shape))
        }
    }
}

#[derive(Debug)]
pub(crate) struct Table<L> {
    pub(crate) layout: Arc<TableLayout>,
    /// The primary index, then the secondary ones.
    pub(crate) indexes: Vec<TableIndex<L>>,
}

/// The layout of an index's keys; index 0 is the primary one.
pub(crate) fn key_layout(layout: &TableLayout, index: usize) -> &KeyLayout {
    if index == 0 { &layout.primary } else { &layout.secondary[index - 1] }
}

/// A tuple that is written but that nobody can see yet. Owns its slots until it is published or
/// given back.
#[derive(Debug)]
#[must_use = "a tuple that is written must be published or given back"]
pub struct NewTuple {
    /// The table's number.
    pub table: u16,
    /// Where the tuple lies.
    pub offset: u64,
    /// Checksum of its words; a log entry carries it.
    pub image: u32,
}

/// A field whose new value is written but not in place yet.
#[derive(Clone, Copy, Debug)]
pub struct NewField {
    /// The column's number.
    pub column: u16,
    /// The word that stands in the tuple.
    pub old: u64,
    /// The word that will stand there.
    pub new: u64,
}

/// New values of some fields of one tuple; see [`Tables::write_fields`].
#[derive(Debug)]
#[must_use = "new fields must be put in place or given back"]
pub struct NewFields {
    /// The table's number.
    pub table: u16,
    /// Where the tuple lies.
    pub tuple: u64,
}

/// All tables of a partition in one memory, with their allocator.
#[derive(Debug)]
pub struct Tables<M: Memory, L> {
    /// The partition's allocator.
    pub lane: Lane<M>,
    pub(crate) tables: Vec<Table<L>>,
    /// Lines that have been stored to and must be flushed before the next fence.
    pub lines: LineSet,
    /// The fields of the update that is being prepared.
    pub fields: Vec<NewField>,
    /// Index entries of the operation that is being prepared, which do not count yet. Here and
    /// not in what the first half returns: a value that is moved right behind a fence is waited
    /// for until the fence is done.
    pub(crate) prepared: Vec<(u16, Prepared)>,
    /// Index entries that the update in preparation replaces: index, old key.
    pub(crate) outdated: Vec<(u16, TableKey)>,
    /// Slots that the open transaction has replaced or deleted.
    pub superseded: Vec<u64>,
    /// Where the open transaction has removed index entries: table, index, key.
    pub(crate) removed: Vec<(u16, u16, TableKey)>,
    pub(crate) words: Vec<u64>,
    /// Index entries have been removed since the last fence: see [`Self::settle_removals`].
    pub(crate) unsettled: bool,
}

impl<M: Memory, L: LeafLayout> Tables<M, L> {
    /// Bytes of root pointers that the tables of `catalog` need.
    pub fn cell_bytes(catalog: &Catalog) -> u64 {
        catalog.index_count() as u64 * 8
    }

    /// Creates empty tables, whose root pointers will live at `cells`.
    ///
    /// # Errors
    /// The memory is full.
    pub fn create(lane: Lane<M>, catalog: &Catalog, cells: Off<u64>) -> Result<Self, StorageError> {
        let mut tables = Self::open(lane, catalog, cells);
        for (table, layout) in catalog.tables.iter().enumerate() {
            for index in 0..=layout.secondary.len() {
                tables.create_index(table as u16, index)?;
            }
        }
        Ok(tables)
    }

    /// Creates the empty tree of an index, which is there, durably, then.
    ///
    /// # Errors
    /// The memory is full; nothing has changed then.
    pub(crate) fn create_index(&mut self, table: u16, index: usize) -> Result<(), StorageError> {
        let Table { layout, indexes } = &mut self.tables[usize::from(table)];
        let shape = key_layout(layout, index).shape;
        match &mut indexes[index] {
            TableIndex::Narrow(tree) => {
                *tree = BTree::create(&mut self.lane, tree.root_cell(), shape)?;
            }
            TableIndex::Wide(tree) => {
                *tree = BTree::create(&mut self.lane, tree.root_cell(), shape)?;
            }
        }
        Ok(())
    }

    /// The tables whose root pointers live at `cells`. Reads nothing.
    pub fn open(lane: Lane<M>, catalog: &Catalog, cells: Off<u64>) -> Self {
        let mut cell = cells;
        Self::open_at(lane, catalog, |_, _| {
            let at = cell;
            cell = cell.plus(8);
            at
        })
    }

    /// The tables of which `cell` says where the root pointer of an index of a table lives; it is
    /// asked in order. Reads nothing.
    pub(crate) fn open_at(
        lane: Lane<M>,
        catalog: &Catalog,
        mut cell: impl FnMut(usize, usize) -> Off<u64>,
    ) -> Self {
        let tables = catalog
            .tables
            .iter()
            .map(|layout| Table {
                layout: layout.clone(),
                indexes: std::iter::once(&layout.primary)
                    .chain(&layout.secondary)
                    .enumerate()
                    .map(|(index, key)| {
                        TableIndex::open(cell(usize::from(layout.number), index), key)
                    })
                    .collect(),
            })
            .collect();
        Self {
            lane,
            tables,
            lines: LineSet::new(),
            fields: Vec::new(),
            prepared: Vec::new(),
            outdated: Vec::new(),
            superseded: Vec::new(),
            removed: Vec::new(),
            words: Vec::new(),
            unsettled: false,
        }
    }

    /// The memory under the tables.
    #[inline]
    pub fn memory(&self) -> &M {
        self.lane.memory()
    }

    /// The layout of table `table`.
    pub fn layout(&self, table: u16) -> &Arc<TableLayout> {
        &self.tables[usize::from(table)].layout
    }

    /// Where the tuple with this primary key lies.
    ///
    /// # Errors
    /// Wrong number, type or length of values; damage.
    #[inline]
    pub fn find(&self, table: u16, key: &[Value<'_>]) -> Result<Option<u64>, StorageError> {
        let Table { layout, indexes } = &self.tables[usize::from(table)];
        // Wide keys are large: the fast path must not even move one.
        if let (TableIndex::Narrow(tree), [value]) = (&indexes[0], key) {
            let key = narrow_key(layout, value)?;
            return Ok(tree.get(self.lane.memory(), &key)?);
        }
        self.find_wide(table, key)
    }

    #[inline(never)]
    fn find_wide(&self, table: u16, key: &[Value<'_>]) -> Result<Option<u64>, StorageError> {
        let Table { layout, indexes } = &self.tables[usize::from(table)];
        match (encode_key(&layout.schema, &layout.primary, key)?, &indexes[0]) {
            (TableKey::Wide(key), TableIndex::Wide(tree)) => {
                Ok(tree.get(self.lane.memory(), &key)?)
            }
            _ => unreachable!("a key has the form of its index"),
        }
    }

    /// As [`Self::find`], where a missing tuple is an error.
    ///
    /// # Errors
    /// No such tuple, and as [`Self::find`].
    #[inline]
    pub fn find_or_fail(&self, table: u16, key: &[Value<'_>]) -> Result<u64, StorageError> {
        match self.find(table, key)? {
            Some(tuple) => Ok(tuple),
            None => Err(self.missing(table)),
        }
    }

    #[cold]
    fn missing(&self, table: u16) -> StorageError {
        StorageError::MissingKey { table: self.layout(table).schema.name().into() }
    }

    /// Copies columns of a tuple one behind the other into `out`, numbers as eight little-endian
    /// bytes; returns how many bytes there are. If `out` is too short for them, nothing is copied.
    ///
    /// # Errors
    /// Damage.
    #[inline]
    pub fn read_bytes(
        &self,
        table: u16,
        tuple: u64,
        columns: &[u16],
        out: &mut [u8],
    ) -> Result<usize, Bad> {
        let layout = &self.tables[usize::from(table)].layout;
        read_tuple_bytes(self.lane.memory(), layout, tuple, columns, out)
    }

    /// Copies columns of a tuple, all of them if none are named, into `row`.
    ///
    /// # Errors
    /// Damage.
    #[inline]
    pub fn read(
        &self,
        table: u16,
        tuple: u64,
        columns: Option<&[u16]>,
        row: &mut Row,
    ) -> Result<(), Bad> {
        let layout = &self.tables[usize::from(table)].layout;
        read_tuple(self.lane.memory(), layout, tuple, columns, row)
    }

    /// The word of a column of a tuple.
    ///
    /// # Errors
    /// Damage.
    #[inline]
    pub fn field(&self, tuple: u64, column: u16) -> Result<u64, Bad> {
        self.lane.memory().load(field_at(tuple, column), Acquire)
    }

    /// First half of an insert: writes the tuple and its index entries where nobody sees them.
    ///
    /// # Errors
    /// Wrong values, a duplicate key, or no room; nothing has changed then.
    #[track_caller]
    pub fn write_tuple(
        &mut self,
        table: u16,
        values: &[Value<'_>],
    ) -> Result<NewTuple, StorageError> {
        self.settle_removals(table, None);
        let Self { lane, tables, lines, words, prepared, .. } = self;
        let Table { layout, indexes } = &mut tables[usize::from(table)];
        check_tuple(layout, values)?;
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
        let tuple = NewTuple { table, offset, image: crc32c::crc32c(words.as_bytes()) };
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
    pub(crate) fn settle_removals(&mut self, table: u16, columns: Option<&[(u16, Value<'_>)]>) {
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
        let entries = tuple.part(|_| std::mem::take(&mut self.prepared));
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
    /// column changes, where nobody sees them. They are in [`Self::fields`].
    ///
    /// # Errors
    /// Wrong values, no such tuple, or no room; nothing has changed then.
    #[track_caller]
    pub fn write_fields(
        &mut self,
        table: u16,
        tuple: u64,
        changes: &[(u16, Value<'_>)],
    ) -> Result<NewFields, StorageError> {
        let layout = &self.tables[usize::from(table)].layout;
        for (column, value) in changes {
            check_change(layout, *column, value)?;
        }
        self.settle_removals(table, Some(changes));
        self.fields.clear();
        self.outdated.clear();
        self.prepared.clear();
        let new = NewFields { table, tuple };
        let mut indexed = false;
        for (column, value) in changes {
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
        layout: &TableLayout,
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
        self.prepared.clear();
        self.outdated.clear();
        self.lines.clear();
    }

    /// Second half of an update: new values become persisted, stand in the tuple, and the indexes
    /// follow. The slots of the old values are in [`Self::superseded`].
    ///
    /// # Errors
    /// Damage.
    #[track_caller]
    pub fn replace_fields(&mut self, new: Durable<NewFields>) -> Result<(), Bad> {
        self.unsettled = false;
        let NewFields { table, tuple } = *new.get();
        let Self { lane, tables, lines, fields, superseded, .. } = self;
        let forms = &tables[usize::from(table)].layout.forms;
        for field in &*fields {
            let form = forms[usize::from(field.column)];
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
        let entries = new.part(|_| std::mem::take(&mut self.prepared));
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
            _ => unreachable!("a key has the form of its index"),
        };
        if removed {
            self.removed.push((table, index, *key));
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
                tree.settle(lane.memory(), key, lines)?;
            }
            (TableIndex::Wide(tree), TableKey::Wide(key)) => {
                tree.settle(lane.memory(), key, lines)?;
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
        key_of_words(
            self.lane.memory(),
            &table.layout,
            key_layout(&table.layout, index),
            |column| self.field(tuple, column),
        )
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

    /// After a commit: gives space back in the indexes where entries were removed. Makes its own
    /// fences.
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
                _ => unreachable!("a key has the form of its index"),
            };
            match result {
                Ok(()) | Err(IndexError::Heap(heap::HeapError::Full(_))) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// After an abort: forgets what the transaction had collected.
    pub fn forget(&mut self) {
        self.unsettled = false;
        self.removed.clear();
        self.superseded.clear();
        self.lines.clear();
    }

    /// Calls `visit` with the tuples of a range of an index (`None` is the primary one), in order,
    /// until it breaks. The bounds may give only the first columns of the key.
    ///
    /// # Errors
    /// Wrong values, or damage.
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
    ) -> Result<(), StorageError> {
        let table = &self.tables[usize::from(table)];
        let position = index.map_or(0, |index| index + 1);
        let layout = key_layout(&table.layout, position);
        let (low, high) = encode_range(&table.layout.schema, layout, low, high)?;
        let memory = self.lane.memory();
        let mut show = |tuple| match read_tuple(memory, &table.layout, tuple, columns, row) {
            Err(bad) => ControlFlow::Break(Err(bad)),
            Ok(()) => match visit(row) {
                ControlFlow::Break(()) => ControlFlow::Break(Ok(())),
                ControlFlow::Continue(()) => ControlFlow::Continue(()),
            },
        };
        let end = match &table.indexes[position] {
            TableIndex::Narrow(tree) => {
                let range = (low.map(narrow), high.map(narrow));
                tree.scan(memory, range, direction, |_, tuple| show(tuple))?
            }
            TableIndex::Wide(tree) => {
                let range = (low.map(wide), high.map(wide));
                tree.scan(memory, range, direction, |_, tuple| show(tuple))?
            }
        };
        match end {
            ControlFlow::Break(Err(bad)) => Err(bad.into()),
            _ => Ok(()),
        }
    }

    /// Checks all tables: every index is sound, every secondary entry belongs to a tuple of the
    /// primary index and the other way round. Calls `reachable` with the offset of every object
    /// that the tables lead to.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self, mut reachable: impl FnMut(u64)) -> Result<u64, Bad> {
        let memory = self.lane.memory();
        let mut tuples = 0;
        for (number, table) in self.tables.iter().enumerate() {
            let mut in_primary = Vec::new();
            for position in 0..table.indexes.len() {
                let mut entries: Vec<(TableKey, u64)> = Vec::new();
                let found = check_index(&table.indexes[position], memory, &mut entries)?;
                found.nodes.into_iter().for_each(&mut reachable);
                for (key, tuple) in &entries {
                    if self.key_of_tuple(number as u16, position, *tuple)? != *key {
                        return Err(Bad::Damaged { what: "index entry", at: *tuple });
                    }
                }
                let mut offsets: Vec<u64> = entries.iter().map(|entry| entry.1).collect();
                offsets.sort_unstable();
                if position == 0 {
                    in_primary = offsets;
                } else if offsets != in_primary {
                    return Err(Bad::Damaged { what: "secondary index", at: 0 });
                }
            }
            let mut slots = Vec::new();
            for tuple in &in_primary {
                self.slots_of_tuple(number as u16, *tuple, &mut slots)?;
            }
            tuples += in_primary.len() as u64;
            slots.into_iter().for_each(&mut reachable);
        }
        Ok(tuples)
    }
}

pub(crate) fn narrow(key: TableKey) -> u64 {
    match key {
        TableKey::Narrow(key) => key,
        TableKey::Wide(_) => unreachable!("a key has the form of its index"),
    }
}

pub(crate) fn wide(key: TableKey) -> WideKey {
    match key {
        TableKey::Wide(key) => key,
        TableKey::Narrow(_) => unreachable!("a key has the form of its index"),
    }
}

fn check_index<M: Memory, L: LeafLayout>(
    index: &TableIndex<L>,
    memory: &M,
    entries: &mut Vec<(TableKey, u64)>,
) -> Result<TreeUse, Bad> {
    match index {
        TableIndex::Narrow(tree) => {
            tree.check(memory, |key, tuple| entries.push((TableKey::Narrow(*key), tuple)))
        }
        TableIndex::Wide(tree) => {
            tree.check(memory, |key, tuple| entries.push((TableKey::Wide(*key), tuple)))
        }
    }
}

#[inline]
#[track_caller]
pub(crate) fn publish_entry<M: Memory, L: LeafLayout>(
    index: &mut TableIndex<L>,
    memory: &M,
    entry: Durable<Prepared>,
    lines: &mut LineSet,
) -> Result<(), Bad> {
    match index {
        TableIndex::Narrow(tree) => tree.publish(memory, entry, lines),
        TableIndex::Wide(tree) => tree.publish(memory, entry, lines),
    }
}

/// Writes an index entry for the tuple at `offset`, whose words are `words`.
#[inline]
#[track_caller]
pub(crate) fn prepare_for_words<M: Memory, L: LeafLayout>(
    lane: &mut Lane<M>,
    lines: &mut LineSet,
    layout: &TableLayout,
    (index, tree): (usize, &mut TableIndex<L>),
    words: &[u64],
    offset: u64,
) -> Result<Prepared, StorageError> {
    let keys = key_layout(layout, index);
    if let TableIndex::Narrow(tree) = tree {
        let key = ordered_field(&layout.schema, keys, words);
        return duplicate(layout, tree.prepare(lane, key, offset, lines));
    }
    let key = key_of_words(lane.memory(), layout, keys, |column| Ok(words[usize::from(column)]))?;
    prepare_entry(lane, lines, layout, tree, &key, offset)
}

/// Writes an index entry that does not count yet. The caller has settled removals.
#[inline]
#[track_caller]
pub(crate) fn prepare_entry<M: Memory, L: LeafLayout>(
    lane: &mut Lane<M>,
    lines: &mut LineSet,
    layout: &TableLayout,
    index: &mut TableIndex<L>,
    key: &TableKey,
    tuple: u64,
) -> Result<Prepared, StorageError> {
    Ok(match (index, key) {
        (TableIndex::Narrow(tree), TableKey::Narrow(key)) => {
            duplicate(layout, tree.prepare(lane, *key, tuple, lines))?
        }
        (TableIndex::Wide(tree), TableKey::Wide(key)) => {
            duplicate(layout, tree.prepare(lane, *key, tuple, lines))?
        }
        _ => unreachable!("a key has the form of its index"),
    })
}

pub(crate) fn check_tuple(layout: &TableLayout, values: &[Value<'_>]) -> Result<(), StorageError> {
    let columns = layout.schema.columns();
    if values.len() != columns.len() {
        return Err(StorageError::WrongCount {
            what: format!("table `{}`", layout.schema.name()),
            wanted: columns.len(),
            found: values.len(),
        });
    }
    for (column, value) in values.iter().enumerate() {
        check_value(&layout.schema, column as u16, value)?;
    }
    Ok(())
}

/// Writes a tuple's fields and its words, which are in `words` then; returns where the tuple lies.
pub(crate) fn write_words<M: Memory>(
    lane: &mut Lane<M>,
    lines: &mut LineSet,
    layout: &TableLayout,
    values: &[Value<'_>],
    words: &mut Vec<u64>,
) -> Result<u64, StorageError> {
    for (form, value) in layout.forms.iter().zip(values) {
        words.push(write_value(lane, lines, *form, value)?);
    }
    let offset = lane.allocate(layout.tuple_bytes(), Purpose::Table)?;
    let bytes = words.as_bytes();
    lane.memory().copy(Off::new(offset), bytes);
    lines.add(Range::new(offset, bytes.len() as u64));
    Ok(offset)
}

/// Writes what of a value does not fit into its field's word, and returns the word.
#[inline]
pub(crate) fn write_value<M: Memory>(
    lane: &mut Lane<M>,
    lines: &mut LineSet,
    form: FieldForm,
    value: &Value<'_>,
) -> Result<u64, StorageError> {
    let Some(bytes) = value.as_bytes() else { return Ok(value.as_word().unwrap_or(0)) };
    if form == FieldForm::Short {
        return Ok(short_word(bytes));
    }
    if bytes.is_empty() {
        return Ok(0);
    }
    let slot = lane.allocate(bytes.len() as u64, Purpose::Table)?;
    lane.memory().copy(Off::new(slot), bytes);
    lines.add(Range::new(slot, bytes.len() as u64));
    Ok(slot_word(slot, bytes.len() as u64))
}

/// Gives the slots back that these words own.
pub(crate) fn release_words<M: Memory>(lane: &mut Lane<M>, layout: &TableLayout, words: &[u64]) {
    for (form, word) in layout.forms.iter().zip(words) {
        if let Some(slot) = owned_slot(*form, *word) {
            lane.release(slot);
        }
    }
}

fn duplicate<T>(layout: &TableLayout, prepared: Result<T, IndexError>) -> Result<T, StorageError> {
    prepared.map_err(|error| match error {
        IndexError::Duplicate { .. } => {
            StorageError::DuplicateKey { table: layout.schema.name().into() }
        }
        other => other.into(),
    })
}

pub(crate) fn check_change(
    layout: &TableLayout,
    column: u16,
    value: &Value<'_>,
) -> Result<(), StorageError> {
    let Some(declared) = layout.schema.columns().get(usize::from(column)) else {
        return Err(StorageError::NoColumn {
            table: layout.schema.name().into(),
            column: usize::from(column),
        });
    };
    if layout.in_key[usize::from(column)] {
        return Err(StorageError::KeyColumn { column: declared.name.clone() });
    }
    check_value(&layout.schema, column, value)
}

/// The key of a tuple whose words `word` gives.
pub(crate) fn key_of_words<M: Memory>(
    memory: &M,
    layout: &TableLayout,
    key: &KeyLayout,
    word: impl FnMut(u16) -> Result<u64, Bad>,
) -> Result<TableKey, Bad> {
    key_of_fields(&layout.schema, key, word, |column, word, builder, max| {
        if layout.forms[usize::from(column)] == FieldForm::Short {
            let (bytes, len) = short_bytes(word);
            builder.bytes(max, &bytes[..len.min(max as usize)]);
            return Ok(());
        }
        let range = slot_range(word);
        if range.len > u64::from(max) {
            return Err(Bad::Damaged { what: "field length", at: range.start });
        }
        let mut bytes = [0u8; index::MAX_KEY_BYTES];
        let bytes = &mut bytes[..range.len as usize];
        memory.read_into(Off::new(range.start), bytes)?;
        builder.bytes(max, bytes);
        Ok(())
    })
}
