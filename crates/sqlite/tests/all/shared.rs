//! Databases that stock SQLite uses at the same time, with `perdura_share=stock`.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use perdura_sqlite::database::{Level, MainFile as _, Mapped, OpenOptions};
use perdura_sqlite::store::connection::Store;
use perdura_sqlite::store::error::StoreError;
use perdura_sqlite::store::mode::Mode;
use pm::{LineSet, Lock, Memory, Plain, PlainOptions, Range};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rusqlite::{Connection, ErrorCode};
use sim::{Recording, Replay};

use crate::explore::{DATA, SIDE, SLOT, media};
use crate::register::{open, stats};
use crate::sql::{check, folder, rows, side_of, stock};
use crate::store_kills;

const MODES: [&str; 5] = ["fash1", "fash", "fast", "nvwal", "full"];

/// Opens a database that is shared with stock SQLite.
pub(crate) fn open_shared(path: &Path, mode: &str) -> Connection {
    let uri = format!("file:{}?perdura_share=stock&perdura_mode={mode}", path.display());
    let connection = open(Path::new(&uri)).unwrap();
    connection.busy_timeout(Duration::from_secs(60)).unwrap();
    connection.execute_batch("PRAGMA mmap_size = 1000000000").unwrap();
    let shares: String =
        connection.query_row("PRAGMA perdura_share", [], |row| row.get(0)).unwrap();
    assert_eq!(shares, "stock");
    connection
}

pub(crate) fn open_stock(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.busy_timeout(Duration::from_secs(60)).unwrap();
    connection
}

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
        "PRAGMA mmap_size = 1000000000; CREATE TABLE t(a INTEGER PRIMARY KEY, b); CREATE TABLE u(a)",
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

/// A transaction is rolled back, or finds no room, after the marker was set: stock SQLite may have read the old
/// content with the announced counter.
#[test]
fn change_counter_is_issued_once() {
    for fails in [false, true] {
        for mode in Mode::ALL {
            let memory = store_kills::new();
            let mut one = store_kills::open(&memory, 1);
            one.set_mode(mode);
            one.set_keeps_layout(true);
            let counters = || {
                [24, 92].map(|at| {
                    let mut counter = [0; 4];
                    media(&memory).data.read_into(at, &mut counter).unwrap();
                    u32::from_be_bytes(counter)
                })
            };
            let plain = |one: &mut Store<Recording>| {
                one.restore_layout().unwrap();
                one.make_plain().unwrap();
                counters()
            };
            store_kills::commit(&mut one, &store_kills::page(4, 7));
            assert_eq!(plain(&mut one), [4; 2], "{mode:?}");
            store_kills::commit(&mut one, &store_kills::page(5, 8));
            assert_eq!(plain(&mut one), [5; 2], "{mode:?}");
            one.write(0, &store_kills::page(6, 9)).unwrap();
            if fails {
                one.write(0, &[store_kills::page(6, 9), vec![3; 2 * DATA as usize]].concat())
                    .unwrap();
                assert!(matches!(one.commit(), Err(StoreError::Full(_))));
            } else {
                one.prepare_for(b"a super-journal").unwrap();
                one.roll_back_prepared().unwrap();
            }
            one.discard();
            assert_eq!(plain(&mut one), [6; 2], "{mode:?}");
            // SQLite has kept its lock and counts on from 5.
            store_kills::commit(&mut one, &store_kills::page(6, 10));
            let then = plain(&mut one);
            assert!(then[0] == then[1] && then[0] > 6, "{mode:?}, {then:?}");
            store_kills::commit(&mut one, &store_kills::page(20, 11));
            assert_eq!(plain(&mut one), [20; 2], "{mode:?}");
        }
    }
}

/// A connection refreshes without a lock, as SQLite does when it opens a database, while another clears the marker.
#[test]
fn marker_seen_while_being_cleared_is_not_trusted() {
    let memory = store_kills::new();
    let mut one = store_kills::open(&memory, 1);
    store_kills::commit(&mut one, &store_kills::page(1, 7));
    let size = || Ok::<_, StoreError>(store_kills::PAGE as u64);
    let mut two = Store::attach(media(&memory), store_kills::PAGE as u64).unwrap();
    assert!(store_kills::refresh(&mut two, || store_kills::PAGE as u64) && two.is_marked());
    // `Store::make_plain`, step by step.
    let (side, data) = (media(&memory).side, media(&memory).data);
    side.store(6144, 1);
    assert!(two.refresh_unlocked(size).unwrap());
    let plain = store_kills::page(2, 8);
    data.copy(16, &plain[16..]);
    assert!(two.refresh(size).unwrap());
    assert!(!two.is_marked());
    let mut found = vec![0; store_kills::PAGE];
    two.read(0, &mut found).unwrap();
    assert_eq!(found, plain);
}

