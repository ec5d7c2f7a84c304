//! The figures of one run of SQLite, as reports have them.

use command::contestant::Promise;
use command::figures::{LatencyUs, PerTxn, Spread};
use command::footprint::FootprintBytes;
use serde::Serialize;

/// A run as programs read it; others rely on the keys to the letter.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Run {
    /// The mode.
    pub(super) engine: &'static str,
    pub(super) workload: &'static str,
    pub(super) mix: &'static str,
    pub(super) skew: &'static str,
    pub(super) keys: &'static str,
    pub(super) record_bytes: u32,
    pub(super) page_bytes: u32,
    pub(super) operations_per_txn: u32,
    pub(super) tuples: u64,
    pub(super) txns: u64,
    pub(super) partitions: usize,
    pub(super) domain: Option<&'static str>,
    pub(super) modelled: bool,
    pub(super) commit: &'static str,
    pub(super) group: Option<u32>,
    pub(super) seed: u64,
    pub(super) emulated: Option<()>,
    pub(super) seconds: f64,
    pub(super) throughput_txn_s: f64,
    pub(super) throughput_spread: Spread,
    pub(super) latency_us: LatencyUs,
    pub(super) per_txn: PerTxn,
    pub(super) footprint_bytes: FootprintBytes,
    pub(super) user_bytes: u64,
    pub(super) aborted: u64,
    /// The version of SQLite, the same in all modes.
    pub(super) sqlite: &'static str,
    pub(super) prepared: bool,
    pub(super) exclusive: bool,
    /// Commits that the VFS has counted; `None` without it.
    pub(super) vfs_commits: Option<u64>,
    /// The mode that the throughput is divided by, and the ratio.
    pub(super) baseline: &'static str,
    pub(super) throughput_over_baseline: f64,
    /// A number of the contents: modes that did the same have the same.
    pub(super) digest: String,
    #[serde(skip)]
    pub(super) promise: Promise,
}
