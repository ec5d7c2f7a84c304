//! A commit from its beginning to its dispatch by the mode: its work is found, and room is made for it.

use pm::Memory;

use crate::store::connection::{Store, UNFLUSHED_LINE_BYTES};
use crate::store::error::{Result, StoreError};
use crate::store::layout::{GRANULE, HEADER_BYTES};
use crate::store::mode::Mode;
use crate::store::nvwal_log::frame_log::bytes_of;
use crate::store::plan::Work;
use crate::store::room;
use crate::store::shape::Shape;

/// A slot holds the lower half of a commit's number, so the last checkpoint may not be further back.
const CHECKPOINT_LAG_MAX: u64 = 1 << 30;

/// The most memory that a commit takes for a staged granule, and besides.
const COMMITTED_GRANULE_BYTES: usize = 32 * GRANULE as usize;
const COMMIT_BYTES: usize = 64 << 10;
/// The most lines that a lean commit notes for a granule, in the log and in place, and besides.
const LINES_PER_GRANULE: usize = 2 * GRANULE as usize / pm::LINE_BYTES as usize;
const LINES_PER_COMMIT: usize = 16;

/// The way in which a commit's work is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// A plan of all pages.
    Plan,
    /// A lean record, if pages keep their size.
    Lean,
    /// NVWAL's log frames.
    Frames,
}

impl<M: Memory> Store<M> {
    /// Commits the staged bytes. The caller has exclusive access, also among stock SQLite if the marker is not set.
    ///
    /// # Errors
    /// There is no room, or the medium fails. Everything stays staged, and nothing has changed.
    pub fn commit(&mut self) -> Result<()> {
        if self.is_prepared() {
            return Err(StoreError::Prepared);
        }
        // As after the rollback of a creation.
        if self.stage.changes_nothing(self.view.size()) {
            self.stage.clear();
            return Ok(());
        }
        let by_frames = self.mode() == Mode::Nvwal && self.fits_into_frames(self.size());
        let lean = self.mode() == Mode::Lean && !self.stage.is_streamed();
        let (size, work) = match (by_frames, lean) {
            (true, _) => self.begin(Way::Frames)?,
            (_, true) => self.begin(Way::Lean)?,
            _ => self.begin(Way::Plan)?,
        };
        match work {
            Work::Counters(counters) => {
                // A page past the end of a truncated file may have looked like one that has not changed.
                self.healthy()?;
                self.put_counters(&counters)?;
                self.side.set_begun(self.last.number());
                self.stage.clear();
                return Ok(());
            }
            Work::Pages(plan) => match self.mode() {
                Mode::Fast if plan.in_place.is_some() => self.commit_in_place(&plan)?,
                Mode::Fash | Mode::Fast => self.order_pages(size, &plan)?,
                Mode::Fash1 | Mode::Nvwal | Mode::Full | Mode::Lean => {
                    self.log_pages(size, &plan, false)?;
                }
            },
            Work::Lean(counters) => self.commit_lean(size, &counters)?,
            Work::Stream(mut streamed) => self.commit_stream(size, &mut streamed)?,
            Work::Bytes(frames, counters) if by_frames => {
                self.log_frames(size, &frames, &counters)?;
            }
            Work::Bytes(frames, counters) => match self.mode() {
                Mode::Fash | Mode::Fast => self.order_bytes(size, &frames, &counters)?,
                Mode::Fash1 | Mode::Nvwal | Mode::Full | Mode::Lean => {
                    self.log_bytes(size, &frames, &counters)?;
                }
            },
        }
        self.stage.clear();
        self.stats.commits += 1;
        self.healthy()
    }

    /// Begins a commit: finds out the database's size after it, and its work.
    pub(super) fn begin(&mut self, way: Way) -> Result<(u64, Work)> {
        self.healthy()?;
        self.counter.begin_commit();
        self.load_last_commit()?;
        let size = self.size();
        let shape = self.shape(size)?;
        // Before anything is stored.
        self.ensure_memory(way, shape)?;
        // A connection that finds a commit begun and not applied makes the files' lengths durable.
        self.side.set_begun(self.last.next());
        let work = self.work(size, shape, way).inspect_err(|error| {
            // Any other failure may have left stores.
            if error.leaves_no_stores() {
                self.side.set_begun(self.last.number());
            }
        })?;
        match &work {
            Work::Counters(_) | Work::Stream(_) | Work::Lean(_) => {}
            Work::Pages(plan) => {
                self.stats.placed += plan.placed;
                self.stats.exact += plan.exact;
            }
            Work::Bytes(..) => self.stats.bytewise += u64::from(way != Way::Frames),
        }
        Ok((size, work))
    }

    /// Makes sure of the memory that a commit takes. A large transaction takes it page by page.
    fn ensure_memory(&mut self, way: Way, shape: Option<(Shape, bool)>) -> Result<()> {
        let unflushed = self.last.unflushed_lines() * UNFLUSHED_LINE_BYTES;
        let is_usual = |(shape, by_pages): (Shape, bool)| {
            by_pages && shape.page_bytes() as u32 == self.side.table().page_bytes
        };
        if way == Way::Lean
            && self.view.is_marked()
            && unflushed == 0
            && shape.is_some_and(is_usual)
        {
            // Its buffers stay.
            return self.reserve_lines();
        }
        let granules = if self.stage.is_streamed() { 0 } else { self.stage.granules() };
        room::ensure(granules * COMMITTED_GRANULE_BYTES + unflushed + COMMIT_BYTES)
    }

