//! SQL of all kinds on the VFS and on stock SQLite: the results agree, and a plain file is left.

use std::path::Path;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rusqlite::{Connection, Error, ErrorCode};

pub(crate) use crate::contents::{check, folder, rows, side_of, stock};
use crate::register::{open, stats};

/// A statement of a random workload, which both databases get.
fn statement(random: &mut SmallRng) -> String {
    let (key, many) = (random.random_range(0..400), random.random_range(1..900));
    match random.random_range(0..14) {
        0..5 => format!("INSERT OR REPLACE INTO t VALUES({key}, hex(zeroblob({many})))"),
        5..7 => format!("UPDATE t SET b = b || 'x' WHERE a % 7 = {}", key % 7),
        7..9 => format!("DELETE FROM t WHERE a BETWEEN {key} AND {}", key + many / 40),
        9 => format!("SAVEPOINT s; DELETE FROM t WHERE a < {key}; ROLLBACK TO s; RELEASE s"),
        10 => format!("BEGIN; UPDATE t SET b = NULL WHERE a > {key}; ROLLBACK"),
        11 => format!("BEGIN; INSERT OR IGNORE INTO t VALUES({key}, 'new'); COMMIT"),
        12 => "PRAGMA incremental_vacuum".into(),
        _ if many % 10 == 0 => "VACUUM".into(),
        _ => format!("SAVEPOINT s; UPDATE t SET b = {key} WHERE a < {key}; RELEASE s"),
    }
}

#[test]
fn random_sql_matches_stock_and_leaves_a_plain_file() {
    for (seed, page_bytes) in [512, 1024, 4096, 8192, 65536].into_iter().enumerate() {
        let directory = folder();
        let path = directory.path().join("db");
        let mut random = SmallRng::seed_from_u64(seed as u64);
        let model = Connection::open_in_memory().unwrap();
        let mut connection = open(&path).unwrap();
        for one in [&model, &connection] {
            one.execute_batch(&format!(
                "PRAGMA page_size = {page_bytes}; PRAGMA auto_vacuum = {};
                 PRAGMA cache_size = 10; CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT);
                 CREATE INDEX i ON t(b)",
                seed % 3
            ))
            .unwrap();
        }
        for step in 0..120 {
            let statement = statement(&mut random);
            for one in [&model, &connection] {
                one.execute_batch(&statement).unwrap_or_else(|error| {
                    panic!("{page_bytes} bytes, step {step}, {statement}: {error}")
                });
            }
            check(&connection);
            if step % 30 == 29 {
                assert!(stats(&connection, "commits") > 0);
                connection.close().unwrap();
                assert_eq!(rows(&stock(&path)), rows(&model), "{page_bytes} bytes, step {step}");
                connection = open(&path).unwrap();
                connection.execute_batch("PRAGMA cache_size = 10").unwrap();
            }
        }
        check(&connection);
        assert_eq!(rows(&connection), rows(&model));
        let bytes: i64 = connection
            .query_row(
                "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
                [],
                |row| row.get(0),
            )
            .unwrap();
        connection.close().unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), bytes.cast_unsigned());
    }
}

#[test]
fn journal_and_locking_modes_commit_and_roll_back() {
    let directory = folder();
    for mode in ["delete", "truncate", "persist", "memory", "off"] {
        for locking in ["normal", "exclusive"] {
            let path = directory.path().join(format!("{mode}-{locking}"));
            let connection = open(&path).unwrap();
            let set = format!("PRAGMA locking_mode = {locking}; PRAGMA journal_mode = {mode}");
            connection.execute_batch(&set).unwrap();
            connection
                .execute_batch("CREATE TABLE t(a, b); INSERT INTO t VALUES(1, 'one')")
                .unwrap();
            if mode != "off" {
                connection.execute_batch("BEGIN; DELETE FROM t; ROLLBACK").unwrap();
            }
            assert_eq!(rows(&connection).len(), 1);
            let wal: String =
                connection.query_row("PRAGMA journal_mode = wal", [], |row| row.get(0)).unwrap();
            assert_eq!(wal, "wal");
            connection.execute_batch("INSERT INTO t VALUES(2, 'two')").unwrap();
            connection.close().unwrap();
            let stock = Connection::open(&path).unwrap();
            check(&stock);
            assert_eq!(rows(&stock).len(), 2);
            stock.close().unwrap();
            for ending in ["journal", "wal", "shm", "perdura"] {
                assert!(!directory.path().join(format!("{mode}-{locking}-{ending}")).exists());
            }
        }
    }
}

