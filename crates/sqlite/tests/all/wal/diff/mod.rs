//! SQLite's WAL mode with a differential log (`perdura_wal=diff`).

mod agreement;
mod bytes;
mod costs;
mod dead_writers;
pub(crate) mod kills;
mod lives;
pub(crate) mod power_cuts;

use super::kills::hold;
use super::*;

/// The URI of a database with a differential log.
pub(super) fn with_records(path: &Path) -> PathBuf {
    PathBuf::from(format!("file:{}?perdura_domain=adr&perdura_wal=diff", path.display()))
}

/// Opens a database with a differential log.
fn open_diff(path: &Path) -> Connection {
    open_wal(&with_records(path))
}

/// The URI of a database with SQLite's log, in the same domain.
fn without_records(path: &Path) -> PathBuf {
    PathBuf::from(format!("file:{}?perdura_domain=adr&perdura_wal=on", path.display()))
}

fn records_of(path: &Path) -> PathBuf {
    with_suffix(path, "-perdura-log")
}

/// The log that a connection has.
fn log_in_use(connection: &Connection) -> String {
    connection.query_row("PRAGMA perdura_wal", [], |row| row.get(0)).unwrap()
}

/// A database that the last connection has closed is a plain one.
fn closed_diff(path: &Path) -> Connection {
    assert!(!records_of(path).exists(), "the differential log is left");
    closed(path, 2)
}

/// A process that is killed with a database open, in which it has run these statements.
fn killed_after(uri: &Path, sql: &str) {
    let mut child = hold(uri, sql);
    child.kill().unwrap();
    child.wait().unwrap();
}

const CREATE: &str = "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)";

#[test]
fn commits_are_recovered_after_a_kill() {
    let directory = folder();
    let path = directory.path().join("db");
    let one = open_diff(&path);
    assert_eq!(log_in_use(&one), "diff");
    one.execute_batch(CREATE).unwrap();
    one.close().unwrap();
    drop(closed_diff(&path));
    let inserts = "INSERT INTO t VALUES(1, 'one'); INSERT INTO t VALUES(2, 'two');
        BEGIN; INSERT INTO t VALUES(3, 'three')";
    killed_after(&with_records(&path), inserts);
    assert!(log_of(&path).exists() && records_of(&path).exists());
    // Stock SQLite refuses the log, and changes nothing.
    let before =
        [&path, &log_of(&path), &records_of(&path)].map(|path| std::fs::read(path).unwrap());
    assert_eq!(stocks_error(&path), Some(ErrorCode::CannotOpen));
    let after =
        [&path, &log_of(&path), &records_of(&path)].map(|path| std::fs::read(path).unwrap());
    assert!(before == after);
    let one = open_diff(&path);
    check(&one);
    assert_eq!(rows(&one).len(), 2);
    one.execute_batch("INSERT INTO t VALUES(4, 'four')").unwrap();
    one.close().unwrap();
    assert_eq!(rows(&closed_diff(&path)).len(), 3);
}

/// After a power cut the image may have any of its lines. Here it has lost all but its header.
#[test]
fn image_is_not_needed() {
    for (keeps, uri) in [with_records, without_records].into_iter().enumerate() {
        let directory = folder();
        let path = directory.path().join("db");
        let one = open_diff(&path);
        one.execute_batch(CREATE).unwrap();
        one.close().unwrap();
        killed_after(
            &with_records(&path),
            "INSERT INTO t VALUES(1, 'one'), (2, hex(zeroblob(9000)))",
        );
        let mut image = std::fs::read(log_of(&path)).unwrap();
        assert!(image.len() > 20_000);
        image[32..].fill(0xee);
        std::fs::write(log_of(&path), image).unwrap();
        let one = open(&uri(&path)).unwrap();
        check(&one);
        assert_eq!((rows(&one).len(), log_in_use(&one)), (2, ["diff", "on"][keeps].into()));
        assert_eq!(records_of(&path).exists(), keeps == 0);
        one.execute_batch("INSERT INTO t VALUES(4, 'four')").unwrap();
        one.close().unwrap();
        assert_eq!(rows(&closed_diff(&path)).len(), 3);
    }
}
