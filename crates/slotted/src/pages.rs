//! The pages in use: those below the high-water mark that are not on the free stack. The heap gives
//! room in segments, each of which names the one before it.
//!
//! The top of the stack and the high-water mark change by log frames alone, and so does the first
//! word of a page that is allocated or freed: in a free page it leads to the next free one. So a
//! transaction that does not commit leaves the stack as it was, though it has written into its
//! pages.

use std::sync::atomic::Ordering::Acquire;

use heap::Purpose;
use pm::{Bad, LineSet, Memory, Off, Range, View};
use zerocopy::IntoBytes;

use crate::Result;
use crate::flaw::{self, Flaw};
use crate::header::next_free;
use crate::layout::{NEWEST_SEGMENT_AT, SEGMENT_HEADER};
use crate::scheme::Scheme;
use crate::store::Store;
use crate::work::Master;

impl<M: Memory, S: Scheme<M>> Store<M, S> {
    /// The number of pages in a segment.
    fn segment_pages(&self) -> u64 {
        (self.options.segment_bytes - SEGMENT_HEADER) / u64::from(self.options.page_bytes)
    }

    /// The end of the pages of a segment.
    pub(crate) fn end_of(&self, segment: u64) -> u64 {
        let bytes = self.segment_pages() * u64::from(self.options.page_bytes);
        segment.saturating_add(SEGMENT_HEADER + bytes)
    }

    /// Returns the segments after that of the high-water mark, the newest one first.
    pub(crate) fn unused_segments(&self) -> Result<Vec<u64>> {
        let (mut unused, mut segment) = (Vec::new(), self.newest);
        while segment != self.work.master.segment {
            unused.push(segment);
            segment = self.before(segment)?;
            // More than the memory has room for lie in a circle.
            if unused.len() as u64 > self.memory.len() / self.options.segment_bytes {
                return Err(Bad::Damaged { what: "chain of segments", at: segment }.into());
            }
        }
        Ok(unused)
    }

    /// Pages of the segment in use that were never used.
    pub fn unused_pages(&self) -> u64 {
        let Master { segment, high, .. } = self.master;
        (self.end_of(segment) - high) / u64::from(self.options.page_bytes)
    }

    /// The page below a page on the free stack; zero: there is none.
    pub(crate) fn below(&self, page: u64) -> Result<u64> {
        let word = self.view(page)?.word(0);
        Ok(next_free(word).ok_or(Bad::Damaged { what: "free page", at: page })?)
    }

    /// Makes sure that so many pages can be allocated; nothing has changed where they cannot.
    pub(crate) fn ensure_pages(&mut self, pages: usize) -> Result<()> {
        let page = u64::from(self.options.page_bytes);
        let master = &self.work.master;
        let mut there = self.work.spare.len() as u64;
        there += (self.end_of(master.segment) - master.high) / page;
        there += self.unused_segments()?.len() as u64 * self.segment_pages();
        let (mut free, pages) = (self.work.master.free, pages as u64);
        while there < pages && free != 0 {
            there += 1;
            free = self.below(free)?;
        }
        while there < pages {
            self.add_segment()?;
            there += self.segment_pages();
        }
        Ok(())
    }

    /// The segment that was the newest one before this one was added.
    pub(crate) fn before(&self, segment: u64) -> Result<u64> {
        let before = self.memory.load(Off::new(segment), Acquire)?;
        if before == 0 {
            return Err(Bad::Damaged { what: "chain of segments", at: segment }.into());
        }
        Ok(before)
    }

    /// Takes a segment from the heap: it is persisted and the newest one together.
    fn add_segment(&mut self) -> Result<()> {
        let segment = self.lane.allocate(self.options.segment_bytes, Purpose::Table)?;
        let mut lines = LineSet::new();
        self.memory.copy(Off::new(segment), [self.newest, 0, 0, 0, 0, 0, 0, 0].as_bytes());
        lines.add(Range::new(segment, 64));
        self.lane.mini_store(Off::new(self.at + NEWEST_SEGMENT_AT), segment);
        self.lane.mini_persist(segment)?;
        self.lane.mini_commit(&mut lines);
        self.lane.fence_flushed();
        self.newest = segment;
        Ok(())
    }

    /// Takes a page. Its first word is not to be stored: see the module's comment.
    pub(crate) fn allocate_page(&mut self) -> Result<u64> {
        if let Some(page) = self.work.spare.pop() {
            return Ok(page);
        }
        let free = self.work.master.free;
        if free != 0 {
            self.work.master.free = self.below(free)?;
            return Ok(free);
        }
        if self.work.master.high == self.end_of(self.work.master.segment) {
            if self.newest == self.work.master.segment {
                self.add_segment()?;
            }
            let next = self.unused_segments()?.pop().unwrap_or(self.newest);
            self.work.master.segment = next;
            self.work.master.high = next + SEGMENT_HEADER;
        }
        let page = self.work.master.high;
        self.work.master.high += u64::from(self.options.page_bytes);
        self.work.unused.insert(page);
        Ok(page)
    }

    /// Frees a page of a tree: at once if nothing committed leads to it, and no savepoint does,
    /// else by the commit.
    pub(crate) fn free_page(&mut self, page: u64) {
        self.work.remember(page);
        match self.work.drafts.remove(&page) {
            Some(draft) if draft.fresh && !self.work.is_kept(page) => self.work.spare.push(page),
            _ if flaw::has::<M>(Flaw::PageReusedEarly) => self.work.spare.push(page),
            _ => self.work.freed.push(page),
        }
    }
}
