//! The measuring of a run, and its results.
//!
//! Invariants:
//! - A latency ends when the transaction is durable: for grouped commits when the sync that covers
//!   it returns.
//! - An [`Observer`] hears of durable transactions only, in order, one partition at a time.

use std::sync::atomic::{AtomicU64, Ordering};

use hdrhistogram::Histogram;
use pm::Escaped;

use crate::store::{Commit, StoreError};

/// The longest latency that is distinguished from longer ones: one minute.
const LATENCY_LIMIT_NS: u64 = 60_000_000_000;

/// The options with which a workload is driven.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Threads; partition `p` is served by worker `p % workers`. Of YCSB, more workers than partitions
    /// are not started; of the others they share partitions, as [`Lanes`](crate::Lanes) says.
    pub workers: usize,
    /// The commit form with which the store was opened.
    pub commit: Commit,
    /// Every so many-th transaction of a partition has its latency taken; 0 for none.
    pub sample_every: u32,
    /// Called first in each worker with its number, to pin it to a core.
    pub pin: Option<fn(usize)>,
}

impl Default for RunOptions {
    /// One worker, durable commits, every 16th latency, not pinned.
    fn default() -> Self {
        Self { workers: 1, commit: Commit::Durable, sample_every: 16, pin: None }
    }
}

/// The figures of a run.
#[derive(Debug, Clone)]
pub struct Measurement {
    /// The time from the start of the first worker to the end of the last one.
    pub seconds: f64,
    /// Transactions that became durable, reads included.
    pub transactions: u64,
    /// Sampled latencies in nanoseconds, to durability.
    pub latency_ns: Histogram<u64>,
    /// Transactions that the store rolled back; they are not in `transactions`.
    pub aborted: u64,
}

impl Measurement {
    /// A run of no transaction.
    #[must_use]
    pub fn nothing() -> Self {
        Self { seconds: 0.0, transactions: 0, latency_ns: latency_histogram(), aborted: 0 }
    }

    /// Adds what ran right after this, as if both were one run.
    pub fn add(&mut self, next: &Self) {
        self.seconds += next.seconds;
        self.transactions += next.transactions;
        self.latency_ns.add(&next.latency_ns).expect("all histograms have the same bounds");
        self.aborted += next.aborted;
    }

    /// Durable transactions a second.
    #[must_use]
    pub fn throughput_txn_s(&self) -> f64 {
        self.transactions as f64 / self.seconds.max(1e-9)
    }
}

/// The reason why a run stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The store failed.
    #[error("{store}, partition {partition}, transaction {transaction}: {source}", store = Escaped(.store), source = Escaped(.source))]
    Store {
        /// Name of the store.
        store: String,
        /// Index of the partition.
        partition: usize,
        /// Index of the transaction (while loading: of the tuple) in its partition.
        transaction: u64,
        /// The store's error.
        source: StoreError,
    },
    /// Store and workload are cut differently.
    #[error("the store has {store} partitions, the workload {workload}; create both with the same")]
    Partitions {
        /// Partitions of the store.
        store: usize,
        /// Partitions of the workload.
        workload: usize,
    },
    /// A run without workers was asked for.
    #[error("at least one worker is needed")]
    NoWorkers,
}

/// Receives how far each partition has come; where workers share partitions, how far each lane (see
/// [`Lanes`](crate::Lanes)). Called from the measured loop: it must not allocate.
pub trait Observer: Sync {
    /// The number of transactions that may pass between two calls with durable commits. Grouped
    /// commits report after a sync only.
    const EVERY: u64;

    /// The first `transactions` transactions of `partition` are durable.
    fn completed(&self, partition: usize, transactions: u64);
}

/// An observer that does nothing.
impl Observer for () {
    const EVERY: u64 = u64::MAX;

    fn completed(&self, _: usize, _: u64) {}
}

/// A counter on cache lines of its own, so that workers do not slow each other down.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counter(AtomicU64);

/// Counters for a progress bar: one per partition, updated every 1024 transactions and at the end.
#[derive(Debug)]
pub struct Progress {
    counters: Vec<Counter>,
}

impl Progress {
    /// All partitions at zero.
    #[must_use]
    pub fn new(partitions: usize) -> Self {
        Self { counters: (0..partitions).map(|_| Counter::default()).collect() }
    }

    /// Transactions completed so far in `partition`.
    #[must_use]
    pub fn partition(&self, partition: usize) -> u64 {
        self.counters[partition].0.load(Ordering::Relaxed)
    }

    /// Transactions completed so far in all partitions.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counters.iter().map(|counter| counter.0.load(Ordering::Relaxed)).sum()
    }
}

impl Observer for Progress {
    const EVERY: u64 = 1024;

    fn completed(&self, partition: usize, transactions: u64) {
        self.counters[partition].0.store(transactions, Ordering::Relaxed);
    }
}

/// An empty histogram whose recording allocates nothing: 1 ns to a minute, three digits.
pub(crate) fn latency_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_LIMIT_NS, 3).expect("the bounds are constants that fit")
}
