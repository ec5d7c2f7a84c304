//! `perdura bench sqlite`, as programs read it.

use std::process::Stdio;

use serde_json::Value;

use crate::common::{Ran, perdura, run};
use crate::page_run::keys_with;
use crate::report::{keys, runs};

const OWN_KEYS: [&str; 4] = ["sqlite", "prepared", "exclusive", "vfs_commits"];

fn bench(arguments: &[&str]) -> Ran {
    run(&[&["bench", "sqlite", "--records", "100", "--txns", "50"], arguments].concat())
}

#[test]
fn each_cell_is_a_run_with_the_documented_keys() {
    let found = runs(&bench(&["--domain", "adr", "--repeat", "2", "--json", "-"]));
    assert_eq!(found.len(), 11 * 4 * 2);
    for cell in found.chunks(11) {
        let names: Vec<&Value> = cell.iter().map(|run| &run["engine"]).collect();
        assert_eq!(
            names,
            [
                "wal",
                "wal-diff",
                "lean",
                "fash1",
                "fash",
                "fast",
                "nvwal",
                "full",
                "stock-wal",
                "stock-wal-lines",
                "stock-journal"
            ]
        );
        for run in cell {
            assert_eq!(keys(run), keys_with(&OWN_KEYS));
            assert_eq!(run["workload"], "sqlite");
            for same in ["digest", "mix", "keys", "user_bytes", "sqlite"] {
                assert_eq!(run[same], cell[0][same], "{same}");
            }
            let rows = match run["mix"].as_str() {
                Some("insert") => 150,
                Some("update" | "select") => 100,
                _ => 50,
            };
            assert_eq!(run["user_bytes"], rows * 108);
            assert_eq!(run["throughput_spread"]["n"], 2);
            assert_eq!(run["baseline"], "stock-wal");
            let ours = ["wal", "wal-diff", "lean", "fash1", "fash", "fast", "nvwal", "full"]
                .contains(&run["engine"].as_str().expect("a name"));
            let (lines, reads) = (run["engine"] == "stock-wal-lines", run["mix"] == "select");
            assert_eq!(run["modelled"], ours || lines);
            assert_eq!(run["domain"], if ours || lines { "adr" } else { "process" });
            let commits = if reads { 0 } else { 50 };
            assert_eq!(run["vfs_commits"], if ours { commits.into() } else { Value::Null });
            let counts = ["flushed_lines", "fences", "bytes_logged"];
            for count in counts.map(|count| &run["per_txn"][count]) {
                // In place nothing is logged, and who reads does nothing of it.
                let least = if run["engine"] == "fast" || reads { 0.0 } else { 1.0 };
                let counted = count.as_f64().is_some_and(|count| count >= least);
                assert_eq!(counted, ours || lines, "{run}");
                assert!(!reads || count.as_f64().unwrap_or(0.0) == 0.0, "{run}");
            }
            for none in ["bytes_persisted", "file_bytes", "syncs"] {
                assert!(run["per_txn"][none].is_null(), "{none} is not counted");
            }
        }
        let baseline = cell.iter().find(|run| run["engine"] == "stock-wal").expect("a baseline");
        assert_eq!(baseline["throughput_over_baseline"], 1.0);
    }
}

#[test]
fn sizes_and_forms_of_transactions_are_cells() {
    let cells = ["--mode", "fash1,stock-journal", "--mix", "update", "--keys", "random"];
    let sizes = ["--record", "16,1000", "--per-txn", "1,8", "--page", "1024", "--prepared"];
    let found = runs(&bench(&[&cells[..], &sizes, &["--exclusive", "--json", "-"]].concat()));
    assert_eq!(found.len(), 2 * 2 * 2);
    for run in &found {
        assert_eq!((&run["prepared"], &run["exclusive"]), (&true.into(), &true.into()));
        assert_eq!(run["baseline"], "fash1");
    }
    let table = bench(&["--mode", "full", "--mix", "insert", "--keys", "ascending"]);
    assert_eq!(table.code, Some(0), "{table:?}");
    for word in ["x full", "lines/txn", "ascending", "p99 us"] {
        assert!(table.out.contains(word), "{word}: {}", table.out);
    }
}

#[test]
fn what_is_impossible_is_refused() {
    for (arguments, says) in [
        (&["--mode", "log"][..], "`log` is no mode"),
        (&["--mix", "read"], "`read` is no operation"),
        (&["--keys", "descending"], "`descending` is no order of keys"),
        (&["--mode", "full", "--baseline", "fash1"], "--baseline fash1: it does not run"),
        (&["--mix", "delete", "--per-txn", "3"], "load more with --records"),
        (&["--page", "1000"], "a power of two"),
        (&["--mode", "wal-diff", "--domain", "eadr"], "wal-diff is for --domain adr, not eadr"),
    ] {
        let ran = bench(arguments);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.err.contains(says), "{arguments:?}: {}", ran.err);
    }
}

/// The keys of a run with readers alone.
const READER_KEYS: [&str; 6] = [
    "readers",
    "processes",
    "reads_txn_s",
    "reads_spread",
    "read_latency_us",
    "reads_over_baseline",
];

