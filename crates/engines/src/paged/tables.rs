//! Tables over the trees of a paged store.

use std::ops::Deref;

use paged::PagedError;
use paged::ids::TreeNo;
use paged::layout::{LEAST_PAGE_BYTES, MOST_PAGE_BYTES, limit_key};
use storage::Catalog;

use super::FIRST_TREE;
use crate::error::EngineError;
use crate::packed_tables::PackedTables;

/// The tables of a partition.
#[derive(Debug)]
pub(crate) struct PagedTables {
    tables: PackedTables,
}

impl Deref for PagedTables {
    type Target = PackedTables;

    fn deref(&self) -> &PackedTables {
        &self.tables
    }
}

impl PagedTables {
    pub(crate) fn new(catalog: &Catalog) -> Self {
        Self { tables: PackedTables::new(catalog) }
    }

    /// The numbers of all trees.
    pub(crate) fn trees(&self) -> Vec<TreeNo> {
        (0..self.tables.trees()).map(|tree| TreeNo(FIRST_TREE.0 + tree)).collect()
    }

    /// Bytes of the smallest page that can have the widest key, so that the size that is the
    /// default does for any schema.
    pub(crate) fn least_page_bytes(&self) -> usize {
        let widest = self.tables.widest_key();
        let larger = |bytes: &usize| (*bytes < MOST_PAGE_BYTES).then_some(bytes * 2);
        let mut sizes = std::iter::successors(Some(LEAST_PAGE_BYTES), larger);
        sizes.find(|bytes| limit_key(*bytes) >= widest).unwrap_or(MOST_PAGE_BYTES)
    }

    /// The tree of a table's index; 0 is the primary one.
    pub(crate) fn tree(&self, table: u16, index: usize) -> TreeNo {
        TreeNo(FIRST_TREE.0 + self.tables.tree(table, index))
    }

    /// The error of a change of a table, which says its name where it is about a key.
    pub(crate) fn about_key(&self, table: u16, error: PagedError) -> EngineError {
        match error {
            PagedError::Duplicate => self.tables.duplicate(table),
            PagedError::Missing => self.tables.missing(table),
            other => other.into(),
        }
    }
}
