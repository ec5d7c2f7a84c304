//! The ways in which a transaction commits: policies of a [`Store`](crate::Store).

mod fash;
mod fast;

use std::fmt::Debug;

use pm::{LineSet, Memory, fence_for};

pub use fash::Fash;
pub use fast::Fast;

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
    /// Single words: children, first words of pages that come or go, the master's.
    pub words: Vec<(u64, u64)>,
}

impl Change {
    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.headers.is_empty() && self.words.is_empty()
    }

    /// The change as frames of a log.
    pub fn frames(&self) -> Frames {
        let mut frames = Frames::default();
        for (page, at, bytes) in &self.headers {
            frames.add(*page, *at, bytes);
        }
        for (at, value) in &self.words {
            frames.add_word(*at, *value);
        }
        frames
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
    /// The memory in which pages are read and records are written.
    type Pages: Memory;

    /// The scheme of a store with this log. `in_place` is the place of a word that nothing makes
    /// durable.
    fn new(memory: M, log: Log<M>, in_place: u64) -> Self;
    /// Makes what a killed process may have stored durable: `in_place` is what the word has.
    fn settle(_memory: &M, _in_place: u64, _page_bytes: u32) {}
    /// The memory of the pages.
    fn pages(&self) -> &Self::Pages;
    /// The log.
    fn log(&mut self) -> &mut Log<M>;

    /// Returns whether the change is committed without the log.
    fn commits_in_place(_change: &Change) -> bool {
        false
    }
    /// Commits such a change, durably.
    fn commit_in_place(&mut self, _change: Change) {
        unreachable!("nothing is committed in place");
    }
    /// Commits a change by its frames, for which the log has room, durably.
    fn commit_logged(&mut self, frames: &Frames, lines: LineSet);
}

/// Slot-header logging (P3 3.3): three fences. The mark that empties the log is flushed by the next
/// commit.
fn log_headers<M: Memory>(memory: &M, log: &mut Log<M>, frames: &Frames, mut lines: LineSet) {
    let written = log.append(frames, &mut lines);
    let written = fence_for(memory, written);
    let marked = log.commit(written, &mut lines);
    let marked = fence_for(memory, marked);
    log.checkpoint(marked, frames, &mut lines);
}
