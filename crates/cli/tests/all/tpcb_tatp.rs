//! TPC-B and TATP through the command, at a tiny scale: what it reports, what it refuses, and that a
//! kill loses nothing. No test looks at a time.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::common::{Ran, run};
use crate::report::{keys, runs};
use crate::tpcc::FAMILIES;

/// Keys of the runs of both.
const KEYS: [&str; 28] = [
    "engine",
    "workload",
    "mix",
    "skew",
    "as",
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
    "latency_us",
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
const KINDS: [&str; 7] = [
    "delete_call_forwarding",
    "get_access_data",
    "get_new_destination",
    "get_subscriber_data",
    "insert_call_forwarding",
    "update_location",
    "update_subscriber_data",
];

fn expected_keys(more: &[&'static str]) -> BTreeSet<&'static str> {
    KEYS.into_iter().chain(more.iter().copied()).collect()
}

fn bench(workload: &str, arguments: &[&str]) -> Ran {
    run(&[&["bench", workload], arguments].concat())
}

/// These checks, all true.
fn all_hold(run: &Value, names: &[&str]) {
    assert_eq!(keys(&run["consistency"]), names.iter().copied().collect());
    let checks = run["consistency"].as_object().expect("checked");
    assert!(checks.values().all(|holds| *holds == true), "{run}");
}

const BALANCES: [&str; 5] =
    ["branches_tellers", "branches_history", "tellers_history", "accounts_history", "population"];

#[test]
fn tpcb_reports_the_documented_keys_and_engines_agree() {
    let scale = ["--branches", "2", "--accounts", "50", "--txns", "300", "--workers", "3"];
    let more = ["--check", "--domain", "adr", "--repeat", "3", "--json", "-"];
    let found = runs(&bench("tpcb", &[&scale[..], &more].concat()));
    assert!(found.len() >= 6);
    for run in &found {
        assert_eq!(keys(run), expected_keys(&["branches", "accounts"]));
        assert_eq!((&run["workload"], &run["as"]), (&"tpcb".into(), &"specification".into()));
        assert_eq!((&run["branches"], &run["accounts"]), (&2.into(), &50.into()));
        assert_eq!((&run["workers"], &run["partitions"]), (&3.into(), &1.into()));
        // Three rounds, and one that was counted.
        assert_eq!(run["tuples"], 2 * 61 + 4 * 300);
        assert_eq!((&run["aborted"], &run["conflicts"]), (&0.into(), &0.into()), "{run}");
        // Where transactions run at once, one may have to begin again.
        let name = run["engine"].as_str().expect("a name");
        let at_once = name.starts_with("nv-") || name == "sofort";
        assert!(at_once || run["retries"] == 0, "{run}");
        // At most, the commits of all three workers share a fence.
        assert!(run["per_txn"]["fences"].as_f64().expect("counted") > 0.3, "{run}");
        assert_eq!(run["throughput_spread"]["n"], 3);
        assert_eq!(run["digest"], found[0]["digest"]);
        all_hold(run, &BALANCES);
    }
    // Neither workers nor partitions change the contents.
    let one = ["--branches", "2", "--accounts", "50", "--txns", "300", "--engine", "nvm-inp"];
    let again = runs(&bench("tpcb", &[&one[..], &["--repeat", "3", "--json", "-"]].concat()));
    assert_eq!(again[0]["digest"], found[0]["digest"]);
    assert!(again[0]["consistency"].is_null());
    assert_eq!(again[0]["workers"], 1);
}

/// Peers run the same transactions with three workers, and their balances agree.
#[test]
fn tpcb_has_peers() {
    let few = ["--accounts", "100", "--branches", "2", "--txns", "60", "--workers", "3"];
    let more = ["--engine", "nvm-inp", "--peer", "sqlite,lmdb", "--check", "--json", "-"];
    let runs = runs(&bench("tpcb", &[&few[..], &more[..]].concat()));
    let names: Vec<_> = runs.iter().map(|run| (&run["engine"], &run["peer"])).collect();
    assert_eq!(names[0], (&Value::from("nvm-inp"), &Value::Null));
    assert_eq!(names[1], (&Value::Null, &Value::from("sqlite")));
    assert_eq!(names[2], (&Value::Null, &Value::from("lmdb")));
    for run in &runs {
        all_hold(run, &BALANCES);
        assert_eq!(run["tuples"], runs[0]["tuples"]);
        assert_eq!(run["digest"].is_null(), run["engine"].is_null());
    }
    for (arguments, says) in [
        (["tpcb", "--peer", "redb"], "redb does not run TPC-B: use one of lmdb, sqlite, postgres"),
        (["ycsb", "--peer", "postgres"], "postgres runs TPC-B alone"),
    ] {
        let ran = bench(arguments[0], &arguments[1..]);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.err.contains(says), "{ran:?}");
    }
    let ran = bench("tpcb", &["--peer", "lmdb", "--commit", "grouped"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.err.contains("durable commits"), "{ran:?}");
}

/// SQLite runs the same transactions, and each ends as it does in an engine.
#[test]
fn tatp_has_a_peer() {
    let few = ["--subscribers", "200", "--txns", "1500", "--check", "--json", "-"];
    let both = ["--engine", "nvm-inp", "--peer", "sqlite"];
    let runs = runs(&bench("tatp", &[&few[..], &both[..]].concat()));
    let names: Vec<_> = runs.iter().map(|run| (&run["engine"], &run["peer"])).collect();
    assert_eq!(names[0], (&Value::from("nvm-inp"), &Value::Null));
    assert_eq!(names[1], (&Value::Null, &Value::from("sqlite")));
    assert_eq!(runs[0]["success"], runs[1]["success"]);
    assert_eq!(runs[0]["consistency"], runs[1]["consistency"]);
    assert_eq!(runs[0]["tuples"], runs[1]["tuples"]);
    assert_eq!(runs[0]["aborted"], runs[1]["aborted"]);
    for (arguments, says) in [
        (&["--peer", "lmdb"][..], "lmdb does not run TATP: use sqlite"),
        (&["--peer", "sqlite", "--kill-at", "1"], "--kill-at"),
        (&["--peer", "sqlite", "--engine", "none", "--commit", "grouped"], "durable commits"),
        (&["--peer", "sqlite", "--partitions", "2"], "in one partition"),
    ] {
        let ran = bench("tatp", arguments);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.err.contains(says), "{ran:?}");
    }
}

#[test]
fn tatp_reports_rates_of_success_and_all_engines_agree() {
    let scale = ["--subscribers", "300", "--txns", "2000", "--partitions", "2", "--workers", "2"];
    let found = runs(&bench("tatp", &[&scale[..], &["--check", "--json", "-"]].concat()));
    assert!(found.len() >= 6);
    for run in &found {
        let own = ["subscribers", "latency_us_by_transaction", "success"];
        assert_eq!(keys(run), expected_keys(&own));
        assert_eq!((&run["workload"], &run["subscribers"]), (&"tatp".into(), &300.into()));
        assert_eq!(keys(&run["success"]), BTreeSet::from(KINDS));
        assert_eq!(keys(&run["latency_us_by_transaction"]), BTreeSet::from(KINDS));
        let success = run["success"].as_object().expect("an object");
        let sum = |key: &str| success.values().filter_map(|one| one[key].as_u64()).sum::<u64>();
        // A round, and one that was counted.
        assert_eq!(sum("tries"), 4000);
        assert!((2850..3150).contains(&sum("succeeded")), "{run}");
        assert_eq!(success["get_subscriber_data"]["percent"], 100.0);
        assert_eq!(success["update_location"]["tolerance_percent"], 0.0);
        assert!(run["aborted"].as_u64().expect("a number") > 20, "{run}");
        assert_eq!((&run["digest"], &run["success"]), (&found[0]["digest"], &found[0]["success"]));
        let rows =
            ["subscribers", "access_info", "special_facility", "call_forwarding", "forwarded"];
        all_hold(run, &[&rows[..], &["success_rates"]].concat());
    }
}

#[test]
fn checks_are_named_in_the_text() {
    let ran = bench("tpcb", &["--accounts", "50", "--txns", "200", "--check", "--workers", "2"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for text in ["TPC-B: accounts: 50, branches: 1", "workers: 2", "Workers share", "cow (acc"] {
        assert!(ran.out.contains(text), "{text}: {}", ran.out);
    }
    assert!(ran.out.contains("Contents are alike"), "{}", ran.out);

    let ran = bench("tatp", &["--scale", "1", "--txns", "500", "--engine", "inp,cow", "--check"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for text in ["subscribers: 10,000", "get_new_destination", "100%", "success_rates", "alike"] {
        assert!(ran.out.contains(text), "{text}: {}", ran.out);
    }
    let shared = ["--subscribers", "100", "--txns", "500", "--engine", "inp,cow", "--workers", "3"];
    let ran = bench("tatp", &shared);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.contains("are not compared") && !ran.out.contains("alike"), "{}", ran.out);
}

#[test]
fn what_cannot_be_run_is_refused_with_a_way_out() {
    let refused = |arguments: &[&str], hint: &str| {
        let ran = run(arguments);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.err.contains(hint), "{hint}: {}", ran.err);
    };
    let tpcb = ["bench", "tpcb", "--branches", "2"];
    refused(&[&tpcb[..], &["--partitions", "2"]].concat(), "--as shore-kits");
    refused(&[&tpcb[..], &["--as", "shore"]].concat(), "specification, shore-kits");
    refused(&[&tpcb[..], &["--accounts", "200k"]].concat(), "1 to 100000");
    refused(&[&tpcb[..], &["--peer", "redb"]].concat(), "redb does not run TPC-B");
    refused(
        &["bench", "tpcb", "--as", "shore-kits", "--partitions", "2"],
        "2 partitions for 1 branches",
    );
    let tatp = ["bench", "tatp"];
    refused(&[&tatp[..], &["--subscribers", "1", "--scale", "1"]].concat(), "--scale");
    refused(&[&tatp[..], &["--scale", "1M"]].concat(), "1 to 429496");
    refused(&[&tatp[..], &["--subscribers", "1", "--partitions", "2"]].concat(), "2 partitions");
    let recovery = ["bench", "recovery"];
    refused(&[&recovery[..], &["--branches", "2"]].concat(), "--workload tpcb");
    let tpcb = ["bench", "recovery", "--workload", "tpcb"];
    refused(&[&tpcb[..], &["--tuples", "1k"]].concat(), "--branches");
    refused(&[&tpcb[..], &["--warehouses", "1"]].concat(), "--branches");
    refused(&[&tpcb[..], &["--peer", "lmdb"]].concat(), "peers have YCSB only");
    refused(
        &["bench", "recovery", "--workload", "tpcc", "--branches", "1"],
        "--branches is an option of TPC-B",
    );
}

#[test]
fn what_the_medium_cannot_hold_is_refused_before_it_is_filled() {
    for (workload, size, number) in
        [("tpcb", "--branches", "100M"), ("tatp", "--subscribers", "4G")]
    {
        let ran = bench(workload, &[size, number, "--engine", "nvm-inp"]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        for text in ["TiB", "are free", size, "--path"] {
            assert!(ran.err.contains(text), "{text}: {}", ran.err);
        }
    }
}

#[test]
fn a_killed_process_loses_no_transaction_and_its_balances_agree() {
    killed_processes_lose_no_transaction(FAMILIES, "nvm-inp,nv-disk", "fast,sofort");
}

/// With these engines, with those in two partitions, and with those in groups of commits.
pub(crate) fn killed_processes_lose_no_transaction(engines: &str, parted: &str, grouped: &str) {
    let cases: [&[&str]; 3] = [
        &["--branches", "2", "--workers", "3", "--engine", engines],
        &[
            "--branches",
            "2",
            "--partitions",
            "2",
            "--workers",
            "2",
            "--engine",
            parted,
            "--as",
            "shore-kits",
        ],
        &["--commit", "grouped", "--group", "16", "--workers", "2", "--engine", grouped],
    ];
    for more in cases {
        let arguments = ["bench", "recovery", "--workload", "tpcb", "--txns", "300", "--json", "-"];
        let ran = run(&[&arguments[..], &["--accounts", "100"], more].concat());
        for run in runs(&ran) {
            assert_eq!((&run["lost"], &run["surplus"]), (&0.into(), &0.into()), "{run}");
            assert!(run["acknowledged"].as_u64() >= run["txns"].as_u64(), "{run}");
            assert!(run["tuples"].as_u64() > run["acknowledged"].as_u64(), "{run}");
            assert!(run["branches"].is_u64() && run["warehouses"].is_null(), "{run}");
            all_hold(&run, &BALANCES);
        }
    }
}

/// TATP across a kill, of these engines.
fn outage(engines: &str, more: &[&str]) -> Ran {
    let few = ["--subscribers", "400", "--users", "3", "--kill-at", "0.4", "--engine", engines];
    bench("tatp", &[&few[..], more].concat())
}

/// The processes that were killed in the middle have lost nothing, and the next ones went on; each
/// sample is in the series.
#[test]
fn tatp_goes_on_after_a_kill_with_every_sample() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("series.csv");
    let series = file.to_str().expect("text");
    let until = ["--until", "0.7", "--series", series, "--domain", "adr", "--json", "-"];
    let found = runs(&outage("nvm-inp,sofort", &until));
    let csv = std::fs::read_to_string(&file).expect("written");
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(
        rows[0][..6],
        ["engine", "time_s", "process", "commits", "answers", "throughput_txn_s"]
    );
    for (number, run) in found.iter().enumerate() {
        let own = [
            "subscribers",
            "success",
            "rebuild",
            "kill_at_s",
            "recovery",
            "answered_ms",
            "open_ms",
            "first_answer_ms",
            "first_commit_ms",
            "acknowledged",
            "lost",
            "surplus",
        ];
        assert_eq!(keys(run), expected_keys(&own));
        assert_eq!((&run["workers"], &run["partitions"]), (&3.into(), &1.into()));
        assert_eq!((&run["lost"], &run["surplus"]), (&0.into(), &0.into()), "{run}");
        assert_eq!(run["rebuild"].as_str(), [None, Some("background")][number]);
        let rows_are =
            ["subscribers", "access_info", "special_facility", "call_forwarding", "forwarded"];
        all_hold(run, &[&rows_are[..], &["success_rates"]].concat());
        let success = run["success"].as_object().expect("an object");
        let sum = |key: &str| success.values().filter_map(|one| one[key].as_u64()).sum::<u64>();
        assert_eq!(run["acknowledged"], sum("tries"));
        assert_eq!(run["txns"], run["acknowledged"]);
        // Four samples before the kill and three after it hold all that was counted before it.
        let ours = rows.iter().filter(|row| row[0] == run["engine"]).collect::<Vec<_>>();
        let processes: Vec<&str> = ours.iter().map(|row| row[2]).collect();
        assert_eq!(processes, ["0", "0", "0", "0", "1", "1", "1"]);
        let commits = |column: usize| {
            ours.iter().map(|row| row[column].parse::<u64>().expect("a number")).sum::<u64>()
        };
        // Each user had an answer before the first sample. At a kill each may have counted a success or an
        // answer whose transaction is not counted yet.
        let (answers, all) = (commits(4), sum("tries"));
        assert!(3 <= answers && answers <= all + 3, "{csv}");
        assert!(commits(3) <= sum("succeeded") + 3, "{csv}");
        let built = ours[0][6];
        assert_eq!(built, ["", "100.00"][number], "{csv}");
    }
}

#[test]
fn indexes_can_be_built_before_the_first_transaction() {
    let found = runs(&outage("sofort", &["--rebuild", "first", "--json", "-"]));
    assert_eq!((&found[0]["rebuild"], &found[0]["lost"]), (&"first".into(), &0.into()));
    assert_eq!(found[0]["background"], "thread");
    let ran = outage("sofort", &[]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for text in ["across a kill", "users: 3", "delta s", "success_rates): hold"] {
        assert!(ran.out.contains(text), "{text}: {}", ran.out);
    }
}

/// With indexes in persistent memory, the runs say so and nothing is built after a kill.
#[test]
fn a_placement_is_that_of_the_run_and_of_its_report() {
    let placed = ["--placement", "100", "--domain", "adr", "--json", "-"];
    let killed = runs(&outage("nvm-inp,sofort", &[&["--until", "0.7"], &placed[..]].concat()));
    assert_eq!([&killed[0]["placement"], &killed[1]["placement"]], [&Value::Null, &100.into()]);
    assert_eq!((&killed[1]["lost"], &killed[1]["surplus"]), (&0.into(), &0.into()), "{killed:?}");
    let few = ["--engine", "sofort", "--subscribers", "400", "--txns", "2k", "--check"];
    let whole = runs(&bench("tatp", &[&few[..], &placed[..]].concat()));
    assert_eq!(whole[0]["placement"], 100);
    let few = ["--engine", "sofort", "--tuples", "300", "--txns", "500"];
    let again = runs(&bench("recovery", &[&few[..], &placed[..]].concat()));
    assert_eq!((&again[0]["placement"], &again[0]["lost"]), (&100.into(), &0.into()));
    assert!(again[0]["built_percent"].is_null(), "nothing is built: {again:?}");
    let usual = runs(&bench("recovery", &[&few[..], &["--json", "-"]].concat()));
    assert!(usual[0]["built_percent"].is_number(), "{usual:?}");
}

#[test]
fn a_kill_that_cannot_be_run_is_refused_before_anything_is_made() {
    let refused = |more: &[&str], hint: &str| {
        let ran = bench("tatp", &[&["--subscribers", "400"], more].concat());
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.err.contains(hint), "{hint}: {}", ran.err);
    };
    refused(&["--rebuild", "first"], "--kill-at");
    refused(&["--series", "x.csv"], "--kill-at");
    refused(&["--kill-at", "0"], "0.3 to 86400");
    refused(&["--kill-at", "1", "--txns", "5"], "--txns");
    refused(&["--users", "2", "--workers", "2"], "--workers");
    refused(&["--kill-at", "1", "--until", "1"], "not after --kill-at 1");
    refused(&["--kill-at", "1", "--commit", "grouped"], "--commit durable");
    refused(&["--kill-at", "1", "--repeat", "2"], "--repeat");
    let other = ["--engine", "inp,sofort", "--kill-at", "1", "--rebuild", "first"];
    refused(&other, "--rebuild is an option of sofort");
    refused(&["--engine", "inp", "--placement", "40"], "--placement is an option of sofort");
    refused(&["--placement", "101"], "0..=100");
    let same = ["--kill-at", "1", "--series", "Cargo.toml.x", "--json", "Cargo.toml.x"];
    refused(&same, "name another file");
    let ran = bench("tatp", &["--kill-at", "1", "--series", "/no/such/folder/x.csv"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains("/no/such/folder/x.csv"), "{ran:?}");
    assert!(!std::path::Path::new("Cargo.toml.x").exists());
}
