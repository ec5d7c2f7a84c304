//! A log that is archived: nothing of it is used again before its archive has it durably.
//!
//! Invariants:
//! - What the log frees lies before the place that the [`Note`] has, and that before
//!   [`Archive::reached`]: the archive is written first, then the note, then the log.
//! - If the archive fails the log keeps what it has; a full one slows writers, says why, and tries the
//!   archive again, after a pause that grows with each failure. A checkpoint that is asked for tries
//!   it at once. A log that is opened without its archive does the same: so no opening leaves a gap.
//! - What is wanted of the log and could not be done is remembered until it is done.
//! - Asking for the archive's state never waits for its medium.
//! - The log has the time of day: a mark is written before a commit that is [`TIME_RESOLUTION`]
//!   later than the last mark, and before each checkpoint, so that an archive that is up to date
//!   says up to when. Marks never fall. Where the log has no room for a mark, the next commit
//!   brings it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use pm::Files;

use super::archive::{Archive, Joint, Note};
use super::{Chain, Kind, LogCounts, LogManager, Logged, OpenRecords, Record, RoomWait, Visit};
use crate::ids::Lsn;
use crate::threads::Waiter;
use crate::{PagedError, Result};

/// The longest time between two marks of the time while transactions commit.
pub const TIME_RESOLUTION: Duration = Duration::from_millis(10);

/// Microseconds until the archive is tried again after the first failure, and how often that doubles
/// with the next ones.
const FIRST_PAUSE: u64 = 5_000;
const DOUBLED: u32 = 6;

/// A clock: microseconds since 1970.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The clock of the host.
pub fn wall_clock() -> Clock {
    Arc::new(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
    })
}

/// A truncation: where analysis begins, what no page needs, and the open transactions.
#[derive(Clone, Debug)]
struct Wanted {
    start: Lsn,
    redo: Lsn,
    open: Vec<OpenRecords>,
}

/// The last failure, and the truncation that waits for it.
#[derive(Debug)]
struct Failing {
    wanted: Wanted,
    why: String,
    /// Failures one after the other since the archive worked, or since a checkpoint was asked for.
    failures: u32,
    /// When it failed, in microseconds.
    at: u64,
}

impl Failing {
    /// Returns whether the pause is over. If the clock was set back it is.
    fn may_be_tried(&self, now: u64) -> bool {
        let Some(earlier) = self.failures.checked_sub(1) else { return true };
        let pause = FIRST_PAUSE << earlier.min(DOUBLED);
        now.checked_sub(self.at).is_none_or(|since| since >= pause)
    }
}

/// A log with its archive; see the module's comment.
pub struct Archived<F: Files, N: Files> {
    log: Arc<dyn LogManager>,
    /// `None` if the log was opened without it.
    archive: Option<Archive<F>>,
    /// Held by a thread that copies and truncates. `None` once the archive is ended.
    note: Mutex<Option<Note<N>>>,
    clock: Clock,
    /// The newest mark of the time.
    marked: AtomicU64,
    marking: Mutex<()>,
    /// Never held while a medium is waited for.
    failing: Mutex<Option<Failing>>,
}

impl<F: Files, N: Files> std::fmt::Debug for Archived<F, N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Archived").field("log", &self.log).finish_non_exhaustive()
    }
}

impl<F: Files, N: Files> Archived<F, N> {
    /// Archives a log that was created or opened, and that nothing was appended to since. Its own files
    /// are `files`, with names that begin with `prefix`.
    ///
    /// # Errors
    /// The archive is that of another log, of another moment, or of another history.
    pub fn new(
        log: Arc<dyn LogManager>,
        archive: Archive<F>,
        (files, prefix): (&N, &str),
        clock: Clock,
    ) -> Result<Self> {
        let noted = Note::open(files, prefix, archive.stamp())?;
        archive.join(&*log, noted.as_ref().map(Note::joint))?;
        let (last, name) = (archive.last(), archive.name());
        let note = match noted {
            Some(mut note) => {
                note.set(last, name)?;
                note
            }
            None => Note::create(files, prefix, (archive.stamp(), last), name)?,
        };
        Ok(Self::over(log, Some(archive), note, clock))
    }

