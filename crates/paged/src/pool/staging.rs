//! Torn pages: a batch of pages goes to the staging file first.
//!
//! 1. Write up to 64 pages to the staging file, with a checksum over all of them; sync.
//! 2. Write them in place; sync.
//!
//! A crash in step 1 leaves the pages in place whole, one in step 2 the staging file. The next
//! batch overwrites the staging file, so a page that it has was not written in place since. When
//! the file of pages is opened, `Staging::restore` does step 2 once more. It begins with step 1:
//! after a sync that failed, what a program reads need not be what the medium has.
//!
//! With each batch comes the newest LSN that any page was written with, in a sector of its own. The
//! log was durable up to there, so a log that ends before it has lost its end. There are two such
//! sectors that take turns: a crash that tears one leaves the other, and no page of the batch in
//! place.

use std::io;

use pm::{File, Files};

use crate::PagedError;
use crate::file::{self, NewFile, Noted};
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
const NEWEST_MAGIC: u64 = u64::from_le_bytes(*b"PDNEWEST");
/// A medium writes a sector whole.
const SECTOR_BYTES: usize = 512;
/// Magic, stamp and LSN, and after them their checksum.
const NEWEST_BYTES: usize = 24;

/// The newest LSN that a page was written with, as far as the files say, without a change: the log
/// was durable up to there.
///
/// # Errors
/// The files are missing, or damaged, or the medium refuses.
pub(crate) fn newest<F: Files>(files: &F, prefix: &str) -> crate::Result<Lsn> {
    let (_, new, noted) = file::open(files, prefix)?;
    let mut staging = Staging::open(files, prefix, new.stamp, new.page_bytes)?;
    let io = |source| PagedError::Io { doing: "opening the file of pages", source };
    // One of the sectors may be damaged, and each of the files be of another moment.
    let staged = staging.newest().max(staging.newest_of_batch().map_err(io)?);
    Ok(noted.newest.max(staged))
}

/// Refuses pages that are newer than a log which ends here, before anything is done with them: no
/// page is written before its log is durable, so no crash leaves them. The log has lost its end, or
/// is of another moment.
///
/// # Errors
/// There are some; or as [`newest`].
pub(crate) fn check<F: Files>(files: &F, prefix: &str, end: Lsn) -> crate::Result<()> {
    let newest = newest(files, prefix)?;
    if newest < end {
        return Ok(());
    }
    let what = format!(
        "it, or `{prefix}{NAME}`, is of another moment than the log, or the log has lost its end: pages have changes up to {newest}, and the log ends at {end}"
    );
    Err(PagedError::WrongPages { name: format!("{prefix}{}", file::NAME), what })
}

/// Gives the files a header and a staging file if they have none that can be read, so that what can
/// be read is read.
///
/// # Errors
/// The file of pages is missing, or the medium refuses.
pub(crate) fn make_whole<F: Files>(
    files: &F,
    prefix: &str,
    new: &NewFile,
    start: Lsn,
) -> crate::Result<()> {
    let io = |source| PagedError::Io { doing: "opening the file of pages", source };
    let new = match file::open(files, prefix) {
        Ok((_, found, _)) => found,
        Err(error) => {
            let noted = Noted { start, pages: 0, newest: Lsn::NONE };
            let pages = file::open_named(files, prefix, file::NAME)?;
            if file::is_of_another_version(&pages).map_err(io)? {
                return Err(error);
            }
            let found = file::find_page_bytes(&pages, new.stamp).map_err(io)?;
            let new = NewFile { page_bytes: found.unwrap_or(new.page_bytes), ..*new };
            if pages.len().map_err(io)? < 2 * new.page_bytes as u64 {
                return Err(error);
            }
            file::note(&pages, &new, &noted).map_err(io)?;
            new
        }
    };
    if Staging::open(files, prefix, new.stamp, new.page_bytes).is_err() {
        Staging::create(files, prefix, new.stamp, new.page_bytes).map_err(io)?;
    }
    Ok(())
}

