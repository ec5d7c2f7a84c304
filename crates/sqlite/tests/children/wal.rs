//! Work of children in WAL mode.

use std::path::Path;

use rusqlite::Connection;

use crate::committer::ready;
use crate::register::register;
use crate::system::mark;
use crate::wal_connections::{journal_mode, open, open_wal};

/// Transactions of each kind in the steady state: more than a checkpoint apart.
const STEADY: i64 = 2_500;

fn transactions(connection: &Connection, count: i64) {
    let mut update = connection.prepare("UPDATE t SET b = ?2 WHERE a = ?1").unwrap();
    let mut select = connection.prepare("SELECT b FROM t WHERE a = ?1").unwrap();
    for number in 0..count {
        let key = number * 7 % 500;
        update.execute((key, format!("{number:0100}"))).unwrap();
        let found: String = select.query_row([key], |row| row.get(0)).unwrap();
        assert_eq!(found, format!("{number:0100}"));
    }
}

/// Two connections take turns; the test counts their calls from where the process is [`ready`] to its mark.
pub(crate) fn steady(path: &Path) {
    steady_connections(&open_wal(path), &open_wal(path));
}

/// The same in rollback mode.
pub(crate) fn steady_in_rollback_mode(path: &Path) {
    // A connection that has not looked since the first commit.
    let idle = open(path).unwrap();
    idle.execute_batch("SELECT count(*) FROM sqlite_schema").unwrap();
    let (one, other) = (open(path).unwrap(), open(path).unwrap());
    steady_connections(&one, &other);
    drop(idle);
}

fn steady_connections(one: &Connection, other: &Connection) {
    one.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)").unwrap();
    for key in 0..500 {
        one.execute("INSERT INTO t VALUES(?1, hex(zeroblob(50)))", [key]).unwrap();
    }
    // The log and the database get their sizes.
    transactions(one, 3 * STEADY);
    transactions(other, STEADY);
    ready();
    transactions(one, STEADY);
    transactions(other, STEADY);
    mark();
}

/// Changes the journal mode three times.
pub(crate) fn switch(path: &Path) {
    register();
    ready();
    let one = open(path).unwrap();
    for (mode, key) in [("wal", 4), ("delete", 5), ("wal", 6)] {
        assert_eq!(journal_mode(&one, mode), mode);
        one.execute("INSERT INTO t VALUES(?1, 'x')", [key]).unwrap();
    }
    one.close().unwrap();
    // The calls of the program's own end do not count.
    std::process::exit(0);
}
