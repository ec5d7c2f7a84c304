//! Connections that share with stock SQLite and end a read under the marker make the file plain again, and no other
//! is refused because of that.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use perdura_sqlite::database::{Level, MainFile as _, Mapped, OpenOptions};
use pm::{Domain, Plain, PlainOptions};
use rusqlite::Connection;

use crate::kernel_calls::refusing;
use crate::register::open;
use crate::shared::{open_shared, open_stock};
use crate::sql::{check, folder, rows, stock};

/// The read version of a file that only this VFS reads.
const MARKER: u8 = 80;

fn version(path: &Path) -> u8 {
    std::fs::read(path).unwrap()[19]
}

fn hasty(path: &Path) -> Connection {
    let connection = open_shared(path, "fash1");
    connection.busy_timeout(Duration::ZERO).unwrap();
    connection
}

/// A database with a table of one row.
fn new_database(path: &Path) {
    open_stock(path).execute_batch("CREATE TABLE t(a, b); INSERT INTO t VALUES(1, 'one')").unwrap();
}

#[test]
fn readers_retrying_readmission_are_never_busy() {
    let directory = folder();
    let path = &directory.path().join("db");
    new_database(path);
    let (first, alone) = (hasty(path), open(path).unwrap());
    alone.execute_batch("INSERT INTO t VALUES(2, 'two')").unwrap();
    let mut select = alone.prepare("SELECT a FROM t").unwrap();
    let mut reads = select.query([]).unwrap();
    assert!(reads.next().unwrap().is_some());
    thread::scope(|scope| {
        for one in [hasty(path), hasty(path)] {
            scope.spawn(move || {
                let mut select = one.prepare("SELECT a FROM t").unwrap();
                for number in 0..20_000 {
                    let found: rusqlite::Result<i64> = select.query_row([], |row| row.get(0));
                    assert!(found.is_ok(), "{number}: {found:?}");
                }
            });
        }
    });
    assert_eq!(version(path), MARKER);
    drop(reads);
    assert_eq!((rows(&first).len(), version(path)), (2, 1));
}

#[test]
fn readers_wait_for_readmission_and_are_never_busy() {
    const THREADS: usize = 3;
    const ROUNDS: usize = 400;
    let directory = folder();
    let path = &directory.path().join("db");
    new_database(path);
    let alone = open(path).unwrap();
    let (round, done) = (&AtomicUsize::new(0), &AtomicUsize::new(0));
    let wait = |word: &AtomicUsize, value| {
        while word.load(Ordering::SeqCst) < value {
            thread::yield_now();
        }
    };
    let mut let_in = 0;
    let failed = thread::scope(|scope| {
        let threads = [(); THREADS].map(|()| {
            scope.spawn(move || {
                let mut failed = Vec::new();
                let one = hasty(path);
                for number in 1..=ROUNDS {
                    wait(round, number);
                    for _ in 0..3 {
                        let found = one.query_row("SELECT max(a) FROM t", [], |row| row.get(0));
                        if found != Ok(number as i64 + 1) {
                            failed.push(format!("{number}: {found:?}"));
                        }
                    }
                    done.fetch_add(1, Ordering::SeqCst);
                }
                failed
            })
        });
        for number in 1..=ROUNDS {
            let insert = format!("INSERT INTO t VALUES({}, 'x')", number + 1);
            let written = alone.execute_batch(&insert);
            round.store(number, Ordering::SeqCst);
            wait(done, number * THREADS);
            written.unwrap();
            let_in += usize::from(version(path) == 1);
        }
        threads.map(|thread| thread.join().unwrap()).concat()
    });
    println!("{let_in} of {ROUNDS} rounds let stock SQLite in");
    assert!(failed.is_empty(), "{failed:?}");
    assert!(let_in > ROUNDS / 10, "{let_in}");
    drop(alone);
    check(&stock(path));
}

/// As documented, no connection waits for readers.
#[test]
fn overlapping_readers_keep_stock_out_only_while_they_overlap() {
    let directory = folder();
    let path = &directory.path().join("db");
    new_database(path);
    let [one, other] = [hasty(path), hasty(path)];
    // Reading the schema is a read as well.
    assert_eq!((rows(&one).len(), rows(&other).len()), (1, 1));
    open(path).unwrap().execute_batch("INSERT INTO t VALUES(2, 'two')").unwrap();
    let begin = |reader: &Connection| reader.execute_batch("BEGIN; SELECT * FROM t").unwrap();
    let end = |reader: &Connection| reader.execute_batch("COMMIT").unwrap();
    begin(&one);
    for _ in 0..100 {
        begin(&other);
        end(&one);
        begin(&one);
        end(&other);
        assert_eq!(version(path), MARKER);
    }
    end(&one);
    assert_eq!(version(path), 1);
    assert_eq!(rows(&open_stock(path)).len(), 2);
}

