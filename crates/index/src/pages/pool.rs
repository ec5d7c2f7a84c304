//! Pages in extents of a heap, for trees that live in non-volatile memory (P1 4.2).
//!
//! An extent is one object of the heap, as large as fits a chunk well: a header line and pages.
//! Extents form a list that is linked both ways; the words for its ends are the owner's. Adding one
//! is a mini-transaction. They stay for good.
//!
//! The high-water mark is `where << 16 | pages`: of the extent there so many pages are used, all of
//! those before it, and none of those after. It is zero while no page is used.

use std::sync::atomic::Ordering::Acquire;

use heap::{Heap, HeapError, Lane, Purpose};
use pm::{Bad, GrowError, LineSet, Memory, Off, Range};

use super::backend::{PageBackend, PageSource};
use super::page::{Header, PAGE_HEADER_BYTES};
use crate::error::IndexError;

/// Bytes of an extent's header.
pub const EXTENT_HEADER_BYTES: u64 = 64;

const MAGIC: u64 = u64::from_le_bytes(*b"PDEXTENT");
const NEXT_AT: u64 = 8;
const SEQUENCE_AT: u64 = 16;
const SIZES_AT: u64 = 24;
const NEWER_AT: u64 = 32;
/// Forgotten pages that are kept at least, until they are taken out of those to be flushed.
const FORGOTTEN: usize = 1024;

/// The words that say where a list of extents starts and ends. The owner keeps them, and they are
/// zero at first.
#[derive(Clone, Copy, Debug)]
pub struct ExtentList {
    /// Leads to the newest extent.
    pub newest: Off<u64>,
    /// Leads to the oldest one.
    pub oldest: Off<u64>,
}

/// Reads pages that lie in a heap.
#[derive(Clone, Debug)]
pub struct PoolSource<M> {
    memory: M,
    page_bytes: u32,
}

impl<M: Memory> PageSource for PoolSource<M> {
    type View<'a> = M::View<'a>;

    #[inline]
    fn with<'s, R>(
        &'s self,
        page: u64,
        read: impl FnOnce(&Self::View<'s>) -> R,
    ) -> Result<R, IndexError> {
        if !page.is_multiple_of(64) {
            return Err(Bad::Misaligned { at: page, align: 64 }.into());
        }
        let view = self.memory.view(Range::new(page, u64::from(self.page_bytes)))?;
        Ok(read(&view))
    }
}

#[derive(Clone, Copy, Debug)]
struct Extent {
    sequence: u64,
    start: u64,
}

/// Pages in extents of a heap.
#[derive(Debug)]
pub struct PoolPages<M: Memory> {
    source: PoolSource<M>,
    list: ExtentList,
    extent_bytes: u64,
    pages_per_extent: u64,
    /// The extent that pages are taken from, and how many of them are used.
    current: Option<Extent>,
    used: u64,
    /// The number of the newest extent.
    newest: u64,
    /// Allocated since the last write-back, and of these forgotten.
    unflushed: Vec<u64>,
    forgotten: Vec<u64>,
    /// The mark that the pages were opened with.
    opened: u64,
    /// Extents below that mark: newest first while they are enumerated, then by place.
    below: Vec<Extent>,
    next_below: u64,
    written_bytes: u64,
}

/// Bytes of an extent in chunks of so many bytes: whole chunks, or eighths of large ones, less the
/// sixteenth that chunk and size class take. In chunks of 4 MiB it is that of 2 MiB, since slots end
/// before an eighth does.
///
/// Where these do not hold four pages, it is the smallest part of a chunk that holds seven.
fn extent_bytes(chunk_bytes: u64, page_bytes: u32) -> u64 {
    let part = if chunk_bytes >= 128 << 10 { chunk_bytes / 8 } else { chunk_bytes };
    let extent = |part: u64| part.min(256 << 10) / 16 * 15;
    if extent(part) >= EXTENT_HEADER_BYTES + 4 * u64::from(page_bytes) {
        return extent(part);
    }
    extent((8 * u64::from(page_bytes)).next_power_of_two().clamp(part, chunk_bytes))
}

