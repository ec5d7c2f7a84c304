//! The buffer pool: the pages of a file in a fixed number of frames.
//!
//! Invariants:
//! 1. A page is in one frame at most, and the page table has its number for as long.
//! 2. A page is written only when the log is durable up to its LSN, and through [`staging`].
//! 3. A frame's recovery LSN is set before the change is logged, and is not after the record: a
//!    thread that reads the log's end, then the recovery LSNs, misses no change before that end.
//! 4. After a write or a sync that failed nothing is changed or written any more: what the medium has is
//!    unknown until the log is redone.
//! 5. A frame's page is opened before the table leads to it, and when its page goes: no look without
//!    the latch sees a page of before.
//! 6. Memory: the frames, one batch of 64 pages, 16 pages for each scan that reads ahead, and less than
//!    300 bytes a frame for its latch, the page table, the queues and the lists of a checkpoint. After a
//!    crash, until all pages are redone, eight bytes for each page of each change of the log since the
//!    last checkpoint, and less than a hundred for each such page.
//!
//! Order of waiting: latches of pages (see [`crate::tree`]), then the cleaner's list, the staging
//! mutex, then the log, then the file's header, shards, queues and the marks of a frame, one at a
//! time, but for the marks of a frame whose shard is locked. A thread that holds the staging mutex only tries
//! latches.

mod cleaner;
mod frame;
mod frames;
mod lacking;
mod perform;
mod read_ahead;
mod replace;
mod roots;
pub mod staging;
mod table;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use pm::{File, Files, Peek};

pub use frame::{ReadPage, WritePage};
pub use perform::{Appender, How, body_of};

use crate::file::{self, NewFile, Noted};
use crate::flaw::Flaw;
use crate::ids::{Lsn, PageNo, TreeNo};
use crate::latch::{Exclusive, Latching, Native};
use crate::layout::NUMBER;
use crate::log::LogManager;
use crate::maps::FIRST_MAP;
use crate::page::{Page, PageKind};
use crate::{PagedError, Result};
use cleaner::Old;
use frame::{Frame, Pin};
use frames::Frames;
use lacking::Lacking;
use replace::{Queue, Replacement};
use roots::Roots;
use staging::Staging;
use table::Table;

/// The fewest frames: three latched pages, a map and a page of a long row, for one thread. Each further
/// thread needs as many.
pub const LEAST_FRAMES: usize = 8;

/// The cleaner looks for dirty pages each time when so many have made way for others.
const CLEAN_EVERY: u64 = 32;

/// How often a thread that finds no frame lets the others go on for longer, until it gives up: half a
/// second.
const MOST_DOZES: usize = 2_000;

/// The things that a pool has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PoolStats {
    /// Pages that were asked for and in a frame.
    pub hits: u64,
    /// Pages that were read because a caller asked for them.
    pub reads: u64,
    /// Pages that were read ahead.
    pub read_ahead: u64,
    /// Pages that were written.
    pub writes: u64,
    /// Batches of them: two syncs each.
    pub batches: u64,
    /// Pages that made way for others.
    pub evictions: u64,
    /// Torn pages that were put back when the file was opened.
    pub restored: u64,
}

#[derive(Debug, Default)]
struct Counts {
    hits: AtomicU64,
    reads: AtomicU64,
    read_ahead: AtomicU64,
    writes: AtomicU64,
    batches: AtomicU64,
    evictions: AtomicU64,
    restored: AtomicU64,
}

fn bump(count: &AtomicU64, by: usize) {
    count.fetch_add(by as u64, Ordering::Relaxed);
}

/// The knowledge of whether a row is locked: whether the space that it holds back is still needed.
pub trait Settled: Send + Sync + std::fmt::Debug {
    /// Returns whether the lock of a row is neither held nor wanted, so that no open transaction
    /// has changed it. It is asked under a latch, and must not wait.
    fn is_settled(&self, tree: TreeNo, key: &[u8]) -> bool;

    /// Notes that the ghost of a key, of which that was so, goes. Called before it goes, under the
    /// same latch.
    fn ghost_goes(&self, tree: TreeNo, key: &[u8]);
}

/// A cleaner, which writes pages before their frames are needed.
pub trait Cleaner: Send + Sync + std::fmt::Debug {
    /// Says that pages make way for others. It must not wait.
    fn wake(&self);
}

