//! The benchmarks and the tour at tiny sizes: their reports and the files that they leave. No test
//! checks a time.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::common::{Ran, copy_program, perdura, run};
use crate::report::keys;

const RUN_KEYS: [&str; 26] = [
    "workload",
    "mix",
    "skew",
    "tuples",
    "txns",
    "partitions",
    "domain",
    "modelled",
    "commit",
    "background",
    "statements",
    "inline",
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
    "fifths",
    "engine",
    "peer",
];
const RECOVERY_KEYS: [&str; 27] = [
    "mix",
    "skew",
    "partitions",
    "domain",
    "modelled",
    "commit",
    "group",
    "seed",
    "background",
    "workload",
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
    "opening_us",
    "built_percent",
    "reads_us",
    "engine",
    "peer",
];

/// Every kind of peer, and every database among them that is in this build.
const PEERS: &str = if cfg!(feature = "rocksdb") {
    "hashmap,floor-redo,lmdb,sqlite,redb,fjall,rocksdb"
} else {
    "hashmap,floor-redo,lmdb,sqlite,redb,fjall"
};

/// Those that can be killed and reopened.
const DURABLE_PEERS: &str = PEERS.split_at("hashmap,".len()).1;

/// The keys of a run: it has an engine or a peer.
fn expected<'a>(all: &[&'a str], run: &Value) -> BTreeSet<&'a str> {
    let absent = if run.get("engine").is_some() { "peer" } else { "engine" };
    all.iter().copied().filter(|key| *key != absent).collect()
}

/// The runs of a report, whose other keys are right.
fn runs(ran: &Ran) -> Vec<Value> {
    let runs = crate::report::runs(ran);
    let report: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(keys(&report), BTreeSet::from(["perdura", "host", "runs"]));
    let host = BTreeSet::from(["cpu", "cores", "flush", "medium", "kernel"]);
    assert_eq!(keys(&report["host"]), host);
    runs
}

/// Runs in a directory of its own, which is empty afterwards.
fn run_in_empty(arguments: &[&str]) -> Ran {
    // Not on a disk, if that can be: engines and peers sync after each transaction.
    let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let directory = directory.expect("a directory");
    let path = directory.path().to_str().expect("text");
    let ran = run(&[arguments, &["--path", path]].concat());
    assert_eq!(left_in(directory.path()), Vec::<String>::new());
    ran
}

fn left_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("readable");
    entries.map(|entry| entry.expect("readable").file_name().display().to_string()).collect()
}

#[test]
fn ycsb_writes_exactly_the_documented_keys() {
    let ran = run_in_empty(&[
        "bench",
        "ycsb",
        "--engine",
        "all",
        "--peer",
        PEERS,
        "--tuples",
        "300",
        "--txns",
        "1k",
        "--mix",
        "read-only,write-heavy",
        "--domain",
        "adr",
        "--repeat",
        "3",
        "--json",
        "-",
    ]);
    let runs = runs(&ran);
    assert_eq!(runs.len(), 2 * (perdura::EngineKind::ALL.len() + PEERS.split(',').count()));
    for run in &runs {
        assert_eq!(keys(run), expected(&RUN_KEYS, run));
        assert_eq!(keys(&run["throughput_spread"]), BTreeSet::from(["min", "max", "n"]));
        assert_eq!(keys(&run["latency_us"]), BTreeSet::from(["p50", "p95", "p99", "max"]));
        let counted =
            ["flushed_lines", "fences", "bytes_persisted", "bytes_logged", "file_bytes", "syncs"];
        assert_eq!(keys(&run["per_txn"]), BTreeSet::from(counted));
        let parts = ["table", "index", "log", "checkpoint", "other"];
        assert_eq!(keys(&run["footprint_bytes"]), BTreeSet::from(parts));
        assert_eq!(run["throughput_spread"]["n"], 3);
        assert_eq!(run["user_bytes"], 300 * 1008);
        assert!(run["emulated"].is_null() && run["fifths"].is_null());
    }
}

