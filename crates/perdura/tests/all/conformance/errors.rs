//! Every error that an operation can have: it says what to do, it has changed nothing, and the
//! transaction goes on, commits or aborts as if it had not been tried.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use perdura::{Database, Error, Row, Scan, Table, Tx, Value};

use super::operations::{insert, schema, tuple, update};
use super::{Own, Store, Tuple, each, holds, small, values};

type Attempt = fn(&mut Tx<'_>, &Table) -> Result<(), Error>;

fn changed(tx: &mut Tx<'_>, table: &Table, column: u16, value: Value<'_>) -> Result<(), Error> {
    tx.update(table, &[Value::U64(1)], &[(column, value)])
}

/// An insert of tuple 9 with another value in a column.
fn inserted(tx: &mut Tx<'_>, table: &Table, column: usize, value: Value<'_>) -> Result<(), Error> {
    let tuple = tuple(9, 9);
    let mut values = values(&tuple);
    values[column] = value;
    tx.insert(table, &values)
}

fn row() -> Row {
    Row::new()
}

/// Attempts in the middle of a transaction that has inserted 3, updated 1 and deleted 2, and words
/// of the error.
const ATTEMPTS: [(&str, Attempt); 34] = [
    ("primary key id = 0 already", |tx, table| insert(tx, table, &tuple(0, 8))),
    ("primary key id = 1 already", |tx, table| insert(tx, table, &tuple(1, 8))),
    ("primary key id = 3 already", |tx, table| insert(tx, table, &tuple(3, 8))),
    ("no tuple with primary key id = ", |tx, table| update(tx, table, &tuple(2, 8))),
    ("no tuple with primary key id = ", |tx, table| update(tx, table, &tuple(7, 8))),
    ("no tuple with primary key id = ", |tx, table| {
        tx.update(table, &[Value::U64(7)], &[(0, Value::Null); 0])
    }),
    ("no tuple with primary key id = ", |tx, table| tx.delete(table, &[Value::U64(2)])),
    ("no tuple with primary key id = ", |tx, table| tx.delete(table, &[Value::U64(7)])),
    ("holds u64 from 0 to", |tx, table| inserted(tx, table, 0, Value::I64(-9))),
    ("holds text of at most 30 bytes, not u64", |tx, table| inserted(tx, table, 1, Value::U64(9))),
    ("not text", |tx, table| inserted(tx, table, 4, Value::Text("text"))),
    ("not bytes", |tx, table| changed(tx, table, 1, Value::Bytes(b"bytes"))),
    ("holds i64 from", |tx, table| changed(tx, table, 2, Value::U64(u64::MAX))),
    ("not i64", |tx, table| changed(tx, table, 5, Value::I64(1))),
    ("at most 30 bytes, not 31", |tx, table| inserted(tx, table, 1, Value::Text(&LONG[..31]))),
    ("at most 5 bytes, not 6", |tx, table| inserted(tx, table, 3, Value::Bytes(&[1; 6]))),
    ("at most 400 bytes, not 401", |tx, table| changed(tx, table, 4, Value::Bytes(&[1; 401]))),
    ("at most 30 bytes, not 40", |tx, table| changed(tx, table, 1, Value::Text(LONG))),
    ("takes 6 values, not 5", |tx, table| tx.insert(table, &values(&tuple(9, 9))[..5])),
    ("takes 6 values, not 7", |tx, table| {
        let tuple = tuple(9, 9);
        let mut values = values(&tuple);
        values.push(Value::U64(1));
        tx.insert(table, &values)
    }),
    ("takes 1 values, not 0", |tx, table| tx.update(table, &[], &[(2, Value::I64(1))])),
    ("takes 1 values, not 2", |tx, table| tx.delete(table, &[Value::U64(1), Value::U64(1)])),
    ("takes 1 values, not 0", |tx, table| tx.get_into(table, &[], &mut row()).map(drop)),
    ("holds u64, not text", |tx, table| tx.delete(table, &[Value::Text("1")])),
    ("holds u64, not f64", |tx, table| {
        tx.get_bytes(table, &[Value::F64(1.0)], &[0], &mut [0; 8]).map(drop)
    }),
    ("no column 6", |tx, table| changed(tx, table, 6, Value::U64(1))),
    ("no column 65535", |tx, table| changed(tx, table, u16::MAX, Value::U64(1))),
    ("no column 6", |tx, table| {
        tx.get_columns_into(table, &[Value::U64(1)], &[0, 6], &mut row()).map(drop)
    }),
    ("no column 9", |tx, table| tx.get_bytes(table, &[Value::U64(1)], &[9], &mut [0; 8]).map(drop)),
    ("delete the tuple and insert it anew", |tx, table| changed(tx, table, 0, Value::U64(5))),
    // Also to the value that it has, also together with a column that could be updated.
    ("delete the tuple and insert it anew", |tx, table| {
        tx.update(table, &[Value::U64(1)], &[(2, Value::I64(2)), (0, Value::U64(1))])
    }),
    // It would not be clear which value was meant.
    ("column `note` is named twice", |tx, table| {
        let values = [(2, Value::I64(2)), (4, Value::Bytes(b"1")), (4, Value::Bytes(b"2"))];
        tx.update(table, &[Value::U64(1)], &values)
    }),
    ("twice", |tx, table| {
        let values = [(5, Value::F64(2.0)), (2, Value::I64(1)), (5, Value::F64(2.0))];
        tx.update(table, &[Value::U64(1)], &values)
    }),
    ("no index `by_note`", |tx, table| {
        tx.scan(table, &Scan::all().by("by_note"), |_| ControlFlow::Continue(()))
    }),
];

const LONG: &str = "forty bytes of text, which are too many.";

fn shown(tx: &Tx<'_>, table: &Table) -> Vec<Tuple> {
    let mut rows = Vec::new();
    tx.scan(table, &Scan::all().by("by_name"), |row| {
        rows.push(row.values().map(Own::from).collect());
        ControlFlow::Continue(())
    })
    .unwrap();
    super::sorted(rows, &[0])
}

fn begun<'a>(db: &'a Database, table: &Table) -> Tx<'a> {
    let mut tx = db.begin().unwrap();
    insert(&mut tx, table, &tuple(3, 3)).unwrap();
    update(&mut tx, table, &tuple(1, 20)).unwrap();
    tx.delete(table, &[Value::U64(2)]).unwrap();
    tx
}

