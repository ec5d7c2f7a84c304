//! The blocks of SSTables that were read last, in volatile memory.
//!
//! Blocks are identified by file and place; files never change and numbers of files are never used
//! again, so nothing has to be invalidated. The cache is split into shards, each with its own lock,
//! which is held while a block is searched. A [`Clock`] chooses the block to evict.
//!
//! A block that is larger than a frame, such as one with a very large tuple, is read from the file
//! each time.

use std::fmt;
use std::hash::Hasher;
use std::sync::{Mutex, MutexGuard, PoisonError};

use heap::{Lane, Purpose};
use index::clock::{Clock, Mix};
use pm::{Bytes, Component, Memory, Off, Range, View, observe};

use super::block::{Block, Slice};
use super::error::LsmError;

const SHARDS: usize = 8;
/// The least number of frames of a shard: with fewer there is only one shard.
const FRAMES_PER_SHARD: usize = 16;

/// File and place of a block.
type Key = (u64, u64);

#[derive(Debug)]
struct Shard {
    frames: Clock<Key>,
    scratch: Vec<u8>,
}

/// A cache of blocks; see the module's comment.
#[derive(Debug)]
pub struct BlockCache<M: Memory> {
    memory: M,
    lane: Mutex<Lane<M>>,
    shards: Box<[Mutex<Shard>]>,
    frame_bytes: u64,
    frames_per_shard: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<M: Memory> BlockCache<M> {
    /// A cache of at most `bytes` bytes of blocks of at most `frame_bytes`, taken from `lane` as
    /// they are needed.
    pub fn new(lane: Lane<M>, bytes: u64, frame_bytes: u64) -> Self {
        let frame_bytes = frame_bytes.min(lane.heap().max_slot_bytes());
        let frames = (bytes / frame_bytes.max(1)) as usize;
        let shards = if frames < SHARDS * FRAMES_PER_SHARD { 1 } else { SHARDS };
        let frames_per_shard = frames / shards;
        let shard = || Shard { frames: Clock::new(frames_per_shard), scratch: Vec::new() };
        Self {
            memory: lane.memory().clone(),
            lane: Mutex::new(lane),
            shards: (0..shards).map(|_| Mutex::new(shard())).collect(),
            frame_bytes,
            frames_per_shard,
        }
    }

    /// Gives the block that lies at byte `at` of file `file` to `search`. If it is not there,
    /// `load` reads it from the file, and checks it.
    ///
    /// # Errors
    /// The error of `load`, or damaged memory.
    pub fn with<R>(
        &self,
        (file, at, bytes): (u64, u64, u32),
        load: impl FnOnce(&mut [u8]) -> Result<(), LsmError>,
        search: impl FnOnce(Block<Found<'_, M>>) -> R,
    ) -> Result<R, LsmError> {
        if u64::from(bytes) > self.frame_bytes || self.frames_per_shard == 0 {
            let mut block = vec![0; bytes as usize];
            load(&mut block)?;
            return Ok(search(Block(Found::Read(Slice(&block)))));
        }
        let key = (file, at);
        let mut mixed = Mix::default();
        mixed.write_u64(file);
        mixed.write_u64(at);
        let which = (mixed.finish() >> 40) as usize % self.shards.len();
        let mut shard = lock(&self.shards[which]);
        let shard = &mut *shard;
        // A block of another length comes from a damaged pointer: checking the one in the file
        // reports that.
        let held = shard.frames.find(key);
        if let Some(index) = held.filter(|index| shard.frames.frame(*index).bytes == bytes) {
            let frame = shard.frames.frame(index);
            frame.used = true;
            observe!(M: self.memory.enter(Component::Storage));
            let view = self.memory.view(Range::new(frame.at, u64::from(frame.bytes)))?;
            return Ok(search(Block(Found::Cached(view))));
        }
        shard.scratch.resize(bytes as usize, 0);
        load(&mut shard.scratch)?;
        match self.frame(shard) {
            None => Ok(search(Block(Found::Read(Slice(&shard.scratch))))),
            Some(index) => {
                shard.frames.hold(index, key);
                let frame = shard.frames.frame(index);
                (frame.bytes, frame.used) = (bytes, false);
                observe!(M: self.memory.enter(Component::Storage));
                self.memory.copy(Off::new(frame.at), &shard.scratch);
                let view = self.memory.view(Range::new(frame.at, u64::from(bytes)))?;
                Ok(search(Block(Found::Cached(view))))
            }
        }
    }

    /// A frame to put a block into: a new one while there may be more, then the one that the
    /// clock's hand finds. `None`: the memory has no room for even one.
    fn frame(&self, shard: &mut Shard) -> Option<usize> {
        if !shard.frames.is_full()
            && let Ok(at) = lock(&self.lane).allocate(self.frame_bytes, Purpose::Log)
        {
            return Some(shard.frames.add(at));
        }
        shard.frames.give_up()
    }

    /// Bytes of the frames there are.
    pub fn bytes(&self) -> u64 {
        let frames: usize = self.shards.iter().map(|shard| lock(shard).frames.len()).sum();
        frames as u64 * self.frame_bytes
    }
}

/// The bytes of a block, in the cache or just read.
pub enum Found<'a, M: Memory + 'a> {
    /// The block is in the cache.
    Cached(M::View<'a>),
    /// The block is in a buffer.
    Read(Slice<'a>),
}

impl<M: Memory> Clone for Found<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Memory> Copy for Found<'_, M> {}

impl<M: Memory> fmt::Debug for Found<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if matches!(self, Self::Cached(_)) { "Cached" } else { "Read" })
    }
}

impl<M: Memory> View for Found<'_, M> {
    #[inline]
    fn word(&self, at: usize) -> u64 {
        match self {
            Self::Cached(view) => view.word(at),
            Self::Read(slice) => slice.word(at),
        }
    }

