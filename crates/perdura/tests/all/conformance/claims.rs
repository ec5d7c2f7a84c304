//! Scans for update, and such that pass over what other transactions have: queues whose head
//! several threads take without being in each other's way.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use perdura::{
    ColumnType, Concurrency, ConflictReason, Database, EngineKind, Error, Read, Scan, Schema,
    Table, TableSchema, Tx, Value, WriteOptions,
};

use super::{Store, Under, each, small};

const WAITING: u64 = 0;
const TAKEN: u64 = 1;

fn schema() -> Schema {
    let jobs = TableSchema::new("job")
        .column("id", ColumnType::U64)
        .column("state", ColumnType::U64)
        .column("note", ColumnType::Text { max: 20 })
        .nullable()
        .key(&["id"])
        .index("by_state", &["state"]);
    Schema::new().table(jobs)
}

fn job(id: u64) -> [Value<'static>; 3] {
    [id.into(), WAITING.into(), Value::Null]
}

/// A queue with some jobs, numbered from 1 on.
fn queue(engine: impl Into<Under>, jobs: u64) -> (Store, Table) {
    let store = Store::new(&schema(), small(engine));
    let table = store.db().table("job").unwrap();
    store.db().write(|tx| (1..=jobs).try_for_each(|id| tx.insert(&table, &job(id)))).unwrap();
    (store, table)
}

fn waiting() -> Scan<'static> {
    Scan::prefix([Value::from(WAITING)]).by("by_state")
}

fn ids(from: &impl Read, table: &Table, scan: Scan<'_>) -> Result<Vec<u64>, Error> {
    from.rows(table, scan).map(|row| Ok(row?.u64(0))).collect()
}

/// Takes the first free job in the order of an index, or of the primary key.
fn take(tx: &mut Tx<'_>, table: &Table, by_state: bool) -> Result<Option<u64>, Error> {
    let all = if by_state { waiting() } else { Scan::all() };
    let free = all.for_update().skip_locked().limit(1);
    let Some(row) = tx.rows(table, free).next().transpose()? else { return Ok(None) };
    let id = row.u64(0);
    if by_state {
        tx.update(table, &[id.into()], &[("state", TAKEN.into())])?;
    } else {
        tx.delete(table, &[id.into()])?;
    }
    Ok(Some(id))
}

/// Engines that run many transactions of a partition at the same time, and can pass over rows.
fn shared() -> impl Iterator<Item = EngineKind> {
    let is_shared = |kind: &EngineKind| kind.traits().concurrency == Concurrency::Shared;
    EngineKind::ALL.into_iter().filter(is_shared).inspect(|engine| println!("engine {engine}"))
}

/// Without other transactions, the rows are those of a scan that only reads; and the transaction
/// sees its own.
#[test]
fn scans_for_update_show_what_other_scans_show() {
    each(|engine| {
        let (store, table) = queue(engine, 20);
        let skips = engine != Under::Optimistic;
        let changed = store.db().write(|tx| {
            tx.update(&table, &[3.into()], &[("state", TAKEN.into())])?;
            tx.delete(&table, &[5.into()])?;
            tx.insert(&table, &job(21))?;
            for scan in [
                Scan::all(),
                Scan::all().backward(),
                waiting(),
                waiting().backward().limit(4),
                Scan::range([Value::from(4)]..[Value::from(9)]),
                Scan::all().limit(0),
            ] {
                let plain = ids(tx, &table, scan.clone())?;
                assert_eq!(ids(tx, &table, scan.clone().for_update())?, plain, "{scan:?}");
                let skipping = ids(tx, &table, scan.for_update().skip_locked());
                if skips {
                    assert_eq!(skipping?, plain);
                } else if !plain.is_empty() {
                    let refused = skipping.unwrap_err().to_string();
                    assert!(refused.contains("pass over"), "{refused}");
                }
            }
            ids(tx, &table, waiting())
        });
        assert_eq!(changed.unwrap().len(), 19);
    });
}

#[test]
fn scans_for_update_need_a_transaction_that_writes() {
    each(|engine| {
        let (store, table) = queue(engine, 3);
        for scan in [Scan::all().for_update(), waiting().skip_locked()] {
            let read = store.db().read(|tx| ids(tx, &table, scan.clone()));
            assert!(matches!(read, Err(Error::ReadsOnly)), "{read:?}");
            if let Ok(snapshot) = store.db().snapshot() {
                let read = ids(&snapshot, &table, scan);
                assert!(matches!(read, Err(Error::ReadsOnly)), "{read:?}");
            }
        }
    });
}

/// Each of several open transactions has rows of its own, and gives them back when it is undone.
#[test]
fn what_another_transaction_has_is_passed_over() {
    for engine in shared() {
        for by_state in [true, false] {
            let (store, table) = queue(engine, 8);
            let db = store.db();
            let mut open: Vec<Tx<'_>> = (0..3).map(|_| db.begin().unwrap()).collect();
            let taken: Vec<_> =
                open.iter_mut().map(|tx| take(tx, &table, by_state).unwrap()).collect();
            assert_eq!(taken, [Some(1), Some(2), Some(3)]);
            // A row is changed without being read for that, another one is inserted.
            let mut other = db.begin().unwrap();
            other.update(&table, &[4.into()], &[("note", "mine".into())]).unwrap();
            other.insert(&table, &job(0)).unwrap();
            let mut last = db.begin().unwrap();
            assert_eq!(take(&mut last, &table, by_state).unwrap(), Some(5));
            let free = || if by_state { waiting() } else { Scan::all() }.skip_locked();
            assert_eq!(ids(&last, &table, free().limit(2)).unwrap(), [6, 7]);
            assert_eq!(ids(&last, &table, free().backward()).unwrap(), [8, 7, 6]);
            let mut more = db.begin().unwrap();
            assert_eq!(take(&mut more, &table, by_state).unwrap(), None, "all are taken");
            let _ = more.commit().unwrap();
            // One gives its row back, the other one has really taken it.
            open.remove(0).abort().unwrap();
            let _ = open.remove(0).commit().unwrap();
            drop((other, last));
            let mut next = db.begin().unwrap();
            let free = ids(&next, &table, free()).unwrap();
            assert_eq!(free, [1, 4, 5, 6, 7, 8]);
            assert_eq!(take(&mut next, &table, by_state).unwrap(), Some(1));
            let _ = next.commit().unwrap();
            drop(open);
            db.check().unwrap();
        }
    }
}

