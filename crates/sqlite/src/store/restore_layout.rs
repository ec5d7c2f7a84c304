//! The way home: all pages are taken to their own frames, so that the file is one of SQLite's.
//!
//! It goes in chunks, each one commit, so a crash on the way loses nothing, and whoever opens the database
//! next goes on ([`crate::store::permutation`]). A page is copied directly, to a frame in which nothing is. Where
//! the medium has no room for such a frame, two pages change places through the log.

use std::collections::BTreeMap;

use pm::Memory;

use crate::store::connection::{Lines, Store};
use crate::store::error::{Result, StoreError};
use crate::store::layout::HEADER_BYTES;
use crate::store::page1;
use crate::store::parse::Shape;
use crate::store::permutation::{Chunk, Move, Permutation};
use crate::store::plan::{Plan, place_of};
use crate::store::record::Part;
use crate::store::side::Table;
use crate::store::span::Span;

/// The least entries of a table.
const ENTRIES_MIN: u64 = 64;
/// The most pages that a chunk copies.
const COPIES_MAX: u64 = 256;
/// The bytes of a record that a copied page has at most for 256 of its own, and for itself.
const RECORD_BYTES: [u64; 2] = [4, 48];

impl<M: Memory> Store<M> {
    /// Takes all pages home, and settles that. Then no page is permutation, not even one that the database does not
    /// have any more: the file may be cut. The caller has the database to himself.
    ///
    /// # Errors
    /// The medium fails: the next one goes on.
    pub fn restore_layout(&mut self) -> Result<()> {
        if self.is_prepared() {
            return Err(StoreError::Prepared);
        }
        if !self.can_restore_layout() {
            return Err(StoreError::PagesInUse);
        }
        self.load_last_commit()?;
        self.side.set_begun(self.last + 1);
        self.change_page_size(self.side.table.page_bytes)?;
        self.side.set_begun(self.last);
        Ok(())
    }

    /// Returns whether no page that is lent may lie in another frame than its own.
    pub fn can_restore_layout(&self) -> bool {
        self.fetched == 0 || self.side.table.entries == 0
    }

    /// Takes the database's pages home. Until that is settled, a commit has begun that is not in place: some of
    /// what was stored directly means nothing, and another commit would store there.
    fn move_pages_back(&mut self) -> Result<()> {
        self.load_last_commit()?;
        let mut permutation = self.side.permutation()?;
        if permutation.displaced() == 0 {
            return Ok(());
        }
        let page_bytes = u64::from(self.side.table.page_bytes);
        let shape = Shape::new(page_bytes as usize, 0, false);
        let shape = shape.ok_or(StoreError::SideDamaged("its table is of no pages"))?;
        let pages = (self.size / page_bytes) as u32;
        // Frames behind the end, as many as are needed at most, and one that is never used.
        let mut has_room =
            match self.widen_table(pages.saturating_add(permutation.displaced() as u32 + 2)) {
                Err(StoreError::Full(_)) => false,
                widened => widened.map(|()| true)?,
            };
        let each = RECORD_BYTES[0] * (page_bytes / 256) + RECORD_BYTES[1];
        let most = (self.side.slot_bytes / each / 2).clamp(1, COPIES_MAX) as usize;
        while let Some(chunk) = permutation.chunk(pages, shape.lock_page(), most) {
            let past_end = chunk.copies.iter().any(|copy| copy.to > pages);
            let plan = match self.chunk_plan(&chunk, page_bytes) {
                Err(StoreError::Full(_)) => None,
                plan => Some(plan?).filter(|_| has_room || !past_end),
            };
            let (plan, moves, copied) = match plan {
                Some(plan) => (plan, chunk.moves, chunk.copies.len()),
                None => {
                    has_room = false;
                    let (plan, moves) =
                        self.swap(&permutation, pages, shape.lock_page(), page_bytes)?;
                    (plan, moves, 1)
                }
            };
            self.log_pages(self.size, &plan, true)?;
            self.stats.restored += copied as u64;
            let damaged = |_| StoreError::SideDamaged("its table has two pages in one frame");
            permutation.apply(&moves).map_err(damaged)?;
        }
        Ok(())
    }

