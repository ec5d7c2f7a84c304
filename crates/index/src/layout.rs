//! The layout of a node in memory: `docs/format/btree.md` draws it.
//!
//! ```text
//! leaf:  [magic, height 0][occupancy: 1 or more words][entry: key, value] * capacity
//! inner: [magic, height  ][number of keys            ][key] * capacity [child] * (capacity + 1)
//! ```

use pm::{Bad, Range, View};

use crate::error::IndexError;

const MAGIC: u64 = u32::from_le_bytes(*b"PDBN") as u64;

/// Nodes lie on lines.
pub(crate) const NODE_ALIGN: u64 = 64;
/// The highest tree that is believed: 2^40 leaves need less.
pub(crate) const MAX_HEIGHT: usize = 40;
/// Entries that one word of the occupancy speaks for.
pub(crate) const PER_WORD: usize = 64;
/// The place where a leaf's occupancy words and an inner node's number of keys start.
pub(crate) const OCCUPANCY_AT: usize = 8;
const INNER_KEYS_AT: usize = 16;

const _: () = assert!(INNER_KEYS_AT == OCCUPANCY_AT + 8);

/// Node size and key width of a tree, and what follows from them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeShape {
    /// Bytes of a node.
    pub node_bytes: usize,
    /// Bytes of a key: a multiple of 8.
    pub width: usize,
    /// Entries that a leaf can have.
    pub leaf_capacity: usize,
    /// Keys that an inner node can have; it has one child more.
    pub inner_capacity: usize,
    pub(crate) occupancy_words: usize,
    pub(crate) entries_at: usize,
}

impl NodeShape {
    /// The shape of nodes of `node_bytes` bytes, a power of two from 64 to 16,384, with keys
    /// of `width` bytes, a multiple of 8.
    ///
    /// # Errors
    /// A leaf or an inner node could hold fewer than two keys.
    pub fn new(node_bytes: u32, width: u32) -> Result<Self, IndexError> {
        let impossible = IndexError::NodeSize { node_bytes, key_bytes: width };
        let sound = node_bytes.is_power_of_two() && (64..=1 << 14).contains(&node_bytes);
        if !sound || width == 0 || !width.is_multiple_of(8) {
            return Err(impossible);
        }
        let (node_bytes, width) = (node_bytes as usize, width as usize);
        let entry = width + 8;
        let entries_at = |words: usize| (OCCUPANCY_AT + words * 8).next_multiple_of(16);
        let mut words = 1;
        while (node_bytes.saturating_sub(entries_at(words))) / entry > words * PER_WORD {
            words += 1;
        }
        let leaf_capacity = node_bytes.saturating_sub(entries_at(words)) / entry;
        let inner_capacity = node_bytes.saturating_sub(INNER_KEYS_AT + 8) / entry;
        if leaf_capacity < 2 || inner_capacity < 2 {
            return Err(impossible);
        }
        Ok(Self {
            node_bytes,
            width,
            leaf_capacity,
            inner_capacity,
            occupancy_words: words,
            entries_at: entries_at(words),
        })
    }

    /// Bytes of a leaf entry.
    #[inline]
    pub(crate) fn entry_bytes(&self) -> usize {
        self.width + 8
    }

    /// Returns where entry `slot` of a leaf starts.
    #[inline]
    pub(crate) fn entry_at(&self, slot: usize) -> usize {
        self.entries_at + slot * self.entry_bytes()
    }

    /// Returns where key `index` of an inner node starts.
    #[inline]
    pub(crate) fn key_at(&self, index: usize) -> usize {
        INNER_KEYS_AT + index * self.width
    }

    /// Returns where child `index` of an inner node starts.
    #[inline]
    pub(crate) fn child_at(&self, index: usize) -> usize {
        INNER_KEYS_AT + self.inner_capacity * self.width + index * 8
    }

    /// The bytes of the node at `at`.
    #[inline]
    pub(crate) fn range(&self, at: u64) -> Range {
        Range::new(at, self.node_bytes as u64)
    }
}

pub(crate) fn header(height: usize) -> u64 {
    MAGIC | (height as u64) << 32
}

/// The height of a node, checked: the magic number stands there, and an inner node's number of
/// keys is possible.
#[inline]
pub(crate) fn height_of<V: View>(node: &V, at: u64, shape: &NodeShape) -> Result<usize, Bad> {
    let word = node.word(0);
    let height = (word >> 32) as usize;
    let sound = word as u32 == MAGIC as u32
        && height <= MAX_HEIGHT
        && (height == 0 || keys_of(node) <= shape.inner_capacity);
    if sound { Ok(height) } else { Err(Bad::Damaged { what: "tree node", at }) }
}

/// The number of keys of an inner node.
#[inline]
pub(crate) fn keys_of<V: View>(node: &V) -> usize {
    usize::try_from(node.word(OCCUPANCY_AT)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_layout() {
        let shape = NodeShape::new(512, 8).unwrap();
        assert_eq!((shape.leaf_capacity, shape.inner_capacity), (31, 30));
        assert_eq!((shape.entries_at, shape.occupancy_words), (16, 1));
        assert_eq!(shape.child_at(31), 504);
        for node_bytes in [64, 128, 256, 1024, 4096, 16384] {
            let shape = NodeShape::new(node_bytes, 8).unwrap();
            assert!(shape.entry_at(shape.leaf_capacity) <= shape.node_bytes);
            assert!(shape.child_at(shape.inner_capacity + 1) <= shape.node_bytes);
            assert!(shape.leaf_capacity <= shape.occupancy_words * PER_WORD);
        }
        assert!(NodeShape::new(64, 64).is_err());
        assert!(NodeShape::new(32 << 10, 8).is_err());
        assert!(NodeShape::new(100, 8).is_err());
        assert!(NodeShape::new(512, 12).is_err());
    }
}
