//! Indexes, which find a tuple: a B+tree over any memory, and a Bloom filter.
//!
//! One [`BTree`] serves both worlds: where it lives is its memory, how a leaf keeps its entries is
//! its [`LeafLayout`]: [`Sorted`] for volatile memory, [`Append`] for non-volatile memory, which
//! can be used at once after a crash (P1 4.1). `docs/format/btree.md` draws the nodes and lists
//! the store that commits each change.
//!
//! [`clock`] is what caches are made of.
//!
//! [`cow`] is the other tree: copy-on-write (P1 3.2, 4.2), over [`pages`] of a file or of a heap, which
//! know no tree.

#![forbid(unsafe_code)]

pub mod bloom;
mod btree;
mod bulk;
mod check;
pub mod clock;
pub mod cow;
mod error;
mod inner;
mod key;
mod layout;
mod leaf;
mod merge;
pub mod pages;
mod scan;
mod split;

pub use bloom::Bloom;
pub use btree::{BTree, Prepared};
pub use bulk::LeafEntry;
pub use check::TreeUse;
pub use error::IndexError;
pub use key::{Key, LongKey, MAX_KEY_BYTES, WIDE_KEY_BYTES, WideKey};
pub use layout::NodeShape;
pub use leaf::{Append, LeafLayout, Sorted};
pub use scan::{Cursor, Direction};
