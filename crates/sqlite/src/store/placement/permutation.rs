//! The assignment of pages to frames.
//!
//! A page is in the frame with its number until a commit lets pages exchange frames. A table in the side file, four
//! bytes a page, says where each page is. A move is an entry of it, logged with the rest of the commit.
//!
//! Invariants:
//! - Each page has one frame and each frame one page: a page of the database, or one past its end, whose content has no
//!   value.
//! - Pages are copied only to frames of the latter kind when the layout is restored. A crash then finds every page
//!   where the table says it is, and the next connection that opens the database continues.
//!
//! The last close restores the layout in [chunks](Permutation::chunk), each one commit:
//! 1. Pages whose own frame has no value are copied there. Their moves count with the commit, and the frames they leave
//!    have no value from then on.
//! 2. If there is no such page, the displaced pages form cycles. For each cycle, the page in the frame of its lowest
//!    page is copied past the database's end.

use std::collections::{BTreeMap, BTreeSet};

use crate::store::moves::{ENTRY_BYTES, Move};

/// A copy of a whole page to a frame without a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageCopy {
    /// The page's frame.
    pub from: u32,
    /// The new frame.
    pub to: u32,
}

/// A step of restoring the layout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    /// Copies, in any order; durable before the moves.
    pub copies: Vec<PageCopy>,
    /// Moves, which count all at once.
    pub moves: Vec<Move>,
}

/// Moves, or a table, that put two pages into one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameConflict;

/// The displaced pages: those that are not in their own frames.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permutation {
    frames: BTreeMap<u32, u32>,
    pages: BTreeMap<u32, u32>,
}

impl Permutation {
    /// No page is displaced.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a table.
    pub fn read(table: &[u8]) -> Result<Self, FrameConflict> {
        let mut found = Self::new();
        for (page, entry) in (1..).zip(table.chunks_exact(ENTRY_BYTES)) {
            let frame = u32::from_le_bytes(entry.try_into().expect("four bytes"));
            if frame != 0 && frame != page {
                found.frames.insert(page, frame);
                if found.pages.insert(frame, page).is_some() {
                    return Err(FrameConflict);
                }
            }
        }
        // Catches a page in the frame of one that is not displaced: that frame's number is not a key.
        if found.frames.keys().eq(found.pages.keys()) { Ok(found) } else { Err(FrameConflict) }
    }

    /// The frame of a page.
    pub fn frame(&self, page: u32) -> u32 {
        self.frames.get(&page).copied().unwrap_or(page)
    }

    /// The page in a frame.
    pub fn page(&self, frame: u32) -> u32 {
        self.pages.get(&frame).copied().unwrap_or(frame)
    }

    /// The number of displaced pages.
    pub fn displaced(&self) -> usize {
        self.frames.len()
    }

    /// The displaced pages and their frames.
    pub fn moved(&self) -> impl Iterator<Item = Move> + '_ {
        self.frames.iter().map(|(page, frame)| Move { page: *page, frame: *frame })
    }

    /// Applies moves, all at once. If two pages would share a frame, none is applied.
    pub fn apply(&mut self, moves: &[Move]) -> Result<(), FrameConflict> {
        let left: BTreeSet<u32> = moves.iter().map(|step| self.frame(step.page)).collect();
        let taken: BTreeSet<u32> = moves.iter().map(|step| step.frame).collect();
        let movers: BTreeSet<u32> = moves.iter().map(|step| step.page).collect();
        let each_once = taken.len() == moves.len() && movers.len() == moves.len();
        if left != taken || !each_once || taken.contains(&0) || movers.contains(&0) {
            return Err(FrameConflict);
        }
        for step in moves {
            let was = self.frames.remove(&step.page).unwrap_or(step.page);
            self.pages.remove(&was);
        }
        for step in moves.iter().filter(|step| step.page != step.frame) {
            self.frames.insert(step.page, step.frame);
            self.pages.insert(step.frame, step.page);
        }
        Ok(())
    }

    /// The next chunk for a database of so many pages, with at most `most` copies. `None` if no page is displaced.
    /// No page is copied to the frame `unused`, that of the page that SQLite does not use.
    pub fn chunk(&self, pages: u32, unused: u32, most: usize) -> Option<Chunk> {
        let lives = |page: u32| page <= pages && page != unused;
        let displaced = || self.moved().filter(|step| lives(step.page));
        let mut chunk = Chunk::default();
        for step in displaced().filter(|step| !lives(self.page(step.page))).take(most) {
            chunk.move_page(self, step.page, step.page);
        }
        if !chunk.moves.is_empty() {
            return Some(chunk);
        }
        let mut seen = BTreeSet::new();
        let mut free = (pages + 1..).filter(|frame| *frame != unused && !lives(self.page(*frame)));
        for step in displaced() {
            if chunk.copies.len() == most || !seen.insert(step.page) {
                continue;
            }
            let mut next = self.page(step.page);
            while seen.insert(next) {
                next = self.page(next);
            }
            let free = free.next()?;
            chunk.move_page(self, self.page(step.page), free);
        }
        (!chunk.moves.is_empty()).then_some(chunk)
    }
}

