//! The table of locks: heads by name, in shards.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use rustc_hash::FxHashMap;

use super::head::{Evicted, Head, Outcome, Party};
use super::name::Name;
use crate::ids::Lsn;
use crate::threads::Threads;

/// The number of sets of names in a shard for which commits are remembered once a name is no longer
/// held.
const REMEMBERED: usize = 64;
/// Commits of ghosts that are gone are remembered for so many sets of tables.
const GONE: usize = 64;

/// The options of a lock table.
#[derive(Clone, Copy, Debug)]
pub struct LockOptions {
    /// Number of shards.
    pub shards: usize,
    /// The most locks that are held at once.
    pub most: usize,
    /// The time that a transaction waits until it looks for a circle.
    pub look_after: Duration,
    /// The longest time that a transaction waits for a lock.
    pub timeout: Duration,
    /// Speculative lock inheritance: sessions keep a table's lock that was granted so often.
    pub inherit_after: Option<u64>,
    /// A session with so many locks that scans a table locks it as a whole, and no more of its
    /// rows.
    pub escalate_after: usize,
}

impl Default for LockOptions {
    fn default() -> Self {
        Self {
            shards: 64,
            most: 1_000_000,
            look_after: Duration::from_micros(100),
            timeout: Duration::from_secs(1),
            inherit_after: None,
            escalate_after: 100_000,
        }
    }
}

/// Counts of a lock table's work.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct LockCounts {
    /// Locks that are held, with those that sessions keep.
    pub held: usize,
    /// Requests that came to the table, without those of what the transaction had already.
    pub requests: u64,
    /// Requests that had to wait.
    pub waits: u64,
    /// Locks that a transaction had from its session.
    pub inherited: u64,
    /// Transactions that were victims of a circle.
    pub victims: u64,
    /// Transactions that waited too long.
    pub timeouts: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) requests: AtomicU64,
    pub(super) waits: AtomicU64,
    pub(super) inherited: AtomicU64,
    pub(super) victims: AtomicU64,
    pub(super) timeouts: AtomicU64,
}

#[derive(Debug)]
pub(super) struct Shard {
    heads: FxHashMap<Name, Head>,
    /// The newest commits of names that have no head any more.
    remembered: [Lsn; REMEMBERED],
}

impl Shard {
    pub(super) fn head(&mut self, name: Name, bits: u64) -> &mut Head {
        let remembered = self.remembered[bits as usize % REMEMBERED];
        self.heads.entry(name).or_insert_with(|| Head { written: remembered, ..Head::default() })
    }

    /// The newest commit of a transaction that may have written a name; perhaps a newer one.
    fn written(&self, name: Name, bits: u64) -> Lsn {
        let remembered = self.remembered[bits as usize % REMEMBERED];
        self.heads.get(&name).map_or(remembered, |head| head.written)
    }

    pub(super) fn existing(&mut self, name: Name) -> Option<&mut Head> {
        self.heads.get_mut(&name)
    }

    /// Drops a head that is not in use; returns whether it was watched. Tables keep theirs.
    fn tidy(&mut self, name: Name, bits: u64) -> bool {
        if matches!(name, Name::Table(_)) || !self.heads.get(&name).is_some_and(Head::is_idle) {
            return false;
        }
        let Some(head) = self.heads.remove(&name) else { return false };
        let remembered = &mut self.remembered[bits as usize % REMEMBERED];
        *remembered = head.written.max(*remembered);
        head.watched
    }
}

/// Watched names whose last lock has gone. Its mutex comes after that of a shard.
#[derive(Debug, Default)]
struct Freed {
    names: Mutex<VecDeque<Name>>,
    /// The number of names, for a look without the mutex.
    count: AtomicUsize,
}

impl Freed {
    fn put(&self, freed: impl IntoIterator<Item = Name>) {
        let mut names = self.names.lock();
        names.extend(freed);
        self.count.store(names.len(), Ordering::Release);
    }

    fn take(&self, most: usize) -> Vec<Name> {
        if self.count.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        let mut names = self.names.lock();
        let count = most.min(names.len());
        let taken = names.drain(..count).collect();
        self.count.store(names.len(), Ordering::Release);
        taken
    }
}

