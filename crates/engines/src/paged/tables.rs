//! Tables over trees: which tree a table's index is, and how its rows are packed.

use std::ops::Deref;
use std::sync::Arc;

use paged::PagedError;
use paged::ids::TreeNo;
use paged::layout::{LEAST_PAGE_BYTES, MOST_PAGE_BYTES, limit_key};
use pm::{Bad, Bytes};
use storage::{Catalog, PackedLayout, PackedRow, StoredRow, TableKey, TableLayout};

use super::FIRST_TREE;
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

/// The tables of a partition.
#[derive(Debug)]
pub(crate) struct PagedTables {
    map: TreeMap<PackedTable>,
}

impl PagedTables {
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

    /// The numbers of all trees.
    pub(crate) fn trees(&self) -> Vec<TreeNo> {
        (0..self.map.tree_count() as u32).map(|tree| TreeNo(FIRST_TREE.0 + tree)).collect()
    }

    /// Bytes of the smallest page that can have the widest key, so that the size that is the default
    /// does for any schema.
    pub(crate) fn least_page_bytes(&self) -> usize {
        let widths = self.map.trees().map(|(layout, _, index)| layout.key_bytes(index));
        let widest = widths.max().unwrap_or(0);
        let larger = |bytes: &usize| (*bytes < MOST_PAGE_BYTES).then_some(bytes * 2);
        let mut sizes = std::iter::successors(Some(LEAST_PAGE_BYTES), larger);
        sizes.find(|bytes| limit_key(*bytes) >= widest).unwrap_or(MOST_PAGE_BYTES)
    }

    /// The tree of a table's index; 0 is the primary one.
    pub(crate) fn tree(&self, table: u16, index: usize) -> TreeNo {
        TreeNo(FIRST_TREE.0 + self.map.tree(table, index) as u32)
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

    pub(crate) fn missing(&self, table: u16) -> EngineError {
        self.map.missing(table)
    }

    /// The error of a change of a table, which says its name where it is about a key.
    pub(crate) fn about_key(&self, table: u16, error: PagedError) -> EngineError {
        match error {
            PagedError::Duplicate => self.map.duplicate(table),
            PagedError::Missing => self.map.missing(table),
            other => other.into(),
        }
    }
}

/// The key of a stored row in an index.
pub(super) fn key_of(
    tables: &PagedTables,
    table: u16,
    row: &[u8],
    index: usize,
) -> Result<TableKey, EngineError> {
    Ok(tables.row(table, row)?.key(index)?)
}

pub(super) fn secondary(layout: &TableLayout) -> std::ops::Range<usize> {
    1..layout.index_count()
}