impl<M: Memory> PoolPages<M> {
    /// Pages of `page_bytes` bytes in the extents of a list; `mark` is their high-water mark. Looks
    /// at two extents at most.
    ///
    /// # Errors
    /// A damaged extent, or pages that no chunk of the heap can hold.
    pub fn open(
        heap: &Heap<M>,
        list: ExtentList,
        page_bytes: u32,
        mark: u64,
    ) -> Result<Self, IndexError> {
        let extent_bytes = extent_bytes(heap.chunk_bytes(), page_bytes);
        let pages_per_extent = (extent_bytes - EXTENT_HEADER_BYTES) / u64::from(page_bytes);
        if !(4..1 << 16).contains(&pages_per_extent) {
            return Err(IndexError::ChunkSize { page_bytes, chunk_bytes: heap.chunk_bytes() });
        }
        let source = PoolSource { memory: heap.memory().clone(), page_bytes };
        let mut pages = Self {
            source,
            list,
            extent_bytes,
            pages_per_extent,
            current: None,
            used: 0,
            newest: 0,
            unflushed: Vec::new(),
            forgotten: Vec::new(),
            opened: mark,
            below: Vec::new(),
            next_below: mark >> 16,
            written_bytes: 0,
        };
        let newest = pages.source.memory.load(list.newest, Acquire)?;
        if newest != 0 {
            pages.newest = pages.extent(newest, None)?.0.sequence;
        }
        if mark != 0 {
            let (at, used) = (mark >> 16, mark & 0xffff);
            let (extent, _) = pages.extent(at, None)?;
            if extent.sequence > pages.newest || !(1..=pages_per_extent).contains(&used) {
                return Err(Bad::Damaged { what: "high-water mark", at }.into());
            }
            (pages.current, pages.used) = (Some(extent), used);
        }
        Ok(pages)
    }

    /// The number of the extent that pages are taken from; 0 before the first one.
    fn sequence(&self) -> u64 {
        self.current.map_or(0, |extent| extent.sequence)
    }

    /// The extent after the one that pages are taken from, if there is one.
    fn next_extent(&self) -> Result<Option<Extent>, IndexError> {
        let link = self.current.map_or(self.list.oldest, |extent| newer_link(extent.start));
        let at = self.source.memory.load(link, Acquire)?;
        if at == 0 {
            return Ok(None);
        }
        let (extent, _) = self.extent(at, None)?;
        if extent.sequence != self.sequence() + 1 || extent.sequence > self.newest {
            return Err(Bad::Damaged { what: "list of extents", at }.into());
        }
        Ok(Some(extent))
    }

    /// The extent at `at`, and the one before it. `below`: its number must be less.
    fn extent(&self, at: u64, below: Option<u64>) -> Result<(Extent, u64), IndexError> {
        let memory = &self.source.memory;
        let word = |from: u64| memory.load(Off::new(at.saturating_add(from)), Acquire);
        let (sequence, next) = (word(SEQUENCE_AT)?, word(NEXT_AT)?);
        let sound = word(0)? == MAGIC
            && at.is_multiple_of(64)
            && word(SIZES_AT)? == self.sizes()
            && sequence != 0
            && sequence >> 32 == 0
            && (sequence == 1) == (next == 0)
            && below.is_none_or(|below| sequence + 1 == below);
        if !sound {
            return Err(Bad::Damaged { what: "extent", at }.into());
        }
        memory.view(Range::new(at, self.extent_bytes))?;
        Ok((Extent { sequence, start: at }, next))
    }

    fn sizes(&self) -> u64 {
        u64::from(self.source.page_bytes) << 32 | self.extent_bytes
    }

    fn page(&self, extent: Extent, index: u64) -> u64 {
        extent.start + EXTENT_HEADER_BYTES + index * u64::from(self.source.page_bytes)
    }

