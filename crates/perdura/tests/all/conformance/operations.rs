//! Insert, update, delete and the ways to read, within a transaction, after it, after a reopening
//! and after a kill; several operations on one tuple; aborts.

use std::ops::ControlFlow;

use perdura::{ColumnType, Database, Error, Row, Scan, Schema, Table, TableSchema, Tx, Value};

use super::{Own, Store, Tuple, each, holds, small, values};

pub(super) fn schema() -> Schema {
    Schema::new().table(
        TableSchema::new("t")
            .column("id", ColumnType::U64)
            .column("name", ColumnType::Text { max: 30 })
            .column("count", ColumnType::I64)
            .column("flag", ColumnType::Bytes { max: 5 })
            .column("note", ColumnType::Bytes { max: 400 })
            .column("score", ColumnType::F64)
            .key(&["id"])
            .index("by_name", &["name"])
            .index("by_count_flag", &["count", "flag"]),
    )
}

pub(super) fn tuple(id: u64, version: u64) -> Tuple {
    vec![
        Own::U64(id),
        Own::Text(format!("name {}", version % 7)),
        Own::I64((version % 5).cast_signed() - 2),
        Own::Bytes(vec![b'f'; (version % 6) as usize]),
        Own::Bytes(vec![version as u8; (version * 37 % 401) as usize]),
        Own::F64(version as f64 / 4.0),
    ]
}

pub(super) fn insert(tx: &mut Tx<'_>, table: &Table, tuple: &[Own]) -> Result<(), Error> {
    tx.insert(table, &values(tuple))
}

/// Updates all columns but the key to those of the tuple.
pub(super) fn update(tx: &mut Tx<'_>, table: &Table, tuple: &[Own]) -> Result<(), Error> {
    let changes: Vec<_> = (1..).zip(tuple[1..].iter().map(Own::value)).collect();
    tx.update(table, &[tuple[0].value()], &changes)
}

/// The same tuple in each way in which one can be read.
fn reads(db: &Database, table: &Table, expected: &[Own]) {
    let key = [expected[0].value()];
    let raw = |columns: &[u16]| -> Vec<u8> {
        columns.iter().flat_map(|at| expected[usize::from(*at)].raw()).collect()
    };
    db.read(|tx| {
        let mut row = Row::new();
        assert!(tx.get_into(table, &key, &mut row)?);
        assert_eq!(row.values().map(Own::from).collect::<Tuple>(), expected);
        // Any columns in any order, also twice, also none.
        for columns in [&[5, 1, 5, 0, 4][..], &[3], &[0], &[], &[0, 1, 2, 3, 4, 5]] {
            assert!(tx.get_columns_into(table, &key, columns, &mut row)?);
            let wanted: Tuple =
                columns.iter().map(|at| expected[usize::from(*at)].clone()).collect();
            assert_eq!(row.values().map(Own::from).collect::<Tuple>(), wanted);
            let wanted = raw(columns);
            let mut out = vec![0xaa; wanted.len() + 3];
            assert_eq!(tx.get_bytes(table, &key, columns, &mut out)?, Some(wanted.len()));
            assert_eq!(out[..wanted.len()], wanted);
            assert_eq!(out[wanted.len()..], [0xaa; 3], "nothing behind the tuple is touched");
            if !wanted.is_empty() {
                let mut short = vec![0xaa; wanted.len() - 1];
                assert_eq!(tx.get_bytes(table, &key, columns, &mut short)?, Some(wanted.len()));
                assert!(
                    short.iter().all(|byte| *byte == 0xaa),
                    "what is too short stays as it was"
                );
            }
        }
        Ok(())
    })
    .unwrap();
}

fn is_missing(db: &Database, table: &Table, id: u64) {
    let (mut row, mut out) = (Row::new(), [0; 8]);
    let key = [Value::U64(id)];
    db.read(|tx| {
        assert!(!tx.get_into(table, &key, &mut row)?);
        assert!(!tx.get_columns_into(table, &key, &[1], &mut row)?);
        assert_eq!(tx.get_bytes(table, &key, &[0], &mut out)?, None);
        Ok(())
    })
    .unwrap();
}

#[test]
fn each_operation_shows_in_its_transaction_and_after_it() {
    each(|engine| {
        let mut store = Store::new(&schema(), small(engine));
        let table = store.db().table("t").unwrap();
        store
            .db()
            .write(|tx| {
                let mut row = Row::new();
                for id in 0..20 {
                    insert(tx, &table, &tuple(id, id))?;
                    assert!(tx.get_into(&table, &[Value::U64(id)], &mut row)?);
                    assert_eq!(row.values().map(Own::from).collect::<Tuple>(), tuple(id, id));
                }
                update(tx, &table, &tuple(3, 77))?;
                assert!(tx.get_columns_into(&table, &[Value::U64(3)], &[2], &mut row)?);
                assert_eq!(Own::from(row.get(0)), tuple(3, 77)[2]);
                tx.delete(&table, &[Value::U64(4)])?;
                assert!(!tx.get_into(&table, &[Value::U64(4)], &mut row)?);
                assert_eq!(tx.get_bytes(&table, &[Value::U64(4)], &[0], &mut [0; 8])?, None);
                assert_eq!(tx.statements_done(), 22, "reads are no statements");
                Ok(())
            })
            .unwrap();
        store.thrice(|db| {
            let table = db.table("t").unwrap();
            let left = (0..20).filter(|id| *id != 4);
            let expected: Vec<_> =
                left.map(|id| tuple(id, if id == 3 { 77 } else { id })).collect();
            expected.iter().for_each(|tuple| reads(db, &table, tuple));
            is_missing(db, &table, 4);
            is_missing(db, &table, 20);
            holds(db, &[(&table, expected)]);
        });
    });
}

