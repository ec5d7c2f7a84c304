//! The page table: which frame has a page, in shards with a mutex each, and in words that are read
//! without.
//!
//! 1. A frame is pinned with its shard locked, so that a page without pins, seen with the shard
//!    locked, is not in use and cannot become so.
//! 2. The *hints* are lines of eight words, each a page and its frame. The pages of a line are of
//!    one shard, and the line is changed with that locked. A page of a line that is full takes
//!    another one's place, until that is pinned again, so not every page that is in a frame has a hint. Nor is a hint sure: the
//!    frame may have another page by now, which that page's number and the frame's version say. A
//!    thread that still finds the old one there sees what the page was when it got the hint.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::MutexGuard;
use rustc_hash::FxHashMap;
use zerocopy::FromZeros;

use crate::ids::PageNo;
use crate::latch::{Exclusive, Latching};

const SHARD_BITS: u32 = 6;
/// Words of a line.
const LINE: usize = 8;
/// Bits of a hint for the frame; the rest is for the page.
const FRAME_BITS: u32 = 24;
/// No page of a tree has the number 0.
const NONE: u64 = 0;

/// The pages of one shard, and their frames.
type Shard = FxHashMap<PageNo, usize>;

#[derive(Debug)]
pub(super) struct Table<T> {
    shards: Box<[Exclusive<T, Shard>]>,
    hints: Box<[AtomicU64]>,
    /// The number of lines is that power of two.
    line_bits: u32,
}

/// A shard that is locked, for one page.
#[derive(Debug)]
pub(super) struct Locked<'a> {
    pages: MutexGuard<'a, Shard>,
    line: &'a [AtomicU64],
}

/// Fibonacci hashing: neighbours go to different shards and lines.
fn hash(page: PageNo) -> u64 {
    page.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A page that is in a frame as a hint, if one has room for both numbers.
fn hint_of(page: PageNo, frame: usize) -> Option<u64> {
    let fits =
        page.0 != NONE && page.0 >> (u64::BITS - FRAME_BITS) == 0 && frame >> FRAME_BITS == 0;
    fits.then_some(page.0 << FRAME_BITS | frame as u64)
}

impl<T: Latching> Table<T> {
    /// The table for a number of frames: twice as many hints.
    pub(super) fn new(frames: usize) -> Self {
        let lines = (2 * frames / LINE).next_power_of_two().max(1 << SHARD_BITS);
        let hints = <[AtomicU64]>::new_box_zeroed_with_elems(lines * LINE);
        let shards = (0..1 << SHARD_BITS).map(|_| Exclusive::new(Shard::default())).collect();
        Self { shards, hints: hints.unwrap_or_default(), line_bits: lines.ilog2() }
    }

    fn line(&self, hash: u64) -> &[AtomicU64] {
        let line = (hash >> (u64::BITS - self.line_bits)) as usize;
        self.hints.get(line * LINE..(line + 1) * LINE).unwrap_or_default()
    }

    pub(super) fn shard(&self, page: PageNo) -> Locked<'_> {
        let hash = hash(page);
        let shard = (hash >> (u64::BITS - SHARD_BITS)) as usize;
        Locked { pages: self.shards[shard].lock(), line: self.line(hash) }
    }

    /// The frame that perhaps has a page.
    #[inline]
    pub(super) fn hint(&self, page: PageNo) -> Option<usize> {
        let line = self.line(hash(page));
        let hints = line.iter().map(|hint| hint.load(Ordering::Acquire));
        let mut hints = hints.filter(|hint| *hint != NONE);
        let found = hints.find(|hint| hint >> FRAME_BITS == page.0)?;
        Some((found & ((1 << FRAME_BITS) - 1)) as usize)
    }
}

impl Locked<'_> {
    /// The frame that has a page.
    pub(super) fn get(&self, page: PageNo) -> Option<usize> {
        self.pages.get(&page).copied()
    }

    /// Notes that a frame has a page, which no other one has.
    pub(super) fn insert(&mut self, page: PageNo, frame: usize) {
        self.pages.insert(page, frame);
        self.note(page, frame);
    }

    /// Makes a hint of the frame of a page, if there is none.
    pub(super) fn note(&self, page: PageNo, frame: usize) {
        let Some(hint) = hint_of(page, frame) else { return };
        if self.line.iter().any(|word| word.load(Ordering::Relaxed) == hint) {
            return;
        }
        let free = |word: &&AtomicU64| word.load(Ordering::Relaxed) == NONE;
        // Where all are taken, the number of the page says which one makes way.
        let taken = || self.line.get(page.0 as usize % LINE);
        if let Some(word) = self.line.iter().find(free).or_else(taken) {
            word.store(hint, Ordering::Release);
        }
    }

    /// Notes that no frame has a page. Returns the one that had it.
    pub(super) fn remove(&mut self, page: PageNo) -> Option<usize> {
        let frame = self.pages.remove(&page)?;
        if let Some(hint) = hint_of(page, frame)
            && let Some(word) = self.line.iter().find(|word| word.load(Ordering::Relaxed) == hint)
        {
            word.store(NONE, Ordering::Release);
        }
        Some(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latch::Native;

    #[test]
    fn most_pages_of_a_full_pool_have_a_hint() {
        const FRAMES: usize = 1000;
        let table: Table<Native> = Table::new(FRAMES);
        let pages = || (1..).map(|page| PageNo(3 * page)).zip(0..FRAMES);
        for (page, frame) in pages() {
            table.shard(page).insert(page, frame);
            assert_eq!(table.hint(page), Some(frame));
        }
        let known = pages().filter(|(page, frame)| match table.hint(*page) {
            None => false,
            found => {
                assert_eq!(found, Some(*frame), "{page}");
                true
            }
        });
        assert!(known.count() > FRAMES * 9 / 10);
        for (page, frame) in pages() {
            assert_eq!(table.shard(page).remove(page), Some(frame));
            assert_eq!((table.hint(page), table.shard(page).get(page)), (None, None));
        }
    }

    #[test]
    fn a_page_or_a_frame_of_a_great_number_has_no_hint() {
        let table: Table<Native> = Table::new(8);
        for (page, frame) in [(PageNo(1 << 40), 0), (PageNo(1), 1 << 24), (PageNo(0), 1)] {
            table.shard(page).insert(page, frame);
            assert_eq!((table.hint(page), table.shard(page).get(page)), (None, Some(frame)));
            assert_eq!(table.shard(page).remove(page), Some(frame));
        }
    }
}
