//! The primary key's index: from a key to its newest version that may count. It lies in ordinary
//! memory, and is built again after opening, from the newest row down.
//!
//! `raise` goes upwards only: rows of a key are made in the order of their ids, so it can be done
//! again, and in any order. What is in the index is therefore the newest version of its key, and
//! whoever finds nothing looks through the rows that are not built yet (P4 4.4).

use std::collections::BTreeMap;
use std::ops::Bound;

#[derive(Debug, Default)]
pub(crate) struct KeyIndex {
    rows: BTreeMap<Vec<u8>, u64>,
    /// The rows from 1 to below this one are not in it.
    pub(crate) unbuilt: u64,
}

impl KeyIndex {
    /// An index of nothing yet, of a table that had `opened` rows.
    pub(crate) fn new(opened: u64) -> Self {
        Self { rows: BTreeMap::new(), unbuilt: opened.max(1) }
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<u64> {
        self.rows.get(key).copied()
    }

    /// Makes this row the newest of its key, unless a newer one is.
    pub(crate) fn raise(&mut self, key: Vec<u8>, row: u64) {
        let newest = self.rows.entry(key).or_insert(row);
        *newest = row.max(*newest);
    }

    /// The number of keys in it.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Up to `many` keys from `start` on, with their newest versions.
    pub(crate) fn some_from(&self, start: Bound<&[u8]>, many: usize) -> Vec<(Vec<u8>, u64)> {
        let range = self.rows.range::<[u8], _>((start, Bound::Unbounded));
        range.take(many).map(|(key, row)| (key.clone(), *row)).collect()
    }
}
