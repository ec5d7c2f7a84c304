//! How long transactions wait to be continued: see [`crate::Options::resume_within`].
//!
//! The time of each counts from the moment when it was detached, or when the database was opened. Whoever
//! begins a transaction next rolls back those whose time is over.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engines::{Sessions, TxId};

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

    /// A transaction waits from now on.
    pub(crate) fn note(&self, id: TxId, now: Instant) {
        if self.within.is_some() {
            self.since().insert(id, now);
            self.any.store(true, Ordering::Release);
        }
    }

    /// Those that wait wait at least from now on.
    pub(crate) fn note_all(&self, source: &dyn Sessions) {
        if self.within.is_some() {
            let now = Instant::now();
            let found = source.in_flight();
            let mut since = self.since();
            for open in &found {
                since.entry(open.id).or_insert(now);
            }
            self.any.store(!since.is_empty(), Ordering::Release);
        }
    }

    /// A transaction waits no more.
    pub(crate) fn forget(&self, id: TxId) {
        if self.within.is_some() {
            self.since().remove(&id);
        }
    }

    /// Takes out the transactions whose time is over.
    pub(crate) fn overdue(&self, now: impl FnOnce() -> Instant) -> Vec<TxId> {
        let Some(within) = self.within.filter(|_| self.any.load(Ordering::Acquire)) else {
            return Vec::new();
        };
        let (mut since, now) = (self.since(), now());
        let over = |from: &Instant| now.saturating_duration_since(*from) >= within;
        let overdue: Vec<_> =
            since.iter().filter(|(_, from)| over(from)).map(|(id, _)| *id).collect();
        for id in &overdue {
            since.remove(id);
        }
        self.any.store(!since.is_empty(), Ordering::Release);
        overdue
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_each_counts_from_its_own_moment() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let waits = Waits::new(Some(10 * second));
        let at = |seconds: u32| move || start + seconds * second;
        assert!(waits.overdue(at(99)).is_empty(), "nobody waits");
        for (id, seconds) in [(1, 0), (2, 5), (3, 6)] {
            waits.note(TxId(id), start + seconds * second);
        }
        assert!(waits.overdue(at(9)).is_empty());
        waits.forget(TxId(2));
        assert_eq!(waits.overdue(at(10)), [TxId(1)]);
        assert!(waits.overdue(at(15)).is_empty(), "one goes on, and one has a second left");
        waits.note(TxId(2), start + 15 * second);
        assert_eq!(waits.overdue(at(25)), [TxId(2), TxId(3)]);
        assert!(waits.overdue(at(99)).is_empty());
    }

    #[test]
    fn without_a_limit_they_wait_for_ever() {
        let (waits, now) = (Waits::new(None), Instant::now());
        waits.note(TxId(1), now);
        assert!(waits.overdue(|| now + Duration::from_secs(1 << 30)).is_empty());
    }
}