/// The place from which a free page is looked for, and the end of what is reserved.
#[derive(Debug)]
pub(crate) struct Hint {
    pub(crate) from: PageNo,
    pub(crate) reserved: u64,
}

/// A buffer pool over a file of pages.
#[derive(Debug)]
pub struct Pool<F: Files, T: Latching = Native> {
    pub(crate) file: F::File,
    pub(crate) hint: Exclusive<T, Hint>,
    pub(crate) roots: Roots,
    page_bytes: usize,
    stamp: u64,
    log: Arc<dyn LogManager>,
    frames: Frames<T>,
    table: Table<T>,
    queues: Exclusive<T, Replacement>,
    staging: Exclusive<T, Staging<F>>,
    stopped: OnceLock<String>,
    settled: OnceLock<Arc<dyn Settled>>,
    cleaner: OnceLock<Arc<dyn Cleaner>>,
    lacking: Lacking<T>,
    /// The pages that a checkpoint writes next.
    old: Exclusive<T, Old>,
    /// The pages for which the file is long enough durably.
    surely: AtomicU64,
    /// The contents of the file's header.
    noted: Exclusive<T, Noted>,
    counts: Counts,
}

impl<F: Files, T: Latching> Pool<F, T> {
    /// Creates a file of pages whose name begins with `prefix`, durably: its header, a map, and the root of the catalog's tree.
    ///
    /// # Errors
    /// There is one, or the medium refuses.
    pub fn create(
        files: &F,
        prefix: &str,
        new: &NewFile,
        frames: usize,
        log: Arc<dyn LogManager>,
    ) -> Result<Self> {
        let io = |source| PagedError::Io { doing: "creating the file of pages", source };
        let file = file::create(files, prefix, new).map_err(io)?;
        let staging = Staging::create(files, prefix, new.stamp, new.page_bytes).map_err(io)?;
        files.sync_directory().map_err(io)?;
        let noted = Noted { start: Lsn::NONE, pages: 0, newest: Lsn::NONE };
        Self::over(Opened { file, staging, noted }, new, frames, log, 0)
    }

    /// Opens a file of pages, and puts torn pages back.
    ///
    /// # Errors
    /// There is none, its header is damaged, or the medium refuses.
    pub fn open(files: &F, prefix: &str, frames: usize, log: Arc<dyn LogManager>) -> Result<Self> {
        let io = |source| PagedError::Io { doing: "opening the file of pages", source };
        let (file, new, mut noted) = file::open(files, prefix)?;
        let mut staging = Staging::open(files, prefix, new.stamp, new.page_bytes)?;
        noted.newest = noted.newest.max(staging.newest());
        let restored = staging.restore(&file).map_err(io)?;
        let opened = Opened { file, staging, noted };
        Self::over(opened, &new, frames, log, restored)
    }

    /// Refuses the file if the log is of another moment.
    ///
    /// # Errors
    /// It is.
    pub(crate) fn check_noted(&self, prefix: &str) -> Result<()> {
        file::check_noted(prefix, &self.noted.lock(), self.log.start(), self.log.end())
    }

    /// Notes durably where the log begins from now on. Checkpoints do so, one at a time.
    ///
    /// # Errors
    /// The medium failed; the pool has stopped.
    pub(crate) fn note(&self, start: Lsn) -> Result<()> {
        self.check_running()?;
        let io = |source| PagedError::Io { doing: "noting a checkpoint in the pages", source };
        let pages = self.pages_of_file();
        let mut noted = self.noted.lock();
        (noted.start, noted.pages) = (start, self.surely.load(Ordering::Acquire));
        file::note(&self.file, &self.new_file(), &noted).map_err(|source| self.stop(io(source)))?;
        drop(noted);
        self.surely.fetch_max(pages, Ordering::AcqRel);
        Ok(())
    }

    /// Notes in the header that pages were written with LSNs up to `newest`: durable with the file's next
    /// sync.
    fn note_newest(&self, newest: Lsn) -> std::io::Result<()> {
        let mut noted = self.noted.lock();
        let pages = self.surely.load(Ordering::Acquire);
        (noted.newest, noted.pages) = (noted.newest.max(newest), pages);
        file::note_newest(&self.file, &self.new_file(), &noted)
    }

