//! Staged bytes on top of the committed ones, which are read page by page from their frames.

use std::path::Path;

use pm::Memory;

use crate::store::connection::Store;
use crate::store::error::{Result, StoreError};
use crate::store::layout::{GRANULE, HEADER_BYTES, WRITE_VERSION};
use crate::store::page1;
use crate::store::plan::place_of;
use crate::store::stage::{Granule, zeroed};

impl<M: Memory> Store<M> {
    /// Bytes of the database as SQLite sees it through this connection.
    pub fn size(&self) -> u64 {
        self.stage.size().unwrap_or(self.view.size())
    }

    /// Committed bytes that this transaction has not truncated.
    pub(super) fn kept(&self) -> u64 {
        self.view.size().min(self.stage.floor())
    }

    /// Copies bytes from `at` on and returns how many there are; the rest of `out` is zeroed.
    ///
    /// # Errors
    /// The medium fails.
    pub fn read(&self, at: u64, out: &mut [u8]) -> Result<usize> {
        self.healthy()?;
        let there = self.size().saturating_sub(at).min(out.len() as u64) as usize;
        let (wanted, rest) = out.split_at_mut(there);
        rest.fill(0);
        self.committed(at, wanted)?;
        if self.stage.granules() > 0 {
            self.overlay(at, wanted)?;
        }
        if at < HEADER_BYTES && there > 0 && self.view.is_marked() {
            let mut version = [0];
            self.committed(WRITE_VERSION as u64, &mut version)?;
            self.overlay(WRITE_VERSION as u64, &mut version)?;
            page1::show(at, wanted, version[0]);
        }
        self.healthy()?;
        Ok(there)
    }

    /// Copies committed bytes, and zeros past their end.
    fn committed(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let there = self.kept().saturating_sub(at).min(out.len() as u64) as usize;
        let (wanted, rest) = out.split_at_mut(there);
        rest.fill(0);
        if wanted.is_empty() { Ok(()) } else { self.in_place(at, wanted) }
    }

    /// Copies bytes from `at` on from their frames, and from NVWAL's log.
    pub(crate) fn in_place(&self, at: u64, out: &mut [u8]) -> Result<()> {
        if self.cache.is_empty() { self.in_frames(at, out) } else { self.over_frames(at, out) }
    }

    /// The same without NVWAL's log.
    pub(super) fn in_frames(&self, at: u64, out: &mut [u8]) -> Result<()> {
        if self.side.table().entries == 0 {
            return Ok(self.data.read_into(at, out)?);
        }
        let page_bytes = self.page_bytes();
        let mut done = 0;
        while done < out.len() {
            let (page, within) =
                ((at + done as u64) / page_bytes + 1, (at + done as u64) % page_bytes);
            let len = (page_bytes - within).min((out.len() - done) as u64) as usize;
            let frame = self.side.frame(page as u32)?;
            self.data
                .read_into(place_of(frame, page_bytes) + within, &mut out[done..done + len])?;
            done += len;
        }
        Ok(())
    }

    /// Copies bytes from `at` on as they will be after the commit.
    pub(crate) fn staged(&self, at: u64, out: &mut [u8]) -> Result<()> {
        self.committed(at, out)?;
        self.overlay(at, out)
    }

    /// Copies staged bytes over bytes from `at` on.
    fn overlay(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while done < out.len() {
            let (number, within) = ((at + done as u64) / GRANULE, (at + done as u64) % GRANULE);
            let len = (GRANULE - within).min((out.len() - done) as u64) as usize;
            self.stage.read(number, within as usize, &mut out[done..done + len])?;
            done += len;
        }
        Ok(())
    }

    /// Stages bytes at `at`.
    ///
    /// # Errors
    /// There is no memory for them.
    pub fn write(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        self.healthy()?;
        self.touch();
        let (size, allows_wal) = (self.size(), self.allows_wal());
        let mut done = 0;
        while done < bytes.len() {
            let (number, within) = ((at + done as u64) / GRANULE, (at + done as u64) % GRANULE);
            let len = (GRANULE - within).min((bytes.len() - done) as u64) as usize;
            let within = within as usize;
            let mut refused = false;
            self.change_granule(number, len, |granule| {
                granule[within..within + len].copy_from_slice(&bytes[done..done + len]);
                refused = number == 0 && !allows_wal && page1::refuse_wal(granule);
            })?;
            if refused {
                self.stage.refuse_wal();
            }
            done += len;
        }
        self.stage.extend(size.max(at + bytes.len() as u64));
        Ok(())
    }

