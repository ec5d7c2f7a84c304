//! FAST (P3 4.2): a transaction that changes the records of one leaf and nothing else commits in place,
//! by the leaf's header; every other one by slot-header logging.
//!
//! A leaf's header is two lines, of which the one with the newer number counts (P3 has one line, that
//! hardware transactional memory keeps from being written back half done). A commit in place:
//!
//! 1. Flush the record; **fence**.
//! 2. In the older line, store all words but the first, then the first, which has the newer number.
//!    Flush; **fence**. *Committed.*
//!
//! *Crash before the first word is durable:* what persists of a line is a prefix of the stores to it, so
//! the line has its old number and does not count. *Behind it:* the line is whole. Where a line's
//! words persist in any order (aarch64), the others are fenced before the first.

use pm::{Flushed, LineSet, Memory, Off, Range, fence_for};

use super::{Change, Scheme, log_headers};
use crate::header::Kind;
use crate::layout::{TWIN_BYTES, WORD};
use crate::log::{Frames, Log};

/// The scheme; see the module's comment.
#[derive(Debug)]
pub struct Fast<M> {
    memory: M,
    log: Log<M>,
    /// The word that tells the process after a kill which page's header is being stored.
    in_place: Off<u64>,
}

impl<M: Memory> Scheme<M> for Fast<M> {
    const NAME: &'static str = "fast";
    const NUMBER: u32 = 2;
    const LEAF: Kind = Kind::Twin;
    const WHOLE_HEADERS: bool = false;
    type Pages = M;

    fn new(memory: M, log: Log<M>, in_place: u64) -> Self {
        Self { memory, log, in_place: Off::new(in_place) }
    }

    fn settle(memory: &M, in_place: u64, _page_bytes: u32) {
        let header = Range::new(in_place, TWIN_BYTES as u64);
        if in_place != 0 && pm::checked_range(header, memory.len()).is_ok() {
            memory.flush(header);
            memory.fence();
        }
    }

    fn pages(&self) -> &M {
        &self.memory
    }

    fn log(&mut self) -> &mut Log<M> {
        &mut self.log
    }

    fn commits_in_place(change: &Change) -> bool {
        change.words.is_empty() && change.headers.len() == 1
    }

    fn commit_in_place(&mut self, change: Change) {
        let Change { mut lines, headers, words: _ } = change;
        let [(page, at, header)] = &headers[..] else { unreachable!("one header") };
        self.log.settle(&mut lines);
        // A deletion writes no record.
        if !lines.is_empty() {
            let records = Flushed::lines(&self.memory, &mut lines, ());
            let () = fence_for(&self.memory, records).into_inner();
        }
        self.memory.store(self.in_place, *page);
        let start = page + *at as u64;
        let (words, _) = header.as_chunks::<WORD>();
        for (at, word) in (start..).step_by(WORD).zip(words).skip(1) {
            self.memory.store(Off::new(at), u64::from_le_bytes(*word));
        }
        lines.add(Range::new(start, header.len() as u64));
        if cfg!(target_arch = "aarch64") {
            lines.flush(&self.memory);
            self.memory.fence();
            lines.add(Range::new(start, header.len() as u64));
        }
        self.memory.store(Off::new(start), u64::from_le_bytes(words[0]));
        let committed = Flushed::lines(&self.memory, &mut lines, ());
        let () = fence_for(&self.memory, committed).into_inner();
    }

    fn commit_logged(&mut self, frames: &Frames, lines: LineSet) {
        log_headers(&self.memory, &mut self.log, frames, lines);
    }
}
