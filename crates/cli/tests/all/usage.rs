//! Help, wrong usage, completions: what needs no pool.

use std::process::Stdio;

use crate::common::{perdura, run};

/// All commands that have a help text.
const COMMANDS: [&[&str]; 34] = [
    &[],
    &["tour"],
    &["bench"],
    &["bench", "ycsb"],
    &["bench", "tpcb"],
    &["bench", "tpcc"],
    &["bench", "tatp"],
    &["bench", "slotted"],
    &["bench", "sqlite"],
    &["bench", "recovery"],
    &["pool"],
    &["pool", "info"],
    &["pool", "check"],
    &["pool", "create"],
    &["pool", "backup"],
    &["pool", "restore"],
    &["pool", "archive"],
    &["pool", "dump"],
    &["pool", "load"],
    &["pool", "options"],
    &["sqlite"],
    &["sqlite", "install"],
    &["sqlite", "check"],
    &["sqlite", "plain"],
    &["sqlite", "shell"],
    &["crash"],
    &["demo"],
    &["lab"],
    &["lab", "list"],
    &["lab", "run"],
    &["lab", "status"],
    &["lab", "report"],
    &["lab", "compare"],
    &["completions"],
];

#[test]
fn every_command_explains_itself_with_an_example() {
    for command in COMMANDS {
        let ran = run(&[command, &["--help"]].concat());
        assert_eq!(ran.code, Some(0), "{command:?}");
        let example = format!("perdura {}", command.join(" "));
        let example = if command.is_empty() { "perdura tour" } else { example.as_str() };
        let shown = ran.out.split("Example:").nth(1).unwrap_or_default();
        assert!(shown.contains(example), "{command:?} shows no example:\n{}", ran.out);
    }
}

fn help(command: &[&str], columns: &str) -> String {
    let done = perdura().args(command).arg("--help").env("COLUMNS", columns).output();
    crate::common::Ran::from(done.expect("the command starts")).out
}

/// The terminal alone wraps a text: no line is broken in the text itself, and examples fit as they
/// are.
#[test]
fn help_is_wrapped_once_in_any_terminal() {
    for command in COMMANDS {
        for columns in [80, 200] {
            let help = help(command, &columns.to_string());
            let long = help.lines().find(|line| line.chars().count() > columns);
            assert_eq!(long, None, "{command:?}");
            let (_, examples) = help.split_once("Example:\n").expect("an example");
            for line in examples.lines() {
                let begins =
                    ["  perdura ", "  gunzip ", "      "].map(|begin| line.starts_with(begin));
                assert!(begins.contains(&true), "{command:?} at {columns}: {line}");
            }
        }
        let wide = help(command, "100000");
        let (text, _) = wide.split_once("Example:\n").expect("an example");
        let lines: Vec<&str> = text.lines().collect();
        for pair in lines.windows(2) {
            let is_prose = |line: &str| line.starts_with(char::is_alphanumeric);
            assert!(!(is_prose(pair[0]) && is_prose(pair[1])), "{command:?}: {pair:?}");
        }
    }
}

#[test]
fn help_names_every_option_of_the_benchmarks() {
    let ycsb = run(&["bench", "ycsb", "--help"]).out;
    let recovery = run(&["bench", "recovery", "--help"]).out;
    for option in [
        "engine",
        "mix",
        "skew",
        "tuples",
        "txns",
        "update-columns",
        "partitions",
        "workers",
        "domain",
        "commit",
        "group",
        "background",
        "path",
        "keep",
        "seed",
        "repeat",
        "peer",
        "json",
    ] {
        assert!(ycsb.contains(&format!("--{option}")), "ycsb --{option}");
        assert!(recovery.contains(&format!("--{option}")), "recovery --{option}");
    }
    assert!(recovery.contains("--workload"));
    let tpcc = run(&["bench", "tpcc", "--help"]).out;
    for option in ["warehouses", "items", "remote", "txns", "check", "engine", "partitions", "json"]
    {
        assert!(tpcc.contains(&format!("--{option}")), "tpcc --{option}");
    }
    let tpcb = run(&["bench", "tpcb", "--help"]).out;
    for option in ["branches", "scale", "accounts", "as", "txns", "workers", "check", "json"] {
        assert!(tpcb.contains(&format!("--{option}")), "tpcb --{option}");
    }
    let tatp = run(&["bench", "tatp", "--help"]).out;
    for option in ["subscribers", "scale", "as", "txns", "workers", "check", "json"] {
        assert!(tatp.contains(&format!("--{option}")), "tatp --{option}");
    }
    for test_only in ["--customers", "--update-columns"] {
        assert!(!tpcc.contains(test_only), "{tpcc}");
    }
    let hidden = run(&["tour", "--help"]).out;
    assert!(!hidden.contains("--tuples"), "{hidden}");
}

