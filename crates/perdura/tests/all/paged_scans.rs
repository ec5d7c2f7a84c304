//! The cost of scans in the paged engines, in counts: a queue's head after thousands of claims,
//! scans that are stopped, and scans whose end others move.

use std::ops::ControlFlow::Continue;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use perdura::{
    ColumnType, Database, EngineKind, Error, Options, ReadTx, Scan, Schema, Table, TableSchema, Tx,
    Value, WriteOptions,
};

use crate::support::{in_memory, small_logs};

const WAITING: u64 = 0;
const TAKEN: u64 = 1;

fn schema() -> Schema {
    let jobs = TableSchema::new("job")
        .column("id", ColumnType::U64)
        .column("state", ColumnType::U64)
        .key(&["id"])
        .index("by_state", &["state"]);
    Schema::new().table(jobs)
}

fn options(engine: EngineKind) -> Options {
    small_logs().engine(engine).tune("page_bytes", 1024).tune("buffer_bytes", 4 << 20)
}

fn waiting() -> Scan<'static> {
    Scan::prefix([Value::U64(WAITING)]).by("by_state")
}

fn insert(tx: &mut Tx<'_>, table: &Table, ids: impl IntoIterator<Item = u64>) -> Result<(), Error> {
    ids.into_iter().try_for_each(|id| tx.insert(table, &[Value::U64(id), Value::U64(WAITING)]))
}

/// Requests for locks, and visits of pages, of a read.
fn cost(db: &Database, read: impl Fn(&ReadTx<'_>) -> Result<(), Error>) -> (u64, u64) {
    cost_of(db, || db.read(|tx| read(tx)))
}

fn cost_of(db: &Database, act: impl FnOnce() -> Result<(), Error>) -> (u64, u64) {
    let counts = || {
        let stats = db.stats().unwrap();
        let buffer = stats.own.buffer().unwrap();
        (buffer.lock_requests, buffer.hits + buffer.reads)
    };
    let before = counts();
    act().unwrap();
    let after = counts();
    (after.0 - before.0, after.1 - before.1)
}

/// The cost of the first row for a transaction that takes it, with its locks.
fn head(db: &Database, table: &Table) -> (u64, u64) {
    cost_of(db, || db.write(|tx| tx.rows(table, waiting().limit(1)).next().transpose().map(drop)))
}

/// A thread adds a job, and takes the first one, as a queue does that knows of no `skip_locked`:
/// the others wait at the head, have locks of what it takes away, and are victims.
fn work(db: &Database, table: &Table, next: &AtomicU64, jobs: u64) {
    for _ in 0..jobs {
        let id = next.fetch_add(1, Ordering::Relaxed);
        db.write(|tx| insert(tx, table, [id])).unwrap();
        db.write(|tx| {
            let first = tx.rows(table, waiting().limit(1)).next().transpose()?;
            let id = first.expect("a job").u64(0);
            tx.update(table, &[id.into()], &[("state", TAKEN.into())])
        })
        .unwrap();
    }
}

/// Two trees and a key of each; their pages, those of the catalog, and one page more.
fn is_cheap((requests, pages): (u64, u64)) -> bool {
    requests <= 4 && pages <= 24
}

#[test]
fn a_queues_head_costs_the_same_behind_many_claims() {
    for engine in EngineKind::P2 {
        let directory = in_memory();
        let path = directory.path().join("db");
        let db = Database::create(&path, &schema(), &options(engine)).unwrap();
        let table = db.table("job").unwrap();
        let next = AtomicU64::new(50);
        db.write(|tx| insert(tx, &table, 0..50)).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| work(&db, &table, &next, 300));
            }
        });
        let at_once = head(&db, &table);
        assert!(is_cheap(at_once), "{engine}, behind the claims: {at_once:?}");
        db.close().unwrap();
        let db = Database::open(&path, &Options::new()).unwrap();
        let opened = head(&db, &db.table("job").unwrap());
        assert!(is_cheap(opened), "{engine}, opened: {opened:?}");
        assert_eq!(db.check().unwrap().tuples, 1250);
    }
}

