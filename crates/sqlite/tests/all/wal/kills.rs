//! Processes in WAL mode that are killed. What they leave is recovered by this VFS, or by stock SQLite.

use std::io::{BufRead, BufReader, Write as _};

use super::*;
use crate::children::child;
use crate::failing::child::Process;
use crate::process_kills::Writers;
use crate::ptrace::{Call, End, kill_at};

/// Kills `writers` processes in each round. Stock SQLite and this VFS open in turn what they leave.
pub(crate) fn kill_in_rounds(writers: i64, rounds: usize, seed: u64) {
    let directory = folder();
    let path = directory.path().join("db");
    let connection = open_wal(&path);
    connection.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)").unwrap();
    connection.close().unwrap();
    let mut writers = Writers::new(writers, seed);
    for round in 0..rounds {
        writers.kill(|_| with_wal(&path), round);
        assert!(log_of(&path).exists(), "round {round}");
        let connection =
            if round % 2 == 0 { Connection::open(&path).unwrap() } else { open(&path).unwrap() };
        check(&connection);
        writers.check(&connection, round);
        connection.close().unwrap();
        if round % 3 == 0 {
            open(&path).unwrap().close().unwrap();
            closed(&path, 2);
        }
    }
}

#[test]
fn kills_in_wal_mode_lose_no_acknowledged_row() {
    kill_in_rounds(1, 4, 1);
    kill_in_rounds(2, 6, 2);
    kill_in_rounds(4, 4, 3);
}

/// A process that has run statements and keeps its locks.
pub(super) fn hold(path: &Path, sql: &str) -> std::process::Child {
    let mut child = child("holder")
        .arg(with_wal(path))
        .arg(sql)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("=holds")));
    child
}

#[test]
fn locks_of_the_dead_keep_no_other_out() {
    let directory = folder();
    let path = directory.path().join("db");
    let one = open_wal(&path);
    one.execute_batch("CREATE TABLE t(a, b); INSERT INTO t VALUES(1, 'one')").unwrap();
    one.busy_timeout(Duration::ZERO).unwrap();
    // A writer.
    let mut writer = hold(&path, "BEGIN IMMEDIATE; INSERT INTO t VALUES(2, 'two')");
    let error = one.execute_batch("BEGIN IMMEDIATE").unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy));
    writer.kill().unwrap();
    writer.wait().unwrap();
    one.execute_batch("INSERT INTO t VALUES(3, 'three')").unwrap();
    assert_eq!(rows(&one).len(), 2);
    // A reader, whose mark limits checkpoints.
    let mut reader = hold(&path, "BEGIN; SELECT * FROM t");
    one.execute_batch("INSERT INTO t VALUES(4, 'four')").unwrap();
    assert_eq!(checkpoint(&one, "TRUNCATE").0, 1);
    reader.kill().unwrap();
    reader.wait().unwrap();
    one.busy_timeout(Duration::from_secs(10)).unwrap();
    assert_eq!(checkpoint(&one, "TRUNCATE").0, 0);
    // A connection in exclusive mode.
    let mut alone = hold(&path, "PRAGMA user_version");
    alone.kill().unwrap();
    alone.wait().unwrap();
    assert_eq!(rows(&one).len(), 3);
    // The lines of the dead are used again.
    let all: Vec<_> = (0..5).map(|_| open_wal(&path)).collect();
    for (key, other) in all.iter().enumerate() {
        other.execute("INSERT INTO t VALUES(?1, 'x')", [key as i64]).unwrap();
    }
    drop(all);
    one.close().unwrap();
    assert_eq!(rows(&closed(&path, 2)).len(), 8);
}

/// A connection without WAL mode that has a dead writer's slot, and so is alive, keeps none of its locks.
#[test]
fn slot_of_a_dead_writer_keeps_no_lock() {
    let directory = folder();
    let path = directory.path().join("db");
    let one = open_wal(&path);
    one.execute_batch("CREATE TABLE t(a, b); INSERT INTO t VALUES(1, 'one')").unwrap();
    one.busy_timeout(Duration::ZERO).unwrap();
    // It keeps the index file in use.
    let idle = open(&path).unwrap();
    let mut writer = hold(&path, "BEGIN IMMEDIATE; INSERT INTO t VALUES(2, 'two')");
    writer.kill().unwrap();
    writer.wait().unwrap();
    assert_eq!(journal_mode(&one, "delete"), "delete");
    let off = open(&PathBuf::from(format!("file:{}?perdura_wal=off", path.display()))).unwrap();
    off.busy_timeout(Duration::ZERO).unwrap();
    assert_eq!(rows(&off).len(), 1);
    assert_eq!(journal_mode(&one, "wal"), "wal");
    one.execute_batch("INSERT INTO t VALUES(3, 'three')").unwrap();
    assert_eq!((rows(&one).len(), rows(&idle).len()), (2, 2));
    drop((off, idle));
    one.close().unwrap();
    assert_eq!(rows(&closed(&path, 2)).len(), 2);
}

/// Killed at any call about a file, a change of the journal mode leaves a database that this VFS opens, with all rows
/// so far, and that can change its mode.
#[test]
fn killed_change_of_the_mode_can_be_repeated() {
    let mut found = [0; 7];
    for number in 1.. {
        let directory = folder();
        let path = directory.path().join("db");
        let one = open(&path).unwrap();
        one.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)").unwrap();
        for key in 1..4 {
            one.execute("INSERT INTO t VALUES(?1, 'x')", [key]).unwrap();
        }
        one.close().unwrap();
        let mut process = Process::spawn(child("switcher").arg(&path));
        let go = || process.stdin.write_all(b"\n").unwrap();
        let end = kill_at(&mut process.child, process.thread, number, Call::is_of_files, go);
        let one = open(&path).unwrap();
        one.busy_timeout(Duration::from_secs(10)).unwrap();
        check(&one);
        let keys: Vec<i64> = rows(&one).into_iter().map(|row| row.0).collect();
        assert_eq!(keys, (1..=keys.len() as i64).collect::<Vec<_>>(), "call {number}");
        found[keys.len()] += 1;
        for mode in ["delete", "wal"] {
            assert_eq!(journal_mode(&one, mode), mode, "call {number}");
            one.execute_batch("INSERT INTO t(b) VALUES('y')").unwrap();
        }
        one.close().unwrap();
        assert_eq!(rows(&closed(&path, 2)).len(), keys.len() + 2, "call {number}");
        if end == End::Exited {
            assert_eq!(keys.len(), 6);
            break;
        }
    }
    println!("{found:?}");
    assert!(found[3..].iter().all(|count| *count > 2), "{found:?}");
}
