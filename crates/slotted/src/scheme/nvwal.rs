//! NVWAL, which P3 compares its schemes with (P3 2.2, 5): pages are changed in a cache in ordinary
//! memory, and a commit logs the bytes that differ (*NVWAL computation*), in blocks of the heap
//! (*heap management*); `cached.rs` has the steps.

use heap::Lane;
use pm::{Dram, Memory};

use super::cached::{CHECKPOINT_FRAMES, Cached, Runs};
use super::{Change, Commits, Parts, Records, Scheme};
use crate::Result;
use crate::blocks::BLOCK_BYTES;
use crate::diff::merge;
use crate::header::Kind;
use crate::recovered::Recovered;

/// The scheme; see the module's comment.
#[derive(Debug)]
pub struct Nvwal<M, const FRAMES: usize = CHECKPOINT_FRAMES>(Cached<M>);

impl<M: Memory, const FRAMES: usize> Scheme<M> for Nvwal<M, FRAMES> {
    const NAME: &'static str = "nvwal";
    const NUMBER: u32 = 3;
    const LEAF: Kind = Kind::Leaf;
    const WHOLE_HEADERS: bool = false;
    const LOG_BYTES: Option<u64> = Some(BLOCK_BYTES);
    const RECORDS: Records = Records::Logged;
    type Pages = Dram;

    fn open(parts: Parts<M>) -> Result<Self> {
        Ok(Self(Cached::open(&parts, FRAMES)?))
    }

    fn checkpoint_after(&mut self, frames: usize) {
        self.0.most_frames = frames;
    }

    fn pages(&self) -> &Dram {
        self.0.cache.pages()
    }

    fn place(&self, page: u64) -> Result<u64> {
        self.0.cache.place(page)
    }

    fn log_places(&self) -> Result<Vec<u64>> {
        self.0.log.places()
    }

    fn recovered(&self) -> Recovered {
        self.0.log.recovered()
    }

    fn counts(&self) -> Commits {
        self.0.commits
    }

    fn reserve(&mut self, lane: &mut Lane<M>, now: u64, empty: u64) -> Result<()> {
        self.0.reserve(lane, now, empty)
    }

    fn commit(&mut self, lane: &mut Lane<M>, change: Change) -> Result<()> {
        let runs = runs_of(&change);
        self.0.commit(lane, change, runs)
    }

    fn settle(&mut self, lane: &mut Lane<M>) -> Result<()> {
        self.0.checkpoint()?;
        self.0.log.give_back(lane)
    }
}

/// The runs of bytes that a change changes, by page.
fn runs_of(change: &Change) -> Runs {
    let mut runs = Runs::new();
    let mut add = |page: u64, at: usize, len: usize| runs.entry(page).or_default().push((at, len));
    for (page, at, bytes) in &change.headers {
        add(*page, *at, bytes.len());
    }
    for (page, at, _) in &change.words {
        add(*page, *at, 8);
    }
    for (page, at, len) in &change.written {
        add(*page, *at, *len);
    }
    runs.into_iter().map(|(page, runs)| (page, merge(runs))).collect()
}
