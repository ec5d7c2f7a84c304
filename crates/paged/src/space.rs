//! The pages of the file that are in use: maps, a bit a page, each in the file before the pages
//! that it covers. docs/format/paged-pages.md says where.
//!
//! 1. A bit is changed by the record that begins or ends the page's use, with the map latched; maps
//!    are latched last.
//! 2. Space of the medium is reserved before a record says that a page beyond the file's end is
//!    used: a full disk refuses an insert, never the write of a page.

use pm::{File, Files};

use crate::change::{Body, Change};
use crate::ids::{PageNo, TreeNo};
use crate::latch::Latching;
use crate::layout::HEADER_BYTES;
use crate::log::Chain;
use crate::page::PageKind;
use crate::pool::{How, Pool, WritePage};
use crate::{PagedError, Result};

/// The first map of a file.
pub const FIRST_MAP: PageNo = PageNo(1);

fn span(page_bytes: usize) -> u64 {
    ((page_bytes - HEADER_BYTES) * 8) as u64
}

/// Returns the map that covers a page.
#[must_use]
pub fn map_of(page: PageNo, page_bytes: usize) -> PageNo {
    let span = span(page_bytes);
    PageNo(FIRST_MAP.0 + (page.0 - FIRST_MAP.0) / span * span)
}

/// Returns the bit of a page in its map.
#[must_use]
pub fn bit_of(page: PageNo, page_bytes: usize) -> usize {
    ((page.0 - FIRST_MAP.0) % span(page_bytes)) as usize
}

/// The place from which a free page is looked for, and the end of what is reserved.
#[derive(Debug)]
pub(crate) struct Hint {
    pub(crate) from: PageNo,
    pub(crate) reserved: u64,
}

impl<F: Files, T: Latching> Pool<F, T> {
    /// Finds a free page, and its map, latched. The page is free until a record takes it.
    pub(crate) fn allocate(&self) -> Result<(PageNo, WritePage<'_, T>)> {
        let begin = self.hint.lock().from;
        let mut from = begin;
        loop {
            let number = map_of(from, self.page_bytes());
            let map = self.mapped(number)?;
            let first = bit_of(from, self.page_bytes());
            let Some(bit) = clear_bit(map.bits(), first) else {
                from = PageNo(number.0 + span(self.page_bytes()));
                continue;
            };
            let page = PageNo(number.0 + bit as u64);
            self.reserve(page)?;
            let mut hint = self.hint.lock();
            if hint.from == begin {
                // No page before it was freed meanwhile.
                hint.from = PageNo(page.0 + 1);
            }
            drop(hint);
            return Ok((page, map));
        }
    }

    /// Latches a map; one that the file has not yet is made.
    pub(crate) fn mapped(&self, number: PageNo) -> Result<WritePage<'_, T>> {
        let mut map = self.write(number)?;
        match map.kind() {
            PageKind::Map => {}
            PageKind::Blank => {
                self.check_unused(number)?;
                self.reserve(number)?;
                let body = Body { tree: TreeNo::default(), change: Change::NewMap };
                let mut chain = Chain::default();
                self.perform(&mut chain, How::Do, &body, &mut map, None, None)?;
            }
            _ => return Err(PagedError::DamagedPage { page: number, what: "it is no map" }),
        }
        Ok(map)
    }

    /// Checks that a map that is blank was never used: else the pages that it covers would be given
    /// away once more.
    fn check_unused(&self, number: PageNo) -> Result<()> {
        let mut first = vec![0; self.page_bytes()];
        let at = (number.0 + 1) * self.page_bytes() as u64;
        let io = |source| PagedError::Io { doing: "reading a page", source };
        self.file.read_at(at, &mut first).map_err(io)?;
        if number == FIRST_MAP || first.iter().any(|byte| *byte != 0) {
            let what = "it is blank, and a map of pages that were used";
            return Err(PagedError::DamagedPage { page: number, what });
        }
        Ok(())
    }

    /// Latches the map of a page that is in use.
    pub(crate) fn map(&self, page: PageNo) -> Result<WritePage<'_, T>> {
        self.mapped(map_of(page, self.page_bytes()))
    }

    /// Says that a page became free.
    pub(crate) fn freed(&self, page: PageNo) {
        let mut hint = self.hint.lock();
        hint.from = hint.from.min(page);
    }

    /// Makes the file long enough for a page, and reserves the space.
    pub(crate) fn reserve(&self, page: PageNo) -> Result<()> {
        let mut hint = self.hint.lock();
        if page.0 < hint.reserved {
            return Ok(());
        }
        let step = (hint.reserved / 16).clamp(16, 1024);
        let pages = page.0 + step;
        self.file
            .reserve(pages * self.page_bytes() as u64)
            .map_err(|source| PagedError::Io { doing: "growing the file of pages", source })?;
        hint.reserved = pages;
        Ok(())
    }

    /// Returns how many pages are in use, maps and the header among them.
    ///
    /// # Errors
    /// A map is damaged.
    pub fn used_pages(&self) -> Result<u64> {
        let (mut used, mut number) = (1, FIRST_MAP);
        loop {
            let map = self.read(number)?;
            match map.kind() {
                PageKind::Map => {
                    used += map.bits().iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>();
                }
                PageKind::Blank => return Ok(used),
                _ => return Err(PagedError::DamagedPage { page: number, what: "it is no map" }),
            }
            number = PageNo(number.0 + span(self.page_bytes()));
        }
    }

    /// Returns whether a page is in use.
    ///
    /// # Errors
    /// Its map is damaged.
    pub fn is_used(&self, page: PageNo) -> Result<bool> {
        if page.0 < FIRST_MAP.0 {
            return Ok(true);
        }
        let map = self.read(map_of(page, self.page_bytes()))?;
        let bit = bit_of(page, self.page_bytes());
        Ok(map.kind() == PageKind::Map && map.bits()[bit / 8] & (1 << (bit % 8)) != 0)
    }
}

fn clear_bit(bits: &[u8], from: usize) -> Option<usize> {
    let mut byte = from / 8;
    let mut skipped = from % 8;
    while byte < bits.len() {
        let free = !bits[byte] & (0xff << skipped);
        if free != 0 {
            return Some(byte * 8 + free.trailing_zeros() as usize);
        }
        (byte, skipped) = (byte + 1, 0);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_lie_before_the_pages_that_they_tell_of() {
        let span = span(512);
        assert_eq!(span, 3584);
        for (page, map, bit) in [(1, 1, 0), (2, 1, 1), (span, 1, 3583), (span + 1, span + 1, 0)] {
            assert_eq!(map_of(PageNo(page), 512), PageNo(map));
            assert_eq!(bit_of(PageNo(page), 512), bit);
        }
    }

    #[test]
    fn a_free_page_is_found_from_a_place_on() {
        assert_eq!(clear_bit(&[0xff, 0b1011, 0], 0), Some(10));
        assert_eq!(clear_bit(&[0, 0b1011, 0], 9), Some(10));
        assert_eq!(clear_bit(&[0, 0xff], 8), None);
    }
}