#[test]
fn writer_and_readers_are_threads_or_processes() {
    for (processes, form) in
        [(false, &["--readers", "2"][..]), (true, &["--readers", "2", "--processes"])]
    {
        let modes = ["--mode", "wal,fash1,stock-wal", "--keys", "random", "--repeat", "2"];
        let found = runs(&bench(&[&modes[..], form, &["--json", "-"]].concat()));
        assert_eq!(found.len(), 2 * 3, "inserts and updates");
        for cell in found.chunks(3) {
            for run in cell {
                assert_eq!(keys(run), keys_with(&[&OWN_KEYS[..], &READER_KEYS].concat()));
                assert_eq!((&run["readers"], &run["processes"]), (&2.into(), &processes.into()));
                for same in ["digest", "mix", "user_bytes"] {
                    assert_eq!(run[same], cell[0][same], "{same}");
                }
                let rows = if run["mix"] == "insert" { 150 } else { 100 };
                assert_eq!(run["user_bytes"], rows * 108);
                let ours = run["engine"] != "stock-wal";
                assert_eq!(run["vfs_commits"], if ours { 50.into() } else { Value::Null });
                for spread in ["throughput_spread", "reads_spread"] {
                    assert_eq!(run[spread]["n"], 2, "{spread}");
                }
                let rate = |key: &str| run[key].as_f64().expect("a number");
                assert!(rate("throughput_txn_s") > 0.0 && rate("reads_txn_s") >= 0.0, "{run}");
            }
            let baseline = cell.iter().find(|run| run["engine"] == "stock-wal").expect("it runs");
            assert_eq!(baseline["throughput_over_baseline"], 1.0);
            let ratio = &baseline["reads_over_baseline"];
            let read = baseline["reads_txn_s"].as_f64() > Some(0.0);
            assert_eq!(*ratio, if read { 1.0.into() } else { Value::Null });
        }
    }
}

/// Enough transactions that readers find time in each mode's span, whatever else runs.
#[test]
fn readers_read_while_the_writer_writes() {
    let cell = ["--mode", "stock-wal", "--mix", "update", "--keys", "ascending", "--prepared"];
    let size = ["--readers", "1", "--processes", "--txns", "20k", "--per-txn", "4"];
    let bench = |more: &[&str]| run(&[&["bench", "sqlite"], &cell[..], &size, more].concat());
    let found = runs(&bench(&["--json", "-"]));
    let run = &found[0];
    assert!(run["reads_txn_s"].as_f64() > Some(0.0), "{run}");
    assert!(run["read_latency_us"]["p99"].as_f64() > Some(0.0), "{run}");
    let table = bench(&[]);
    assert_eq!(table.code, Some(0), "{table:?}");
    for word in ["writes/s", "reads/s", "reads x", "x stock-wal", "1 readers as processes"] {
        assert!(table.out.contains(word), "{word}: {}", table.out);
    }
}

#[test]
fn impossible_readers_are_refused() {
    for (arguments, says) in [
        (&["--processes"][..], "--readers"),
        (&["--readers", "0"], "0 is not in 1..=128"),
        (&["--readers", "2", "--exclusive"], "--exclusive"),
        (&["--readers", "2", "--mix", "select"], "--mix select: with --readers"),
        (&["--readers", "2", "--mix", "insert,delete"], "--mix delete: with --readers"),
        (&["--readers", "2", "--mode", "full", "--baseline", "fash1"], "it does not run"),
    ] {
        let ran = bench(arguments);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.err.contains(says), "{arguments:?}: {}", ran.err);
    }
    let ran = run(&["bench", "sqlite", "--records", "0", "--readers", "1", "--mix", "insert"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.err.contains("no row to read"), "{}", ran.err);
}

/// The processes whose arguments name a directory.
fn processes_about(directory: &str) -> Vec<u32> {
    let about = |pid: &u32| {
        let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let arguments = String::from_utf8_lossy(&arguments).into_owned();
        arguments.contains(directory) && arguments.contains("__sqlite-side")
    };
    let all = std::fs::read_dir("/proc").expect("processes").flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(about).collect()
}

/// Writer and readers end by themselves when the command is killed.
#[test]
fn sides_end_with_a_killed_command() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let path = directory.path().to_str().expect("text");
    let cell = ["--mode", "stock-journal", "--mix", "update", "--keys", "random"];
    let size = ["--txns", "300k", "--readers", "2", "--processes", "--path", path];
    let mut command = perdura();
    command.args(["bench", "sqlite"]).args(cell).args(size);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
    let pause = || std::thread::sleep(std::time::Duration::from_millis(5));
    while processes_about(path).len() < 3 {
        assert!(child.try_wait().expect("known").is_none(), "it has ended before");
        pause();
    }
    child.kill().expect("killed");
    child.wait().expect("ended");
    while !processes_about(path).is_empty() {
        pause();
    }
}

/// On a disk the VFS leaves databases to SQLite, unless an option says otherwise.
#[test]
fn a_run_that_the_vfs_does_not_see_is_an_error() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let path = directory.path().to_str().expect("text");
    let few = |options: &[&str]| {
        let cell = ["--records", "10", "--txns", "3", "--mix", "insert", "--keys", "random"];
        let place = ["--path", path, "--json", "-"];
        run(&[&["bench", "sqlite"], &cell[..], &place, options].concat())
    };
    let natural = runs(&few(&["--mode", "stock-wal"]));
    if natural[0]["domain"] == "disk" {
        let ran = few(&["--mode", "fash1"]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.err.contains("--domain disk"), "{}", ran.err);
        let found = runs(&few(&["--mode", "fash1", "--domain", "disk"]));
        assert_eq!((&found[0]["domain"], &found[0]["modelled"]), (&"disk".into(), &false.into()));
    }
}
