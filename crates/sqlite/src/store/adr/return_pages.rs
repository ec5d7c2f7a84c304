//! Pages that a commit has moved return to their own frames.
//!
//! This goes in chunks, each one commit. A crash in between loses nothing, and the next connection that opens the
//! database continues ([`crate::store::placement::permutation`]). A page is copied directly to an unused frame. If the
//! medium has no room for one, two pages change places through the log.

use std::collections::BTreeMap;

use pm::Memory;

use crate::store::connection::Store;
use crate::store::error::{Result, StoreError};
use crate::store::frame_map::Table;
use crate::store::last_commit::Lines;
use crate::store::moves::Move;
use crate::store::placement::permutation::{Chunk, Permutation};
use crate::store::plan::{Plan, place_of};
use crate::store::record::Part;
use crate::store::room;
use crate::store::shape::Shape;
use crate::store::span::Span;

/// The fewest entries of a table.
const ENTRIES_MIN: u64 = 64;
/// The most pages that a chunk copies.
const COPIES_MAX: u64 = 256;
/// The most memory that a chunk takes for each byte that it copies.
const CHUNK_FACTOR: usize = 4;
/// The most bytes of a record for 256 bytes of a copied page, and for the page itself.
const RECORD_BYTES: [u64; 2] = [4, 48];
/// The most memory for an entry in a permutation.
const PERMUTED_BYTES: usize = 32;

impl<M: Memory> Store<M> {
    /// Returns the database's pages to their own frames. Until the checkpoint a commit counts as begun: bytes of
    /// direct stores may not be live, and another commit would overwrite them.
    pub(in crate::store) fn move_pages_back(&mut self) -> Result<()> {
        self.load_last_commit()?;
        let mut permutation = self.permutation()?;
        if permutation.displaced() == 0 {
            return Ok(());
        }
        let page_bytes = self.page_bytes();
        let shape = Shape::new(page_bytes as usize, 0, false);
        let shape = shape.ok_or(StoreError::SideDamaged("its table is of no pages"))?;
        let pages = (self.view.size() / page_bytes) as u32;
        // Frames past the end, as many as may be needed, and one that is never used.
        let mut has_room =
            match self.widen_table(pages.saturating_add(permutation.displaced() as u32 + 2)) {
                Err(StoreError::Full(_)) => false,
                widened => widened.map(|()| true)?,
            };
        let each = RECORD_BYTES[0] * (page_bytes / 256) + RECORD_BYTES[1];
        let most = (self.side.slot_bytes() / each / 2).clamp(1, COPIES_MAX) as usize;
        // Before a commit begins that cannot be finished.
        room::ensure(CHUNK_FACTOR * most * page_bytes as usize)?;
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
            self.log_pages(self.view.size(), &plan, true)?;
            self.stats.restored += copied as u64;
            let damaged = |_| StoreError::SideDamaged("its table has two pages in one frame");
            permutation.apply(&moves).map_err(damaged)?;
        }
        Ok(())
    }

    /// The pages that are not in their own frames.
    ///
    /// # Errors
    /// The medium fails, or two pages are in one frame.
    fn permutation(&self) -> Result<Permutation> {
        self.side.check_table()?;
        // And two maps of the pages that are not in their own frames.
        room::ensure(self.side.table().entries as usize * PERMUTED_BYTES)?;
        Permutation::read(&self.side.read_table()?)
            .map_err(|_| StoreError::SideDamaged("its table has two pages in one frame"))
    }

    /// The plan of a chunk.
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

    /// The plan that returns a page to its own frame, and moves the page there to the other frame.
    fn swap(
        &self,
        permutation: &Permutation,
        pages: u32,
        unused: u32,
        page_bytes: u64,
    ) -> Result<(Plan, Vec<Move>)> {
        let mut all = permutation.moved().filter(|step| step.page <= pages && step.page != unused);
        let there = all.next().expect("a page is displaced");
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

    /// Extends the table to the entry of a page.
    pub(in crate::store) fn widen_table(&mut self, page: u32) -> Result<()> {
        let Table { entries, page_bytes } = self.side.table();
        let page = u64::from(page);
        if page <= entries {
            return Ok(());
        }
        let entries = page.next_power_of_two().max(ENTRIES_MIN);
        let table = Table { entries, page_bytes };
        // A commit logged after the table may count until then.
        self.checkpoint_slots()?;
        let mut lines = Lines::default();
        self.side.clear_table(table, &mut lines.side)?;
        self.fence(&mut lines);
        self.side.set_table(table, &mut lines.side);
        self.fence(&mut lines);
        self.healthy()
    }
}