/// It refreshes while another connection commits a smaller database and cuts the file.
#[test]
fn file_truncated_during_refresh_is_read_again() {
    let memory = store_kills::new();
    let mut one = store_kills::open(&memory, 1);
    one.set_keeps_layout(true);
    let page = store_kills::PAGE as u64;
    one.write(page, &[7; 2 * store_kills::PAGE]).unwrap();
    store_kills::commit(&mut one, &store_kills::page(1, 7));
    let mut two = Store::attach(media(&memory), 3 * page).unwrap();
    assert!(store_kills::refresh(&mut two, || 3 * page));
    assert_eq!(two.size(), 3 * page);
    let cut = two.refresh(|| Ok::<_, StoreError>(page)).unwrap_err();
    assert!(matches!(cut, StoreError::Cut { .. }), "{cut}");
    let mut shrinks = Some(());
    let whole = two.refresh_unlocked(|| {
        if shrinks.take().is_some() {
            one.truncate(page);
            store_kills::commit(&mut one, &store_kills::page(2, 8));
            one.restore_layout().unwrap();
        }
        Ok::<_, StoreError>(page)
    });
    assert!(whole.unwrap());
    assert_eq!(two.size(), page);
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

/// A database of one table, and successive copies with one more row each.
fn versions(folder: &Path, count: usize) -> (Connection, Vec<Vec<u8>>) {
    let [path, copy] = ["db", "copy"].map(|name| folder.join(name));
    let stocks = open_stock(&path);
    stocks.execute_batch("CREATE TABLE t(a, b); INSERT INTO t VALUES(1, 'one')").unwrap();
    std::fs::copy(&path, &copy).unwrap();
    let next = |_| {
        open_stock(&copy).execute_batch("INSERT INTO t VALUES(2, 'two')").unwrap();
        std::fs::read(&copy).unwrap()
    };
    (stocks, (0..count).map(next).collect())
}

/// Begins to commit a whole file, optionally over several databases.
fn begin_commit(ours: &mut Mapped, file: &[u8], super_journal: Option<&Path>) {
    for level in [Level::Shared, Level::Reserved, Level::Exclusive] {
        ours.lock(level).unwrap();
    }
    ours.write(0, file).unwrap();
    ours.commit(super_journal.map(|path| path.to_str().unwrap().as_bytes())).unwrap();
}

/// A connection whose placeholder could not be removed after its transaction, and the placeholder's bytes. A folder
/// is in its place.
fn with_leftover_placeholder(folder: &Path, file: &[u8]) -> (Mapped, Vec<u8>) {
    let [path, super_journal, journal] =
        ["db", "db-mj01", "db-journal"].map(|name| folder.join(name));
    std::fs::write(&super_journal, format!("{}\0", journal.display())).unwrap();
    let options = OpenOptions { share: Some("stock".into()), ..OpenOptions::default() };
    let mut ours = Mapped::open(&path, &options).unwrap().unwrap();
    begin_commit(&mut ours, file, Some(&super_journal));
    let placeholder = std::fs::read(&journal).unwrap();
    std::fs::remove_file(&super_journal).unwrap();
    // Removing a folder as a file fails.
    std::fs::remove_file(&journal).unwrap();
    std::fs::create_dir(&journal).unwrap();
    ours.end_transaction().unwrap();
    ours.unlock(Level::None).unwrap();
    (ours, placeholder)
}

/// A leftover placeholder that stock SQLite has opened as its journal, and not written to yet.
#[test]
fn stock_journal_in_place_of_a_placeholder_stays() {
    let directory = folder();
    let [path, journal] = ["db", "db-journal"].map(|name| directory.path().join(name));
    let (stocks, files) = versions(directory.path(), 1);
    let (mut ours, placeholder) = with_leftover_placeholder(directory.path(), &files[0]);
    std::fs::remove_dir(&journal).unwrap();
    assert_eq!(rows(&stocks).len(), 2);
    for begins in ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"] {
        stocks.execute_batch(begins).unwrap();
        std::fs::write(&journal, &placeholder).unwrap();
        for level in [Level::Shared, Level::Reserved] {
            let _ = ours.lock(level);
        }
        ours.unlock(Level::None).unwrap();
        assert!(journal.exists(), "{begins}");
        stocks.execute_batch("INSERT INTO t VALUES(3, 'three'); ROLLBACK").unwrap();
    }
    std::fs::write(&journal, &placeholder).unwrap();
    ours.lock(Level::Shared).unwrap();
    ours.lock(Level::Reserved).unwrap();
    ours.unlock(Level::None).unwrap();
    assert!(!journal.exists(), "no connection of stock SQLite is there");
    Box::new(ours).close().unwrap();
    check(&stock(&path));
}

