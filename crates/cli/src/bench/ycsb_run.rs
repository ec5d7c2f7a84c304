//! The figures of one run of YCSB, as reports have them.

use command::figures::{LatencyUs, PerTxn, Spread};
use command::footprint::FootprintBytes;
use command::system::Promise;
use serde::Serialize;

use super::fifths::Fifth;

/// A run as programs read it; others rely on the keys to the letter.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Run {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) engine: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) peer: Option<&'static str>,
    pub(super) workload: &'static str,
    pub(super) mix: &'static str,
    pub(super) skew: &'static str,
    pub(super) tuples: u64,
    pub(super) txns: u64,
    pub(super) partitions: usize,
    pub(super) domain: Option<&'static str>,
    pub(super) modelled: bool,
    pub(super) commit: &'static str,
    pub(super) background: &'static str,
    /// Each update was declared to be its whole transaction.
    pub(super) statements: bool,
    /// Engines kept columns within the tuple.
    pub(super) inline: bool,
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
    /// `None` without `--fifths`.
    pub(super) fifths: Option<Vec<Fifth>>,
    #[serde(skip)]
    pub(super) promise: Promise,
}

impl Run {
    /// Store, mix and skew.
    pub(super) fn name(&self) -> [&'static str; 3] {
        [self.engine.or(self.peer).unwrap_or_default(), self.mix, self.skew]
    }
}
