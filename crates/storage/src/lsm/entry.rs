//! Entries wherever they lie, the keys that order them, and tuples put together from them.

use std::ops::Bound;
use std::sync::Arc;

use index::{NodeShape, WIDE_KEY_BYTES};
use pm::{Bad, Memory};

use super::cache::Found;
use super::change::{Change, Coalescing, ColumnSet};
use super::error::LsmError;
use super::memtable::MemEntry;
use super::record::{MALFORMED, Record};
use crate::error::StorageError;
use crate::rows::catalog::{Catalog, KeyLayout, TableLayout};
use crate::rows::key::TableKey;
use crate::rows::row::{Row, RowField};
use crate::rows::value::ColumnType;
use crate::table::node_shape;
use crate::table::slots::SlotLayout;

/// The ordered sets of keys of a partition: one for each index of each table, the primary index
/// of a table before its secondary ones. A run holds entries of all of them, since their numbers
/// stand before their keys. A MemTable has a B+tree for each, and its tuples in slots.
#[derive(Debug)]
pub struct Trees {
    trees: Vec<(Arc<SlotLayout>, usize)>,
    /// The shape of the nodes in a MemTable, for each tree.
    shapes: Vec<NodeShape>,
    first: Vec<u16>,
}

impl Trees {
    /// The trees of a catalog's tables; MemTables have them in nodes of `node_bytes`.
    ///
    /// # Errors
    /// There are more than 65,000, or no node can have so many bytes.
    pub fn new(catalog: &Catalog, node_bytes: u32) -> Result<Self, StorageError> {
        if catalog.index_count() > 65_000 {
            return Err(StorageError::Schema("a schema has at most 65000 indexes".into()));
        }
        let (mut trees, mut first) = (Vec::new(), Vec::new());
        let mut shapes = Vec::new();
        for table in &catalog.tables {
            first.push(trees.len() as u16);
            let table = Arc::new(SlotLayout::new(table));
            for index in 0..table.index_count() {
                shapes.push(node_shape(table.key_layout(index), node_bytes)?);
                trees.push((table.clone(), index));
            }
        }
        Ok(Self { trees, shapes, first })
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.trees.len()
    }

    /// Returns whether there are none: never, since a schema has a table.
    pub fn is_empty(&self) -> bool {
        self.trees.is_empty()
    }

    /// The tree of an index of a table; index 0 is the primary one.
    #[inline]
    pub fn tree(&self, table: u16, index: usize) -> u16 {
        self.first[usize::from(table)] + index as u16
    }

    /// The layout of a tree's table.
    #[inline]
    pub fn table(&self, tree: u16) -> &Arc<SlotLayout> {
        &self.trees[usize::from(tree)].0
    }

    /// Returns whether the tree's entries have values: only those of primary indexes do.
    #[inline]
    pub fn is_primary(&self, tree: u16) -> bool {
        self.trees[usize::from(tree)].1 == 0
    }

    pub(crate) fn keys(&self, tree: u16) -> &KeyLayout {
        let (table, index) = &self.trees[usize::from(tree)];
        table.key_layout(*index)
    }

    /// The shape of a tree's nodes in a MemTable.
    pub(crate) fn shape(&self, tree: u16) -> NodeShape {
        self.shapes[usize::from(tree)]
    }
}

/// Bytes of a tree's number before its keys.
pub const TREE_BYTES: usize = 2;

/// A key as runs order it: the number of its tree, big-endian, then the key in memcomparable
/// encoding. Only long ones take an allocation.
#[derive(Debug)]
pub struct TreeKey {
    bytes: [u8; TREE_BYTES + WIDE_KEY_BYTES],
    len: usize,
    /// All bytes, if there are too many for `bytes`.
    long: Vec<u8>,
}

impl TreeKey {
    /// The key of a tree's entry.
    #[inline]
    pub fn new(tree: u16, key: &TableKey) -> Self {
        let mut own = Self::before(tree);
        own.set(key);
        own
    }

