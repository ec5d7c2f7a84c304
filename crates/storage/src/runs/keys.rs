//! Keys of runs: numbers on the fast path, everything else in memcomparable bytes. Operations on a
//! run are written once, for all forms.

use index::{Append, BTree, Cursor, Key, LongKey, WideKey, bloom};

use crate::rows::key::TableKey;
use crate::table::TableIndex;

/// A key that the trees of a run can have.
pub(crate) trait RunKey: Key {
    /// The tree of such keys.
    fn tree(index: &TableIndex<Append>) -> &BTree<Self, Append>;
    /// The tree of such keys, to be changed.
    fn tree_mut(index: &mut TableIndex<Append>) -> &mut BTree<Self, Append>;
    /// The cursors over such trees.
    fn cursors(cursors: &mut Cursors) -> &mut Vec<Cursor<Self>>;
    /// New cursors over such trees.
    fn new_cursors(cursors: Vec<Cursor<Self>>) -> Cursors;
    /// Returns what a filter knows the key by, in one table.
    fn hash(&self) -> u64;
    /// The key, which has this form.
    fn of(key: TableKey) -> Self;
    /// The key, whatever its form.
    fn table_key(&self) -> TableKey;
    /// Adds the words that a partial entry has for its key.
    fn push_words(&self, out: &mut Vec<u64>);
    /// The key with these stored bytes.
    fn from_stored(bytes: &[u8], width: usize) -> Self;
    /// The key whose memcomparable bytes, of `width` with the padding, start with these.
    fn from_encoded(bytes: &[u8], width: usize) -> Self;
}

/// Cursors over trees of one form.
#[derive(Debug)]
pub(crate) enum Cursors {
    Narrow(Vec<Cursor<u64>>),
    Wide(Vec<Cursor<WideKey>>),
    Long(Vec<Cursor<LongKey>>),
}

/// The part of [`RunKey`] that only takes apart and puts together enums by their variant for a
/// form.
macro_rules! by_variant {
    ($variant:ident) => {
        #[inline]
        fn tree(index: &TableIndex<Append>) -> &BTree<Self, Append> {
            match index {
                TableIndex::$variant(tree) => tree,
                _ => unreachable!("a key has the form of its index"),
            }
        }

        #[inline]
        fn tree_mut(index: &mut TableIndex<Append>) -> &mut BTree<Self, Append> {
            match index {
                TableIndex::$variant(tree) => tree,
                _ => unreachable!("a key has the form of its index"),
            }
        }

        fn cursors(cursors: &mut Cursors) -> &mut Vec<Cursor<Self>> {
            match cursors {
                Cursors::$variant(cursors) => cursors,
                _ => unreachable!("a cursor has the form of its tree"),
            }
        }

        fn new_cursors(cursors: Vec<Cursor<Self>>) -> Cursors {
            Cursors::$variant(cursors)
        }

        fn of(key: TableKey) -> Self {
            match key {
                TableKey::$variant(key) => key,
                _ => unreachable!("a key has the form of its index"),
            }
        }

        fn table_key(&self) -> TableKey {
            TableKey::$variant(Self::clone(self))
        }
    };
}

/// The part of [`RunKey`] that deals with a key's bytes, for forms that are nothing but bytes.
macro_rules! by_bytes {
    () => {
        fn hash(&self) -> u64 {
            bloom::hash(self.as_bytes())
        }

        fn push_words(&self, out: &mut Vec<u64>) {
            let (words, _) = self.as_bytes().as_chunks::<8>();
            out.extend(words.iter().map(|word| u64::from_le_bytes(*word)));
        }

        fn from_stored(bytes: &[u8], width: usize) -> Self {
            Self::new(bytes, width)
        }

        fn from_encoded(bytes: &[u8], width: usize) -> Self {
            Self::new(bytes, width)
        }
    };
}

impl RunKey for u64 {
    by_variant!(Narrow);

    #[inline]
    fn hash(&self) -> u64 {
        bloom::hash(&self.to_be_bytes())
    }

    fn push_words(&self, out: &mut Vec<u64>) {
        out.push(*self);
    }

    fn from_stored(bytes: &[u8], _: usize) -> Self {
        let mut word = [0u8; 8];
        word.copy_from_slice(&bytes[..8]);
        Self::from_le_bytes(word)
    }

    fn from_encoded(bytes: &[u8], _: usize) -> Self {
        crate::rows::key::packed_bytes(bytes)
    }
}

impl RunKey for WideKey {
    by_variant!(Wide);
    by_bytes!();
}

impl RunKey for LongKey {
    by_variant!(Long);
    by_bytes!();
}

/// Returns what the filter of a run knows a key of table `table` by.
#[inline]
pub(crate) fn filter_hash<K: RunKey>(table: usize, key: &K) -> u64 {
    key.hash() ^ (table as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Runs `$body` with the key, whatever its form.
macro_rules! by_form {
    ($key:expr, $inner:ident => $body:expr) => {
        match $key {
            $crate::rows::key::TableKey::Narrow($inner) => $body,
            $crate::rows::key::TableKey::Wide($inner) => $body,
            $crate::rows::key::TableKey::Long($inner) => $body,
        }
    };
}
pub(crate) use by_form;

/// Runs `$body` with `$form` the form of the keys of an index.
macro_rules! by_layout {
    ($keys:expr, $form:ident => $body:expr) => {
        if $keys.narrow {
            type $form = u64;
            $body
        } else if $keys.is_long() {
            type $form = index::LongKey;
            $body
        } else {
            type $form = index::WideKey;
            $body
        }
    };
}
pub(crate) use by_layout;