    /// Calls `visit` with the object of each extent, newest first.
    ///
    /// # Errors
    /// A damaged extent.
    pub fn for_each_extent(&self, mut visit: impl FnMut(u64)) -> Result<(), IndexError> {
        let mut at = self.source.memory.load(self.list.newest, Acquire)?;
        let mut below = None;
        while at != 0 {
            visit(at);
            let (extent, next) = self.extent(at, below)?;
            below = Some(extent.sequence);
            at = next;
        }
        Ok(())
    }

    /// Calls `visit` with every page below the mark, in no order.
    ///
    /// # Errors
    /// A damaged extent.
    pub fn for_each_used(&self, mut visit: impl FnMut(u64)) -> Result<(), IndexError> {
        let (sequence, used) = (self.sequence(), self.used);
        let mut at = self.source.memory.load(self.list.newest, Acquire)?;
        let mut below = None;
        while at != 0 {
            let (extent, next) = self.extent(at, below)?;
            below = Some(extent.sequence);
            let pages = match extent.sequence {
                number if number < sequence => self.pages_per_extent,
                number if number == sequence => used,
                _ => 0,
            };
            (0..pages).for_each(|index| visit(self.page(extent, index)));
            at = next;
        }
        Ok(())
    }

    /// Takes the pages that were forgotten out of those to be flushed. A page may have been
    /// allocated and forgotten several times. It counts if it was allocated once more than
    /// forgotten.
    fn take_out_forgotten(&mut self) {
        self.unflushed.sort_unstable();
        self.forgotten.sort_unstable();
        let mut gone = self.forgotten.drain(..).peekable();
        self.unflushed.retain(|page| {
            while gone.next_if(|gone| gone < page).is_some() {}
            gone.next_if_eq(page).is_none()
        });
    }
}

impl<M: Memory> PageBackend for PoolPages<M> {
    type Source = PoolSource<M>;
    type Room = Lane<M>;

    #[inline]
    fn source(&self) -> &PoolSource<M> {
        &self.source
    }

    fn page_bytes(&self) -> u32 {
        self.source.page_bytes
    }

    fn take_fresh(&mut self) -> Result<Option<u64>, IndexError> {
        if self.current.is_none() || self.used == self.pages_per_extent {
            let Some(extent) = self.next_extent()? else { return Ok(None) };
            (self.current, self.used) = (Some(extent), 0);
        }
        self.used += 1;
        Ok(self.current.map(|extent| self.page(extent, self.used - 1)))
    }

    #[inline]
    fn fresh(&self) -> u64 {
        let left = self.current.map_or(0, |_| self.pages_per_extent - self.used);
        (self.newest - self.sequence()) * self.pages_per_extent + left
    }

    fn extend(&mut self, lane: &mut Lane<M>, pages: u64) -> Result<(), IndexError> {
        for _ in 0..pages.div_ceil(self.pages_per_extent) {
            if self.newest == u64::from(u32::MAX) {
                let limit = self.source.memory.len();
                return Err(HeapError::Full(GrowError::Limit { limit }).into());
            }
            let start = lane.allocate(self.extent_bytes, Purpose::Index)?;
            let sequence = self.newest + 1;
            let memory = &self.source.memory;
            let next = memory.load(self.list.newest, Acquire)?;
            let link = if next == 0 { self.list.oldest } else { newer_link(next) };
            let mut header = [0; EXTENT_HEADER_BYTES as usize];
            let words = [MAGIC, next, sequence, self.sizes()];
            for (place, word) in header.chunks_exact_mut(8).zip(words) {
                place.copy_from_slice(&word.to_le_bytes());
            }
            memory.copy(Off::new(start), &header);
            let mut lines = LineSet::new();
            lines.add(Range::new(start, EXTENT_HEADER_BYTES));
            lane.mini_store(self.list.newest, start);
            lane.mini_store(link, start);
            lane.mini_persist(start)?;
            // Its words, and those of the bitmap, change by mini-transactions only.
            lane.mini_commit(&mut lines);
            self.newest = sequence;
        }
        Ok(())
    }

