//! The contents of a database after a run.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use workloads::StoreError;

use super::connection::open_stock;

/// The rows that a database has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contents {
    /// Their number.
    pub rows: u64,
    /// A number of all keys and texts, in their order: the same contents have the same.
    pub digest: u64,
    /// Bytes of keys and texts.
    pub user_bytes: u64,
}

impl Contents {
    /// Reads a database that no connection has open with the SQLite that knows nothing of Perdura,
    /// and lets it check the file.
    ///
    /// # Errors
    /// It is no database, or SQLite finds that it is not whole.
    pub(super) fn of_plain_file(path: &Path) -> Result<Self, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
        let connection = open_stock(path, flags).map_err(StoreError::engine)?;
        let check = "PRAGMA integrity_check";
        let found: String =
            connection.query_row(check, [], |row| row.get(0)).map_err(StoreError::engine)?;
        if found != "ok" {
            return Err(StoreError::engine(format!("{}: {found}", path.display())));
        }
        Self::of(&connection).map_err(StoreError::engine)
    }

    fn of(connection: &Connection) -> rusqlite::Result<Self> {
        let mut found = Self { rows: 0, digest: 0xcbf2_9ce4_8422_2325, user_bytes: 0 };
        let mut statement = connection.prepare("SELECT id, Value FROM tblMyList0 ORDER BY id")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (key, text) = (row.get::<_, i64>(0)?, row.get_ref(1)?.as_str()?);
            // FNV-1a.
            for byte in key.to_le_bytes().iter().chain(text.as_bytes()) {
                found.digest = (found.digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
            }
            found.rows += 1;
            found.user_bytes += 8 + text.len() as u64;
        }
        Ok(found)
    }
}
