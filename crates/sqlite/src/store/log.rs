//! Steps 2 and 3 of a page-wise commit ([`crate::store::connection`]).

use std::collections::BTreeSet;

use pm::{LineSet, Memory};

use crate::store::connection::Store;
use crate::store::deferred_flush::{FrameLine, Unflushed};
use crate::store::error::Result;
use crate::store::last_commit::Lines;
use crate::store::layout::LOGGED_AT;
use crate::store::moves::moves;
use crate::store::page1;
use crate::store::plan::{Plan, place_of};
use crate::store::record::{Part, RUN_BYTES};
use crate::store::replay::{Restored, replay};
use crate::store::slot::Entry;
use crate::store::span::{LINE_BYTES, Span};

const LINE: u64 = LINE_BYTES as u64;

impl<M: Memory> Store<M> {
    /// Bytes of a page.
    #[inline]
    pub(super) fn page_bytes(&self) -> u64 {
        u64::from(self.side.table().page_bytes)
    }

    /// Logs and applies a plan (steps 2 and 3). If it `goes_on`, a further commit follows, and the last begun
    /// commit stays ahead of the last applied one throughout.
    pub(super) fn log_pages(&mut self, size: u64, plan: &Plan, goes_on: bool) -> Result<()> {
        let lines = self.record_pages(size, plan)?;
        let number = self.last.next();
        self.place_pages(number, size, plan, lines)?;
        if !goes_on {
            self.side.set_begun(number);
        }
        Ok(())
    }

    /// Logs a plan (step 2). Returns the lines to flush with the next commit.
    pub(super) fn record_pages(&mut self, size: u64, plan: &Plan) -> Result<Lines> {
        let number = self.last.next();
        self.side.set_begun(number);
        let sized = (size != self.view.size()).then_some(size);
        let mut flushed = BTreeSet::new();
        let direct = self.put_direct(plan, &mut flushed);
        let parts = self.defer_flushes(plan, sized.is_some(), &mut flushed);
        let mut record = Vec::new();
        parts.iter().for_each(|part| part.encode(&mut record));
        let mut lines = self.last.take_stored();
        let entry =
            Entry { number, size: sized, pages: true, bytes: &record, direct, ordered: false };
        self.side.log(&entry, &mut lines.side);
        for line in flushed {
            self.note_line(line, &mut lines.data);
        }
        self.acknowledge(number, &mut lines)?;
        self.stats.bytes += record.len() as u64;
        Ok(lines)
    }

    /// Applies a plan (step 3).
    pub(super) fn place_pages(
        &mut self,
        number: u64,
        size: u64,
        plan: &Plan,
        mut lines: Lines,
    ) -> Result<()> {
        self.put_parts(&replay(&plan.parts, None, self.page_bytes() as usize), &mut lines.data);
        for step in plan.moves() {
            self.side.put_page(step, &mut lines.side);
        }
        self.stats.moved += plan.moves().count() as u64;
        self.stats.frames += plan.parts.len() as u64;
        self.finish_apply(number, size, true, &plan.counters, lines)?;
        Ok(())
    }

    /// Makes the direct stores; returns their checksum.
    pub(super) fn put_direct(&mut self, plan: &Plan, flushed: &mut BTreeSet<FrameLine>) -> u32 {
        let mut check = 0;
        for (part, image) in plan.parts.iter().zip(&plan.images) {
            for run in &part.direct {
                check = crc32c::crc32c_append(check, run.of(image));
                self.put_run(part.frame, *run, image, flushed);
            }
        }
        check
    }

    /// Stores a run to unused space.
    pub(super) fn put_run(
        &mut self,
        frame: u32,
        run: Span,
        image: &[u8],
        flushed: &mut BTreeSet<FrameLine>,
    ) {
        self.data.copy(place_of(frame, self.page_bytes()) + run.at as u64, run.of(image));
        flushed.extend(lines_of(frame, run));
        self.stats.direct += run.bytes as u64;
    }