impl Chunk {
    /// Moves a page to a frame without a value. The page that nominally was there goes the other way.
    fn move_page(&mut self, from: &Permutation, page: u32, frame: u32) {
        let left = from.frame(page);
        self.copies.push(PageCopy { from: left, to: frame });
        self.moves.push(Move { page, frame });
        self.moves.push(Move { page: from.page(frame), frame: left });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::seq::SliceRandom;
    use rand::{Rng, SeedableRng};

    /// Pages 1 to `count`, partly shuffled.
    fn shuffled(random: &mut SmallRng, count: u32) -> Permutation {
        let mut movers: Vec<u32> = (1..=count).filter(|_| random.random_bool(0.4)).collect();
        let frames = movers.clone();
        movers.shuffle(random);
        let moves: Vec<Move> =
            movers.into_iter().zip(frames).map(|(page, frame)| Move { page, frame }).collect();
        let mut permutation = Permutation::new();
        permutation.apply(&moves).unwrap();
        permutation
    }

    #[test]
    fn table_matches_applied_moves() {
        let mut random = SmallRng::seed_from_u64(1);
        let mut permutation = Permutation::new();
        let mut table = vec![0; 40 * ENTRY_BYTES];
        for _ in 0..300 {
            let mut pages: Vec<u32> = (1..=40).collect();
            pages.shuffle(&mut random);
            pages.truncate(random.random_range(1..6));
            let frames: Vec<u32> = pages.iter().map(|page| permutation.frame(*page)).collect();
            let moves: Vec<Move> = (0..pages.len())
                .map(|at| Move { page: pages[at], frame: frames[(at + 1) % frames.len()] })
                .collect();
            permutation.apply(&moves).unwrap();
            for step in moves {
                let at = step.at() as usize;
                table[at..at + ENTRY_BYTES].copy_from_slice(&step.entry());
            }
            assert_eq!(Permutation::read(&table).as_ref(), Ok(&permutation));
            assert!((1..=40).all(|page| permutation.page(permutation.frame(page)) == page));
        }
    }

    #[test]
    fn two_pages_never_share_a_frame() {
        let mut permutation = Permutation::new();
        permutation.apply(&[Move { page: 1, frame: 2 }, Move { page: 2, frame: 1 }]).unwrap();
        let before = permutation.clone();
        for moves in [
            &[Move { page: 3, frame: 1 }][..],
            &[Move { page: 1, frame: 1 }],
            &[Move { page: 1, frame: 1 }, Move { page: 2, frame: 1 }],
            &[Move { page: 1, frame: 1 }, Move { page: 1, frame: 2 }],
            &[Move { page: 0, frame: 0 }],
        ] {
            assert_eq!(permutation.apply(moves), Err(FrameConflict), "{moves:?}");
            assert_eq!(permutation, before);
        }
        for table in [[2u32, 0, 0], [2, 3, 0], [3, 3, 0], [2, 1, 1], [9, 0, 0]] {
            let bytes: Vec<u8> = table.iter().flat_map(|entry| entry.to_le_bytes()).collect();
            assert_eq!(Permutation::read(&bytes), Err(FrameConflict), "{table:?}");
        }
    }

    /// Restores layouts in chunks of each size. A crash before any commit, with the chunk's copies made in part,
    /// loses no page.
    #[test]
    fn pages_return_in_chunks_and_a_crash_loses_none() {
        let mut random = SmallRng::seed_from_u64(2);
        for round in 0..400 {
            let count = random.random_range(1..60);
            let mut permutation = shuffled(&mut random, count);
            // The database may have shrunk, or may contain the unused page.
            let pages = random.random_range(1..=count);
            let unused = if round % 3 == 0 { random.random_range(1..=count + 2) } else { u32::MAX };
            let lives = |page: u32| page <= pages && page != unused;
            let mut frames: BTreeMap<u32, u32> =
                (1..=count).map(|page| (permutation.frame(page), page)).collect();
            let most = random.random_range(1..5);
            let limit = 2 * permutation.displaced() + 1;
            let mut chunks = 0;
            while let Some(chunk) = permutation.chunk(pages, unused, most) {
                chunks += 1;
                assert!(chunk.copies.len() <= most && chunks <= limit);
                let before = frames.clone();
                for copy in &chunk.copies {
                    // A crash finds half a page there, and the old table.
                    frames.insert(copy.to, u32::MAX);
                    assert!(
                        (1..=pages)
                            .filter(|page| lives(*page))
                            .all(|page| { frames.get(&permutation.frame(page)) == Some(&page) })
                    );
                    assert!(copy.to != unused);
                }
                for copy in &chunk.copies {
                    frames.insert(copy.to, before[&copy.from]);
                }
                permutation.apply(&chunk.moves).unwrap();
                for page in (1..=pages).filter(|page| lives(*page)) {
                    assert_eq!(frames.get(&permutation.frame(page)), Some(&page));
                }
            }
            for page in (1..=pages).filter(|page| lives(*page)) {
                assert_eq!((permutation.frame(page), frames[&page]), (page, page));
            }
        }
    }
}
