//! The figures that reports of all benchmarks have.

use hdrhistogram::Histogram;
use perdura::{Counters, Database};
use serde::Serialize;

use crate::units::grouped;

/// The spread over several runs.
#[derive(Debug, Clone, Serialize)]
pub struct Spread {
    min: f64,
    max: f64,
    n: usize,
}

impl Spread {
    /// The median of what was measured, its spread, and which run is the median.
    pub fn of(all: &[f64]) -> (f64, Self, usize) {
        let median = median_index(all);
        let min = all.iter().copied().fold(f64::INFINITY, f64::min);
        let max = all.iter().copied().fold(0.0, f64::max);
        (all[median], Self { min, max, n: all.len() }, median)
    }

    /// Returns it as people read it.
    pub fn text(&self) -> String {
        match self.n {
            1 => "-".into(),
            _ => format!("{} - {}", whole(self.min), whole(self.max)),
        }
    }
}

/// Latencies to durability, over all rounds.
#[derive(Debug, Clone, Serialize)]
pub struct LatencyUs {
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Longest.
    pub max: f64,
}

impl LatencyUs {
    /// Returns all these taken together; zeros if there are none.
    pub fn of<'a>(mut all: impl Iterator<Item = &'a Histogram<u64>>) -> Self {
        let Some(first) = all.next() else {
            return Self { p50: 0.0, p95: 0.0, p99: 0.0, max: 0.0 };
        };
        let mut sum = first.clone();
        for one in all {
            sum.add(one).expect("all rounds have the same bounds");
        }
        let at = |quantile| sum.value_at_quantile(quantile) as f64 / 1000.0;
        Self { p50: at(0.50), p95: at(0.95), p99: at(0.99), max: sum.max() as f64 / 1000.0 }
    }
}

/// The figures that were counted of a database.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counted {
    counters: Counters,
    logged_bytes: u64,
}

impl Counted {
    /// Returns those of a database, so far.
    pub fn of(database: &Database) -> Self {
        Self {
            counters: database.counters(),
            logged_bytes: database
                .stats()
                .expect("this thread has no transaction open")
                .logged_bytes,
        }
    }

    /// Counts of another kind.
    pub fn new(counters: Counters, logged_bytes: u64) -> Self {
        Self { counters, logged_bytes }
    }

    /// Returns what came since `before`.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            counters: self.counters.since(&before.counters),
            logged_bytes: self.logged_bytes - before.logged_bytes,
        }
    }
}

/// The cost of a transaction; `None` where it was not counted.
#[derive(Debug, Clone, Default, Serialize)]
pub struct PerTxn {
    /// Cache lines written back.
    pub flushed_lines: Option<f64>,
    /// Fences.
    pub fences: Option<f64>,
    bytes_persisted: Option<f64>,
    /// Records that were appended to a log, wherever that lies.
    pub bytes_logged: Option<f64>,
    /// Bytes that were written to files.
    pub file_bytes: Option<f64>,
    /// Syncs of files.
    pub syncs: Option<f64>,
}

impl PerTxn {
    /// Divides what was counted.
    pub fn new(counted: Option<&Counted>, txns: u64) -> Self {
        let Some(Counted { counters, logged_bytes }) = counted else { return Self::default() };
        let each = |total: u64| Some(total as f64 / txns.max(1) as f64);
        Self {
            flushed_lines: each(counters.flushed_lines),
            fences: each(counters.fences),
            bytes_persisted: each(counters.bytes_persisted),
            bytes_logged: each(*logged_bytes),
            file_bytes: each(counters.file_bytes),
            syncs: each(counters.syncs),
        }
    }

    /// Divides what the VFS under SQLite has counted.
    pub fn of_vfs(stats: &peers::extension::Stats, txns: u64) -> Self {
        let each = |total: u64| Some(total as f64 / txns.max(1) as f64);
        Self {
            flushed_lines: each(stats.lines),
            fences: each(stats.fences),
            bytes_logged: each(stats.bytes),
            ..Self::default()
        }
    }
}

/// A figure without decimals.
pub fn whole(value: f64) -> String {
    grouped(value.round() as u64)
}

/// A figure with two decimals, if there is one.
pub fn fine(value: Option<f64>) -> String {
    value.map_or("-".into(), |value| format!("{value:.2}"))
}

/// The index of the median of `values`; of an even number the lower of the two in the middle, so
/// that a figure reported is always one that was measured.
///
/// # Panics
/// There are no values.
pub fn median_index(values: &[f64]) -> usize {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&one, &two| values[one].total_cmp(&values[two]));
    order[(values.len() - 1) / 2]
}

#[cfg(test)]
mod tests {
    use super::median_index;

    #[test]
    fn the_median_is_a_measured_value() {
        assert_eq!(median_index(&[5.0]), 0);
        assert_eq!(median_index(&[5.0, 1.0, 3.0]), 2);
        assert_eq!(median_index(&[5.0, 1.0, 3.0, 4.0]), 2);
    }
}
