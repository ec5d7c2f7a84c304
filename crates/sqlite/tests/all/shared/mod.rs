//! Databases that stock SQLite uses at the same time, with `perdura_share=stock`.

mod connections;
pub(crate) mod kills;
mod placeholders;
mod stores;

use std::path::Path;
use std::time::Duration;

use pm::{Lock, Plain, PlainOptions, Range};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rusqlite::{Connection, ErrorCode};

pub(crate) use connections::{ALONE, open_shared, open_stock};

use crate::register::{open, stats};
use crate::sql::{check, folder, rows, side_of, stock};

const MODES: [&str; 5] = ["fash1", "fash", "fast", "nvwal", "full"];

/// A statement of a random workload.
fn statement(random: &mut SmallRng) -> String {
    let (key, many) = (random.random_range(0..300), random.random_range(1..700));
    match random.random_range(0..10) {
        0..5 => format!("INSERT OR REPLACE INTO t VALUES({key}, hex(zeroblob({many})))"),
        5 => format!("UPDATE t SET b = b || 'x' WHERE a % 7 = {}", key % 7),
        6..8 => format!("DELETE FROM t WHERE a BETWEEN {key} AND {}", key + many / 40),
        8 => "PRAGMA incremental_vacuum".into(),
        _ if many % 5 == 0 => "VACUUM".into(),
        _ => format!("BEGIN; UPDATE t SET b = {key} WHERE a < {key}; ROLLBACK"),
    }
}

#[test]
fn stock_sqlite_and_ours_take_turns_in_one_database() {
    for (seed, page_bytes) in [512, 1024, 4096].into_iter().enumerate() {
        for mode in MODES {
            let directory = folder();
            let path = directory.path().join("db");
            let model = Connection::open_in_memory().unwrap();
            let (one, two, stocks) =
                (open_shared(&path, mode), open_shared(&path, "fash1"), open_stock(&path));
            for all in [&model, &one] {
                all.execute_batch(&format!(
                    "PRAGMA page_size = {page_bytes}; PRAGMA auto_vacuum = {seed};
                     CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT); CREATE INDEX i ON t(b)"
                ))
                .unwrap();
            }
            let mut random = SmallRng::seed_from_u64(seed as u64);
            for step in 0..60 {
                let statement = statement(&mut random);
                model.execute_batch(&statement).unwrap();
                let connections = [&one, &two, &stocks];
                let by = connections[random.random_range(0..3)];
                by.execute_batch(&statement)
                    .unwrap_or_else(|error| panic!("{mode}, step {step}, {statement}: {error}"));
                let header = std::fs::read(&path).unwrap();
                assert_eq!((header[19], &header[72..80]), (1, &[0; 8][..]), "{mode}, step {step}");
                let sees = connections[random.random_range(0..3)];
                assert_eq!(rows(sees), rows(&model), "{mode}, step {step}, {statement}");
                check(sees);
            }
            assert!(side_of(&path).exists() && stats(&one, "commits") > 5);
            drop((one, two, stocks));
            assert_eq!(rows(&stock(&path)), rows(&model));
        }
    }
}

#[test]
fn each_waits_for_the_others_locks_and_reads_one_moment() {
    let directory = folder();
    let path = directory.path().join("db");
    let (ours, stocks) = (open_shared(&path, "fash1"), open_stock(&path));
    ours.execute_batch("CREATE TABLE t(a, b); INSERT INTO t VALUES(1, 'one')").unwrap();
    for connection in [&ours, &stocks] {
        connection.busy_timeout(Duration::ZERO).unwrap();
    }
    let is_busy = |result: rusqlite::Result<()>| matches!(result, Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy));
    for (reader, writer) in [(&ours, &stocks), (&stocks, &ours)] {
        reader.execute_batch("BEGIN; SELECT * FROM t").unwrap();
        let before = rows(reader);
        assert!(is_busy(writer.execute_batch("INSERT INTO t VALUES(2, 'two')")));
        assert_eq!(rows(reader), before);
        reader.execute_batch("COMMIT").unwrap();
        writer.execute_batch("INSERT INTO t VALUES(2, 'two')").unwrap();
        assert_eq!(rows(reader).len(), before.len() + 1);
        // The same with a writer's open transaction.
        reader.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES(3, 'three')").unwrap();
        assert!(is_busy(writer.execute_batch("BEGIN IMMEDIATE")));
        reader.execute_batch("ROLLBACK").unwrap();
    }
    // The connection's own statement reads on after its commit, and stock SQLite waits for it.
    let mut select = ours.prepare("SELECT a FROM t").unwrap();
    let mut reads = select.query([]).unwrap();
    assert!(reads.next().unwrap().is_some());
    ours.execute_batch("INSERT INTO t VALUES(4, 'four')").unwrap();
    assert!(is_busy(stocks.execute_batch("DELETE FROM t")));
    drop(reads);
    stocks.execute_batch("DELETE FROM t").unwrap();
    assert_eq!(rows(&ours), []);
}

