//! Stripes: a latch for all keys that share a hash. A statement that changes the newest version of a key holds the
//! key's stripe until the change is published.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use crate::latch::{Latch, Waiting};
use crate::sync::RwLockWriteGuard;

const STRIPES: usize = 256;

#[derive(Debug)]
pub(crate) struct Stripes(Box<[Latch<()>]>);

impl Stripes {
    pub(crate) fn new(waiting: &Waiting) -> Self {
        Self((0..STRIPES).map(|_| Latch::new((), waiting)).collect())
    }

    /// The stripe of a key of an index.
    pub(crate) fn of(table: usize, index: usize, key: &[u8]) -> usize {
        let hash = BuildHasherDefault::<DefaultHasher>::new().hash_one((table, index, key));
        hash as usize % STRIPES
    }

    /// Takes a stripe, unless another thread has it.
    pub(crate) fn try_take(&self, stripe: usize) -> Option<RwLockWriteGuard<'_, ()>> {
        self.0[stripe].try_write()
    }

    /// Takes these stripes, each once and in order, so that threads which take several cannot deadlock.
    pub(crate) fn take(&self, mut stripes: Vec<usize>) -> Vec<RwLockWriteGuard<'_, ()>> {
        stripes.sort_unstable();
        stripes.dedup();
        stripes.into_iter().map(|stripe| self.0[stripe].write()).collect()
    }
}
