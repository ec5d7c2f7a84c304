//! SQLite's WAL mode through the VFS: SQL, other connections, and stock SQLite before, during and after.

mod connections;
mod costs;
mod crowd;
pub(crate) mod diff;
mod exclusive;
mod fairness;
mod idle;
pub(crate) mod kills;
mod lengths;
pub(crate) mod power_cuts;
mod recorded;
mod stocks;

use std::path::{Path, PathBuf};
use std::time::Duration;

use perdura_sqlite::database::{Failure, IndexLock, Level, LogFile, MainFile, Mapped, OpenOptions};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rusqlite::{Connection, ErrorCode, OpenFlags};

use connections::{journal_mode, open, open_wal, with_wal};

use crate::forked::in_forked_child;
use crate::register::{backup, register, stats};
use crate::sql::{check, folder, rows, side_of};

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}{suffix}", path.display()))
}

fn log_of(path: &Path) -> PathBuf {
    with_suffix(path, "-wal")
}

fn index_of(path: &Path) -> PathBuf {
    with_suffix(path, "-shm")
}

/// The three numbers that a checkpoint answers.
fn checkpoint(connection: &Connection, kind: &str) -> (i64, i64, i64) {
    let pragma = format!("PRAGMA wal_checkpoint({kind})");
    connection.query_row(&pragma, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap()
}

/// The code with which a connection of stock SQLite is refused; `None` if it is not.
fn stocks_error(path: &Path) -> Option<ErrorCode> {
    let stock = Connection::open(path).unwrap();
    stock.busy_timeout(Duration::ZERO).unwrap();
    let read = stock.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()));
    read.err().map(|error| error.sqlite_error_code().unwrap())
}

/// Opens a closed database with stock SQLite: a plain file in the journal mode with this number, and nothing next to it.
fn closed(path: &Path, version: u8) -> Connection {
    for other in [side_of(path), log_of(path), index_of(path)] {
        assert!(!other.exists(), "{} is left", other.display());
    }
    let header = std::fs::read(path).unwrap();
    assert_eq!((header[18], header[19], &header[72..80]), (version, version, &[0; 8][..]));
    let stock = Connection::open(path).unwrap();
    check(&stock);
    stock
}

#[test]
fn wal_mode_is_entered_used_and_left() {
    let directory = folder();
    let path = directory.path().join("db");
    let one = open(&path).unwrap();
    one.execute_batch(
        "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT); INSERT INTO t VALUES(1, 'one')",
    )
    .unwrap();
    assert_eq!(journal_mode(&one, "wal"), "wal");
    one.execute_batch("INSERT INTO t VALUES(2, 'two')").unwrap();
    assert!(log_of(&path).exists() && index_of(&path).exists());
    assert!(stats(&one, "wal_frames") > 0);
    let two = open(&path).unwrap();
    assert_eq!(rows(&two).len(), 2);
    two.execute_batch("INSERT INTO t VALUES(3, 'three')").unwrap();
    assert_eq!((rows(&one).len(), stats(&two, "wal_frames") > 0), (3, true));
    // A reader keeps its moment while another connection writes.
    two.execute_batch("BEGIN; SELECT count(*) FROM t").unwrap();
    one.execute_batch("INSERT INTO t VALUES(4, 'four')").unwrap();
    assert_eq!((rows(&two).len(), rows(&one).len()), (3, 4));
    two.execute_batch("COMMIT").unwrap();
    assert_eq!(rows(&two).len(), 4);
    assert_eq!(stocks_error(&path), Some(ErrorCode::CannotOpen));
    // The other connection is in WAL mode.
    let error = one.query_row("PRAGMA journal_mode = delete", [], |_| Ok(())).unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy));
    drop(two);
    assert_eq!(journal_mode(&one, "delete"), "delete");
    assert!(!log_of(&path).exists() && !index_of(&path).exists());
    one.execute_batch("INSERT INTO t VALUES(5, 'five')").unwrap();
    assert_eq!(rows(&one).len(), 5);
    assert_eq!(journal_mode(&one, "wal"), "wal");
    one.execute_batch("INSERT INTO t VALUES(6, 'six')").unwrap();
    check(&one);
    one.close().unwrap();
    assert_eq!(rows(&closed(&path, 2)).len(), 6);
    // A database found in WAL mode is ours.
    let again = open(&path).unwrap();
    assert_eq!(rows(&again).len(), 6);
    assert_eq!(stocks_error(&path), Some(ErrorCode::CannotOpen));
    assert_eq!(journal_mode(&again, "delete"), "delete");
    again.close().unwrap();
    assert_eq!(rows(&closed(&path, 1)).len(), 6);
}

