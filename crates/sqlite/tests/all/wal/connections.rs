//! Connections in WAL mode.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

use crate::register::open;

/// Sets the journal mode; returns SQLite's answer.
pub(crate) fn journal_mode(connection: &Connection, mode: &str) -> String {
    let pragma = format!("PRAGMA journal_mode = {mode}");
    connection.query_row(&pragma, [], |row| row.get(0)).unwrap()
}

/// Opens a database through the VFS in WAL mode.
pub(crate) fn open_wal(path: &Path) -> Connection {
    let connection = open(path).unwrap();
    connection.busy_timeout(Duration::from_secs(60)).unwrap();
    assert_eq!(journal_mode(&connection, "wal"), "wal");
    connection.execute_batch("PRAGMA synchronous = FULL").unwrap();
    connection
}
