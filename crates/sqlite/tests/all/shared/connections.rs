//! Connections to a database that this VFS and stock SQLite share.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

use crate::register::open;

/// A connection that does not share with stock SQLite.
pub(crate) const ALONE: &str = "alone";

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
