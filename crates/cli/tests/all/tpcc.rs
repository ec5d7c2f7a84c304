//! TPC-C through the command, at a tiny scale: what it reports, what it refuses, and that a kill
//! loses nothing. No test looks at a time.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::common::{Ran, run};
use crate::report::{keys, runs};

const RUN_KEYS: [&str; 32] = [
    "engine",
    "workload",
    "mix",
    "skew",
    "warehouses",
    "items",
    "remote",
    "txns",
    "partitions",
    "workers",
    "domain",
    "modelled",
    "commit",
    "background",
    "group",
    "seed",
    "emulated",
    "seconds",
    "throughput_txn_s",
    "throughput_spread",
    "new_orders_per_minute",
    "latency_us",
    "latency_us_by_transaction",
    "per_txn",
    "footprint_bytes",
    "user_bytes",
    "tuples",
    "aborted",
    "conflicts",
    "retries",
    "consistency",
    "digest",
];
const RECOVERY_KEYS: [&str; 28] = [
    "mix",
    "skew",
    "partitions",
    "domain",
    "modelled",
    "commit",
    "group",
    "seed",
    "background",
    "opening_us",
    "built_percent",
    "reads_us",
    "engine",
    "workload",
    "warehouses",
    "tuples",
    "txns",
    "user_bytes",
    "open_ms",
    "first_read_ms",
    "first_commit_ms",
    "undone",
    "redone",
    "reclaimed",
    "acknowledged",
    "lost",
    "surplus",
    "consistency",
];
/// An engine of each paper.
/// An engine of each paper.
pub(crate) const FAMILIES: &str = "nvm-inp,nv-disk,fast,sofort";
const SCALE: [&str; 4] = ["--items", "200", "--customers", "30"];

fn tpcc(arguments: &[&str]) -> Ran {
    run(&[&["bench", "tpcc"], &SCALE[..], arguments].concat())
}

/// The twelve conditions, all true.
fn all_hold(run: &Value) {
    let conditions = run["consistency"].as_object().expect("checked");
    assert!((1..=12).all(|number: u8| conditions[&number.to_string()] == true), "{run}");
    assert_eq!(conditions.len(), 12);
}

#[test]
fn the_report_has_the_documented_keys_and_engines_agree() {
    report_has_the_documented_keys(FAMILIES);
}

pub(crate) fn report_has_the_documented_keys(engines: &str) {
    let arguments = ["--warehouses", "2", "--partitions", "2", "--txns", "600", "--check"];
    let more = ["--domain", "adr", "--repeat", "3", "--engine", engines, "--json", "-"];
    let ran = tpcc(&[&arguments[..], &more].concat());
    let runs = runs(&ran);
    assert!(runs.len() >= 2);
    for run in &runs {
        assert_eq!(keys(run), BTreeSet::from(RUN_KEYS));
        assert_eq!(run["throughput_spread"]["n"], 3);
        let by_transaction = keys(&run["latency_us_by_transaction"]);
        let transactions = ["new_order", "payment", "order_status", "delivery", "stock_level"];
        assert_eq!(by_transaction, BTreeSet::from(transactions));
        let (all, orders) = (&run["throughput_txn_s"], &run["new_orders_per_minute"]);
        let share = orders.as_f64().expect("a number") / 60.0 / all.as_f64().expect("a number");
        assert!((0.35..0.55).contains(&share), "{run}");
        // Nine in ten change something, and a durable commit has a fence at least.
        assert!(run["per_txn"]["fences"].as_f64().expect("counted") > 0.8, "{run}");
        assert_eq!(run["digest"], runs[0]["digest"]);
        all_hold(run);
    }
}

#[test]
fn checks_are_named_in_the_text() {
    checks_are_named(FAMILIES);
}

pub(crate) fn checks_are_named(engines: &str) {
    let engines = ["--engine", engines];
    let ran = tpcc(
        &[&["--txns", "300", "--check", "--warehouses", "2", "--remote"][..], &engines].concat(),
    );
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for text in ["new orders/min", "stock_level", "1 to 12, nvm-inp: hold", "Contents are alike"] {
        assert!(ran.out.contains(text), "{text}: {}", ran.out);
    }
    let ran = tpcc(&["--txns", "300", "--engine", "nvm-inp", "--commit", "grouped", "--json", "-"]);
    let runs = runs(&ran);
    assert!(runs[0]["consistency"].is_null() && runs[0]["group"] == 100, "{}", runs[0]);
}

