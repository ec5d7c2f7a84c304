//! Locks in the words of the side file: conflicts, and what dead processes leave.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use perdura_sqlite::database::{MappedOpener, OpenOptions, Opened, Opener as _, SIDE_SUFFIX};
use rusqlite::{Connection, ErrorCode};

use crate::children::child;
use crate::register::{next_to_a_forked_child, open};
use crate::sql::{check, folder, side_of, stock};

/// A process that has run these statements and then idles.
fn holder(path: &Path, sql: &str) -> Child {
    let mut child = child("holder")
        .arg(path)
        .arg(sql)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("=holds")), "{sql}");
    child
}

fn is_busy(result: rusqlite::Result<()>) -> bool {
    matches!(result, Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy))
}

fn rows(connection: &Connection) -> i64 {
    connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap()
}

/// For each lock that a process can die with: whether others can read and write until then. Afterwards they can.
#[test]
fn lock_of_a_dead_process_stops_no_other() {
    for (sql, reads, writes) in [
        ("BEGIN; SELECT * FROM t", true, false),
        ("BEGIN IMMEDIATE", true, false),
        ("BEGIN EXCLUSIVE; INSERT INTO t VALUES(7)", false, false),
        (
            "PRAGMA cache_size = 10; PRAGMA cache_spill = 1; BEGIN; \
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000) \
             INSERT INTO t SELECT i FROM n",
            false,
            false,
        ),
    ] {
        let directory = folder();
        let path = directory.path().join("db");
        let one = open(&path).unwrap();
        one.busy_timeout(Duration::ZERO).unwrap();
        one.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES(1)").unwrap();
        let mut child = holder(&path, sql);
        let write = || one.execute_batch("INSERT INTO t VALUES(2)");
        let read = || one.query_row("SELECT count(*) FROM t", [], |_| Ok(()));
        assert_eq!(read().is_ok(), reads, "{sql}");
        assert_eq!(!is_busy(write()), writes, "{sql}");
        child.kill().unwrap();
        child.wait().unwrap();
        write().unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert_eq!(rows(&one), 2, "{sql}");
        one.close().unwrap();
        check(&stock(&path));
    }
}

/// A waiting writer clears a dead reader's word, and waits for a living reader.
#[test]
fn a_writer_waits_for_living_readers_only() {
    let directory = folder();
    let path = directory.path().join("db");
    let one = open(&path).unwrap();
    one.busy_timeout(Duration::ZERO).unwrap();
    one.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES(1)").unwrap();
    let (mut first, mut second) = (holder(&path, READS), holder(&path, READS));
    const READS: &str = "BEGIN; SELECT * FROM t";
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(is_busy(one.execute_batch("INSERT INTO t VALUES(2)")), "the second one reads");
    second.kill().unwrap();
    second.wait().unwrap();
    one.execute_batch("INSERT INTO t VALUES(2)").unwrap();
    assert_eq!(rows(&one), 2);
}

#[test]
fn concurrent_increments_lose_no_step() {
    const STEPS: i64 = 60;
    let directory = folder();
    let path = directory.path().join("db");
    let one = open(&path).unwrap();
    one.execute_batch("CREATE TABLE t(a INTEGER); INSERT INTO t VALUES(0)").unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let connection = open(&path).unwrap();
                connection.busy_timeout(Duration::from_secs(60)).unwrap();
                for _ in 0..STEPS {
                    connection
                        .execute_batch("BEGIN IMMEDIATE; UPDATE t SET a = a + 1; COMMIT")
                        .unwrap();
                }
            });
        }
    });
    let found: i64 = one.query_row("SELECT a FROM t", [], |row| row.get(0)).unwrap();
    assert_eq!(found, 4 * STEPS);
}

/// There are as many connections as words. Those of closed connections are reused.
#[test]
fn excess_connection_is_refused_until_another_closes() {
    let directory = folder();
    let path = directory.path().join("db");
    let first = open(&path).unwrap();
    first.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES(1)").unwrap();
    let mut more: Vec<Connection> = (1..255).map(|_| open(&path).unwrap()).collect();
    assert_eq!(rows(&more[253]), 1, "the last one");
    let options = perdura_sqlite::database::OpenOptions::default();
    let refused = perdura_sqlite::database::Mapped::open(&path, &options).unwrap_err();
    assert!(format!("{refused:?}").contains("255 connections already"), "{refused:?}");
    more.pop();
    assert_eq!(rows(&open(&path).unwrap()), 1);
}