    /// Makes room for the lines that a lean commit notes.
    fn reserve_lines(&mut self) -> Result<()> {
        let most = self.stage.granules() * LINES_PER_GRANULE + LINES_PER_COMMIT;
        let data = if self.needs_flush() { most } else { LINES_PER_COMMIT };
        self.last.reserve_lines(most, data).map_err(|_| StoreError::Memory)
    }

    /// Finds out what to commit, and makes room for it.
    fn work(&mut self, size: u64, shape: Option<(Shape, bool)>, way: Way) -> Result<Work> {
        let by_frames = way == Way::Frames;
        let page_bytes = shape.map_or(0, |(shape, _)| shape.page_bytes() as u32);
        if !self.view.is_marked() {
            // Before the file grows: stock SQLite may take its length for the database's.
            self.data.grow(HEADER_BYTES)?;
            self.mark(page_bytes)?;
        }
        self.data.grow(size.max(HEADER_BYTES))?;
        if !by_frames {
            self.checkpoint_frames()?;
        }
        let by_pages = shape.is_some_and(|(_, by_pages)| by_pages);
        let table = self.side.table();
        if table.page_bytes != page_bytes || !by_pages && table.entries > 0 {
            if !self.can_restore_layout() {
                return Err(StoreError::PagesInUse);
            }
            self.change_page_size(page_bytes)?;
        }
        if self.last.is_other_kind(by_pages)
            || self.last.number().saturating_sub(self.side.checkpointed()?) > CHECKPOINT_LAG_MAX
        {
            self.checkpoint_slots()?;
        }
        // The log's blocks may overwrite a large commit, whose checkpoint has to be durable first.
        if by_frames && self.last.is_open() {
            self.checkpoint_slots()?;
        }
        self.zero_gaps(size)?;
        if by_frames {
            let (mut frames, counters) = self.frames(size)?;
            if size != self.view.size() {
                // A log frame without bytes carries the database's size.
                frames.add(size, &[])?;
            }
            if frames.bytes.is_empty() {
                return Ok(Work::Counters(counters));
            }
            let bytes = bytes_of(&frames);
            match self.side.reserve_log(self.cache.state().0 + bytes) {
                // A checkpoint empties the log, and makes room.
                Err(StoreError::Full(_)) if !self.cache.is_empty() => {
                    self.checkpoint_frames()?;
                    self.side.reserve_log(bytes)?;
                }
                room => room?,
            }
            return Ok(Work::Bytes(frames, counters));
        }
        if let Some((shape, true)) = shape {
            return match way {
                _ if self.stage.is_streamed() => self.work_of_stream(size, shape),
                Way::Lean => self.lean_work(size, shape),
                _ => self.work_of_pages(size, shape),
            };
        }
        let (frames, counters) = self.frames(size)?;
        if frames.bytes.is_empty() && size == self.view.size() {
            return Ok(Work::Counters(counters));
        }
        self.make_room(frames.bytes.len() as u64)?;
        Ok(Work::Bytes(frames, counters))
    }

    fn lean_work(&mut self, size: u64, shape: Shape) -> Result<Work> {
        let counters = self.make_lean_record(size, shape.page_bytes() as u64)?;
        if self.lean.len() == 0 && size == self.view.size() {
            return Ok(Work::Counters(counters));
        }
        self.make_room(self.lean.len())?;
        // A checkpoint has taken the lines, and the room for more.
        self.reserve_lines()?;
        Ok(Work::Lean(counters))
    }

    fn work_of_pages(&mut self, size: u64, shape: Shape) -> Result<Work> {
        let plan = self.plan(size, shape)?;
        if plan.parts.is_empty() && size == self.view.size() {
            return Ok(Work::Counters(plan.counters));
        }
        if let Some(last) = plan.moves().map(|step| step.page).max() {
            self.widen_table(last)?;
        }
        self.make_room(plan.record_bytes())?;
        Ok(Work::Pages(plan))
    }

    /// The shape of pages after the transaction, and whether it was the same before, so that the commit can be
    /// page-wise. `None` if page 1 has none.
    fn shape(&self, size: u64) -> Result<Option<(Shape, bool)>> {
        if size < HEADER_BYTES {
            return Ok(None);
        }
        let (mut old, mut new) = ([0; HEADER_BYTES as usize], [0; HEADER_BYTES as usize]);
        self.staged(0, &mut new)?;
        let Some(shape) = Shape::of_file(&new) else { return Ok(None) };
        let whole = |size: u64| size.is_multiple_of(shape.page_bytes() as u64);
        let before = self.view.size();
        let same = before == 0 || {
            self.in_place(0, &mut old[..HEADER_BYTES.min(before) as usize])?;
            Shape::of_file(&old) == Some(shape)
        };
        Ok(Some((shape, same && whole(size) && whole(before))))
    }

    /// Makes room in the log.
    pub(super) fn make_room(&mut self, bytes: u64) -> Result<()> {
        if !self.side.fits(bytes) {
            self.side.grow(bytes)?;
            self.checkpoint_slots()?;
        }
        Ok(())
    }
}
