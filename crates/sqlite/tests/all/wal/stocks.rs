//! Stock SQLite and connections of this VFS in one database in WAL mode: one of the two is kept out.

use std::thread;

use pm::{Lock, Plain, PlainOptions, Range};

use super::kills::hold;
use super::*;

const CREATE: &str = "CREATE TABLE t(a, b); INSERT INTO t VALUES(1, 'one')";

#[test]
fn stock_that_was_first_keeps_the_database() {
    let directory = folder();
    let path = directory.path().join("db");
    let stock = Connection::open(&path).unwrap();
    stock.execute_batch("PRAGMA journal_mode = wal").unwrap();
    stock.execute_batch(CREATE).unwrap();
    // The VFS below has it.
    let delegated = open(&path).unwrap();
    delegated.execute_batch("INSERT INTO t VALUES(2, 'two')").unwrap();
    assert!(delegated.query_row("PRAGMA perdura_mode", [], |_| Ok(())).is_err());
    assert!(!side_of(&path).exists());
    assert_eq!(rows(&stock).len(), 2);
    drop((stock, delegated));
    let ours = open(&path).unwrap();
    assert_eq!(rows(&ours).len(), 2);
    assert!(side_of(&path).exists());
}

#[test]
fn ours_is_refused_while_stock_has_entered_wal_mode() {
    let directory = folder();
    let path = directory.path().join("db");
    let ours = open(&path).unwrap();
    let stock = Connection::open(&path).unwrap();
    stock.execute_batch(CREATE).unwrap();
    assert_eq!(rows(&ours).len(), 1);
    assert_eq!(journal_mode(&stock, "wal"), "wal");
    stock.execute_batch("INSERT INTO t VALUES(2, 'two')").unwrap();
    let error = ours.query_row("SELECT count(*) FROM t", [], |_| Ok(())).unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::CannotOpen));
    assert_eq!(rows(&stock).len(), 2);
    drop(stock);
    assert_eq!(rows(&ours).len(), 2);
    ours.execute_batch("INSERT INTO t VALUES(3, 'three')").unwrap();
    ours.close().unwrap();
    assert_eq!(rows(&closed(&path, 2)).len(), 3);
}

/// Stock SQLite that was refused, and stays open, goes on when the last connection of this VFS has closed.
#[test]
fn refused_stock_goes_on_when_ours_has_closed() {
    let directory = folder();
    let path = directory.path().join("db");
    let ours = open_wal(&path);
    ours.execute_batch(CREATE).unwrap();
    let stock = Connection::open(&path).unwrap();
    for _ in 0..3 {
        let error = stock.query_row("SELECT count(*) FROM t", [], |_| Ok(())).unwrap_err();
        assert_eq!(error.sqlite_error_code(), Some(ErrorCode::CannotOpen));
        ours.execute_batch("INSERT INTO t VALUES(2, 'two')").unwrap();
    }
    ours.close().unwrap();
    assert_eq!(rows(&stock).len(), 4);
    stock.execute_batch("INSERT INTO t VALUES(3, 'three')").unwrap();
    check(&stock);
    // It has the file now.
    let delegated = open(&path).unwrap();
    assert_eq!(rows(&delegated).len(), 5);
    assert!(delegated.query_row("PRAGMA perdura_mode", [], |_| Ok(())).is_err());
    drop((stock, delegated));
    assert_eq!(rows(&closed(&path, 2)).len(), 5);
}

/// Stock SQLite that was refused, and stays open, keeps the gate of connections that are killed.
#[test]
fn refused_stock_stays_refused_after_a_kill_of_ours() {
    let directory = folder();
    let path = directory.path().join("db");
    let ours = open_wal(&path);
    ours.execute_batch(CREATE).unwrap();
    ours.close().unwrap();
    for (count, ours_comes) in [(2, true), (3, false)] {
        let mut killed = hold(&path, "INSERT INTO t VALUES(2, 'two')");
        let stock = Connection::open(&path).unwrap();
        let refused = || {
            let error = stock.query_row("SELECT count(*) FROM t", [], |_| Ok(())).unwrap_err();
            error.sqlite_error_code() == Some(ErrorCode::CannotOpen)
                && stocks_error(&path) == Some(ErrorCode::CannotOpen)
        };
        assert!(refused());
        killed.kill().unwrap();
        killed.wait().unwrap();
        assert!(refused());
        if ours_comes {
            let ours = open(&path).unwrap();
            assert_eq!(rows(&ours).len(), count);
            ours.close().unwrap();
            assert_eq!(rows(&stock).len(), count);
        }
        drop(stock);
        assert_eq!(rows(&Connection::open(&path).unwrap()).len(), count);
    }
}

