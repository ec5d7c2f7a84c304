//! The tables of a shadow directory, to be read by transactions and snapshots. A table's primary
//! tree leads from its key to the engine's kind of tuple, a secondary tree from a secondary key to
//! the primary one, which that ends with.

use std::ops::{Bound, ControlFlow, Deref};
use std::sync::Arc;

use index::pages::PageSource;
use pm::{Bad, Bytes};
use storage::shadow::{Directory, Trees};
use storage::{PrimaryBytes, StorageError, TableKey, TableLayout, Value};

use crate::contract::Scan;
use crate::error::EngineError;

/// The trees of a directory that belong to each table. `L` is the engine's layout of a table.
#[derive(Debug)]
pub struct TreeMap<L> {
    layouts: Arc<[L]>,
    /// The primary tree of each table; the secondary ones follow it.
    first: Arc<[usize]>,
}

// Not derived: a layout need not be one that can be cloned.
impl<L> Clone for TreeMap<L> {
    fn clone(&self) -> Self {
        Self { layouts: self.layouts.clone(), first: self.first.clone() }
    }
}

impl<L: Deref<Target = TableLayout>> TreeMap<L> {
    pub(crate) fn new(layouts: impl IntoIterator<Item = L>) -> Self {
        let layouts: Arc<[L]> = layouts.into_iter().collect();
        let mut next = 0;
        let first = layouts.iter().map(|table| {
            let first = next;
            next += table.index_count();
            first
        });
        Self { first: first.collect(), layouts }
    }

    #[inline]
    pub(crate) fn layout(&self, table: u16) -> &L {
        &self.layouts[usize::from(table)]
    }

    /// The layouts of all tables.
    pub(crate) fn layouts(&self) -> &[L] {
        &self.layouts
    }

    /// The tree of a table's index; 0 is the primary one.
    #[inline]
    pub(crate) fn tree(&self, table: u16, index: usize) -> usize {
        self.first[usize::from(table)] + index
    }

    /// Each tree with its table, the table's number, and its index.
    pub(crate) fn trees(&self) -> impl Iterator<Item = (&TableLayout, u16, usize)> {
        let tables = self.layouts.iter().zip(0..);
        tables.flat_map(|(table, number)| {
            (0..table.index_count()).map(move |index| (&**table, number, index))
        })
    }

    /// Returns how many trees there are.
    pub(crate) fn tree_count(&self) -> usize {
        self.layouts.iter().map(|table| table.index_count()).sum()
    }

    /// The table and the index of a tree.
    pub(crate) fn owner(&self, tree: usize) -> (u16, usize) {
        let table = self.first.partition_point(|first| *first <= tree) - 1;
        (table as u16, tree - self.first[table])
    }

    pub(crate) fn missing(&self, table: u16) -> EngineError {
        StorageError::MissingKey { table: self.layout(table).schema.name().into() }.into()
    }

    pub(crate) fn duplicate(&self, table: u16) -> EngineError {
        StorageError::DuplicateKey { table: self.layout(table).schema.name().into() }.into()
    }

    /// An empty directory.
    pub(crate) fn directory(&self, stores: usize) -> Directory {
        Directory::new(stores, self.tree_count(), self.layouts.len())
    }

    /// Calls `read` with what the primary tree has for the key with these values.
    #[inline]
    pub(crate) fn find<S: PageSource, R>(
        &self,
        trees: Trees<'_, S>,
        table: u16,
        key: &[Value<'_>],
        read: impl FnOnce(Bytes<'_>) -> R,
    ) -> Result<Option<R>, EngineError> {
        let key = self.layout(table).primary_key(key)?;
        Ok(trees.get(self.tree(table, 0), key.bytes(&mut [0; 8]), read)?)
    }

    /// Calls `visit` with what the primary tree has for each tuple of a range, in order.
    pub(crate) fn scan<S: PageSource>(
        &self,
        trees: Trees<'_, S>,
        table: u16,
        scan: &Scan<'_>,
        mut visit: impl FnMut(Bytes<'_>) -> Result<ControlFlow<()>, EngineError>,
    ) -> Result<(), EngineError> {
        let layout = self.layout(table);
        let index = scan.index.map_or(0, |index| index + 1);
        let (low, high) = layout.key_range(index, scan.low, scan.high)?;
        let (mut low_bytes, mut high_bytes) = ([0; 8], [0; 8]);
        let range = (bytes(&low, &mut low_bytes), bytes(&high, &mut high_bytes));
        let primary = self.tree(table, 0);
        let mut show = |value: Bytes<'_>| match visit(value) {
            Ok(ControlFlow::Continue(())) => ControlFlow::Continue(()),
            Ok(ControlFlow::Break(())) => ControlFlow::Break(Ok(())),
            Err(error) => ControlFlow::Break(Err(error)),
        };
        let mut key_bytes = PrimaryBytes::default();
        let flow =
            trees.scan(self.tree(table, index), range, scan.direction, &mut |key, value| {
                if index == 0 {
                    return show(value);
                }
                let key = layout.primary_of(index, key, &mut key_bytes);
                match trees.get(primary, key, &mut show) {
                    Ok(Some(flow)) => flow,
                    Ok(None) => ControlFlow::Break(Err(dangling())),
                    Err(error) => ControlFlow::Break(Err(error.into())),
                }
            })?;
        match flow {
            ControlFlow::Break(Err(error)) => Err(error),
            _ => Ok(()),
        }
    }
}

impl<L: Deref<Target = TableLayout>> TreeMap<L> {
    /// Compares how many records a check has found in each tree with the directory, and the trees
    /// of a table with each other. Returns the number of tuples.
    pub(crate) fn check_counts(
        &self,
        directory: &Directory,
        counts: &[u64],
    ) -> Result<u64, EngineError> {
        for (tree, count) in counts.iter().enumerate() {
            let (table, _) = self.owner(tree);
            if *count != directory.tuples[usize::from(table)] {
                return Err(Bad::Damaged { what: "number of tuples", at: *count }.into());
            }
        }
        Ok(directory.tuples.iter().sum())
    }
}

/// A secondary index leads to a tuple that is not there.
pub(crate) fn dangling() -> EngineError {
    Bad::Damaged { what: "secondary index", at: 0 }.into()
}

fn bytes<'a>(bound: &'a Bound<TableKey>, narrow: &'a mut [u8; 8]) -> Bound<&'a [u8]> {
    match bound {
        Bound::Unbounded => Bound::Unbounded,
        Bound::Included(key) => Bound::Included(key.bytes(narrow)),
        Bound::Excluded(key) => Bound::Excluded(key.bytes(narrow)),
    }
}
