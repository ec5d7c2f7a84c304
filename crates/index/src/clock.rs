//! A table of which frame of a cache holds what. It chooses the frame that is given up next, by a clock,
//! whose hand goes round and takes a frame that was not used since it last came by. A scan does not
//! drive out what is in use that way.
//!
//! Two caches are made of it: that of copy-on-write pages ([`crate::cow`]) and that of the blocks
//! of SSTables. Where their frames lie, what is read or written, and for how long a lock is held
//! they say themselves, since that is not the same: a page may be dirty, is read without a lock
//! while it is pinned, and has to find a frame; a block never changes, is searched under the lock,
//! and goes without a frame if there is none.
//!
//! Invariants:
//! - A key is in one frame at most.
//! - A frame that is pinned or dirty keeps its key.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// Mixes the words of a key that no adversary chooses; the same everywhere.
#[derive(Default, Debug)]
pub struct Mix(u64);

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

/// A map whose keys are mixed by [`Mix`].
pub type MixMap<K, V> = HashMap<K, V, BuildHasherDefault<Mix>>;

/// A set whose members are mixed by [`Mix`].
pub type MixSet<K> = HashSet<K, BuildHasherDefault<Mix>>;

/// A frame of a cache.
#[derive(Debug)]
pub struct Frame<K> {
    /// The place where it lies.
    pub at: u64,
    /// The number of its bytes that count.
    pub bytes: u32,
    /// The number of readers that read it now.
    pub pins: u32,
    /// Used since the hand came by.
    pub used: bool,
    /// True if it has what its medium has not.
    pub dirty: bool,
    key: Option<K>,
}

/// Frames for which there is room in the map from the start.
const MOST_AT_ONCE: usize = 1 << 16;

/// The frames of a cache, or of a shard of it; see the module's comment.
#[derive(Debug)]
pub struct Clock<K> {
    places: MixMap<K, u32>,
    frames: Vec<Frame<K>>,
    hand: usize,
    most: usize,
}

impl<K: Copy + Eq + Hash> Clock<K> {
    /// A clock for `most` frames, or a few more if they are all kept.
    pub fn new(most: usize) -> Self {
        // All of it at once, so that a cache that is full allocates no more.
        let places = MixMap::with_capacity_and_hasher(most.min(MOST_AT_ONCE), Default::default());
        Self { places, frames: Vec::new(), hand: 0, most }
    }

    /// Returns the number of frames.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Returns whether there is no frame.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Returns whether there are as many frames as there should be.
    pub fn is_full(&self) -> bool {
        self.frames.len() >= self.most
    }

    /// The frame that holds a key.
    #[inline]
    pub fn find(&self, key: K) -> Option<usize> {
        self.places.get(&key).map(|index| *index as usize)
    }

    /// A frame.
    ///
    /// # Panics
    /// There is none of this number.
    #[inline]
    pub fn frame(&mut self, index: usize) -> &mut Frame<K> {
        &mut self.frames[index]
    }

    /// A frame more, which holds nothing.
    pub fn add(&mut self, at: u64) -> usize {
        self.frames.push(Frame { at, bytes: 0, pins: 0, used: false, dirty: false, key: None });
        self.frames.len() - 1
    }

    /// Takes the key away from the frame that the hand finds; `None` if all are kept.
    pub fn give_up(&mut self) -> Option<usize> {
        // Twice round: the first time takes the marks of use away.
        for _ in 0..2 * self.frames.len() {
            let index = self.hand;
            self.hand = (index + 1) % self.frames.len();
            let frame = &mut self.frames[index];
            if frame.pins == 0 && !frame.dirty && !std::mem::take(&mut frame.used) {
                if let Some(old) = frame.key.take() {
                    self.places.remove(&old);
                }
                return Some(index);
            }
        }
        None
    }

    /// A frame that holds nothing holds a key from now on.
    ///
    /// # Panics
    /// The frame holds a key, or another frame this one.
    pub fn hold(&mut self, index: usize, key: K) {
        assert!(self.frames[index].key.replace(key).is_none(), "the frame was given up");
        assert!(self.places.insert(key, index as u32).is_none(), "a key is in one frame");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(keys: u64) -> Clock<u64> {
        let mut clock = Clock::new(keys as usize);
        for key in 0..keys {
            assert!(!clock.is_full());
            let index = clock.add(key * 10);
            clock.hold(index, key);
        }
        assert!(clock.is_full());
        clock
    }

    #[test]
    fn what_was_used_stays_a_round_longer() {
        let mut clock = filled(4);
        clock.frame(0).used = true;
        clock.frame(2).used = true;
        let gone: Vec<_> = (0..4).map(|_| clock.give_up().unwrap()).collect();
        assert_eq!(gone, [1, 3, 0, 1], "0 and 2 lose their marks first");
        assert_eq!((clock.find(0), clock.find(2)), (None, Some(2)));
        clock.hold(1, 9);
        assert_eq!(clock.find(9), Some(1));
        assert_eq!(clock.frame(1).at, 10);
    }

    #[test]
    fn pinned_and_dirty_frames_are_kept() {
        let mut clock = filled(3);
        clock.frame(0).pins = 1;
        clock.frame(1).dirty = true;
        assert_eq!(clock.give_up(), Some(2));
        clock.frame(2).pins = 1;
        assert_eq!(clock.give_up(), None);
        assert_eq!((clock.find(0), clock.find(1), clock.find(2)), (Some(0), Some(1), None));
    }
}
