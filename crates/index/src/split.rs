//! Splitting a full leaf.
//!
//! 1. The upper half of the entries goes into a fresh leaf `R`; an entry beyond the end of the
//!    whole tree gets an empty `R` instead, so that ascending keys leave full leaves.
//! 2. The parent gets a copy with one key and one child more; where it is full, it becomes two
//!    copies, and its own parent is changed likewise, up to a new root.
//! 3. One mini-transaction: the fresh nodes become persisted, the replaced inner nodes free, the
//!    leaf's occupancy loses the upper half, and the pointer above the topmost change moves.

use heap::{Lane, Purpose};
use pm::{Bad, LineSet, Memory, Off, Range};

use crate::btree::{BTree, Path};
use crate::error::IndexError;
use crate::inner::Inner;
use crate::key::Key;
use crate::layout::{OCCUPANCY_AT, header, keys_of};
use crate::leaf::LeafLayout;

impl<K: Key, L: LeafLayout> BTree<K, L> {
    /// Splits the full leaf that `key` belongs to and returns the one it belongs to now.
    #[cold]
    #[track_caller]
    pub(crate) fn split<M: Memory>(
        &mut self,
        lane: &mut Lane<M>,
        key: &K,
    ) -> Result<u64, IndexError> {
        let mut lines = LineSet::new();
        self.scratch.fresh.clear();
        match self.try_split(lane, key, &mut lines) {
            Ok(leaf) => {
                lane.mini_commit(&mut lines);
                Ok(leaf)
            }
            Err(error) => {
                self.abandon(lane);
                Err(error)
            }
        }
    }

    /// Gives the nodes back that were allocated for a change that will not be made.
    pub(crate) fn abandon<M: Memory>(&mut self, lane: &mut Lane<M>) {
        lane.mini_cancel();
        while let Some(node) = self.scratch.fresh.pop() {
            lane.release(node);
        }
    }

    fn try_split<M: Memory>(
        &mut self,
        lane: &mut Lane<M>,
        key: &K,
        lines: &mut LineSet,
    ) -> Result<u64, IndexError> {
        let path = self.path(lane.memory(), key)?;
        let mut entries = std::mem::take(&mut self.scratch.entries);
        self.sorted_entries(&lane.memory().view(self.shape.range(path.leaf))?, &mut entries);
        let at_the_end = self.is_rightmost(lane.memory(), &path)?
            && entries.last().is_some_and(|last| last.0 < *key);
        let keep = if at_the_end { entries.len() } else { entries.len() / 2 };
        let separator = entries.get(keep).map_or(key, |entry| &entry.0).clone();
        let goes_left = *key < separator;
        let result = self.split_at(lane, &path, (&entries, keep), separator, lines);
        self.scratch.entries = entries;
        let right = result?;
        Ok(if goes_left { path.leaf } else { right })
    }

    fn split_at<M: Memory>(
        &mut self,
        lane: &mut Lane<M>,
        path: &Path,
        (entries, keep): (&[(K, u64, usize)], usize),
        separator: K,
        lines: &mut LineSet,
    ) -> Result<u64, IndexError> {
        let right = self.write_leaf(lane, &entries[keep..], lines)?;
        let mut words = [0u64; 16];
        let words = &mut words[..self.shape.occupancy_words];
        L::occupancy(entries[..keep].iter().map(|entry| entry.2), words);
        for (index, word) in words.iter().enumerate() {
            lane.mini_store(Self::occupancy_cell(path.leaf, index), *word);
        }
        self.add_to_parents(lane, path, separator, right, lines)?;
        for index in 0..self.scratch.fresh.len() {
            lane.mini_persist(self.scratch.fresh[index])?;
        }
        Ok(right)
    }

