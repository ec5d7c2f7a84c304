//! Where each page's image before a transaction is: in SQLite's log, in the database, or nowhere.
//!
//! A connection notes the frames of the generation in their order, its own and those of others. SQLite has the same in its
//! index, but not in exclusive mode, and not which pages were cut off in between:
//!
//! - A page with a frame: its image is there. A checkpoint may be writing it to the database.
//! - One without a frame, that the database has had since the generation began: its image is in the database, durably, and
//!   nothing writes there.
//! - Any other one: none. If the database was shorter meanwhile, a checkpoint may have cut the page off, so that a replay
//!   finds zeros there, or not.
//!
//! A page is *complete* once it was logged from zeros, or from another complete page, in this generation. From there on a
//! replay has the page as it was at each commit, whatever it finds in the database. So other pages may be logged as
//! differences from it.

use rustc_hash::FxHashMap;

use crate::database::contract::Failure;

/// The place of a page's image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Image {
    /// In this frame of the log.
    Frame(u32),
    /// In the database.
    Database,
    /// The page is new.
    None,
}

/// The images of all pages after a frame.
#[derive(Debug, Default)]
pub(super) struct Images {
    /// The last frame of each page, and whether it is complete, but for those that were cut off since.
    last: FxHashMap<u32, (u32, bool)>,
    /// The frame up to which this is so.
    frames: u32,
    /// The fewest that it has had since the generation began.
    least: u32,
    /// No page after this one has a frame here.
    highest: u32,
}

impl Images {
    /// Begins anew, with the database's pages when the generation began.
    pub(super) fn begin(&mut self, pages: u32) {
        self.last.clear();
        (self.frames, self.least, self.highest) = (0, pages, 0);
    }

    /// The frame up to which frames were noted.
    pub(super) fn frames(&self) -> u32 {
        self.frames
    }

    /// Where a page's image is.
    pub(super) fn of(&self, page: u32) -> Image {
        match self.last.get(&page) {
            Some((frame, _)) => Image::Frame(*frame),
            None if page <= self.least => Image::Database,
            None => Image::None,
        }
    }

    /// The last frame of a complete page.
    pub(super) fn complete(&self, page: u32) -> Option<u32> {
        self.last.get(&page).filter(|last| last.1).map(|last| last.0)
    }

    /// Notes the next frame. `pages` is what the database has after the transaction that it ends, 0 if it ends none. A page
    /// that is complete stays so.
    ///
    /// # Errors
    /// Out of memory.
    pub(super) fn note(&mut self, page: u32, pages: u32, complete: bool) -> Result<(), Failure> {
        self.last.try_reserve(1).map_err(|_| Failure::Memory)?;
        self.frames += 1;
        let last = self.last.entry(page).or_default();
        *last = (self.frames, last.1 || complete);
        self.highest = self.highest.max(page);
        if pages > 0 {
            self.least = self.least.min(pages);
            if self.highest > pages {
                self.last.retain(|page, _| *page <= pages);
                self.highest = pages;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_that_was_cut_off_has_no_image() {
        let mut images = Images::default();
        images.begin(10);
        let of = |images: &Images| [1, 6, 9, 12].map(|page| images.of(page));
        assert_eq!(of(&images), [Image::Database, Image::Database, Image::Database, Image::None]);
        images.note(6, 0, 6 == 12).unwrap();
        images.note(12, 12, 12 == 12).unwrap();
        let [first, second] = [1, 2].map(Image::Frame);
        assert_eq!(of(&images), [Image::Database, first, Image::Database, second]);
        // The database is shorter for a while.
        images.note(1, 7, 1 == 12).unwrap();
        assert_eq!(of(&images), [Image::Frame(3), first, Image::None, Image::None]);
        images.note(2, 14, 2 == 12).unwrap();
        assert_eq!(of(&images), [Image::Frame(3), first, Image::None, Image::None]);
        images.note(12, 14, 12 == 12).unwrap();
        assert_eq!(of(&images), [Image::Frame(3), first, Image::None, Image::Frame(5)]);
        assert_eq!(images.frames(), 5);
        assert_eq!([1, 6, 12].map(|page| images.complete(page)), [None, None, Some(5)]);
        images.note(12, 14, false).unwrap();
        assert_eq!(images.complete(12), Some(6));
        images.note(1, 11, true).unwrap();
        assert_eq!([1, 12].map(|page| images.complete(page)), [Some(7), None]);
        images.begin(14);
        assert_eq!(of(&images), [Image::Database; 4]);
    }
}