    fn new_file(&self) -> NewFile {
        NewFile { page_bytes: self.page_bytes, stamp: self.stamp }
    }

    /// The pages for which the file is long enough now, as far as the medium says.
    fn pages_of_file(&self) -> u64 {
        self.file.len().unwrap_or(0) / self.page_bytes as u64
    }

    fn over(
        opened: Opened<F>,
        new: &NewFile,
        frames: usize,
        log: Arc<dyn LogManager>,
        restored: usize,
    ) -> Result<Self> {
        let Opened { file, staging, noted } = opened;
        let frames = frames.max(LEAST_FRAMES);
        let counts = Counts::default();
        bump(&counts.restored, restored);
        Ok(Self {
            file,
            hint: Exclusive::new(Hint { from: FIRST_MAP, reserved: 0 }),
            roots: Roots::new(),
            page_bytes: new.page_bytes,
            stamp: new.stamp,
            log,
            frames: Frames::new(frames, new.page_bytes)?,
            table: Table::new(frames),
            queues: Exclusive::new(Replacement::new(frames)),
            staging: Exclusive::new(staging),
            stopped: OnceLock::new(),
            settled: OnceLock::new(),
            cleaner: OnceLock::new(),
            lacking: Lacking::new(),
            old: Exclusive::new(Old::default()),
            surely: AtomicU64::new(noted.pages),
            noted: Exclusive::new(noted),
            counts,
        })
    }

    /// Sets the object that knows which rows are locked. Before, all are taken for locked. Only the
    /// first call counts.
    pub fn set_settled(&self, settled: Arc<dyn Settled>) {
        let _ = self.settled.set(settled);
    }

    /// Sets the cleaner, which writes pages before their frames are needed. Only the first call
    /// counts.
    pub fn set_cleaner(&self, cleaner: Arc<dyn Cleaner>) {
        let _ = self.cleaner.set(cleaner);
    }

    pub(crate) fn wake_cleaner(&self) {
        if let Some(cleaner) = self.cleaner.get() {
            cleaner.wake();
        }
    }

    pub(crate) fn is_settled(&self, tree: TreeNo, key: &[u8]) -> bool {
        T::has(Flaw::GhostReclaimedEarly)
            || self.settled.get().is_some_and(|settled| settled.is_settled(tree, key))
    }

    pub(crate) fn ghost_goes(&self, tree: TreeNo, key: &[u8]) {
        if let Some(settled) = self.settled.get() {
            settled.ghost_goes(tree, key);
        }
    }

    /// Bytes of a page.
    #[must_use]
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// The stamp of the file.
    #[must_use]
    pub fn stamp(&self) -> u64 {
        self.stamp
    }

    /// The number of frames.
    #[must_use]
    pub fn frames(&self) -> usize {
        self.frames.len()
    }

    /// The log that its pages follow.
    #[must_use]
    pub fn log(&self) -> &dyn LogManager {
        &*self.log
    }

