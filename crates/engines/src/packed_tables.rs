//! Tables over numbered trees: the number of the tree of each index, and how rows are packed.

use std::ops::{Deref, Range};
use std::sync::Arc;

use pm::{Bad, Bytes};
use storage::{Catalog, Column, PackedLayout, PackedRow, Row, StoredRow, TableKey, TableLayout};

use crate::error::EngineError;
use crate::shadow::TreeMap;

/// A table, and where the columns of its rows stand.
#[derive(Debug)]
struct PackedTable {
    layout: Arc<TableLayout>,
    packed: PackedLayout,
}

impl Deref for PackedTable {
    type Target = TableLayout;

    fn deref(&self) -> &TableLayout {
        &self.layout
    }
}

/// The tables of a partition. A table's primary tree has its rows, packed, by their keys; a
/// secondary tree has keys that end with the primary one, and nothing else.
#[derive(Debug)]
pub(crate) struct PackedTables {
    map: TreeMap<PackedTable>,
}

impl PackedTables {
    pub(crate) fn new(catalog: &Catalog) -> Self {
        let tables = catalog.tables.iter().map(|layout| PackedTable {
            layout: Arc::clone(layout),
            packed: PackedLayout::new(layout),
        });
        Self { map: TreeMap::new(tables) }
    }

    /// The number of tables.
    pub(crate) fn count(&self) -> u16 {
        self.map.layouts().len() as u16
    }

    /// The number of trees.
    pub(crate) fn trees(&self) -> u32 {
        self.map.tree_count() as u32
    }

    /// The most indexes of a table, with the primary one.
    pub(crate) fn most_indexes(&self) -> usize {
        self.map.layouts().iter().map(|table| table.index_count()).max().unwrap_or(1)
    }

    /// Bytes of the widest key of all trees.
    pub(crate) fn widest_key(&self) -> usize {
        let widths = self.map.trees().map(|(layout, _, index)| layout.key_bytes(index));
        widths.max().unwrap_or(0)
    }

    /// About the most bytes that a row has, of each table.
    pub(crate) fn row_bytes(&self) -> impl Iterator<Item = u64> {
        let bytes = |column: &Column| u64::from(column.kind.max_bytes().unwrap_or(8));
        self.map.layouts().iter().map(move |table| table.schema.columns().iter().map(bytes).sum())
    }

    /// The tree of a table's index; 0 is the primary one.
    pub(crate) fn tree(&self, table: u16, index: usize) -> u32 {
        self.map.tree(table, index) as u32
    }

    pub(crate) fn layout(&self, table: u16) -> &TableLayout {
        self.map.layout(table)
    }

    pub(crate) fn table(&self, table: u16) -> (&TableLayout, &PackedLayout) {
        let table = self.map.layout(table);
        (&table.layout, &table.packed)
    }

    /// A stored row of a table.
    pub(crate) fn row<'a>(&'a self, table: u16, bytes: &'a [u8]) -> Result<PackedRow<'a>, Bad> {
        let table = self.map.layout(table);
        PackedRow::new(&table.layout, &table.packed, Bytes::from(bytes))
    }

    /// Makes a row of the stored one whose bytes it has: see [`PackedLayout::show`].
    pub(crate) fn show(
        &self,
        table: u16,
        columns: Option<&[u16]>,
        row: &mut Row,
    ) -> Result<(), Bad> {
        self.map.layout(table).packed.show(columns, row)
    }

    pub(crate) fn missing(&self, table: u16) -> EngineError {
        self.map.missing(table)
    }

    pub(crate) fn duplicate(&self, table: u16) -> EngineError {
        self.map.duplicate(table)
    }
}

/// The key of a stored row in an index.
pub(crate) fn key_of(
    tables: &PackedTables,
    table: u16,
    row: &[u8],
    index: usize,
) -> Result<TableKey, EngineError> {
    Ok(tables.row(table, row)?.key(index)?)
}

/// The secondary indexes of a table.
pub(crate) fn secondary(layout: &TableLayout) -> Range<usize> {
    1..layout.index_count()
}
