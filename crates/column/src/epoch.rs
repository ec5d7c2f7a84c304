//! Epochs: they show when no transaction can come to a version any more.
//!
//! A version that no snapshot sees leaves the indexes first, which ends an epoch. A transaction that had begun in
//! that epoch may have found the version, so its row is used again when all such transactions have ended.
//!
//! - A transaction enters before it reads the clock: its snapshot is kept from then on.
//! - A transaction in flight without a session keeps its snapshot, and holds no version.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::clock::Clock;
use crate::latch::{Latch, Waiting};

/// The epoch and snapshot of a transaction, or of a read without one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EpochEntry {
    pub(crate) snapshot: u64,
    epoch: u64,
}

#[derive(Debug, Default)]
struct State {
    epoch: u64,
    /// Counts active transactions, by their epochs and by their snapshots.
    epochs: BTreeMap<u64, u64>,
    snapshots: BTreeMap<u64, u64>,
}

#[derive(Debug)]
pub(crate) struct Epochs(Latch<State>);

fn add(counts: &mut BTreeMap<u64, u64>, of: u64) {
    *counts.entry(of).or_default() += 1;
}

fn take(counts: &mut BTreeMap<u64, u64>, of: u64) {
    match counts.get_mut(&of) {
        Some(count) if *count > 1 => *count -= 1,
        _ => drop(counts.remove(&of)),
    }
}

impl Epochs {
    pub(crate) fn new(waiting: &Waiting) -> Self {
        Self(Latch::new(State::default(), waiting))
    }

    /// Enters a transaction whose snapshot is the last commit.
    pub(crate) fn register(&self, clock: &Clock) -> EpochEntry {
        let mut state = self.0.write();
        state.register(clock.now())
    }

    /// Enters a transaction that resumes with this snapshot, which is kept until then.
    pub(crate) fn register_at(&self, snapshot: u64) -> EpochEntry {
        self.0.write().register(snapshot)
    }

    pub(crate) fn leave(&self, entered: EpochEntry) {
        let mut state = self.0.write();
        take(&mut state.epochs, entered.epoch);
        take(&mut state.snapshots, entered.snapshot);
    }

    /// Keeps a snapshot, for a transaction that no session has.
    pub(crate) fn keep_snapshot(&self, snapshot: u64) {
        add(&mut self.0.write().snapshots, snapshot);
    }

    /// Releases a snapshot that was kept.
    pub(crate) fn release_snapshot(&self, snapshot: u64) {
        take(&mut self.0.write().snapshots, snapshot);
    }

    /// Returns the oldest snapshot; also those of later transactions are at least this one.
    pub(crate) fn horizon(&self, clock: &Clock) -> u64 {
        let state = self.0.write();
        let now = clock.now();
        state.snapshots.first_key_value().map_or(now, |(oldest, _)| now.min(*oldest))
    }

    /// Begins an epoch; returns the number of the one that ends.
    pub(crate) fn next(&self) -> u64 {
        let mut state = self.0.write();
        state.epoch += 1;
        state.epoch - 1
    }

    /// Returns whether all transactions that began in an epoch, or before it, have left.
    pub(crate) fn is_over(&self, epoch: u64) -> bool {
        self.0.write().epochs.first_key_value().is_none_or(|(oldest, _)| *oldest > epoch)
    }
}

impl State {
    fn register(&mut self, snapshot: u64) -> EpochEntry {
        add(&mut self.epochs, self.epoch);
        add(&mut self.snapshots, snapshot);
        EpochEntry { snapshot, epoch: self.epoch }
    }
}

/// Keeps a transaction, or a read without one, entered until it is dropped.
#[derive(Debug)]
pub(crate) struct EpochGuard {
    epochs: Arc<Epochs>,
    pub(crate) entered: EpochEntry,
}

impl EpochGuard {
    /// Enters with the last commit as the snapshot.
    pub(crate) fn new(epochs: &Arc<Epochs>, clock: &Clock) -> Self {
        Self { entered: epochs.register(clock), epochs: Arc::clone(epochs) }
    }

    /// Enters with a snapshot that was kept until now.
    pub(crate) fn again(epochs: &Arc<Epochs>, snapshot: u64) -> Self {
        let entered = epochs.register_at(snapshot);
        epochs.release_snapshot(snapshot);
        Self { entered, epochs: Arc::clone(epochs) }
    }
}

impl Drop for EpochGuard {
    fn drop(&mut self) {
        self.epochs.leave(self.entered);
    }
}
