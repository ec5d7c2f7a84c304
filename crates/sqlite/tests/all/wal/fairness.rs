//! Connections that all write as fast as they can.

use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;

use super::*;

/// Commits of so many connections that write in threads of their own, until there are `total` of all together.
fn commits_of(writers: usize, total: i64) -> Vec<i64> {
    let directory = folder();
    let path = &directory.path().join("db");
    let first = open_wal(path);
    first.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)").unwrap();
    let done = &AtomicI64::new(0);
    let write = || {
        let connection = open(path).unwrap();
        connection.busy_timeout(Duration::from_secs(600)).unwrap();
        let mut insert = connection.prepare("INSERT INTO t(b) VALUES('x')").unwrap();
        let mut commits = 0;
        while done.load(Ordering::Relaxed) < total {
            insert.execute([]).unwrap();
            commits += 1;
            done.fetch_add(1, Ordering::Relaxed);
        }
        commits
    };
    let commits: Vec<i64> = thread::scope(|scope| {
        let threads: Vec<_> = (0..writers).map(|_| scope.spawn(write)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(rows_of(&first), commits.iter().sum::<i64>());
    check(&first);
    commits
}

fn rows_of(connection: &Connection) -> i64 {
    connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap()
}

/// A writer that sleeps while another one commits again and again gets its share. Without turns one of them makes
/// nearly all commits.
#[test]
fn no_writer_is_starved() {
    for (writers, total) in [(2, 60_000), (4, 60_000)] {
        let commits = commits_of(writers, total);
        let share = total / writers as i64;
        assert!(commits.iter().all(|commits| *commits > share / 5), "{commits:?}");
    }
}
