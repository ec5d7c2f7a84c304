//! How long transactions wait to be continued: see [`crate::Options::resume_within`].
//!
//! The time of each counts from the moment when it was detached, or when the database was opened. Whoever
//! begins a transaction next that may change something rolls back those whose time is over.
//!
//! Where the time has an end, a transaction is taken from those that wait, left to them, or rolled back, with the
//! latch of their times:
//!
//! - One that somebody has gone on with in time, and has left again, is not rolled back for what it had waited before.
//! - One that is no longer found, and that nobody goes on with, is over: its name is free.
//!
//! That takes as long as a fence, or as running all statements again. Whoever begins or reads does not wait for it: if
//! somebody has the latch, those whose time is over are left to the next one ([`IfTaken`]), but by whoever finds the
//! name taken under which it begins.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{PoisonError, TryLockError};
use std::time::{Duration, Instant};

use engines::TxId;

use crate::sync::{AtomicBool, Mutex, MutexGuard};

/// The way of whoever looks for transactions whose time is over, if somebody has the latch of their times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum IfTaken {
    /// Waits for it.
    Wait,
    /// Lets them be.
    Leave,
}

/// The transactions of a partition that wait to be continued.
#[derive(Debug)]
pub(crate) struct Waits {
    /// The longest wait; none: for ever.
    within: Option<Duration>,
    since: Mutex<BTreeMap<TxId, Instant>>,
    /// Somebody waits, and not for ever.
    any: AtomicBool,
}

impl Waits {
    pub(crate) fn new(within: Option<Duration>) -> Self {
        Self { within, since: Mutex::default(), any: AtomicBool::new(false) }
    }

    fn since(&self) -> MutexGuard<'_, BTreeMap<TxId, Instant>> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn since_or(&self, if_taken: IfTaken) -> Option<MutexGuard<'_, BTreeMap<TxId, Instant>>> {
        if if_taken == IfTaken::Wait {
            return Some(self.since());
        }
        match self.since.try_lock() {
            Ok(since) => Some(since),
            Err(TryLockError::Poisoned(since)) => Some(since.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Leaves a transaction, whose number `leave` returns: it waits from now on.
    pub(crate) fn leave<X>(
        &self,
        now: impl FnOnce() -> Instant,
        leave: impl FnOnce() -> Result<TxId, X>,
    ) -> Result<TxId, X> {
        if self.within.is_none() {
            return leave();
        }
        let mut since = self.since();
        let id = leave()?;
        since.insert(id, now());
        self.any.store(true, Ordering::Release);
        Ok(id)
    }

    /// Those that wait wait at least from now on.
    pub(crate) fn note_all(&self, waiting: impl FnOnce() -> Vec<TxId>) {
        if self.within.is_some() {
            let mut since = self.since();
            let now = Instant::now();
            for id in waiting() {
                since.entry(id).or_insert(now);
            }
            self.any.store(!since.is_empty(), Ordering::Release);
        }
    }

    /// Takes a transaction by `resume`: it waits no more.
    pub(crate) fn resume<R, X>(
        &self,
        id: TxId,
        resume: impl FnOnce() -> Result<R, X>,
    ) -> Result<R, X> {
        if self.within.is_none() {
            return resume();
        }
        let mut since = self.since();
        let resumed = resume()?;
        since.remove(&id);
        Ok(resumed)
    }

    /// The transactions whose time is over, perhaps.
    pub(crate) fn overdue(&self, if_taken: IfTaken, now: impl FnOnce() -> Instant) -> Vec<TxId> {
        let Some(within) = self.within.filter(|_| self.any.load(Ordering::Acquire)) else {
            return Vec::new();
        };
        let Some(since) = self.since_or(if_taken) else { return Vec::new() };
        let now = now();
        since.iter().filter(|(_, from)| is_over(**from, within, now)).map(|(id, _)| *id).collect()
    }

    /// Ends a transaction by `end` if its time is over still. It waits no more, whatever comes of that.
    pub(crate) fn end_overdue(
        &self,
        id: TxId,
        if_taken: IfTaken,
        now: impl FnOnce() -> Instant,
        end: impl FnOnce(),
    ) {
        let Some(within) = self.within else { return };
        let Some(mut since) = self.since_or(if_taken) else { return };
        if since.get(&id).is_some_and(|from| is_over(*from, within, now())) {
            end();
            since.remove(&id);
            self.any.store(!since.is_empty(), Ordering::Release);
        }
    }

    /// Looks at those that wait, while nobody takes one or leaves one.
    pub(crate) fn look<R>(&self, look: impl FnOnce() -> R) -> R {
        let _since = self.within.map(|_| self.since());
        look()
    }
}

fn is_over(from: Instant, within: Duration, now: Instant) -> bool {
    now.saturating_duration_since(from) >= within
}
