//! Giving space back after removals.
//!
//! A leaf that is less than a quarter full goes together with a neighbour under the same parent,
//! if both fit into three quarters of one leaf (or one is empty); inner nodes likewise (or one has
//! an only child), up to a root with one child, which the child replaces. All of it is one mini-transaction, and settled when it returns: its
//! words may be changed again at once.

use std::ops::Bound;

use heap::{HeapError, Lane};
use pm::{Bad, LineSet, Memory};

use crate::btree::{BTree, Path};
use crate::error::IndexError;
use crate::inner::Inner;
use crate::key::Key;
use crate::layout::height_of;
use crate::leaf::{LeafLayout, put_entry};
use crate::scan::{Cursor, Direction};

/// No removal takes so many steps; but in a damaged tree each might be followed by another.
const MOST_MERGES: usize = 1 << 12;

/// Says how full a leaf may become that takes in another.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fill {
    /// A leaf may become three quarters full, and only where one is nearly empty: it soon takes
    /// more.
    Ample,
    /// A leaf may become wholly full.
    Whole,
}

impl<K: Key, L: LeafLayout> BTree<K, L> {
    /// Takes nodes away around the place where `key` was removed, if that is worthwhile. To be
    /// called after the removal is final; it makes its own fences.
    ///
    /// # Errors
    /// A damaged node, or no room for a copy of an inner node: then nothing has changed, and the
    /// next removal nearby tries again.
    #[inline]
    pub fn tidy<M: Memory>(&mut self, lane: &mut Lane<M>, key: &K) -> Result<(), IndexError> {
        let memory = lane.memory();
        let leaf = self.descend(memory, |node| self.child_for(node, key, false), |_, _, _| {})?;
        let entries = L::count(&memory.view(self.shape.range(leaf))?, &self.shape);
        if entries * 4 >= self.shape.leaf_capacity {
            return Ok(());
        }
        self.merge_all(lane, key, Fill::Ample)
    }

    /// As [`Self::tidy`], but leaves go together whenever both fit into one: for a tree that takes
    /// no more entries around `key`, or where there is no room for other nodes.
    ///
    /// # Errors
    /// As [`Self::tidy`].
    #[cold]
    pub fn compact<M: Memory>(&mut self, lane: &mut Lane<M>, key: &K) -> Result<(), IndexError> {
        self.merge_all(lane, key, Fill::Whole)
    }

    /// Does the like of [`Self::compact`] at the first leaf that has a key beyond `after`, or at the
    /// first one of all; returns its last key, if there is such a leaf. A lack of room is no error.
    ///
    /// # Errors
    /// A damaged node.
    #[cold]
    pub fn compact_next<M: Memory>(
        &mut self,
        lane: &mut Lane<M>,
        after: Option<&K>,
    ) -> Result<Option<K>, IndexError> {
        let low = after.map_or(Bound::Unbounded, |after| Bound::Excluded(after.clone()));
        let mut cursor = Cursor::new((low, Bound::Unbounded), Direction::Forward);
        let Some((key, _)) = cursor.peek(lane.memory(), self)? else { return Ok(None) };
        let key = key.clone();
        match self.compact(lane, &key) {
            Ok(()) | Err(IndexError::Heap(HeapError::Full(_))) => {}
            Err(error) => return Err(error),
        }
        let path = self.path(lane.memory(), &key)?;
        let mut entries = std::mem::take(&mut self.scratch.entries);
        self.sorted_entries(&lane.memory().view(self.shape.range(path.leaf))?, &mut entries);
        let last = entries.last().map(|entry| entry.0.clone());
        self.scratch.entries = entries;
        Ok(last)
    }

    fn merge_all<M: Memory>(
        &mut self,
        lane: &mut Lane<M>,
        key: &K,
        fill: Fill,
    ) -> Result<(), IndexError> {
        // A leaf that was an only child has neighbours once its parent has been joined: again.
        for _ in 0..MOST_MERGES {
            if !self.merge(lane, key, fill)? {
                break;
            }
        }
        Ok(())
    }

