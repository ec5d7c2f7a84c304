//! Pages in a cache in ordinary memory, with a log of what commits have changed of them: the common
//! part of NVWAL and the write-ahead log of whole pages.
//!
//! 1. Put headers and words into the cached pages. (Records are there already.)
//! 2. Make frames of the runs of bytes that the log is to have.
//! 3. Take blocks from the heap, if the log has no room.
//! 4. Copy and flush the frames; **fence**; the tail; **fence**. *Committed.*
//! 5. Note which runs of which pages the log has (the index of frames).
//!
//! After so many frames the runs go from the cache to the pages in persistent memory, each once,
//! and the log is empty.

use std::collections::BTreeMap;

use heap::Lane;
use pm::{Memory, Off, Range, observe};

use super::{Change, Commits, Parts};
use crate::Result;
use crate::blocks::Blocks;
use crate::cache::Cache;
use crate::diff::{Run, merge};
use crate::flaw::{self, Flaw};
use crate::log::Frames;
use crate::part::{FRAME, WORD_FRAME};
use crate::phases::{CHECKPOINT, COMPUTATION, HEAP, LOG_FLUSH, MISC, SLOT_HEADER};

/// The number of frames after which a checkpoint is made, as in SQLite.
pub const CHECKPOINT_FRAMES: usize = 1000;

/// The runs of bytes of each page.
pub(super) type Runs = BTreeMap<u64, Vec<Run>>;

/// The cache and the log; see the module's comment.
#[derive(Debug)]
pub(super) struct Cached<M> {
    pub(super) log: Blocks<M>,
    pub(super) cache: Cache<M>,
    /// The runs of each page that the log has, and the words of the master.
    index: Runs,
    master: BTreeMap<u64, u64>,
    frames: usize,
    pub(super) most_frames: usize,
    pub(super) commits: Commits,
}

impl<M: Memory> Cached<M> {
    /// Recovers the log; a checkpoint is made after `most_frames`.
    pub(super) fn open(parts: &Parts<M>, most_frames: usize) -> Result<Self> {
        let memory = parts.log.memory().clone();
        Ok(Self {
            log: Blocks::open(memory.clone(), parts.log.at())?,
            cache: Cache::new(memory, parts.page_bytes)?,
            index: Runs::new(),
            master: BTreeMap::new(),
            frames: 0,
            most_frames,
            commits: Commits::default(),
        })
    }

    /// Makes sure that the log has room for so many bytes, and for others when it is empty.
    pub(super) fn reserve(&mut self, lane: &mut Lane<M>, now: u64, empty: u64) -> Result<()> {
        let Err(full) = self.log.reserve(lane, now, empty) else { return Ok(()) };
        if self.log.is_empty() {
            return Err(full);
        }
        // There is room in the blocks that the log has: deletes work in a full pool.
        self.checkpoint()?;
        self.log.reserve(lane, now, empty)
    }

    /// Commits a change, of which the log gets these runs.
    pub(super) fn commit(&mut self, lane: &mut Lane<M>, change: Change, runs: Runs) -> Result<()> {
        // Before anything of the cache changes there is a place for everything.
        let mut most = change.master.len() as u64 * WORD_FRAME;
        for (page, runs) in &runs {
            self.cache.place(*page)?;
            most += runs.iter().map(|run| FRAME + run.1 as u64).sum::<u64>();
        }
        let memory = lane.memory().clone();
        observe!(M: memory.phase(COMPUTATION));
        self.reserve(lane, most, 0)?;
        observe!(M: memory.phase(HEAP));
        change.put_into(&self.cache)?;
        observe!(M: memory.phase(SLOT_HEADER));
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
        if flaw::has::<M>(Flaw::UncommittedIndexed) {
            self.index.extend(runs.clone());
            self.frames += count;
            self.checkpoint()?;
        }
        observe!(M: memory.phase(COMPUTATION));
        self.log.commit(&frames);
        observe!(M: memory.phase(LOG_FLUSH));
        self.commits.log(&frames);
        for (page, runs) in runs {
            self.index.entry(page).or_default().extend(runs);
        }
        self.master.extend(change.master);
        self.frames += count;
        observe!(M: memory.phase(MISC));
        if self.frames >= self.most_frames {
            self.checkpoint()?;
            observe!(M: memory.phase(CHECKPOINT));
        }
        Ok(())
    }

    /// Stores the runs of all pages in persistent memory and empties the log.
    pub(super) fn checkpoint(&mut self) -> Result<()> {
        if self.frames == 0 {
            return Ok(());
        }
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
