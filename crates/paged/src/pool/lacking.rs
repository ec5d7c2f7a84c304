//! Redo on demand: after a crash a page is redone when it first comes into a frame.
//!
//! 1. [`Pool::redo_later`] says which pages may lack changes, and where the records of those are.
//! 2. Such a page is redone before any other thread can latch it. From then on it is dirty, with
//!    the first record that it lacked as its recovery LSN.
//! 3. Until then it is in the dirty page table with its first record, so that no checkpoint lets
//!    its records go. It is among the dirty frames before it leaves the list.
//! 4. [`Pool::redo_some`] redoes those that no call asks for, in the order of the file.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pm::Files;

use super::Pool;
use super::frame::Frame;
use super::perform::body_of;
use crate::flaw::Flaw;
use crate::ids::{Lsn, PageNo};
use crate::latch::{Exclusive, Latching};
use crate::page::Page;
use crate::{PagedError, Result};

/// The pages that may lack changes, each with the places of its records in the order of the log.
#[derive(Debug)]
pub(super) struct Lacking<T> {
    pages: Exclusive<T, BTreeMap<PageNo, Arc<[Lsn]>>>,
    /// Their number, so that they are not locked where there are none.
    left: AtomicUsize,
}

impl<T: Latching> Lacking<T> {
    pub(super) fn new() -> Self {
        Self { pages: Exclusive::new(BTreeMap::new()), left: AtomicUsize::new(0) }
    }

    pub(super) fn len(&self) -> usize {
        self.left.load(Ordering::Acquire)
    }

    pub(super) fn has(&self, page: PageNo) -> bool {
        self.len() > 0 && self.pages.lock().contains_key(&page)
    }

    /// The places of a page's records, if it may lack some.
    pub(super) fn of(&self, page: PageNo) -> Option<Arc<[Lsn]>> {
        if self.len() == 0 { None } else { self.pages.lock().get(&page).cloned() }
    }

    /// Takes a page off the list: it is in a frame, redone.
    pub(super) fn done(&self, page: PageNo) {
        let mut pages = self.pages.lock();
        pages.remove(&page);
        self.left.store(pages.len(), Ordering::Release);
    }

    /// The pages with their recovery LSNs.
    pub(super) fn unwritten(&self) -> Vec<(PageNo, Lsn)> {
        if self.len() == 0 {
            return Vec::new();
        }
        self.pages.lock().iter().map(|(page, places)| (*page, places[0])).collect()
    }

    fn first(&self, most: usize) -> Vec<PageNo> {
        self.pages.lock().keys().take(most).copied().collect()
    }
}

impl<F: Files, T: Latching> Pool<F, T> {
    /// Says which pages may lack changes, and where the records of each are in the log. Called
    /// before any of them is in a frame.
    pub fn redo_later(&self, places: impl IntoIterator<Item = (PageNo, Vec<Lsn>)>) {
        let mut pages = self.lacking.pages.lock();
        let places = places.into_iter().filter(|(_, places)| !places.is_empty());
        pages.extend(places.map(|(page, places)| (page, places.into())));
        self.lacking.left.store(pages.len(), Ordering::Release);
    }

    /// The number of pages that may lack changes and have not been asked for since.
    #[must_use]
    pub fn lacking(&self) -> usize {
        self.lacking.len()
    }

    /// Redoes some of the pages that may lack changes. Returns how many are left.
    ///
    /// # Errors
    /// A page or its log is damaged, the medium refuses, or all frames are in use.
    pub fn redo_some(&self, most: usize) -> Result<usize> {
        if self.lacking.len() > 0 {
            for page in self.lacking.first(most) {
                drop(self.read(page)?);
            }
        }
        Ok(self.lacking.len())
    }

    /// Redoes all of them.
    ///
    /// # Errors
    /// As [`Self::redo_some`].
    pub fn redo_rest(&self) -> Result<()> {
        while self.redo_some(64)? > 0 {}
        Ok(())
    }

    /// Brings a page into a frame and redoes it.
    pub(super) fn redo_in(
        &self,
        number: PageNo,
        places: &[Lsn],
        frame: &Frame<T>,
        page: &mut Page,
    ) -> Result<()> {
        let mut damaged = match self.read_in(number, page) {
            Ok(()) => None,
            Err(error @ PagedError::DamagedPage { .. }) => Some(error),
            Err(error) => return Err(error),
        };
        if damaged.is_some() {
            page.clear();
        }
        let there = if T::has(Flaw::RedoneTwice) { Lsn::NONE } else { page.lsn() };
        let lacks = match T::has(Flaw::ServedUnredone) {
            true => &[],
            false => &places[places.partition_point(|at| *at <= there)..],
        };
        self.log.read_each(lacks, &mut |logged| {
            let body = body_of(&logged)?;
            let mut pages = body.change.pages(logged.page, self.page_bytes);
            let Some((role, _)) = pages.find(|(_, page)| *page == number) else {
                let what = format!("the record does not change {number}");
                return Err(PagedError::DamagedLog { at: logged.lsn, what });
            };
            // All that came after the page was made anew is in the log.
            if let Some(error) = damaged.take()
                && !body.change.formats(role)
            {
                return Err(error);
            }
            body.change.apply(page, &self.place(number, role, logged.page, &body))?;
            page.set_lsn(logged.lsn);
            Ok(())
        })?;
        if let Some(error) = damaged {
            return Err(error);
        }
        if let Some(first) = lacks.first() {
            let mut dirt = frame.dirt.lock();
            (dirt.unwritten, dirt.since_copied) = (Some(*first), Some(*first));
        }
        Ok(())
    }
}
