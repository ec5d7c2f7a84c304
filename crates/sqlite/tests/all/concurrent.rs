//! Threads with connections of this VFS and of stock SQLite that count in one database, read it, open it and close
//! it. No step is lost, no half of one is read, and there are no errors that stock SQLite would not give.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};

use crate::register::open;
use crate::sql::{check, folder, stock};

/// Rows changed in each step, on many pages.
const ROWS: i64 = 60;
const STEPS: usize = 25;

/// A kind of connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Participant {
    Stock,
    /// A connection of this VFS in a mode, sharing with stock SQLite.
    Shares(&'static str),
    /// A connection of this VFS in a mode, not sharing with stock SQLite.
    Alone(&'static str),
}

impl Participant {
    fn open(self, path: &Path) -> rusqlite::Result<Connection> {
        let uri = |mode, share| -> PathBuf {
            let path = path.display();
            format!("file:{path}?perdura_mode={mode}&perdura_share={share}").into()
        };
        let connection = match self {
            Self::Stock => Connection::open(path)?,
            Self::Shares(mode) => open(&uri(mode, "stock"))?,
            Self::Alone(mode) => open(&uri(mode, "perdura"))?,
        };
        connection.busy_timeout(Duration::from_secs(60))?;
        // A small cache, so that pages are written before the commit, where the journal matters.
        connection.execute_batch("PRAGMA cache_size = 5")?;
        Ok(connection)
    }

    /// Runs `work`, again while stock SQLite is refused because of an unshared connection.
    fn run<T>(self, alone: bool, mut work: impl FnMut() -> rusqlite::Result<T>) -> T {
        for _ in 0..20_000 {
            match work() {
                Ok(found) => return found,
                Err(error)
                    if alone
                        && self == Self::Stock
                        && error.sqlite_error_code() == Some(ErrorCode::NotADatabase) =>
                {
                    thread::sleep(Duration::from_micros(200));
                }
                Err(error) => panic!("{self:?}: {error}, {:?}", error.sqlite_error()),
            }
        }
        panic!("{self:?} is never let in");
    }
}

fn step(connection: &Connection) -> rusqlite::Result<()> {
    connection
        .execute_batch("BEGIN IMMEDIATE; UPDATE t SET n = n + 1, b = hex(randomblob(150)); COMMIT")
        .inspect_err(|_| {
            let _ = connection.execute_batch("ROLLBACK");
        })
}

/// The number of steps, on which all rows have to agree.
fn steps(connection: &Connection) -> rusqlite::Result<i64> {
    let (least, most, rows): (i64, i64, i64) =
        connection.query_row("SELECT min(n), max(n), count(*) FROM t", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?;
    assert_eq!((least, rows), (most, ROWS), "half a step");
    Ok(most)
}

/// Counts a running writer down when it ends or fails.
struct Counts<'a>(&'a AtomicUsize);

impl Drop for Counts<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs writers and readers, which keep or reopen their connections.
fn crowd(writers: &[Participant], readers: &[Participant]) {
    let directory = folder();
    let path = &directory.path().join("db");
    let alone = writers.iter().any(|one| matches!(one, Participant::Alone(_)));
    let first = Connection::open(path).unwrap();
    first
        .execute_batch(&format!(
            "PRAGMA page_size = 1024; CREATE TABLE t(a INTEGER PRIMARY KEY, n, b);
             WITH k(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM k LIMIT {ROWS})
             INSERT INTO t SELECT a, 0, '' FROM k"
        ))
        .unwrap();
    first.close().unwrap();
    let ended = &AtomicBool::new(false);
    let counting = &AtomicUsize::new(writers.len());
    thread::scope(|scope| {
        let threads: Vec<_> = writers
            .iter()
            .map(|one| {
                scope.spawn(move || {
                    let counts = Counts(counting);
                    let mut connection = one.run(alone, || one.open(path));
                    for number in 0..STEPS {
                        one.run(alone, || step(&connection));
                        if number % 3 == 0 {
                            drop(connection);
                            connection = one.run(alone, || one.open(path));
                        }
                    }
                    drop(counts);
                    // A shared commit readmits stock SQLite after an unshared one.
                    let lets_in = alone && matches!(one, Participant::Shares(_));
                    while lets_in && counting.load(Ordering::Relaxed) > 0 {
                        one.run(alone, || connection.execute_batch("PRAGMA user_version = 1"));
                        thread::sleep(Duration::from_millis(1));
                    }
                })
            })
            .collect();
        for one in readers {
            scope.spawn(move || {
                let mut connection = one.run(alone, || one.open(path));
                let mut before = 0;
                for number in 0.. {
                    let found = one.run(alone, || steps(&connection));
                    assert!(found >= before, "{one:?}: {found} after {before}");
                    before = found;
                    if ended.load(Ordering::Relaxed) {
                        break;
                    }
                    if number % 5 == 0 {
                        drop(connection);
                        connection = one.run(alone, || one.open(path));
                    }
                }
            });
        }
        // All are joined, even after a failure.
        let results: Vec<_> = threads.into_iter().map(ScopedJoinHandle::join).collect();
        ended.store(true, Ordering::Relaxed);
        results.into_iter().for_each(|result| result.unwrap());
    });
    let plain = stock(path);
    check(&plain);
    assert_eq!(steps(&plain).unwrap(), (writers.len() * STEPS) as i64);
}

#[test]
fn stock_sqlite_and_ours_count_and_read_together() {
    use Participant::{Shares, Stock};
    crowd(&[Stock, Shares("fash1"), Shares("nvwal")], &[Stock, Shares("fast")]);
    crowd(&[Shares("fash"), Shares("fast"), Stock], &[Stock, Shares("full")]);
}

#[test]
fn ours_count_and_read_together_and_open_and_close() {
    use Participant::Alone;
    crowd(&[Alone("fash1"), Alone("nvwal"), Alone("fast")], &[Alone("full"), Alone("fash")]);
}

#[test]
fn stock_gets_turns_next_to_unshared_connections() {
    use Participant::{Alone, Shares, Stock};
    crowd(&[Alone("fash1"), Shares("nvwal"), Stock], &[Alone("nvwal"), Shares("fash1")]);
}
