//! Bad inputs: each is reported as an error of SQLite's, and nothing is lost.

use std::path::{Path, PathBuf};
use std::process::Command;

use rusqlite::{Connection, ErrorCode};

use crate::children::child;
use crate::register::open;
use crate::sql::{check, folder, rows, side_of, stock};

/// Copies of an unclosed database and its side file under another name, as a kill leaves them.
fn killed(directory: &Path, name: &str, number: i64) -> PathBuf {
    let live = directory.join(format!("{name}-live"));
    let connection = open(&live).unwrap();
    connection.execute_batch("CREATE TABLE t(a, b)").unwrap();
    connection.execute("INSERT INTO t VALUES(?1, 'one')", [number]).unwrap();
    let path = directory.join(name);
    std::fs::copy(&live, &path).unwrap();
    std::fs::copy(side_of(&live), side_of(&path)).unwrap();
    path
}

fn refused(path: &Path) {
    let error = open(path).and_then(|connection| connection.execute_batch("SELECT * FROM t"));
    let code = error.unwrap_err().sqlite_error_code();
    assert_eq!(code, Some(ErrorCode::CannotOpen));
}

#[test]
fn write_ahead_log_next_to_our_database_is_refused() {
    let directory = folder();
    let path = directory.path().join("db");
    let live = open(&path).unwrap();
    live.execute_batch("CREATE TABLE t(a, b); INSERT INTO t VALUES(1, 'one')").unwrap();
    let log = directory.path().join("db-wal");
    // SQLite ignores an empty one.
    std::fs::write(&log, "a log").unwrap();
    pm::Tick::now().wait_for_next();
    refused(&path);
    // In exclusive mode SQLite would need no shared memory.
    let alone = open(&path).unwrap();
    alone.execute_batch("PRAGMA locking_mode = EXCLUSIVE").unwrap();
    let error = alone.execute_batch("INSERT INTO t VALUES(2, 'two')").unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::CannotOpen));
    drop(alone);
    std::fs::remove_file(&log).unwrap();
    assert_eq!(rows(&live), [(1, Some("one".into()))]);
}

#[test]
fn missing_foreign_or_damaged_side_file_is_refused() {
    let directory = folder();
    let (one, other) = (killed(directory.path(), "one", 1), killed(directory.path(), "other", 2));
    let side = std::fs::read(side_of(&one)).unwrap();
    let data = std::fs::read(&one).unwrap();
    std::fs::remove_file(side_of(&one)).unwrap();
    refused(&one);
    std::fs::copy(side_of(&other), side_of(&one)).unwrap();
    refused(&one);
    for damaged in [0, 8, 16, 24, 32] {
        let mut bytes = side.clone();
        bytes[damaged] ^= 1;
        std::fs::write(side_of(&one), bytes).unwrap();
        refused(&one);
    }
    for short in [0, 100, 5000] {
        std::fs::write(side_of(&one), &side[..short]).unwrap();
        refused(&one);
    }
    assert_eq!(std::fs::read(&one).unwrap(), data, "nothing has been changed");
    // With its own side file, everything is there.
    std::fs::write(side_of(&one), side).unwrap();
    let connection = open(&one).unwrap();
    assert_eq!(rows(&connection), [(1, Some("one".into()))]);
    connection.close().unwrap();
    check(&stock(&one));
}

#[test]
fn side_file_bytes_match_the_format_and_version() {
    let directory = folder();
    let path = killed(directory.path(), "db", 1);
    let (data, mut side) = (std::fs::read(&path).unwrap(), std::fs::read(side_of(&path)).unwrap());
    let word = |at: usize| u64::from_le_bytes(side[at..at + 8].try_into().unwrap());
    assert_eq!((&side[..8], word(8), word(24)), (&b"PerduraS"[..], 11, 256 << 10));
    assert_eq!(word(32), u64::from(crc32c::crc32c(&side[..32])));
    assert_eq!((data[19], &data[72..80]), (80, &side[16..24]));
    // Two pages; two commits, both applied, none checkpointed; pages of 2^12 bytes, none moved; none prepared.
    for (at, value) in [(64, 8192), (72, 2), (80, 2), (88, 0), (96, 12), (104, 0)] {
        let bytes = [word(16), at as u64, value].map(u64::to_le_bytes).concat();
        assert_eq!(word(at), u64::from(crc32c::crc32c(&bytes) as u16) << 48 | value, "at {at}");
    }
    let (first, second) = (8192 + (256 << 10), 8192);
    // Occupied, with a size, page-wise; then the same without a size.
    assert_eq!((word(first) & 31, word(first + 16), word(second) & 31), (11, 8192, 9));
    let (low, number) = (word(second) & 0xffff_ffff, word(second + 8));
    let record = &side[second + 16..second + 16 + (low >> 5) as usize];
    let words = [word(16), 2, number >> 32, low].map(u64::to_le_bytes).concat();
    let check = crc32c::crc32c_append(crc32c::crc32c(&words), record);
    assert_eq!((number & 0xffff_ffff, word(second) >> 32), (2, u64::from(check)));
    for version in [1, 4, 5, 6, 7, 8, 9, 10] {
        side[8] = version;
        let check = u64::from(crc32c::crc32c(&side[..32]));
        side[32..40].copy_from_slice(&check.to_le_bytes());
        std::fs::write(side_of(&path), &side).unwrap();
        refused(&path);
        let options = perdura_sqlite::database::OpenOptions::default();
        let refused = perdura_sqlite::database::Mapped::open(&path, &options).unwrap_err();
        let text = format!("{refused:?}");
        assert!(text.contains(&format!("has the format {version}, and")), "{text}");
    }
    assert_eq!(std::fs::read(&path).unwrap(), data, "nothing has been changed");
}