/// A scan with a limit locks what it shows: of an index each key and its row.
#[test]
fn a_limit_says_how_many_rows_are_locked() {
    for engine in EngineKind::P2 {
        let directory = in_memory();
        let path = directory.path().join("db");
        // No lock is kept from the transaction before.
        let options = match engine {
            EngineKind::NvDisk => options(engine).tune("inherit_after", 0),
            _ => options(engine),
        };
        let db = Database::create(path, &schema(), &options).unwrap();
        let table = db.table("job").unwrap();
        db.write(|tx| insert(tx, &table, 0..500)).unwrap();
        for limit in [1, 2, 5, 64, 100] {
            let shown = |tx: &Tx<'_>, scan: Scan<'_>| {
                let mut shown = 0;
                tx.scan(&table, &scan, |_| {
                    shown += 1;
                    Continue(())
                })?;
                assert_eq!(shown, limit);
                Ok(())
            };
            let wanted = limit as u64;
            // A transaction that may write locks what it reads.
            let requests = |scan: Scan<'_>| {
                cost_of(&db, || db.write(|tx| shown(tx, scan.clone().limit(limit)))).0
            };
            let unlocked = cost(&db, |tx| tx.scan(&table, &Scan::all(), |_| Continue(())));
            assert_eq!(unlocked.0, 0, "a read takes no lock");
            assert_eq!(requests(Scan::all()), 1 + wanted, "{engine}: {limit} rows");
            assert_eq!(requests(waiting()), 2 + 2 * wanted, "{engine}: {limit} rows by an index");
            // Backward, the gap above comes first.
            assert_eq!(requests(Scan::all().backward()), 2 + wanted);
            assert_eq!(requests(waiting().backward()), 3 + 2 * wanted);
        }
    }
}

/// A read that meets a page with a change of an open transaction is refused, and run again under
/// locks, also if its closure makes nothing of the error.
#[test]
fn a_refused_read_is_run_again() {
    for engine in EngineKind::P2 {
        let directory = in_memory();
        let path = directory.path().join("db");
        let db = Database::create(path, &schema(), &options(engine)).unwrap();
        let table = db.table("job").unwrap();
        db.write(|tx| insert(tx, &table, 0..20)).unwrap();
        let mut open = db.begin().unwrap();
        open.update(&table, &[Value::U64(5)], &[("state", Value::U64(TAKEN))]).unwrap();
        let mut runs = 0;
        let found = db.read(|tx| {
            runs += 1;
            Ok(tx.get(&table, &[Value::U64(6)]).unwrap_or_default().is_some())
        });
        assert_eq!((found.unwrap(), runs), (true, 2), "{engine}");
        let _ticket = open.commit().unwrap();
        let found = db.read(|tx| {
            runs += 1;
            tx.get(&table, &[Value::U64(5)])
        });
        assert_eq!((found.unwrap().is_some(), runs), (true, 3), "{engine}");
    }
}

/// An iterator goes through a table while two rows are appended for each that it gives.
#[test]
fn rows_end_though_others_append_faster() {
    let how = WriteOptions::new().wait(Duration::ZERO).retry_for(Duration::ZERO);
    for engine in EngineKind::P2 {
        for by_state in [false, true] {
            let directory = in_memory();
            let path = directory.path().join("db");
            let db = Database::create(path, &schema(), &options(engine)).unwrap();
            let table = db.table("job").unwrap();
            let append = |id: u64| db.write_with(how, |tx| insert(tx, &table, [id]));
            db.write(|tx| {
                insert(tx, &table, 0..1000)?;
                tx.insert(&table, &[(1_u64 << 40).into(), TAKEN.into()])
            })
            .unwrap();
            let (mut next, mut shown, mut refused) = (1000, 0, 0);
            let scan = if by_state { waiting() } else { Scan::range(..[Value::U64(1 << 30)]) };
            // One that locks what it reads.
            db.write(|tx| {
                for row in tx.rows(&table, scan.clone()).take(20_000) {
                    row?;
                    shown += 1;
                    for _ in 0..2 {
                        match append(next) {
                            Ok(()) => next += 1,
                            Err(Error::Conflict { .. }) => refused += 1,
                            Err(error) => return Err(error),
                        }
                    }
                }
                Ok(())
            })
            .unwrap();
            assert!(shown < 8_000, "{engine}, by state {by_state}: {shown} of {next} rows");
            assert!(next > 2_000 && refused > 0, "{next} rows, {refused} refused");
            assert_eq!(shown, next, "it has seen all that came");
        }
    }
}
