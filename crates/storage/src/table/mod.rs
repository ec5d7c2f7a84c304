//! Tuples in slots: the table heap and its indexes, what engines with in-place updates share (P1
//! 3.1, 4.1); and tuples that are copied instead (4.2).
//!
//! | what | file |
//! |---|---|
//! | how a tuple lies in slots | `words.rs`, `slots.rs`, `tuple.rs` |
//! | changes in two halves, look-ups, scans | `change.rs`, `read.rs`, `entries.rs` |
//! | images of inlined columns, statements | `image.rs`, `statement.rs` |
//! | undo of operations by the entries of an undo log | `undo.rs`, `lost.rs` |
//! | tuples that are never changed in place | `copies.rs` |
//!
//! Knows the entries of an undo log, and nothing of how a log keeps them; nothing of files.
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
//! Slots that a transaction has replaced or deleted are collected; the engine frees them once the
//! transaction is durable.

mod change;
pub(crate) mod copies;
mod entries;
mod image;
pub(crate) mod lost;
mod read;
pub(crate) mod slots;
mod statement;
pub(crate) mod tuple;
pub(crate) mod undo;
pub(crate) mod words;

use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;

use heap::Lane;
use index::{LeafLayout, Prepared};
use pm::{Bad, LineSet, Memory, Off};

use crate::error::StorageError;
use crate::logs::undo_entry::NewField;
use crate::rows::catalog::Catalog;
use crate::rows::key::{TableKey, encode_key, narrow_key};
use crate::rows::row::Row;
use crate::rows::value::Value;
use crate::table::slots::SlotLayout;
use crate::table::tuple::{read_tuple, read_tuple_bytes};
use crate::table::words::field_at;

pub(crate) use change::*;
pub(crate) use entries::*;
pub use image::Image;

#[derive(Debug)]
pub(crate) struct Table<L> {
    pub(crate) layout: Arc<SlotLayout>,
    /// The primary index, then the secondary ones.
    pub(crate) indexes: Vec<TableIndex<L>>,
}

/// A tuple that is written but not yet visible. Owns its slots until it is published or given back.
#[derive(Debug)]
#[must_use = "a tuple that is written must be published or given back"]
pub struct NewTuple {
    /// The table's number.
    pub table: u16,
    /// The place where the tuple lies.
    pub offset: u64,
    /// Checksum of its words; a log entry carries it.
    pub checksum: u32,
}

/// New values of some fields of one tuple; see [`Tables::write_fields`].
#[derive(Debug)]
#[must_use = "new fields must be put in place or given back"]
pub struct NewFields {
    /// The table's number.
    pub table: u16,
    /// The place where the tuple lies.
    pub tuple: u64,
    /// The number of images that the transaction had before.
    pub(crate) images: usize,
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
    /// Index entries of the operation that is being prepared, which do not count yet. They are here
    /// and not in what the first half returns: a value that is moved right after a fence waits
    /// until the fence is done.
    pub(crate) prepared: Vec<(u16, Prepared)>,
    /// Index entries that the update in preparation replaces: index, old key.
    pub(crate) outdated: Vec<(u16, TableKey)>,
    /// Slots that the open transaction has replaced or deleted.
    pub superseded: Vec<u64>,
    /// Slots of the images of inlined columns that its log entries lead to, never persisted.
    pub images: Vec<u64>,
    /// A copy of an inlined column.
    contents: Vec<u8>,
    /// The places where the open transaction has removed index entries: table, index, key.
    pub(crate) removed: Vec<(u16, u16, TableKey)>,
    pub(crate) words: Vec<u64>,
    /// Index entries have been removed since the last fence: see [`Self::fence_removals`].
    pub(crate) unsettled: bool,
}

impl<M: Memory, L: LeafLayout> Tables<M, L> {
    /// Bytes of root pointers that the tables of `catalog` need.
    pub fn cell_bytes(catalog: &Catalog) -> u64 {
        catalog.index_count() as u64 * 8
    }

