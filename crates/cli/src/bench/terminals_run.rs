//! A run of a workload of [`terminals`](super::terminals), as programs and people read it.

use std::collections::BTreeMap;

use command::figures::{LatencyUs, PerTxn, Spread, fine, whole};
use command::footprint::FootprintBytes;
use command::system::Promise;
use command::units::grouped;
use serde::Serialize;
use workloads::Check;
use workloads::tatp::Rate;

/// The successes of one kind of transaction, in all rounds and the counted piece.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Success {
    pub(super) tries: u64,
    pub(super) succeeded: u64,
    /// `None` without tries.
    pub(super) percent: Option<f64>,
    pub(super) expected_min_percent: f64,
    pub(super) expected_max_percent: f64,
    pub(super) tolerance_percent: f64,
}

/// A run as programs read it; others rely on the keys to the letter.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Run {
    pub(super) engine: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) peer: Option<&'static str>,
    pub(super) workload: &'static str,
    pub(super) mix: Option<()>,
    pub(super) skew: Option<()>,
    #[serde(flatten)]
    pub(super) sizes: BTreeMap<&'static str, u64>,
    #[serde(rename = "as")]
    pub(super) form: &'static str,
    pub(super) txns: u64,
    pub(super) partitions: usize,
    pub(super) workers: usize,
    pub(super) domain: Option<&'static str>,
    pub(super) modelled: bool,
    pub(super) commit: &'static str,
    pub(super) background: &'static str,
    /// Per cent of the indexes in persistent memory, if they were chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) placement: Option<u32>,
    pub(super) group: Option<u32>,
    pub(super) seed: u64,
    pub(super) emulated: Option<()>,
    pub(super) seconds: f64,
    pub(super) throughput_txn_s: f64,
    pub(super) throughput_spread: Spread,
    pub(super) latency_us: LatencyUs,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) latency_us_by_transaction: BTreeMap<&'static str, LatencyUs>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) success: Option<BTreeMap<&'static str, Success>>,
    pub(super) per_txn: PerTxn,
    pub(super) footprint_bytes: FootprintBytes,
    /// `None` of a peer.
    pub(super) user_bytes: Option<u64>,
    pub(super) tuples: u64,
    pub(super) aborted: u64,
    pub(super) conflicts: u64,
    pub(super) retries: u64,
    /// `None` without `--check`.
    pub(super) consistency: Option<BTreeMap<&'static str, bool>>,
    /// The digest of all that the database holds; `None` of a peer, whose rows have another form.
    pub(super) digest: Option<String>,
    #[serde(skip)]
    pub(super) name: &'static str,
    #[serde(skip)]
    pub(super) violations: Vec<String>,
    #[serde(skip)]
    pub(super) promise: Promise,
}

/// The contradictions to the checks, as people read them.
pub(super) fn violations(checks: &[Check]) -> Vec<String> {
    let violation = |Check { name, what, violation }: &Check| {
        let found = violation.as_ref()?;
        Some(format!("check {name} ({what}) does not hold: {found}"))
    };
    checks.iter().filter_map(violation).collect()
}

pub(super) fn row(run: &Run) -> Vec<String> {
    vec![
        run.name.to_owned(),
        run.promise.text(),
        whole(run.throughput_txn_s),
        run.throughput_spread.text(),
        fine(Some(run.latency_us.p50)),
        fine(Some(run.latency_us.p99)),
        fine(run.per_txn.flushed_lines),
        fine(run.per_txn.fences),
        grouped(run.conflicts),
        grouped(run.retries),
    ]
}

/// A row for each kind of transaction, if there are several.
pub(super) fn transaction_rows(run: &Run) -> Vec<Vec<String>> {
    let row = |(name, latency): (&&str, &LatencyUs)| {
        let LatencyUs { p50, p95, p99, max } = *latency;
        let figures = [p50, p95, p99, max].map(|value| fine(Some(value)));
        let success = run.success.as_ref().and_then(|all| all.get(*name));
        let percent = success.and_then(|one| one.percent);
        let rates = [
            percent.map_or("-".into(), |percent| format!("{percent:.2}%")),
            success.map_or("-".into(), Success::expected),
        ];
        let words = [run.name.to_owned(), (*name).to_owned()];
        words.into_iter().chain(figures).chain(rates).collect()
    };
    run.latency_us_by_transaction.iter().map(row).collect()
}

impl Success {
    /// The rates that are as they should be.
    fn expected(&self) -> String {
        let Self { expected_min_percent: low, expected_max_percent: high, .. } = *self;
        let tolerance = self.tolerance_percent;
        if tolerance == 0.0 {
            format!("{low:.0}%")
        } else if low == high {
            format!("{low:.2} +- {tolerance:.2}%")
        } else {
            format!("{low:.1} to {high:.1} +- {tolerance:.2}%")
        }
    }
}

impl From<Rate> for Success {
    fn from(rate: Rate) -> Self {
        Self {
            tries: rate.tries,
            succeeded: rate.succeeded,
            percent: rate.percent(),
            expected_min_percent: rate.expected_percent.0,
            expected_max_percent: rate.expected_percent.1,
            tolerance_percent: rate.tolerance_percent,
        }
    }
}

/// A rate that is not as it should be, as people read it.
pub(super) fn said(rate: Rate) -> String {
    let (low, high) = rate.expected_percent;
    format!(
        "{} succeeded {} times of {}, which is not {low:.2} to {high:.2}% within {:.2}%",
        rate.kind.name(),
        rate.succeeded,
        rate.tries,
        rate.tolerance_percent
    )
}
