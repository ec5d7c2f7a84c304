//! FAST (P3 4.2): a transaction that changes the records of one leaf and nothing else commits in
//! place, by the leaf's header; every other one by slot-header logging.
//!
//! A leaf's header is two lines, of which the one with the newer number counts (P3 has one line,
//! that hardware transactional memory keeps from being written back half done). A commit in place:
//!
//! 1. Flush the record; **fence**.
//! 2. In the older line, store all words but the first, then the first, which has the newer number.
//!    Flush; **fence**. *Committed.*
//!
//! *Crash before the first word is durable:* what persists of a line is a prefix of the stores to
//! it, so the line has its old number and does not count. *After it:* the line is whole. Where a
//! line's words persist in any order (aarch64), the others are fenced before the first
//! ([`FencedTwin`]).
//!
//! Where the processor can store a line whole ([`WholeLine`], x86's MOVDIR64B), the leaf has one
//! line, as in P3, and step 2 is one store and a fence. *Crash before the fence:* the line is the
//! old one or the new one. The next store to it comes after that fence.

use std::fmt::Debug;
use std::marker::PhantomData;

use heap::Lane;
use pm::{Flushed, LineSet, Memory, Off, Range, fence_for, observe};

use super::{Change, Commits, Parts, Scheme, flush_in_place, log_headers};
use crate::Result;
use crate::error::SlottedError;
use crate::flaw::{self, Flaw};
use crate::header::Kind;
use crate::layout::{LINE, TWIN_BYTES, WORD};
use crate::log::Log;
use crate::phases::{CHECKPOINT, RECORD_FLUSH};

/// The form of a leaf's header, and how it is stored in place.
pub trait HeaderForm: Debug + Send + 'static {
    /// The name of the scheme.
    const NAME: &'static str;
    /// Its number in the master of a store.
    const NUMBER: u32;
    /// The kind of the leaves.
    const LEAF: Kind;
    /// True if a fence has to order the words of a line.
    const FENCED: bool = false;
    /// True if a line is stored whole.
    const WHOLE: bool = false;
}

/// Two lines, of which the newer one counts; ordered as this processor needs it.
#[derive(Debug)]
pub struct Twin;

/// The same, with a fence between the words of a line, on any processor.
#[derive(Debug)]
pub struct FencedTwin;

/// One line, which is stored whole.
#[derive(Debug)]
pub struct WholeLine;

impl HeaderForm for Twin {
    const NAME: &'static str = "fast";
    const NUMBER: u32 = 2;
    const LEAF: Kind = Kind::Twin;
    const FENCED: bool = cfg!(target_arch = "aarch64");
}

impl HeaderForm for FencedTwin {
    const NAME: &'static str = "fast, fenced";
    const NUMBER: u32 = 2;
    const LEAF: Kind = Kind::Twin;
    const FENCED: bool = true;
}

impl HeaderForm for WholeLine {
    const NAME: &'static str = "line";
    const NUMBER: u32 = 9;
    const LEAF: Kind = Kind::Line;
    const WHOLE: bool = true;
}

/// FAST with headers that are stored whole.
pub type Line<M> = Fast<M, WholeLine>;

/// The scheme; see the module's comment.
#[derive(Debug)]
pub struct Fast<M, H = Twin> {
    log: Log<M>,
    commits: Commits,
    /// The word that records which page's header is being stored, for the process that opens after
    /// a kill.
    in_place: Off<u64>,
    form: PhantomData<H>,
}

impl<M: Memory, H: HeaderForm> Scheme<M> for Fast<M, H> {
    const NAME: &'static str = H::NAME;
    const NUMBER: u32 = H::NUMBER;
    const LEAF: Kind = H::LEAF;
    const WHOLE_HEADERS: bool = false;
    type Pages = M;

    fn check(memory: &M) -> Result<()> {
        if H::WHOLE && !memory.has_store_line() {
            let what =
                "headers that are stored as whole lines: that needs a processor with MOVDIR64B \
                        (`movdir64b` in /proc/cpuinfo) and another domain than disk"
                    .into();
            return Err(SlottedError::Options { what });
        }
        Ok(())
    }

