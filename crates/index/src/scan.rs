//! Range scans in both directions.
//!
//! Leaves have no pointers to their neighbours: a scan goes down again for each leaf, to the key
//! that the separators on the way named as the next one. So a split has one node less to change.

use std::ops::{Bound, ControlFlow};

use pm::{Bad, Memory};

use crate::btree::BTree;
use crate::key::Key;
use crate::layout::keys_of;
use crate::leaf::LeafLayout;

/// Which way a scan goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From the lowest key to the highest.
    Forward,
    /// From the highest key to the lowest.
    Backward,
}

impl<K: Key, L: LeafLayout> BTree<K, L> {
    /// Calls `visit` with every key of the range and its value, in order, until it breaks.
    ///
    /// # Errors
    /// A damaged node, or what `visit` breaks with.
    pub fn scan<M: Memory, B>(
        &self,
        memory: &M,
        (mut low, mut high): (Bound<K>, Bound<K>),
        direction: Direction,
        mut visit: impl FnMut(&K, u64) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, Bad> {
        let mut entries = Vec::new();
        loop {
            let forward = direction == Direction::Forward;
            let beyond = self.leaf_in_range(memory, (&low, &high), forward, &mut entries)?;
            let mut order = entries.iter();
            while let Some((key, value, _)) = if forward { order.next() } else { order.next_back() }
            {
                if let ControlFlow::Break(stop) = visit(key, *value) {
                    return Ok(ControlFlow::Break(stop));
                }
            }
            let Some(next) = beyond else { return Ok(ControlFlow::Continue(())) };
            if forward {
                make_progress(&low, &next, true)?;
                low = Bound::Included(next);
            } else {
                make_progress(&high, &next, false)?;
                high = Bound::Excluded(next);
            }
            if is_empty(&low, &high) {
                return Ok(ControlFlow::Continue(()));
            }
        }
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
        self.sorted_entries(&memory.view(self.shape.range(leaf))?, entries);
        entries.retain(|(key, _, _)| {
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

/// In a damaged tree the separators might send a scan back and forth for ever.
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
