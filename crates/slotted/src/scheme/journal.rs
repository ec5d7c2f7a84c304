//! A rollback journal (P3 2.1, Figure 1a), in persistent memory: pages are changed in a cache in
//! ordinary memory; a commit saves the pages as they were, and overwrites them.
//!
//! 1. Copy each page that is going to change, as it is, into the journal, and the words of the
//!    master. A page that was never used is not saved. Store the journal's mark, which has a
//!    checksum of all that. Flush; **fence**. The journal is *hot*.
//! 2. Put headers and words into the cached pages, and these pages over those in persistent memory;
//!    the new words into the master. Flush; **fence**.
//! 3. Zero in the mark; flush; **fence**. *Committed.* (SQLite deletes the journal.)
//!
//! *Crash before the mark is durable:* nothing has changed. *Before its zero is:* recovery stores
//! what the journal has, as often as it is cut off. It makes the zero durable before anything is
//! read: a process that was killed may have stored it, and what the next one reads has to stay.

use heap::Lane;
use pm::{Dram, Flushed, LineSet, Memory, Off, Range, fence_for, observe};

use super::{Change, Commits, Parts, Records, Scheme};
use crate::Result;
use crate::cache::Cache;
use crate::header::Kind;
use crate::log::{Frames, Log};
use crate::part::Part;
use crate::phases::{CHECKPOINT, COMPUTATION, HEAP, LOG_FLUSH, SLOT_HEADER};
use crate::recovered::Recovered;

/// The scheme; see the module's comment.
#[derive(Debug)]
pub struct Journal<M> {
    log: Log<M>,
    cache: Cache<M>,
    page_bytes: usize,
    commits: Commits,
}

impl<M: Memory> Scheme<M> for Journal<M> {
    const NAME: &'static str = "journal";
    const NUMBER: u32 = 4;
    const LEAF: Kind = Kind::Leaf;
    const RECORDS: Records = Records::Logged;
    const ROLLS_BACK: bool = true;
    type Pages = Dram;

    fn open(parts: Parts<M>) -> Result<Self> {
        let mut log = parts.log;
        log.recover()?;
        log.settle_now();
        let cache = Cache::new(log.memory().clone(), parts.page_bytes)?;
        Ok(Self { log, cache, page_bytes: parts.page_bytes as usize, commits: Commits::default() })
    }

    fn pages(&self) -> &Dram {
        self.cache.pages()
    }

    fn place(&self, page: u64) -> Result<u64> {
        self.cache.place(page)
    }

    fn log_places(&self) -> Result<Vec<u64>> {
        Ok(vec![self.log.at()])
    }

    fn recovered(&self) -> Recovered {
        self.log.recovered()
    }

    fn counts(&self) -> Commits {
        self.commits
    }

    fn logged_bytes(part: &Part) -> u64 {
        part.page_frame()
    }

    fn reserve(&mut self, lane: &mut Lane<M>, now: u64, empty: u64) -> Result<()> {
        self.log.reserve(lane, now, empty)
    }

    fn settle(&mut self, lane: &mut Lane<M>) -> Result<()> {
        self.log.give_back(lane)
    }

    fn commit(&mut self, lane: &mut Lane<M>, change: Change) -> Result<()> {
        let pages = change.pages();
        let memory = self.log.memory().clone();
        let mut saved = Frames::default();
        for page in pages.iter().filter(|page| !change.unused.contains(page)) {
            let mut bytes = vec![0; self.page_bytes];
            memory.read_into(Off::new(*page), &mut bytes)?;
            saved.add(*page, 0, &bytes);
        }
        for (at, _) in &change.master {
            saved.add_word(*at, memory.read(Off::new(*at))?);
        }
        for page in &pages {
            self.cache.place(*page)?;
        }
        observe!(M: memory.phase(COMPUTATION));
        self.log.grow(lane, saved.bytes())?;
        observe!(M: memory.phase(HEAP));
        change.put_into(&self.cache)?;
        observe!(M: memory.phase(SLOT_HEADER));
        let mut lines = LineSet::new();
        let hot = self.log.append_marked(&saved, &mut lines);
        let hot = fence_for(&memory, hot);
        observe!(M: memory.phase(LOG_FLUSH));
        self.commits.checkpoint_bytes += (pages.len() * self.page_bytes) as u64;
        for page in pages {
            memory.copy(Off::new(page), &self.cache.read(page, 0, self.page_bytes)?);
            lines.add(Range::new(page, self.page_bytes as u64));
        }
        for (at, value) in &change.master {
            memory.store(Off::new(*at), *value);
            lines.add(Range::new(*at, 8));
        }
        let home = Flushed::lines(&memory, &mut lines, ());
        let home = fence_for(&memory, home);
        self.log.remove(hot, home);
        observe!(M: memory.phase(CHECKPOINT));
        self.commits.log(&saved);
        Ok(())
    }
}
