//! Inner nodes: they never change in place, so a change takes one out and writes another.

use heap::{Lane, Purpose};
use pm::{Bad, LineSet, Memory, Off, Range, View};

use crate::error::IndexError;
use crate::key::Key;
use crate::layout::{NodeShape, OCCUPANCY_AT, header, keys_of};

/// An inner node, taken out of its memory to be changed.
#[derive(Debug)]
pub(crate) struct Inner<K> {
    pub(crate) height: usize,
    pub(crate) keys: Vec<K>,
    pub(crate) children: Vec<u64>,
}

impl<K> Default for Inner<K> {
    fn default() -> Self {
        Self { height: 0, keys: Vec::new(), children: Vec::new() }
    }
}

impl<K: Key> Inner<K> {
    /// Reads the node at `at`, which must have this height. It had when it was met on the way down;
    /// but if the allocator's bits are damaged, a node that was written since may lie in its place.
    pub(crate) fn read<M: Memory>(
        &mut self,
        memory: &M,
        (at, height): (u64, usize),
        shape: &NodeShape,
    ) -> Result<(), Bad> {
        let node = memory.view(shape.range(at))?;
        self.height = crate::layout::height_of(&node, at, shape)?;
        if self.height != height || height == 0 {
            return Err(Bad::Damaged { what: "tree node height", at });
        }
        let keys = keys_of(&node);
        self.keys.clear();
        self.children.clear();
        self.keys.extend((0..keys).map(|i| K::read(&node, shape.key_at(i), shape.width)));
        self.children.extend((0..=keys).map(|i| node.word(shape.child_at(i))));
        Ok(())
    }

    /// Writes the node as a fresh one and returns where.
    #[track_caller]
    pub(crate) fn write<M: Memory>(
        &self,
        lane: &mut Lane<M>,
        shape: &NodeShape,
        image: &mut Vec<u8>,
        lines: &mut LineSet,
    ) -> Result<u64, IndexError> {
        let at = lane.allocate(shape.node_bytes as u64, Purpose::Index)?;
        image.clear();
        image.resize(shape.node_bytes, 0);
        image[..8].copy_from_slice(&header(self.height).to_le_bytes());
        image[OCCUPANCY_AT..][..8].copy_from_slice(&(self.keys.len() as u64).to_le_bytes());
        for (index, key) in self.keys.iter().enumerate() {
            key.write(&mut image[shape.key_at(index)..][..shape.width]);
        }
        for (index, child) in self.children.iter().enumerate() {
            image[shape.child_at(index)..][..8].copy_from_slice(&child.to_le_bytes());
        }
        lane.memory().copy(Off::new(at), image);
        lines.add(Range::new(at, shape.node_bytes as u64));
        Ok(at)
    }
}
