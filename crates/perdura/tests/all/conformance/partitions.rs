//! Several partitions: each its own tuples and transactions, one file for all of them; a table
//! that every partition has a copy of; and calls that do not say which partition they mean.

use crate::support::{few, small_logs};
use perdura::{Commit, Database, Domain, EngineKind, Error, Scan, Table, Value};

use super::operations::{insert, schema, tuple, update};
use super::{Own, Store, Tuple, each, each_known, small};

const PARTITIONS: u32 = 3;

fn tuples_of(db: &Database, partition: usize, table: &Table) -> Vec<Tuple> {
    let mut rows = Vec::new();
    db.partition(partition)
        .read(|tx| {
            tx.scan(table, &Scan::all(), |row| {
                rows.push(row.values().map(Own::from).collect());
                std::ops::ControlFlow::Continue(())
            })
        })
        .unwrap();
    rows
}

fn expected(partition: u64, rounds: u64) -> Vec<Tuple> {
    (0..rounds).map(|id| tuple(id, id * 10 + partition)).collect()
}

#[test]
fn partitions_have_the_same_tables_and_their_own_tuples() {
    each(|engine| {
        let mut store = Store::new(&schema(), small(engine).partitions(PARTITIONS));
        let table = store.db().table("t").unwrap();
        let db = store.db();
        for id in 0..40 {
            for partition in 0..u64::from(PARTITIONS) {
                // The same key in each of them.
                let new = tuple(id, id * 10 + partition);
                db.partition(partition as usize).write(|tx| insert(tx, &table, &new)).unwrap();
            }
            let again = db.partition(1).write(|tx| insert(tx, &table, &tuple(id, 1)));
            assert!(matches!(again, Err(Error::DuplicateKey { .. })));
        }
        // Open at the same time; one aborts, the other commits.
        let (mut one, mut two) =
            (db.partition(0).begin().unwrap(), db.partition(2).begin().unwrap());
        update(&mut one, &table, &tuple(7, 1)).unwrap();
        update(&mut two, &table, &tuple(7, 2)).unwrap();
        one.abort().unwrap();
        assert!(two.commit().unwrap().is_durable());
        db.checkpoint().unwrap();
        while db.background(4096).unwrap() > 0 {}
        store.thrice(|db| {
            let table = db.table("t").unwrap();
            for partition in 0..PARTITIONS as usize {
                let mut expected = expected(partition as u64, 40);
                if partition == 2 {
                    expected[7] = tuple(7, 2);
                }
                assert_eq!(tuples_of(db, partition, &table), expected);
            }
            assert_eq!(db.check().unwrap().tuples, 120);
            assert!(db.footprint().unwrap().total() > 0);
        });
    });
}

#[test]
fn tickets_and_syncs_speak_of_their_partition() {
    each(|engine| {
        let options = small(engine).partitions(PARTITIONS).commit(Commit::grouped(100));
        let mut store = Store::new(&schema(), options);
        let table = store.db().table("t").unwrap();
        let put = |db: &Database, partition: usize, id: u64| {
            let mut tx = db.partition(partition).begin().unwrap();
            insert(&mut tx, &table, &tuple(id, id * 10 + partition as u64)).unwrap();
            tx.commit().unwrap()
        };
        let tickets: Vec<_> = (0..10)
            .flat_map(|id| (0..3).map(move |partition| (partition, id)))
            .map(|(partition, id)| (partition, id, put(store.db(), partition, id)))
            .collect();
        let (_, _, first) =
            tickets.iter().find(|(partition, id, _)| (*partition, *id) == (1, 6)).unwrap();
        store.db().wait(*first).unwrap();
        store.crash();
        let table = store.db().table("t").unwrap();
        let found = tuples_of(store.db(), 1, &table);
        assert!(found.len() >= 7, "{}", found.len());
        for partition in 0..3 {
            let found = tuples_of(store.db(), partition, &table);
            assert_eq!(found, expected(partition as u64, found.len() as u64));
        }
        let last = tickets.last().unwrap().2;
        let alone = Store::new(&schema(), small(engine));
        assert!(matches!(alone.db().wait(last), Err(Error::NoPartition { number: 2, .. })));
    });
}

