//! Snapshots of the engines with copy-on-write: what one sees stays as it is, whatever is
//! committed, aborted, freed and used again meanwhile; neither readers nor writers wait.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;

use crate::support::{Driver, Model, Tables, compare, schema, small_logs};
use perdura::{
    ColumnType, Commit, Database, Domain, EngineKind, Error, Options, Row, Scan, Schema, Snapshot,
    Table, TableSchema, Value,
};

/// The engines that have snapshots.
fn engines() -> Vec<EngineKind> {
    let has = |engine: &EngineKind| {
        let store = super::Store::new(&counters(), options(*engine));
        store.db().snapshot().is_ok()
    };
    let engines: Vec<_> = EngineKind::ALL.into_iter().filter(has).collect();
    assert!(engines.len() >= 2, "{engines:?}");
    engines
}

fn options(engine: EngineKind) -> Options {
    small_logs()
        .engine(engine)
        .domain(Domain::Process)
        .chunk_bytes(16 << 10)
        .tune("page_bytes", 1024)
        .tune("cache_bytes", 64 << 10)
        .pool_limit(1 << 30)
}

/// Returns what a snapshot holds, read in order and one by one.
fn model_of(snapshot: &Snapshot, tables: &Tables) -> Model {
    let mut model = Model::default();
    snapshot
        .scan(&tables.item, &Scan::all(), |row| {
            let (key, item) = crate::support::item_of(row);
            model.items.insert(key, item);
            ControlFlow::Continue(())
        })
        .unwrap();
    snapshot
        .scan(&tables.pair, &Scan::all(), |row| {
            model.pairs.insert((row.text(0).into(), row.i64(1)), row.bytes(2).into());
            ControlFlow::Continue(())
        })
        .unwrap();
    let (mut row, mut names, mut out) = (Row::new(), BTreeMap::new(), [0; 32]);
    for (key, item) in &model.items {
        let id = [Value::U64(*key)];
        assert!(snapshot.get_into(&tables.item, &id, &mut row).unwrap());
        assert_eq!(crate::support::item_of(&row), (*key, item.clone()));
        assert!(snapshot.get_columns_into(&tables.item, &id, &[1], &mut row).unwrap());
        let bytes = snapshot.get_bytes(&tables.item, &id, &[1], &mut out).unwrap().unwrap();
        assert_eq!(&out[..bytes], row.text(0).as_bytes());
        names.insert((item.name.clone(), *key), ());
    }
    let mut by_name = Vec::new();
    let scan = Scan::all().by("by_name").backward().columns(&[1, 0]);
    snapshot
        .scan(&tables.item, &scan, |row| {
            by_name.push((row.text(0).to_owned(), row.u64(1)));
            ControlFlow::Continue(())
        })
        .unwrap();
    assert!(by_name.iter().rev().eq(names.keys()));
    model
}

#[test]
fn a_snapshot_sees_what_was_committed_when_it_was_taken() {
    for engine in engines() {
        for group in [1, 5] {
            let directory = crate::support::in_memory();
            let options = options(engine).commit(Commit::grouped(group));
            let db = Database::create(directory.path().join("db"), &schema(), &options).unwrap();
            let tables = Tables::of(&db);
            let (mut driver, mut model) = (Driver::new(u64::from(group), 150), Model::default());
            let mut snapshots: Vec<(Snapshot, Model)> = Vec::new();
            for round in 0..400 {
                let mut after = model.clone();
                let mut tx = db.begin().unwrap();
                for _ in 0..1 + round % 9 {
                    driver.operation(&mut tx, &tables, &mut after).unwrap();
                }
                // In the middle of a transaction: it is not to be seen.
                if round % 10 == 0 {
                    snapshots.push((db.snapshot().unwrap(), model.clone()));
                }
                if round % 7 == 0 {
                    tx.abort().unwrap();
                } else {
                    let _ticket = tx.commit().unwrap();
                    model = after;
                }
                if round % 13 == 0 {
                    snapshots.push((db.snapshot().unwrap(), model.clone()));
                }
                if snapshots.len() > 5 {
                    let (snapshot, expected) = snapshots.remove(round % 5);
                    assert_eq!(model_of(&snapshot, &tables), expected, "{engine} {round}");
                }
            }
            // They outlive the database.
            db.close().unwrap();
            for (snapshot, expected) in &snapshots {
                assert_eq!(model_of(snapshot, &tables), *expected, "{engine}");
            }
            drop(snapshots);
            let db = Database::open(directory.path().join("db"), &small_logs()).unwrap();
            compare(&db, &model);
        }
    }
}