fn code_of(error: &Error) -> Option<ErrorCode> {
    error.sqlite_error_code()
}

#[test]
fn stock_sqlite_is_refused_while_a_database_is_live() {
    let directory = folder();
    let path = directory.path().join("db");
    // It has opened and read the database before this VFS's first commit.
    let before = Connection::open(&path).unwrap();
    before.execute_batch("CREATE TABLE t(a, b); INSERT INTO t VALUES(1, 'one')").unwrap();
    let connection = open(&path).unwrap();
    assert_eq!(rows(&connection), rows(&before));
    before.execute_batch("INSERT INTO t VALUES(2, 'two')").unwrap();
    assert_eq!(rows(&connection).len(), 2, "until then they share it");
    connection.execute_batch("INSERT INTO t VALUES(3, 'three')").unwrap();
    for stock in [before, Connection::open(&path).unwrap()] {
        let error = stock.execute_batch("SELECT * FROM t").unwrap_err();
        assert_eq!(code_of(&error), Some(ErrorCode::NotADatabase));
        let error = stock.execute_batch("INSERT INTO t VALUES(4, 'four')").unwrap_err();
        assert_eq!(code_of(&error), Some(ErrorCode::NotADatabase));
    }
    connection.close().unwrap();
    assert_eq!(rows(&stock(&path)).len(), 3);
}

#[test]
fn stock_reader_delays_the_first_commit() {
    let directory = folder();
    let path = directory.path().join("db");
    let reader = Connection::open(&path).unwrap();
    reader.execute_batch("CREATE TABLE t(a, b); INSERT INTO t VALUES(1, 'one')").unwrap();
    reader.execute_batch("BEGIN; SELECT * FROM t").unwrap();
    let connection = open(&path).unwrap();
    connection.busy_timeout(std::time::Duration::ZERO).unwrap();
    let busy = |sql: &str| {
        let error = connection.execute_batch(sql).unwrap_err();
        assert_eq!(code_of(&error), Some(ErrorCode::DatabaseBusy));
    };
    busy("INSERT INTO t VALUES(2, 'two')");
    connection.execute_batch("BEGIN; INSERT INTO t VALUES(2, 'two')").unwrap();
    // The same at each try.
    (0..3).for_each(|_| busy("COMMIT"));
    assert_eq!(rows(&reader).len(), 1);
    reader.execute_batch("COMMIT").unwrap();
    connection.execute_batch("COMMIT").unwrap();
    assert_eq!(rows(&connection).len(), 2);
}

#[test]
fn connections_exclude_each_other_as_in_rollback_mode() {
    let directory = folder();
    let path = directory.path().join("db");
    let (one, other) = (open(&path).unwrap(), open(&path).unwrap());
    for connection in [&one, &other] {
        connection.busy_timeout(std::time::Duration::ZERO).unwrap();
    }
    one.execute_batch("CREATE TABLE t(a, b)").unwrap();
    one.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES(1, 'one')").unwrap();
    let busy = |result: rusqlite::Result<()>| {
        assert_eq!(code_of(&result.unwrap_err()), Some(ErrorCode::DatabaseBusy));
    };
    busy(other.execute_batch("BEGIN IMMEDIATE"));
    other.execute_batch("BEGIN; SELECT * FROM t").unwrap();
    busy(one.execute_batch("COMMIT"));
    let third = open(&path).unwrap();
    third.busy_timeout(std::time::Duration::ZERO).unwrap();
    busy(third.execute_batch("SELECT * FROM t"));
    other.execute_batch("COMMIT").unwrap();
    one.execute_batch("COMMIT").unwrap();
    assert_eq!((rows(&other).len(), rows(&third).len()), (1, 1));
    // The last connection to close makes it plain, whichever wrote.
    one.close().unwrap();
    assert!(side_of(&path).exists());
    other.close().unwrap();
    third.close().unwrap();
    assert_eq!(rows(&stock(&path)).len(), 1);
}