/// The whole text, to the letter: it says what a newcomer is about to run.
#[test]
fn the_help_of_the_tour_says_what_it_does() {
    assert_eq!(
        help(&["tour"], "100000"),
        "\
Show in under a minute what Perdura does: measure every engine beside SQLite and LMDB, kill, reopen, verify

Usage: perdura tour [OPTIONS]

Options:
      --path <DIR>  Directory to make the pools in [default: /dev/shm if it has room for them, else the directory for temporary files]
  -h, --help        Print help

Each engine gets a database in the domain adr, modelled unless the medium is persistent memory, and one in process. SQLite and LMDB get one each, at their durable settings. All have 20,000 tuples of 1 KB and run 40,000 transactions of YCSB, half of them updates, each durable by itself, on one thread: three times in turns, of which the median counts. Flushes and fences are counted apart. Then a process with another database of each is killed with SIGKILL in the middle of its work, and a fresh process looks for every acknowledged transaction. Nothing is left of it.

On a disk the engines are those whose data or log are files, in the domain disk, a run has 1,000 transactions, and syncs and written bytes are counted.

Exit code 1: a store failed, or lost what it had acknowledged.

Example:
  perdura tour
"
    );
}

#[test]
fn wrong_usage_has_exit_code_2() {
    for arguments in [
        &[] as &[&str],
        &["fly"],
        &["bench"],
        &["bench", "ycsb", "--engine", "ipn"],
        &["bench", "ycsb", "--engine", "none"],
        &["bench", "ycsb", "--engine", ""],
        &["bench", "ycsb", "--peer", "oracle"],
        &["bench", "ycsb", "--mix", "mixed"],
        &["bench", "ycsb", "--mix", ""],
        &["bench", "ycsb", "--skew", "round"],
        &["bench", "ycsb", "--tuples", "0"],
        &["bench", "ycsb", "--tuples", "2X"],
        &["bench", "ycsb", "--tuples", "1k,x"],
        &["bench", "ycsb", "--tuples", "1k,2k", "--fifths"],
        &["bench", "ycsb", "--tuples", "3", "--partitions", "4"],
        &["bench", "ycsb", "--partitions", "0"],
        &["bench", "ycsb", "--workers", "0"],
        &["bench", "ycsb", "--update-columns", "11"],
        &["bench", "ycsb", "--domain", "cloud"],
        &["bench", "ycsb", "--commit", "later"],
        &["bench", "ycsb", "--group", "7"],
        &["bench", "ycsb", "--repeat", "0"],
        &["bench", "ycsb", "--json", ""],
        &["bench", "recovery", "--workload", "tpch"],
        &["bench", "recovery", "--peer", "hashmap"],
        &["bench", "recovery", "--txns", "1,x"],
        &["pool"],
        &["pool", "info"],
        &["pool", "create", "x"],
        &["pool", "backup", "x"],
        &["pool", "backup", "x", "y", "z"],
        &["pool", "restore", "x"],
        &["pool", "restore", "x", "y", "--engine", "ipn"],
        &["pool", "restore", "x", "y", "--domain", "cloud"],
        &["pool", "restore", "x", "y", "--partitions", "0"],
        &["pool", "restore", "x", "y", "--until", "end"],
        &["pool", "archive", "x"],
        &["pool", "archive", "x", "y", "--end"],
        &["pool", "dump"],
        &["pool", "dump", "x", "--table"],
        &["pool", "load", "x"],
        &["pool", "load", "x", "y", "--batch", "0"],
        &["pool", "load", "x", "y", "--existing", "perhaps"],
        &["pool", "load", "x", "y", "--accept-loss"],
        &["completions", "cmd.exe"],
    ] {
        let ran = run(arguments);
        assert_eq!(ran.code, Some(2), "{arguments:?}: {ran:?}");
        assert!(!ran.err.is_empty(), "{arguments:?} says nothing");
    }
}

#[cfg(not(feature = "rocksdb"))]
#[test]
fn a_peer_that_is_not_in_the_build_says_how_to_get_it() {
    for bench in ["ycsb", "recovery"] {
        let ran = run(&["bench", bench, "--engine", "none", "--peer", "lmdb,rocksdb"]);
        assert_eq!(ran.code, Some(1));
        for word in ["rocksdb is not in this build", "librocksdb-dev", "--features rocksdb"] {
            assert!(ran.err.contains(word), "{}", ran.err);
        }
    }
}

#[test]
fn completions_exist_for_the_common_shells() {
    for shell in ["bash", "zsh", "fish"] {
        let ran = run(&["completions", shell]);
        assert_eq!(ran.code, Some(0));
        assert!(ran.out.contains("recovery"), "{shell}");
    }
}

/// A standard error that takes nothing leaves the exit code as it is.
#[test]
fn a_full_standard_error_changes_nothing() {
    for (arguments, code) in [(&["pool", "info", "/nowhere"][..], 1), (&["lab", "run", "P9"], 2)] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a device");
        let status = perdura().args(arguments).stderr(full).status().expect("the command starts");
        assert_eq!(status.code(), Some(code), "{arguments:?}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child = perdura()
        .args(["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    drop(child.stdout.take());
    let ran = crate::common::Ran::from(child.wait_with_output().expect("ends"));
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
}