    fn open(parts: Parts<M>) -> Result<Self> {
        let (in_place, page) = parts.in_place;
        let mut log = parts.log;
        log.recover()?;
        flush_in_place(log.memory(), Range::new(page, TWIN_BYTES as u64));
        let in_place = Off::new(in_place);
        Ok(Self { log, commits: Commits::default(), in_place, form: PhantomData })
    }

    delegate_to_log!();

    fn commit(&mut self, lane: &mut Lane<M>, change: Change) -> Result<()> {
        let one_leaf = change.words.is_empty() && change.master.is_empty();
        if one_leaf && change.headers.len() == 1 {
            self.commit_in_place(change);
            self.commits.in_place += 1;
            return Ok(());
        }
        log_headers(&mut self.log, lane, change, &mut self.commits)
    }
}

impl<M: Memory, H: HeaderForm> Fast<M, H> {
    /// Commits the header of one leaf (P3 3.2).
    fn commit_in_place(&mut self, change: Change) {
        let Change { mut lines, headers, .. } = change;
        let memory = self.log.memory().clone();
        let [(page, at, header)] = &headers[..] else { unreachable!("one header") };
        let at = &if flaw::has::<M>(Flaw::ActiveLineOverwritten) { LINE - at } else { *at };
        self.log.settle(&mut lines);
        if flaw::has::<M>(Flaw::HeaderBeforeFence) {
            store_header(&memory, page + *at as u64, header, &mut LineSet::new(), |_, _| ());
        }
        // A deletion writes no record.
        if flaw::has::<M>(Flaw::RecordUnfenced) {
            lines.flush(&memory);
        } else if !lines.is_empty() {
            let records = Flushed::lines(&memory, &mut lines, ());
            let () = fence_for(&memory, records).into_inner();
        }
        observe!(M: memory.phase(RECORD_FLUSH));
        memory.store(self.in_place, *page);
        let start = page + *at as u64;
        if H::WHOLE {
            let line = header.first_chunk().expect("a header is a line");
            memory.store_line(pm::Line::of(start), line);
            memory.fence();
            observe!(M: memory.phase(CHECKPOINT));
            return;
        }
        store_header(&memory, start, header, &mut lines, |memory, lines| {
            if H::FENCED {
                fence_words(memory, lines, start);
            }
        });
        if flaw::has::<M>(Flaw::HeaderUnflushed) {
            lines.clear();
        }
        if flaw::has::<M>(Flaw::AcknowledgedEarly) || lines.is_empty() {
            return lines.flush(&memory);
        }
        let committed = Flushed::lines(&memory, &mut lines, ());
        let () = fence_for(&memory, committed).into_inner();
        observe!(M: memory.phase(CHECKPOINT));
    }
}

/// Orders the words of a line that were stored before its first one, on a processor that does not.
#[track_caller]
pub(super) fn fence_words<M: Memory>(memory: &M, lines: &mut LineSet, start: u64) {
    lines.flush(memory);
    memory.fence();
    lines.add(Range::new(start, WORD as u64));
}

/// Stores a header in the line that begins at `start`: all words but the first, then the first.
/// Between them `before` does what the order needs.
#[track_caller]
pub(super) fn store_header<M: Memory>(
    memory: &M,
    start: u64,
    header: &[u8],
    lines: &mut LineSet,
    before: impl FnOnce(&M, &mut LineSet),
) {
    if flaw::has::<M>(Flaw::LineTorn) {
        lines.add(Range::new(start, header.len() as u64));
        return memory.copy(Off::new(start), header);
    }
    let (words, _) = header.as_chunks::<WORD>();
    if flaw::has::<M>(Flaw::FirstWordFirst) {
        memory.store(Off::new(start), u64::from_le_bytes(words[0]));
    }
    for (at, word) in (start..).step_by(WORD).zip(words).skip(1) {
        memory.store(Off::new(at), u64::from_le_bytes(*word));
    }
    lines.add(Range::new(start, header.len() as u64));
    before(memory, lines);
    memory.store(Off::new(start), u64::from_le_bytes(words[0]));
}