#[test]
fn hot_stock_journal_is_rolled_back_at_first_open() {
    let directory = folder();
    let (path, copy) = (directory.path().join("db"), directory.path().join("copy"));
    let connection = Connection::open(&path).unwrap();
    connection
        .execute_batch(
            "CREATE TABLE t(a, b); INSERT INTO t VALUES(1, 'one'); PRAGMA cache_size = 5;
             BEGIN; WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n LIMIT 3000)
             INSERT INTO t SELECT i, hex(zeroblob(100)) FROM n; UPDATE t SET b = 'lost'",
        )
        .unwrap();
    // As a kill leaves them: pages have been spilled, and the journal exists.
    std::fs::copy(&path, &copy).unwrap();
    std::fs::copy(directory.path().join("db-journal"), directory.path().join("copy-journal"))
        .unwrap();
    connection.execute_batch("ROLLBACK").unwrap();
    let ours = open(&copy).unwrap();
    assert_eq!(rows(&ours), [(1, Some("one".into()))]);
    assert!(!directory.path().join("copy-journal").exists());
    ours.execute_batch("INSERT INTO t VALUES(2, 'two')").unwrap();
    ours.close().unwrap();
    assert_eq!(rows(&stock(&copy)).len(), 2);
}

#[test]
fn other_databases_go_to_the_underlying_vfs() {
    let directory = folder();
    let path = directory.path().join("wal");
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch("PRAGMA journal_mode = wal; CREATE TABLE t(a, b)").unwrap();
    // A database that stock SQLite has open in WAL mode, and one without a name.
    let delegated = open(&path).unwrap();
    delegated.execute_batch("INSERT INTO t VALUES(1, 'one')").unwrap();
    assert!(directory.path().join("wal-wal").exists() && !side_of(&path).exists());
    let nameless = open(Path::new("")).unwrap();
    nameless.execute_batch("CREATE TABLE t(a, b)").unwrap();
    let answered = nameless.query_row("PRAGMA perdura_mode", [], |row| row.get::<_, String>(0));
    assert!(matches!(answered, Err(Error::QueryReturnedNoRows)));
}

#[test]
fn pragmas_answer_and_refuse_unknown_values() {
    let directory = folder();
    let connection = open(&directory.path().join("db")).unwrap();
    let ask = |pragma: &str| {
        connection.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get::<_, String>(0))
    };
    assert_eq!(ask("perdura_mode").unwrap(), "lean");
    assert_eq!(ask("perdura_mode = full").unwrap(), "full");
    assert_eq!(ask("perdura_domain").unwrap(), "process");
    assert_eq!(ask("perdura_share").unwrap(), "perdura");
    for wrong in ["perdura_mode = fats", "perdura_share = all", "perdura_domain = adr"] {
        assert!(ask(wrong).is_err(), "{wrong}");
    }
    connection.execute_batch("CREATE TABLE t(a, b)").unwrap();
    assert_eq!(stats(&connection, "commits"), 1);
    assert!(stats(&connection, "exact") > 0, "in mode full");
    assert!(ask("perdura_stats").unwrap().starts_with('{'));
}

