//! The pages of the file that are in use: a page is taken from, and given back to, its
//! [map](crate::maps), which has a bit for each page.
//!
//! 1. A bit is changed by the record that begins or ends the page's use, with the map latched; maps
//!    are latched last.
//! 2. Space of the medium is reserved before a record says that a page beyond the file's end is
//!    used: a full disk refuses an insert, never the write of a page.

use pm::{File, Files};

use crate::change::{Body, Change};
use crate::ids::{PageNo, TreeNo};
use crate::latch::Latching;
use crate::log::Chain;
use crate::maps::{FIRST_MAP, bit_of, clear_bit, map_of, span};
use crate::page::PageKind;
use crate::pool::{How, Pool, WritePage};
use crate::{PagedError, Result};

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
