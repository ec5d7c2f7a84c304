//! Keys of a fixed width: one word, or up to [`MAX_KEY_BYTES`] bytes in memcomparable encoding. Those
//! of at most [`WIDE_KEY_BYTES`] need no allocation.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use pm::View;

/// The widest key of an index, in bytes.
pub const MAX_KEY_BYTES: usize = 2048;

/// The widest [`WideKey`], in bytes; a wider key is a [`LongKey`].
pub const WIDE_KEY_BYTES: usize = 240;

/// A key of a tree. All keys of one tree have the same width, a multiple of eight bytes.
pub trait Key: Clone + Ord + fmt::Debug + Send + Sync + 'static {
    /// The key that is stored at byte `at` of a node.
    fn read<V: View>(node: &V, at: usize, width: usize) -> Self;
    /// Compares the key stored at byte `at` of a node with this one.
    fn stored_cmp<V: View>(&self, node: &V, at: usize, width: usize) -> Ordering;
    /// Stores the key into `out`, which has the tree's width.
    fn write(&self, out: &mut [u8]);
    /// Returns which child of an inner node belongs to this key: how many of its `count` keys from
    /// byte `at` on are at most this one or, if `below`, less than this one.
    fn child<V: View>(
        &self,
        node: &V,
        at: usize,
        count: usize,
        width: usize,
        below: bool,
    ) -> usize {
        let (mut low, mut size) = (0, count);
        while size > 0 {
            let half = size / 2;
            let order = self.stored_cmp(node, at + (low + half) * width, width);
            if order == Ordering::Less || (!below && order == Ordering::Equal) {
                low += half + 1;
                size -= half + 1;
            } else {
                size = half;
            }
        }
        low
    }

    /// A bit for each of `count` (at most 64) leaf entries from byte `at` on whose key equals this
    /// one.
    fn matches<V: View>(&self, leaf: &V, at: usize, count: usize, width: usize) -> u64;
}

impl Key for u64 {
    #[inline]
    fn read<V: View>(node: &V, at: usize, _: usize) -> Self {
        node.word(at)
    }

    #[inline]
    fn stored_cmp<V: View>(&self, node: &V, at: usize, _: usize) -> Ordering {
        node.word(at).cmp(self)
    }

    fn write(&self, out: &mut [u8]) {
        out.copy_from_slice(&self.to_le_bytes());
    }

    #[inline]
    fn child<V: View>(&self, node: &V, at: usize, count: usize, _: usize, below: bool) -> usize {
        match (below, self.checked_sub(1)) {
            (false, _) => node.rank(at, count, *self),
            (true, Some(less)) => node.rank(at, count, less),
            (true, None) => 0,
        }
    }

    #[inline]
    fn matches<V: View>(&self, leaf: &V, at: usize, count: usize, _: usize) -> u64 {
        // The whole leaf is looked at without a branch: its lines are fetched together, and no
        // comparison waits for another.
        leaf.matches(at, count, *self)
    }
}

/// A key of several words: a composite or a text in memcomparable encoding, padded with zeros to
/// the tree's width.
#[derive(Clone, Copy)]
pub struct WideKey {
    bytes: [u8; WIDE_KEY_BYTES],
    width: u8,
}

impl WideKey {
    /// The key with these bytes in a tree of keys of `width` bytes.
    ///
    /// # Panics
    /// The bytes do not fit into the width, or the width is more than [`WIDE_KEY_BYTES`].
    pub fn new(bytes: &[u8], width: usize) -> Self {
        assert!(bytes.len() <= width && width <= WIDE_KEY_BYTES, "the key fits its tree");
        let mut padded = [0; WIDE_KEY_BYTES];
        padded[..bytes.len()].copy_from_slice(bytes);
        Self { bytes: padded, width: width as u8 }
    }

