//! Walking over a whole tree: is it sound, and which nodes does it use?

use std::sync::atomic::Ordering::Acquire;

use pm::{Bad, Memory, View};

use crate::btree::BTree;
use crate::key::Key;
use crate::layout::{NODE_ALIGN, height_of, keys_of};
use crate::leaf::LeafLayout;

/// The parts that a tree consists of.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TreeUse {
    /// The places of its nodes.
    pub nodes: Vec<u64>,
    /// The number of its entries.
    pub entries: u64,
    /// Levels, leaves included.
    pub levels: usize,
}

impl<K: Key, L: LeafLayout> BTree<K, L> {
    /// Checks every node: heights, the order of keys, keys between their separators, no key twice.
    /// Calls `visit` with every entry.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check<M: Memory>(
        &self,
        memory: &M,
        mut visit: impl FnMut(&K, u64),
    ) -> Result<TreeUse, Bad> {
        let mut found = TreeUse::default();
        let mut previous: Option<K> = None;
        // (node, expected height, lower bound, upper bound), rightmost first.
        let mut todo = vec![(memory.load(self.root_cell, Acquire)?, None, None, None)];
        while let Some((at, expected, low, high)) = todo.pop() {
            let damaged = Bad::Damaged { what: "tree node", at };
            if !at.is_multiple_of(NODE_ALIGN) {
                return Err(Bad::Misaligned { at, align: NODE_ALIGN });
            }
            let node = memory.view(self.shape.range(at))?;
            let height = height_of(&node, at, &self.shape)?;
            if expected.is_some_and(|expected| expected != height) {
                return Err(damaged);
            }
            found.nodes.push(at);
            found.levels = found.levels.max(height + 1);
            let within = |key: &K| {
                low.as_ref().is_none_or(|low: &K| low <= key)
                    && high.as_ref().is_none_or(|high: &K| key < high)
            };
            if height == 0 {
                let mut entries = Vec::new();
                self.sorted_entries(&node, &mut entries);
                for (key, value, _) in &entries {
                    if !within(key) || previous.as_ref().is_some_and(|previous| previous >= key) {
                        return Err(damaged);
                    }
                    previous = Some(key.clone());
                    found.entries += 1;
                    visit(key, *value);
                }
                continue;
            }
            let keys: Vec<K> = (0..keys_of(&node))
                .map(|i| K::read(&node, self.shape.key_at(i), self.shape.width))
                .collect();
            if !keys.is_sorted_by(|a, b| a < b) || !keys.iter().all(within) {
                return Err(damaged);
            }
            for index in (0..=keys.len()).rev() {
                let low = if index == 0 { low.clone() } else { Some(keys[index - 1].clone()) };
                let high = keys.get(index).or(high.as_ref()).cloned();
                todo.push((node.word(self.shape.child_at(index)), Some(height - 1), low, high));
            }
        }
        Ok(found)
    }
}