/// Another connection of this VFS has the database open in rollback mode when it enters WAL mode, and when it leaves.
#[test]
fn other_connections_follow_the_mode() {
    let directory = folder();
    let path = directory.path().join("db");
    let (mut one, mut two) = (open(&path).unwrap(), open(&path).unwrap());
    one.execute_batch("CREATE TABLE t(a, b)").unwrap();
    let mut count = 0_i64;
    let mut insert = |all: [&Connection; 2]| {
        for by in all {
            count += 1;
            by.execute("INSERT INTO t VALUES(?1, 'x')", [count]).unwrap();
            for sees in all {
                assert_eq!(rows(sees).len() as i64, count);
            }
        }
        count
    };
    for _ in 0..3 {
        insert([&one, &two]);
        assert_eq!(journal_mode(&one, "wal"), "wal");
        insert([&two, &one]);
        // It is in WAL mode as long as it has the log open.
        two.query_row("PRAGMA journal_mode = delete", [], |_| Ok(())).unwrap_err();
        one.close().unwrap();
        assert_eq!(journal_mode(&two, "delete"), "delete");
        (one, two) = (two, open(&path).unwrap());
    }
    let count = insert([&one, &two]);
    drop(two);
    one.close().unwrap();
    assert_eq!(rows(&closed(&path, 1)).len() as i64, count);
}

/// A statement of a random workload, which both databases get.
fn statement(random: &mut SmallRng) -> String {
    let (key, many) = (random.random_range(0..400), random.random_range(1..900));
    match random.random_range(0..16) {
        0..5 => format!("INSERT OR REPLACE INTO t VALUES({key}, hex(zeroblob({many})))"),
        5..7 => format!("UPDATE t SET b = b || 'x' WHERE a % 7 = {}", key % 7),
        7..9 => format!("DELETE FROM t WHERE a BETWEEN {key} AND {}", key + many / 40),
        9 => format!("SAVEPOINT s; DELETE FROM t WHERE a < {key}; ROLLBACK TO s; RELEASE s"),
        10 => format!("BEGIN; UPDATE t SET b = NULL WHERE a > {key}; ROLLBACK"),
        11 => format!("BEGIN; INSERT OR IGNORE INTO t VALUES({key}, 'new'); COMMIT"),
        12 => "PRAGMA incremental_vacuum".into(),
        13 if many % 5 == 0 => "VACUUM".into(),
        14 => format!(
            "PRAGMA wal_checkpoint({})",
            ["PASSIVE", "FULL", "RESTART", "TRUNCATE"][many as usize % 4]
        ),
        _ => format!("SAVEPOINT s; UPDATE t SET b = {key} WHERE a < {key}; RELEASE s"),
    }
}

fn run(connection: &Connection, sql: &str) {
    for statement in sql.split(';') {
        let mut prepared = connection.prepare(statement).unwrap();
        let mut all = prepared.query([]).unwrap();
        while all.next().unwrap_or_else(|error| panic!("{sql}: {error}")).is_some() {}
    }
}

/// Runs random SQL in a database of each size of pages, opened by `uri`, and in stock SQLite. `look` is called after each
/// statement, with the database, the model, and a text that says where this is.
fn random_sql_matches(
    uri: impl Fn(&Path) -> PathBuf,
    closed: impl Fn(&Path) -> Connection,
    mut look: impl FnMut(&Path, &Connection, usize, &str),
) {
    for (seed, page_bytes) in [512, 1024, 4096, 65536].into_iter().enumerate() {
        let directory = folder();
        let path = directory.path().join("db");
        let mut random = SmallRng::seed_from_u64(seed as u64);
        let model = Connection::open_in_memory().unwrap();
        let first = open(&uri(&path)).unwrap();
        for one in [&model, &first] {
            let create = format!(
                "PRAGMA page_size = {page_bytes}; PRAGMA auto_vacuum = {};
                 CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT); CREATE INDEX i ON t(b)",
                seed % 3
            );
            one.execute_batch(&create).unwrap();
        }
        let mut all = [open_wal(&uri(&path)), open_wal(&uri(&path)), first];
        for step in 0..200 {
            let by = &all[random.random_range(0..3)];
            by.execute_batch("PRAGMA cache_size = 5; PRAGMA wal_autocheckpoint = 20").unwrap();
            let statement = statement(&mut random);
            run(&model, &statement);
            run(by, &statement);
            let sees = &all[random.random_range(0..3)];
            let place = format!("{page_bytes}, step {step}, {statement}");
            assert_eq!(rows(sees), rows(&model), "{place}");
            if step % 20 == 0 {
                check(sees);
            }
            if step % 50 == 49 {
                all[0] = open_wal(&uri(&path));
            }
            look(&path, &model, step, &place);
        }
        drop(all);
        assert_eq!(rows(&closed(&path)), rows(&model), "{page_bytes} bytes");
    }
}