    /// Has a log that is opened without its archive keep what that lacks.
    pub fn without(log: Arc<dyn LogManager>, note: Note<N>, clock: Clock) -> Self {
        Self::over(log, None, note, clock)
    }

    fn over(
        log: Arc<dyn LogManager>,
        archive: Option<Archive<F>>,
        note: Note<N>,
        clock: Clock,
    ) -> Self {
        let (marked, marking) = (AtomicU64::new(0), Mutex::new(()));
        let (note, failing) = (Mutex::new(Some(note)), Mutex::new(None));
        Self { log, archive, note, clock, marked, marking, failing }
    }

    /// Marks the time, if the last mark is so many microseconds old.
    fn mark_time(&self, age: u64) -> Result<()> {
        let is_fresh = |now: u64| now < self.marked.load(Ordering::Acquire).saturating_add(age);
        if is_fresh((self.clock)()) {
            return Ok(());
        }
        let marking = self.marking.lock();
        let now = (self.clock)();
        if is_fresh(now) {
            return Ok(());
        }
        let payload = now.to_le_bytes();
        let record = Record { payload: &payload, ..Record::bare(Kind::Time) };
        match self.log.append(&mut Chain::default(), &record) {
            Ok(_) => self.marked.store(now, Ordering::Release),
            Err(PagedError::LogFull { .. }) => {}
            Err(error) => return Err(error),
        }
        drop(marking);
        Ok(())
    }

    /// Brings the archive up to an LSN. Returns the error of the archive.
    fn copy(&self, note: &Note<N>, to: Lsn) -> Result<()> {
        let Some(archive) = &self.archive else {
            let what = format!(
                "the database was opened without it; open it with {}, or end that archive",
                note.directory()
            );
            return Err(PagedError::Archive { what });
        };
        archive.copy(&*self.log, to).map_err(|error| match error {
            PagedError::Archive { what } => PagedError::Archive { what },
            other => PagedError::Archive { what: format!("{}: {other}", archive.name()) },
        })
    }

    /// Truncates the log as far as the archive lets it. Returns the reason why that is not all.
    fn truncate_some(
        &self,
        note: &mut Option<Note<N>>,
        Wanted { start, redo, open }: &Wanted,
    ) -> Result<Option<PagedError>> {
        let Some(note) = note else {
            self.log.truncate_with_open(*start, *redo, open)?;
            return Ok(None);
        };
        note.settle()?;
        // Every record before what pages need is there; later ones may be under way.
        let failed = self.copy(note, (*redo).min(*start)).err();
        if let Some(archive) = &self.archive {
            note.set(archive.last(), archive.name())?;
        }
        let redo = if failed.is_some() { (*redo).min(note.joint().to) } else { *redo };
        self.log.truncate_with_open(*start, redo, open)?;
        Ok(failed)
    }

    fn truncate_as_wanted(&self, note: &mut Option<Note<N>>, wanted: Wanted) -> Result<()> {
        let done = self.truncate_some(note, &wanted);
        let why = match &done {
            Ok(failed) => failed.as_ref().map(ToString::to_string),
            Err(error) => Some(error.to_string()),
        };
        let at = (self.clock)();
        let mut failing = self.failing.lock();
        let failures = failing.as_ref().map_or(0, |before| before.failures).saturating_add(1);
        *failing = why.map(|why| Failing { wanted, why, failures, at });
        done.map(drop)
    }

    /// Tries again what has failed, unless that was just now. Returns false if it is still failing.
    fn retry(&self) -> Result<bool> {
        let mut note = self.note.lock();
        let now = (self.clock)();
        let wanted = match &*self.failing.lock() {
            None => return Ok(true),
            Some(failing) if !failing.may_be_tried(now) => return Ok(false),
            Some(failing) => failing.wanted.clone(),
        };
        self.truncate_as_wanted(&mut note, wanted)?;
        Ok(!self.is_failing())
    }

    fn is_failing(&self) -> bool {
        self.failing.lock().is_some()
    }
}

impl<F: Files, N: Files> LogManager for Archived<F, N> {
    fn reserve(&self, chain: &mut Chain, bytes: u64) -> Result<()> {
        match self.log.reserve(chain, bytes) {
            Err(PagedError::LogFull { .. }) if self.is_failing() && self.retry()? => {
                self.log.reserve(chain, bytes)
            }
            reserved => reserved,
        }
    }

