//! A base backup: the pages of a partition, copied while transactions go on. It is no state of the
//! database alone, but with the log from a checkpoint before it.

use pm::Files;

use crate::ids::{Lsn, PageNo};
use crate::latch::Latching;
use crate::log::archive::{ArchiveReader, Joint};
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
    /// The end of the log when the last page was copied: no page has a later change, so the
    /// database is restored to no earlier moment.
    pub end: Lsn,
    /// The number of pages.
    pub pages: u64,
    /// The pages of the file, used or not: every page's number is less.
    pub count: u64,
    /// The end of the archive at that time, for the history that the two have in common.
    pub joint: Joint,
}

impl Base {
    /// Checks that an archive has what it takes to restore to an LSN.
    ///
    /// # Errors
    /// It has not, it has another history, or the base is younger.
    pub fn check<F: Files>(&self, archive: &ArchiveReader<F>, until: Lsn) -> Result<()> {
        let lacks = |what: String| Err(PagedError::Archive { what });
        let (Self { keep, end, joint, .. }, stored) = (self, archive.stored());
        if until < *end {
            return lacks(format!(
                "the base backup goes to {end}, after {until}, the moment that is asked for; take an older backup, or a later moment"
            ));
        }
        if stored.from > *keep || stored.to < until {
            return lacks(format!(
                "it has the log from {} to {}; the base backup needs it from {keep} on, to {until}",
                stored.from, stored.to
            ));
        }
        if !archive.has(*joint) {
            return lacks(format!(
                "it has another history than the base backup, whose archive had segment {} up to {}; name the directory that the database had when the backup was taken",
                joint.number, joint.to
            ));
        }
        Ok(())
    }
}

/// Calls `visit` with every page that is used, with its checksum, in the order of their numbers.
/// Returns how many there are, and the pages of the file.
pub(crate) fn copy_pages<F: Files, T: Latching>(
    pool: &Pool<F, T>,
    visit: &mut dyn FnMut(PageNo, &[u8]) -> Result<()>,
) -> Result<(u64, u64)> {
    let mut page = Page::blank(pool.page_bytes());
    // Pages that come after the end meanwhile are made by the log.
    let (mut pages, count) = (0, pool.page_count());
    for number in 1..count {
        pool.copy_page(PageNo(number), &mut page)?;
        if page.bytes().iter().any(|byte| *byte != 0) {
            visit(PageNo(number), page.bytes())?;
            pages += 1;
        }
    }
    Ok((pages, count))
}