    /// Returns what comes before all keys of a tree.
    #[inline]
    pub fn before(tree: u16) -> Self {
        let bytes = [0; TREE_BYTES + WIDE_KEY_BYTES];
        let mut own = Self { bytes, len: TREE_BYTES, long: Vec::new() };
        own.bytes[..TREE_BYTES].copy_from_slice(&tree.to_be_bytes());
        own
    }

    /// Makes it the key of another entry of its tree.
    #[inline]
    pub fn set(&mut self, key: &TableKey) {
        match key {
            TableKey::Narrow(number) => {
                self.len = TREE_BYTES + 8;
                self.bytes[TREE_BYTES..TREE_BYTES + 8].copy_from_slice(&number.to_be_bytes());
            }
            TableKey::Wide(key) => {
                let bytes = key.as_bytes();
                self.len = TREE_BYTES + bytes.len();
                self.bytes[TREE_BYTES..self.len].copy_from_slice(bytes);
            }
            TableKey::Long(key) => self.set_long(key.as_bytes()),
        }
    }

    #[cold]
    fn set_long(&mut self, bytes: &[u8]) {
        self.long.clear();
        self.long.extend_from_slice(&self.bytes[..TREE_BYTES]);
        self.long.extend_from_slice(bytes);
        self.len = self.long.len();
    }

    /// The key's bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&self.long)
    }

    /// The bounds of a range of a tree.
    pub fn range(
        tree: u16,
        low: &Bound<TableKey>,
        high: &Bound<TableKey>,
    ) -> (Bound<Self>, Bound<Self>) {
        let bound = |bound: &Bound<TableKey>| bound.as_ref().map(|key| Self::new(tree, key));
        let low = match bound(low) {
            Bound::Unbounded => Bound::Included(Self::before(tree)),
            low => low,
        };
        let high = match bound(high) {
            Bound::Unbounded => Bound::Excluded(Self::before(tree + 1)),
            high => high,
        };
        (low, high)
    }
}

/// An entry of a run.
#[derive(Debug)]
pub enum Entry<'a, M: Memory> {
    /// The entry is in a MemTable.
    Memory(MemEntry<'a, M>),
    /// The entry is in an SSTable.
    Stored(Record<Found<'a, M>>),
}

impl<M: Memory> Entry<'_, M> {
    /// Returns whether it is a tombstone.
    #[inline]
    pub fn is_tombstone(&self) -> bool {
        match self {
            Self::Memory(entry) => entry.is_tombstone(),
            Self::Stored(record) => record.is_tombstone(),
        }
    }

    fn is_whole(&self) -> Result<bool, Bad> {
        match self {
            Self::Memory(entry) => entry.is_whole(),
            Self::Stored(record) => Ok(record.is_whole()),
        }
    }

    fn change(&self) -> Result<Change, Bad> {
        match self {
            Self::Memory(entry) => entry.change(),
            Self::Stored(record) => Ok(record.change()),
        }
    }

    /// Appends a column's value to the row's bytes.
    #[inline]
    fn take(&self, layout: &TableLayout, column: u16, row: &mut Row) -> Result<RowField, LsmError> {
        let start = row.bytes.len();
        match self {
            Self::Memory(entry) => entry.append(column, &mut row.bytes)?,
            Self::Stored(record) => {
                let malformed = || LsmError::damaged("a run", 0, MALFORMED);
                record.column(column).ok_or_else(malformed)?.append_to(&mut row.bytes);
            }
        }
        let kind = layout.schema.columns()[usize::from(column)].kind;
        let value = &row.bytes[start..];
        let damaged = || LsmError::from(Bad::Damaged { what: "value of a column", at: 0 });
        match kind.max_bytes() {
            None => {
                let word = u64::from_le_bytes(value.try_into().map_err(|_| damaged())?);
                row.bytes.truncate(start);
                Ok(RowField { kind: Some(kind), word, len: 0 })
            }
            Some(max) => {
                let text = matches!(kind, ColumnType::Text { .. });
                if value.len() > max as usize || text && std::str::from_utf8(value).is_err() {
                    return Err(damaged());
                }
                Ok(RowField { kind: Some(kind), word: start as u64, len: value.len() as u32 })
            }
        }
    }
}

