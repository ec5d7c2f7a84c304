//! Connections in WAL mode that ask for the database exclusively while others use it.

use super::*;
use crate::kernel_calls::refusing;

const CREATE: &str = "CREATE TABLE t(a, b); INSERT INTO t VALUES(1, 'one')";
const EXCLUSIVE: &str = "PRAGMA locking_mode = EXCLUSIVE";
const INSERT: &str = "INSERT INTO t VALUES(2, 'two')";

fn assert_busy(connection: &Connection, sql: &str) {
    let error = connection.execute_batch(sql).unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy));
}

/// Opens a database that waits for no other connection.
fn impatient(path: &Path) -> Connection {
    let connection = open_wal(path);
    connection.busy_timeout(Duration::ZERO).unwrap();
    connection
}

#[test]
fn refused_exclusive_lock_keeps_no_newcomer_out() {
    let directory = folder();
    let path = directory.path().join("db");
    let (reads, refused) = (impatient(&path), impatient(&path));
    reads.execute_batch(CREATE).unwrap();
    assert_eq!(rows(&refused).len(), 1);
    refused.execute_batch(EXCLUSIVE).unwrap();
    for number in 1..4 {
        assert_busy(&refused, INSERT);
        let newcomer = impatient(&path);
        assert_eq!(rows(&newcomer).len(), number);
        newcomer.execute_batch(INSERT).unwrap();
        assert_eq!((rows(&reads).len(), rows(&refused).len()), (number + 1, number + 1));
        newcomer.close().unwrap();
    }
    // Both ask for it: neither gets it, and neither is kept out.
    reads.execute_batch(EXCLUSIVE).unwrap();
    assert_busy(&reads, INSERT);
    assert_busy(&refused, INSERT);
    assert_eq!(rows(&impatient(&path)).len(), 4);
    reads.close().unwrap();
    refused.execute_batch(INSERT).unwrap();
    let newcomer = open(&path).unwrap();
    newcomer.busy_timeout(Duration::ZERO).unwrap();
    assert_busy(&newcomer, "SELECT count(*) FROM t");
    drop(newcomer);
    refused.close().unwrap();
    assert_eq!(rows(&closed(&path, 2)).len(), 5);
}

/// The kernel refuses to truncate the file once, when a connection that keeps the exclusive lock enters WAL mode.
#[test]
fn exclusive_connection_enters_wal_mode_after_a_refusal() {
    let directory = folder();
    let path = directory.path().join("db");
    let one = open(&path).unwrap();
    one.busy_timeout(Duration::ZERO).unwrap();
    one.execute_batch(EXCLUSIVE).unwrap();
    one.execute_batch(CREATE).unwrap();
    let mode = |word| one.query_row(word, [], |row| row.get::<_, String>(0));
    let refused = refusing(true, false, || mode("PRAGMA journal_mode = wal"));
    println!("{refused:?}");
    one.execute_batch(INSERT).unwrap();
    assert_eq!((mode("PRAGMA journal_mode"), rows(&one).len()), (Ok("wal".into()), 2));
    one.close().unwrap();
    assert_eq!(rows(&closed(&path, 2)).len(), 2);
}

/// Stock SQLite keeps the database's shared lock after it was refused.
#[test]
fn exclusive_lock_next_to_refused_stock_keeps_none_out() {
    let directory = folder();
    let path = directory.path().join("db");
    let ours = impatient(&path);
    ours.execute_batch(CREATE).unwrap();
    let stock = Connection::open(&path).unwrap();
    let error = stock.query_row("SELECT count(*) FROM t", [], |_| Ok(())).unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::CannotOpen));
    ours.execute_batch(EXCLUSIVE).unwrap();
    assert_busy(&ours, INSERT);
    let newcomer = impatient(&path);
    newcomer.execute_batch(INSERT).unwrap();
    assert_eq!((rows(&newcomer).len(), rows(&ours).len()), (2, 2));
    newcomer.close().unwrap();
    drop(stock);
    ours.execute_batch(INSERT).unwrap();
    ours.close().unwrap();
    assert_eq!(rows(&closed(&path, 2)).len(), 3);
}
