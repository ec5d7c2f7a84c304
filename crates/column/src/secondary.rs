//! Indexes: from a key to the newest version that has it and may count. They lie in ordinary memory, and
//! are built again after opening, from the newest row down.
//!
//! An entry in the primary key's index is the newest version of its key. In a secondary index a version
//! that was replaced by one with another key stands under its own: whoever comes to it looks for the one
//! that it sees, which may have that key or not.
//!
//! A row is used again when nobody sees its version any more, so its id says nothing of when it was made.
//! While an index is built, of two versions that were there when the store was opened the newer one
//! counts; whoever finds nothing, or a version that has ended, looks through the rows that are not built
//! yet (P4 4.4).

use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};

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

    /// Makes this row the newest of its key.
    pub(crate) fn set(&mut self, key: Vec<u8>, row: u64) {
        self.rows.insert(key, row);
    }

    /// Takes a key out.
    pub(crate) fn remove(&mut self, key: &[u8]) {
        self.rows.remove(key);
    }

    /// The number of keys in it.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Up to `many` keys of a range, with their newest versions, from its start or from its end.
    pub(crate) fn some(&self, range: &KeyRange, many: usize) -> Vec<(Vec<u8>, u64)> {
        if range.is_empty() {
            return Vec::new();
        }
        let owned = |(key, row): (&Vec<u8>, &u64)| (key.clone(), *row);
        let found = self.rows.range::<[u8], _>((as_slice(&range.low), as_slice(&range.high)));
        if range.backward {
            found.rev().take(many).map(owned).collect()
        } else {
            found.take(many).map(owned).collect()
        }
    }
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

/// A range of keys of an index, and from which end it is gone through.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyRange {
    /// The lower bound.
    pub low: Bound<Vec<u8>>,
    /// The upper bound.
    pub high: Bound<Vec<u8>>,
    /// True to come to the highest key first.
    pub backward: bool,
}

impl KeyRange {
    /// All keys, from the lowest one on.
    pub const ALL: Self = Self { low: Bound::Unbounded, high: Bound::Unbounded, backward: false };

    /// The keys that begin with these bytes.
    pub(crate) fn starting_with(start: &[u8]) -> Self {
        let mut end = start.to_vec();
        while end.last() == Some(&0xff) {
            end.pop();
        }
        let high = match end.last_mut() {
            Some(last) => {
                *last += 1;
                Bound::Excluded(end)
            }
            None => Bound::Unbounded,
        };
        Self { low: Bound::Included(start.to_vec()), high, backward: false }
    }

    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        (as_slice(&self.low), as_slice(&self.high)).contains(key)
    }

    fn is_empty(&self) -> bool {
        let (Bound::Included(low) | Bound::Excluded(low)) = &self.low else { return false };
        match &self.high {
            Bound::Unbounded => false,
            Bound::Included(high) if matches!(self.low, Bound::Included(_)) => low > high,
            Bound::Included(high) | Bound::Excluded(high) => low >= high,
        }
    }

    /// The rest of the range behind `last`.
    pub(crate) fn go_on_behind(&mut self, last: Vec<u8>) {
        *(if self.backward { &mut self.high } else { &mut self.low }) = Bound::Excluded(last);
    }
}