#[test]
fn workers_that_share_a_partition_keep_the_conditions() {
    workers_keep_the_conditions(FAMILIES);
}

pub(crate) fn workers_keep_the_conditions(engines: &str) {
    let arguments = ["--warehouses", "2", "--remote", "--txns", "300", "--workers", "3", "--check"];
    for run in runs(&tpcc(&[&arguments[..], &["--engine", engines, "--json", "-"]].concat())) {
        assert_eq!((&run["workers"], &run["partitions"]), (&3.into(), &1.into()));
        assert_eq!(run["conflicts"], 0, "{run}");
        // Where transactions run at once, one may have to begin again.
        let name = run["engine"].as_str().expect("a name");
        let at_once = name.starts_with("nv-") || name == "sofort";
        assert!(at_once || run["retries"] == 0, "{run}");
        all_hold(&run);
    }
    let ran = tpcc(&[&arguments[..], &["--engine", "inp,nvm-inp"]].concat());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.contains("workers: 3") && ran.out.contains("are not compared"), "{}", ran.out);
}

#[test]
fn what_cannot_be_run_is_refused_with_a_way_out() {
    let refused = |arguments: &[&str], hint: &str| {
        let ran = run(arguments);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.err.contains(hint), "{hint}: {}", ran.err);
    };
    let tpcc = ["bench", "tpcc", "--warehouses", "2"];
    let with = |more: &[&'static str]| [&tpcc[..], more].concat();
    refused(&with(&["--partitions", "2", "--remote"]), "--partitions 1");
    refused(&with(&["--partitions", "3"]), "3 partitions for 2 warehouses");
    refused(&with(&["--peer", "lmdb"]), "unexpected argument '--peer'");
    refused(&with(&["--items", "200k"]), "1 to 100000");
    refused(&["bench", "tpcc", "--remote"], "at least 2 warehouses");
    let recovery = ["bench", "recovery", "--workload", "tpcc"];
    let with = |more: &[&'static str]| [&recovery[..], more].concat();
    refused(&with(&["--tuples", "1k"]), "--warehouses");
    refused(&with(&["--mix", "balanced"]), "--mix is an option of YCSB");
    refused(&with(&["--peer", "lmdb"]), "peers have YCSB only");
    refused(&["bench", "recovery", "--warehouses", "2"], "--workload tpcc");
}

#[test]
fn what_the_medium_cannot_hold_is_refused_before_it_is_filled() {
    let ran = run(&["bench", "tpcc", "--warehouses", "60000", "--engine", "nvm-inp"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    for text in ["TiB", "are free", "--warehouses", "--path"] {
        assert!(ran.err.contains(text), "{text}: {}", ran.err);
    }
}

#[test]
fn a_killed_process_loses_no_transaction() {
    killed_processes_lose_no_transaction(FAMILIES, "nvm-inp,nv-disk", "fast,sofort");
}

/// With these engines, with those in two partitions, and with those in groups of commits.
pub(crate) fn killed_processes_lose_no_transaction(engines: &str, parted: &str, grouped: &str) {
    let cases: [&[&str]; 3] = [
        &["--warehouses", "2", "--remote", "--engine", engines],
        &["--warehouses", "2", "--partitions", "2", "--workers", "2", "--engine", parted],
        &["--warehouses", "1", "--commit", "grouped", "--group", "16", "--engine", grouped],
    ];
    for more in cases {
        let arguments = ["bench", "recovery", "--workload", "tpcc", "--txns", "300", "--json", "-"];
        let ran = run(&[&arguments[..], &SCALE, more].concat());
        for run in runs(&ran) {
            assert_eq!(keys(&run), BTreeSet::from(RECOVERY_KEYS));
            assert_eq!((&run["lost"], &run["surplus"]), (&0.into(), &0.into()), "{run}");
            assert!(run["acknowledged"].as_u64() >= run["txns"].as_u64(), "{run}");
            all_hold(&run);
        }
    }
}