#[test]
fn random_sql_in_wal_mode_matches_stock() {
    random_sql_matches(Path::to_owned, |path| closed(path, 2), |_, _, _, _| {});
}

#[test]
fn exclusive_mode_needs_no_shared_index() {
    for before in [true, false] {
        let directory = folder();
        let path = directory.path().join("db");
        let one = open(&path).unwrap();
        let exclusive = "PRAGMA locking_mode = EXCLUSIVE";
        if before {
            one.execute_batch(exclusive).unwrap();
        }
        assert_eq!(journal_mode(&one, "wal"), "wal");
        one.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)").unwrap();
        // The log is open: SQLite leaves this mode again.
        one.execute_batch(exclusive).unwrap();
        for key in 0..2_000 {
            one.execute("INSERT INTO t VALUES(?1, hex(randomblob(100)))", [key]).unwrap();
        }
        let other = open(&path).unwrap();
        other.busy_timeout(Duration::ZERO).unwrap();
        let error = other.query_row("SELECT count(*) FROM t", [], |_| Ok(())).unwrap_err();
        assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy), "{before}");
        assert!(stocks_error(&path).is_some());
        if !before {
            one.execute_batch("PRAGMA locking_mode = NORMAL; SELECT count(*) FROM t").unwrap();
            assert_eq!(rows(&other).len(), 2_000);
        }
        drop(other);
        one.close().unwrap();
        assert_eq!(rows(&closed(&path, 2)).len(), 2_000, "{before}");
    }
}

#[test]
fn checkpoints_of_all_kinds_let_others_go_on() {
    let directory = folder();
    let path = directory.path().join("db");
    let (one, two) = (open_wal(&path), open_wal(&path));
    one.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)").unwrap();
    let mut key = 0;
    let mut insert = |by: &Connection| {
        for _ in 0..50 {
            key += 1;
            by.execute("INSERT INTO t VALUES(?1, hex(zeroblob(700)))", [key]).unwrap();
        }
        key
    };
    for kind in ["PASSIVE", "FULL", "RESTART", "TRUNCATE", "TRUNCATE", "PASSIVE"] {
        insert(&one);
        let (busy, log, done) = checkpoint(&two, kind);
        assert_eq!((busy, log), (0, done), "{kind}");
        let bytes = std::fs::metadata(log_of(&path)).unwrap().len();
        assert_eq!(bytes == 0, kind == "TRUNCATE", "{kind}: {bytes}");
        let count = insert(&one);
        assert_eq!(rows(&two).len() as i64, count, "{kind}");
        let count = insert(&two);
        assert_eq!(rows(&one).len() as i64, count, "{kind}");
    }
    // A reader limits a checkpoint, and nothing else does.
    two.busy_timeout(Duration::ZERO).unwrap();
    one.execute_batch("BEGIN; SELECT count(*) FROM t").unwrap();
    let before = rows(&one).len();
    insert(&two);
    let (busy, log, done) = checkpoint(&two, "RESTART");
    assert!(busy == 1 && done < log, "{busy}, {log}, {done}");
    assert_eq!(rows(&one).len(), before);
    one.execute_batch("COMMIT").unwrap();
    assert_eq!(checkpoint(&two, "RESTART").0, 0);
    check(&one);
    check(&two);
}

#[test]
fn backup_and_vacuum_go_both_ways() {
    let directory = folder();
    let path = |name: &str| directory.path().join(name);
    let one = open_wal(&path("wal"));
    one.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)").unwrap();
    for key in 0..500 {
        one.execute("INSERT INTO t VALUES(?1, hex(zeroblob(400)))", [key]).unwrap();
    }
    one.execute_batch("DELETE FROM t WHERE a > 99; VACUUM").unwrap();
    check(&one);
    one.execute_batch(&format!("VACUUM INTO '{}'", path("into").display())).unwrap();
    let into = open(&path("into")).unwrap();
    assert_eq!(rows(&into), rows(&one));
    // From WAL mode into a new database, whose connection goes on.
    let copy = open(&path("copy")).unwrap();
    {
        let copy = open(&path("copied")).unwrap();
        backup(&one, &copy);
        copy.execute_batch("INSERT INTO t VALUES(1000, 'new')").unwrap();
        assert_eq!(rows(&copy).len(), 101);
        check(&copy);
        copy.close().unwrap();
        assert_eq!(rows(&closed(&path("copied"), 2)).len(), 101);
    }
    // From rollback mode into one in WAL mode.
    copy.execute_batch(
        "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT); INSERT INTO t VALUES(7, 'x')",
    )
    .unwrap();
    backup(&copy, &one);
    assert_eq!(rows(&one), [(7, Some("x".into()))]);
    assert_eq!(journal_mode(&one, "wal"), "wal");
    one.close().unwrap();
    assert_eq!(rows(&closed(&path("wal"), 2)).len(), 1);
}

