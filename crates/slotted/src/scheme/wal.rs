//! A write-ahead log of whole pages (P3 2.1, Figure 1b), in persistent memory: NVWAL without
//! differential logging. Pages are changed in a cache in ordinary memory, a commit logs each page
//! that it has changed, and a checkpoint after many frames brings them home; `cached.rs` has the
//! steps.

use heap::Lane;
use pm::{Dram, Memory};

use super::cached::{CHECKPOINT_FRAMES, Cached};
use super::{Change, Commits, Parts, Records, Scheme};
use crate::Result;
use crate::blocks::BLOCK_BYTES;
use crate::header::Kind;
use crate::part::Part;
use crate::recovered::Recovered;

/// The scheme; see the module's comment.
#[derive(Debug)]
pub struct Wal<M, const FRAMES: usize = CHECKPOINT_FRAMES> {
    pages: Cached<M>,
    page_bytes: usize,
}

impl<M: Memory, const FRAMES: usize> Scheme<M> for Wal<M, FRAMES> {
    const NAME: &'static str = "wal";
    const NUMBER: u32 = 5;
    const LEAF: Kind = Kind::Leaf;
    const LOG_BYTES: Option<u64> = Some(BLOCK_BYTES);
    const RECORDS: Records = Records::Logged;
    type Pages = Dram;

    fn open(parts: Parts<M>) -> Result<Self> {
        let page_bytes = parts.page_bytes as usize;
        Ok(Self { pages: Cached::open(&parts, FRAMES)?, page_bytes })
    }

    fn checkpoint_after(&mut self, frames: usize) {
        self.pages.most_frames = frames;
    }

    fn pages(&self) -> &Dram {
        self.pages.cache.pages()
    }

    fn place(&self, page: u64) -> Result<u64> {
        self.pages.cache.place(page)
    }

    fn log_places(&self) -> Result<Vec<u64>> {
        self.pages.log.places()
    }

    fn recovered(&self) -> Recovered {
        self.pages.log.recovered()
    }

    fn counts(&self) -> Commits {
        self.pages.commits
    }

    fn logged_bytes(part: &Part) -> u64 {
        part.page_frame()
    }

    fn reserve(&mut self, lane: &mut Lane<M>, now: u64, empty: u64) -> Result<()> {
        self.pages.reserve(lane, now, empty)
    }

    fn commit(&mut self, lane: &mut Lane<M>, change: Change) -> Result<()> {
        let whole = vec![(0, self.page_bytes)];
        let runs = change.pages().into_iter().map(|page| (page, whole.clone())).collect();
        self.pages.commit(lane, change, runs)
    }

    fn settle(&mut self, lane: &mut Lane<M>) -> Result<()> {
        self.pages.checkpoint()?;
        self.pages.log.give_back(lane)
    }
}
