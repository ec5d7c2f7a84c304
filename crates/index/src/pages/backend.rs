//! The contract of a place where pages lie.

use std::fmt;

use pm::View;

use crate::error::IndexError;

/// Reads pages. Cheap to clone; a clone can be sent to another thread and outlives the writer.
pub trait PageSource: Clone + fmt::Debug + Send + Sync + 'static {
    /// The type with which a page is read.
    type View<'a>: View
    where
        Self: 'a;

    /// Calls `read` with a page, whose contents stay as they are meanwhile.
    ///
    /// # Errors
    /// There is no such page, it is damaged, or cannot be read.
    fn with<'s, R>(
        &'s self,
        page: u64,
        read: impl FnOnce(&Self::View<'s>) -> R,
    ) -> Result<R, IndexError>;
}

/// A place where pages lie: a file with a cache, or extents of a heap.
pub trait PageBackend: fmt::Debug + Send + Sync {
    /// Reads the pages.
    type Source: PageSource;
    /// The source of more room.
    type Room;

    /// Reads the pages.
    fn source(&self) -> &Self::Source;
    /// Bytes of a page.
    fn page_bytes(&self) -> u32;
    /// Takes a page that was never used, if there is one.
    ///
    /// # Errors
    /// Damage.
    fn take_fresh(&mut self) -> Result<Option<u64>, IndexError>;
    /// Returns how many pages were never used.
    fn fresh(&self) -> u64;
    /// Makes room for at least so many pages more.
    ///
    /// # Errors
    /// There is no room.
    fn extend(&mut self, room: &mut Self::Room, pages: u64) -> Result<(), IndexError>;
    /// A page was allocated: it must be durable after the next [`Self::write_back`].
    fn allocated(&mut self, page: u64);
    /// Gives a page of the open transaction new contents.
    ///
    /// # Errors
    /// The medium failed.
    fn write(&mut self, page: u64, image: &[u8]) -> Result<(), IndexError>;
    /// Changes eight bytes of a page of the open transaction.
    ///
    /// # Errors
    /// The medium failed.
    fn patch(&mut self, page: u64, at: usize, bytes: [u8; 8]) -> Result<(), IndexError>;
    /// The contents of a page that was allocated since the last [`Self::write_back`], or is free
    /// now, are not needed any more.
    fn forget(&mut self, page: u64);
    /// Writes back what was allocated and not forgotten; durable after the next fence or sync.
    ///
    /// # Errors
    /// The medium failed.
    fn write_back(&mut self) -> Result<(), IndexError>;
    /// The high-water mark: a number that divides the used pages from those never used.
    fn mark(&self) -> u64;
    /// Returns how many pages are below the high-water mark now.
    ///
    /// # Errors
    /// Damage.
    fn used_pages(&self) -> Result<u64, IndexError>;
    /// Bytes that the pages take, used or not.
    fn bytes(&self) -> u64;
    /// Bytes that were written back since the backend was opened.
    fn written_bytes(&self) -> u64;
    /// Prepares [`Self::dense`] for the pages below the mark that the backend was opened with, in
    /// at most so many steps; returns how many were needed, and whether it is done.
    ///
    /// # Errors
    /// Damage.
    fn enumerate(&mut self, steps: u64) -> Result<(u64, bool), IndexError>;
    /// Returns how many places there are for the pages that were below the mark when the backend
    /// was opened; some places may have none.
    fn below_mark(&self) -> u64;
    /// Returns whether a place has a page.
    fn is_below(&self, dense: u64) -> bool;
    /// The place of a page among those below the mark.
    fn dense(&self, page: u64) -> Option<u64>;
    /// The page in such a place.
    fn page_at(&self, dense: u64) -> u64;
}
