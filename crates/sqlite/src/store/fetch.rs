//! Pages that SQLite reads in place, without a copy.
//!
//! *No byte of a fetched page changes* until SQLite releases it:
//!
//! - SQLite fetches a page only while its connection reads, and releases it before that ends. Bytes of frames are
//!   stored only under the exclusive lock, which excludes readers: in all of a commit in any mode, including the
//!   stores after its fence and the checkpoint of NVWAL's log; in a recovery; when the layout is restored at the last
//!   close.
//! - The connection's own commit stores to the frames of pages that SQLite has written, and SQLite releases a page
//!   before it changes it. Such pages may take each other's frames, and no other page's.
//! - A commit that changes the page size moves all pages first. It is refused while a page is fetched.
//!
//! SQLite reads a copy if a page is not complete in its frame: it is staged, truncated, or in NVWAL's log. It also
//! does for page 1, which is shown without the marker, and for a page that is followed by fewer bytes of the file
//! than SQLite may read beyond the end of a damaged page.

use pm::{Bad, Memory, Range};

use crate::store::connection::Store;
use crate::store::error::Result;
use crate::store::layout::{GRANULE, HEADER_BYTES};
use crate::store::plan::place_of;

/// Bytes past a page that SQLite may read if the page is damaged: a few in practice, but a compared record may
/// begin anywhere in the page and be almost as long.
pub(crate) fn overread_bytes(len: u64) -> u64 {
    len.max(256)
}

impl<M: Memory> Store<M> {
    /// Fetches bytes of the database, if they are contiguous: `address` turns a range of the memory into the
    /// result. The caller holds a lock that excludes writers.
    ///
    /// # Errors
    /// The medium fails, or `address` does.
    pub fn fetch<T>(
        &mut self,
        at: u64,
        len: u64,
        address: impl FnOnce(Range) -> std::result::Result<T, Bad>,
    ) -> Result<Option<T>> {
        let Some(place) = self.committed_place(at, len)? else { return Ok(None) };
        if place + len + overread_bytes(len) > self.data.len() {
            return Ok(None);
        }
        let fetched = address(Range::new(place, len))?;
        // A table on a failed medium may name wrong places.
        self.healthy()?;
        self.stats.fetched += 1;
        self.view.note_fetched();
        Ok(Some(fetched))
    }

    /// Counts a copy for SQLite.
    pub(crate) fn count_copy(&mut self) {
        self.stats.copied += 1;
    }

    /// Ends SQLite's use of one fetched page.
    pub fn unfetch(&mut self) {
        self.view.note_released();
    }

    /// The place of committed bytes, if they are contiguous and nothing is staged over them.
    fn committed_place(&self, at: u64, len: u64) -> Result<Option<u64>> {
        let ends = at.checked_add(len).filter(|end| *end <= self.kept());
        let Some(end) = ends.filter(|_| at >= HEADER_BYTES && len > 0) else { return Ok(None) };
        let mut granules = at / GRANULE..end.div_ceil(GRANULE);
        if self.stage.granules() > 0 && self.stage.has_any(granules.clone())
            || !self.cache.is_empty() && granules.any(|number| self.cache.get(number).is_some())
        {
            return Ok(None);
        }
        if self.side.table().entries == 0 {
            return Ok(Some(at));
        }
        let page_bytes = self.page_bytes();
        let (page, within) = (at / page_bytes + 1, at % page_bytes);
        if within + len > page_bytes {
            return Ok(None);
        }
        Ok(Some(place_of(self.side.frame(page as u32)?, page_bytes) + within))
    }
}
