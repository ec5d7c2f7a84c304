//! Keys of a fixed width: one word, or up to [`MAX_KEY_BYTES`] bytes in memcomparable encoding.

use std::cmp::Ordering;
use std::fmt;

use pm::View;

/// The widest key of an index, in bytes.
pub const MAX_KEY_BYTES: usize = 240;

/// A key of a tree. All keys of one tree have the same width, a multiple of eight bytes.
pub trait Key: Copy + Ord + fmt::Debug + Send + Sync + 'static {
    /// The key that is stored at byte `at` of a node.
    fn read<V: View>(node: &V, at: usize, width: usize) -> Self;
    /// How the key stored at byte `at` of a node compares with this one.
    fn stored_cmp<V: View>(&self, node: &V, at: usize, width: usize) -> Ordering;
    /// Stores the key into `out`, which has the tree's width.
    fn write(&self, out: &mut [u8]);
    /// A bit for each of `count` entries of `stride` bytes whose key equals this one.
    fn matches(&self, entries: &[u8], stride: usize) -> u64;
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
    fn matches(&self, entries: &[u8], _: usize) -> u64 {
        // The whole leaf is looked at without a branch: its lines are fetched together, and no
        // comparison waits for another.
        let (pairs, _) = entries.as_chunks::<16>();
        let mut found = 0;
        for (index, pair) in pairs.iter().enumerate() {
            let (key, _) = pair.split_at(8);
            let key = u64::from_le_bytes(key.try_into().unwrap_or_default());
            found |= u64::from(key == *self) << index;
        }
        found
    }
}

/// A key of several words: a composite or a text in memcomparable encoding, padded with zeros to
/// the tree's width.
#[derive(Clone, Copy)]
pub struct WideKey {
    bytes: [u8; MAX_KEY_BYTES],
    width: u8,
}

impl WideKey {
    /// The key with these bytes in a tree of keys of `width` bytes.
    ///
    /// # Panics
    /// The bytes do not fit into the width, or the width is more than [`MAX_KEY_BYTES`].
    pub fn new(bytes: &[u8], width: usize) -> Self {
        assert!(bytes.len() <= width && width <= MAX_KEY_BYTES, "the key fits its tree");
        let mut padded = [0; MAX_KEY_BYTES];
        padded[..bytes.len()].copy_from_slice(bytes);
        Self { bytes: padded, width: width as u8 }
    }

    /// The key's bytes, padding included.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.width)]
    }
}

impl Key for WideKey {
    fn read<V: View>(node: &V, at: usize, width: usize) -> Self {
        Self::new(node.bytes(at, width), width)
    }

    fn stored_cmp<V: View>(&self, node: &V, at: usize, width: usize) -> Ordering {
        node.bytes(at, width).cmp(self.as_bytes())
    }

    fn write(&self, out: &mut [u8]) {
        out.copy_from_slice(self.as_bytes());
    }

    fn matches(&self, entries: &[u8], stride: usize) -> u64 {
        let mut found = 0;
        for (index, entry) in entries.chunks_exact(stride).enumerate() {
            found |= u64::from(entry.starts_with(self.as_bytes())) << index;
        }
        found
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
        for byte in self.as_bytes() {
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}