#[test]
fn attached_databases_may_have_different_modes() {
    let directory = folder();
    let paths = ["one", "two", "three"].map(|name| directory.path().join(name));
    let one = open_wal(&paths[0]);
    for (name, path, mode) in [("two", &paths[1], "wal"), ("three", &paths[2], "delete")] {
        let attach =
            format!("ATTACH 'file:{}?vfs=perdura&perdura_wal=on' AS {name}", path.display());
        one.execute_batch(&attach).unwrap();
        let pragma = format!("PRAGMA {name}.journal_mode = {mode}");
        let answer: String = one.query_row(&pragma, [], |row| row.get(0)).unwrap();
        assert_eq!(answer, mode);
    }
    for name in ["main", "two", "three"] {
        one.execute_batch(&format!("CREATE TABLE {name}.t(a, b)")).unwrap();
    }
    for key in 0..20 {
        let all = ["main", "two", "three"]
            .map(|name| format!("INSERT INTO {name}.t VALUES({key}, 'x');"))
            .concat();
        let end = if key % 4 == 3 { "ROLLBACK" } else { "COMMIT" };
        one.execute_batch(&format!("BEGIN; {all} {end}")).unwrap();
    }
    one.close().unwrap();
    for (path, version) in paths.iter().zip([2, 2, 1]) {
        assert_eq!(rows(&closed(path, version)).len(), 15);
    }
}

#[test]
fn read_only_connection_reads_in_wal_mode() {
    let directory = folder();
    let path = directory.path().join("db");
    let one = open_wal(&path);
    one.execute_batch("CREATE TABLE t(a, b); INSERT INTO t VALUES(1, 'one')").unwrap();
    register();
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let reader = Connection::open_with_flags_and_vfs(
        with_wal(&path),
        flags | OpenFlags::SQLITE_OPEN_URI,
        "perdura",
    )
    .unwrap();
    assert_eq!(rows(&reader).len(), 1);
    one.execute_batch("INSERT INTO t VALUES(2, 'two')").unwrap();
    assert_eq!(rows(&reader).len(), 2);
    let error = reader.execute_batch("INSERT INTO t VALUES(3, 'three')").unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::ReadOnly));
    drop(one);
    assert_eq!(rows(&reader).len(), 2);
    drop(reader);
    let one = open(&path).unwrap();
    assert_eq!(rows(&one).len(), 2);
    one.close().unwrap();
    assert_eq!(rows(&closed(&path, 2)).len(), 2);
}

#[test]
fn persistent_log_stays_and_is_read_again() {
    let directory = folder();
    let path = directory.path().join("db");
    let one = open_wal(&path);
    let config = rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
    one.set_db_config(config, true).unwrap();
    one.execute_batch("CREATE TABLE t(a, b); INSERT INTO t VALUES(1, 'one')").unwrap();
    one.close().unwrap();
    assert!(log_of(&path).exists() && !side_of(&path).exists());
    let one = open(&path).unwrap();
    assert_eq!(rows(&one).len(), 1);
    one.set_db_config(config, true).unwrap();
    one.execute_batch("INSERT INTO t VALUES(2, 'two')").unwrap();
    one.close().unwrap();
    assert!(log_of(&path).exists());
    assert_eq!(rows(&Connection::open(&path).unwrap()).len(), 2);
}

#[test]
fn forked_child_is_refused_and_harms_nothing() {
    let directory = folder();
    let path = directory.path().join("db");
    let one = open_wal(&path);
    one.execute_batch("CREATE TABLE t(a, b); INSERT INTO t VALUES(1, 'one')").unwrap();
    assert!(in_forked_child(|| {
        one.execute_batch("INSERT INTO t VALUES(2, 'two')").is_err()
            && one.query_row("SELECT count(*) FROM t", [], |_| Ok(())).is_err()
    }));
    one.execute_batch("INSERT INTO t VALUES(3, 'three')").unwrap();
    assert_eq!(rows(&one).len(), 2);
    one.close().unwrap();
    assert_eq!(rows(&closed(&path, 2)).len(), 2);
}

