//! Writes pages in batches: those of a checkpoint in the order of the file, so that neighbours are
//! written by one call.

use std::sync::atomic::Ordering;

use pm::{File, Files};

use super::frame::{Frame, Pin};
use super::staging::BATCH_PAGES;
use super::{Pool, bump};
use crate::flaw::Flaw;
use crate::ids::{Lsn, PageNo};
use crate::latch::Latching;
use crate::{PagedError, Result};

/// The frames whose pages are written next.
#[derive(Debug, Default)]
pub(super) struct Old {
    /// Their recovery LSNs were less.
    before: Lsn,
    /// Those that are written first come last.
    frames: Vec<usize>,
    /// One was being changed when its turn came: when the others are written it is looked for again.
    is_partial: bool,
}

impl<F: Files, T: Latching> Pool<F, T> {
    /// The dirty page table: the pages that the medium does not have, and their recovery LSNs.
    #[must_use]
    pub fn dirty_pages(&self) -> Vec<(PageNo, Lsn)> {
        // First: a page that is redone meanwhile is among the frames then.
        let mut all = self.lacking.unwritten();
        all.extend(self.frames.made().filter_map(|(_, frame)| {
            let unwritten = frame.dirt.lock().unwritten;
            Some((frame.resident()?, unwritten?))
        }));
        all
    }

    /// The oldest recovery LSN: redo begins there at the latest.
    #[must_use]
    pub fn oldest_unwritten(&self) -> Option<Lsn> {
        let lacking = self.lacking.unwritten().into_iter().map(|(_, lsn)| lsn);
        let frames = self.frames.made().filter_map(|(_, frame)| frame.dirt.lock().unwritten);
        lacking.chain(frames).min()
    }

    /// Writes one batch of the pages whose recovery LSN is less than `before`, in the order of the
    /// file. Returns how many it wrote, and whether some may be left.
    ///
    /// # Errors
    /// The log or the medium failed; the pool has stopped.
    pub fn clean_some(&self, before: Lsn) -> Result<(usize, bool)> {
        self.write_old(&mut self.old.lock(), before)
    }

    /// Does so with a list that others do not have.
    fn write_old(&self, old: &mut Old, before: Lsn) -> Result<(usize, bool)> {
        let is_old = |frame: &Frame<T>| frame.dirt.lock().unwritten.is_some_and(|lsn| lsn < before);
        if old.before != before || old.frames.is_empty() {
            *old = self.find_old(before);
        }
        let mut batch = Vec::with_capacity(BATCH_PAGES);
        while batch.len() < BATCH_PAGES
            && let Some(number) = old.frames.pop()
        {
            // Another thread may have written it, for its frame.
            if is_old(&self.frames[number]) {
                batch.push(number);
            }
        }
        let written = self.write_batch(&batch)?;
        old.is_partial |= written < batch.len();
        Ok((written, old.is_partial || !old.frames.is_empty()))
    }

    /// Looks at all frames, once for many batches.
    fn find_old(&self, before: Lsn) -> Old {
        let is_old = |frame: &Frame<T>| frame.dirt.lock().unwritten.is_some_and(|lsn| lsn < before);
        let frames = self.frames.made().filter(|(_, frame)| is_old(frame));
        let mut old: Vec<_> =
            frames.filter_map(|(number, frame)| Some((frame.resident()?, number))).collect();
        old.sort_unstable_by(|one, other| other.cmp(one));
        let frames = old.into_iter().map(|(_, number)| number).collect();
        Old { before, frames, is_partial: false }
    }

    /// Writes all pages whose recovery LSN is less than `before`, those that may lack changes among
    /// them. Others are changed meanwhile.
    ///
    /// # Errors
    /// As [`Self::clean_some`].
    pub fn clean(&self, before: Lsn) -> Result<()> {
        self.redo_rest()?;
        let mut old = Old::default();
        while self.write_old(&mut old, before)?.1 {
            T::pause();
        }
        Ok(())
    }

    /// Writes all pages, for closing.
    ///
    /// # Errors
    /// As [`Self::clean_some`].
    pub fn clean_all(&self) -> Result<()> {
        self.clean(Lsn(u64::MAX))
    }

    /// Forgets the last batch, for closing: the next opening need not write it once more.
    ///
    /// # Errors
    /// The medium failed; the pool has stopped.
    pub fn forget_batch(&self) -> Result<()> {
        self.check_running()?;
        let io = |source| PagedError::Io { doing: "forgetting staged pages", source };
        self.staging.lock().forget().map_err(|source| self.stop(io(source)))
    }

