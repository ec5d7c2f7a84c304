//! Connections in rollback modes that write or read as fast as they can. Each gets its share, and none waits past its
//! busy timeout while others commit.

use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rusqlite::Connection;

use crate::register::{open, sleep_by_the_vfs};
use crate::sql::{check, folder};

/// Opens a database in a mode, with SQLite's busy handler.
fn open_in(path: &Path, mode: &str) -> Connection {
    let uri = PathBuf::from(format!("file:{}?perdura_mode={mode}", path.display()));
    let connection = open(&uri).unwrap();
    connection.busy_timeout(Duration::from_secs(600)).unwrap();
    connection
}

/// Runs a statement again and again on a connection of its own, from when all are there until all that share `done` have
/// run `total`. Returns how often it ran.
fn steps_of(
    open: impl Fn() -> Connection,
    statement: &str,
    (begin, done): (&Barrier, &AtomicI64),
    total: i64,
) -> i64 {
    let connection = open();
    let mut statement = connection.prepare(statement).unwrap();
    begin.wait();
    let mut steps = 0;
    while done.load(Ordering::Relaxed) < total {
        let mut rows = statement.query([]).unwrap();
        while rows.next().unwrap().is_some() {}
        drop(rows);
        steps += 1;
        done.fetch_add(1, Ordering::Relaxed);
    }
    steps
}

pub(crate) const INSERT: &str = "INSERT INTO t(b) VALUES('x')";

pub(crate) fn rows_of(connection: &Connection) -> i64 {
    connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap()
}

/// Commits of so many connections that write in threads of their own, until there are `total` of all together.
pub(crate) fn commits_of(
    first: &Connection,
    open: &(impl Fn() -> Connection + Sync),
    writers: usize,
    total: i64,
) -> Vec<i64> {
    first.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)").unwrap();
    let (begin, done) = (&Barrier::new(writers), &AtomicI64::new(0));
    let commits: Vec<i64> = thread::scope(|scope| {
        let run = move || steps_of(open, INSERT, (begin, done), total);
        let threads: Vec<_> = (0..writers).map(|_| scope.spawn(run)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(rows_of(first), commits.iter().sum::<i64>());
    check(first);
    commits
}

/// Without turns one of the connections makes nearly all commits, and the others wait out their busy timeouts.
#[test]
fn no_writer_in_a_rollback_mode_is_starved() {
    for (mode, writers, total) in
        [("lean", 2, 40_000), ("lean", 4, 40_000), ("fash1", 3, 20_000), ("fash", 2, 20_000)]
    {
        let directory = folder();
        let path = directory.path().join("db");
        let first = open_in(&path, mode);
        let commits = commits_of(&first, &|| open_in(&path, mode), writers, total);
        let share = total / writers as i64;
        assert!(commits.iter().all(|commits| *commits > share / 5), "{mode}: {commits:?}");
    }
}

/// A reader that comes while another connection commits gets in between two commits.
#[test]
fn neither_reader_nor_writer_in_a_rollback_mode_is_starved() {
    let directory = folder();
    let path = &directory.path().join("db");
    let first = open_in(path, "lean");
    first.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)").unwrap();
    first.execute_batch(INSERT).unwrap();
    let together = (&Barrier::new(2), &AtomicI64::new(0));
    let run = |statement: &'static str| {
        move || steps_of(|| open_in(path, "lean"), statement, together, 40_000)
    };
    let (writes, reads) = thread::scope(|scope| {
        let reader = scope.spawn(run("SELECT b FROM t WHERE a = 1"));
        let writer = scope.spawn(run(INSERT));
        (writer.join().unwrap(), reader.join().unwrap())
    });
    assert_eq!(rows_of(&first), writes + 1);
    assert!(writes > 4_000 && reads > 4_000, "{writes} commits, {reads} reads");
}

/// There are more connections than lines in the queue.
#[test]
fn connections_without_a_line_in_the_queue_get_their_turns() {
    let directory = folder();
    let path = &directory.path().join("db");
    let first = open_in(path, "lean");
    first.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)").unwrap();
    let idle: Vec<Connection> = (0..78).map(|_| open_in(path, "lean")).collect();
    idle.iter().for_each(|connection| assert_eq!(rows_of(connection), 0));
    let commits: Vec<i64> = thread::scope(|scope| {
        let write = || {
            let connection = open_in(path, "lean");
            (0..300).for_each(|_| assert_eq!(connection.execute(INSERT, []), Ok(1)));
            300
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(write)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(rows_of(&first), commits.iter().sum::<i64>());
    check(&first);
}

/// A connection that has a line in the queue waits for one that has none as long as its timeout says: that one is alive.
#[test]
fn owner_without_a_line_in_the_queue_is_waited_for() {
    let directory = folder();
    let path = &directory.path().join("db");
    let first = open_in(path, "lean");
    first.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)").unwrap();
    let idle: Vec<Connection> = (0..80).map(|_| open_in(path, "lean")).collect();
    let last = open_in(path, "lean");
    last.execute_batch("BEGIN IMMEDIATE").unwrap();
    // SQLite adds up the sleeps that it has asked for: if each ends early, the timeout is over after a second.
    let waits = thread::scope(|scope| {
        let waits = scope.spawn(move || {
            let [one, ..] = &idle[..] else { panic!("no connection") };
            one.busy_timeout(Duration::from_secs(20)).unwrap();
            one.execute(INSERT, [])
        });
        thread::sleep(Duration::from_secs(3));
        last.execute_batch("COMMIT").unwrap();
        waits.join().unwrap()
    });
    assert_eq!(waits, Ok(1));
}

/// A thread may sleep for a connection that another one closes meanwhile.
#[test]
fn closed_connection_of_a_sleeper_in_a_rollback_mode_keeps_no_lock() {
    let directory = folder();
    let path = &directory.path().join("db");
    let writer = open_in(path, "lean");
    writer.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT); BEGIN IMMEDIATE").unwrap();
    let shared = open_in(path, "lean");
    shared.busy_timeout(Duration::ZERO).unwrap();
    let (give, take) = mpsc::channel();
    let sleeper = thread::spawn(move || {
        shared.execute_batch("BEGIN IMMEDIATE").unwrap_err();
        give.send(shared).unwrap();
        sleep_by_the_vfs(20_000_000);
    });
    let shared = take.recv().unwrap();
    thread::sleep(Duration::from_millis(200));
    shared.close().unwrap();
    let other = open_in(path, "lean");
    assert_eq!(rows_of(&other), 0);
    assert!(!sleeper.is_finished(), "the opening has not waited for the sleeper");
    writer.execute_batch("COMMIT").unwrap();
    sleeper.join().unwrap();
}
