//! Threads that count in one database in WAL mode, read it, open it and close it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};

use super::*;

/// Rows changed in each step, on many pages.
const ROWS: i64 = 60;
const STEPS: i64 = 40;

fn connect(path: &Path) -> Connection {
    let connection = open_wal(path);
    connection.execute_batch("PRAGMA cache_size = 5; PRAGMA wal_autocheckpoint = 50").unwrap();
    connection
}

/// The number of steps, on which all rows have to agree.
fn steps(connection: &Connection) -> i64 {
    let all = "SELECT min(n), max(n), count(*) FROM t";
    let (least, most, rows): (i64, i64, i64) =
        connection.query_row(all, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    assert_eq!((least, rows), (most, ROWS), "half a step");
    most
}

fn count_together(writers: i64, readers: i64) {
    let directory = folder();
    let path = &directory.path().join("db");
    let first = connect(path);
    first
        .execute_batch(&format!(
            "PRAGMA page_size = 1024; CREATE TABLE t(a INTEGER PRIMARY KEY, n, b);
             WITH k(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM k LIMIT {ROWS})
             INSERT INTO t SELECT a, 0, '' FROM k"
        ))
        .unwrap();
    first.close().unwrap();
    let ended = &AtomicBool::new(false);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..writers)
            .map(|_| {
                scope.spawn(move || {
                    let mut connection = connect(path);
                    for number in 0..STEPS {
                        connection
                            .execute_batch(
                                "BEGIN IMMEDIATE;
                                 UPDATE t SET n = n + 1, b = hex(randomblob(150)); COMMIT",
                            )
                            .unwrap();
                        if number % 7 == 0 {
                            drop(connection);
                            connection = connect(path);
                        }
                    }
                })
            })
            .collect();
        for _ in 0..readers {
            scope.spawn(move || {
                let mut connection = connect(path);
                let mut before = 0;
                for number in 0.. {
                    let found = steps(&connection);
                    assert!(found >= before, "{found} after {before}");
                    before = found;
                    if ended.load(Ordering::Relaxed) {
                        break;
                    }
                    if number % 9 == 0 {
                        drop(connection);
                        connection = connect(path);
                    }
                }
            });
        }
        // All are joined, even after a failure.
        let results: Vec<_> = threads.into_iter().map(ScopedJoinHandle::join).collect();
        ended.store(true, Ordering::Relaxed);
        results.into_iter().for_each(|result| result.unwrap());
    });
    // Of two that close at once each may see the other and leave the log, as with stock SQLite. The next close
    // removes it.
    assert_eq!(steps(&connect(path)), writers * STEPS);
    assert_eq!(steps(&closed(path, 2)), writers * STEPS);
}

#[test]
fn writers_and_readers_count_together() {
    count_together(3, 2);
    count_together(1, 3);
    count_together(4, 0);
}
