//! The page table: which frame has a page, in shards with a mutex each.
//!
//! A frame is pinned with its shard locked, so that a page without pins, seen with the shard
//! locked, is not in use and cannot become so.

use parking_lot::MutexGuard;
use rustc_hash::FxHashMap;

use crate::ids::PageNo;
use crate::latch::{Exclusive, Latching};

const SHARDS: usize = 64;

/// The pages of one shard, and their frames.
pub(super) type Shard = FxHashMap<PageNo, usize>;

#[derive(Debug)]
pub(super) struct Table<T> {
    shards: Box<[Exclusive<T, Shard>]>,
}

impl<T: Latching> Table<T> {
    pub(super) fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| Exclusive::new(Shard::default())).collect() }
    }

    pub(super) fn shard(&self, page: PageNo) -> MutexGuard<'_, Shard> {
        // Fibonacci hashing: neighbours go to different shards.
        let hash = page.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
        self.shards[hash as usize % SHARDS].lock()
    }
}