    /// The things that were counted.
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        PoolStats {
            hits: of(&self.counts.hits),
            reads: of(&self.counts.reads),
            read_ahead: of(&self.counts.read_ahead),
            writes: of(&self.counts.writes),
            batches: of(&self.counts.batches),
            evictions: of(&self.counts.evictions),
            restored: of(&self.counts.restored),
        }
    }

    /// Latches a page for reading. A page beyond the file's end is blank.
    ///
    /// # Errors
    /// It is damaged, the medium refuses, or all frames are in use.
    pub fn read(&self, number: PageNo) -> Result<ReadPage<'_, T>> {
        loop {
            let pin = self.pin(number, Fill::Read)?;
            let held = pin.frame.latch.read();
            if held.number == Some(number) {
                return Ok(ReadPage { held, _pin: pin });
            }
        }
    }

    /// Looks at a page without its latch; `None` where it is not in a frame or not whole, or not
    /// known to be.
    #[inline]
    pub(crate) fn peek(&self, number: PageNo) -> Option<Peek<'_>> {
        let frame = self.table.hint(number)?;
        let peek = self.frames.peek(frame)?;
        if peek.u64_at(NUMBER) != number.0 {
            return None;
        }
        self.frames.used(frame);
        Some(peek)
    }

    /// Latches a page for changes.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn write(&self, number: PageNo) -> Result<WritePage<'_, T>> {
        self.latch(number, Fill::Read)
    }

    /// Latches a page whose next change needs nothing of what it has: it is not read.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub(crate) fn write_new(&self, number: PageNo) -> Result<WritePage<'_, T>> {
        self.latch(number, Fill::Blank)
    }

    fn latch(&self, number: PageNo, fill: Fill) -> Result<WritePage<'_, T>> {
        loop {
            let pin = self.pin(number, fill)?;
            let held = pin.frame.latch.write();
            if held.number == Some(number) {
                return Ok(WritePage { held, pin, number });
            }
        }
    }

    fn pin(&self, number: PageNo, fill: Fill) -> Result<Pin<'_, T>> {
        if let Some((frame, pin)) = self.pin_resident(number) {
            self.frames.used(frame);
            bump(&self.counts.hits, 1);
            return Ok(pin);
        }
        if number.0 > i64::MAX as u64 / self.page_bytes as u64 {
            let what = "no file is so long that it could have it";
            return Err(PagedError::DamagedPage { page: number, what });
        }
        let claimed = self.claim()?;
        self.load(number, fill, claimed)
    }

    fn pin_resident(&self, page: PageNo) -> Option<(usize, Pin<'_, T>)> {
        let shard = self.table.shard(page);
        let number = shard.get(page)?;
        shard.note(page, number);
        let frame = &self.frames[number];
        frame.pin();
        Some((number, Pin { frame }))
    }

    /// Brings a page into a claimed frame, or gives the frame back if the page came meanwhile.
    fn load(&self, number: PageNo, fill: Fill, claimed: usize) -> Result<Pin<'_, T>> {
        let frame = &self.frames[claimed];
        let mut held = frame.latch.write();
        // Before the table leads to it: what it had before is not to be seen.
        if let Err(error) = self.frames.page_in(claimed, &mut held) {
            drop(held);
            self.release(claimed);
            return Err(error);
        }
        {
            let mut shard = self.table.shard(number);
            if let Some(other) = shard.get(number) {
                let other = &self.frames[other];
                other.pin();
                drop(shard);
                drop(held);
                self.release(claimed);
                return Ok(Pin { frame: other });
            }
            shard.insert(number, claimed);
        }
        let lacking = self.lacking.of(number);
        let page = &mut held.page;
        let filled = match (&lacking, fill) {
            (Some(places), _) => self.redo_in(number, places, frame, page),
            (None, Fill::Blank) => {
                page.clear();
                Ok(())
            }
            (None, Fill::Read) => self.read_in(number, page),
        };
        if let Err(error) = filled {
            self.table.shard(number).remove(number);
            drop(held);
            self.release(claimed);
            return Err(error);
        }
        held.came(number);
        self.frames.set_resident(claimed, Some(number));
        if lacking.is_some() {
            self.lacking.done(number);
        }
        drop(held);
        self.queues.lock().came(number, claimed);
        Ok(Pin { frame })
    }

    /// Gives back a claimed frame that has no page.
    fn release(&self, claimed: usize) {
        let frame = &self.frames[claimed];
        frame.unpin();
        self.queues.lock().release(claimed);
    }

    fn read_in(&self, number: PageNo, page: &mut Page) -> Result<()> {
        bump(&self.counts.reads, 1);
        page.read_from(&self.file, number)
            .map_err(|source| PagedError::Io { doing: "reading a page", source })?;
        page.check(number, self.stamp)?;
        if page.kind() == PageKind::Header {
            return Err(PagedError::DamagedPage { page: number, what: "it is the file's header" });
        }
        Ok(())
    }

    /// The number of pages that the file has space for.
    pub(crate) fn page_count(&self) -> u64 {
        self.pages_of_file()
    }

    /// Copies a page as a crash might leave it: the log from the last checkpoint on has what it
    /// lacks. Others do not have to wait for it.
    ///
    /// # Errors
    /// It is damaged, or the medium refuses.
    pub(crate) fn copy_page(&self, number: PageNo, into: &mut Page) -> Result<()> {
        // It may be half written: then from its frame.
        if self.read_in(number, into).is_err() {
            let held = self.read(number)?;
            into.set(0, held.bytes());
            if into.lsn() != Lsn::NONE {
                into.seal();
            }
        }
        Ok(())
    }

    /// Finds a frame for another page, and takes the page away that it has. The frame comes pinned.
    fn claim(&self) -> Result<usize> {
        let quick = 64 + 2 * self.frames.len();
        let mut with_free = true;
        for attempt in 0..quick + MOST_DOZES {
            let other_way = attempt / self.frames.len() % 2 == 1;
            let use_up = |frame: usize| self.frames.use_up(frame);
            let candidate = self.queues.lock().candidate(use_up, other_way, with_free);
            with_free = true;
            if let Some((number, queue)) = candidate {
                let is_free = match queue {
                    Queue::Free => self.frames.make(number).map(Frame::claim),
                    Queue::Small | Queue::Main => self.evict(number, queue),
                };
                if let Ok(true) = is_free {
                    return Ok(number);
                }
                self.queues.lock().put_back(number, queue);
                is_free?;
                // Another thread wanted a page that then could not be read. Others may be free.
                with_free = queue != Queue::Free;
            }
            if attempt >= quick {
                T::doze();
            } else if attempt > self.frames.len() || candidate.is_none() {
                // Pages that are being written are pinned until they are.
                drop(self.staging.lock());
                T::pause();
            }
        }
        let frames = self.frames.len();
        Err(PagedError::NoFrame { frames, bytes: frames * self.page_bytes })
    }

    /// Takes the page out of a frame, after writing it if its medium does not have it. Returns
    /// false where it is in use.
    fn evict(&self, number: usize, queue: Queue) -> Result<bool> {
        let frame = &self.frames[number];
        for is_written in [false, true] {
            let Some(page) = frame.resident() else { return Ok(false) };
            let careless = T::has(Flaw::PinnedEvicted);
            if frame.is_pinned() && !careless {
                return Ok(false);
            }
            if frame.dirt.lock().unwritten.is_some() {
                if is_written {
                    return Ok(false);
                }
                self.wake_cleaner();
                self.write_some(number)?;
                continue;
            }
            let mut shard = self.table.shard(page);
            if (frame.is_pinned() && !careless) || frame.dirt.lock().unwritten.is_some() {
                return Ok(false);
            }
            let removed = shard.remove(page);
            assert_eq!(removed, Some(number), "the table has the page of a frame");
            frame.pin();
            self.frames.set_resident(number, None);
            drop(shard);
            frame.latch.write().goes();
            self.queues.lock().went(page, queue);
            bump(&self.counts.evictions, 1);
            if self.counts.evictions.load(Ordering::Relaxed).is_multiple_of(CLEAN_EVERY) {
                self.wake_cleaner();
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// Checks that nothing has failed that would make a change unsafe.
    pub(crate) fn check_running(&self) -> Result<()> {
        match self.stopped.get() {
            Some(why) => Err(PagedError::Stopped { why: why.clone() }),
            None => Ok(()),
        }
    }

    /// Notes an error after which nothing may be changed, and returns it.
    pub(crate) fn stop(&self, error: PagedError) -> PagedError {
        let _ = self.stopped.set(error.to_string());
        error
    }
}

/// The files, opened, and what the header says.
struct Opened<F: Files> {
    file: F::File,
    staging: Staging<F>,
    noted: Noted,
}

/// The contents that a page has which comes into a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fill {
    Read,
    Blank,
}

#[cfg(test)]
mod tests {
    use sim::RecordingFiles;

    use super::*;
    use crate::latch::Native;
    use crate::log::central::{Central, CentralOptions};
    use crate::threads::Host;

    /// A thread wanted a page that then could not be read: its frame is free, and not to be had.
    #[test]
    fn a_free_frame_that_is_pinned_hides_no_other() {
        let files = RecordingFiles::new();
        let log: Central<_, Host> =
            Central::create(&files, "log-", CentralOptions::default(), Arc::default()).unwrap();
        let new = NewFile { page_bytes: 512, stamp: 7 };
        let pool: Pool<_, Native> =
            Pool::create(&files, "", &new, LEAST_FRAMES, Arc::new(log)).unwrap();
        let free = pool.claim().unwrap();
        for number in 2..2 + 2 * LEAST_FRAMES as u64 {
            drop(pool.write_new(PageNo(number)).unwrap());
        }
        pool.release(free);
        pool.frames[free].pin();
        let other = pool.claim().unwrap();
        assert_ne!(other, free);
        pool.frames[free].unpin();
        assert_eq!(pool.claim().unwrap(), free);
    }
}
