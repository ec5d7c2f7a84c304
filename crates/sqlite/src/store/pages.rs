//! The changes of a commit, page by page.
//!
//! In a mode that places cells each page is laid out for a frame (`store::adr::placing`). In the others each stays in
//! its frame as SQLite wrote it, and is logged where it differs, or whole in the mode `full`.

use pm::Memory;

use crate::store::connection::Store;
use crate::store::error::{Result, StoreError};
use crate::store::layout::GRANULE;
use crate::store::mode::Mode;
use crate::store::page1;
use crate::store::placed::{Frame, Placed, exact, whole};
use crate::store::plan::{Plan, place_of};
use crate::store::shape::Shape;

/// A page that a transaction wrote.
pub(super) struct Written {
    pub(super) page: u32,
    pub(super) image: Vec<u8>,
    /// The page's frame, and its bytes.
    pub(super) frame: u32,
    pub(super) held: Vec<u8>,
    /// The page is new to the database.
    pub(super) fresh: bool,
}

impl Written {
    /// Its frame before the commit.
    pub(super) fn frame_before(&self) -> Frame<'_> {
        if self.fresh { Frame::Fresh } else { Frame::Holds(&self.held) }
    }
}

impl<M: Memory> Store<M> {
    /// The changes that commit what is staged.
    ///
    /// # Errors
    /// The medium fails.
    pub(super) fn plan(&self, size: u64, shape: Shape) -> Result<Plan> {
        let mut plan = Plan::default();
        let written = self.written(size, shape, &mut plan)?;
        if self.mode().places_cells() {
            self.lay_out(&written, size, shape, &mut plan);
            return Ok(plan);
        }
        for page in &written {
            let placed = self.as_written(page, &mut plan);
            plan.add(page.frame, None, placed);
        }
        Ok(plan)
    }

    /// The pages that differ from their frames.
    fn written(&self, size: u64, shape: Shape, plan: &mut Plan) -> Result<Vec<Written>> {
        let bytes = shape.page_bytes() as u64;
        let mut written = Vec::new();
        for page in self.staged_pages(size, bytes)? {
            written.extend(self.written_page(page, bytes, plan)?);
        }
        Ok(written)
    }

    /// The numbers of the pages that are staged, ascending.
    ///
    /// # Errors
    /// There is no memory for them.
    pub(super) fn staged_pages(&self, size: u64, page_bytes: u64) -> Result<Vec<u32>> {
        let numbers = self.stage.numbers()?;
        let mut pages: Vec<u32> = Vec::new();
        let most = numbers.len() * (GRANULE / page_bytes).max(1) as usize;
        pages.try_reserve_exact(most).map_err(|_| StoreError::Memory)?;
        for number in numbers {
            let end = ((number + 1) * GRANULE).min(size).div_ceil(page_bytes);
            for page in number * GRANULE / page_bytes..end {
                let page = page as u32 + 1;
                if pages.last() != Some(&page) {
                    pages.push(page);
                }
            }
        }
        Ok(pages)
    }

    /// A staged page, if it differs from its frame. The counters of page 1 go to the plan.
    pub(super) fn written_page(
        &self,
        page: u32,
        bytes: u64,
        plan: &mut Plan,
    ) -> Result<Option<Written>> {
        let at = place_of(page, bytes);
        let frame = self.side.frame(page)?;
        let (mut image, mut held) = (vec![0; bytes as usize], vec![0; bytes as usize]);
        self.staged(at, &mut image)?;
        self.data.read_into(place_of(frame, bytes), &mut held)?;
        if page == 1 {
            page1::mark(&mut image, self.side.tag());
            plan.counters = Some(self.take_counters(&mut image, &held));
        }
        // Page 1's counters are stored by themselves, so nothing of its header is stored directly.
        let fresh = page > 1 && at >= self.view.size();
        Ok((fresh || image != held).then_some(Written { page, image, frame, held, fresh }))
    }

    /// A page as SQLite wrote it, in its own frame.
    pub(super) fn as_written(&self, page: &Written, plan: &mut Plan) -> Placed {
        plan.exact += 1;
        match self.mode() {
            Mode::Full => whole(&page.image),
            _ => exact(&page.image, page.frame_before()),
        }
    }
}
