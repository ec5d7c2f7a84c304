//! Torn pages: a batch of pages goes to the staging file first.
//!
//! 1. Write up to 64 pages to the staging file, with a checksum over all of them; sync.
//! 2. Write them in place; sync.
//!
//! A crash in step 1 leaves the pages in place whole, one in step 2 the staging file. The next batch
//! overwrites the staging file, so a page that it has was not written in place since. When the file of
//! pages is opened, `Staging::restore` does step 2 once more. It begins with step 1: after a sync that
//! failed, what a program reads need not be what the medium has.

use std::io;

use pm::{File, Files};

use crate::PagedError;
use crate::file;
use crate::ids::{Lsn, PageNo};
use crate::page::Page;

/// The most pages of a batch.
pub const BATCH_PAGES: usize = 64;

/// The end of the file's name.
pub(crate) const NAME: &str = "staging";
const MAGIC: u64 = u64::from_le_bytes(*b"PDSTAGED");
const NUMBERS: usize = 32;
const HEADER_BYTES: usize = 1024;
const _: () = assert!(NUMBERS + 8 * BATCH_PAGES <= HEADER_BYTES);

/// Refuses copies of pages that are newer than a log which ends here, before anything is done with
/// them: no page is written before its log is durable.
///
/// # Errors
/// There are some; or the files are missing, or damaged, or the medium refuses.
pub(crate) fn check<F: Files>(files: &F, prefix: &str, end: Lsn) -> crate::Result<()> {
    let (_, new, _) = file::open(files, prefix)?;
    let mut staging = Staging::open(files, prefix, new.stamp, new.page_bytes)?;
    let io = |source| PagedError::Io { doing: "opening the file of pages", source };
    match staging.newest().map_err(io)? {
        Some(newest) if newest > end => {
            let what = format!(
                "it is of another moment than the log: it has changes up to {newest}, and the log ends at {end}"
            );
            Err(PagedError::WrongPages { name: format!("{prefix}{NAME}"), what })
        }
        _ => Ok(()),
    }
}

/// The staging file, and the batch that is being collected: 64 pages of memory at most.
#[derive(Debug)]
pub(super) struct Staging<F: Files> {
    file: F::File,
    stamp: u64,
    page_bytes: usize,
    batch: Vec<u8>,
    numbers: Vec<PageNo>,
}

impl<F: Files> Staging<F> {
    pub(super) fn create(
        files: &F,
        prefix: &str,
        stamp: u64,
        page_bytes: usize,
    ) -> io::Result<Self> {
        let file = files.create(&format!("{prefix}{NAME}"))?;
        // Durable with the first batch.
        file.reserve((HEADER_BYTES + BATCH_PAGES * page_bytes) as u64)?;
        Ok(Self::new(file, stamp, page_bytes))
    }

    pub(super) fn open(
        files: &F,
        prefix: &str,
        stamp: u64,
        page_bytes: usize,
    ) -> crate::Result<Self> {
        Ok(Self::new(file::open_named(files, prefix, NAME)?, stamp, page_bytes))
    }

    fn new(file: F::File, stamp: u64, page_bytes: usize) -> Self {
        Self { file, stamp, page_bytes, batch: Vec::new(), numbers: Vec::new() }
    }

    pub(super) fn begin(&mut self) {
        self.numbers.clear();
        self.batch.clear();
        self.batch.resize(HEADER_BYTES, 0);
    }

    /// Adds a copy of a page, with its checksum.
    pub(super) fn push(&mut self, page: &Page) {
        assert!(self.numbers.len() < BATCH_PAGES, "a batch has at most 64 pages");
        let from = self.batch.len();
        self.numbers.push(page.number());
        self.batch.extend_from_slice(page.bytes());
        Page::seal(&mut self.batch[from..]);
    }