#[test]
fn non_database_is_refused_unchanged() {
    let directory = folder();
    let path = directory.path().join("text");
    // Its byte 19 equals the marker.
    let text = "This is no database P".repeat(100);
    let text = &text[..2000];
    std::fs::write(&path, text).unwrap();
    let connection = open(&path).unwrap();
    let error = connection.execute_batch("CREATE TABLE t(a, b)").unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::NotADatabase));
    drop(connection);
    assert_eq!(std::fs::read(&path).unwrap(), text.as_bytes());
}

#[test]
fn foreign_file_with_the_side_files_name_stays() {
    let directory = folder();
    let path = directory.path().join("db");
    let create = "CREATE TABLE t(a, b); INSERT INTO t VALUES(1, 'one')";
    Connection::open(&path).unwrap().execute_batch(create).unwrap();
    let data = std::fs::read(&path).unwrap();
    for foreign in [&b"notes"[..], b"\0notes of another program", &[7; 9000]] {
        std::fs::write(side_of(&path), foreign).unwrap();
        refused(&path);
        let options = perdura_sqlite::database::OpenOptions::default();
        let why = perdura_sqlite::database::Mapped::open(&path, &options).unwrap_err();
        assert!(format!("{why:?}").contains("is no side file"), "{why:?}");
        assert_eq!(std::fs::read(side_of(&path)).unwrap(), foreign);
        assert_eq!(std::fs::read(&path).unwrap(), data);
    }
    // A kill while a side file was created, before its first word.
    for bytes in [0, 8192] {
        std::fs::write(side_of(&path), vec![0; bytes]).unwrap();
        assert_eq!(rows(&open(&path).unwrap()).len(), 1);
        assert!(!side_of(&path).exists());
    }
}

#[test]
fn database_falls_to_stock_without_a_side_file() {
    let directory = folder();
    let path = directory.path().join("db");
    std::fs::create_dir(side_of(&path)).unwrap();
    let connection = open(&path).unwrap();
    connection.execute_batch("CREATE TABLE t(a, b); INSERT INTO t VALUES(1, 'one')").unwrap();
    assert_eq!(rows(&Connection::open(&path).unwrap()).len(), 1);
}

#[test]
fn interrupted_first_commit_leaves_an_empty_database() {
    let directory = folder();
    let path = directory.path().join("db");
    std::fs::write(&path, [0; 8192]).unwrap();
    // The same for a connection that opens it while another has it open.
    let (one, other) = (open(&path).unwrap(), open(&path).unwrap());
    for connection in [&one, &other] {
        check(connection);
    }
    drop((one, other));
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
    check(&stock_of_nothing(&path));
    std::fs::write(&path, [0; 8192]).unwrap();
    let connection = open(&path).unwrap();
    connection.execute_batch("CREATE TABLE t(a, b); INSERT INTO t VALUES(1, 'one')").unwrap();
    connection.close().unwrap();
    assert_eq!(rows(&stock(&path)).len(), 1);
}

fn stock_of_nothing(path: &Path) -> Connection {
    assert!(!side_of(path).exists());
    Connection::open(path).unwrap()
}

#[test]
fn file_truncated_under_the_mapping_is_an_error() {
    let directory = folder();
    let path = directory.path().join("db");
    let connection = open(&path).unwrap();
    connection.execute_batch("CREATE TABLE t(a, b); INSERT INTO t VALUES(1, 'one')").unwrap();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(4096).unwrap();
    pm::Tick::now().wait_for_next();
    let error = connection.execute_batch("SELECT * FROM t").unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt));
    // Within a transaction the size is not checked: the access itself fails.
    let path = directory.path().join("other");
    let connection = open(&path).unwrap();
    connection.execute_batch("CREATE TABLE t(a, b); BEGIN; INSERT INTO t VALUES(1, 1)").unwrap();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
    let error = connection.execute_batch("COMMIT").unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::SystemIoFailure));
}

#[test]
fn forked_child_is_refused_and_parent_keeps_its_locks() {
    let directory = folder();
    let path = directory.path().join("db");
    // A process with one thread: locks of other threads at the fork would stay held in the child.
    let ended = child("forker").arg(&path).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    assert_eq!(rows(&stock(&path)).len(), 3);
}

#[test]
fn full_medium_is_an_error_and_loses_nothing() {
    let directory = folder();
    let path = directory.path().join("db");
    // A process whose files are limited to 2 MiB.
    let ended = Command::new("sh")
        .args(["-c", "ulimit -f 4096; exec \"$@\"", "sh"])
        .arg(child("filler").get_program())
        .arg("filler")
        .arg(&path)
        .output()
        .unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let found = stock(&path);
    let numbers: (i64, i64) = found
        .query_row("SELECT count(*), max(a) FROM t", [], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap();
    assert_eq!(numbers.0, numbers.1);
}

/// Opening a database that stock SQLite has in WAL mode leaks no descriptor.
#[test]
fn reopening_a_stock_wal_database_leaks_no_descriptors() {
    let directory = folder();
    let path = directory.path().join("db");
    let stocks = Connection::open(&path).unwrap();
    stocks
        .execute_batch("PRAGMA journal_mode=WAL; CREATE TABLE t(a); INSERT INTO t VALUES(1)")
        .unwrap();
    for _ in 0..300 {
        let connection = open(&path).unwrap();
        let count: i64 =
            connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(count, 1);
    }
    let all = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let of_it = all.filter(|one| std::fs::read_link(one.path()).is_ok_and(|to| to == path));
    // One more for each fork by another test meanwhile.
    assert!(of_it.count() < 100);
    stocks.execute_batch("INSERT INTO t VALUES(2)").unwrap();
}