    fn await_room(&self, wait: &Arc<RoomWait>) {
        self.log.await_room(wait);
    }

    fn forget_wait(&self, wait: &Arc<RoomWait>) {
        self.log.forget_wait(wait);
    }

    fn unreserve(&self, chain: &mut Chain) {
        self.log.unreserve(chain);
    }

    fn reserve_checkpoint(
        &self,
        chain: &mut Chain,
        payloads: &[usize],
        keep: Option<Lsn>,
    ) -> Result<()> {
        // While the archive fails, a checkpoint frees nothing.
        let fails = self.is_failing() && !self.retry()?;
        let keep = if fails { Some(self.log.kept()) } else { keep };
        self.log.reserve_checkpoint(chain, payloads, keep)
    }

    fn append(&self, chain: &mut Chain, record: &Record<'_>) -> Result<Lsn> {
        if record.kind == Kind::CheckpointBegin {
            self.mark_time(1)?;
        }
        self.log.append(chain, record)
    }

    fn commit(&self, chain: &mut Chain) -> Result<Lsn> {
        self.mark_time(TIME_RESOLUTION.as_micros() as u64)?;
        self.log.commit(chain)
    }

    fn durable(&self) -> Lsn {
        self.log.durable()
    }

    fn end(&self) -> Lsn {
        self.log.end()
    }

    fn force(&self, to: Lsn) -> Result<()> {
        self.log.force(to)
    }

    fn force_all(&self, to: Lsn) -> Result<()> {
        self.log.force_all(to)
    }

    fn read(&self, at: Lsn) -> Result<Logged> {
        self.log.read(at)
    }

    fn consumed(&self) -> u64 {
        self.log.consumed()
    }

    fn counts(&self) -> LogCounts {
        self.log.counts()
    }

    fn largest(&self) -> usize {
        self.log.largest()
    }

    fn attend(&self, checkpointer: Arc<Waiter>) {
        self.log.attend(checkpointer);
    }

    fn is_due(&self) -> bool {
        self.log.is_due()
    }

    fn threshold(&self) -> u64 {
        self.log.threshold()
    }

    fn start(&self) -> Lsn {
        self.log.start()
    }

    fn kept(&self) -> Lsn {
        self.log.kept()
    }

    fn hindrance(&self) -> Option<PagedError> {
        let failing = self.failing.lock();
        failing.as_ref().map(|failing| PagedError::ArchiveFails { why: failing.why.clone() })
    }

    fn end_pause(&self) {
        if let Some(failing) = &mut *self.failing.lock() {
            failing.failures = 0;
        }
    }

    fn joint(&self) -> Option<Joint> {
        self.archive.as_ref().map(Archive::last)
    }

    fn end_archive(&self) -> Result<()> {
        let mut note = self.note.lock();
        if let Some(ended) = &*note {
            ended.end()?;
        }
        *note = None;
        Ok(())
    }

    fn truncate(&self, start: Lsn, keep: Lsn) -> Result<()> {
        self.truncate_with_open(start, keep, &[])
    }

    fn truncate_with_open(&self, start: Lsn, redo: Lsn, open: &[OpenRecords]) -> Result<()> {
        let wanted = Wanted { start, redo, open: open.to_vec() };
        self.truncate_as_wanted(&mut self.note.lock(), wanted)
    }

    fn would_free(&self, keep: Lsn) -> bool {
        // Without another checkpoint, whose records would use up what is left.
        if self.is_failing() && !self.retry().unwrap_or(false) {
            return false;
        }
        self.log.would_free(keep)
    }

    fn adopt(&self, chain: &mut Chain) {
        self.log.adopt(chain);
    }

    fn scan(&self, from: Lsn, visit: Visit<'_>) -> Result<()> {
        self.log.scan(from, visit)
    }

    fn scan_to(&self, from: Lsn, to: Lsn, visit: Visit<'_>) -> Result<()> {
        self.log.scan_to(from, to, visit)
    }

    fn read_each(&self, places: &[Lsn], visit: Visit<'_>) -> Result<()> {
        self.log.read_each(places, visit)
    }
}
