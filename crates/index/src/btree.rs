//! The B+tree: search, insertion in two steps, removal.
//!
//! Invariants:
//! - A child is exactly one level lower than its parent; child `i` holds the keys `k` with
//!   `key[i - 1] <= k < key[i]`.
//! - Inner nodes never change in place but for one child pointer: a change makes a copy.
//! - Every change of structure is one mini-transaction (`heap`), so after a crash the tree is as
//!   it was before or after; every change of an entry is one 8-byte store of an occupancy word.
//!
//! Inserting is two steps, so that an engine can put its log entry between them and pay one fence
//! for both (P1 Table 2: sync tuple, sync log entry, then add to the index):
//! 1. [`BTree::prepare`] finds the leaf, splits it if it is full, and writes the entry so that
//!    no search sees it.
//! 2. [`BTree::publish`] makes it count, once it is durable.
//!
//! Removing never takes nodes away: [`BTree::tidy`] does, after the transaction has committed, so
//! that undoing a removal always finds room.

use std::marker::PhantomData;
use std::sync::atomic::Ordering::Acquire;

use heap::{Lane, Purpose};
use pm::{Bad, Component, Durable, LineSet, Memory, Off, Range, View, observe};

use crate::error::IndexError;
use crate::inner::Inner;
use crate::key::Key;
use crate::layout::{MAX_HEIGHT, NODE_ALIGN, NodeShape, OCCUPANCY_AT, header, height_of, keys_of};
use crate::leaf::{LeafLayout, value_at};

/// A B+tree from keys to 8-byte values, whose root pointer lives in a word of the memory.
#[derive(Debug)]
pub struct BTree<K, L> {
    pub(crate) root_cell: Off<u64>,
    pub(crate) shape: NodeShape,
    pub(crate) scratch: Scratch<K>,
    layout: PhantomData<L>,
}

/// Buffers that changes of structure reuse.
#[derive(Debug)]
pub(crate) struct Scratch<K> {
    pub(crate) entries: Vec<(K, u64, usize)>,
    pub(crate) image: Vec<u8>,
    pub(crate) left: Inner<K>,
    pub(crate) right: Inner<K>,
    /// Nodes that were allocated for a change that is not committed yet.
    pub(crate) fresh: Vec<u64>,
}

/// An entry that has been written but does not count yet. To be published before anything else is
/// done to its tree.
#[derive(Debug)]
pub struct Prepared {
    pub(crate) leaf: u64,
    pub(crate) slot: usize,
}

/// The way from the root to a leaf: each inner node with the index of the child that was taken.
#[derive(Debug)]
pub(crate) struct Path {
    pub(crate) steps: [(u64, u16); MAX_HEIGHT],
    pub(crate) depth: usize,
    pub(crate) leaf: u64,
}

impl Path {
    pub(crate) fn steps(&self) -> &[(u64, u16)] {
        &self.steps[..self.depth]
    }
}

impl<K: Key, L: LeafLayout> BTree<K, L> {
    /// Creates an empty tree whose root pointer will live at `root_cell`. It is there, durably, when
    /// this returns; a fence must come before the root pointer changes in another way.
    ///
    /// # Errors
    /// The memory is full, or the shape impossible.
    pub fn create<M: Memory>(
        lane: &mut Lane<M>,
        root_cell: Off<u64>,
        shape: NodeShape,
    ) -> Result<Self, IndexError> {
        let root = lane.allocate(shape.node_bytes as u64, Purpose::Index)?;
        let memory = lane.memory().clone();
        let mut lines = LineSet::new();
        let mut bytes = vec![0u8; shape.entries_at];
        bytes[..8].copy_from_slice(&header(0).to_le_bytes());
        memory.copy(Off::new(root), &bytes);
        lines.add(Range::new(root, bytes.len() as u64));
        lane.mini_store(root_cell, root);
        lane.mini_persist(root)?;
        lane.mini_commit(&mut lines);
        Ok(Self::open(root_cell, shape))
    }

    /// The tree whose root pointer lives at `root_cell`. Reads nothing.
    pub fn open(root_cell: Off<u64>, shape: NodeShape) -> Self {
        Self {
            root_cell,
            shape,
            scratch: Scratch {
                entries: Vec::new(),
                image: Vec::new(),
                left: Inner::default(),
                right: Inner::default(),
                fresh: Vec::new(),
            },
            layout: PhantomData,
        }
    }

    /// Returns where the root pointer lives.
    pub fn root_cell(&self) -> Off<u64> {
        self.root_cell
    }

    /// The sizes of the tree's nodes.
    pub fn shape(&self) -> &NodeShape {
        &self.shape
    }