    /// The parts to log: those of the plan, and the earlier runs that they log again. Lines whose flush is not
    /// deferred are flushed.
    fn defer_flushes(
        &mut self,
        plan: &Plan,
        sized: bool,
        flushed: &mut BTreeSet<FrameLine>,
    ) -> Vec<Part> {
        let mut parts = plan.parts.clone();
        // A line that is flushed anyway needs no relogging. The image of an unused frame does not have all its
        // bytes.
        let (direct, relogs) = (&*flushed, |frame| {
            parts.iter().any(|part| part.frame == frame && !part.logged.is_empty())
        });
        let taken =
            self.last.unflushed().take(|line| direct.contains(&line) || !relogs(line.frame));
        let stored: Vec<(u32, Span)> =
            parts.iter().filter(|part| part.frame != 1).flat_map(stored_after_commit).collect();
        let bytes = plan.record_bytes();
        let head = LOGGED_AT + if sized { 8 } else { 0 };
        let room = match self.side.fits(bytes + 2 * LINE) {
            true => (head + bytes).next_multiple_of(LINE) - head - bytes,
            false => 0,
        };
        let deferred = self.last.unflushed().commit(&stored, room as usize, RUN_BYTES);
        flushed.extend(taken.into_iter().chain(deferred.flush));
        for (frame, run) in deferred.relogged {
            let at = parts.iter().position(|part| part.frame == frame);
            let at = at.expect("only frames that this commit stores to are relogged");
            parts[at].logged.push(run);
            parts[at].bytes.extend_from_slice(run.of(&plan.images[at]));
        }
        parts
    }

    /// Adds a frame's line to `lines`.
    pub(super) fn note_line(&self, line: FrameLine, lines: &mut LineSet) {
        let at = place_of(line.frame, self.page_bytes()) + line.line as u64 * LINE;
        self.data.note(lines, at, LINE);
    }

    /// Makes the stores of a recovery, or of step 3. Page 1's lines are added to `lines`.
    #[track_caller]
    pub(super) fn put_parts(&self, stores: &[Restored], lines: &mut LineSet) {
        for store in stores {
            let zeros;
            let bytes = match store.bytes {
                Some(bytes) => bytes,
                None => {
                    zeros = vec![0; store.len];
                    &zeros[..]
                }
            };
            let at = place_of(store.frame, self.page_bytes()) + store.at as u64;
            for part in page1::all_but_counters(at, store.len) {
                self.data.copy(at + part.start as u64, &bytes[part]);
            }
            if store.frame == 1 {
                self.data.note(lines, at, store.len as u64);
            }
        }
    }

    /// Adds the lines of the stores after a commit to `lines`.
    pub(super) fn note_stored_after_commit(&self, parts: &[Part], lines: &mut LineSet) {
        for (frame, run) in parts.iter().flat_map(stored_after_commit) {
            for line in lines_of(frame, run) {
                self.note_line(line, lines);
            }
        }
    }

    /// Takes note of another connection's step 3.
    pub(super) fn note_parts(&mut self, parts: &[Part]) {
        let stored: Vec<(u32, Span)> = parts.iter().flat_map(stored_after_commit).collect();
        let (first, others): (Vec<_>, Vec<_>) = stored.into_iter().partition(|run| run.0 == 1);
        *self.last.unflushed() = Unflushed::new();
        self.last.unflushed().commit(&others, 0, RUN_BYTES);
        for (frame, run) in first {
            for line in lines_of(frame, run) {
                let at = line.line as u64 * LINE;
                self.data.note(&mut self.last.stored().data, at, LINE);
            }
        }
        for step in moves(parts) {
            self.side.note_page(step, &mut self.last.stored().side);
        }
    }

    /// Adds the lines of direct stores to `lines`.
    pub(super) fn note_direct(&self, parts: &[Part], lines: &mut Lines) {
        for part in parts {
            for line in part.direct.iter().flat_map(|run| lines_of(part.frame, *run)) {
                self.note_line(line, &mut lines.data);
            }
        }
    }

    /// The checksum of the bytes where direct stores were made.
    ///
    /// # Errors
    /// The medium fails.
    pub(super) fn check_direct(&self, parts: &[Part]) -> Result<u32> {
        let (mut check, mut bytes) = (0, Vec::new());
        for part in parts {
            for run in &part.direct {
                bytes.resize(run.bytes, 0);
                let at = place_of(part.frame, self.page_bytes()) + run.at as u64;
                self.data.read_into(at, &mut bytes)?;
                check = crc32c::crc32c_append(check, &bytes);
            }
        }
        Ok(check)
    }
}

/// The runs of a part that are stored after the commit, with the frame.
fn stored_after_commit(part: &Part) -> impl Iterator<Item = (u32, Span)> + '_ {
    part.logged.iter().chain(&part.erased).map(|run| (part.frame, *run))
}

/// The lines of a frame that contain a run.
fn lines_of(frame: u32, run: Span) -> impl Iterator<Item = FrameLine> {
    (run.at / LINE_BYTES..=(run.end() - 1) / LINE_BYTES).map(move |line| FrameLine { frame, line })
}
