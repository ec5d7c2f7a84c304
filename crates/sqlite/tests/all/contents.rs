//! Folders, and what a database in one has.

use std::path::Path;

use rusqlite::Connection;

/// The numbers that a child inserts before it waits. A fast one would otherwise fill the database while another
/// waits for the lock.
pub(crate) const SHARE: usize = 25;
/// The numbers that it inserts after each input.
pub(crate) const MORE: usize = 3;

pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

/// All rows of a table of numbers and texts.
pub(crate) fn rows(connection: &Connection) -> Vec<(i64, Option<String>)> {
    let mut select = connection.prepare("SELECT a, b FROM t ORDER BY a").unwrap();
    let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

pub(crate) fn check(connection: &Connection) {
    let answer: String =
        connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(answer, "ok");
}

pub(crate) fn side_of(path: &Path) -> std::path::PathBuf {
    path.with_file_name(format!("{}-perdura", path.file_name().unwrap().to_str().unwrap()))
}

/// Opens a closed database with stock SQLite.
pub(crate) fn stock(path: &Path) -> Connection {
    assert!(!side_of(path).exists(), "a clean close removes the side file");
    let header = std::fs::read(path).unwrap();
    assert_eq!((header[18], header[19], &header[72..80]), (1, 1, &[0; 8][..]));
    let connection = Connection::open(path).unwrap();
    check(&connection);
    connection
}