    /// Goes down to a leaf; `child` chooses at each inner node, `step` sees each choice.
    #[inline]
    pub(crate) fn descend<M: Memory>(
        &self,
        memory: &M,
        mut choose: impl FnMut(&M::View<'_>) -> usize,
        mut step: impl FnMut(u64, usize, &M::View<'_>),
    ) -> Result<u64, Bad> {
        observe!(M: memory.enter(Component::Index));
        let mut at = memory.load(self.root_cell, Acquire)?;
        let mut above = None;
        loop {
            if !at.is_multiple_of(NODE_ALIGN) {
                return Err(Bad::Misaligned { at, align: NODE_ALIGN });
            }
            let node = memory.view(self.shape.range(at))?;
            let height = height_of(&node, at, &self.shape)?;
            // Heights fall by one a level, so a cycle cannot keep anyone here.
            if above.is_some_and(|above| above != height + 1) {
                return Err(Bad::Damaged { what: "tree node height", at });
            }
            if height == 0 {
                return Ok(at);
            }
            let index = choose(&node);
            step(at, index, &node);
            let child = node.word(self.shape.child_at(index));
            if height == 1 {
                memory.prefetch(self.shape.range(child));
            }
            at = child;
            above = Some(height);
        }
    }

    /// Returns which child of an inner node holds `key`: the number of keys that are at most `key`,
    /// or, if `below`, less than `key`.
    #[inline]
    pub(crate) fn child_for<V: View>(&self, node: &V, key: &K, below: bool) -> usize {
        key.child(node, self.shape.key_at(0), keys_of(node), self.shape.width, below)
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// A damaged node.
    #[inline]
    pub fn get<M: Memory>(&self, memory: &M, key: &K) -> Result<Option<u64>, Bad> {
        let leaf = self.descend(memory, |node| self.child_for(node, key, false), |_, _, _| {})?;
        let node = memory.view(self.shape.range(leaf))?;
        Ok(L::find(&node, &self.shape, key).map(|slot| value_at(&node, &self.shape, slot)))
    }

    pub(crate) fn path<M: Memory>(&self, memory: &M, key: &K) -> Result<Path, Bad> {
        let mut path = Path { steps: [(0, 0); MAX_HEIGHT], depth: 0, leaf: 0 };
        let (steps, depth) = (&mut path.steps, &mut path.depth);
        path.leaf = self.descend(
            memory,
            |node| self.child_for(node, key, false),
            |at, index, _| {
                steps[*depth] = (at, index as u16);
                *depth += 1;
            },
        )?;
        Ok(path)
    }

    /// Writes an entry that does not count yet, splitting a full leaf before. The entry's lines
    /// are added to `lines`; a split brings two fences of its own.
    ///
    /// # Errors
    /// The key is there already, or no room for a node; no reader sees a change.
    #[expect(clippy::needless_pass_by_value, reason = "most keys are numbers")]
    #[inline]
    #[track_caller]
    pub fn prepare<M: Memory>(
        &mut self,
        lane: &mut Lane<M>,
        key: K,
        value: u64,
        lines: &mut LineSet,
    ) -> Result<Prepared, IndexError> {
        let memory = lane.memory();
        let leaf = self.descend(memory, |node| self.child_for(node, &key, false), |_, _, _| {})?;
        let node = memory.view(self.shape.range(leaf))?;
        if let Some(slot) = L::find(&node, &self.shape, &key) {
            let value = value_at(&node, &self.shape, slot);
            return Err(IndexError::Duplicate { value });
        }
        if let Some(slot) = L::write(memory, leaf, &self.shape, &key, value, lines)? {
            return Ok(Prepared { leaf, slot });
        }
        let leaf = self.split(lane, &key)?;
        let memory = lane.memory();
        let slot = L::write(memory, leaf, &self.shape, &key, value, lines)?
            .ok_or(Bad::Damaged { what: "leaf after a split", at: leaf })?;
        Ok(Prepared { leaf, slot })
    }

    /// Makes a prepared entry count, by one 8-byte store in `Append` leaves. The caller announces to
    /// an observer that this is the index.
    ///
    /// # Errors
    /// A damaged node.
    #[inline]
    #[track_caller]
    pub fn publish<M: Memory>(
        &mut self,
        memory: &M,
        prepared: Durable<Prepared>,
        lines: &mut LineSet,
    ) -> Result<(), Bad> {
        let Prepared { leaf, slot } = prepared.into_inner();
        L::publish::<K, M>(memory, leaf, &self.shape, slot, lines)
    }

    /// Gives `key` another value, by one 8-byte store, if it has the value `expected`; returns
    /// whether it had. If not, the leaf's lines are in `lines` all the same: what was found there
    /// may have been stored by a process that was killed before it was durable.
    ///
    /// # Errors
    /// A damaged node.
    #[inline]
    #[track_caller]
    pub fn replace_if<M: Memory>(
        &mut self,
        memory: &M,
        key: &K,
        expected: u64,
        value: u64,
        lines: &mut LineSet,
    ) -> Result<bool, Bad> {
        let leaf = self.descend(memory, |node| self.child_for(node, key, false), |_, _, _| {})?;
        let node = memory.view(self.shape.range(leaf))?;
        let shape = &self.shape;
        let found = L::find(&node, shape, key);
        let Some(slot) = found.filter(|slot| value_at(&node, shape, *slot) == expected) else {
            lines.add(shape.range(leaf));
            return Ok(false);
        };
        let at = Off::new(leaf + (shape.entry_at(slot) + shape.width) as u64);
        memory.store(at, value);
        lines.add(at.range());
        Ok(true)
    }

    /// Removes `key` if its value is `expected`; returns whether it was there. One 8-byte store
    /// in `Append` leaves. Gives no space back: see [`Self::tidy`]. `lines` as for
    /// [`Self::replace_if`].
    ///
    /// # Errors
    /// A damaged node.
    #[inline]
    #[track_caller]
    pub fn remove<M: Memory>(
        &mut self,
        memory: &M,
        key: &K,
        expected: u64,
        lines: &mut LineSet,
    ) -> Result<bool, Bad> {
        let leaf = self.descend(memory, |node| self.child_for(node, key, false), |_, _, _| {})?;
        let node = memory.view(self.shape.range(leaf))?;
        match L::find(&node, &self.shape, key) {
            Some(slot) if value_at(&node, &self.shape, slot) == expected => {
                L::remove(memory, leaf, &self.shape, slot, lines)?;
                Ok(true)
            }
            _ => {
                lines.add(self.shape.range(leaf));
                Ok(false)
            }
        }
    }

    /// Adds the lines of the leaf that `key` belongs to: undoing found there what it would have
    /// stored, which is durable only when they are flushed and fenced.
    ///
    /// # Errors
    /// A damaged node.
    pub fn add_leaf_lines<M: Memory>(
        &self,
        memory: &M,
        key: &K,
        lines: &mut LineSet,
    ) -> Result<(), Bad> {
        let leaf = self.descend(memory, |node| self.child_for(node, key, false), |_, _, _| {})?;
        lines.add(self.shape.range(leaf));
        Ok(())
    }

    /// Gives `key` another value, by one 8-byte store; returns the one it had. `None`: there is no
    /// such key, and nothing has changed.
    ///
    /// # Errors
    /// A damaged node.
    #[inline]
    #[track_caller]
    pub fn replace<M: Memory>(
        &mut self,
        memory: &M,
        key: &K,
        value: u64,
        lines: &mut LineSet,
    ) -> Result<Option<u64>, Bad> {
        let leaf = self.descend(memory, |node| self.child_for(node, key, false), |_, _, _| {})?;
        let node = memory.view(self.shape.range(leaf))?;
        let Some(slot) = L::find(&node, &self.shape, key) else { return Ok(None) };
        let old = value_at(&node, &self.shape, slot);
        let at = Off::<u64>::new(leaf + (self.shape.entry_at(slot) + self.shape.width) as u64);
        memory.store(at, value);
        lines.add(at.range());
        Ok(Some(old))
    }

    /// Fills `entries` with the leaf's entries in key order.
    pub(crate) fn sorted_entries<V: View>(&self, node: &V, entries: &mut Vec<(K, u64, usize)>) {
        self.sorted_entries_of(node, entries, |_| true);
    }

    /// As [`Self::sorted_entries`], those whose key is `wanted`.
    pub(crate) fn sorted_entries_of<V: View>(
        &self,
        node: &V,
        entries: &mut Vec<(K, u64, usize)>,
        wanted: impl Fn(&K) -> bool,
    ) {
        entries.clear();
        let shape = &self.shape;
        L::slots(node, shape, |slot| {
            let key = K::read(node, shape.entry_at(slot), shape.width);
            if wanted(&key) {
                entries.push((key, value_at(node, shape, slot), slot));
            }
        });
        if !L::SORTED {
            entries.sort_unstable_by(|one, two| one.0.cmp(&two.0));
        }
    }

    /// The occupancy word number `index` of the leaf at `leaf`.
    pub(crate) fn occupancy_cell(leaf: u64, index: usize) -> Off<u64> {
        Off::new(leaf + (OCCUPANCY_AT + index * 8) as u64)
    }
}
