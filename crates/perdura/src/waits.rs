//! The time for which transactions wait to be continued: see [`crate::Options::resume_within`].
//!
//! The time of each counts from the moment when it was detached, or when the database was opened.
//! An overdue transaction, one whose time is over, is rolled back when the next transaction begins
//! that may change something.
//!
//! Where the time is limited, a transaction is continued, detached or rolled back with the latch of
//! the times held:
//!
//! - A transaction that was continued in time, and detached again, is not rolled back for the time
//!   that it waited before.
//! - A transaction that is no longer found, and that no thread continues, is over: its name is
//!   free.
//!
//! A rollback takes as long as a fence, or as running all statements again. A call that begins or
//! reads does not wait for it: if the latch is held, overdue transactions are left for later
//! ([`IfTaken`]), unless the name that the call needs is taken.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{PoisonError, TryLockError};
use std::time::{Duration, Instant};

use engines::TxId;

use crate::sync::{AtomicBool, Mutex, MutexGuard};

/// The behaviour of a search for overdue transactions if the latch of their times is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum IfTaken {
    /// Waits for the latch.
    Wait,
    /// Leaves the transactions for later.
    Leave,
}

/// The transactions of a partition that wait to be continued.
#[derive(Debug)]
pub(crate) struct Waits {
    /// The longest wait; `None` if there is no limit.
    within: Option<Duration>,
    since: Mutex<BTreeMap<TxId, Instant>>,
    /// Set if a transaction waits, with a time limit.
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

    /// Detaches a transaction with `leave`, which returns its number: it waits from now on.
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

    /// Notes the transactions that wait: the time of those not yet noted counts from now.
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

    /// Takes a transaction with `resume`: it waits no more.
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

    /// Returns the transactions that may be overdue.
    pub(crate) fn overdue(&self, if_taken: IfTaken, now: impl FnOnce() -> Instant) -> Vec<TxId> {
        let Some(within) = self.within.filter(|_| self.any.load(Ordering::Acquire)) else {
            return Vec::new();
        };
        let Some(since) = self.since_or(if_taken) else { return Vec::new() };
        let now = now();
        since.iter().filter(|(_, from)| is_over(**from, within, now)).map(|(id, _)| *id).collect()
    }

    /// Ends a transaction with `end` if it is still overdue. It waits no more, whether that
    /// succeeds or not.
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

    /// Runs `look` on the waiting transactions, while none is taken or detached.
    pub(crate) fn look<R>(&self, look: impl FnOnce() -> R) -> R {
        let _since = self.within.map(|_| self.since());
        look()
    }
}

fn is_over(from: Instant, within: Duration, now: Instant) -> bool {
    now.saturating_duration_since(from) >= within
}
