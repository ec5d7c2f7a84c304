//! The work of a process whose calls fail, on one or two databases: what it and the test that starts it agree on.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

use crate::register::open;

/// The databases of a connection.
pub(crate) const NAMES: [&str; 2] = ["main", "two"];
/// Added to the key in later transactions: one of a single database, one of both, and one after the failures end.
pub(crate) const ALONE: i64 = 1_000_000;
pub(crate) const AGAIN: i64 = 2_000_000;
pub(crate) const THEN: i64 = 3_000_000;

/// The longest wait of a connection that is not locked out.
pub(crate) const LONG: Duration = Duration::from_secs(10);

/// Input lines that let it continue, and close what it opens then, or keep it open.
pub(crate) const CLOSE: &str = "close\n";
pub(crate) const KEEP: &str = "keep\n";

/// A system call that no kernel has. A tracer detaches from the thread there.
pub(crate) const MARK: i64 = 1_000_000;

/// The work of the process while calls fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Work {
    /// Commits.
    Commit,
    /// Commits, runs other transactions, and closes nothing.
    Commits,
    /// Commits, runs other transactions, and closes.
    Life,
    Close,
    /// Opens, reads, and closes.
    Open,
}

/// The locks that a connection keeps after a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HeldLocks {
    /// None.
    Normal,
    /// All.
    Exclusive,
    /// Those of a statement that is still reading.
    Reading,
}

/// How a transaction changes the file's length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Size {
    Stays,
    /// The file grows.
    Grows,
    /// The file shrinks.
    Cuts,
}

impl Size {
    fn sql(self) -> &'static str {
        match self {
            Self::Stays => "",
            Self::Grows => "INSERT INTO {}.t VALUES(0, hex(zeroblob(20000)));",
            Self::Cuts => "DELETE FROM {}.t WHERE a = 0;",
        }
    }
}

/// The SQL of a transaction over some databases, without its end. It must not lock all attached databases, which
/// would make it a transaction over all of them.
pub(crate) fn transaction(names: &[&str], key: i64, size: Size) -> String {
    let each = format!("INSERT INTO {{}}.t VALUES({key}, 'x'); {}", size.sql());
    let all = names.iter().map(|name| each.replace("{}", name));
    format!("BEGIN; {}", all.collect::<String>())
}

/// A connection that waits for locks at most that long.
pub(crate) fn connect(uris: &[String], wait: Duration) -> rusqlite::Result<Connection> {
    let connection = open(Path::new(&uris[0]))?;
    connection.busy_timeout(wait)?;
    for (uri, name) in uris.iter().zip(NAMES).skip(1) {
        connection.execute_batch(&format!("ATTACH '{uri}' AS {name}"))?;
    }
    Ok(connection)
}

/// The keys in each database.
pub(crate) fn keys_of(connection: &Connection, names: &[&str]) -> rusqlite::Result<Vec<Vec<i64>>> {
    let keys = |name: &&str| {
        let mut select = connection.prepare(&format!("SELECT a FROM {name}.t ORDER BY a"))?;
        select.query_map([], |row| row.get(0))?.collect()
    };
    names.iter().map(keys).collect()
}