    /// Returns whether the path takes the last child everywhere.
    fn is_rightmost<M: Memory>(&self, memory: &M, path: &Path) -> Result<bool, Bad> {
        for (at, index) in path.steps() {
            if usize::from(*index) != keys_of(&memory.view(self.shape.range(*at))?) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes a fresh leaf with these entries.
    pub(crate) fn write_leaf<M: Memory>(
        &mut self,
        lane: &mut Lane<M>,
        entries: &[(K, u64, usize)],
        lines: &mut LineSet,
    ) -> Result<u64, IndexError> {
        let shape = self.shape;
        let at = lane.allocate(shape.node_bytes as u64, Purpose::Index)?;
        self.scratch.fresh.push(at);
        let image = &mut self.scratch.image;
        image.clear();
        image.resize(shape.entry_at(entries.len()), 0);
        image[..8].copy_from_slice(&header(0).to_le_bytes());
        let mut words = [0u64; 16];
        L::occupancy(0..entries.len(), &mut words[..shape.occupancy_words]);
        for (index, word) in words[..shape.occupancy_words].iter().enumerate() {
            image[OCCUPANCY_AT + index * 8..][..8].copy_from_slice(&word.to_le_bytes());
        }
        for (slot, (key, value, _)) in entries.iter().enumerate() {
            let entry = &mut image[shape.entry_at(slot)..][..shape.entry_bytes()];
            key.write(&mut entry[..shape.width]);
            entry[shape.width..].copy_from_slice(&value.to_le_bytes());
        }
        lane.memory().copy(Off::new(at), image);
        lines.add(Range::new(at, image.len() as u64));
        Ok(at)
    }

    /// Adds `right`, whose keys start at `separator`, after the last node of `path`.
    pub(crate) fn add_to_parents<M: Memory>(
        &mut self,
        lane: &mut Lane<M>,
        path: &Path,
        mut separator: K,
        mut right: u64,
        lines: &mut LineSet,
    ) -> Result<(), IndexError> {
        let shape = self.shape;
        let mut left = path.leaf;
        let mut steps = path.steps();
        while let Some(((parent, index), above)) = steps.split_last() {
            let (index, height) = (usize::from(*index), path.depth - above.len());
            let inner = &mut self.scratch.left;
            inner.read(lane.memory(), (*parent, height), &shape)?;
            if index > inner.keys.len() {
                return Err(Bad::Damaged { what: "inner node", at: *parent }.into());
            }
            inner.children[index] = left;
            inner.keys.insert(index, separator);
            inner.children.insert(index + 1, right);
            lane.mini_free(*parent)?;
            if inner.keys.len() <= shape.inner_capacity {
                let copy = inner.write(lane, &shape, &mut self.scratch.image, lines)?;
                self.scratch.fresh.push(copy);
                lane.mini_store(self.pointer_above(above), copy);
                return Ok(());
            }
            let middle = inner.keys.len() / 2;
            let upper = &mut self.scratch.right;
            upper.height = inner.height;
            upper.keys.clear();
            upper.keys.extend(inner.keys.drain(middle + 1..));
            upper.children.clear();
            upper.children.extend(inner.children.drain(middle + 1..));
            separator = inner.keys.pop().ok_or(Bad::Damaged { what: "inner node", at: *parent })?;
            left = inner.write(lane, &shape, &mut self.scratch.image, lines)?;
            self.scratch.fresh.push(left);
            right = upper.write(lane, &shape, &mut self.scratch.image, lines)?;
            self.scratch.fresh.push(right);
            steps = above;
        }
        let root = Inner {
            height: path.steps().len() + 1,
            keys: vec![separator],
            children: vec![left, right],
        };
        let at = root.write(lane, &shape, &mut self.scratch.image, lines)?;
        self.scratch.fresh.push(at);
        lane.mini_store(self.root_cell, at);
        Ok(())
    }

    /// The word that points to the node below the last of `steps`.
    pub(crate) fn pointer_above(&self, steps: &[(u64, u16)]) -> Off<u64> {
        match steps.last() {
            Some((node, index)) => Off::new(node + self.shape.child_at(usize::from(*index)) as u64),
            None => self.root_cell,
        }
    }
}
