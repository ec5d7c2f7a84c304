//! Connections in WAL mode.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;

use crate::register;

/// The URI of a database with WAL mode turned on, unless a URI says otherwise.
pub(crate) fn with_wal(path: &Path) -> PathBuf {
    let text = path.to_str().unwrap();
    if text.contains("perdura_wal") || text.contains("perdura_share") {
        return path.to_path_buf();
    }
    let (start, next) = match (text.starts_with("file:"), text.contains('?')) {
        (true, true) => ("", '&'),
        (true, false) => ("", '?'),
        (false, _) => ("file:", '?'),
    };
    PathBuf::from(format!("{start}{text}{next}perdura_wal=on"))
}

/// Opens a database with WAL mode turned on.
pub(crate) fn open(path: &Path) -> rusqlite::Result<Connection> {
    register::open(&with_wal(path))
}

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