#[test]
fn unshared_commit_keeps_stock_out_until_a_shared_one() {
    let directory = folder();
    let path = directory.path().join("db");
    let (ours, alone) = (open_shared(&path, "fash1"), open(&path).unwrap());
    alone.execute_batch("PRAGMA perdura_mode = fash1").unwrap();
    ours.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b)").unwrap();
    // Its pages move to other frames.
    for key in 0..400 {
        let row = (key * 7_919 % 400, "x".repeat(90));
        alone.execute("INSERT INTO t VALUES(?1, ?2)", row).unwrap();
    }
    assert!(stats(&alone, "moved") > 0);
    let error = Connection::open(&path).and_then(|stock| stock.execute_batch("SELECT * FROM t"));
    assert_eq!(error.unwrap_err().sqlite_error_code(), Some(ErrorCode::NotADatabase));
    ours.execute_batch("UPDATE t SET b = 'y' WHERE a = 7").unwrap();
    let stocks = open_stock(&path);
    check(&stocks);
    stocks.execute_batch("DELETE FROM t WHERE a > 100; VACUUM").unwrap();
    for connection in [&alone, &ours, &stocks] {
        assert_eq!(rows(connection).len(), 101);
        check(connection);
    }
    let refused = ours.execute_batch("BEGIN IMMEDIATE; PRAGMA perdura_share = perdura");
    assert!(refused.is_err());
}

#[test]
fn commit_with_an_open_statement_succeeds_and_defers_stock() {
    let directory = folder();
    let path = directory.path().join("db");
    let ours = open(&path).unwrap();
    ours.execute_batch(
        "PRAGMA mmap_size = 1000000000; PRAGMA perdura_mode = fash1;
         CREATE TABLE t(a INTEGER PRIMARY KEY, b); CREATE TABLE u(a)",
    )
    .unwrap();
    for key in 0..400 {
        let row = (key * 7_919 % 400, "x".repeat(90));
        ours.execute("INSERT INTO t VALUES(?1, ?2)", row).unwrap();
    }
    assert!(stats(&ours, "moved") > 0);
    ours.query_row("PRAGMA perdura_share = stock", [], |_| Ok(())).unwrap();
    let before = stats(&ours, "lent");
    let mut select = ours.prepare("SELECT a FROM t").unwrap();
    let mut reads = select.query([]).unwrap();
    assert!(reads.next().unwrap().is_some());
    assert!(stats(&ours, "lent") > before);
    // No fetched page moves: stock SQLite waits for the end of the statement.
    let version = || std::fs::read(&path).unwrap()[19];
    ours.execute_batch("INSERT INTO u VALUES(1)").unwrap();
    assert_eq!(version(), 80);
    drop(reads);
    assert_eq!(version(), 1);
    // Or for the end of the next one, if it is reading page 1.
    let looks = Plain::open(&path, &PlainOptions::default()).unwrap();
    ours.execute_batch("INSERT INTO u VALUES(2)").unwrap();
    let shared = Range::new(0x4000_0002, 510);
    let marks = open(&path).unwrap();
    marks.execute_batch("INSERT INTO u VALUES(3); DELETE FROM u WHERE a = 3").unwrap();
    assert_eq!(version(), 80);
    assert!(looks.lock(shared, Lock::Shared).unwrap());
    ours.execute_batch("INSERT INTO u VALUES(4)").unwrap();
    assert_eq!((version(), rows(&ours).len(), version()), (80, 400, 80));
    looks.unlock(shared).unwrap();
    assert_eq!((rows(&marks).len(), version()), (400, 80));
    assert_eq!((rows(&ours).len(), version()), (400, 1));
    let stocks = open_stock(&path);
    check(&stocks);
    let sum: i64 = stocks.query_row("SELECT sum(a) FROM u", [], |row| row.get(0)).unwrap();
    assert_eq!((rows(&stocks).len(), sum), (400, 7));
}