/// Each rate is what threads have done; how much that is says nothing here.
#[test]
fn readers_and_writers_report_the_documented_keys() {
    const KEYS: [&str; 19] = [
        "engine",
        "workload",
        "skew",
        "tuples",
        "readers",
        "writers",
        "domain",
        "modelled",
        "commit",
        "background",
        "seed",
        "seconds",
        "reads_s_alone",
        "reads_s_beside",
        "reads_ratio",
        "writes_s_one",
        "writes_s_all",
        "writes_s_beside",
        "writes_ratio",
    ];
    let line = "bench ycsb --engine cow,nvm-inp --tuples 200 --phase-ms 20 --json -";
    let both = run_in_empty(
        &[&line.split(' ').collect::<Vec<_>>()[..], &["--readers", "2", "--writers", "2"]].concat(),
    );
    for run in runs(&both) {
        assert_eq!(keys(&run), KEYS.into_iter().collect());
        for rate in ["reads_s_alone", "reads_s_beside", "writes_s_one", "writes_s_all"] {
            assert!(run[rate].as_f64().unwrap() > 0.0, "{rate}: {run}");
        }
    }
    let alone =
        run_in_empty(&[&line.split(' ').collect::<Vec<_>>()[..], &["--writers", "2"]].concat());
    for run in runs(&alone) {
        assert!(run["reads_s_alone"].is_null() && run["writes_s_beside"].is_null(), "{run}");
    }
}

#[test]
fn long_run_is_reported_by_fifths() {
    let arguments = ["bench", "ycsb", "--peer", "lmdb", "--tuples", "100", "--txns", "203"];
    let more = ["--partitions", "2", "--fifths"];
    let arguments = [&arguments[..], &more].concat();
    let ran = run_in_empty(&[&arguments[..], &["--json", "-"]].concat());
    let runs = runs(&ran);
    assert_eq!(runs.len(), perdura::EngineKind::ALL.len() + 1);
    for run in &runs {
        let fifths = run["fifths"].as_array().expect("asked for");
        assert_eq!(fifths.len(), 5);
        for fifth in fifths {
            let known = ["throughput_txn_s", "resident_bytes", "stored_bytes", "pool_bytes"];
            assert_eq!(keys(fifth), BTreeSet::from(known));
            assert!(fifth["resident_bytes"].as_u64() > Some(0), "{run}");
            let (all, pool) = (fifth["stored_bytes"].as_u64(), fifth["pool_bytes"].as_u64());
            assert!(Some(0) < all && pool <= all, "{run}");
            assert_eq!(pool.is_none(), run.get("peer").is_some());
        }
    }
    let ran = run_in_empty(&arguments);
    assert!(ran.out.contains("5th / 2nd") && ran.out.contains("files MiB"), "{}", ran.out);
    let ran = run(&["bench", "ycsb", "--txns", "4", "--tuples", "10", "--fifths"]);
    assert!(ran.code == Some(2) && ran.err.contains("at least 5"), "{ran:?}");
}

#[test]
fn growth_is_measured_by_size_and_names_what_does_not_fit() {
    let arguments = ["bench", "ycsb", "--engine", "inp,nvm-inp", "--peer", "lmdb,sqlite"];
    let arguments = [&arguments[..], &["--mix", "balanced,read-only", "--txns", "500"]].concat();
    let ran = run_in_empty(&[&arguments[..], &["--tuples", "100,1k", "--json", "-"]].concat());
    let runs = runs(&ran);
    assert_eq!(runs.len(), 2 * 2 * 4);
    for run in &runs {
        assert_eq!(keys(run), expected(&RUN_KEYS, run));
        assert!(run["user_bytes"].as_u64() == run["tuples"].as_u64().map(|tuples| tuples * 1008));
    }
    // Ten petabytes: no machine that runs this test has them.
    let ran = run_in_empty(&[&arguments[..], &["--tuples", "100,10T"]].concat());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.contains("Left out: sqlite with 10,000,000,000,000 tuples"), "{}", ran.out);
    let ran = run_in_empty(&[&arguments[..], &["--tuples", "100,10T", "--json", "-"]].concat());
    let report: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(report["runs"].as_array().map(Vec::len), Some(2 * 4));
    let left_out = report["left_out"].as_array().expect("some");
    assert_eq!(left_out.len(), 4);
    for out in left_out {
        let known = ["engine", "peer", "tuples", "needed_bytes", "free_bytes"];
        assert_eq!(keys(out), expected(&known, out));
        assert!(out["needed_bytes"].as_u64() > out["free_bytes"].as_u64(), "{out}");
    }
    let ran = run_in_empty(&[&arguments[..], &["--tuples", "10T,11T"]].concat());
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("nothing fits") && ran.err.contains("Left out"), "{}", ran.err);
}

