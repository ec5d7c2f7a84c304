//! Pages: who reads them, who writes them, and when one can be used again.
//!
//! Nothing about free pages is ever written. What a page is, follows from who leads to it:
//!
//! | page | becomes free |
//! |---|---|
//! | made by the open transaction | when that aborts, or has dropped it when it commits |
//! | superseded by transaction `n` | when a directory of `n` or later is durable, and no snapshot from the page's birth up to before `n` lives |
//! | the same, but never part of a durable directory | as soon as `n` commits, if no such snapshot lives |
//! | beyond the high-water mark of the directory that was opened | at once |
//! | below it, and nothing leads to it | when the [collection](super::collect) has found it |
//!
//! Invariants:
//! - A page is changed in place only by the transaction that made it; its header has that
//!   transaction's number. All other changes go to a copy.
//! - A page is in one of the lists of [`Pages`] at most.

use std::collections::VecDeque;

use heap::HeapError;

use super::collection::Collection;
use super::held::{Held, Old};
use crate::error::IndexError;
use crate::pages::PageBackend;

/// One page in this many may be free, and still others are kept that were never used.
const FREE_PART: u64 = 8;
/// One page in this many of those that were never used is added at a time.
const AHEAD_PART: u64 = 64;
/// One page in this many is added at most while the collection is at work.
const GROWTH_PART: u64 = 32;

/// The pages of trees, with what is known of their use.
#[derive(Debug)]
pub struct Pages<B> {
    pub(super) backend: B,
    /// The open transaction.
    number: u64,
    /// The last transaction whose directory is durable.
    durable: u64,
    pub(super) free: Vec<u64>,
    /// Allocated by the open transaction.
    made: Vec<u64>,
    /// Pages of `made` that are not needed any more.
    dropped: Vec<u64>,
    /// Pages that were superseded by the open transaction.
    superseded: Vec<Old>,
    /// Pages that were superseded by committed ones, in their order.
    waiting: VecDeque<Old>,
    /// Superseded pages that only snapshots keep.
    held: Held,
    pub(super) collection: Option<Collection>,
    /// Pages that may still be added while the collection is at work.
    pub(super) growth: u64,
    /// True if there was no room to look ahead.
    full: bool,
    /// Pages allocated since the collection's last step.
    pub(super) allocated: u64,
    /// Pages allocated since the store was opened.
    made_ever: u64,
    /// Steps of the collection, and the pages that they looked at, about.
    pub(super) collected: (u64, u64),
}

impl<B: PageBackend> Pages<B> {
    /// The pages of a backend whose durable directory is that of transaction `durable`.
    pub fn new(backend: B, durable: u64) -> Self {
        Self {
            backend,
            number: durable + 1,
            durable,
            free: Vec::new(),
            made: Vec::new(),
            dropped: Vec::new(),
            superseded: Vec::new(),
            waiting: VecDeque::new(),
            held: Held::default(),
            collection: None,
            growth: 0,
            full: false,
            allocated: 0,
            made_ever: 0,
            collected: (0, 0),
        }
    }

    /// Reads the pages.
    #[inline]
    pub fn source(&self) -> &B::Source {
        self.backend.source()
    }

    /// Returns the backend, where the pages lie.
    pub fn backend(&self) -> &B {
        &self.backend
    }

    /// Pages that may be added while the collection is at work, if it has found so many that were
    /// never used: where there are fewer, many of the used ones are free.
    pub(super) fn allow_growth(&mut self, least: u64) {
        self.growth = if self.backend.fresh() >= least { self.all() / GROWTH_PART } else { 0 };
    }

    /// Gives the backend out, and forgets all that is known of its pages.
    pub fn into_backend(self) -> B {
        self.backend
    }

    /// The transaction that is open or comes next.
    #[inline]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns how many pages can be allocated without more room.
    #[inline]
    pub fn available(&self) -> u64 {
        self.free.len() as u64 + self.backend.fresh()
    }

    /// Makes sure that so many pages can be allocated.
    ///
    /// # Errors
    /// There is no room; nothing has changed.
    #[inline]
    pub fn reserve(&mut self, pages: u64, room: &mut B::Room) -> Result<(), IndexError> {
        if self.available() >= pages { Ok(()) } else { self.more(pages, room) }
    }

    /// Adds pages. While the collection is at work, space grows a little at first; then that is
    /// finished at once, to know which pages are free, or each crash would cost space for ever.
    #[cold]
    fn more(&mut self, pages: u64, room: &mut B::Room) -> Result<(), IndexError> {
        let (missing, fresh) = (pages - self.available(), self.backend.fresh());
        if self.is_collecting() && missing <= self.growth {
            let done = self.backend.extend(room, missing);
            self.growth = self.growth.saturating_sub(self.backend.fresh() - fresh);
            match done {
                Err(IndexError::Heap(HeapError::Full(_))) => {}
                done => return done,
            }
        }
        while !self.collect(u64::MAX)? {}
        let available = self.available();
        if available < pages {
            self.backend.extend(room, pages - available)?;
            self.full = false;
        }
        Ok(())
    }

    /// Keeps so many pages that were never used, between transactions, and a part of all pages if
    /// that is more, so that the first transactions after a crash need not wait for the collection.
    /// Not where an eighth of the pages is free: what they take of these pages stays used.
    ///
    /// # Errors
    /// The medium failed. That there is no room is no error.
    #[inline]
    pub fn look_ahead(&mut self, least: u64, room: &mut B::Room) -> Result<(), IndexError> {
        if self.backend.fresh() >= least || self.is_collecting() || self.full {
            return Ok(());
        }
        self.extend_ahead(least, room)
    }