/// Stock SQLite is killed in the transaction that creates a database: everything is rolled back.
#[test]
fn interrupted_stock_creation_is_rolled_back_in_each_mode() {
    let directory = folder();
    let path = directory.path().join("stocks");
    let stocks = open_stock(&path);
    stocks.execute_batch("PRAGMA cache_size = 2; BEGIN; CREATE TABLE t(a, b)").unwrap();
    for key in 0..200 {
        stocks.execute("INSERT INTO t VALUES(?1, hex(zeroblob(900)))", [key]).unwrap();
    }
    for mode in MODES {
        let killed = directory.path().join(mode);
        let journal = |path: &Path| std::path::PathBuf::from(format!("{}-journal", path.display()));
        std::fs::copy(&path, &killed).unwrap();
        std::fs::copy(journal(&path), journal(&killed)).unwrap();
        let left = std::fs::read(journal(&killed)).unwrap();
        assert!(std::fs::metadata(&killed).unwrap().len() > 4096 && left[0] == 0xd9);
        for opened in 0..2 {
            let ours = open_shared(&killed, mode);
            let tables = "SELECT count(*) FROM sqlite_master";
            let tables: i64 = ours.query_row(tables, [], |row| row.get(0)).unwrap();
            assert_eq!((tables, journal(&killed).exists()), (opened, false), "{mode}");
            ours.execute_batch("CREATE TABLE IF NOT EXISTS t(a, b)").unwrap();
            check(&open_stock(&killed));
        }
    }
}

#[test]
fn zeros_of_an_interrupted_first_commit_are_cut_for_stock() {
    let directory = folder();
    let path = directory.path().join("db");
    std::fs::write(&path, [0; 100]).unwrap();
    let ours = open_shared(&path, "fash1");
    let stocks = open_stock(&path);
    stocks.execute_batch("CREATE TABLE t(a, b); INSERT INTO t VALUES(1, 'one')").unwrap();
    assert_eq!(rows(&ours).len(), 1);
}

#[test]
fn stock_reads_both_databases_after_a_joint_transaction() {
    let directory = folder();
    let (path, other) = (directory.path().join("db"), directory.path().join("other"));
    let ours = open_shared(&path, "fash1");
    let attach = format!("ATTACH 'file:{}?vfs=perdura&perdura_share=stock' AS o", other.display());
    ours.execute_batch(&attach).unwrap();
    ours.execute_batch("CREATE TABLE t(a, b); CREATE TABLE o.t(a, b)").unwrap();
    let both = "BEGIN; INSERT INTO t VALUES(1, 'one'); INSERT INTO o.t VALUES(1, 'one')";
    ours.execute_batch(&format!("{both}; ROLLBACK")).unwrap();
    for count in 1..4 {
        ours.execute_batch(&format!("{both}; COMMIT")).unwrap();
        for path in [&path, &other] {
            let stocks = open_stock(path);
            check(&stocks);
            assert_eq!(rows(&stocks).len(), 2 * count - 1);
            stocks.execute_batch("INSERT INTO t VALUES(2, 'two')").unwrap();
        }
    }
    assert_eq!(stats(&ours, "commits"), 4);
}