#[test]
fn an_operation_that_fails_changes_nothing_and_the_transaction_goes_on() {
    each(|engine| {
        let before: Vec<_> = (0..3).map(|id| tuple(id, id)).collect();
        let within = vec![tuple(0, 0), tuple(1, 20), tuple(3, 3)];
        let mut store = Store::new(&schema(), small(engine));
        let table = store.db().table("t").unwrap();
        let db = store.db();
        db.write(|tx| before.iter().try_for_each(|tuple| insert(tx, &table, tuple))).unwrap();
        // Each alone, then aborted.
        for (words, attempt) in ATTEMPTS {
            let mut tx = begun(db, &table);
            let error = attempt(&mut tx, &table).expect_err(words).to_string();
            assert!(error.contains(words), "`{words}`, not `{error}`");
            assert_eq!(shown(&tx, &table), within, "{words}");
            assert_eq!(tx.statements_done(), 3, "{words}");
            tx.abort().unwrap();
            holds(db, &[(&table, before.clone())]);
        }
        // As the first statement of a transaction.
        for (words, attempt) in ATTEMPTS {
            let mut tx = db.begin().unwrap();
            if attempt(&mut tx, &table).is_err() {
                assert_eq!(shown(&tx, &table), before, "{words}");
                let _ticket = tx.commit().unwrap();
                holds(db, &[(&table, before.clone())]);
            }
        }
        // All of them in one transaction that commits.
        let mut tx = begun(db, &table);
        for (words, attempt) in ATTEMPTS {
            assert!(attempt(&mut tx, &table).is_err(), "{words}");
        }
        insert(&mut tx, &table, &tuple(9, 9)).unwrap();
        assert!(tx.commit().unwrap().is_durable());
        let after = [within, vec![tuple(9, 9)]].concat();
        store.thrice(|db| {
            holds(db, &[(&db.table("t").unwrap(), after.clone())]);
        });
    });
}

#[test]
fn errors_are_told_apart() {
    each(|engine| {
        let store = Store::new(&schema(), small(engine));
        let table = store.db().table("t").unwrap();
        let mut tx = begun_empty(store.db(), &table);
        for (words, attempt) in ATTEMPTS {
            let error = attempt(&mut tx, &table).unwrap_err();
            let right = match words {
                words if words.starts_with("primary key id") => {
                    matches!(error, Error::DuplicateKey { .. })
                }
                "no tuple with primary key id = " => matches!(error, Error::MissingKey { .. }),
                "no index `by_note`" => matches!(error, Error::NoIndex { .. }),
                _ => matches!(error, Error::Invalid(_)),
            };
            assert!(right, "{words}: {error:?}");
        }
    });
}

fn begun_empty<'a>(db: &'a Database, table: &Table) -> Tx<'a> {
    db.write(|tx| (0..3).try_for_each(|id| insert(tx, table, &tuple(id, id)))).unwrap();
    begun(db, table)
}