/// Each column alone, then all, then some again, with a reopening in between: engines that keep
/// parts of tuples put them together.
#[test]
fn columns_are_updated_one_by_one_and_together() {
    each(|engine| {
        let mut store = Store::new(&schema(), small(engine));
        let mut expected: Vec<Tuple> = (0..30).map(|id| tuple(id, id)).collect();
        let table = store.db().table("t").unwrap();
        store
            .db()
            .write(|tx| expected.iter().try_for_each(|tuple| insert(tx, &table, tuple)))
            .unwrap();
        for round in 0..24u64 {
            let (db, table) = (store.db(), store.db().table("t").unwrap());
            for (id, stored) in expected.iter_mut().enumerate() {
                let new = tuple(id as u64, round * 31 + id as u64);
                let mask = (round * 7 + id as u64) % 32;
                let columns: Vec<usize> =
                    (0..5).filter(|bit| mask & (1 << bit) != 0).map(|bit| bit + 1).collect();
                // In any order of the columns.
                let changes: Vec<_> = columns
                    .iter()
                    .rev()
                    .map(|column| (*column as u16, new[*column].value()))
                    .collect();
                db.write(|tx| tx.update(&table, &[Value::U64(id as u64)], &changes)).unwrap();
                for column in columns {
                    stored[column] = new[column].clone();
                }
            }
            if round % 6 == 5 {
                store.thrice(|db| {
                    holds(db, &[(&db.table("t").unwrap(), expected.clone())]);
                });
            }
        }
        let table = store.db().table("t").unwrap();
        expected.iter().for_each(|tuple| reads(store.db(), &table, tuple));
    });
}

/// A transaction on a few tuples that are there and on one that is not, and what is left of them.
type Plot = (&'static str, fn(&mut Tx<'_>, &Table) -> Result<(), Error>, fn() -> Vec<Tuple>);

fn with_name(mut tuple: Tuple, name: &str) -> Tuple {
    tuple[1] = Own::Text(name.into());
    tuple
}

fn name(tx: &mut Tx<'_>, table: &Table, id: u64, name: &str) -> Result<(), Error> {
    tx.update(table, &[Value::U64(id)], &[(1, Value::Text(name))])
}

fn delete(tx: &mut Tx<'_>, table: &Table, id: u64) -> Result<(), Error> {
    tx.delete(table, &[Value::U64(id)])
}

const PLOTS: [Plot; 11] = [
    (
        "no change at all",
        |tx, table| tx.update(table, &[Value::U64(1)], &[(0, Value::Null); 0]),
        || vec![tuple(1, 1), tuple(2, 2)],
    ),
    (
        "the same values",
        |tx, table| update(tx, table, &tuple(1, 1)),
        || vec![tuple(1, 1), tuple(2, 2)],
    ),
    (
        "an index entry that goes and comes back",
        |tx, table| {
            name(tx, table, 1, "elsewhere")?;
            name(tx, table, 1, "name 1")
        },
        || vec![tuple(1, 1), tuple(2, 2)],
    ),
    (
        "an index entry that goes, comes back and goes again",
        |tx, table| {
            name(tx, table, 1, "elsewhere")?;
            name(tx, table, 1, "name 1")?;
            name(tx, table, 1, "there")
        },
        || vec![with_name(tuple(1, 1), "there"), tuple(2, 2)],
    ),
    (
        "two tuples that change names",
        |tx, table| {
            name(tx, table, 1, "name 2")?;
            name(tx, table, 2, "name 1")
        },
        || vec![with_name(tuple(1, 1), "name 2"), with_name(tuple(2, 2), "name 1")],
    ),
    (
        "deleted and inserted as it was",
        |tx, table| {
            delete(tx, table, 1)?;
            insert(tx, table, &tuple(1, 1))
        },
        || vec![tuple(1, 1), tuple(2, 2)],
    ),
    (
        "deleted and inserted as another one, and changed",
        |tx, table| {
            delete(tx, table, 1)?;
            insert(tx, table, &tuple(1, 10))?;
            name(tx, table, 1, "again")
        },
        || vec![with_name(tuple(1, 10), "again"), tuple(2, 2)],
    ),
    (
        "inserted and deleted",
        |tx, table| {
            insert(tx, table, &tuple(3, 3))?;
            delete(tx, table, 3)
        },
        || vec![tuple(1, 1), tuple(2, 2)],
    ),
    (
        "inserted, updated, deleted and inserted",
        |tx, table| {
            insert(tx, table, &tuple(3, 3))?;
            update(tx, table, &tuple(3, 4))?;
            delete(tx, table, 3)?;
            insert(tx, table, &tuple(3, 5))
        },
        || vec![tuple(1, 1), tuple(2, 2), tuple(3, 5)],
    ),
    (
        "deleted, inserted and deleted",
        |tx, table| {
            update(tx, table, &tuple(2, 9))?;
            delete(tx, table, 2)?;
            insert(tx, table, &tuple(2, 8))?;
            delete(tx, table, 2)
        },
        || vec![tuple(1, 1)],
    ),
    (
        "updated many times",
        |tx, table| (0..60).try_for_each(|version| update(tx, table, &tuple(1, version))),
        || vec![tuple(1, 59), tuple(2, 2)],
    ),
];

