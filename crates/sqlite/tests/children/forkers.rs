//! Processes with one thread, which fork: a lock of another thread at the fork would stay held in the child.

use std::cell::RefCell;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use perdura_sqlite::database::{Level, MainFile as _};
use rusqlite::ErrorCode;

use crate::attached::{litter, preparing};
use crate::contents::rows;
use crate::forked::in_forked_child;
use crate::register::open;

/// A forked child is refused, and its parent keeps its locks.
pub(crate) fn fork(path: &Path) {
    let connection = open(path).unwrap();
    connection.execute_batch("CREATE TABLE t(a, b); INSERT INTO t VALUES(1, 'one')").unwrap();
    let refused = in_forked_child(|| {
        let result = connection.execute_batch("INSERT INTO t VALUES(2, 'two')");
        result.is_err_and(|error| error.sqlite_error_code() == Some(ErrorCode::SystemIoFailure))
    });
    assert!(refused);
    connection.execute_batch("INSERT INTO t VALUES(3, 'three')").unwrap();
    // The parent's lock survives whatever the child does.
    let other = open(path).unwrap();
    other.busy_timeout(std::time::Duration::ZERO).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES(4, 'four')").unwrap();
    let held = RefCell::new(Some(connection));
    assert!(in_forked_child(|| {
        let connection = held.take().unwrap();
        let _ = connection.execute_batch("ROLLBACK");
        let refused = connection.execute_batch("BEGIN IMMEDIATE").is_err();
        drop(connection);
        refused
    }));
    let error = other.execute_batch("BEGIN IMMEDIATE").unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy));
    let connection = held.take().unwrap();
    connection.execute_batch("COMMIT").unwrap();
    assert_eq!(rows(&other).len(), 3);
    connection.close().unwrap();
}

/// A forked child does not decide its parent's part of a transaction over several databases.
pub(crate) fn fork_prepared(path: &Path) {
    let super_journal = path.with_file_name("db-mj012345678");
    let (_, mut mapped) = preparing(path.parent().unwrap(), "db", &super_journal);
    let files = litter(path.parent().unwrap());
    for kind in 0..5 {
        let mut held = Some(mapped);
        assert!(in_forked_child(|| {
            let mut mapped = held.take().unwrap();
            match kind {
                0 => mapped.commit(None).is_err(),
                1 => mapped.unlock(Level::None).is_ok(),
                2 => mapped.end_transaction().is_err(),
                3 => mapped.commit(Some(super_journal.as_os_str().as_bytes())).is_err(),
                _ => Box::new(mapped).close().is_err(),
            }
        }));
        mapped = held.take().unwrap();
        assert_eq!(litter(path.parent().unwrap()), files, "{kind}");
    }
    std::fs::remove_file(&super_journal).unwrap();
    mapped.end_transaction().unwrap();
    mapped.unlock(Level::None).unwrap();
    Box::new(mapped).close().unwrap();
}
