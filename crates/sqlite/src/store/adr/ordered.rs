//! A commit in the order of P3 3.3: slot-header logging with a fence for each step.
//!
//! 1. Store directly to unused space, and write the rest into the slot, except its mark. Flush this, and the previous
//!    commit's lines; **fence**.
//! 2. Store the mark; flush; **fence**. *Committed.*
//! 3. Store the rest in place; flush; **fence**.
//! 4. Empty the log: one store says that the commit is checkpointed. The next commit's step 1 flushes it.
//!
//! *Crash before the mark is durable:* the direct stores have no meaning. *Before step 4 is:* the slot counts and is
//! replayed. If a newer commit counts as well, step 3 was durable when that one began.

use std::collections::BTreeSet;

use pm::Memory;

use crate::store::connection::Store;
use crate::store::error::Result;
use crate::store::frames::Frames;
use crate::store::last_commit::Lines;
use crate::store::plan::{Counters, Plan};
use crate::store::replay::replay;
use crate::store::slot::Entry;

impl<M: Memory> Store<M> {
    /// Logs, marks and applies a plan.
    pub(in crate::store) fn order_pages(&mut self, size: u64, plan: &Plan) -> Result<()> {
        let mut lines = self.take_unflushed();
        let mut flushed = BTreeSet::new();
        self.put_direct(plan, &mut flushed);
        for line in flushed {
            self.note_line(line, &mut lines.data);
        }
        let mut record = Vec::new();
        plan.parts.iter().for_each(|part| part.encode(&mut record));
        self.mark_commit(size, true, &record, &mut lines)?;
        self.put_parts(&replay(&plan.parts, None, self.page_bytes() as usize), &mut lines.data);
        self.note_stored_after_commit(&plan.parts, &mut lines.data);
        for step in plan.moves() {
            self.side.put_page(step, &mut lines.side);
        }
        self.stats.moved += plan.moves().count() as u64;
        self.stats.frames += plan.parts.len() as u64;
        self.finish_ordered(size, &plan.counters, lines)
    }

    /// Logs, marks and applies runs of bytes.
    pub(in crate::store) fn order_bytes(
        &mut self,
        size: u64,
        frames: &Frames,
        counters: &Option<Counters>,
    ) -> Result<()> {
        let mut lines = self.take_unflushed();
        self.mark_commit(size, false, &frames.bytes, &mut lines)?;
        self.put_frames(&frames.bytes, &mut lines.data);
        self.stats.frames += frames.count;
        self.finish_ordered(size, counters, lines)
    }

    /// Logs and marks a commit (steps 1 and 2).
    fn mark_commit(
        &mut self,
        size: u64,
        pages: bool,
        bytes: &[u8],
        lines: &mut Lines,
    ) -> Result<()> {
        let number = self.last.next();
        self.side.set_begun(number);
        let sized = (size != self.view.size()).then_some(size);
        let direct = crc32c::crc32c(bytes);
        let entry = Entry { number, size: sized, pages, bytes, direct, ordered: true };
        let mark = self.side.write(&entry, &mut lines.side);
        // An ordered previous commit is checkpointed.
        self.side.note_header(&mut lines.side);
        self.fence(lines);
        self.side.set_mark(number, mark, &mut lines.side);
        self.acknowledge(number, lines)?;
        self.stats.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Ends step 3, and makes step 4.
    fn finish_ordered(
        &mut self,
        size: u64,
        counters: &Option<Counters>,
        mut lines: Lines,
    ) -> Result<()> {
        let number = self.last.next();
        if size != self.view.size() {
            self.side.set_size(size, &mut lines.side);
        }
        self.fence(&mut lines);
        // If that has failed, the next connection replays.
        self.healthy()?;
        self.side.set_checkpointed(number, &mut lines.side);
        self.put_counters(counters)?;
        self.data.memory().healthy()?;
        self.side.set_applied(number);
        self.side.set_begun(number);
        self.view.note_applied(size, number);
        self.last.note_settled(number);
        Ok(())
    }
}