/// A connection with a commit that shrinks the database, still locked.
fn committed(path: &Path, domain: Option<&str>) -> Mapped {
    new_database(path);
    open_stock(path).execute_batch("INSERT INTO t VALUES(2, hex(zeroblob(100000)))").unwrap();
    let small = path.with_file_name("small");
    std::fs::copy(path, &small).unwrap();
    open_stock(&small).execute_batch("UPDATE t SET b = 'two' WHERE a = 2; VACUUM").unwrap();
    let small = std::fs::read(&small).unwrap();
    let options = OpenOptions {
        share: Some("stock".into()),
        domain: domain.map(Into::into),
        ..OpenOptions::default()
    };
    let mut ours = Mapped::open(path, &options).unwrap().unwrap();
    for level in [Level::Shared, Level::Reserved, Level::Exclusive] {
        ours.lock(level).unwrap();
    }
    ours.write(0, &small).unwrap();
    ours.truncate(small.len() as u64).unwrap();
    ours.commit(None).unwrap();
    assert!(std::fs::metadata(path).unwrap().len() > small.len() as u64);
    ours
}

fn read(ours: &mut Mapped) {
    ours.lock(Level::Shared).unwrap();
    ours.unlock(Level::None).unwrap();
}

#[test]
fn refused_truncation_is_retried_with_backoff() {
    let directory = folder();
    let path = &directory.path().join("db");
    let mut ours = committed(path, None);
    let tries = refusing(true, false, || {
        ours.unlock(Level::None).unwrap();
        let mut counts = ours.pragma("perdura_stats", None);
        let mut tries = Vec::new();
        for number in 1..=64 {
            read(&mut ours);
            // Only a try flushes lines.
            let now = ours.pragma("perdura_stats", None);
            if now != counts {
                tries.push(number);
            }
            counts = now;
        }
        tries
    });
    assert_eq!((tries, version(path)), (vec![1, 4, 11, 26, 57], MARKER));
    // Another connection has not been refused yet.
    let options = OpenOptions { share: Some("stock".into()), ..OpenOptions::default() };
    let mut other = Mapped::open(path, &options).unwrap().unwrap();
    read(&mut other);
    assert_eq!(version(path), 1);
    assert_eq!(rows(&open_stock(path)).len(), 2);
    Box::new(ours).close().unwrap();
    Box::new(other).close().unwrap();
    check(&stock(path));
}

/// Also if another connection retries: the length is right by then, but may not be durable.
#[test]
fn stock_is_readmitted_only_after_the_cut_is_synced() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = &directory.path().join("db");
    let options = PlainOptions { create: true, ..PlainOptions::default() };
    if Plain::open(path, &options).unwrap().domain() != Domain::Disk {
        println!("left out: the folder of this build is not on a disk");
        return;
    }
    let mut ours = committed(path, Some("disk"));
    let cut = std::fs::metadata(path.with_file_name("small")).unwrap().len();
    let options = OpenOptions {
        share: Some("stock".into()),
        domain: Some("disk".into()),
        ..OpenOptions::default()
    };
    let mut others: Vec<_> =
        (0..2).map(|_| Mapped::open(path, &options).unwrap().unwrap()).collect();
    refusing(false, true, || ours.unlock(Level::None).unwrap());
    assert_eq!((version(path), std::fs::metadata(path).unwrap().len()), (MARKER, cut));
    for one in [&mut ours].into_iter().chain(&mut others) {
        refusing(false, true, || (0..2).for_each(|_| read(one)));
        assert_eq!(version(path), MARKER);
    }
    let (mut read_until, mut next) = (0, Mapped::open(path, &options).unwrap().unwrap());
    while version(path) == MARKER {
        read(if read_until % 2 == 0 { &mut ours } else { &mut next });
        read_until += 1;
    }
    assert_eq!(read_until, 2);
    others.extend([ours, next]);
    others.into_iter().for_each(|one| Box::new(one).close().unwrap());
    assert_eq!(rows(&stock(path)).len(), 2);
}
