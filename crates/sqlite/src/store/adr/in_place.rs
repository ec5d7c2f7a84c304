//! The in-place commit of P3 3.2: one store to a page's header commits, and nothing is logged.
//!
//! The header of a page begins with a word: the number of cells and where they begin. An insert after all other
//! cells, or a deletion of the newest one, changes no other live bytes. Where the processor stores whole lines
//! (MOVDIR64B), the pointers to cells in the header's line may change as well.
//!
//! 0. If a slot counts, checkpoint: its replay would store an older header. If that checkpoint may not be durable,
//!    step 1 makes it so.
//! 1. Store to unused space; flush; **fence**.
//! 2. Store the word and flush it, or store the line; **fence**. *Committed.*
//!
//! *Crash before step 2 is durable:* the stores have no meaning. The commit has no number: a connection that finds a
//! commit begun and not applied flushes the whole database, and what it sees counts.

use std::collections::BTreeSet;

use pm::Memory;

use crate::store::connection::Store;
use crate::store::error::Result;
use crate::store::last_commit::Lines;
use crate::store::plan::{Form, Plan, place_of};
use crate::store::span::{LINE_BYTES, Span};

impl<M: Memory> Store<M> {
    /// Commits a plan of one part whose header can be stored in place.
    pub(in crate::store) fn commit_in_place(&mut self, plan: &Plan) -> Result<()> {
        let (part, image) = (&plan.parts[0], &plan.images[0]);
        let whole_line = plan.in_place == Some(Form::Line);
        if self.side.checkpointed()? < self.last.number() {
            self.checkpoint_slots()?;
        }
        let (mut lines, mut flushed) = (Lines::default(), BTreeSet::new());
        if self.last.is_open() {
            self.side.note_header(&mut lines.side);
        }
        if !self.view.marker_is_durable() {
            self.note_marker(&mut lines);
        }
        // The rest of the header's line is stored with it.
        let from = if whole_line { LINE_BYTES } else { 0 };
        for run in part.direct.iter().filter(|run| run.end() > from) {
            let rest = Span::between(run.at.max(from), run.end());
            self.put_run(part.frame, rest, image, &mut flushed);
        }
        for line in flushed {
            self.note_line(line, &mut lines.data);
        }
        // A deletion stores nothing before its header.
        if !(lines.data.is_empty() && lines.side.is_empty()) {
            self.fence(&mut lines);
            self.healthy()?;
        }
        self.last.note_durable_checkpoint();
        self.view.note_durable_marker();
        let at = place_of(part.frame, self.page_bytes());
        if whole_line {
            let line = image.first_chunk().expect("a page has a line");
            self.data.store_line(at, line);
            self.stats.lines += 1;
        } else {
            let word = image.first_chunk().expect("a page has a word");
            self.data.store(at, u64::from_le_bytes(*word));
            self.data.note(&mut lines.data, at, 8);
        }
        self.fence(&mut lines);
        self.healthy()?;
        self.stats.in_place += 1;
        self.put_counters(&plan.counters)?;
        // If that has failed, the next connection raises the counters.
        self.data.memory().healthy()?;
        self.side.set_begun(self.last.number());
        Ok(())
    }
}