    /// Makes the tree around `key` smaller by one step; returns whether it could.
    #[cold]
    fn merge<M: Memory>(
        &mut self,
        lane: &mut Lane<M>,
        key: &K,
        fill: Fill,
    ) -> Result<bool, IndexError> {
        let mut lines = LineSet::new();
        self.scratch.fresh.clear();
        let merged = self.try_merge(lane, key, fill, &mut lines);
        if matches!(merged, Ok(true)) {
            lane.mini_commit(&mut lines);
            lane.fence_flushed();
        } else {
            self.abandon(lane);
        }
        merged
    }

    fn try_merge<M: Memory>(
        &mut self,
        lane: &mut Lane<M>,
        key: &K,
        fill: Fill,
        lines: &mut LineSet,
    ) -> Result<bool, IndexError> {
        let path = self.path(lane.memory(), key)?;
        let leaf = lane.memory().view(self.shape.range(path.leaf))?;
        if fill == Fill::Ample && L::count(&leaf, &self.shape) * 4 >= self.shape.leaf_capacity {
            return Ok(false);
        }
        let Some(((parent, index), above)) = path.steps().split_last() else { return Ok(false) };
        let mut inner = std::mem::take(&mut self.scratch.left);
        inner.read(lane.memory(), (*parent, 1), &self.shape)?;
        let index = usize::from(*index);
        // The neighbour to the right, else the one to the left.
        for left in [index, index.wrapping_sub(1)] {
            if left < inner.keys.len()
                && self.merge_leaves(
                    lane,
                    (inner.children[left], inner.children[left + 1]),
                    fill,
                    lines,
                )?
            {
                inner.keys.remove(left);
                inner.children.remove(left + 1);
                lane.mini_free(*parent)?;
                let result = self.shrink_parents(lane, &path, &mut inner, lines);
                self.scratch.left = inner;
                result?;
                return self.persist_fresh(lane);
            }
        }
        let mut joined = false;
        if inner.keys.is_empty() && !above.is_empty() {
            // The leaf is an only child: its parent goes together with a neighbour of its own.
            lane.mini_free(*parent)?;
            joined = self.shrink_parents(lane, &path, &mut inner, lines)?;
        }
        self.scratch.left = inner;
        if joined { self.persist_fresh(lane) } else { Ok(false) }
    }

    fn persist_fresh<M: Memory>(&mut self, lane: &mut Lane<M>) -> Result<bool, IndexError> {
        for node in &self.scratch.fresh {
            lane.mini_persist(*node)?;
        }
        Ok(true)
    }

    /// Moves all entries of `right` into free slots of `left`, if there is room.
    fn merge_leaves<M: Memory>(
        &mut self,
        lane: &mut Lane<M>,
        (left, right): (u64, u64),
        fill: Fill,
        lines: &mut LineSet,
    ) -> Result<bool, IndexError> {
        let memory = lane.memory().clone();
        let shape = self.shape;
        let (from, to) = (memory.view(shape.range(right))?, memory.view(shape.range(left))?);
        let lower = height_of(&from, right, &shape)? == 0 && height_of(&to, left, &shape)? == 0;
        if !lower {
            return Err(Bad::Damaged { what: "leaf", at: left }.into());
        }
        let (moving, staying) = (L::count(&from, &shape), L::count(&to, &shape));
        let room = match fill {
            Fill::Ample => shape.leaf_capacity * 3 / 4,
            Fill::Whole => shape.leaf_capacity,
        };
        if moving + staying > room && moving > 0 && staying > 0 {
            return Ok(false);
        }
        let mut entries = std::mem::take(&mut self.scratch.entries);
        self.sorted_entries(&from, &mut entries);
        let mut used = vec![false; shape.leaf_capacity];
        L::slots(&to, &shape, |slot| used[slot] = true);
        let mut free = (0..shape.leaf_capacity).filter(|slot| !used[*slot]).collect::<Vec<_>>();
        free.truncate(moving);
        for ((key, value, _), slot) in entries.iter().zip(&free) {
            put_entry(&memory, left, &shape, *slot, (key, *value), lines);
        }
        self.scratch.entries = entries;
        for slot in free {
            used[slot] = true;
        }
        let mut words = [0u64; 16];
        let words = &mut words[..shape.occupancy_words];
        L::occupancy((0..shape.leaf_capacity).filter(|slot| used[*slot]), words);
        for (index, word) in words.iter().enumerate() {
            lane.mini_store(Self::occupancy_cell(left, index), *word);
        }
        lane.mini_free(right)?;
        Ok(true)
    }

