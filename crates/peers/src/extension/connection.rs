//! Connections through the VFS.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rusqlite::types::{Type, ValueRef};
use rusqlite::{Connection, OpenFlags};
use serde::{Deserialize, Serialize};

use super::library::register;

/// The name of the VFS.
pub const VFS: &str = "perdura";

/// The parameters of the VFS.
#[derive(Debug, Clone, Copy, Default)]
pub struct Parameters<'a> {
    /// The part of a changed page that is logged; the VFS's default if there is none.
    pub mode: Option<&'a str>,
    /// The domain of commits; the medium's own if there is none.
    pub domain: Option<&'a str>,
    /// The log of a database in SQLite's WAL mode: `on`, `off` or `diff`; the VFS's default if there is none.
    pub wal: Option<&'a str>,
}

/// Counts of a connection, as the VFS has them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// Transactions that changed something.
    pub commits: u64,
    /// Cache lines that were written back.
    pub lines: u64,
    /// Fences.
    pub fences: u64,
    /// Bytes that were logged.
    pub bytes: u64,
    /// Times that what a kill had left was replayed.
    pub recoveries: u64,
}

impl Stats {
    /// Returns what came since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            commits: self.commits - before.commits,
            lines: self.lines - before.lines,
            fences: self.fences - before.fences,
            bytes: self.bytes - before.bytes,
            recoveries: self.recoveries - before.recoveries,
        }
    }
}

/// Returns a path as a URI of SQLite's, which names no VFS. Bytes that have a meaning in a URI are written
/// as numbers.
#[must_use]
pub fn uri(path: &Path, parameters: Parameters<'_>) -> String {
    let mut uri = "file:".to_owned();
    // A name that begins with two slashes would be that of a host.
    if path.as_os_str().as_bytes().starts_with(b"//") {
        uri.push_str("//");
    }
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'~' => uri.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => uri.push(char::from(byte)),
            byte => write!(uri, "%{byte:02X}").expect("a text takes all"),
        }
    }
    let given = [
        ("perdura_mode", parameters.mode),
        ("perdura_domain", parameters.domain),
        ("perdura_wal", parameters.wal),
    ];
    let given = given.into_iter().filter_map(|(name, value)| Some((name, value?)));
    for (number, (name, value)) in given.enumerate() {
        let before = if number == 0 { '?' } else { '&' };
        write!(uri, "{before}{name}={value}").expect("a text takes all");
    }
    uri
}

fn connect(uri: &str, vfs: Option<&str>, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let flags = flags | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    match vfs {
        Some(vfs) => Connection::open_with_flags_and_vfs(uri, flags, vfs),
        None => Connection::open_with_flags(uri, flags),
    }
}

/// Opens a database with the VFS. `flags` say whether it may be made, and be written to.
///
/// # Errors
/// SQLite's, or no memory.
pub fn open(
    path: &Path,
    parameters: Parameters<'_>,
    flags: OpenFlags,
) -> rusqlite::Result<Connection> {
    register()?;
    connect(&uri(path, parameters), Some(VFS), flags)
}

/// Opens a database with another VFS that is [registered](super::register_with).
///
/// # Errors
/// SQLite's.
pub(super) fn open_through(
    vfs: &str,
    name: &Path,
    flags: OpenFlags,
) -> rusqlite::Result<Connection> {
    connect(&uri(name, Parameters::default()), Some(vfs), flags)
}

/// Opens a database without the VFS, as any program does.
///
/// # Errors
/// SQLite's.
pub fn open_stock(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    connect(&uri(path, Parameters::default()), None, flags)
}

/// Returns what a pragma of the VFS answers; `None` if the database is not the VFS's.
///
/// # Errors
/// SQLite's.
pub fn answer(connection: &Connection, pragma: &str) -> rusqlite::Result<Option<String>> {
    let mut statement = connection.prepare(&format!("PRAGMA {pragma}"))?;
    let mut rows = statement.query([])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(match row.get_ref(0)? {
        ValueRef::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Integer(number) => Some(number.to_string()),
        _ => None,
    })
}

/// Returns the counts of a connection; `None` if the database is not the VFS's.
///
/// # Errors
/// SQLite's.
pub fn stats(connection: &Connection) -> rusqlite::Result<Option<Stats>> {
    let Some(json) = answer(connection, "perdura_stats")? else { return Ok(None) };
    let found = serde_json::from_str(&json);
    found
        .map(Some)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(0, Type::Text, Box::new(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_of_any_name_is_opened_with_its_parameters() {
        let directory = tempfile::Builder::new().tempdir_in("/dev/shm").expect("a directory");
        for name in ["plain", "a b?c#d%20&e=ü", ";"] {
            let path = directory.path().join(name);
            let parameters = Parameters { mode: Some("full"), domain: Some("adr"), wal: None };
            let connection = open(&path, parameters, OpenFlags::default()).expect("opens");
            connection.execute_batch("CREATE TABLE t(a)").expect("made");
            assert_eq!(answer(&connection, "perdura_mode"), Ok(Some("full".into())));
            assert_eq!(answer(&connection, "perdura_domain"), Ok(Some("adr".into())));
            let stats = stats(&connection).expect("counted").expect("the VFS has it");
            assert!(stats.commits == 1 && stats.lines > 0 && stats.fences > 0, "{stats:?}");
            connection.close().expect("closes");
            assert!(path.exists(), "{name}");
        }
    }

    #[test]
    fn a_database_that_is_not_the_vfss_has_no_counts() {
        let connection = Connection::open_in_memory().expect("opens");
        assert_eq!(stats(&connection), Ok(None));
    }
}