/// A table of locks, for all sessions of a partition.
#[derive(Debug)]
pub struct LockTable<T: Threads> {
    pub(super) threads: Arc<T>,
    pub(super) options: LockOptions,
    shards: Vec<Mutex<Shard>>,
    pub(super) held: AtomicUsize,
    pub(super) numbers: AtomicU64,
    pub(super) parties: AtomicU64,
    /// The newest commit of one whose ghosts have gone from a table.
    gone: [AtomicU64; GONE],
    freed: Freed,
    pub(super) counters: Counters,
}

impl<T: Threads> LockTable<T> {
    /// A table without locks.
    ///
    /// # Panics
    /// If it has no shards.
    pub fn new(threads: Arc<T>, options: LockOptions) -> Arc<Self> {
        assert!(options.shards > 0, "a lock table has shards");
        let shard = || {
            Mutex::new(Shard { heads: FxHashMap::default(), remembered: [Lsn::NONE; REMEMBERED] })
        };
        Arc::new(Self {
            threads,
            options,
            shards: std::iter::repeat_with(shard).take(options.shards).collect(),
            held: AtomicUsize::new(0),
            numbers: AtomicU64::new(1),
            parties: AtomicU64::new(1),
            gone: [const { AtomicU64::new(Lsn::NONE.0) }; GONE],
            freed: Freed::default(),
            counters: Counters::default(),
        })
    }

    /// Returns whether a name is not held, kept or waited for: a ghost of that key can go, and the
    /// gap before it become part of the next.
    pub fn is_free(&self, name: Name) -> bool {
        let mut shard = self.shard(name.bits());
        shard.existing(name).is_none_or(|head| head.is_idle())
    }

    /// Watches a name that is locked or waited for: when its last lock goes, [`Self::take_freed`]
    /// returns the name, once. Returns false, and does nothing, if the name is free.
    pub fn watch(&self, name: Name) -> bool {
        let mut shard = self.shard(name.bits());
        match shard.existing(name) {
            Some(head) if !head.is_idle() => {
                head.watched = true;
                true
            }
            _ => false,
        }
    }

    /// Takes some of the watched names that have become free, those first that have been so for
    /// longest. Each may be locked again by now.
    pub fn take_freed(&self, most: usize) -> Vec<Name> {
        self.freed.take(most)
    }

    /// Puts names back that [`Self::take_freed`] has returned.
    pub fn put_back(&self, freed: impl IntoIterator<Item = Name>) {
        self.freed.put(freed);
    }

    /// Notes that the ghost of a key, which is not locked, goes. Called before it goes, with its
    /// page latched: a later scan of the table meets no name of the ghost, and depends on its
    /// commit all the same ([`Locks::has_scanned`](super::Locks::has_scanned)).
    pub fn ghost_goes(&self, name: Name) {
        let bits = name.bits();
        let written = self.shard(bits).written(name, bits);
        self.gone_from(name).fetch_max(written.0, Ordering::AcqRel);
    }

    /// The newest commit of one whose ghosts have gone from the table of a name; perhaps from
    /// another.
    pub(super) fn gone_from(&self, name: Name) -> &AtomicU64 {
        &self.gone[name.tree().0 as usize % GONE]
    }

    /// Counts of the table's work.
    pub fn counts(&self) -> LockCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        LockCounts {
            held: self.held.load(Ordering::Relaxed),
            requests: read(&self.counters.requests),
            waits: read(&self.counters.waits),
            inherited: read(&self.counters.inherited),
            victims: read(&self.counters.victims),
            timeouts: read(&self.counters.timeouts),
        }
    }

    pub(super) fn shard(&self, bits: u64) -> MutexGuard<'_, Shard> {
        self.threads.point();
        // Other bits than those by which commits are remembered.
        self.shards[(bits >> 32) as usize % self.shards.len()].lock()
    }

    /// Grants what can be granted now, and drops the head if it is not in use any more.
    pub(super) fn serve(&self, shard: &mut Shard, name: Name, bits: u64) {
        let mut evicted = Evicted::default();
        if let Some(head) = shard.existing(name) {
            head.serve(&mut evicted, |party, outcome| self.finish(party, outcome));
        }
        self.count_evicted(&evicted);
        if shard.tidy(name, bits) {
            self.freed.put([name]);
        }
    }

    /// Counts kept grants that were taken as let go.
    pub(super) fn count_evicted(&self, evicted: &Evicted) {
        if evicted.0 > 0 {
            self.held.fetch_sub(evicted.0, Ordering::Relaxed);
        }
    }

    pub(super) fn finish(&self, party: &Party, outcome: Outcome) {
        party.finish(outcome);
        self.threads.wake(&party.waiter);
    }
}
