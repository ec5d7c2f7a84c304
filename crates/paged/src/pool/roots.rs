//! The roots of trees that are known, so that an operation does not look for its tree in the
//! catalog. A root stays where it is for as long as there is the tree.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::ids::{PageNo, TreeNo};

/// Trees whose roots are kept together.
const CHUNK: usize = 256;
/// Chunks: the roots of trees with greater numbers are not kept.
const CHUNKS: usize = 256;
const UNKNOWN: u64 = 0;

/// The roots of some trees, by their numbers.
#[derive(Debug)]
pub(crate) struct Roots {
    chunks: Box<[OnceLock<Box<[AtomicU64]>>]>,
}

impl Roots {
    /// No root is known.
    pub(super) fn new() -> Self {
        Self { chunks: (0..CHUNKS).map(|_| OnceLock::new()).collect() }
    }

    /// Returns the root of a tree, if it is known.
    #[inline]
    pub(crate) fn get(&self, tree: TreeNo) -> Option<PageNo> {
        let number = tree.0 as usize;
        let root = self.chunks.get(number / CHUNK)?.get()?[number % CHUNK].load(Ordering::Acquire);
        (root != UNKNOWN).then_some(PageNo(root))
    }

    /// Notes the root of a tree that there is.
    pub(crate) fn set(&self, tree: TreeNo, root: PageNo) {
        let number = tree.0 as usize;
        let Some(chunk) = self.chunks.get(number / CHUNK) else { return };
        let roots = chunk.get_or_init(|| (0..CHUNK).map(|_| AtomicU64::new(UNKNOWN)).collect());
        roots[number % CHUNK].store(root.0, Ordering::Release);
    }

    /// Forgets the root of a tree, which is no more. Only the transaction that created it has known
    /// it.
    pub(crate) fn forget(&self, tree: TreeNo) {
        if self.get(tree).is_some() {
            self.set(tree, PageNo(UNKNOWN));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_known_until_its_tree_is_gone() {
        let roots = Roots::new();
        let last = TreeNo((CHUNK * CHUNKS - 1) as u32);
        for tree in [TreeNo(0), TreeNo(17), last] {
            assert_eq!(roots.get(tree), None);
            roots.set(tree, PageNo(u64::from(tree.0) + 3));
            assert_eq!(roots.get(tree), Some(PageNo(u64::from(tree.0) + 3)));
        }
        roots.forget(TreeNo(17));
        assert_eq!((roots.get(TreeNo(17)), roots.get(TreeNo(16))), (None, None));
        assert_eq!(roots.get(last), Some(PageNo(u64::from(last.0) + 3)));
        let beyond = TreeNo(last.0 + 1);
        roots.set(beyond, PageNo(9));
        assert_eq!(roots.get(beyond), None, "it is looked for each time");
    }
}
