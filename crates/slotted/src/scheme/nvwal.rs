//! NVWAL, which P3 compares its schemes with (P3 2.2, 5): pages are changed in a cache in ordinary memory,
//! and a commit logs the bytes that differ.
//!
//! 1. Put headers and words into the cached pages. (Records are there already.)
//! 2. Find the runs of bytes that differ, and make frames of them (*NVWAL computation*).
//! 3. Take blocks from the heap, if the log has no room (*heap management*).
//! 4. Copy and flush the frames; **fence**; the tail; **fence** (*log flush*). *Committed.*
//! 5. Note which runs of which pages the log has (the index of frames).
//!
//! After `FRAMES` frames the runs go from the cache to the pages in persistent memory, each
//! once, and the log is empty.

use std::collections::BTreeMap;

use heap::Lane;
use pm::{Dram, Memory, Off, Range};

use super::{Change, Commits, Parts, Scheme};
use crate::Result;
use crate::blocks::{BLOCK_BYTES, Blocks};
use crate::cache::Cache;
use crate::diff::{Run, merge};
use crate::header::Kind;
use crate::log::Frames;

/// The number of frames after which a checkpoint is made, as in SQLite.
pub const CHECKPOINT_FRAMES: usize = 1000;

/// The scheme; see the module's comment.
#[derive(Debug)]
pub struct Nvwal<M, const FRAMES: usize = CHECKPOINT_FRAMES> {
    log: Blocks<M>,
    cache: Cache<M>,
    /// The runs of each page that the log has, and the words of the master.
    index: BTreeMap<u64, Vec<Run>>,
    master: BTreeMap<u64, u64>,
    frames: usize,
    commits: Commits,
}

impl<M: Memory, const FRAMES: usize> Scheme<M> for Nvwal<M, FRAMES> {
    const NAME: &'static str = "nvwal";
    const NUMBER: u32 = 3;
    const LEAF: Kind = Kind::Leaf;
    const WHOLE_HEADERS: bool = false;
    const LOG_BYTES: Option<u64> = Some(BLOCK_BYTES);
    const LOGS_RECORDS: bool = true;
    type Pages = Dram;

    fn open(parts: Parts<M>) -> Result<Self> {
        let memory = parts.log.memory().clone();
        Ok(Self {
            log: Blocks::open(memory.clone(), parts.log.at())?,
            cache: Cache::new(memory, parts.page_bytes)?,
            index: BTreeMap::new(),
            master: BTreeMap::new(),
            frames: 0,
            commits: Commits::default(),
        })
    }

    fn pages(&self) -> &Dram {
        self.cache.pages()
    }

    fn place(&self, page: u64) -> Result<u64> {
        self.cache.place(page)
    }

    fn log_places(&self) -> Vec<u64> {
        self.log.places().to_vec()
    }

    fn counts(&self) -> Commits {
        self.commits
    }

    fn commit(&mut self, lane: &mut Lane<M>, change: Change) -> Result<()> {
        let runs = runs_of(&change);
        // Before anything of the cache changes there is a place for everything.
        let mut most = change.master.len() as u64 * 24;
        for (page, runs) in &runs {
            self.cache.place(*page)?;
            most += runs.iter().map(|run| 24 + run.1 as u64).sum::<u64>();
        }
        if let Err(full) = self.log.reserve(lane, most) {
            // There is room in the blocks that the log has: deletes work in a full pool.
            if self.log.is_empty() {
                return Err(full);
            }
            self.checkpoint()?;
            self.log.reserve(lane, most)?;
        }
        for (page, at, bytes) in &change.headers {
            self.put(*page, *at, bytes)?;
        }
        for (page, at, value) in &change.words {
            self.put(*page, *at, &value.to_le_bytes())?;
        }
        let (mut frames, mut count) = (Frames::default(), change.master.len());
        for (page, runs) in &runs {
            count += runs.len();
            for (at, len) in runs {
                frames.add(*page, *at, &self.cache.read(*page, *at, *len)?);
            }
        }
        for (at, value) in &change.master {
            frames.add_word(*at, *value);
        }
        self.log.commit(&frames);
        self.commits.log(&frames);
        for (page, runs) in runs {
            self.index.entry(page).or_default().extend(runs);
        }
        self.master.extend(change.master);
        self.frames += count;
        if self.frames >= FRAMES { self.checkpoint() } else { Ok(()) }
    }
}

/// The runs of bytes that a change changes, by page.
fn runs_of(change: &Change) -> BTreeMap<u64, Vec<Run>> {
    let mut runs = BTreeMap::<u64, Vec<Run>>::new();
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

impl<M: Memory, const FRAMES: usize> Nvwal<M, FRAMES> {
    fn put(&self, page: u64, at: usize, bytes: &[u8]) -> Result<()> {
        let place = self.cache.place(page)?;
        self.cache.pages().copy(Off::new(place + at as u64), bytes);
        Ok(())
    }

    /// Stores the runs of all pages in persistent memory and empties the log.
    fn checkpoint(&mut self) -> Result<()> {
        let mut parts = Vec::new();
        for (page, runs) in std::mem::take(&mut self.index) {
            for (at, len) in merge(runs) {
                parts.push((page + at as u64, self.cache.read(page, at, len)?));
            }
        }
        for (at, value) in std::mem::take(&mut self.master) {
            parts.push((at, value.to_le_bytes().to_vec()));
        }
        self.commits.checkpoint_bytes +=
            parts.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>();
        self.log.checkpoint(|memory, lines| {
            for (at, bytes) in &parts {
                memory.copy(Off::new(*at), bytes);
                lines.add(Range::new(*at, bytes.len() as u64));
            }
        });
        self.frames = 0;
        self.commits.checkpoints += 1;
        Ok(())
    }
}
