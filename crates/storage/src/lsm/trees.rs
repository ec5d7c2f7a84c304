//! The ordered sets of keys of a partition, and the keys of all of them in one order.

use std::ops::Bound;
use std::sync::Arc;

use index::{NodeShape, WIDE_KEY_BYTES};

use crate::error::StorageError;
use crate::rows::catalog::{Catalog, KeyLayout};
use crate::rows::key::TableKey;
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

    /// Bytes of the longest key as runs have it.
    pub(crate) fn longest_key(&self) -> u64 {
        let widths = (0..self.trees.len()).map(|tree| self.keys(tree as u16).width as u64);
        TREE_BYTES as u64 + widths.max().unwrap_or(0)
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