/// A tuple that is put together in a row from its entries, newest first.
#[derive(Debug)]
pub struct Assembly<'a> {
    layout: &'a TableLayout,
    columns: Option<&'a [u16]>,
    row: &'a mut Row,
    state: State,
}

#[derive(Debug)]
enum State {
    /// No entry yet.
    New,
    /// All there is to say has been said.
    Done(bool),
    Parts(Box<Coalescing>),
}

impl<'a> Assembly<'a> {
    /// Columns of a tuple, all if none are named, into a row.
    #[inline]
    pub fn new(layout: &'a TableLayout, columns: Option<&'a [u16]>, row: &'a mut Row) -> Self {
        row.fields.clear();
        row.bytes.clear();
        Self { layout, columns, row, state: State::New }
    }

    /// Adds the next older entry. Returns whether no older one is needed.
    ///
    /// # Errors
    /// The entry does not fit the table.
    #[inline]
    pub fn add<M: Memory>(&mut self, entry: &Entry<'_, M>) -> Result<bool, LsmError> {
        if matches!(self.state, State::New) {
            if entry.is_tombstone() {
                self.state = State::Done(false);
                return Ok(true);
            }
            if entry.is_whole()? {
                // What is asked for, in one go.
                let Self { layout, columns, row, .. } = self;
                let mut take = |column: u16| {
                    let field = entry.take(layout, column, row)?;
                    row.fields.push(field);
                    Ok::<_, LsmError>(())
                };
                let all = layout.schema.columns().len() as u16;
                if let Entry::Stored(record) = entry {
                    match *columns {
                        None => record.read_together(0, all.saturating_sub(1)),
                        Some(some) => {
                            // One behind the other, as they mostly are asked for.
                            if let [first, .., last] = *some
                                && usize::from(last.wrapping_sub(first)) == some.len() - 1
                            {
                                record.read_together(first, last);
                            }
                        }
                    }
                }
                match columns {
                    None => (0..all).try_for_each(take)?,
                    Some(columns) => columns.iter().try_for_each(|column| take(*column))?,
                }
                self.state = State::Done(true);
                return Ok(true);
            }
        }
        self.add_part(entry)
    }

    #[cold]
    fn add_part<M: Memory>(&mut self, entry: &Entry<'_, M>) -> Result<bool, LsmError> {
        let all = self.layout.schema.columns().len();
        if matches!(self.state, State::New) {
            let wanted = match self.columns {
                None => ColumnSet::first(all),
                Some(columns) => columns.iter().copied().collect(),
            };
            self.state = State::Parts(Box::new(Coalescing::new(wanted)));
            // Where each column is, until they are put in the order asked for.
            let nothing = RowField { kind: None, word: 0, len: 0 };
            self.row.by_column.clear();
            self.row.by_column.resize(all, nothing);
        }
        let State::Parts(coalescing) = &mut self.state else { return Ok(true) };
        let taken = coalescing.add(&entry.change()?);
        let settled = coalescing.is_settled();
        for column in taken.iter() {
            let field = entry.take(self.layout, column, self.row)?;
            self.row.by_column[usize::from(column)] = field;
        }
        Ok(settled)
    }

    /// Returns whether there is such a tuple; if so, the row has it.
    ///
    /// # Errors
    /// Columns are missing.
    #[inline]
    pub fn finish(self) -> Result<bool, LsmError> {
        match self.state {
            State::New => Ok(false),
            State::Done(found) => Ok(found),
            State::Parts(coalescing) => {
                let found = coalescing.finish()?;
                let Row { fields, by_column, .. } = self.row;
                match self.columns {
                    None => fields.extend_from_slice(by_column),
                    Some(columns) => {
                        let place = |column: &u16| by_column[usize::from(*column)];
                        fields.extend(columns.iter().map(place));
                    }
                }
                Ok(found)
            }
        }
    }
}