    /// The changes that a chunk makes.
    fn chunk_plan(&self, chunk: &Chunk, page_bytes: u64) -> Result<Plan> {
        let from: BTreeMap<u32, u32> =
            chunk.copies.iter().map(|copy| (copy.to, copy.from)).collect();
        let last = chunk.copies.iter().map(|copy| copy.to).max().unwrap_or(1);
        self.data.grow(place_of(last, page_bytes) + page_bytes)?;
        let mut plan = Plan::default();
        for step in &chunk.moves {
            let (mut direct, mut image) = (Vec::new(), Vec::new());
            if let Some(from) = from.get(&step.frame) {
                image = self.frame(*from, page_bytes)?;
                direct.push(Span::new(0, page_bytes as usize));
            }
            let (frame, moved) = (step.frame, Some(step.page));
            plan.parts.push(Part { frame, moved, direct, ..Part::default() });
            plan.images.push(image);
        }
        Ok(plan)
    }

    /// The changes that take a page home, and the one in its place to where it was.
    fn swap(
        &self,
        permutation: &Permutation,
        pages: u32,
        unused: u32,
        page_bytes: u64,
    ) -> Result<(Plan, Vec<Move>)> {
        let mut all = permutation.moved().filter(|step| step.page <= pages && step.page != unused);
        let there = all.next().expect("a page is not at home");
        let (page, frame) = (there.page, there.frame);
        let moves = vec![Move { page, frame: page }, Move { page: permutation.page(page), frame }];
        let mut plan = Plan::default();
        for (step, from) in moves.iter().zip([frame, page]) {
            let bytes = self.frame(from, page_bytes)?;
            let (moved, logged) = (Some(step.page), vec![Span::new(0, bytes.len())]);
            plan.images.push(bytes.clone());
            plan.parts.push(Part { frame: step.frame, moved, logged, bytes, ..Part::default() });
        }
        Ok((plan, moves))
    }

    /// The bytes of a frame.
    fn frame(&self, frame: u32, page_bytes: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; page_bytes as usize];
        self.data.read_into(place_of(frame, page_bytes), &mut bytes)?;
        Ok(bytes)
    }

    /// Clears the marker of a database that is settled and whose file has its size: it is a plain file again.
    /// The caller has the database to himself, and nobody opens it meanwhile.
    ///
    /// # Errors
    /// The medium fails.
    pub fn make_plain(&mut self) -> Result<()> {
        // First: whoever finds it cleared does not take it for set.
        let cleared = self.side.cleared()?.wrapping_add(1);
        self.side.set_cleared(cleared);
        self.cleared = Some(cleared);
        if self.size >= HEADER_BYTES {
            let mut lines = Lines::default();
            page1::clear_marker(&self.data, &mut lines.data)?;
            self.fence(&mut lines);
            page1::clear_tag(&self.data, &mut lines.data);
            self.fence(&mut lines);
        }
        (self.marked, self.marker_is_durable) = (false, false);
        self.healthy()
    }

    /// Lets all pages be in their own frames from now on, of so many bytes.
    pub(super) fn change_page_size(&mut self, page_bytes: u32) -> Result<()> {
        self.checkpoint_frames()?;
        self.move_pages_back()?;
        self.checkpoint_slots()?;
        let mut lines = Lines::default();
        self.side.set_table(Table { entries: 0, page_bytes }, &mut lines.side);
        self.fence(&mut lines);
        self.healthy()
    }

    /// Makes the table so long that it has entries up to that of a page.
    pub(super) fn widen_table(&mut self, page: u32) -> Result<()> {
        let Table { entries, page_bytes } = self.side.table;
        let page = u64::from(page);
        if page <= entries {
            return Ok(());
        }
        let entries = page.next_power_of_two().max(ENTRIES_MIN);
        let table = Table { entries, page_bytes };
        // What is behind the table may count until then.
        self.checkpoint_slots()?;
        let mut lines = Lines::default();
        self.side.clear_table(table, &mut lines.side)?;
        self.fence(&mut lines);
        self.side.set_table(table, &mut lines.side);
        self.fence(&mut lines);
        self.healthy()
    }
}