#[test]
fn next_commit_flushes_the_previous_ones_stores() {
    let directory = folder();
    let path = directory.path().join("db");
    let (one, other) = (open(&path).unwrap(), open(&path).unwrap());
    one.execute_batch("CREATE TABLE t(a, b); INSERT INTO t VALUES(0, 'x')").unwrap();
    other.execute_batch("INSERT INTO t VALUES(1, 'y')").unwrap();
    // More than fits into a slot, in existing pages.
    one.execute_batch("INSERT INTO t VALUES(2, hex(randomblob(400000)))").unwrap();
    one.execute_batch("UPDATE t SET b = hex(randomblob(400000)) WHERE a = 2").unwrap();
    let before = stats(&other, "lines");
    other.execute_batch("INSERT INTO t VALUES(3, 'z')").unwrap();
    let lines = stats(&other, "lines") - before;
    assert!(lines >= 800_000 / 64, "{lines}");
}

#[test]
fn mode_stock_keeps_a_journal_file_next_to_ours() {
    let directory = folder();
    let path = directory.path().join("db");
    let ours = open(&path).unwrap();
    let uri = format!("file:{}?perdura_mode=stock", path.display());
    let stock = open(Path::new(&uri)).unwrap();
    stock.execute_batch("CREATE TABLE t(a, b); BEGIN; INSERT INTO t VALUES(1, 'one')").unwrap();
    stock
        .execute_batch("PRAGMA cache_size = 1; INSERT INTO t VALUES(2, hex(zeroblob(90000)))")
        .unwrap();
    assert!(directory.path().join("db-journal").exists());
    stock.execute_batch("COMMIT").unwrap();
    assert_eq!(rows(&ours).len(), 2);
}

#[test]
fn opening_during_the_last_close_is_never_refused() {
    let directory = folder();
    let path = directory.path().join("db");
    open(&path).unwrap().execute_batch("CREATE TABLE t(a, b)").unwrap();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for number in 0..60 {
                    let connection = open(&path).unwrap();
                    connection.busy_timeout(std::time::Duration::from_secs(60)).unwrap();
                    connection.execute("INSERT INTO t VALUES(?1, 'x')", [number]).unwrap();
                    connection.close().unwrap();
                }
            });
        }
    });
    assert_eq!(rows(&stock(&path)).len(), 180);
}

#[test]
fn connections_read_pages_that_others_have_moved() {
    let directory = folder();
    let path = directory.path().join("db");
    let moving = std::path::PathBuf::from(format!("file:{}?perdura_mode=fash1", path.display()));
    let connections = [(); 3].map(|()| open(&moving).unwrap());
    let model = Connection::open_in_memory().unwrap();
    for one in [&model, &connections[0]] {
        one.execute_batch("PRAGMA page_size = 512; CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)")
            .unwrap();
    }
    let mut random = SmallRng::seed_from_u64(11);
    for step in 0..900 {
        let (key, many) = (random.random_range(0..100_000), random.random_range(5..60));
        let sql = match step % 7 {
            6 => format!("DELETE FROM t WHERE a BETWEEN {key} AND {key} + 400"),
            _ => format!("INSERT OR IGNORE INTO t VALUES({key}, hex(zeroblob({many})))"),
        };
        let writer = &connections[random.random_range(0..3)];
        for one in [&model, writer] {
            one.execute_batch(&sql).unwrap();
        }
        if step % 50 == 0 {
            let reader = &connections[random.random_range(0..3)];
            assert_eq!(rows(reader), rows(&model), "step {step}");
            check(reader);
        }
    }
    let moved: u64 = connections.iter().map(|one| stats(one, "moved")).sum();
    assert!(moved > 20, "{moved}");
    connections.into_iter().for_each(|one| one.close().unwrap());
    assert_eq!(rows(&stock(&path)), rows(&model));
}