#[test]
fn a_call_that_names_no_partition_or_a_wrong_one_says_so() {
    each_known(|engine| {
        let mut store = Store::new(&schema(), small(engine).partitions(PARTITIONS));
        let db = store.db();
        let needed = |error: Error| {
            assert!(matches!(error, Error::PartitionNeeded { partitions: 3 }), "{error}");
            assert!(error.to_string().contains("Database::partition"));
        };
        needed(db.write(|_| Ok(())).unwrap_err());
        needed(db.read(|_| Ok(())).unwrap_err());
        needed(db.begin().unwrap_err());
        needed(db.snapshot().unwrap_err());
        for number in [3, 4, usize::MAX] {
            let error = db.try_partition(number).unwrap_err();
            assert!(matches!(error, Error::NoPartition { partitions: 3, .. }), "{error}");
        }
        assert!(db.try_partition(2).is_ok());
        store.db.take().unwrap().close().unwrap();
        for wanted in [1, 2, 4] {
            let error = Database::open(&store.path, &small(engine).partitions(wanted)).unwrap_err();
            assert!(matches!(error, Error::WrongPartitions { found: 3, .. }), "{error}");
        }
        for none in [0, 257] {
            let path = store.path.with_extension("none");
            let options = small(engine).partitions(none);
            assert!(matches!(Database::create(&path, &schema(), &options), Err(Error::Options(_))));
            assert!(!path.exists());
        }
        store.db = Some(Database::open(&store.path, &small(engine)).unwrap());
    });
}

/// The most partitions that a database can have.
pub(crate) const MOST_PARTITIONS: u32 = 256;

/// With the limits that a database has by default; of one engine as many as there can be.
#[test]
fn there_can_be_many_partitions() {
    few().for_each(|engine| there_can_be_as_many_partitions(engine, 40));
    there_can_be_as_many_partitions(EngineKind::NvmInp, MOST_PARTITIONS);
}

pub(crate) fn there_can_be_as_many_partitions(engine: EngineKind, most: u32) {
    let options = small_logs().engine(engine).domain(Domain::Process).chunk_bytes(8 << 10);
    let options = options.tune("slots", 4);
    let mut store = Store::new(&schema(), options.partitions(most));
    let table = store.db().table("t").unwrap();
    for partition in 0..u64::from(most) {
        let write = |id| {
            let new = tuple(id, id * 10 + partition);
            let partition = store.db().partition(partition as usize);
            partition.write(|tx| insert(tx, &table, &new)).unwrap();
        };
        (0..2).for_each(write);
    }
    store.thrice(|db| {
        let table = db.table("t").unwrap();
        assert_eq!(db.partition_count(), most as usize);
        for partition in 0..most as usize {
            assert_eq!(tuples_of(db, partition, &table), expected(partition as u64, 2));
        }
        assert_eq!(db.check().unwrap().tuples, u64::from(most) * 2);
    });
}

/// A worker to each partition, some of which have it for themselves; a table that all of them
/// read, of which each has a copy (P1 3: replicated, read-only after load).
#[test]
fn workers_run_beside_each_other() {
    each(|engine| {
        let mut store = Store::new(&schema(), small(engine).partitions(PARTITIONS));
        let table = store.db().table("t").unwrap();
        let db = store.db();
        let replicated: Vec<Tuple> = (1000..1020).map(|id| tuple(id, id)).collect();
        std::thread::scope(|scope| {
            for partition in 0..PARTITIONS as usize {
                let (table, replicated) = (&table, &replicated);
                scope.spawn(move || {
                    let mut own = db.partition(partition).exclusive().unwrap();
                    own.write(|tx| {
                        replicated.iter().try_for_each(|tuple| insert(tx, table, tuple))
                    })
                    .unwrap();
                    for id in 0..60u64 {
                        own.write(|tx| insert(tx, table, &tuple(id, id * 10 + partition as u64)))
                            .unwrap();
                        let mut tx = own.begin();
                        tx.delete(table, &[Value::U64(id)]).unwrap();
                        tx.abort().unwrap();
                        let (mut row, key) = (perdura::Row::new(), [Value::U64(1000 + id % 20)]);
                        assert!(own.read(|tx| tx.get_into(table, &key, &mut row)).unwrap());
                    }
                    own.sync().unwrap();
                });
            }
        });
        store.thrice(|db| {
            let table = db.table("t").unwrap();
            for partition in 0..PARTITIONS as usize {
                let expected = [expected(partition as u64, 60), replicated.clone()].concat();
                assert_eq!(tuples_of(db, partition, &table), expected);
            }
        });
    });
}