    /// The pages of the batch.
    pub(super) fn pages(&self) -> impl Iterator<Item = (PageNo, &[u8])> {
        let pages = self.batch[HEADER_BYTES..].chunks_exact(self.page_bytes);
        self.numbers.iter().copied().zip(pages)
    }

    /// Writes the batch to the staging file, durably.
    pub(super) fn write(&mut self) -> io::Result<()> {
        let header = &mut self.batch[..HEADER_BYTES];
        header[..8].copy_from_slice(&MAGIC.to_le_bytes());
        header[8..16].copy_from_slice(&self.stamp.to_le_bytes());
        header[16..20].copy_from_slice(&(self.page_bytes as u32).to_le_bytes());
        header[20..24].copy_from_slice(&(self.numbers.len() as u32).to_le_bytes());
        for (number, place) in self.numbers.iter().zip(header[NUMBERS..].chunks_exact_mut(8)) {
            place.copy_from_slice(&number.0.to_le_bytes());
        }
        let sum = crc32c::crc32c(&self.batch);
        self.batch[24..28].copy_from_slice(&sum.to_le_bytes());
        self.file.write_at(0, &self.batch)?;
        self.file.sync()
    }

    /// Returns the newest LSN of the pages of the last batch, if there is a whole one. Nothing is changed.
    pub(super) fn newest(&mut self) -> io::Result<Option<Lsn>> {
        let is_whole = self.read()?;
        let newest = self.pages().map(|(_, page)| Page::lsn_of(page)).max();
        Ok(newest.filter(|_| is_whole))
    }

    /// Writes the last batch once more, durably: it may have been torn in place, or a sync of it have
    /// failed. Returns how many of its pages were torn.
    pub(super) fn restore(&mut self, pages: &F::File) -> io::Result<usize> {
        if !self.read()? {
            return Ok(0);
        }
        self.write()?;
        let (mut torn, mut page) = (0, Page::blank(self.page_bytes));
        for (number, staged) in self.pages() {
            let at = number.0 * self.page_bytes as u64;
            let read = pages.read_at(at, page.bytes_mut())?;
            page.bytes_mut()[read..].fill(0);
            let is_sound = page.check(number, self.stamp).is_ok();
            if is_sound && page.lsn() > Page::lsn_of(staged) {
                // The staging file is of an earlier moment.
                continue;
            }
            torn += usize::from(!is_sound);
            pages.write_at(at, staged)?;
        }
        pages.sync()?;
        Ok(torn)
    }

    /// Forgets the last batch, which is durable in place. Nothing depends on whether this becomes durable.
    pub(super) fn forget(&mut self) -> io::Result<()> {
        self.begin();
        self.file.write_at(0, &self.batch)
    }

    /// Reads the batch that the file has; returns whether there is a whole one of this file of pages.
    fn read(&mut self) -> io::Result<bool> {
        self.begin();
        self.batch.resize(HEADER_BYTES + BATCH_PAGES * self.page_bytes, 0);
        let read = self.file.read_at(0, &mut self.batch)?;
        self.batch.truncate(read.max(HEADER_BYTES));
        let word = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&self.batch[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        let (bytes, count) = (word(16) as u32 as usize, (word(16) >> 32) as usize);
        let sum = word(24) as u32;
        if word(0) != MAGIC || word(8) != self.stamp || bytes != self.page_bytes {
            return Ok(false);
        }
        let end = HEADER_BYTES + count.min(BATCH_PAGES) * bytes;
        if count > BATCH_PAGES || end > self.batch.len() {
            return Ok(false);
        }
        self.numbers = (0..count).map(|page| PageNo(word(NUMBERS + 8 * page))).collect();
        let most = i64::MAX as u64 / self.page_bytes as u64;
        if self.numbers.iter().any(|number| !(1..most).contains(&number.0)) {
            return Ok(false);
        }
        self.batch.truncate(end);
        self.batch[24..28].fill(0);
        Ok(crc32c::crc32c(&self.batch) == sum)
    }
}