/// A transaction that wants to change what another one has read for update is in a conflict, at the
/// latest when its time is over.
#[test]
fn what_is_read_for_update_is_kept_from_others() {
    let how = WriteOptions::new().wait(Duration::ZERO).retry_for(Duration::ZERO);
    for engine in shared() {
        for scan in [Scan::all().for_update(), waiting().for_update(), waiting().skip_locked()] {
            let (store, table) = queue(engine, 8);
            let db = store.db();
            let tx = db.begin().unwrap();
            assert_eq!(ids(&tx, &table, scan.limit(2)).unwrap(), [1, 2]);
            let update = |id: u64| {
                let changes = [("note", "theirs".into())];
                db.write_with(how, |tx| tx.update(&table, &[id.into()], &changes))
            };
            for id in [1, 2] {
                let refused = update(id);
                assert!(matches!(refused, Err(Error::Conflict { .. })), "{refused:?}");
            }
            let read = db.write_with(how, |tx| ids(tx, &table, waiting().for_update().limit(1)));
            assert!(matches!(read, Err(Error::Conflict { .. })), "{read:?}");
            // It has locked no more than that.
            update(3).unwrap();
            let _ = tx.commit().unwrap();
            update(1).unwrap();
        }
    }
}

/// Rows that have been changed since a transaction began are not what its snapshot shows.
#[test]
fn a_row_that_was_taken_meanwhile_is_not_taken_again() {
    for engine in shared() {
        let (store, table) = queue(engine, 3);
        let db = store.db();
        let mut late = db.begin().unwrap();
        let own = [Value::from(9), WAITING.into(), Value::Null];
        late.insert(&table, &own).unwrap();
        for id in 1..=2 {
            let taken = db.write(|tx| take(tx, &table, true)).unwrap();
            assert_eq!(taken, Some(id));
        }
        assert_eq!(take(&mut late, &table, true).unwrap(), Some(3));
        let _ = late.commit().unwrap();
    }
}

/// Threads that take jobs and add some: each job is taken once, and no transaction runs twice.
fn taken_once(db: &Database, table: &Table, by_state: bool, jobs: u64) -> u64 {
    const THREADS: u64 = 4;
    let (taken, runs, calls) = (Mutex::new(Vec::new()), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (taken, runs, calls) = (&taken, &runs, &calls);
            scope.spawn(move || {
                let count = |of: &AtomicU64| of.fetch_add(1, Ordering::Relaxed);
                let (mut next, mut own) = (1000 + thread, Vec::new());
                loop {
                    if next < 1000 + jobs {
                        count(calls);
                        db.write(|tx| {
                            count(runs);
                            tx.insert(table, &job(next))
                        })
                        .unwrap();
                        next += THREADS;
                    }
                    count(calls);
                    let job = db.write(|tx| {
                        count(runs);
                        take(tx, table, by_state)
                    });
                    match job.unwrap() {
                        Some(id) => own.push(id),
                        None if next >= 1000 + jobs => break,
                        None => {}
                    }
                }
                taken.lock().unwrap().extend(own);
            });
        }
    });
    let mut taken = taken.into_inner().unwrap();
    // Where the last ones are taken by others that are open still, a thread may end before that.
    let rest = db.write(|tx| ids(tx, table, if by_state { waiting() } else { Scan::all() }));
    taken.extend(rest.unwrap());
    let once: BTreeSet<_> = taken.iter().copied().collect();
    assert_eq!(once.len(), taken.len(), "each is taken once");
    assert_eq!(once.len() as u64, 2 * jobs, "all are taken");
    runs.into_inner() - calls.into_inner()
}

#[test]
fn each_job_is_taken_once_and_no_transaction_runs_twice() {
    for engine in EngineKind::ALL {
        for by_state in [true, false] {
            let (store, table) = queue(engine, 150);
            let reruns = taken_once(store.db(), &table, by_state, 150);
            assert_eq!(reruns, 0, "{engine}, by state: {by_state}");
            store.db().check().unwrap();
        }
    }
}

/// The reason of a conflict says whether a lock was waited for.
#[test]
fn a_scan_for_update_waits_no_longer_than_it_may() {
    let how = WriteOptions::new().wait(Duration::from_millis(1)).retry_for(Duration::ZERO);
    for engine in shared() {
        let (store, table) = queue(engine, 8);
        let tx = store.db().begin().unwrap();
        assert_eq!(ids(&tx, &table, Scan::all().for_update()).unwrap().len(), 8);
        let refused =
            store.db().write_with(how, |tx| ids(tx, &table, Scan::all().for_update()).map(drop));
        let Err(Error::Conflict { reason, tries: 1 }) = refused else { panic!("{refused:?}") };
        let waits = engine != EngineKind::Sofort;
        let wanted = if waits { ConflictReason::Timeout } else { ConflictReason::WriteWrite };
        assert_eq!(reason, wanted, "{engine}");
        let free = store.db().write_with(how, |tx| ids(tx, &table, Scan::all().skip_locked()));
        assert_eq!(free.unwrap(), [0; 0]);
    }
}
