//! FASH with a commit in place by one word, in leaves whose headers are as long as they have
//! records: if every record offset that counts stays where it is, the first word of the header is
//! all that changes. So it is with a record whose key is larger than all others of its leaf, and
//! when such a one is deleted. An option in addition to the faithful form.
//!
//! 1. Store the new offsets after those that count; flush them and the records; **fence**. A
//!    deletion has none of both.
//! 2. Store the first word; flush; **fence**. *Committed.*
//!
//! *Crash before the word is durable:* bytes after the offsets that count are meaningless. The word
//! persists whole or not at all, on every processor.

use heap::Lane;
use pm::{Flushed, LineSet, Memory, Off, Range, fence_for, observe};

use super::{Change, Commits, Parts, Scheme, flush_in_place, log_headers};
use crate::Result;
use crate::header::Kind;
use crate::layout::WORD as WORD_BYTES;
use crate::log::Log;
use crate::phases::{CHECKPOINT, RECORD_FLUSH};

/// The scheme; see the module's comment.
#[derive(Debug)]
pub struct Word<M> {
    log: Log<M>,
    /// The word that records which page's header is being stored, for the process that opens after
    /// a kill.
    in_place: Off<u64>,
    commits: Commits,
}

impl<M: Memory> Scheme<M> for Word<M> {
    const NAME: &'static str = "word";
    const NUMBER: u32 = 8;
    const LEAF: Kind = Kind::Leaf;
    const WHOLE_HEADERS: bool = false;
    type Pages = M;

    fn open(parts: Parts<M>) -> Result<Self> {
        let (in_place, page) = parts.in_place;
        let mut log = parts.log;
        log.recover()?;
        flush_in_place(log.memory(), Range::new(page, WORD_BYTES as u64));
        Ok(Self { log, in_place: Off::new(in_place), commits: Commits::default() })
    }

    delegate_to_log!();

    fn commit(&mut self, lane: &mut Lane<M>, change: Change) -> Result<()> {
        let one_leaf = change.words.is_empty() && change.master.is_empty();
        let page = change.headers.first().map(|header| header.0);
        let same = change.headers.iter().all(|header| Some(header.0) == page);
        match page {
            Some(page) if one_leaf && same && change.offsets_stay => {
                self.commits.in_place += 1;
                self.commit_in_place(page, change)
            }
            _ => log_headers(&mut self.log, lane, change, &mut self.commits),
        }
    }
}

impl<M: Memory> Word<M> {
    fn commit_in_place(&mut self, page: u64, change: Change) -> Result<()> {
        let Change { mut lines, headers, .. } = change;
        let memory = self.log.memory().clone();
        self.log.settle(&mut lines);
        let mut first = None;
        for (_, at, bytes) in &headers {
            for (start, part) in (*at..).step_by(WORD_BYTES).zip(bytes.chunks(WORD_BYTES)) {
                let place = Off::<u64>::new(page + start as u64);
                // After the last offset the word keeps what it had: the gap, or a record.
                let mut word = memory.read(place)?.to_le_bytes();
                word[..part.len()].copy_from_slice(part);
                if start == 0 {
                    first = Some(u64::from_le_bytes(word));
                } else {
                    memory.store(place, u64::from_le_bytes(word));
                    lines.add(place.range());
                }
            }
        }
        if !lines.is_empty() {
            let written = Flushed::lines(&memory, &mut lines, ());
            let () = fence_for(&memory, written).into_inner();
        }
        observe!(M: memory.phase(RECORD_FLUSH));
        let header = Off::<u64>::new(page);
        memory.store(self.in_place, page);
        memory.store(header, first.expect("a header has a first word"));
        let mut lines = LineSet::new();
        lines.add(header.range());
        let committed = Flushed::lines(&memory, &mut lines, ());
        let () = fence_for(&memory, committed).into_inner();
        observe!(M: memory.phase(CHECKPOINT));
        Ok(())
    }
}
