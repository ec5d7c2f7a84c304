//! The counts of a run, which both processes of a test make.

use lab::Point;

use crate::common::measured;

/// The experiments that count. Storage, too: with one thread it is the same after the same work.
pub(crate) const COUNTED: [&str; 6] =
    ["P1-F9", "P1-F11", "P1-F14", "P1-T3", "PEERS-SPACE", "PEERS-CHURN"];

/// The counts of the studies that count, of a run from nothing.
pub(crate) fn counts(experiments: &[&str], seed: u64) -> Vec<Point> {
    let points = measured(experiments, seed);
    points.into_iter().filter(|point| point.exact).collect()
}
