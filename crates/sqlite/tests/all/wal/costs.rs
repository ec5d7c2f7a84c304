//! The cost of a commit in WAL mode: system calls, fences, and flushed lines.

use std::io::Write as _;

use super::*;
use crate::children::child;
use crate::failing::child::Process;
use crate::ptrace::calls_of;

/// Two connections take turns. Checkpoints are among what is counted.
#[test]
fn steady_state_makes_no_system_call() {
    let calls = calls_in_steady_state("steady", Path::to_owned);
    assert!(calls.is_empty(), "{} calls: {:?}", calls.len(), &calls[..calls.len().min(50)]);
}

/// In rollback mode the names are looked for once a tick of the clock, and nothing else is asked.
#[test]
fn steady_state_in_rollback_mode_looks_for_names_alone() {
    let (looks, others): (Vec<_>, Vec<_>) =
        calls_in_steady_state("steady-rollback", Path::to_owned)
            .into_iter()
            .partition(|call| [libc::SYS_statx, libc::SYS_newfstatat].contains(call));
    assert!(others.is_empty(), "{} calls: {:?}", others.len(), &others[..others.len().min(50)]);
    // Of 10,000 transactions, half of which write.
    assert!(looks.len() < 2_500, "{}", looks.len());
}

/// The calls of 10,000 transactions, but for those that are SQLite's for memory.
pub(super) fn calls_in_steady_state(name: &str, uri: impl Fn(&Path) -> PathBuf) -> Vec<i64> {
    let directory = folder();
    let path = directory.path().join("db");
    let mut process = Process::spawn(child(name).arg(uri(&path)));
    let go = || process.stdin.write_all(b"\n").unwrap();
    let mut calls = calls_of(&mut process.child, process.thread, go);
    process.child.kill().unwrap();
    process.child.wait().unwrap();
    // It is let go by a read, and allocates memory for its statements.
    let others = [
        libc::SYS_read,
        libc::SYS_brk,
        libc::SYS_mprotect,
        libc::SYS_madvise,
        libc::SYS_restart_syscall,
    ];
    calls.retain(|call| !others.contains(call));
    calls
}

pub(super) fn in_domain(path: &Path, domain: &str) -> Connection {
    open_wal(Path::new(&format!("file:{}?perdura_domain={domain}", path.display())))
}

fn counts(connection: &Connection) -> [u64; 4] {
    ["commits", "fences", "lines", "wal_frames"].map(|name| stats(connection, name))
}

#[test]
fn commit_takes_one_fence_and_its_frames_lines() {
    for (domain, synchronous, fences) in
        [("adr", "FULL", 100), ("adr", "NORMAL", 0), ("eadr", "FULL", 0), ("process", "FULL", 0)]
    {
        let directory = folder();
        let path = directory.path().join("db");
        let one = in_domain(&path, domain);
        one.execute_batch(&format!(
            "PRAGMA synchronous = {synchronous}; PRAGMA wal_autocheckpoint = 0;
             CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT); INSERT INTO t VALUES(0, '')"
        ))
        .unwrap();
        let before = counts(&one);
        for number in 0..100 {
            one.execute("UPDATE t SET b = ?1", [format!("{number:0100}")]).unwrap();
        }
        let after = counts(&one);
        let [commits, fenced, lines, frames] = [0, 1, 2, 3].map(|at| after[at] - before[at]);
        assert_eq!((commits, fenced, frames), (100, fences, 100), "{domain} {synchronous}");
        assert!(lines <= 67 * fences, "{domain} {synchronous}: {lines}");
        assert!(lines >= 64 * fences, "{domain} {synchronous}: {lines}");
        // A checkpoint flushes the pages, and what no commit has flushed of the log.
        let before = counts(&one);
        assert_eq!(checkpoint(&one, "PASSIVE").0, 0);
        let after = counts(&one);
        let [fenced, lines] = [1, 2].map(|at| after[at] - before[at]);
        let flushes = domain == "adr";
        assert_eq!(fenced, if flushes { 3 } else { 0 }, "{domain} {synchronous}");
        assert_eq!(lines >= 64, flushes, "{domain} {synchronous}: {lines}");
        assert_eq!(lines > 64 * 100, synchronous == "NORMAL", "{domain} {synchronous}: {lines}");
        one.close().unwrap();
        closed(&path, 2);
    }
}

/// With `synchronous=NORMAL` one connection's checkpoint flushes what another one has stored.
#[test]
fn checkpoint_flushes_what_others_stored() {
    let directory = folder();
    let path = directory.path().join("db");
    let (one, other) = (in_domain(&path, "adr"), in_domain(&path, "adr"));
    for connection in [&one, &other] {
        let set = "PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 0";
        connection.execute_batch(set).unwrap();
    }
    one.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)").unwrap();
    for round in 1..4 {
        let before = counts(&other)[2];
        for key in 0..50 {
            one.execute("INSERT INTO t VALUES(?1, hex(zeroblob(50)))", [round * 100 + key])
                .unwrap();
        }
        checkpoint(&other, "RESTART");
        let lines = counts(&other)[2] - before;
        assert!(lines >= 50 * 64, "{lines}");
    }
    // The header of a log alone is durable at once.
    assert!(counts(&one)[2] < 50, "it has only stored");
}

/// Frames that a rolled back transaction has spilled are flushed once at most, and not with each later commit.
#[test]
fn rolled_back_frames_are_flushed_once() {
    let directory = folder();
    let path = directory.path().join("db");
    let one = in_domain(&path, "adr");
    one.execute_batch(
        "PRAGMA wal_autocheckpoint = 0; PRAGMA cache_size = 5;
         CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT); INSERT INTO t VALUES(0, '')",
    )
    .unwrap();
    let before = counts(&one)[3];
    one.execute_batch("BEGIN").unwrap();
    for key in 1..200 {
        one.execute("INSERT INTO t VALUES(?1, hex(zeroblob(1500)))", [key]).unwrap();
    }
    one.execute_batch("ROLLBACK").unwrap();
    assert!(counts(&one)[3] - before > 100, "it has spilled");
    let update = |number: u64| {
        let before = counts(&one)[2];
        one.execute("UPDATE t SET b = ?1", [format!("{number:0100}")]).unwrap();
        counts(&one)[2] - before
    };
    update(0);
    for number in 1..50 {
        let lines = update(number);
        assert!((64..=67).contains(&lines), "{number}: {lines}");
    }
}