/// An idle child has its parent's open files, and with them the locks that the parent does not release.
#[test]
fn child_keeps_no_lock_of_a_closed_connection() {
    let directory = folder();
    let path = directory.path().join("db");
    let (one, other) = (open(&path).unwrap(), open(&path).unwrap());
    one.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES(1)").unwrap();
    let (done, ends) = std::sync::mpsc::channel();
    let path = &path;
    thread::scope(|scope| {
        let ended = next_to_a_forked_child(|| {
            scope.spawn(move || {
                one.close().unwrap();
                open(path).unwrap().execute_batch("INSERT INTO t VALUES(2)").unwrap();
                done.send(()).unwrap();
            });
            ends.recv_timeout(Duration::from_secs(20))
        });
        ended.expect("no call waits for the child");
    });
    assert_eq!(rows(&other), 2);
}

/// The last connection to close leaves a plain file, also while a child lives on.
#[test]
fn child_does_not_block_a_database_its_parent_closed() {
    let directory = folder();
    let path = directory.path().join("db");
    let one = open(&path).unwrap();
    one.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES(1)").unwrap();
    next_to_a_forked_child(|| {
        one.close().unwrap();
        let stock = stock(&path);
        stock.busy_timeout(Duration::ZERO).unwrap();
        assert_eq!(rows(&stock), 1);
        stock.execute_batch("INSERT INTO t VALUES(2)").unwrap();
        stock.close().unwrap();
        let again = open(&path).unwrap();
        again.busy_timeout(Duration::ZERO).unwrap();
        again.execute_batch("INSERT INTO t VALUES(3)").unwrap();
        assert_eq!(rows(&again), 3);
    });
}

/// Kills a process but not its child, which ends on input.
fn kill_all_but_its_child(mut holder: Child) -> std::process::ChildStdin {
    let child = holder.stdin.take().unwrap();
    holder.kill().unwrap();
    holder.wait().unwrap();
    child
}

/// A killed process leaves no lock to a child that lives on: writers go on, and the last connection leaves a plain file.
#[test]
fn child_keeps_no_lock_of_a_killed_process() {
    for mode in ["delete", "wal"] {
        let directory = folder();
        let path = directory.path().join("db");
        let one = open(&path).unwrap();
        one.busy_timeout(Duration::from_secs(60)).unwrap();
        let found: String =
            one.query_row(&format!("PRAGMA journal_mode = {mode}"), [], |row| row.get(0)).unwrap();
        assert_eq!(found, mode);
        one.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES(1)").unwrap();
        let sql = "INSERT INTO t VALUES(7); BEGIN IMMEDIATE; INSERT INTO t VALUES(8); FORK";
        let child = kill_all_but_its_child(holder(&path, sql));
        one.execute_batch("INSERT INTO t VALUES(2)").unwrap();
        one.close().unwrap();
        assert!(!side_of(&path).exists(), "{mode}");
        let stock = Connection::open(&path).unwrap();
        check(&stock);
        let found: String = stock
            .query_row("SELECT group_concat(a) FROM (SELECT a FROM t ORDER BY a)", [], |row| {
                row.get(0)
            })
            .unwrap();
        assert_eq!(found, "1,2,7", "{mode}");
        drop(child);
    }
}

/// SQLite reads the header before it has a lock, while commits of others may grow the side file.
#[test]
fn unlocked_refresh_sees_a_grown_side_file() {
    for mode in ["fash1", "fast", "fash", "nvwal", "full"] {
        let directory = folder();
        let path = directory.path().join("db");
        let side = format!("{}{SIDE_SUFFIX}", path.display());
        let first = open(&path).unwrap();
        first.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b BLOB)").unwrap();
        let Opened::File(mut looking) = MappedOpener.open(&path, &OpenOptions::default()) else {
            panic!("{mode}: it is ours");
        };
        let before = std::fs::metadata(&side).unwrap().len();
        first.execute_batch(&format!("PRAGMA perdura_mode = {mode}")).unwrap();
        for key in 0..400 {
            first
                .execute("INSERT INTO t VALUES(?1 * 7919 % 1009, randomblob(300))", [key])
                .unwrap();
        }
        let mut header = [0; 100];
        assert_eq!(looking.read(0, &mut header).unwrap(), 100, "{mode}");
        assert_eq!(&header[..16], b"SQLite format 3\0", "{mode}");
        assert!(looking.size().unwrap() >= 4096, "{mode}");
        let grown = std::fs::metadata(&side).unwrap().len() > before;
        assert!(grown || mode == "full", "{mode}");
        first.close().unwrap();
        looking.close().unwrap();
        check(&stock(&path));
    }
}