    #[inline]
    fn bytes(&self, at: usize, len: usize) -> Bytes<'_> {
        match self {
            Self::Cached(view) => view.bytes(at, len),
            Self::Read(slice) => slice.bytes(at, len),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heap::{Heap, HeapOptions};
    use pm::{Dram, View};

    fn cache(bytes: u64, limit: u64) -> BlockCache<Dram> {
        let memory = Dram::new(limit).unwrap();
        let heap = Heap::format(memory, HeapOptions { chunk_bytes: 64 << 10, lanes: 1 }).unwrap();
        BlockCache::new(heap.lane(0), bytes, 4096)
    }

    /// Asks for a block of `bytes` bytes that are all `at`; returns whether it had to be read.
    fn ask(cache: &BlockCache<Dram>, at: u64, bytes: u32) -> bool {
        let mut read = false;
        let load = |out: &mut [u8]| {
            read = true;
            out.fill(at as u8);
            Ok(())
        };
        let content = cache
            .with((1, at, bytes), load, |block| block.0.bytes(0, bytes as usize).to_vec())
            .unwrap();
        assert_eq!(content, vec![at as u8; bytes as usize]);
        read
    }

    #[test]
    fn used_blocks_stay_and_the_cache_keeps_its_limit() {
        for bytes in [4 * 4096, 1 << 20] {
            let cache = cache(bytes, 16 << 20);
            for round in 0..2000u64 {
                assert!(ask(&cache, 1000 + round, 4096 - (round % 50) as u32));
                assert_eq!(ask(&cache, 1, 4096), round == 0, "round {round}");
            }
            assert_eq!(cache.bytes(), bytes);
        }
    }

    #[test]
    fn without_frames_or_memory_blocks_are_read_each_time() {
        assert!((0..3).all(|_| ask(&cache(0, 16 << 20), 5, 100)));
        let large = cache(1 << 20, 16 << 20);
        assert!((0..3).all(|_| ask(&large, 5, 5000)));
        let full = cache(1 << 20, 128 << 10);
        assert!((0..100).all(|at| ask(&full, at, 100)));
        assert!(full.bytes() < 128 << 10);
    }

    #[test]
    fn a_block_that_cannot_be_read_is_not_kept() {
        let cache = cache(1 << 20, 16 << 20);
        let fail = |_: &mut [u8]| Err(LsmError::damaged("a", 0, "b"));
        assert!(cache.with((1, 9, 100), fail, |_| ()).is_err());
        assert!(ask(&cache, 9, 100));
        assert!(!ask(&cache, 9, 100));
    }
}
