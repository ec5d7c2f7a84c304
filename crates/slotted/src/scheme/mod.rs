//! The ways in which a transaction commits: policies of a [`Store`](crate::Store).

mod fash;
mod fast;
mod nvwal;

use std::fmt::Debug;

use heap::Lane;
use pm::{LineSet, Memory, fence_for};

pub use fash::Fash;
pub use fast::Fast;
pub use nvwal::{CHECKPOINT_FRAMES, Nvwal};

use crate::Result;
use crate::header::Kind;
use crate::log::{Frames, Log};

/// A header that a transaction changes: the page, where in it the header goes, its bytes.
pub type NewHeader = (u64, usize, Vec<u8>);

/// The changes of a transaction that its commit makes count.
#[derive(Default, Debug)]
pub struct Change {
    /// Lines of records and of fresh pages, which nothing committed leads to.
    pub lines: LineSet,
    /// Headers of committed pages.
    pub headers: Vec<NewHeader>,
    /// Single words of pages: children, first words of pages that come or go. The page, where in it,
    /// and the value.
    pub words: Vec<(u64, usize, u64)>,
    /// Words of the master: their places and values.
    pub master: Vec<(u64, u64)>,
    /// The bytes of pages that were written, in schemes that log them: page, where in it, and how many.
    pub written: Vec<(u64, usize, usize)>,
}

impl Change {
    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.headers.is_empty() && self.words.is_empty() && self.master.is_empty()
    }

    /// The change as frames of a log.
    pub fn frames(&self) -> Frames {
        let mut frames = Frames::default();
        for (page, at, bytes) in &self.headers {
            frames.add(*page, *at, bytes);
        }
        for (page, at, value) in &self.words {
            frames.add(*page, *at, &value.to_le_bytes());
        }
        for (at, value) in &self.master {
            frames.add_word(*at, *value);
        }
        frames
    }
}

/// Commits since a store was opened.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Commits {
    /// Commits in place, by one header.
    pub in_place: u64,
    /// Commits by frames of the log.
    pub logged: u64,
    /// Bytes of these frames.
    pub logged_bytes: u64,
    /// Checkpoints of a log that is not emptied by each commit.
    pub checkpoints: u64,
    /// Bytes that these checkpoints have stored in pages.
    pub checkpoint_bytes: u64,
}

impl Commits {
    /// The commits since `before`.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            in_place: self.in_place - before.in_place,
            logged: self.logged - before.logged,
            logged_bytes: self.logged_bytes - before.logged_bytes,
            checkpoints: self.checkpoints - before.checkpoints,
            checkpoint_bytes: self.checkpoint_bytes - before.checkpoint_bytes,
        }
    }

    fn log(&mut self, frames: &Frames) {
        self.logged += 1;
        self.logged_bytes += frames.bytes.len() as u64;
    }
}

/// A way to commit.
pub trait Scheme<M: Memory>: Sized + Debug + Send + 'static {
    /// The name, as in P3.
    const NAME: &'static str;
    /// The number in the master of a store.
    const NUMBER: u32;
    /// The kind of the leaves.
    const LEAF: Kind;
    /// True if the log has headers as a whole, as in P3; else the words of them that change.
    const WHOLE_HEADERS: bool = true;
    /// Bytes of the first part of the log, where the scheme knows them.
    const LOG_BYTES: Option<u64> = None;
    /// True if the log has the bytes of records, too.
    const LOGS_RECORDS: bool = false;
    /// The memory in which pages are read and records are written.
    type Pages: Memory;

    /// The scheme of a store, which is recovered.
    ///
    /// # Errors
    /// The log is damaged.
    fn open(parts: Parts<M>) -> Result<Self>;
    /// The memory of the pages.
    fn pages(&self) -> &Self::Pages;
    /// Returns where a page lies in the memory of the pages.
    ///
    /// # Errors
    /// There is no room for it, or it does not lie in the memory.
    fn place(&self, page: u64) -> Result<u64> {
        Ok(page)
    }

    /// The places of the objects of the heap that the log is.
    fn log_places(&self) -> Vec<u64>;

    /// The commits that it has made.
    fn counts(&self) -> Commits;

    /// Makes a change count, durably.
    ///
    /// # Errors
    /// The memory is full; nothing has changed then.
    fn commit(&mut self, lane: &mut Lane<M>, change: Change) -> Result<()>;
}

/// The parts that a scheme finds in a store that is opened.
#[derive(Debug)]
pub struct Parts<M> {
    /// The log, which is not recovered.
    pub log: Log<M>,
    /// The place of the word that names the page of a commit in place, and what it has.
    pub in_place: (u64, u64),
    /// Bytes of a page.
    pub page_bytes: u32,
}

/// Slot-header logging (P3 3.3): three fences. The mark that empties the log is flushed by the next
/// commit.
fn log_headers<M: Memory>(
    log: &mut Log<M>,
    lane: &mut Lane<M>,
    change: Change,
    commits: &mut Commits,
) -> Result<()> {
    let frames = change.frames();
    let (memory, mut lines) = (log.memory().clone(), change.lines);
    log.grow(lane, &frames)?;
    let written = log.append(&frames, &mut lines);
    let written = fence_for(&memory, written);
    let marked = log.commit(written, &mut lines);
    let marked = fence_for(&memory, marked);
    log.checkpoint(marked, &frames, &mut lines);
    commits.log(&frames);
    Ok(())
}
