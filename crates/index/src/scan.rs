//! Range scans in both directions.
//!
//! Leaves have no pointers to their neighbours: a scan goes down again for each leaf, to the key
//! that the separators on the way named as the next one. So a split has one node less to change.
//!
//! A [`Cursor`] is a scan that its owner drives, one entry at a time: several of them can be
//! merged. It borrows nothing, and stays valid while its tree does not change.

use std::ops::{Bound, ControlFlow};

use pm::{Bad, Memory};

use crate::btree::BTree;
use crate::key::Key;
use crate::layout::keys_of;
use crate::leaf::LeafLayout;

/// The direction of a scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// The scan goes from the lowest key to the highest.
    Forward,
    /// The scan goes from the highest key to the lowest.
    Backward,
}

/// A scan of one tree, entry by entry.
#[derive(Debug)]
pub struct Cursor<K> {
    low: Bound<K>,
    high: Bound<K>,
    direction: Direction,
    /// The rest of the leaf that was read last, in key order, from `at` on in the scan's.
    entries: Vec<(K, u64, usize)>,
    at: usize,
    done: bool,
}

impl<K: Key> Cursor<K> {
    /// A cursor over a range of keys.
    pub fn new((low, high): (Bound<K>, Bound<K>), direction: Direction) -> Self {
        Self { low, high, direction, entries: Vec::new(), at: 0, done: false }
    }

    /// The next entry; the cursor stays where it is.
    ///
    /// # Errors
    /// A damaged node.
    #[inline]
    pub fn peek<M: Memory, L: LeafLayout>(
        &mut self,
        memory: &M,
        tree: &BTree<K, L>,
    ) -> Result<Option<(&K, u64)>, Bad> {
        while self.at == self.entries.len() {
            if self.done {
                return Ok(None);
            }
            self.next_leaf(memory, tree)?;
        }
        let index = match self.direction {
            Direction::Forward => self.at,
            Direction::Backward => self.entries.len() - 1 - self.at,
        };
        let (key, value, _) = &self.entries[index];
        Ok(Some((key, *value)))
    }

    /// Goes past the entry that [`Self::peek`] gave.
    #[inline]
    pub fn advance(&mut self) {
        self.at += 1;
    }

    fn next_leaf<M: Memory, L: LeafLayout>(
        &mut self,
        memory: &M,
        tree: &BTree<K, L>,
    ) -> Result<(), Bad> {
        let forward = self.direction == Direction::Forward;
        let range = (&self.low, &self.high);
        self.at = 0;
        let beyond = tree.leaf_in_range(memory, range, forward, &mut self.entries)?;
        let Some(next) = beyond else {
            self.done = true;
            return Ok(());
        };
        if forward {
            make_progress(&self.low, &next, true)?;
            self.low = Bound::Included(next);
        } else {
            make_progress(&self.high, &next, false)?;
            self.high = Bound::Excluded(next);
        }
        self.done = is_empty(&self.low, &self.high);
        Ok(())
    }
}

impl<K: Key, L: LeafLayout> BTree<K, L> {
    /// Calls `visit` with every key of the range and its value, in order, until it breaks.
    ///
    /// # Errors
    /// A damaged node, or what `visit` breaks with.
    pub fn scan<M: Memory, B>(
        &self,
        memory: &M,
        range: (Bound<K>, Bound<K>),
        direction: Direction,
        mut visit: impl FnMut(&K, u64) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, Bad> {
        let mut cursor = Cursor::new(range, direction);
        while let Some((key, value)) = cursor.peek(memory, self)? {
            if let ControlFlow::Break(stop) = visit(key, value) {
                return Ok(ControlFlow::Break(stop));
            }
            cursor.advance();
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The entries of the first leaf of the range, and the key at which the next leaf begins or,
    /// backwards, at which this one does.
    fn leaf_in_range<M: Memory>(
        &self,
        memory: &M,
        (low, high): (&Bound<K>, &Bound<K>),
        forward: bool,
        entries: &mut Vec<(K, u64, usize)>,
    ) -> Result<Option<K>, Bad> {
        let mut beyond = None;
        let choose = |node: &M::View<'_>| match (forward, low, high) {
            (true, Bound::Included(key) | Bound::Excluded(key), _) => {
                self.child_for(node, key, false)
            }
            (true, Bound::Unbounded, _) => 0,
            (false, _, Bound::Included(key)) => self.child_for(node, key, false),
            (false, _, Bound::Excluded(key)) => self.child_for(node, key, true),
            (false, _, Bound::Unbounded) => keys_of(node),
        };
        let leaf = self.descend(memory, choose, |_, index, node| {
            let separator = if forward { Some(index) } else { index.checked_sub(1) };
            if let Some(separator) = separator.filter(|separator| *separator < keys_of(node)) {
                let at = self.shape.key_at(separator);
                beyond = Some(K::read(node, at, self.shape.width));
            }
        })?;
        // What is out of range is not even sorted.
        self.sorted_entries_of(&memory.view(self.shape.range(leaf))?, entries, |key| {
            let above = match low {
                Bound::Included(low) => key >= low,
                Bound::Excluded(low) => key > low,
                Bound::Unbounded => true,
            };
            above
                && match high {
                    Bound::Included(high) => key <= high,
                    Bound::Excluded(high) => key < high,
                    Bound::Unbounded => true,
                }
        });
        Ok(beyond)
    }
}

/// Returns an error if a scan makes no progress: in a damaged tree the separators might send a scan
/// back and forth for ever.
fn make_progress<K: Key>(from: &Bound<K>, next: &K, forward: bool) -> Result<(), Bad> {
    let moved = match from {
        Bound::Included(key) | Bound::Excluded(key) if forward => next > key,
        Bound::Included(key) => next <= key,
        Bound::Excluded(key) => next < key,
        Bound::Unbounded => true,
    };
    if moved { Ok(()) } else { Err(Bad::Damaged { what: "tree separators", at: 0 }) }
}

fn is_empty<K: Ord>(low: &Bound<K>, high: &Bound<K>) -> bool {
    match (low, high) {
        (Bound::Included(low), Bound::Included(high)) => low > high,
        (
            Bound::Included(low) | Bound::Excluded(low),
            Bound::Excluded(high) | Bound::Included(high),
        ) => low >= high,
        _ => false,
    }
}
