//! A frame: the memory of one page, its latch, and what the pool knows about it.

use std::ops::Deref;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::{RwLockReadGuard, RwLockWriteGuard};

use crate::Result;
use crate::ids::{Lsn, PageNo};
use crate::latch::{Exclusive, Latch, Latching};
use crate::page::Page;

const NO_PAGE: u64 = u64::MAX;

#[derive(Debug)]
pub(super) struct Frame<T> {
    pub(super) latch: Latch<T, Held>,
    pub(super) dirt: Exclusive<T, Dirt>,
    pins: AtomicU32,
    resident: AtomicU64,
}

/// The contents of a frame. No number: the page could not be read.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) page: Page,
    pub(super) number: Option<PageNo>,
}

/// The changes of a page that its medium does not have.
#[derive(Debug, Default)]
pub(super) struct Dirt {
    /// Not after the first of them: the page's recovery LSN.
    pub(super) unwritten: Option<Lsn>,
    /// Not after the first of them since the page was copied to be written.
    pub(super) since_copied: Option<Lsn>,
}

impl Held {
    /// A page has come into the frame, whole.
    pub(super) fn came(&mut self, number: PageNo) {
        self.number = Some(number);
        self.page.memory().close();
    }

    /// The page goes: no look at it holds from now on.
    pub(super) fn goes(&mut self) {
        self.page.memory().open();
        self.number = None;
    }
}

impl<T: Latching> Frame<T> {
    pub(super) fn new() -> Self {
        Self {
            latch: Latch::new(Held { page: Page::blank(0), number: None }),
            dirt: Exclusive::new(Dirt::default()),
            pins: AtomicU32::new(0),
            resident: AtomicU64::new(NO_PAGE),
        }
    }

    /// With the page's shard locked, or on a frame that the table does not have.
    pub(super) fn pin(&self) {
        self.pins.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn unpin(&self) {
        let before = self.pins.fetch_sub(1, Ordering::AcqRel);
        assert!(before > 0, "a frame is unpinned once for each pin");
    }

    pub(super) fn is_pinned(&self) -> bool {
        self.pins.load(Ordering::Acquire) != 0
    }

    /// Pins a frame that has no pins and that the table does not have.
    pub(super) fn claim(&self) -> bool {
        self.pins.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    pub(super) fn resident(&self) -> Option<PageNo> {
        Some(self.resident.load(Ordering::Acquire)).filter(|page| *page != NO_PAGE).map(PageNo)
    }

    pub(super) fn set_resident(&self, page: Option<PageNo>) {
        self.resident.store(page.map_or(NO_PAGE, |page| page.0), Ordering::Release);
    }
}

/// A pin: while there is one, the frame keeps its page.
#[derive(Debug)]
pub(super) struct Pin<'a, T: Latching> {
    pub(super) frame: &'a Frame<T>,
}

impl<T: Latching> Drop for Pin<'_, T> {
    fn drop(&mut self) {
        self.frame.unpin();
    }
}

/// A page that is latched for reading.
#[derive(Debug)]
pub struct ReadPage<'a, T: Latching> {
    // The latch goes before the pin.
    pub(super) held: RwLockReadGuard<'a, Held>,
    pub(super) _pin: Pin<'a, T>,
}

impl<T: Latching> ReadPage<'_, T> {
    /// Its number, which a page that was never used does not say.
    pub(crate) fn place(&self) -> PageNo {
        self.held.number.expect("a page that is latched is in its frame")
    }
}

impl<T: Latching> Deref for ReadPage<'_, T> {
    type Target = Page;

    fn deref(&self) -> &Page {
        &self.held.page
    }
}

/// A page that is latched for changes, which `Pool::perform` makes.
#[derive(Debug)]
pub struct WritePage<'a, T: Latching> {
    pub(super) held: RwLockWriteGuard<'a, Held>,
    pub(super) pin: Pin<'a, T>,
    pub(super) number: PageNo,
}

impl<T: Latching> WritePage<'_, T> {
    /// Changes the page, which is not whole meanwhile. If that fails it stays so: it is half
    /// changed.
    pub(super) fn change<R>(&mut self, act: impl FnOnce(&mut Page) -> Result<R>) -> Result<R> {
        let page = &mut self.held.page;
        page.memory().open();
        let done = act(page)?;
        page.memory().close();
        Ok(done)
    }

    /// Says, before a change is logged, that the medium will not have it.
    pub(super) fn prepare(&self, end: Lsn) {
        let mut dirt = self.pin.frame.dirt.lock();
        dirt.unwritten.get_or_insert(end);
        dirt.since_copied.get_or_insert(end);
    }

    /// Takes back what [`Self::prepare`] said: the change was not logged. All earlier changes were
    /// logged with a lesser end, so an equal one is this one's.
    pub(super) fn unprepare(&self, end: Lsn) {
        let mut dirt = self.pin.frame.dirt.lock();
        dirt.since_copied.take_if(|since| *since == end);
        dirt.unwritten.take_if(|unwritten| *unwritten == end);
    }

    /// Its number, which a page that was never used does not say.
    #[must_use]
    pub fn place(&self) -> PageNo {
        self.number
    }
}

impl<T: Latching> Deref for WritePage<'_, T> {
    type Target = Page;

    fn deref(&self) -> &Page {
        &self.held.page
    }
}