#[test]
fn what_a_snapshot_kept_is_used_again_after_it() {
    for engine in engines() {
        let directory = crate::support::in_memory();
        let path = directory.path().join("db");
        let db = Database::create(&path, &schema(), &options(engine)).unwrap();
        let tables = Tables::of(&db);
        let (mut driver, mut model) = (Driver::new(4, 100), Model::default());
        let mut churn = |model: &mut Model| {
            for round in 0..1500 {
                driver.transaction(&db, &tables, model, 1 + round % 5).unwrap();
            }
            db.stored_bytes().unwrap()
        };
        let before = churn(&mut model);
        let snapshot = db.snapshot().unwrap();
        let kept = churn(&mut model);
        drop(snapshot);
        let after = churn(&mut model);
        let later = churn(&mut model);
        println!("{engine}: {before}, {kept} with a snapshot, {after}, {later} bytes");
        assert!(kept >= before, "what is superseded is kept");
        assert!(later <= kept + kept / 20, "{engine}: what was kept is used again");
        compare(&db, &model);
    }
}

fn counters() -> Schema {
    let table = TableSchema::new("counter")
        .column("id", ColumnType::U64)
        .column("count", ColumnType::U64)
        .column("text", ColumnType::Bytes { max: 200 })
        .key(&["id"]);
    Schema::new().table(table)
}

fn counter(id: u64, count: u64) -> [Value<'static>; 3] {
    const TEXT: [u8; 200] = [7; 200];
    [Value::U64(id), Value::U64(count), Value::Bytes(&TEXT[..(count % 200) as usize])]
}

const COUNTERS: u64 = 60;

/// All counters of a snapshot have one value, and their texts its length.
fn check_counters(snapshot: &Snapshot, table: &Table, seen: &mut u64) {
    let (mut values, mut count) = (Vec::new(), 0);
    snapshot
        .scan(table, &Scan::all(), |row| {
            assert_eq!(row.bytes(2).len() as u64, row.u64(1) % 200);
            values.push(row.u64(1));
            count += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(count, COUNTERS);
    values.dedup();
    assert_eq!(values.len(), 1, "a state of one moment");
    assert!(values[0] >= *seen, "newer snapshots see newer states");
    *seen = values[0];
    let mut row = Row::new();
    assert!(snapshot.get_into(table, &[Value::U64(values[0] % COUNTERS)], &mut row).unwrap());
    assert_eq!(row.u64(1), values[0]);
}

#[test]
fn readers_of_snapshots_run_beside_the_writer() {
    for engine in engines() {
        let directory = crate::support::in_memory();
        let options = options(engine).tune("cache_bytes", 16 << 10);
        let db = Database::create(directory.path().join("db"), &counters(), &options).unwrap();
        let table = db.table("counter").unwrap();
        db.write(|tx| (0..COUNTERS).try_for_each(|id| tx.insert(&table, &counter(id, 0)))).unwrap();
        let (stop, taken) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut seen = 0;
                    while !stop.load(Ordering::Relaxed) {
                        let snapshot = db.snapshot().unwrap();
                        for _ in 0..3 {
                            check_counters(&snapshot, &table, &mut seen);
                        }
                        taken.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            for count in 1..=1500 {
                db.write(|tx| {
                    (0..COUNTERS).try_for_each(|id| {
                        let values = counter(id, count);
                        let changes = [(1, values[1]), (2, values[2])];
                        tx.update(&table, &[Value::U64(id)], &changes)
                    })
                })
                .unwrap();
            }
            while taken.load(Ordering::Relaxed) < 10 {
                std::thread::yield_now();
            }
            stop.store(true, Ordering::Relaxed);
        });
        println!("{engine}: {} snapshots", taken.load(Ordering::Relaxed));
        db.check().unwrap();
    }
}

/// A reader that waited for the writer would wait here for ever.
#[test]
fn a_snapshot_is_taken_and_read_while_a_transaction_is_open() {
    for engine in engines() {
        let directory = crate::support::in_memory();
        let path = directory.path().join("db");
        let db = Arc::new(Database::create(&path, &counters(), &options(engine)).unwrap());
        let table = db.table("counter").unwrap();
        db.write(|tx| (0..COUNTERS).try_for_each(|id| tx.insert(&table, &counter(id, 0)))).unwrap();
        let mut tx = db.begin().unwrap();
        tx.update(&table, &[Value::U64(1)], &[(1, Value::U64(9))]).unwrap();
        let (done, wait) = mpsc::channel();
        let reader = std::thread::spawn({
            let (db, table) = (db.clone(), table.clone());
            move || {
                check_counters(&db.snapshot().unwrap(), &table, &mut 0);
                done.send(()).unwrap();
            }
        });
        wait.recv().unwrap();
        tx.abort().unwrap();
        reader.join().unwrap();
    }
}

#[test]
fn engines_with_one_version_say_so() {
    let with = engines();
    for engine in EngineKind::ALL {
        let store = super::Store::new(&counters(), options(engine));
        match store.db().snapshot() {
            Ok(_) => assert!(with.contains(&engine)),
            Err(error) => {
                assert!(matches!(error, Error::NoSnapshots { .. }), "{error}");
                assert!(error.to_string().contains(engine.name()), "{error}");
            }
        }
    }
}