/// One that has just begun to make the index file, and has not stored the gate yet, is not stock SQLite.
#[test]
fn maker_of_the_index_file_is_not_taken_for_stock() {
    let directory = folder();
    let path = directory.path().join("db");
    let ours = open_wal(&path);
    ours.execute_batch(CREATE).unwrap();
    ours.close().unwrap();
    let options = PlainOptions { create: true, ..PlainOptions::default() };
    let maker = Plain::open(&index_of(&path), &options).unwrap();
    let dead_man = Range::new(128, 1);
    assert!(maker.lock(dead_man, Lock::Exclusive).unwrap());
    // It is refused, and not left to stock SQLite for its whole life.
    let error = open(&path).unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy));
    maker.unlock(dead_man).unwrap();
    let ours = open(&path).unwrap();
    assert_eq!(rows(&ours).len(), 1);
    ours.query_row("PRAGMA perdura_mode", [], |_| Ok(())).unwrap();
    drop(maker);
    ours.close().unwrap();
    assert_eq!(rows(&closed(&path, 2)).len(), 1);
}

/// Connections that open a closed database at the same time are all this VFS's.
#[test]
fn first_opens_at_the_same_time_are_all_ours() {
    let directory = folder();
    let path = &directory.path().join("db");
    let ours = open_wal(path);
    ours.execute_batch(CREATE).unwrap();
    ours.close().unwrap();
    for _ in 0..20 {
        let all: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| open(path).unwrap())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for one in all {
            one.query_row("PRAGMA perdura_mode", [], |_| Ok(())).unwrap();
            assert_eq!(rows(&one).len(), 1);
        }
    }
}

/// Stock SQLite in another process is refused, and deletes nothing.
#[test]
fn shell_of_stock_sqlite_is_refused_and_deletes_nothing() {
    let directory = folder();
    let path = directory.path().join("db");
    let ours = open_wal(&path);
    ours.execute_batch(CREATE).unwrap();
    let shell = |sql: &str| std::process::Command::new("sqlite3").arg(&path).arg(sql).output();
    if shell("SELECT 1").is_err() {
        println!("left out: there is no sqlite3");
        return;
    }
    for sql in [
        "SELECT * FROM t",
        "INSERT INTO t VALUES(9, 'nine')",
        "PRAGMA locking_mode=EXCLUSIVE; SELECT * FROM t",
    ] {
        let output = shell(sql).unwrap();
        assert!(!output.status.success(), "{sql}: {output:?}");
        ours.execute_batch("INSERT INTO t VALUES(2, 'two')").unwrap();
    }
    assert!(log_of(&path).exists());
    assert_eq!(rows(&ours).len(), 4);
    ours.close().unwrap();
    let output = shell("SELECT count(*) FROM t").unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), "4");
}

#[test]
fn replaced_index_file_is_refused() {
    let directory = folder();
    let path = directory.path().join("db");
    let ours = open_wal(&path);
    ours.execute_batch(CREATE).unwrap();
    std::fs::remove_file(index_of(&path)).unwrap();
    assert!(open(&path).is_err());
    std::fs::write(index_of(&path), []).unwrap();
    assert!(open(&path).is_err());
    ours.execute_batch("INSERT INTO t VALUES(2, 'two')").unwrap();
    ours.close().unwrap();
    std::fs::remove_file(index_of(&path)).unwrap();
    assert_eq!(rows(&closed(&path, 2)).len(), 2);
}

/// Another connection would take itself for the only one.
#[test]
fn replaced_side_file_is_refused() {
    let directory = folder();
    let path = directory.path().join("db");
    let ours = open_wal(&path);
    ours.execute_batch(CREATE).unwrap();
    std::fs::remove_file(side_of(&path)).unwrap();
    for _ in 0..2 {
        assert!(open(&path).is_err());
        ours.execute_batch("INSERT INTO t VALUES(2, 'two')").unwrap();
    }
    assert_eq!(rows(&ours).len(), 3);
    ours.close().unwrap();
    open(&path).unwrap().close().unwrap();
    assert_eq!(rows(&closed(&path, 2)).len(), 3);
}

#[test]
fn damaged_index_file_of_the_dead_is_made_anew() {
    let directory = folder();
    let path = directory.path().join("db");
    let ours = open_wal(&path);
    ours.execute_batch(CREATE).unwrap();
    ours.close().unwrap();
    for bytes in [vec![], vec![7; 3], vec![0xff; 70_000]] {
        std::fs::write(index_of(&path), &bytes).unwrap();
        let ours = open(&path).unwrap();
        assert_eq!(rows(&ours).len(), 1);
        ours.close().unwrap();
        closed(&path, 2);
    }
}