    fn allocated(&mut self, page: u64) {
        self.unflushed.push(page);
    }

    #[track_caller]
    fn write(&mut self, page: u64, image: &[u8]) -> Result<(), IndexError> {
        self.source.memory.copy(Off::new(page), image);
        Ok(())
    }

    #[track_caller]
    fn patch(&mut self, page: u64, at: usize, bytes: [u8; 8]) -> Result<(), IndexError> {
        self.source.memory.copy(Off::new(page + at as u64), &bytes);
        Ok(())
    }

    fn forget(&mut self, page: u64) {
        self.forgotten.push(page);
        // Aborts come without an end of a batch. Half of them at a time, so that a page is looked
        // at a few times.
        if self.forgotten.len() >= (self.unflushed.len() / 2).max(FORGOTTEN) {
            self.take_out_forgotten();
        }
    }

    /// Flushes the lines of each page that are in use.
    #[track_caller]
    fn write_back(&mut self) -> Result<(), IndexError> {
        if !self.forgotten.is_empty() {
            self.take_out_forgotten();
        }
        let memory = &self.source.memory;
        for page in self.unflushed.drain(..) {
            let view = memory.view(Range::new(page, PAGE_HEADER_BYTES as u64))?;
            let used = Header::read(&view).used as u64;
            memory.flush(Range::new(page, used));
            self.written_bytes += used;
        }
        Ok(())
    }

    fn mark(&self) -> u64 {
        self.current.map_or(0, |extent| extent.start << 16 | self.used)
    }

    fn used_pages(&self) -> Result<u64, IndexError> {
        let mut pages = 0;
        self.for_each_used(|_| pages += 1)?;
        Ok(pages)
    }

    fn bytes(&self) -> u64 {
        self.newest * self.extent_bytes
    }

    fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    fn enumerate(&mut self, steps: u64) -> Result<(u64, bool), IndexError> {
        let mut used = 0;
        while self.next_below != 0 && used < steps {
            let below = self.below.last().map(|extent| extent.sequence);
            let (extent, next) = self.extent(self.next_below, below)?;
            self.below.push(extent);
            self.next_below = next;
            used += 1;
        }
        let done = self.next_below == 0;
        if done {
            self.below.sort_unstable_by_key(|extent| extent.start);
        }
        Ok((used, done))
    }

    fn below_mark(&self) -> u64 {
        self.below.len() as u64 * self.pages_per_extent
    }

    fn dense(&self, page: u64) -> Option<u64> {
        let extent = self.below.partition_point(|extent| extent.start <= page).checked_sub(1)?;
        let within = page.checked_sub(self.below[extent].start + EXTENT_HEADER_BYTES)?;
        let index = within / u64::from(self.source.page_bytes);
        let sound = within.is_multiple_of(u64::from(self.source.page_bytes))
            && index < self.pages_per_extent
            && !self.is_above(extent, index);
        sound.then_some(extent as u64 * self.pages_per_extent + index)
    }

    fn page_at(&self, dense: u64) -> u64 {
        let extent = self.below[(dense / self.pages_per_extent) as usize];
        self.page(extent, dense % self.pages_per_extent)
    }

    fn is_below(&self, dense: u64) -> bool {
        !self.is_above((dense / self.pages_per_extent) as usize, dense % self.pages_per_extent)
    }
}

impl<M: Memory> PoolPages<M> {
    /// Returns whether a page of an enumerated extent lies above the mark that the pages were
    /// opened with.
    fn is_above(&self, extent: usize, index: u64) -> bool {
        self.below[extent].start == self.opened >> 16 && index >= self.opened & 0xffff
    }
}

/// The word of the extent at `start` that leads to the next newer one.
fn newer_link(start: u64) -> Off<u64> {
    Off::new(start + NEWER_AT)
}