#[test]
fn secure_delete_zeroes_deleted_bytes() {
    let directory = folder();
    for secure in [true, false] {
        let path = directory.path().join(format!("{secure}"));
        let connection = open(&path).unwrap();
        connection
            .execute_batch(&format!(
                "PRAGMA secure_delete = {secure}; CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)"
            ))
            .unwrap();
        for number in 0..200 {
            let sql = format!("INSERT INTO t VALUES({}, 'secret{number}')", number * 7919 % 1000);
            connection.execute_batch(&sql).unwrap();
        }
        connection.execute_batch("DELETE FROM t WHERE b LIKE 'secret%'").unwrap();
        let found = std::fs::read(&path).unwrap().windows(6).any(|bytes| bytes == b"secret");
        assert_eq!(found, !secure);
        connection.close().unwrap();
        let found = std::fs::read(&path).unwrap().windows(6).any(|bytes| bytes == b"secret");
        assert_eq!(found, !secure);
    }
}

/// The answer to a pragma about the mode.
fn mode_of(connection: &Connection, pragma: &str) -> rusqlite::Result<String> {
    connection.query_row(pragma, [], |row| row.get(0))
}

#[test]
fn connections_in_different_modes_work_on_one_database() {
    let directory = folder();
    let path = directory.path().join("db");
    let modes = perdura_sqlite::store::mode::Mode::ALL;
    let connections: Vec<Connection> = modes.iter().map(|_| open(&path).unwrap()).collect();
    connections[0].execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)").unwrap();
    for (mode, connection) in modes.iter().zip(&connections) {
        let chosen = mode_of(connection, &format!("PRAGMA perdura_mode = {}", mode.name()));
        assert_eq!(chosen.as_deref(), Ok(mode.name()));
    }
    for number in 0..300_i64 {
        // Each mode follows each other one.
        let one = (number % 3 + number / 3 % 7 * number) as usize % connections.len();
        let text = "text".repeat(number as usize % 40);
        let values = (number * 37 % 300, text);
        connections[one].execute("INSERT INTO t VALUES(?1, ?2)", values).unwrap();
        let other = &connections[(one + 1) % connections.len()];
        assert_eq!(rows(other).len() as i64, number + 1);
    }
    let all = rows(&connections[0]);
    for connection in connections {
        assert_eq!(rows(&connection), all);
        connection.close().unwrap();
    }
    let plain = stock(&path);
    check(&plain);
    assert_eq!(rows(&plain), all);
}

#[test]
fn mode_does_not_change_within_a_writing_transaction() {
    let directory = folder();
    let connection = open(&directory.path().join("db")).unwrap();
    connection.execute_batch("CREATE TABLE t(a, b); BEGIN; INSERT INTO t VALUES(1, 2)").unwrap();
    let refused = mode_of(&connection, "PRAGMA perdura_mode = fash").unwrap_err();
    assert!(refused.to_string().contains("within a transaction"), "{refused}");
    assert_eq!(mode_of(&connection, "PRAGMA perdura_mode").as_deref(), Ok("lean"));
    connection.execute_batch("COMMIT").unwrap();
    assert_eq!(mode_of(&connection, "PRAGMA perdura_mode = fash").as_deref(), Ok("fash"));
    connection.execute_batch("INSERT INTO t VALUES(3, 4)").unwrap();
    assert_eq!(mode_of(&connection, "PRAGMA perdura_mode").as_deref(), Ok("fash"));
}

#[test]
fn last_close_applies_frames_that_another_logged() {
    for share in ["perdura", "stock"] {
        let directory = folder();
        let path = directory.path().join("db");
        let uri = format!("file:{}?perdura_mode=nvwal&perdura_share={share}", path.display());
        let [one, other] = [0, 1].map(|_| open(Path::new(&uri)).unwrap());
        one.execute_batch("CREATE TABLE t(a, b); INSERT INTO t VALUES(1, 'one')").unwrap();
        assert_eq!(rows(&other).len(), 1);
        one.execute_batch("INSERT INTO t VALUES(2, 'two'); INSERT INTO t VALUES(3, 'three')")
            .unwrap();
        one.close().unwrap();
        // It has not read these commits.
        other.close().unwrap();
        assert_eq!(rows(&stock(&path)).len(), 3, "{share}");
    }
}
