//! A base backup: the pages of a partition, copied while transactions go on. It is no state of the
//! database alone, but with the log from a checkpoint before it.

use pm::Files;

use crate::ids::{Lsn, PageNo};
use crate::latch::Latching;
use crate::log::archive::Stored;
use crate::page::Page;
use crate::pool::Pool;
use crate::{PagedError, Result};

/// The part of the log that a base backup needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Base {
    /// The oldest record that a page or an unfinished transaction of it needs.
    pub keep: Lsn,
    /// The place where analysis begins.
    pub start: Lsn,
    /// The end of the log when the last page was copied: no page has a later change, so the database
    /// is restored to no earlier moment.
    pub end: Lsn,
    /// The number of pages.
    pub pages: u64,
}

impl Base {
    /// Checks that an archive has what it takes to restore to an LSN.
    ///
    /// # Errors
    /// It has not, or the base is younger.
    pub fn check(&self, stored: Stored, until: Lsn) -> Result<()> {
        let lacks = |what: String| Err(PagedError::Archive { what });
        let Self { keep, end, .. } = self;
        if until < *end {
            return lacks(format!(
                "the base backup goes to {end}, behind {until}, the moment that is asked for; take an older backup, or a later moment"
            ));
        }
        if stored.from > *keep || stored.to < until {
            return lacks(format!(
                "it has the log from {} to {}; the base backup needs it from {keep} on, to {until}",
                stored.from, stored.to
            ));
        }
        Ok(())
    }
}

/// Calls `visit` with every page that is used, with its checksum. Returns their number.
pub(crate) fn copy_pages<F: Files, T: Latching>(
    pool: &Pool<F, T>,
    visit: &mut dyn FnMut(PageNo, &[u8]) -> Result<()>,
) -> Result<u64> {
    let mut page = Page::blank(pool.page_bytes());
    let mut pages = 0;
    // Pages that come behind the end meanwhile are made by the log.
    for number in 1..pool.page_count() {
        pool.copy_page(PageNo(number), &mut page)?;
        if page.bytes().iter().any(|byte| *byte != 0) {
            visit(PageNo(number), page.bytes())?;
            pages += 1;
        }
    }
    Ok(pages)
}
