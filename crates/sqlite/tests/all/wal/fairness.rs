//! Connections that all write as fast as they can.

use std::sync::mpsc;
use std::thread;

use super::*;
use crate::fairness::{commits_of, rows_of};
use crate::register::sleep_by_the_vfs;

/// A writer that sleeps while another one commits again and again gets its share. Without turns one of them makes
/// nearly all commits.
#[test]
fn no_writer_is_starved() {
    for (writers, total) in [(2, 60_000), (4, 60_000)] {
        let directory = folder();
        let path = &directory.path().join("db");
        let first = open_wal(path);
        let open = || {
            let connection = open(path).unwrap();
            connection.busy_timeout(Duration::from_secs(600)).unwrap();
            connection
        };
        let commits = commits_of(&first, &open, writers, total);
        let share = total / writers as i64;
        assert!(commits.iter().all(|commits| *commits > share / 5), "{commits:?}");
    }
}

/// A thread may sleep for a connection that another one closes meanwhile.
#[test]
fn closed_connection_of_a_sleeper_keeps_no_lock() {
    let directory = folder();
    let path = &directory.path().join("db");
    let writer = open_wal(path);
    writer.execute_batch("CREATE TABLE t(a); BEGIN IMMEDIATE").unwrap();
    let shared = open(path).unwrap();
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
    let other = open(path).unwrap();
    assert_eq!(rows_of(&other), 0);
    assert!(!sleeper.is_finished(), "the opening has not waited for the sleeper");
    writer.execute_batch("COMMIT").unwrap();
    sleeper.join().unwrap();
}
