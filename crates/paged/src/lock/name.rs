//! The names of what is locked.

use std::hash::{BuildHasher, Hash, Hasher};

use foldhash::quality::FixedState;
use rustc_hash::FxHasher;

use crate::ids::TreeNo;

/// A table, or a row of it with the gap before its key.
///
/// A row's name holds 64 bits that follow from its key. Two keys with the same bits share their
/// locks: transactions may wait for each other that need not, and nothing else comes of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Name {
    /// The table.
    Table(TreeNo),
    /// The row with a key of these bits.
    Row(TreeNo, u64),
    /// The end of the table: there is no row, only the gap before it.
    End(TreeNo),
}

impl Name {
    /// The row with this key.
    pub fn row(tree: TreeNo, key: &[u8]) -> Self {
        let mut hasher = FixedState::default().build_hasher();
        hasher.write(key);
        Self::Row(tree, hasher.finish())
    }

    /// The number of the table.
    pub(super) fn tree(self) -> TreeNo {
        match self {
            Self::Table(tree) | Self::Row(tree, _) | Self::End(tree) => tree,
        }
    }

    /// Bits by which names are spread.
    pub(super) fn bits(self) -> u64 {
        let mut hasher = FxHasher::default();
        self.hash(&mut hasher);
        hasher.finish()
    }
}