    /// Writes `inner`, the changed parent of the leaf, and what follows from it further up.
    /// Returns whether an inner node was joined with another, or the root was replaced.
    fn shrink_parents<M: Memory>(
        &mut self,
        lane: &mut Lane<M>,
        path: &Path,
        inner: &mut Inner<K>,
        lines: &mut LineSet,
    ) -> Result<bool, IndexError> {
        let shape = self.shape;
        let mut steps = &path.steps()[..path.steps().len() - 1];
        let mut image = std::mem::take(&mut self.scratch.image);
        let mut other = std::mem::take(&mut self.scratch.right);
        let mut smaller = false;
        loop {
            let Some(((parent, index), above)) = steps.split_last() else {
                let root = if inner.keys.is_empty() {
                    inner.children[0]
                } else {
                    let root = inner.write(lane, &shape, &mut image, lines)?;
                    self.scratch.fresh.push(root);
                    root
                };
                lane.mini_store(self.root_cell, root);
                smaller |= inner.keys.is_empty();
                break;
            };
            let mut grown = Inner::default();
            grown.read(lane.memory(), (*parent, path.depth - above.len()), &shape)?;
            let joined = (inner.keys.len() * 4 < shape.inner_capacity)
                .then(|| {
                    join_with_sibling(
                        lane.memory(),
                        &shape,
                        inner,
                        &mut other,
                        &mut grown,
                        usize::from(*index),
                    )
                })
                .transpose()?
                .flatten();
            let copy = inner.write(lane, &shape, &mut image, lines)?;
            self.scratch.fresh.push(copy);
            let Some((place, sibling)) = joined else {
                lane.mini_store(self.pointer_above(steps), copy);
                break;
            };
            smaller = true;
            lane.mini_free(sibling)?;
            lane.mini_free(*parent)?;
            grown.children[place] = copy;
            *inner = grown;
            steps = above;
        }
        self.scratch.image = image;
        self.scratch.right = other;
        Ok(smaller)
    }
}

/// Takes a sibling of `inner`, which is child `index` of `parent`, into it, if both fit into three
/// quarters of a node. Returns where in the parent the joined node belongs, and the sibling.
fn join_with_sibling<K: Key, M: Memory>(
    memory: &M,
    shape: &crate::NodeShape,
    inner: &mut Inner<K>,
    other: &mut Inner<K>,
    parent: &mut Inner<K>,
    index: usize,
) -> Result<Option<(usize, u64)>, Bad> {
    for left in [index, index.wrapping_sub(1)] {
        if left >= parent.keys.len() {
            continue;
        }
        let sibling = parent.children[if left == index { left + 1 } else { left }];
        other.read(memory, (sibling, inner.height), shape)?;
        let only_child = inner.keys.is_empty() || other.keys.is_empty();
        let room = shape.inner_capacity * if only_child { 4 } else { 3 } / 4;
        if inner.keys.len() + other.keys.len() + 1 > room {
            continue;
        }
        let separator = parent.keys.remove(left);
        parent.children.remove(left + 1);
        if left != index {
            std::mem::swap(inner, other);
        }
        inner.keys.push(separator);
        inner.keys.append(&mut other.keys);
        inner.children.append(&mut other.children);
        return Ok(Some((left, sibling)));
    }
    Ok(None)
}
