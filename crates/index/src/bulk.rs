//! Building a tree from sorted entries, leaf by leaf, and taking one apart.
//!
//! A run of a log-structured engine never changes once it is there: it is built from its lowest key
//! to its highest, and taken apart from its highest to its lowest. Each step is one
//! mini-transaction, and after each the tree is sound: a crash in between leaves a tree that can
//! be read, built further or taken apart further.
//!
//! A tree that is built or taken apart like this need not exist at first or at the end: its root
//! pointer is zero then.

use std::sync::atomic::Ordering::Acquire;

use heap::Lane;
use pm::{Bad, LineSet, Memory, Off};

use crate::btree::{BTree, Path};
use crate::error::IndexError;
use crate::key::Key;
use crate::layout::{MAX_HEIGHT, OCCUPANCY_AT, PER_WORD, keys_of};
use crate::leaf::{Append, LeafLayout, value_at};

/// An entry of a leaf that is to be written: key, value, and a place that does not matter here.
pub type LeafEntry<K> = (K, u64, usize);

impl<K: Key, L: LeafLayout> BTree<K, L> {
    /// Returns whether the tree has a root.
    ///
    /// # Errors
    /// The root pointer lies outside the memory.
    #[inline]
    pub fn exists<M: Memory>(&self, memory: &M) -> Result<bool, Bad> {
        Ok(memory.load(self.root_cell, Acquire)? != 0)
    }

    /// Adds a leaf with these entries, which are in order, beyond all that there are. Words that
    /// the caller has added to the lane's mini-transaction before change with it; it is committed,
    /// and `lines`, in which the caller may have others, with it. The next fence must come before
    /// one of the words changes again.
    ///
    /// # Errors
    /// No room, or damage: nothing has changed, and the mini-transaction is forgotten.
    ///
    /// # Panics
    /// There is no entry, or there are more than a leaf holds.
    #[track_caller]
    pub fn append_leaf<M: Memory>(
        &mut self,
        lane: &mut Lane<M>,
        entries: &[LeafEntry<K>],
        lines: &mut LineSet,
    ) -> Result<(), IndexError> {
        assert!(!entries.is_empty() && entries.len() <= self.shape.leaf_capacity);
        self.scratch.fresh.clear();
        match self.try_append(lane, entries, lines) {
            Ok(()) => {
                lane.mini_commit(lines);
                Ok(())
            }
            Err(error) => {
                self.abandon(lane);
                lines.clear();
                Err(error)
            }
        }
    }

    fn try_append<M: Memory>(
        &mut self,
        lane: &mut Lane<M>,
        entries: &[LeafEntry<K>],
        lines: &mut LineSet,
    ) -> Result<(), IndexError> {
        let first = entries[0].0.clone();
        let leaf = self.write_leaf(lane, entries, lines)?;
        if self.exists(lane.memory())? {
            let path = self.rightmost(lane.memory())?;
            self.add_to_parents(lane, &path, first, leaf, lines)?;
        } else {
            lane.mini_store(self.root_cell, leaf);
        }
        for index in 0..self.scratch.fresh.len() {
            lane.mini_persist(self.scratch.fresh[index])?;
        }
        Ok(())
    }

    /// The path to the last leaf.
    fn rightmost<M: Memory>(&self, memory: &M) -> Result<Path, Bad> {
        let mut path = Path { steps: [(0, 0); MAX_HEIGHT], depth: 0, leaf: 0 };
        let (steps, depth) = (&mut path.steps, &mut path.depth);
        path.leaf = self.descend(
            memory,
            |node| keys_of(node),
            |at, index, _| {
                steps[*depth] = (at, index as u16);
                *depth += 1;
            },
        )?;
        Ok(path)
    }

    /// Fills `entries` with those of the last leaf, in order; returns whether there is a leaf.
    ///
    /// # Errors
    /// A damaged node.
    pub fn last_leaf<M: Memory>(
        &self,
        memory: &M,
        entries: &mut Vec<LeafEntry<K>>,
    ) -> Result<bool, Bad> {
        entries.clear();
        if !self.exists(memory)? {
            return Ok(false);
        }
        let path = self.rightmost(memory)?;
        self.sorted_entries(&memory.view(self.shape.range(path.leaf))?, entries);
        Ok(true)
    }

    /// Takes the last leaf away, with the inner nodes that it was the only child of. Settled when
    /// it returns. Needs no room.
    ///
    /// # Errors
    /// Damage; nothing has changed then.
    #[track_caller]
    pub fn drop_last_leaf<M: Memory>(&mut self, lane: &mut Lane<M>) -> Result<(), Bad> {
        if let Err(bad) = self.try_drop_last(lane) {
            lane.mini_cancel();
            return Err(bad);
        }
        lane.mini_commit(&mut LineSet::new());
        lane.fence_flushed();
        Ok(())
    }

    fn try_drop_last<M: Memory>(&mut self, lane: &mut Lane<M>) -> Result<(), Bad> {
        let path = self.rightmost(lane.memory())?;
        lane.mini_free(path.leaf)?;
        for (node, last) in path.steps().iter().rev() {
            if let Some(keys) = last.checked_sub(1) {
                // One key less, and with it the last child.
                lane.mini_store(Off::new(node + OCCUPANCY_AT as u64), u64::from(keys));
                return Ok(());
            }
            lane.mini_free(*node)?;
        }
        lane.mini_store(self.root_cell, 0);
        Ok(())
    }
}

/// Changes of single entries that are part of the lane's mini-transaction.
impl<K: Key> BTree<K, Append> {
    /// Adds the removal of `key`, if its value is `expected`, to the mini-transaction; returns
    /// whether it was there.
    ///
    /// # Errors
    /// A damaged node.
    pub fn mini_remove<M: Memory>(
        &self,
        lane: &mut Lane<M>,
        key: &K,
        expected: u64,
    ) -> Result<bool, Bad> {
        let Some((leaf, slot)) = self.place_of(lane.memory(), key, expected)? else {
            return Ok(false);
        };
        let cell = Self::occupancy_cell(leaf, slot / PER_WORD);
        let bits = lane.memory().load(cell, Acquire)?;
        lane.mini_store(cell, bits & !(1 << (slot % PER_WORD)));
        Ok(true)
    }

    /// Adds another value for `key`, if it has the value `expected`, to the mini-transaction;
    /// returns whether it had.
    ///
    /// # Errors
    /// A damaged node.
    pub fn mini_replace<M: Memory>(
        &self,
        lane: &mut Lane<M>,
        key: &K,
        expected: u64,
        value: u64,
    ) -> Result<bool, Bad> {
        let Some((leaf, slot)) = self.place_of(lane.memory(), key, expected)? else {
            return Ok(false);
        };
        let at = leaf + (self.shape.entry_at(slot) + self.shape.width) as u64;
        lane.mini_store(Off::new(at), value);
        Ok(true)
    }

    /// The leaf and the slot of `key`, if it has the value `expected`.
    fn place_of<M: Memory>(
        &self,
        memory: &M,
        key: &K,
        expected: u64,
    ) -> Result<Option<(u64, usize)>, Bad> {
        let leaf = self.descend(memory, |node| self.child_for(node, key, false), |_, _, _| {})?;
        let node = memory.view(self.shape.range(leaf))?;
        let slot = Append::find(&node, &self.shape, key);
        let slot = slot.filter(|slot| value_at(&node, &self.shape, *slot) == expected);
        Ok(slot.map(|slot| (leaf, slot)))
    }
}