/// One column twice in one update or statement, wherever the tuple is: nothing is changed.
#[test]
fn an_update_that_names_a_column_twice_is_refused() {
    each(|engine| {
        let mut store = Store::new(&schema(), small(engine));
        let table = store.db().table("t").unwrap();
        store.db().write(|tx| insert(tx, &table, &tuple(1, 1))).unwrap();
        let key = [Value::U64(1)];
        let changes = [
            (1, Value::Text("the first one")),
            (5, Value::F64(1.0)),
            (1, Value::Text("the second one")),
        ];
        for _ in 0..2 {
            let db = store.db();
            let table = db.table("t").unwrap();
            let update = db.write(|tx| tx.update(&table, &key, &changes));
            let last = db.begin().unwrap().update_and_commit(&table, &key, &changes).map(drop);
            for refused in [update, db.update(&table, &key, &changes), last] {
                let error = refused.unwrap_err().to_string();
                let said = "table `t`: column `name` is named twice";
                assert!(error.contains(said), "{engine}: {error}");
            }
            store.thrice(|db| {
                holds(db, &[(&db.table("t").unwrap(), vec![tuple(1, 1)])]);
            });
            // The same once more, with the tuple in a run, too.
            store.db().checkpoint().unwrap();
        }
    });
}

#[test]
fn a_table_of_another_database_is_refused() {
    each(|engine| {
        let (one, two) =
            (Store::new(&schema(), small(engine)), Store::new(&schema(), small(engine)));
        let (own, foreign) = (one.db().table("t").unwrap(), two.db().table("t").unwrap());
        one.db().write(|tx| insert(tx, &own, &tuple(1, 1))).unwrap();
        let attempts: [Attempt; 7] = [
            |tx, table| insert(tx, table, &tuple(2, 2)),
            |tx, table| update(tx, table, &tuple(1, 2)),
            |tx, table| tx.delete(table, &[Value::U64(1)]),
            |tx, table| tx.get_into(table, &[Value::U64(1)], &mut row()).map(drop),
            |tx, table| tx.get_columns_into(table, &[Value::U64(1)], &[0], &mut row()).map(drop),
            |tx, table| tx.get_bytes(table, &[Value::U64(1)], &[0], &mut [0; 8]).map(drop),
            |tx, table| tx.scan(table, &Scan::all(), |_| ControlFlow::Continue(())),
        ];
        for attempt in attempts {
            let error = one.db().write(|tx| attempt(tx, &foreign)).unwrap_err();
            assert!(matches!(error, Error::ForeignTable { .. }), "{error}");
            assert!(error.to_string().contains("Database::table"));
        }
        holds(one.db(), &[(&own, vec![tuple(1, 1)])]);
        let error = one.db().table("none").unwrap_err();
        assert!(matches!(error, Error::NoTable { .. }), "{error}");
        assert!(error.to_string().contains("`t`"), "it says which there are");
    });
}

#[test]
fn a_panic_in_a_transaction_undoes_it_and_the_database_goes_on() {
    each(|engine| {
        let mut store = Store::new(&schema(), small(engine));
        let table = store.db().table("t").unwrap();
        let mut expected: Vec<_> = (0..20).map(|id| tuple(id, id)).collect();
        let db = store.db();
        db.write(|tx| expected.iter().try_for_each(|tuple| insert(tx, &table, tuple))).unwrap();
        for statements in 0..4 {
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                db.write(|tx| -> Result<(), Error> {
                    if statements > 0 {
                        insert(tx, &table, &tuple(100, 7))?;
                    }
                    if statements > 1 {
                        update(tx, &table, &tuple(3, 9))?;
                    }
                    if statements > 2 {
                        tx.delete(&table, &[Value::U64(5)])?;
                    }
                    panic!("the application's own")
                })
            }));
            assert!(panicked.is_err());
            holds(db, &[(&table, expected.clone())]);
        }
        let reading = catch_unwind(AssertUnwindSafe(|| {
            db.read(|_| -> Result<(), Error> { panic!("while reading") })
        }));
        assert!(reading.is_err());
        let scanning = catch_unwind(AssertUnwindSafe(|| {
            db.read(|tx| tx.scan(&table, &Scan::all(), |_| panic!("while scanning")))
        }));
        assert!(scanning.is_err());
        db.write(|tx| tx.delete(&table, &[Value::U64(5)])).unwrap();
        expected.remove(5);
        store.thrice(|db| {
            holds(db, &[(&db.table("t").unwrap(), expected.clone())]);
        });
    });
}
