//! The LSNs that are not durable yet, with flush-on-insert: at most one in each lane.

use std::sync::atomic::{AtomicU64, Ordering};

/// The LSN that each lane may be about to make durable, or a lesser one; the greatest if there is none.
/// Each has a line of its own.
#[derive(Debug)]
pub(super) struct UnderWay(Vec<Line>);

#[derive(Debug)]
#[repr(align(64))]
struct Line(AtomicU64);

impl UnderWay {
    pub(super) fn new(lanes: usize) -> Self {
        Self((0..lanes).map(|_| Line(AtomicU64::new(u64::MAX))).collect())
    }

    /// Notes that a lane is about to be given an LSN that is not less than `next`.
    pub(super) fn begin(&self, lane: usize, next: u64) {
        self.0[lane].0.store(next, Ordering::SeqCst);
    }

    /// Notes that what the lane was about to make durable is durable.
    pub(super) fn end(&self, lane: usize) {
        self.0[lane].0.store(u64::MAX, Ordering::SeqCst);
    }

    /// Returns an LSN, at most `lsn`, below which every assigned LSN is durable. It may be lower than
    /// necessary. It does not wait.
    pub(super) fn durable_before(&self, lsn: u64) -> u64 {
        let oldest = self.0.iter().map(|lane| lane.0.load(Ordering::SeqCst)).min();
        oldest.map_or(lsn, |oldest| oldest.min(lsn))
    }
}