    /// Creates empty tables with indexes of such nodes, whose root pointers will live at `cells`.
    ///
    /// # Errors
    /// The memory is full, or no node can have so many bytes.
    pub fn create(
        lane: Lane<M>,
        layouts: Vec<SlotLayout>,
        node_bytes: u32,
        cells: Off<u64>,
    ) -> Result<Self, StorageError> {
        let mut tables = Self::open(lane, layouts, node_bytes, cells)?;
        for table in 0..tables.tables.len() {
            for index in 0..tables.tables[table].indexes.len() {
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
        let (cell, shape) = (indexes[index].root_cell(), *indexes[index].shape());
        let key = layout.key_layout(index);
        indexes[index] = TableIndex::create(&mut self.lane, cell, key, shape)?;
        Ok(())
    }

    /// The tables whose root pointers live at `cells`. Reads nothing.
    ///
    /// # Errors
    /// No node can have so many bytes.
    pub fn open(
        lane: Lane<M>,
        layouts: Vec<SlotLayout>,
        node_bytes: u32,
        cells: Off<u64>,
    ) -> Result<Self, StorageError> {
        let mut cell = cells;
        Self::open_at(lane, layouts, node_bytes, |_, _| {
            let at = cell;
            cell = cell.plus(8);
            at
        })
    }

    /// The tables of which `cell` says where the root pointer of an index of a table lives; it is
    /// asked in order. Reads nothing.
    ///
    /// # Errors
    /// No node can have so many bytes.
    pub(crate) fn open_at(
        lane: Lane<M>,
        layouts: Vec<SlotLayout>,
        node_bytes: u32,
        mut cell: impl FnMut(usize, usize) -> Off<u64>,
    ) -> Result<Self, StorageError> {
        let mut tables = Vec::with_capacity(layouts.len());
        for (table, layout) in layouts.into_iter().enumerate() {
            let mut indexes = Vec::with_capacity(layout.index_count());
            for index in 0..layout.index_count() {
                let key = layout.key_layout(index);
                let shape = node_shape(key, node_bytes)?;
                indexes.push(TableIndex::open(cell(table, index), key, shape));
            }
            tables.push(Table { layout: Arc::new(layout), indexes });
        }
        Ok(Self {
            lane,
            tables,
            lines: LineSet::new(),
            fields: Vec::new(),
            prepared: Vec::new(),
            outdated: Vec::new(),
            superseded: Vec::new(),
            images: Vec::new(),
            contents: Vec::new(),
            removed: Vec::new(),
            words: Vec::new(),
            unsettled: false,
        })
    }

    /// The memory under the tables.
    #[inline]
    pub fn memory(&self) -> &M {
        self.lane.memory()
    }

    /// The layout of table `table`.
    pub fn layout(&self, table: u16) -> &Arc<SlotLayout> {
        &self.tables[usize::from(table)].layout
    }

    /// Returns where the tuple with this primary key lies.
    ///
    /// # Errors
    /// Wrong number, type or length of values; damage.
    #[inline]
    pub fn find(&self, table: u16, key: &[Value<'_>]) -> Result<Option<u64>, StorageError> {
        let Table { layout, indexes } = &self.tables[usize::from(table)];
        // Wide keys are large: the fast path must not even move one.
        if let TableIndex::Narrow(tree) = &indexes[0] {
            let key = narrow_key(layout, key)?;
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
            (TableKey::Long(key), TableIndex::Long(tree)) => {
                Ok(tree.get(self.lane.memory(), &key)?)
            }
            _ => unreachable!("a key has the form of its index"),
        }
    }

    /// Acts as [`Self::find`], but a missing tuple is an error.
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

    /// Copies columns of a tuple in sequence into `out`, numbers as eight little-endian bytes;
    /// returns how many bytes there are. If `out` is too short for them, nothing is copied.
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
}