/// The tuples lie in a MemTable, a dirty page or a cache, or where runs, pages and checkpoints
/// are.
#[test]
fn several_operations_on_one_tuple_in_one_transaction() {
    each(|engine| {
        for settled in [false, true] {
            for (what, plot, after) in PLOTS {
                let mut store = Store::new(&schema(), small(engine));
                let table = store.db().table("t").unwrap();
                store.db().write(|tx| insert(tx, &table, &tuple(1, 1))).unwrap();
                store.db().write(|tx| insert(tx, &table, &tuple(2, 2))).unwrap();
                if settled {
                    store.db().checkpoint().unwrap();
                    // Fills a MemTable, which is frozen.
                    for id in 100..140 {
                        store.db().write(|tx| insert(tx, &table, &tuple(id, 50))).unwrap();
                        store.db().write(|tx| delete(tx, &table, id)).unwrap();
                    }
                    store.reopen();
                }
                let table = store.db().table("t").unwrap();
                let before = vec![tuple(1, 1), tuple(2, 2)];
                let mut tx = store.db().begin().unwrap();
                plot(&mut tx, &table).unwrap();
                tx.abort().unwrap();
                println!("{what}, settled: {settled}");
                holds(store.db(), &[(&table, before.clone())]);
                // Dropped, it is aborted too.
                let mut tx = store.db().begin().unwrap();
                plot(&mut tx, &table).unwrap();
                drop(tx);
                holds(store.db(), &[(&table, before)]);
                store.db().write(|tx| plot(tx, &table)).unwrap();
                store.thrice(|db| {
                    holds(db, &[(&db.table("t").unwrap(), after())]);
                });
            }
        }
    });
}

#[test]
fn what_is_aborted_leaves_nothing() {
    each(|engine| {
        let mut store = Store::new(&schema(), small(engine));
        let table = store.db().table("t").unwrap();
        let expected: Vec<_> = (0..60).map(|id| tuple(id, id)).collect();
        store
            .db()
            .write(|tx| expected.iter().try_for_each(|tuple| insert(tx, &table, tuple)))
            .unwrap();
        for round in 0..12u64 {
            let mut tx = store.db().begin().unwrap();
            for id in 0..60 {
                match (id + round) % 3 {
                    0 => update(&mut tx, &table, &tuple(id, id + round + 1)).unwrap(),
                    1 => delete(&mut tx, &table, id).unwrap(),
                    _ => insert(&mut tx, &table, &tuple(id + 1000, id)).unwrap(),
                }
            }
            match round % 3 {
                0 => tx.abort().unwrap(),
                1 => drop(tx),
                _ => {
                    drop(tx);
                    // An error that the closure returns.
                    let error = store
                        .db()
                        .write(|tx| {
                            delete(tx, &table, 5)?;
                            insert(tx, &table, &tuple(2000, 1))?;
                            Err::<(), _>(Error::user("no"))
                        })
                        .unwrap_err();
                    assert!(matches!(error, Error::User(_)), "{error}");
                }
            }
            holds(store.db(), &[(&table, expected.clone())]);
        }
        // Space that aborts have freed or kept changes nothing: the same again in a new process.
        store.thrice(|db| {
            holds(db, &[(&db.table("t").unwrap(), expected.clone())]);
        });
    });
}

/// A transaction that only reads, or does nothing, commits and aborts at no cost to others.
#[test]
fn transactions_without_changes() {
    each(|engine| {
        let mut store = Store::new(&schema(), small(engine));
        let table = store.db().table("t").unwrap();
        store.db().begin().unwrap().abort().unwrap();
        assert!(store.db().begin().unwrap().commit().unwrap().is_durable());
        store.db().write(|tx| insert(tx, &table, &tuple(1, 1))).unwrap();
        let before = store.db().begin().unwrap().commit().unwrap();
        let tx = store.db().begin().unwrap();
        let mut seen = 0;
        tx.scan(&table, &Scan::all(), |_| {
            seen += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!((seen, tx.statements_done()), (1, 0));
        let after = tx.commit().unwrap();
        assert_eq!(before.number(), after.number(), "nothing was committed in between");
        store.thrice(|db| {
            holds(db, &[(&db.table("t").unwrap(), vec![tuple(1, 1)])]);
        });
    });
}