    /// Changes a granule. One that is not staged has the committed bytes before, unless all of it is written.
    pub(crate) fn change_granule(
        &mut self,
        number: u64,
        written: usize,
        change: impl FnOnce(&mut Granule),
    ) -> Result<()> {
        if self.stage.has(number) {
            return self.stage.change(number, change);
        }
        let mut granule = self.stage.buffer()?;
        if written < GRANULE as usize {
            self.committed(number * GRANULE, &mut granule[..])?;
            if number == 0 && self.view.is_marked() {
                let version = granule[WRITE_VERSION];
                page1::show(0, &mut granule[..], version);
            }
        }
        change(&mut granule);
        self.stage.put(number, granule)
    }

    /// Sets the folder for the pages of large transactions, which are in memory otherwise.
    pub fn set_scratch_folder(&mut self, folder: &Path) {
        self.stage.set_scratch_folder(folder);
    }

    /// Sets the number of granules of 4 KiB from which on a transaction is committed page by page.
    pub fn set_streamed_from(&mut self, granules: usize) {
        self.stage.set_streamed_from(granules);
    }

    /// Returns whether the committed database is in SQLite's WAL mode.
    ///
    /// # Errors
    /// The medium fails.
    pub fn is_in_wal_mode(&self) -> Result<bool> {
        if self.view.size() < HEADER_BYTES {
            return Ok(false);
        }
        let mut version = [0];
        self.in_place(WRITE_VERSION as u64, &mut version)?;
        Ok(version[0] == 2)
    }

    /// Stages another size: truncates the database, or extends it with zeros.
    ///
    /// # Errors
    /// Staged bytes cannot be read.
    pub fn truncate(&mut self, to: u64) -> Result<()> {
        self.touch();
        let size = self.size();
        if to < size {
            self.stage.cut(to)?;
        } else if to > size {
            self.stage.extend(to);
        }
        Ok(())
    }

    /// Discards what is staged.
    pub fn discard(&mut self) {
        self.stage.clear();
    }

    /// Returns whether something is staged.
    pub fn has_changes(&self) -> bool {
        !self.stage.is_empty()
    }

    /// Returns whether only another size is staged.
    pub fn has_size_only(&self) -> bool {
        self.stage.granules() == 0 && self.stage.size().is_some_and(|size| size != self.view.size())
    }

    /// Returns an error if a page 1 is staged that is not in SQLite's form: it has no place for the marker.
    ///
    /// # Errors
    /// As it says, or the medium fails.
    pub fn check_form(&self) -> Result<()> {
        if self.stage.has(0) && self.size() >= HEADER_BYTES {
            let mut header = [0; HEADER_BYTES as usize];
            self.staged(0, &mut header)?;
            if !page1::has_sqlites_form(&header) {
                return Err(StoreError::Foreign);
            }
        }
        Ok(())
    }

    /// Stages zeros where the database grows without a write and the file has other bytes.
    pub(crate) fn zero_gaps(&mut self, size: u64) -> Result<()> {
        let kept = self.kept();
        let mut buffer: Option<Granule> = None;
        for number in kept / GRANULE..size.div_ceil(GRANULE) {
            if self.stage.has(number) {
                continue;
            }
            let there = match &mut buffer {
                Some(there) => there,
                none => none.insert(zeroed()?),
            };
            let (start, len) = (number * GRANULE, (size - number * GRANULE).min(GRANULE) as usize);
            self.in_place(start, &mut there[..len])?;
            let from = kept.saturating_sub(start).min(len as u64) as usize;
            if there[from..len].iter().any(|byte| *byte != 0) {
                self.change_granule(number, 0, |_| ())?;
            }
        }
        Ok(())
    }
}
