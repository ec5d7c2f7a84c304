//! Epochs: which versions nobody can come to any more.
//!
//! A version that no snapshot sees is taken out of the indexes first. Whoever had begun before that may
//! have found it there, so it is used again when all of them have ended.
//!
//! - A transaction is entered before it looks at the clock's number: what it sees is kept from then on.
//! - One that is in flight and that no session has keeps its snapshot, and has found nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::clock::Clock;
use crate::latch::{Latch, Waiting};

/// The entry of a transaction, or of a read without one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EpochEntry {
    pub(crate) snapshot: u64,
    epoch: u64,
}

#[derive(Debug, Default)]
struct State {
    epoch: u64,
    /// Counts those who have entered, by their epochs and by their snapshots.
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

    /// Enters a transaction that sees what has committed until now.
    pub(crate) fn enter(&self, clock: &Clock) -> EpochEntry {
        let mut state = self.0.write();
        state.enter(clock.now())
    }

    /// Enters one that goes on with this snapshot, which somebody keeps until then.
    pub(crate) fn enter_again(&self, snapshot: u64) -> EpochEntry {
        self.0.write().enter(snapshot)
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

    /// The end of that.
    pub(crate) fn release_snapshot(&self, snapshot: u64) {
        take(&mut self.0.write().snapshots, snapshot);
    }

    /// Every snapshot, also of who enters later, is at least this one.
    pub(crate) fn horizon(&self, clock: &Clock) -> u64 {
        let state = self.0.write();
        let now = clock.now();
        state.snapshots.first_key_value().map_or(now, |(oldest, _)| now.min(*oldest))
    }

    /// Begins an epoch; returns the number of the last one.
    pub(crate) fn next(&self) -> u64 {
        let mut state = self.0.write();
        state.epoch += 1;
        state.epoch - 1
    }

    /// Returns whether everybody who had entered in an epoch, or before it, has left.
    pub(crate) fn is_over(&self, epoch: u64) -> bool {
        self.0.write().epochs.first_key_value().is_none_or(|(oldest, _)| *oldest > epoch)
    }
}

impl State {
    fn enter(&mut self, snapshot: u64) -> EpochEntry {
        add(&mut self.epochs, self.epoch);
        add(&mut self.snapshots, snapshot);
        EpochEntry { snapshot, epoch: self.epoch }
    }
}

/// The stay of a transaction, or of a read without one, until it is dropped.
#[derive(Debug)]
pub(crate) struct EpochGuard {
    epochs: Arc<Epochs>,
    pub(crate) entered: EpochEntry,
}

impl EpochGuard {
    /// Sees what has committed until now.
    pub(crate) fn new(epochs: &Arc<Epochs>, clock: &Clock) -> Self {
        Self { entered: epochs.enter(clock), epochs: Arc::clone(epochs) }
    }

    /// Goes on with a snapshot that was kept until now.
    pub(crate) fn again(epochs: &Arc<Epochs>, snapshot: u64) -> Self {
        let entered = epochs.enter_again(snapshot);
        epochs.release_snapshot(snapshot);
        Self { entered, epochs: Arc::clone(epochs) }
    }
}

impl Drop for EpochGuard {
    fn drop(&mut self) {
        self.epochs.leave(self.entered);
    }
}
