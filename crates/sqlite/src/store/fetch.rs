//! Pages that SQLite reads where they are, without a copy.
//!
//! *No byte of a page that is lent changes* until SQLite gives it back:
//!
//! - It is lent to a connection that reads, and given back before the connection ends to read. Bytes of frames are
//!   stored by whoever has the exclusive lock: in a commit of any mode, all of it, what it puts in place behind its
//!   fence and what it takes out of the log of frames included; in a recovery; on the way home at the last close.
//!   Nobody else reads then.
//! - The connection's own commit stores to the frames of pages that SQLite has written, and SQLite gives a page back
//!   before it changes it. They may take each other's frames, and no other page's.
//! - Pages of another size, which a commit takes home first, are the exception: it is refused while one is lent.
//!
//! A page is not lent, and SQLite reads a copy, where its frame is not all there is of it: it is staged, cut off, or
//! in the log of frames. Page 1 is shown without the marker, and never lent. So it is where fewer bytes of the file lie
//! behind it than SQLite may read beyond the end of a damaged page.

use pm::{Bad, Memory, Range};

use crate::store::connection::Store;
use crate::store::error::Result;
use crate::store::layout::{GRANULE, HEADER_BYTES};
use crate::store::plan::place_of;

/// The bytes behind a page that SQLite may read if the page is damaged: a few in practice, but a record that it compares
/// may begin anywhere in the page and be almost as long.
fn overread_bytes(len: u64) -> u64 {
    len.max(256)
}

impl<M: Memory> Store<M> {
    /// Lends bytes of the database, if they lie in one place: `address` says of a range of the medium what is given
    /// to SQLite. The caller has a lock that keeps writers away.
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
        // A table that the medium has lost says nothing of places.
        self.healthy()?;
        self.stats.fetched += 1;
        self.fetched += 1;
        Ok(Some(fetched))
    }

    /// Counts that SQLite is given a copy.
    pub(crate) fn count_copy(&mut self) {
        self.stats.copied += 1;
    }

    /// SQLite reads one of the pages no more that were lent to it.
    pub fn unfetch(&mut self) {
        self.fetched = self.fetched.checked_sub(1).expect("it was fetched");
    }

    /// The place in which bytes lie as they are committed, if there is one, and nothing is staged over them.
    fn committed_place(&self, at: u64, len: u64) -> Result<Option<u64>> {
        let ends = at.checked_add(len).filter(|end| *end <= self.kept());
        let Some(end) = ends.filter(|_| at >= HEADER_BYTES && len > 0) else { return Ok(None) };
        let mut granules = at / GRANULE..end.div_ceil(GRANULE);
        if !self.stage.granules.is_empty()
            && self.stage.granules.range(granules.clone()).next().is_some()
            || !self.cache.is_empty() && granules.any(|number| self.cache.get(number).is_some())
        {
            return Ok(None);
        }
        if self.side.table.entries == 0 {
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
