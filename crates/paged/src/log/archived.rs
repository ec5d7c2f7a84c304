//! A log that is archived: nothing of it is used again before its archive has it durably.
//!
//! Invariants:
//! - What the log frees lies before [`Archive::reached`]. If the archive fails the log keeps what it
//!   has; a full one slows writers, says why, and tries the archive again.
//! - The log has the time of day: before a commit that is [`TIME_RESOLUTION`] behind the last mark
//!   stands another one. Marks never fall. Where the log has no room for a mark, the next commit
//!   brings it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use pm::Files;

use super::archive::Archive;
use super::{Chain, Kind, LogCounts, LogManager, Logged, OpenRecords, Record, Visit};
use crate::ids::Lsn;
use crate::threads::Waiter;
use crate::{PagedError, Result};

/// The longest time between two marks of the time while transactions commit.
pub const TIME_RESOLUTION: Duration = Duration::from_millis(10);

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
#[derive(Debug)]
struct Wanted {
    start: Lsn,
    redo: Lsn,
    open: Vec<OpenRecords>,
}

/// The archive's last failure, and the truncation that waits for it.
#[derive(Debug, Default)]
struct Failing {
    wanted: Option<Wanted>,
    why: String,
}

/// A log with its archive; see the module's comment.
pub struct Archived<F: Files> {
    log: Arc<dyn LogManager>,
    archive: Archive<F>,
    clock: Clock,
    /// The newest mark of the time.
    marked: AtomicU64,
    marking: Mutex<()>,
    failing: Mutex<Failing>,
}

impl<F: Files> std::fmt::Debug for Archived<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Archived").field("log", &self.log).finish_non_exhaustive()
    }
}

impl<F: Files> Archived<F> {
    /// Archives a log that was created or opened, and that nothing was appended to since.
    ///
    /// # Errors
    /// The archive is that of another log, or of another moment.
    pub fn new(log: Arc<dyn LogManager>, archive: Archive<F>, clock: Clock) -> Result<Self> {
        archive.join(log.kept(), log.end())?;
        let (marked, marking) = (AtomicU64::new(0), Mutex::new(()));
        Ok(Self { log, archive, clock, marked, marking, failing: Mutex::default() })
    }

    /// Marks the time, if the last mark is older than [`TIME_RESOLUTION`].
    fn mark_time(&self) -> Result<()> {
        let resolution = TIME_RESOLUTION.as_micros() as u64;
        let is_fresh = |now: u64| now < self.marked.load(Ordering::Acquire) + resolution;
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

    /// Truncates the log as far as the archive lets it. `failing` is what is wanted and failed.
    fn truncate_as_wanted(&self, failing: &mut Failing, wanted: Wanted) -> Result<()> {
        let Wanted { start, redo, open } = &wanted;
        // Every record before what pages need is there; behind that some may be under way.
        let copied = self.archive.copy(&*self.log, (*redo).min(*start));
        match copied {
            Ok(()) => {
                *failing = Failing::default();
                self.log.truncate_behind(*start, *redo, open)
            }
            Err(error) => {
                let redo = (*redo).min(self.archive.reached());
                let done = self.log.truncate_behind(*start, redo, open);
                *failing = Failing {
                    wanted: Some(wanted),
                    why: format!("{}: {error}", self.archive.name()),
                };
                done
            }
        }
    }

    /// Tries again what has failed. Returns false if it fails again.
    fn retry(&self) -> Result<bool> {
        let mut failing = self.failing.lock();
        let Some(wanted) = failing.wanted.take() else { return Ok(true) };
        self.truncate_as_wanted(&mut failing, wanted)?;
        Ok(failing.wanted.is_none())
    }

    fn is_failing(&self) -> bool {
        self.failing.lock().wanted.is_some()
    }
}

impl<F: Files> LogManager for Archived<F> {
    fn reserve(&self, chain: &mut Chain, bytes: u64) -> Result<()> {
        match self.log.reserve(chain, bytes) {
            Err(PagedError::LogFull { .. }) if self.is_failing() && self.retry()? => {
                self.log.reserve(chain, bytes)
            }
            reserved => reserved,
        }
    }

    fn unreserve(&self, chain: &mut Chain) {
        self.log.unreserve(chain);
    }

    fn append(&self, chain: &mut Chain, record: &Record<'_>) -> Result<Lsn> {
        self.log.append(chain, record)
    }

    fn commit(&self, chain: &mut Chain) -> Result<Lsn> {
        self.mark_time()?;
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
        let why = failing.why.clone();
        failing.wanted.is_some().then_some(PagedError::ArchiveFails { why })
    }

    fn truncate(&self, start: Lsn, keep: Lsn) -> Result<()> {
        self.truncate_behind(start, keep, &[])
    }

    fn truncate_behind(&self, start: Lsn, redo: Lsn, open: &[OpenRecords]) -> Result<()> {
        let mut failing = self.failing.lock();
        let wanted = Wanted { start, redo, open: open.to_vec() };
        self.truncate_as_wanted(&mut failing, wanted)
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
