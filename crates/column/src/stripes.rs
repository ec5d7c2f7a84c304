//! Stripes: a latch for the keys that share a hash. Whoever changes the newest version of a key has it
//! until the change is published.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::RwLockWriteGuard;

use crate::latch::{Latch, Waiting};

const STRIPES: usize = 256;

#[derive(Debug)]
pub(crate) struct Stripes(Box<[Latch<()>]>);

impl Stripes {
    pub(crate) fn new(waiting: &Waiting) -> Self {
        Self((0..STRIPES).map(|_| Latch::new((), waiting)).collect())
    }

    pub(crate) fn take(&self, table: usize, key: &[u8]) -> RwLockWriteGuard<'_, ()> {
        let hash = BuildHasherDefault::<DefaultHasher>::new().hash_one((table, key));
        self.0[hash as usize % STRIPES].write()
    }
}