#[test]
fn what_cannot_fit_is_refused_before_it_begins() {
    let many = ["bench", "ycsb", "--engine", "nvm-inp", "--peer", "hashmap", "--tuples", "10T"];
    let ran = run_in_empty(&many);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    for text in ["10,000,000,000,000 tuples", "are free", "--tuples A,B", "--path"] {
        assert!(ran.err.contains(text), "{ran:?}");
    }
    let alone = ["bench", "ycsb", "--engine", "inp", "--tuples", "10T", "--fifths"];
    let ran = run_in_empty(&alone);
    assert!(ran.code == Some(1) && ran.err.contains("fewer --tuples, or choose"), "{ran:?}");
}

#[test]
fn growth_has_a_column_for_each_size() {
    let ran = run_in_empty(&[
        "bench", "ycsb", "--engine", "nvm-inp", "--tuples", "100,300", "--txns", "500",
    ]);
    assert!(ran.out.contains("Growth: by tuples"), "{}", ran.out);
    let rows: Vec<&str> = ran.out.lines().filter(|line| line.starts_with("nvm-inp")).collect();
    // Two in the table of runs; us, p50, p99, lines, fences and space by size.
    assert_eq!(rows.len(), 2 + 6, "{}", ran.out);
}

#[test]
fn counted_costs_are_those_of_the_engine() {
    let ran = run_in_empty(&[
        "bench",
        "ycsb",
        "--engine",
        "all",
        "--tuples",
        "300",
        "--txns",
        "1k",
        "--mix",
        "read-only,write-heavy",
        "--domain",
        "adr",
        "--json",
        "-",
    ]);
    for run in runs(&ran) {
        let fences = run["per_txn"]["fences"].as_f64().expect("counted");
        match run["mix"].as_str() {
            Some("read-only") => assert!(fences.abs() < 1e-9, "{run}"),
            _ => assert!(fences > 0.5, "{run}"),
        }
        // CoW has no log, and only NVM-InP, NVM-CoW and NVM-Log log nothing but what undoes. FAST logs
        // what it does not commit in place.
        let logged = run["per_txn"]["bytes_logged"].as_f64().expect("counted");
        if run["engine"] == "fast" {
            continue;
        }
        let writes = run["mix"] != "read-only" && run["engine"] != "cow";
        assert_eq!(logged > 1.0, writes, "{run}");
    }
}

#[test]
fn ycsb_runs_peers_alone_in_groups_and_in_partitions() {
    let ran = run_in_empty(&[
        "bench",
        "ycsb",
        "--engine",
        "none",
        "--peer",
        "btreemap,floor-redo",
        "--tuples",
        "300",
        "--txns",
        "1k",
        "--partitions",
        "2",
        "--workers",
        "2",
        "--json",
        "-",
    ]);
    assert_eq!(runs(&ran).len(), 2);
    let ran = run_in_empty(&[
        "bench",
        "ycsb",
        "--tuples",
        "300",
        "--txns",
        "1k",
        "--commit",
        "grouped",
        "--group",
        "8",
        "--partitions",
        "3",
        "--workers",
        "2",
        "--skew",
        "all",
        "--json",
        "-",
    ]);
    let runs = runs(&ran);
    assert_eq!(runs.len(), 3 * perdura::EngineKind::ALL.len());
    assert!(runs.iter().all(|run| run["commit"] == "grouped" && run["group"] == 8));
}

