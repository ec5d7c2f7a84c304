//! `perdura bench slotted` at a tiny scale: what it reports, and what it refuses. No test looks at a time.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::common::{Ran, run};
use crate::page_run::keys_with;
use crate::report::{keys, runs};

const OWN_KEYS: [&str; 5] =
    ["reads_percent", "in_place_percent", "splits", "defragmentations", "phases_us"];

fn bench(arguments: &[&str]) -> Ran {
    run(&[&["bench", "slotted", "--tuples", "300", "--txns", "200"], arguments].concat())
}

#[test]
fn schemes_report_documented_keys_and_the_same_contents() {
    let found = runs(&bench(&["--domain", "adr", "--repeat", "3", "--steps", "--json", "-"]));
    let names: Vec<_> = found.iter().map(|run| run["engine"].as_str().expect("a name")).collect();
    assert_eq!(names, ["fast", "fash", "nvwal", "journal", "wal", "fash1", "fast1", "word"]);
    for run in &found {
        assert_eq!(keys(run), keys_with(&OWN_KEYS));
        assert_eq!((&run["workload"], &run["mix"]), (&"slotted".into(), &"insert".into()));
        assert_eq!((&run["modelled"], &run["domain"]), (&true.into(), &"adr".into()));
        assert_eq!(run["throughput_spread"]["n"], 3);
        assert_eq!(run["digest"], found[0]["digest"]);
        let number = |of: &Value| of.as_f64().expect("a number");
        assert!(number(&run["per_txn"]["flushed_lines"]) > 2.0, "{run}");
        assert!(number(&run["per_txn"]["fences"]) >= 1.0, "{run}");
        assert!(number(&run["phases_us"]["search"]) > 0.0, "{run}");
        assert!(number(&run["footprint_bytes"]["table"]) >= number(&run["user_bytes"]), "{run}");
        assert_eq!(run["user_bytes"], 500 * (5 + 64));
    }
    let baseline = &found[2];
    assert_eq!(baseline["throughput_over_baseline"], 1.0);
    assert!(found[0]["in_place_percent"].as_f64().expect("a number") > 80.0);
    assert_eq!(baseline["in_place_percent"], 0.0);
}

#[test]
fn each_mixture_record_and_transaction_is_a_cell() {
    let cells = ["--mix", "all", "--reads", "90", "--record", "16,1000", "--per-txn", "1"];
    let found = runs(&bench(&[&cells[..], &["--engine", "p3", "--json", "-"]].concat()));
    assert_eq!(found.len(), 4 * 2 * 3);
    let of = |run: &Value| (run["mix"].to_string(), run["record_bytes"].to_string());
    let all: BTreeSet<_> = found.iter().map(of).collect();
    assert_eq!(all.len(), 8);
    for run in &found {
        assert_eq!(
            run["reads_percent"],
            if run["mix"] == "mixed" { 90.into() } else { Value::Null }
        );
        assert!(run["phases_us"].is_null());
    }
    let table = bench(&["--engine", "fash,fast", "--baseline", "fash", "--per-txn", "2"]);
    assert_eq!(table.code, Some(0), "{table:?}");
    assert!(table.out.contains("x fash") && table.out.contains("lines/txn"), "{}", table.out);
}

#[test]
fn what_is_impossible_is_refused() {
    for (arguments, says) in [
        (&["--engine", "inp"][..], "`inp` is no scheme of slotted pages"),
        (&["--engine", "fast", "--baseline", "nvwal"], "--baseline nvwal: it does not run"),
        (&["--mix", "delete", "--per-txn", "2"], "load more with --tuples"),
        (&["--page", "1000"], "a power of two"),
        (&["--record", "100k"], "1 to 8192 are possible"),
        (&["--reads", "101"], "101"),
    ] {
        let ran = bench(arguments);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.err.contains(says), "{arguments:?}: {}", ran.err);
    }
    // Whole lines are stored where the processor can, and refused elsewhere.
    let ran = bench(&["--engine", "line"]);
    assert!(ran.code == Some(0) || ran.err.contains("MOVDIR64B"), "{ran:?}");
}
