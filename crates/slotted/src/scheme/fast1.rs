//! FAST with one fence for the commit of one record in place: a leaf's line has a checksum of
//! itself and of the record that it was the first to lead to. An option in addition to the faithful
//! form.
//!
//! A commit in place of one record:
//!
//! 1. In the older line, store all words but the first, then the first, which has the newer number.
//!    Flush record and line; **fence**. *Committed.*
//!
//! *Crash before that fence:* the line may be durable and the record not. A line that another
//! opening of the store has written counts only if it matches its checksum; else the older one
//! counts, and the wrong one is overwritten, durably, before anything is written into the page: a
//! record that is put once more could make it match.
//!
//! Where a line's words persist in any order (aarch64), the others are fenced before the first: two
//! fences there.
//!
//! A commit of several records in one leaf has them durable before the line. Every other one goes
//! to the log, whose checksum covers the records: one fence, and one for the checkpoint, since a
//! commit in place may change a header next, by another way than the log.

use heap::Lane;
use pm::{Flushed, LineSet, Memory, Off, Range, fence_for, observe};

use super::fast::{fence_words, store_header};
use super::{Change, Commits, Parts, Records, Scheme};
use crate::Result;
use crate::header::{Kind, sign};
use crate::layout::{LINE, SLOT, WORD};
use crate::log::Log;
use crate::phases::{CHECKPOINT, LOG_FLUSH};

/// The scheme; see the module's comment.
#[derive(Debug)]
pub struct Fast1<M, const FENCED: bool = { cfg!(target_arch = "aarch64") }> {
    log: Log<M>,
    /// The word that records which page's header is being stored, for the process that opens after
    /// a kill.
    in_place: Off<u64>,
    /// The number of this opening.
    epoch: u16,
    commits: Commits,
}

impl<M: Memory, const FENCED: bool> Scheme<M> for Fast1<M, FENCED> {
    const NAME: &'static str = "fast1";
    const NUMBER: u32 = 7;
    const LEAF: Kind = Kind::Checked;
    const WHOLE_HEADERS: bool = false;
    const RECORDS: Records = Records::Checked;
    type Pages = M;

    fn open(parts: Parts<M>) -> Result<Self> {
        let (in_place, page) = parts.in_place;
        let mut log = parts.log;
        log.recover()?;
        // Its zero is durable with the number of this opening: what was logged by a transaction
        // that was cut off could match later.
        let mut lines = LineSet::new();
        log.settle(&mut lines);
        let (memory, whole) = (log.memory(), Range::new(page, u64::from(parts.page_bytes)));
        if page != 0 && pm::checked_range(whole, memory.len()).is_ok() {
            // A killed process may have stored its header and its record.
            lines.add(whole);
        }
        lines.flush(memory);
        Ok(Self { log, in_place: Off::new(in_place), epoch: 0, commits: Commits::default() })
    }

    fn begin(&mut self, epoch: u16) {
        self.epoch = epoch;
    }

    delegate_to_log!();

    fn commit(&mut self, lane: &mut Lane<M>, change: Change) -> Result<()> {
        let one_leaf = change.words.is_empty() && change.master.is_empty();
        if one_leaf && change.headers.len() == 1 {
            self.commits.in_place += 1;
            return self.commit_in_place(change);
        }
        let frames = change.checked_frames(self.log.memory())?;
        self.log.grow(lane, frames.bytes())?;
        let mut lines = change.lines;
        let marked = self.log.append_marked(&frames, &mut lines);
        let marked = fence_for(self.log.memory(), marked);
        observe!(M: self.log.memory().phase(LOG_FLUSH));
        self.log.checkpoint(marked, &frames, &mut lines);
        observe!(M: self.log.memory().phase(CHECKPOINT));
        self.commits.log(&frames);
        Ok(())
    }
}

impl<M: Memory, const FENCED: bool> Fast1<M, FENCED> {
    fn commit_in_place(&mut self, change: Change) -> Result<()> {
        let Change { mut lines, headers, written, .. } = change;
        let memory = self.log.memory().clone();
        let [(page, at, header)] = &headers[..] else { unreachable!("one header") };
        let mut header: [u8; LINE] = *header.first_chunk().expect("a whole line");
        self.log.settle(&mut lines);
        let mut newest = None;
        let mut record = Vec::new();
        if let [(_, at, len)] = written[..] {
            let slots = header[WORD..].chunks_exact(SLOT);
            newest = slots
                .map(|slot| usize::from(slot[0]) | usize::from(slot[1]) << 8)
                .position(|slot| slot == at);
            record.resize(len, 0);
            memory.read_into(Off::new(page + at as u64), &mut record)?;
        } else if !written.is_empty() {
            let records = Flushed::lines(&memory, &mut lines, ());
            let () = fence_for(&memory, records).into_inner();
        }
        sign(&mut header, self.epoch, newest, &record);
        memory.store(self.in_place, *page);
        let start = page + *at as u64;
        store_header(&memory, start, &header, &mut lines, |memory, lines| {
            // Under the first word of a new line the last words of an old one that the log has
            // stored would say that there is nothing to check.
            if FENCED {
                fence_words(memory, lines, start);
            }
        });
        let committed = Flushed::lines(&memory, &mut lines, ());
        let () = fence_for(&memory, committed).into_inner();
        observe!(M: memory.phase(CHECKPOINT));
        Ok(())
    }
}