/// Others take it for dead: its lock on its slot of the side file is gone.
#[test]
fn connection_whose_side_file_failed_writes_no_more() {
    let directory = folder();
    let path = directory.path().join("db");
    let one = open_wal(&path);
    one.execute_batch(
        "CREATE TABLE t(a, b); INSERT INTO t VALUES(1, 'one');
         PRAGMA locking_mode = EXCLUSIVE; INSERT INTO t VALUES(2, 'two')",
    )
    .unwrap();
    let side = std::fs::OpenOptions::new().write(true).open(side_of(&path)).unwrap();
    side.set_len(0).unwrap();
    // The lock's words are stored in vain.
    let _ = one.execute_batch("PRAGMA locking_mode = NORMAL; SELECT * FROM t");
    one.execute_batch("INSERT INTO t VALUES(3, 'three')").unwrap_err();
    drop(one);
    let stock = Connection::open(&path).unwrap();
    assert_eq!(rows(&stock).len(), 2);
}

/// A connection of this VFS without SQLite, and its open log.
fn with_log_open(path: &Path) -> (Mapped, Box<dyn LogFile>) {
    let mut mapped = Mapped::open(path, &OpenOptions::default()).unwrap().unwrap();
    mapped.lock(Level::Shared).unwrap();
    let log = mapped.log_opener().unwrap().open_log(&log_of(path)).unwrap();
    // It notices that the log is open.
    mapped.lock(Level::Shared).unwrap();
    mapped.map_index(0, 32768, true).unwrap().unwrap();
    (mapped, log)
}

fn empty(path: &Path) {
    std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(0).unwrap();
}

/// Others do not wait for a connection whose side file has failed, and which is still open.
#[test]
fn locks_are_given_up_after_the_side_file_failed() {
    let directory = folder();
    let path = directory.path().join("db");
    open_wal(&path).close().unwrap();
    let ((mut one, _log), (mut other, _others_log)) = (with_log_open(&path), with_log_open(&path));
    let lock = |first, shared, take| IndexLock { first, count: 1, shared, take };
    let [write, mark] = [(0, false), (3, true)];
    for (first, shared) in [write, mark] {
        one.lock_index(lock(first, shared, true)).unwrap();
        assert!(matches!(other.lock_index(lock(first, false, true)), Err(Failure::Busy)));
    }
    empty(&side_of(&path));
    // Its next access finds that out.
    let _ = one.is_reserved();
    assert!(matches!(one.lock_index(lock(4, true, true)), Err(Failure::Io(_))));
    for (first, shared) in [write, mark] {
        one.lock_index(lock(first, shared, false)).unwrap();
        other.lock_index(lock(first, false, true)).unwrap();
    }
}

#[test]
fn lock_in_a_failed_index_file_is_not_taken() {
    let directory = folder();
    let path = directory.path().join("db");
    open_wal(&path).close().unwrap();
    let (mut one, _log) = with_log_open(&path);
    empty(&index_of(&path));
    let lock = IndexLock { first: 3, count: 1, shared: true, take: true };
    assert!(matches!(one.lock_index(lock), Err(Failure::Io(_))));
}

/// `perdura_wal=off`, and databases shared with stock SQLite, stay as they were without WAL mode.
#[test]
fn connections_without_wal_mode_answer_so() {
    let directory = folder();
    let path = directory.path().join("db");
    for parameter in ["perdura_wal=off", "perdura_share=stock"] {
        let uri = PathBuf::from(format!("file:{}?{parameter}", path.display()));
        let one = crate::register::open(&uri).unwrap();
        assert_ne!(journal_mode(&one, "wal"), "wal", "{parameter}");
        one.execute_batch("CREATE TABLE IF NOT EXISTS t(a, b)").unwrap();
        one.close().unwrap();
        closed(&path, 1);
    }
    let stock = Connection::open(&path).unwrap();
    stock.execute_batch("PRAGMA journal_mode = wal; INSERT INTO t VALUES(1, 'one')").unwrap();
    let uri = PathBuf::from(format!("file:{}?perdura_wal=off", path.display()));
    let delegated = open(&uri).unwrap();
    assert_eq!(rows(&delegated).len(), 1);
    assert!(delegated.query_row("PRAGMA perdura_mode", [], |_| Ok(())).is_err());
    assert!(open(Path::new(&format!("file:{}?perdura_wal=maybe", path.display()))).is_err());
}
