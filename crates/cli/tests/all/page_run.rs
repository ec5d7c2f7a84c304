//! The keys of a run of `perdura bench slotted` or `perdura bench sqlite`.

use std::collections::BTreeSet;

/// The keys that both benchmarks have.
const KEYS: [&str; 28] = [
    "engine",
    "workload",
    "mix",
    "skew",
    "keys",
    "record_bytes",
    "page_bytes",
    "operations_per_txn",
    "tuples",
    "txns",
    "partitions",
    "domain",
    "modelled",
    "commit",
    "group",
    "seed",
    "emulated",
    "seconds",
    "throughput_txn_s",
    "throughput_spread",
    "latency_us",
    "per_txn",
    "footprint_bytes",
    "user_bytes",
    "aborted",
    "baseline",
    "throughput_over_baseline",
    "digest",
];

/// Returns these keys with those that one of the benchmarks has alone.
pub(crate) fn keys_with(own: &[&'static str]) -> BTreeSet<&'static str> {
    KEYS.iter().chain(own).copied().collect()
}