/// A connection that only reads, or closes a database that others have open, does not know whether another one is
/// creating its own placeholder.
#[test]
fn leftover_placeholder_is_removed_by_writer_or_last_close() {
    let directory = folder();
    let [path, journal] = ["db", "db-journal"].map(|name| directory.path().join(name));
    let (stocks, files) = versions(directory.path(), 3);
    let options = OpenOptions { share: Some("perdura".into()), ..OpenOptions::default() };
    for marked in [false, true] {
        let (mut ours, placeholder) = with_leftover_placeholder(directory.path(), &files[0]);
        std::fs::remove_dir(&journal).unwrap();
        let mut other = Mapped::open(&path, &options).unwrap().unwrap();
        if marked {
            begin_commit(&mut other, &files[1], None);
            other.unlock(Level::None).unwrap();
            other.lock(Level::Shared).unwrap();
        }
        // The beginning of another connection's, and one that looks like its own.
        for bytes in [&placeholder[..9], &placeholder] {
            std::fs::write(&journal, bytes).unwrap();
            ours.lock(Level::Shared).unwrap();
            ours.unlock(Level::None).unwrap();
            assert_eq!(std::fs::read(&journal).unwrap(), bytes, "{marked}");
        }
        if marked {
            other.unlock(Level::None).unwrap();
            begin_commit(&mut ours, &files[2], None);
            assert!(!journal.exists());
            ours.unlock(Level::None).unwrap();
            Box::new(ours).close().unwrap();
        } else {
            Box::new(ours).close().unwrap();
            assert_eq!(std::fs::read(&journal).unwrap(), placeholder);
        }
        Box::new(other).close().unwrap();
        assert!(!journal.exists(), "{marked}");
    }
    assert_eq!(rows(&stocks).len(), 4);
    check(&stocks);
}

/// The next commit tries again to remove a leftover placeholder.
#[test]
fn stock_waits_for_a_commit_after_a_leftover_placeholder() {
    let directory = folder();
    let [path, journal] = ["db", "db-journal"].map(|name| directory.path().join(name));
    let (stocks, files) = versions(directory.path(), 3);
    stocks.busy_timeout(Duration::ZERO).unwrap();
    let (mut ours, placeholder) = with_leftover_placeholder(directory.path(), &files[0]);
    for (file, goes) in files[1..].iter().zip([false, true]) {
        std::fs::remove_dir(&journal).unwrap();
        if goes {
            std::fs::write(&journal, &placeholder).unwrap();
        } else {
            std::fs::create_dir(&journal).unwrap();
        }
        begin_commit(&mut ours, file, None);
        assert_eq!(journal.exists(), !goes);
        let _ = std::fs::remove_dir(&journal);
        let error = stocks.execute_batch("SELECT * FROM t").unwrap_err();
        assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy), "{goes}: {error}");
        std::fs::create_dir(&journal).unwrap();
        ours.unlock(Level::None).unwrap();
    }
    std::fs::remove_dir(&journal).unwrap();
    assert_eq!(rows(&stocks).len(), 4);
    Box::new(ours).close().unwrap();
    check(&stock(&path));
}