#[test]
fn table_has_a_ratio_for_each_peer_and_the_file_its_runs() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("out.json");
    let ran = run(&[
        "bench",
        "ycsb",
        "--engine",
        "nvm-inp",
        "--peer",
        "hashmap",
        "--tuples",
        "300",
        "--txns",
        "1k",
        "--json",
        file.to_str().expect("text"),
    ]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.contains("x hashmap"), "{}", ran.out);
    let report: Value =
        serde_json::from_str(&fs::read_to_string(file).expect("written")).expect("JSON");
    assert_eq!(report["runs"].as_array().map(Vec::len), Some(2));
}

#[test]
fn pools_are_kept_where_that_is_wanted() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_str().expect("text");
    let ran = run(&[
        "bench", "ycsb", "--engine", "nvm-inp", "--tuples", "300", "--txns", "20", "--path", path,
        "--keep",
    ]);
    let kept = directory.path().join(&left_in(directory.path())[0]);
    // On standard error: programs read the other one.
    assert_eq!(ran.err, format!("kept: {}\n", kept.display()));
    let kept = kept.join("nvm-inp/pool");
    let ran = run(&["pool", "check", kept.to_str().expect("text")]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.contains("tuples      300"), "{}", ran.out);

    // A benchmark that fails says it too.
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_str().expect("text");
    let ran = run(&["bench", "tpcc", "--warehouses", "60000", "--path", path, "--keep"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let kept = directory.path().join(&left_in(directory.path())[0]);
    assert!(ran.err.contains(&format!("kept: {}\n", kept.display())), "{}", ran.err);
}

#[test]
fn a_killed_process_loses_nothing_that_it_acknowledged() {
    killed_processes_lose_nothing("inp,nvm-cow,nv-disk,fast,sofort");
}

pub(crate) fn killed_processes_lose_nothing(engines: &str) {
    let ran = run_in_empty(&[
        "bench",
        "recovery",
        "--engine",
        engines,
        "--peer",
        "lmdb",
        "--tuples",
        "300",
        "--txns",
        "500,2k",
        "--mix",
        "write-heavy",
        "--json",
        "-",
    ]);
    let runs = runs(&ran);
    assert_eq!(runs.len(), 2 * (engines.split(',').count() + 1));
    for run in &runs {
        assert_eq!(keys(run), expected(&RECOVERY_KEYS, run));
        assert_eq!((&run["lost"], &run["surplus"]), (&0.into(), &0.into()), "{run}");
        assert!(run["acknowledged"].as_u64() >= run["txns"].as_u64(), "{run}");
        let said = [&run["mix"], &run["skew"], &run["commit"]];
        assert_eq!(said, ["write-heavy", "low", "durable"], "{run}");
        assert_eq!((&run["partitions"], &run["seed"]), (&1.into(), &1.into()), "{run}");
        assert!(run["domain"].is_string() && run["modelled"] == false, "{run}");
        let opening = &run["opening_us"];
        assert_eq!(opening.is_null(), run.get("peer").is_some(), "peers do not say: {run}");
        if let Some(parts) = opening.as_object() {
            assert_eq!(keys(opening), BTreeSet::from(["map", "describe", "mark", "recovery"]));
            let sum: f64 = parts.values().filter_map(Value::as_f64).sum();
            let whole = run["open_ms"].as_f64().expect("timed") * 1000.0;
            assert!(0.0 < sum && sum <= whole, "{run}");
        }
        for read in ["ten", "hundred", "thousand", "again"] {
            assert!(run["reads_us"][read].as_f64() > Some(0.0), "{run}");
        }
        if run["engine"] == "inp" {
            // The log holds what ran since loading, and nine in ten of that are updates.
            let redone = run["redone"].as_u64().expect("reported");
            assert!(redone * 10 > run["acknowledged"].as_u64().expect("counted") * 8, "{run}");
        }
    }
}

#[test]
fn no_peer_loses_what_it_acknowledged() {
    let kill = ["bench", "recovery", "--engine", "none", "--peer", DURABLE_PEERS];
    let sizes = ["--tuples", "300", "--txns", "500", "--json", "-"];
    let grouped = ["--commit", "grouped", "--group", "16", "--partitions", "2"];
    for more in [&[][..], &grouped] {
        let ran = run_in_empty(&[&kill[..], &sizes, more].concat());
        let runs = runs(&ran);
        assert_eq!(runs.len(), DURABLE_PEERS.split(',').count());
        for run in &runs {
            assert_eq!(keys(run), expected(&RECOVERY_KEYS, run));
            assert_eq!((&run["lost"], &run["surplus"]), (&0.into(), &0.into()), "{run}");
            assert!(run["acknowledged"].as_u64() >= run["txns"].as_u64(), "{run}");
        }
    }
}

#[test]
fn groups_and_partitions_survive_a_kill_too() {
    groups_and_partitions_survive("log,nvm-log,nvwal,sofort");
}

pub(crate) fn groups_and_partitions_survive(engines: &str) {
    let ran = run_in_empty(&[
        "bench",
        "recovery",
        "--engine",
        engines,
        "--tuples",
        "300",
        "--txns",
        "1k",
        "--commit",
        "grouped",
        "--group",
        "16",
        "--partitions",
        "2",
        "--repeat",
        "2",
        "--json",
        "-",
    ]);
    for run in runs(&ran) {
        assert_eq!((&run["lost"], &run["surplus"]), (&0.into(), &0.into()), "{run}");
    }
}

/// A process that can acknowledge nothing before it ends cannot be killed in the middle.
#[test]
fn a_group_that_never_gets_full_is_refused() {
    let kill = ["bench", "recovery", "--commit", "grouped"];
    for more in [
        &["--mix", "read-only"][..],
        &["--mix", "read-heavy", "--group", "400000"],
        &["--partitions", "4", "--group", "1000000"],
        &["--workload", "tpcc", "--group", "4000000000"],
    ] {
        let ran = run_in_empty(&[&kill[..], more].concat());
        assert_eq!(ran.code, Some(2), "{more:?}: {ran:?}");
        assert!(ran.err.contains("nothing would be acknowledged"), "{more:?}: {}", ran.err);
    }
}

#[test]
fn a_domain_that_is_modelled_is_said_to_be_after_a_kill_too() {
    let ran = run_in_empty(&[
        "bench", "recovery", "--engine", "inp", "--tuples", "300", "--txns", "500", "--domain",
        "eadr",
    ]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    // On persistent memory with saved caches it is none.
    let modelled = ran.out.contains("this medium does not keep what they promise");
    let text = if modelled { "eadr (modelled)  " } else { "eadr  " };
    assert!(ran.out.contains(text), "{}", ran.out);
}

#[test]
fn a_kill_while_a_thread_works_in_the_background_loses_nothing() {
    let ran = run_in_empty(&[
        "bench",
        "recovery",
        "--engine",
        "all",
        "--background",
        "thread",
        "--tuples",
        "300",
        "--txns",
        "1k",
        "--json",
        "-",
    ]);
    let runs = runs(&ran);
    assert_eq!(runs.len(), perdura::EngineKind::ALL.len());
    for run in runs {
        assert_eq!(run["background"], "thread");
        assert_eq!((&run["lost"], &run["surplus"]), (&0.into(), &0.into()), "{run}");
    }
}

#[test]
fn tour_shows_every_engine_and_peer_and_what_was_omitted() {
    let ran = run(&["tour", "--tuples", "300", "--txns", "1k"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let head = ran.out.lines().find(|line| line.starts_with("store ")).expect("a table");
    let rule = ran.out.lines().find(|line| line.starts_with("-----")).expect("a table");
    let names = perdura::EngineKind::ALL.map(perdura::EngineKind::name);
    for name in names.into_iter().chain(["sqlite", "lmdb"]) {
        let row = ran.out.lines().find(|line| line.split_whitespace().next() == Some(name));
        let row = row.unwrap_or_else(|| panic!("no {name} in {}", ran.out));
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(cells[cells.len() - 3..][..2], ["0", "of"], "lost: {}", ran.out);
        // Every store was killed with work acknowledged, and each has a throughput.
        let number = |cell: &str| cell.replace(',', "").parse::<f64>().unwrap_or(0.0);
        assert!(number(cells[cells.len() - 1]) >= 1000.0, "{}", ran.out);
        let rates = cells[1..cells.len() - 4].iter().filter(|cell| number(cell) > 0.0).count();
        let (engine, counted) = (names.contains(&name), 2);
        assert_eq!(rates, if engine { 2 + counted } else { 1 }, "{name}: {}", ran.out);
        assert!(row.chars().count() <= 100, "{}", ran.out);
    }
    assert!(head.chars().count() <= 100 && rule.chars().count() <= 100, "{}", ran.out);
    assert!(ran.out.contains("process evidence"), "{}", ran.out);
    // What to do next stands at the end: three commands.
    let (_, next) = ran.out.split_once("\nNext:\n").expect("the end");
    let commands = next.lines().filter(|line| line.starts_with("  perdura "));
    assert_eq!((commands.count(), next.lines().count()), (3, 6), "{next}");
}

/// Engines that keep nothing in files would only show what a disk is not for.
#[test]
fn the_tour_on_a_disk_shows_the_engines_for_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let probe = std::fs::File::create(directory.path().join("probe")).expect("a file");
    let medium = perdura::medium_of(&probe).expect("a medium");
    let path = directory.path().to_str().expect("text");
    let ran = run(&["tour", "--path", path, "--tuples", "100", "--txns", "20"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let shown = |name| ran.out.lines().any(|line| line.split_whitespace().next() == Some(name));
    let on_a_disk = medium.natural == perdura::Domain::Disk;
    assert!(shown("nv-disk") && shown("inp") && shown("sqlite"), "{}", ran.out);
    assert_eq!(shown("nvm-inp"), !on_a_disk, "{}", ran.out);
    assert_eq!(ran.out.contains("syncs, file bytes: of a transaction in disk"), on_a_disk);
    let default = if on_a_disk { "nv-disk" } else { "nvm-inp" };
    let compared = format!("Transactions of {default}, equally durable: ");
    assert!(ran.out.contains(&compared) || !on_a_disk, "{}", ran.out);
}

/// It says so before it begins, and where it looked.
#[test]
fn a_tour_that_fits_nowhere_is_refused() {
    let tour = ["tour", "--tuples", "1T"];
    let memory = Path::new("/dev/shm");
    let temporary = std::env::temp_dir();
    let here = if memory.is_dir() { memory } else { &temporary };
    for (ran, place) in [(run_in_empty(&tour), here), (run(&tour), &temporary)] {
        assert_eq!(ran.code, Some(1), "{ran:?}");
        for said in ["this takes about", place.to_str().expect("text"), "--path"] {
            assert!(ran.err.contains(said), "no `{said}` in {}", ran.err);
        }
    }
}

/// A newer program of the same name, or none, keeps no run from its children.
#[test]
fn a_program_that_is_replaced_goes_on() {
    let directory = tempfile::tempdir().expect("a directory");
    let program = directory.path().join("perdura");
    copy_program(&program);
    let child = std::process::Command::new(&program)
        .args(["bench", "recovery", "--engine", "inp", "--tuples", "300", "--txns", "500"])
        .args(["--json", "-", "--path"])
        .arg(directory.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    fs::remove_file(&program).expect("removed");
    let ran = Ran::from(child.wait_with_output().expect("ends"));
    assert_eq!(runs(&ran).len(), 1, "{ran:?}");
}

#[test]
fn every_end_of_the_command_leaves_no_files() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut child = perdura()
        .args(["bench", "ycsb", "--tuples", "1k", "--txns", "100M", "--engine", "nvm-inp"])
        .arg("--path")
        .arg(directory.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    while left_in(directory.path()).is_empty() {
        assert!(child.try_wait().expect("ours").is_none(), "ended early");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().expect("ours");
    child.wait().expect("ours");
    let mut said = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
    while !left_in(directory.path()).is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let missing = directory.path().join("no/such");
    let ran = run(&["bench", "ycsb", "--path", missing.to_str().expect("text")]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("no/such") && ran.err.contains("--path"), "{}", ran.err);
}
