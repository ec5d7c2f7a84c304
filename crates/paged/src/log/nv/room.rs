//! Room in a log: an amount of entries or of bytes, of which a part is promised.

use std::sync::atomic::{AtomicU64, Ordering};

/// The share of the log that only checkpoints use.
const CHECKPOINT_SHARE: u64 = 16;

/// Room, in entries or in bytes, of which a part is promised.
#[derive(Debug)]
pub(super) struct Room {
    promised: AtomicU64,
    pub(super) all: u64,
}

impl Room {
    pub(super) fn new(all: u64) -> Self {
        Self { promised: AtomicU64::new(0), all }
    }

    /// The amount that can be promised, of which checkpoints alone get the last part.
    fn limit(&self, checkpoint: bool) -> u64 {
        if checkpoint { self.all } else { self.all - self.all / CHECKPOINT_SHARE }
    }

    /// Returns whether even the part for checkpoints is nearly used up.
    pub(super) fn is_exhausted(&self) -> bool {
        let left = self.all.saturating_sub(self.promised.load(Ordering::Acquire));
        left < self.all / CHECKPOINT_SHARE / 2
    }

    pub(super) fn free(&self) -> u64 {
        self.limit(false).saturating_sub(self.promised.load(Ordering::Acquire))
    }

    pub(super) fn take(&self, amount: u64, checkpoint: bool) -> bool {
        let before = self.promised.fetch_add(amount, Ordering::AcqRel);
        let fits = amount == 0 || before + amount <= self.limit(checkpoint);
        if !fits {
            self.promised.fetch_sub(amount, Ordering::AcqRel);
        }
        fits
    }

    /// Takes it whether there is so much or not: a restart has found it in use.
    pub(super) fn find_taken(&self, amount: u64) {
        self.promised.fetch_add(amount, Ordering::AcqRel);
    }

    pub(super) fn give_back(&self, amount: u64) {
        self.promised.fetch_sub(amount, Ordering::AcqRel);
    }
}
