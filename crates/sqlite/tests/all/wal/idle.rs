//! Connections that are open and have run no statement: they are in WAL mode, but have no log open.

use std::io::Write as _;

use super::costs::in_domain;
use super::kills::hold;
use super::lengths::{length_of_log, synced_length};
use super::*;
use crate::children::child;
use crate::failing::child::Process;
use crate::ptrace::{Call, End, kill_at};

/// A connection in exclusive mode keeps its index to itself.
#[test]
fn idle_connection_sees_what_a_killed_exclusive_one_left() {
    let directory = folder();
    let path = directory.path().join("db");
    let first = open_wal(&path);
    first.execute_batch("CREATE TABLE t(a, b); INSERT INTO t VALUES(1, 'one')").unwrap();
    let (idle, other) = (open(&path).unwrap(), open(&path).unwrap());
    first.close().unwrap();
    let sql = "PRAGMA locking_mode = EXCLUSIVE; INSERT INTO t VALUES(2, 'two')";
    let mut exclusive = hold(&path, sql);
    exclusive.kill().unwrap();
    exclusive.wait().unwrap();
    assert!(log_of(&path).exists());
    assert_eq!(rows(&idle).len(), 2);
    idle.execute_batch("INSERT INTO t VALUES(3, 'three')").unwrap();
    assert_eq!(rows(&other).len(), 3);
    check(&other);
    drop(other);
    idle.close().unwrap();
    assert_eq!(rows(&closed(&path, 2)).len(), 3);
}

/// The database changes while it is in a rollback mode, and gets another size.
#[test]
fn idle_connection_survives_a_change_of_the_mode() {
    let directory = folder();
    let path = directory.path().join("db");
    let first = open_wal(&path);
    first.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)").unwrap();
    let idle = open(&path).unwrap();
    let mut count = 0;
    let mut insert = |by: &Connection| {
        for _ in 0..100 {
            count += 1;
            by.execute("INSERT INTO t VALUES(?1, hex(zeroblob(700)))", [count]).unwrap();
        }
        count
    };
    insert(&first);
    for _ in 0..3 {
        assert_eq!(journal_mode(&first, "delete"), "delete");
        insert(&first);
        assert_eq!(journal_mode(&first, "wal"), "wal");
        let count = insert(&first);
        assert_eq!(rows(&first).len() as i64, count);
        check(&first);
    }
    let count = insert(&idle);
    assert_eq!(rows(&first).len() as i64, count);
    check(&idle);
    drop(idle);
    first.close().unwrap();
    assert_eq!(rows(&closed(&path, 2)).len() as i64, count);
}

/// A log that is made anew has no durable length yet.
#[test]
fn idle_connection_keeps_no_durable_length() {
    let directory = folder();
    let path = directory.path().join("db");
    let first = in_domain(&path, "adr");
    first.execute_batch("CREATE TABLE t(a, b); INSERT INTO t VALUES(1, 'one')").unwrap();
    assert_eq!(synced_length(&path), length_of_log(&path));
    let uri = format!("file:{}?perdura_domain=adr", path.display());
    let idle = open(Path::new(&uri)).unwrap();
    first.close().unwrap();
    assert!(!log_of(&path).exists());
    let second = in_domain(&path, "adr");
    assert_eq!(rows(&second).len(), 1);
    assert_eq!((synced_length(&path), length_of_log(&path)), (0, 0));
    second.execute_batch("INSERT INTO t VALUES(2, 'two')").unwrap();
    assert_eq!(synced_length(&path), length_of_log(&path));
    assert!(length_of_log(&path) > 0);
    drop(idle);
}

/// A process that opens the log, works in exclusive mode and closes it dies at any of its calls.
#[test]
fn idle_connection_goes_on_after_any_kill_of_another() {
    let directory = folder();
    let path = directory.path().join("db");
    let first = open_wal(&path);
    first.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)").unwrap();
    first.close().unwrap();
    let mut known = Vec::new();
    for number in 1.. {
        let idle = open(&path).unwrap();
        idle.busy_timeout(Duration::from_secs(10)).unwrap();
        let key = number as i64 * 2;
        let sql = format!(
            "PRAGMA locking_mode = EXCLUSIVE; INSERT INTO t VALUES({key}, hex(zeroblob(3000)))"
        );
        let mut process = Process::spawn(child("creator").arg(with_wal(&path)).arg(&sql));
        let go = || process.stdin.write_all(b"\n").unwrap();
        let end = kill_at(&mut process.child, process.thread, number, Call::is_of_files, go);
        let keys = || rows(&idle).into_iter().map(|row| row.0).collect::<Vec<_>>();
        let found = keys();
        known.extend(found.contains(&key).then_some(key));
        assert_eq!(found, known, "call {number}");
        idle.execute("INSERT INTO t VALUES(?1, 'x')", [key + 1]).unwrap();
        known.push(key + 1);
        assert_eq!(keys(), known, "call {number}");
        check(&idle);
        if end == End::Exited {
            assert!(known.contains(&key));
            break;
        }
    }
    // It died before its commit, and after it.
    let theirs = known.iter().filter(|key| *key % 2 == 0).count();
    assert!(theirs > 2 && theirs < known.len() / 2, "{theirs} of {}", known.len());
    closed(&path, 2);
}