/// Its own placeholder is long gone, and without a lock it cannot know that the other transaction is prepared.
#[test]
fn leftover_placeholder_does_not_remove_anothers() {
    let directory = folder();
    let [path, journal, super_journal] =
        ["db", "db-journal", "db-mj02"].map(|name| directory.path().join(name));
    let (stocks, files) = versions(directory.path(), 3);
    let (mut ours, _) = with_leftover_placeholder(directory.path(), &files[0]);
    std::fs::remove_dir(&journal).unwrap();
    let options = OpenOptions { share: Some("perdura".into()), ..OpenOptions::default() };
    let mut other = Mapped::open(&path, &options).unwrap().unwrap();
    begin_commit(&mut other, &files[1], None);
    other.unlock(Level::None).unwrap();
    // It has set the marker, and holds no lock of stock SQLite's.
    std::fs::write(&super_journal, format!("{}\0", journal.display())).unwrap();
    begin_commit(&mut other, &files[2], Some(&super_journal));
    let placeholder = std::fs::read(&journal).unwrap();
    ours.unlock(Level::None).unwrap();
    Box::new(ours).close().unwrap();
    assert_eq!(std::fs::read(&journal).unwrap(), placeholder);
    std::fs::remove_file(&super_journal).unwrap();
    other.end_transaction().unwrap();
    other.unlock(Level::None).unwrap();
    assert!(!journal.exists());
    Box::new(other).close().unwrap();
    assert_eq!(rows(&stocks).len(), 4);
    check(&stocks);
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

const PATH: &str = "PERDURA_TEST_PATH";
const FIRST: &str = "PERDURA_TEST_FIRST";
const WAY: &str = "PERDURA_TEST_WAY";
/// A connection that does not share with stock SQLite.
const ALONE: &str = "alone";

/// A process that inserts and prints numbers from `first` on.
fn start(path: &Path, way: &str, first: i64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "shared::writer", "--ignored", "--nocapture", "--test-threads=1"])
        .env(PATH, path)
        .env(FIRST, first.to_string())
        .env(WAY, way)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

#[test]
#[ignore = "a process of the other tests"]
fn writer() {
    let Ok(path) = std::env::var(PATH) else { return };
    let first: i64 = std::env::var(FIRST).unwrap().parse().unwrap();
    let way = std::env::var(WAY).unwrap();
    let path = Path::new(&path);
    let connection = match &way[..] {
        "stock" => open_stock(path),
        ALONE => open(path).unwrap(),
        mode => open_shared(path, mode),
    };
    connection.busy_timeout(Duration::from_secs(60)).unwrap();
    let mut out = std::io::stdout();
    for number in first..first + 5_000 {
        let text = "x".repeat(number as usize * 37 % 900);
        let mut refused = 0;
        loop {
            let done = connection.execute_batch(&format!(
                "BEGIN IMMEDIATE; INSERT INTO t VALUES({number}, '{text}');
                 UPDATE t SET b = b || 'y' WHERE a = {first} + abs(random()) % {}; COMMIT",
                number - first + 1
            ));
            match done {
                Ok(()) => break,
                // Until a connection of this VFS has recovered after a kill.
                Err(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => {
                    let _ = connection.execute_batch("ROLLBACK");
                    refused += 1;
                    assert!(refused < 20_000, "no connection has recovered it");
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(error) => panic!("{error}"),
            }
        }
        writeln!(out, "=done {number}").unwrap();
        out.flush().unwrap();
    }
    // It may have finished before stock SQLite began, which an unshared connection keeps out.
    if way == ALONE {
        connection.execute_batch("PRAGMA perdura_share=stock; PRAGMA user_version = 1").unwrap();
    }
}

/// Kills a process of this VFS, one of stock SQLite, and `others`, after a few commits each.
fn kills(rounds: i64, others: &[&str]) {
    let directory = folder();
    let path = directory.path().join("db");
    let watcher = open_shared(&path, "fash1");
    watcher.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)").unwrap();
    let mut random = SmallRng::seed_from_u64(3);
    let mut reported = Vec::new();
    let mut marked = 0;
    for round in 0..rounds {
        let mode = MODES[round as usize % MODES.len()];
        let ways: Vec<&str> = [mode, "stock"].iter().chain(others).copied().collect();
        let first = |at: usize| (round * ways.len() as i64 + at as i64 + 1) * 10_000;
        let mut children: Vec<Child> =
            (0..).zip(&ways).map(|(at, way)| start(&path, way, first(at))).collect();
        let lines_of = |child: &mut Child| {
            BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok)
        };
        let mut lines: Vec<_> = children.iter_mut().map(lines_of).collect();
        let mut note = |line: &str| {
            if let Some((_, number)) = line.split_once("=done ") {
                reported.push(number.parse::<i64>().unwrap());
                true
            } else {
                false
            }
        };
        for (lines, way) in lines.iter_mut().zip(&ways) {
            for _ in 0..random.random_range(1..6) {
                assert!(lines.any(|line| note(&line)), "round {round}: {way} has ended");
            }
        }
        std::thread::sleep(Duration::from_micros(random.random_range(0..3_000)));
        let first = random.random_range(0..ways.len());
        for at in (0..ways.len()).map(|at| (first + at) % ways.len()) {
            children[at].kill().unwrap();
            children[at].wait().unwrap();
        }
        for line in lines.iter_mut().flatten() {
            note(&line);
        }
        marked += i32::from(std::fs::read(&path).unwrap()[19] == 80);
        let found: HashSet<i64> = rows(&watcher).into_iter().map(|row| row.0).collect();
        assert!(reported.iter().all(|number| found.contains(number)), "round {round}");
        assert!(found.len() <= reported.len() + ways.len() * (round as usize + 1), "round {round}");
        check(&watcher);
        // A sharing reader readmits stock SQLite after a kill. After an unshared commit it takes a commit.
        if ways.contains(&ALONE) {
            watcher.execute_batch(&format!("PRAGMA user_version = {round}")).unwrap();
        }
        let stocks = open_stock(&path);
        check(&stocks);
        assert_eq!(rows(&stocks).len(), found.len());
    }
    println!("{marked} of {rounds} kills left the marker");
    watcher.close().unwrap();
    check(&stock(&path));
}

