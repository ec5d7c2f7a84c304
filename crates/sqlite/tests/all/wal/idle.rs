//! Connections that are open and have run no statement: they are in WAL mode, but have no log open.

use super::costs::in_domain;
use super::kills::hold;
use super::lengths::{length_of_log, synced_length};
use super::*;

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