    /// The key of `width` zeros, to be filled in through [`Self::bytes_mut`].
    ///
    /// # Panics
    /// The width is more than [`WIDE_KEY_BYTES`].
    pub fn zeros(width: usize) -> Self {
        assert!(width <= WIDE_KEY_BYTES, "the width of a key");
        Self { bytes: [0; WIDE_KEY_BYTES], width: width as u8 }
    }

    /// The key's bytes, padding included.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..usize::from(self.width)]
    }

    /// Word `index` of the key, in the order in which words compare.
    #[inline]
    fn word(&self, index: usize) -> u64 {
        let bytes = self.bytes[index * 8..].first_chunk();
        bytes.map_or(0, |bytes| u64::from_be_bytes(*bytes))
    }

    /// The key's bytes, padding included.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.width)]
    }
}

impl Key for WideKey {
    fn read<V: View>(node: &V, at: usize, width: usize) -> Self {
        let mut key = Self::zeros(width);
        node.bytes(at, width).copy_to(key.bytes_mut());
        key
    }

    #[inline]
    fn stored_cmp<V: View>(&self, node: &V, at: usize, width: usize) -> Ordering {
        // Word by word: the keys of a node agree in their first columns, seldom in their last.
        (0..width / 8)
            .map(|index| node.word(at + index * 8).swap_bytes().cmp(&self.word(index)))
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    }

    fn write(&self, out: &mut [u8]) {
        out.copy_from_slice(self.as_bytes());
    }

    fn matches<V: View>(&self, leaf: &V, at: usize, count: usize, width: usize) -> u64 {
        // Most keys of a leaf differ in the last word.
        let last = self.word(width / 8 - 1);
        let mut found = 0;
        for index in 0..count {
            let entry = at + index * (width + 8);
            let equal = leaf.word(entry + width - 8).swap_bytes() == last
                && self.stored_cmp(leaf, entry, width).is_eq();
            found |= u64::from(equal) << index;
        }
        found
    }
}

impl Hash for WideKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl PartialEq for WideKey {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}
impl Eq for WideKey {}
impl PartialOrd for WideKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for WideKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}
impl fmt::Debug for WideKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(self.as_bytes(), f)
    }
}

/// A key that is too wide for a [`WideKey`], in an allocation of its own.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LongKey(Box<[u8]>);

impl LongKey {
    /// The key with these bytes in a tree of keys of `width` bytes.
    ///
    /// # Panics
    /// The bytes do not fit into the width, or the width is more than [`MAX_KEY_BYTES`].
    pub fn new(bytes: &[u8], width: usize) -> Self {
        assert!(bytes.len() <= width, "the key fits its tree");
        let mut key = Self::zeros(width);
        key.0[..bytes.len()].copy_from_slice(bytes);
        key
    }

    /// The key of `width` zeros, to be filled in through [`Self::bytes_mut`].
    ///
    /// # Panics
    /// The width is more than [`MAX_KEY_BYTES`].
    pub fn zeros(width: usize) -> Self {
        assert!(width <= MAX_KEY_BYTES, "the width of a key");
        Self(vec![0; width].into())
    }

    /// The key's bytes, padding included.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }

    /// The key's bytes, padding included.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Key for LongKey {
    fn read<V: View>(node: &V, at: usize, width: usize) -> Self {
        let mut key = Self::zeros(width);
        node.bytes(at, width).copy_to(key.bytes_mut());
        key
    }

    fn stored_cmp<V: View>(&self, node: &V, at: usize, width: usize) -> Ordering {
        node.bytes(at, width).compare(self.as_bytes())
    }

    fn write(&self, out: &mut [u8]) {
        out.copy_from_slice(self.as_bytes());
    }

    fn matches<V: View>(&self, leaf: &V, at: usize, count: usize, width: usize) -> u64 {
        (0..count)
            .filter(|index| self.stored_cmp(leaf, at + index * (width + 8), width).is_eq())
            .fold(0, |found, index| found | 1 << index)
    }
}

impl fmt::Debug for LongKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(self.as_bytes(), f)
    }
}

fn show(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}