    /// As [`Self::forget_batch`], durably: pages that get another log must not get the old LSNs
    /// again.
    ///
    /// # Errors
    /// The medium failed; the pool has stopped.
    pub fn forget_batch_durably(&self) -> Result<()> {
        self.forget_batch()?;
        let io = |source| PagedError::Io { doing: "forgetting staged pages", source };
        self.staging.lock().sync().map_err(|source| self.stop(io(source)))
    }

    /// Writes pages that make way for others next, if many of them would have to be written then.
    /// Returns how many it wrote.
    ///
    /// # Errors
    /// As [`Self::clean_some`].
    pub fn clean_ahead(&self) -> Result<usize> {
        let most = (2 * BATCH_PAGES).min(self.frames.len() / 4);
        let next = self.queues.lock().next_to_go(most, |frame| self.frames.uses(frame));
        let is_dirty = |number: &usize| {
            let frame = &self.frames[*number];
            !frame.is_pinned() && frame.dirt.lock().unwritten.is_some()
        };
        let dirty: Vec<usize> =
            next.into_iter().filter(is_dirty).take(BATCH_PAGES.min(most)).collect();
        // A batch costs two syncs, whatever it has.
        if dirty.len() < most / 4 { Ok(0) } else { self.write_batch(&dirty) }
    }

    /// Writes the page of a frame, and with it others that are not in use: the two syncs are the
    /// same.
    pub(super) fn write_some(&self, number: usize) -> Result<()> {
        let others = self.frames.others(number).filter_map(|(other, frame)| {
            let is_dirty = !frame.is_pinned() && frame.dirt.lock().unwritten.is_some();
            is_dirty.then_some(other)
        });
        let most = BATCH_PAGES.min(self.frames.len() / 4);
        let batch: Vec<usize> = std::iter::once(number).chain(others.take(most - 1)).collect();
        self.write_batch(&batch).map(drop)
    }

    /// Writes the pages of these frames: at most a batch. A page that is being changed is left out.
    fn write_batch(&self, numbers: &[usize]) -> Result<usize> {
        self.check_running()?;
        let mut staging = self.staging.lock();
        self.check_running()?;
        staging.begin();
        let (mut pins, mut newest): (Vec<Pin<'_, T>>, _) = (Vec::new(), Lsn::NONE);
        for frame in numbers.iter().map(|number| &self.frames[*number]) {
            let Some(page) = frame.resident() else { continue };
            let Some((_, pin)) = self.pin_resident(page) else { continue };
            if !std::ptr::eq(pin.frame, frame) {
                continue;
            }
            let Some(held) = frame.latch.try_read() else { continue };
            let mut dirt = frame.dirt.lock();
            if held.number != Some(page) || dirt.unwritten.is_none() {
                continue;
            }
            dirt.since_copied = None;
            drop(dirt);
            newest = newest.max(held.page.lsn());
            assert_eq!(held.page.number(), page, "a page that was changed has its number");
            staging.push(&held.page);
            pins.push(pin);
        }
        if pins.is_empty() {
            return Ok(0);
        }
        if !T::has(Flaw::PageBeforeLog) {
            self.log.force_all(newest).map_err(|error| self.stop(error))?;
            assert!(self.log.durable() >= newest, "the log is durable up to where it was forced");
        }
        let io = |doing| move |source| PagedError::Io { doing, source };
        let written = staging.write().map_err(io("staging pages")).and_then(|()| {
            self.note_newest(newest).map_err(io("writing a page"))?;
            for (first, bytes) in staging.runs() {
                let at = first.0 * self.page_bytes as u64;
                self.file.write_at(at, bytes).map_err(io("writing a page"))?;
            }
            let pages = self.pages_of_file();
            self.file.sync().map_err(io("syncing pages"))?;
            self.surely.fetch_max(pages, Ordering::AcqRel);
            Ok(())
        });
        written.map_err(|error| self.stop(error))?;
        for pin in &pins {
            let mut dirt = pin.frame.dirt.lock();
            dirt.unwritten = dirt.since_copied;
        }
        bump(&self.counts.writes, pins.len());
        bump(&self.counts.batches, 1);
        Ok(pins.len())
    }
}