#[test]
fn shared_reader_readmits_stock_after_an_unshared_commit() {
    let directory = folder();
    let path = directory.path().join("db");
    let (ours, alone) = (open_shared(&path, "fash1"), open(&path).unwrap());
    let version = || std::fs::read(&path).unwrap()[19];
    alone.execute_batch("CREATE TABLE t(a, b); INSERT INTO t VALUES(1, 'one')").unwrap();
    assert_eq!(version(), 80);
    alone.close().unwrap();
    assert_eq!((version(), rows(&ours).len(), version()), (80, 1, 1));
    assert_eq!(rows(&open_stock(&path)).len(), 1);
}

#[test]
fn ours_is_refused_while_stock_uses_wal_mode() {
    let directory = folder();
    let path = directory.path().join("db");
    let (ours, stocks) = (open_shared(&path, "fash1"), open_stock(&path));
    ours.execute_batch("CREATE TABLE t(a, b); INSERT INTO t VALUES(1, 'one')").unwrap();
    let mode = |to: &str| -> String {
        stocks.query_row(&format!("PRAGMA journal_mode = {to}"), [], |row| row.get(0)).unwrap()
    };
    assert_eq!(mode("wal"), "wal");
    stocks.execute_batch("INSERT INTO t VALUES(2, 'two')").unwrap();
    for statement in ["SELECT * FROM t", "INSERT INTO t VALUES(3, 'three')"] {
        let error = ours.execute_batch(statement).unwrap_err();
        assert_eq!(error.sqlite_error_code(), Some(ErrorCode::CannotOpen), "{statement}");
    }
    assert_eq!(mode("delete"), "delete");
    ours.execute_batch("INSERT INTO t VALUES(3, 'three')").unwrap();
    assert_eq!((rows(&ours).len(), rows(&stocks).len()), (3, 3));
    // Closed in that mode, it stays as stock SQLite made it.
    assert_eq!(mode("wal"), "wal");
    stocks.execute_batch("INSERT INTO t VALUES(4, 'four')").unwrap();
    drop(ours);
    assert!(!side_of(&path).exists());
    assert_eq!(rows(&stocks).len(), 4);
    check(&stocks);
}

#[test]
fn shared_commit_takes_seven_more_fences() {
    let directory = folder();
    let ours = open_shared(&directory.path().join("db"), "fash1");
    ours.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)").unwrap();
    let before = ["fences", "commits"].map(|name| stats(&ours, name));
    for number in 0..20 {
        ours.execute("INSERT INTO t VALUES(?1, 'text')", [number]).unwrap();
    }
    let after = ["fences", "commits"].map(|name| stats(&ours, name));
    assert_eq!([after[0] - before[0], after[1] - before[1]], [8 * 20, 20]);
}

/// It had set the marker, and relied on the side file until another connection cleared it.
#[test]
fn unshared_connection_notices_that_the_marker_is_cleared() {
    for mode in MODES {
        let directory = folder();
        let path = directory.path().join("db");
        let uri = format!("file:{}?perdura_mode={mode}", path.display());
        let (ours, alone) = (open_shared(&path, mode), open(Path::new(&uri)).unwrap());
        ours.execute_batch("CREATE TABLE t(a, b)").unwrap();
        alone.execute_batch("INSERT INTO t VALUES(1, 'alone')").unwrap();
        ours.execute_batch("INSERT INTO t VALUES(2, 'ours')").unwrap();
        // The file grows past the size in the side file.
        let many = "WITH RECURSIVE n(a) AS (SELECT 3 UNION ALL SELECT a + 1 FROM n WHERE a < 300)
            INSERT INTO t SELECT a, hex(zeroblob(90)) FROM n";
        open_stock(&path).execute_batch(many).unwrap();
        assert_eq!(rows(&alone).len(), 300, "{mode}");
        check(&alone);
        alone.execute_batch("INSERT INTO t VALUES(301, 'alone')").unwrap();
        ours.execute_batch("INSERT INTO t VALUES(302, 'ours')").unwrap();
        assert_eq!(rows(&open_stock(&path)).len(), 302, "{mode}");
        check(&open_stock(&path));
    }
}
