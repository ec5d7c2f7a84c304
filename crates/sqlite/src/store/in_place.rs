//! The in-place commit of P3 3.2: one store to a page's header commits, and nothing is logged.
//!
//! The header of a page of SQLite's begins with a word: how many cells there are, and where they begin. An insert behind
//! all others, or a deletion of the newest cell, changes nothing else that means something. Where the processor stores
//! lines whole (MOVDIR64B), all pointers to cells may change that lie in the header's line.
//!
//! 0. If a slot counts, settle: a replay of it would store an older header. If the last commit is settled and that may
//!    not be durable, it becomes so with 1.
//! 1. Store what goes where nothing is; flush; **fence**.
//! 2. Store the word; flush; or store the line; **fence**. *Committed.*
//!
//! *Crash before 2 is durable:* what was stored means nothing. The commit has no number: whoever finds that one has begun
//! and is not in place flushes the whole database, and what he sees of it counts.

use std::collections::BTreeSet;

use pm::Memory;

use crate::store::connection::{Lines, Store};
use crate::store::error::Result;
use crate::store::plan::{Form, Plan, place_of};
use crate::store::span::{LINE_BYTES, Span};

impl<M: Memory> Store<M> {
    /// Commits a plan of one part, whose header can be stored in place.
    pub(super) fn commit_in_place(&mut self, plan: &Plan) -> Result<()> {
        let (part, image) = (&plan.parts[0], &plan.images[0]);
        let whole_line = plan.in_place == Some(Form::Line);
        if self.side.checkpointed()? < self.last {
            self.checkpoint_slots()?;
        }
        let (mut lines, mut flushed) = (Lines::default(), BTreeSet::new());
        if self.known_checkpointed < self.last {
            self.side.note_header(&mut lines.side);
        }
        if !self.marker_is_durable {
            self.note_marker(&mut lines);
        }
        // What lies in the header's line is stored with it.
        let from = if whole_line { LINE_BYTES } else { 0 };
        for run in part.direct.iter().filter(|run| run.end() > from) {
            let rest = Span::between(run.at.max(from), run.end());
            self.put_run(part.frame, rest, image, &mut flushed);
        }
        for line in flushed {
            self.note_line(line, &mut lines.data);
        }
        // A deletion stores nothing before.
        if !(lines.data.is_empty() && lines.side.is_empty()) {
            self.fence(&mut lines);
            self.healthy()?;
        }
        (self.known_checkpointed, self.marker_is_durable) = (self.last, true);
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
        // Where that has failed, whoever comes next raises them.
        self.data.memory().healthy()?;
        self.side.set_begun(self.last);
        Ok(())
    }
}