    #[cold]
    fn extend_ahead(&mut self, least: u64, room: &mut B::Room) -> Result<(), IndexError> {
        let all = self.all();
        if self.free.len() as u64 > all / FREE_PART {
            return Ok(());
        }
        let ahead = least.max(all / AHEAD_PART);
        match self.backend.extend(room, ahead) {
            // Not again with each commit.
            Err(IndexError::Heap(HeapError::Full(_))) => self.full = true,
            done => return done,
        }
        Ok(())
    }

    /// Returns how many pages there are, used or not.
    fn all(&self) -> u64 {
        self.backend.bytes() / u64::from(self.backend.page_bytes())
    }

    /// Allocates a page; [`Self::reserve`] made room.
    ///
    /// # Errors
    /// There is no room.
    pub(crate) fn allocate(&mut self) -> Result<u64, IndexError> {
        let page = match self.free.pop() {
            Some(page) => page,
            None => self.backend.take_fresh()?.ok_or(IndexError::NotReserved)?,
        };
        self.made.push(page);
        self.allocated += 1;
        self.made_ever += 1;
        self.backend.allocated(page);
        Ok(page)
    }

    /// The open transaction leads to a page no more.
    pub(crate) fn supersede(&mut self, page: u64, birth: u64) {
        if birth == self.number {
            self.dropped.push(page);
        } else {
            self.superseded.push(Old { what: page, birth, at: self.number });
        }
    }

    pub(crate) fn write(&mut self, page: u64, image: &[u8]) -> Result<(), IndexError> {
        self.backend.write(page, image)
    }

    pub(crate) fn patch(&mut self, page: u64, at: usize, bytes: [u8; 8]) -> Result<(), IndexError> {
        self.backend.patch(page, at, bytes)
    }

    /// Ends the open transaction: it is committed, though not durable yet. `pins` are the
    /// transactions whose state a snapshot sees.
    pub fn commit(&mut self, pins: &[u64]) {
        self.made.clear();
        for page in self.dropped.drain(..) {
            self.backend.forget(page);
            self.free.push(page);
        }
        for old in self.superseded.drain(..) {
            if old.birth <= self.durable {
                self.waiting.push_back(old);
            } else if !self.held.keep(old, pins) {
                self.backend.forget(old.what);
                self.free.push(old.what);
            }
        }
        self.number += 1;
    }

    /// Ends the open transaction: what it did is undone.
    pub fn abort(&mut self) {
        self.superseded.clear();
        self.dropped.clear();
        for page in self.made.drain(..) {
            self.backend.forget(page);
            self.free.push(page);
        }
    }

    /// Writes back what the committed transactions, and the open one so far, have made. Durable
    /// after the next fence or sync.
    ///
    /// # Errors
    /// The medium failed.
    #[track_caller]
    pub fn write_back(&mut self) -> Result<(), IndexError> {
        self.backend.write_back()?;
        for page in &self.made {
            // It may change again.
            self.backend.allocated(*page);
        }
        Ok(())
    }

    /// The directory of transaction `durable` is durable, and so are the pages that it and the ones
    /// before it have made. Comes before [`Self::unpin`] and [`Self::reclaim`] of the same batch: of
    /// what has been written back there is nothing left to forget.
    pub fn made_durable(&mut self, durable: u64) {
        self.durable = durable;
    }

    /// Frees what only directories lead to that are older than the durable one.
    pub fn reclaim(&mut self, pins: &[u64]) {
        let durable = self.durable;
        while let Some(old) = self.waiting.front().copied().filter(|old| old.at <= durable) {
            self.waiting.pop_front();
            if !self.held.keep(old, pins) {
                self.free.push(old.what);
            }
        }
    }

    /// Snapshots have gone: what nothing else kept is free.
    pub fn unpin(&mut self, pins: &[u64]) {
        let Self { held, free, backend, durable, .. } = self;
        held.unpin(pins, |old| {
            if old.birth > *durable {
                backend.forget(old.what);
            }
            free.push(old.what);
        });
    }

    /// Pages that are free but wait for a directory to be durable, a snapshot to go, or the
    /// collection.
    pub fn waiting(&self) -> u64 {
        (self.waiting.len() + self.held.len()) as u64
    }

    /// Returns how many pages changes of trees have made since the store was opened: copies of
    /// others for the most part.
    pub fn made_ever(&self) -> u64 {
        self.made_ever
    }

    /// Returns how many steps the collection has done since the store was opened, and about how
    /// many pages it has looked at.
    pub fn collected(&self) -> (u64, u64) {
        self.collected
    }

    /// Returns how many pages nothing leads to but older versions.
    pub fn unused(&self) -> u64 {
        self.free.len() as u64 + self.waiting() + self.backend.fresh()
    }

    /// Calls `visit` with each page that is known to be free or superseded. Between transactions,
    /// and once the collection is done, these and the reachable ones are all pages below the mark.
    pub fn for_each_unused(&self, mut visit: impl FnMut(u64)) {
        self.free.iter().for_each(|page| visit(*page));
        self.waiting.iter().chain(self.held.iter()).for_each(|old| visit(old.what));
    }
}