#[test]
fn kills_of_stock_or_ours_lose_no_acknowledged_row() {
    kills(12, &[]);
    kills(6, &[ALONE]);
}

#[test]
#[ignore = "takes minutes: 1,800 kills"]
fn long_kills_of_stock_or_ours_lose_no_acknowledged_row() {
    kills(300, &[]);
    kills(300, &[ALONE, "nvwal"]);
}

/// Stores page 1 durably, as stock SQLite does while no other has a lock.
fn store_as_stock(memory: &Recording, page: &[u8]) {
    let (region, mut lines) = (media(memory).data, LineSet::new());
    region.copy(0, page);
    region.note(&mut lines, 0, page.len() as u64);
    lines.flush(memory);
    memory.fence();
}

/// Commits of this VFS and of stock SQLite in turn: each crash state is one of them, whole, to all that may read
/// it.
#[test]
fn every_crash_state_is_plain_and_whole_or_recoverable() {
    for mode in Mode::ALL {
        let memory = store_kills::new();
        let size = || store_kills::PAGE as u64;
        let mut one = Store::open(media(&memory), 0, 1, SLOT).unwrap();
        one.set_mode(mode);
        one.set_keeps_layout(true);
        let trace = store_kills::trace(&memory, || {
            for turn in 0..4_u32 {
                store_kills::commit(
                    &mut one,
                    &store_kills::page(10 * turn + 1, 2 * turn as u8 + 1),
                );
                memory.note(u64::from(2 * turn + 1));
                one.restore_layout().unwrap();
                one.make_plain().unwrap();
                store_as_stock(&memory, &store_kills::page(10 * turn + 5, 2 * turn as u8 + 2));
                memory.note(u64::from(2 * turn + 2));
                assert!(store_kills::refresh(&mut one, size));
                assert!(!one.is_marked());
            }
        });
        let (mut plain, mut ours) = (0, 0);
        let explored = Replay::new(&trace).explore(60, 1, |image, noted| {
            let found = if image[SIDE as usize + 19] == 80 {
                ours += 1;
                let memory = Recording::from_image(image, SIDE + DATA).unwrap();
                let whole = crate::explore::recover(&memory)?;
                if whole.is_empty() { vec![0; store_kills::PAGE] } else { whole }
            } else {
                plain += 1;
                image[SIDE as usize..][..store_kills::PAGE].to_vec()
            };
            let fill = found[100];
            // Stock SQLite's own store is not atomic, and its journal is not in the recording.
            let stocks = noted % 2 == 1 && image[SIDE as usize + 19] != 80;
            let whole = found[100..].iter().all(|byte| *byte == fill);
            let now = |fill: &u8| u64::from(*fill) == noted || u64::from(*fill) == noted + 1;
            let right = found[100..].iter().all(now) && (whole || stocks);
            if right { Ok(()) } else { Err(format!("{fill}; noted {noted}, {whole}")) }
        });
        assert_eq!(explored.failed, None, "{mode:?}");
        assert!(plain > 10 && ours > 10, "{mode:?}: {plain} and {ours}");
    }
}