/// The staging file, and the batch that is being collected: 64 pages of memory at most.
#[derive(Debug)]
pub(super) struct Staging<F: Files> {
    file: F::File,
    stamp: u64,
    page_bytes: usize,
    batch: Vec<u8>,
    numbers: Vec<PageNo>,
    /// The newest LSN that a page was written with, as each of the two sectors has it.
    newest: [Lsn; 2],
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
        let staging = Self::new(file, stamp, page_bytes);
        staging.file.reserve(staging.place_of_newest(2))?;
        Ok(staging)
    }

    pub(super) fn open(
        files: &F,
        prefix: &str,
        stamp: u64,
        page_bytes: usize,
    ) -> crate::Result<Self> {
        let mut staging = Self::new(file::open_named(files, prefix, NAME)?, stamp, page_bytes);
        let io = |source| PagedError::Io { doing: "opening the staging file", source };
        staging.read_newest().map_err(io)?;
        Ok(staging)
    }

    fn new(file: F::File, stamp: u64, page_bytes: usize) -> Self {
        Self {
            file,
            stamp,
            page_bytes,
            batch: Vec::new(),
            numbers: Vec::new(),
            newest: [Lsn::NONE; 2],
        }
    }

    fn place_of_newest(&self, sector: usize) -> u64 {
        (HEADER_BYTES + BATCH_PAGES * self.page_bytes + sector * SECTOR_BYTES) as u64
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
        Page::seal_bytes(&mut self.batch[from..]);
    }

    /// The pages of the batch.
    pub(super) fn pages(&self) -> impl Iterator<Item = (PageNo, &[u8])> {
        let pages = self.batch[HEADER_BYTES..].chunks_exact(self.page_bytes);
        self.numbers.iter().copied().zip(pages)
    }

    /// The same, neighbours that were pushed one after the other together: the first page of each
    /// run, and the bytes of all.
    pub(super) fn runs(&self) -> impl Iterator<Item = (PageNo, &[u8])> {
        let runs = self.numbers.chunk_by(|page, next| page.0 + 1 == next.0);
        runs.scan(HEADER_BYTES, |from, run| {
            let bytes = *from..*from + run.len() * self.page_bytes;
            *from = bytes.end;
            Some((run[0], &self.batch[bytes]))
        })
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
        self.write_newest()?;
        self.file.sync()
    }

    /// The newest LSN that a page was written with since the batches were forgotten.
    pub(super) fn newest(&self) -> Lsn {
        self.newest[0].max(self.newest[1])
    }

    /// The newest LSN of the pages of the last batch, if there is a whole one.
    fn newest_of_batch(&mut self) -> io::Result<Lsn> {
        let is_whole = self.read()?;
        let newest = self.newest_to_write();
        Ok(if is_whole { newest } else { Lsn::NONE })
    }

    fn newest_to_write(&self) -> Lsn {
        self.pages().map(|(_, page)| Page::lsn_of(page)).max().unwrap_or_default()
    }

    /// Writes the sector that says less, if the batch has something newer.
    fn write_newest(&mut self) -> io::Result<()> {
        let newest = self.newest_to_write();
        if newest <= self.newest() {
            return Ok(());
        }
        let sector = usize::from(self.newest[1] < self.newest[0]);
        let mut bytes = [0; SECTOR_BYTES];
        bytes[..8].copy_from_slice(&NEWEST_MAGIC.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.stamp.to_le_bytes());
        bytes[16..NEWEST_BYTES].copy_from_slice(&newest.0.to_le_bytes());
        let sum = crc32c::crc32c(&bytes[..NEWEST_BYTES]);
        bytes[NEWEST_BYTES..NEWEST_BYTES + 4].copy_from_slice(&sum.to_le_bytes());
        self.file.write_at(self.place_of_newest(sector), &bytes)?;
        self.newest[sector] = newest;
        Ok(())
    }

    /// Reads both sectors; one that is not sound says nothing.
    fn read_newest(&mut self) -> io::Result<()> {
        for sector in 0..2 {
            let mut bytes = [0; NEWEST_BYTES + 4];
            self.file.read_at(self.place_of_newest(sector), &mut bytes)?;
            let (said, sum) = bytes.split_at(NEWEST_BYTES);
            let word = |at: usize| {
                let mut word = [0; 8];
                word.copy_from_slice(&said[at..at + 8]);
                u64::from_le_bytes(word)
            };
            let is_ours = word(0) == NEWEST_MAGIC && word(8) == self.stamp;
            if is_ours && crc32c::crc32c(said).to_le_bytes() == *sum {
                self.newest[sector] = Lsn(word(16));
            }
        }
        Ok(())
    }

    /// Writes the last batch once more, durably: it may have been torn in place, or a sync of it
    /// have failed. Returns how many of its pages were torn.
    pub(super) fn restore(&mut self, pages: &F::File) -> io::Result<usize> {
        if !self.read()? {
            return Ok(0);
        }
        self.write()?;
        let (mut torn, mut page) = (0, Page::blank(self.page_bytes));
        for (number, staged) in self.pages() {
            let at = number.0 * self.page_bytes as u64;
            page.read_from(pages, number)?;
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

    /// Forgets the last batch, which is durable in place, and the newest LSN. For pages that keep
    /// their log nothing depends on whether this becomes durable.
    pub(super) fn forget(&mut self) -> io::Result<()> {
        self.begin();
        self.file.write_at(0, &self.batch)?;
        self.newest = [Lsn::NONE; 2];
        self.file.write_at(self.place_of_newest(0), &[0; 2 * SECTOR_BYTES])
    }

    /// Makes durable that the batches are forgotten.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    /// Reads the batch that the file has; returns whether there is a whole one of this file of
    /// pages.
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
