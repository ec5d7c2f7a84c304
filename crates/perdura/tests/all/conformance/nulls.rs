//! NULL in every engine: what is NULL stays so until it is changed, alone and with others, in
//! indexes and out of them, through aborts, kills, merges and checkpoints; and comes back as NULL
//! by every way of reading.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use perdura::{ColumnType, Error, Row, Scan, Schema, Snapshot, Table, TableSchema, Value};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::{Own, Store, Tuple, each, holds, scan, small, values};

/// Columns of all kinds that may be NULL, some in indexes; and so many more that they need two null
/// words.
fn schema(inline: bool) -> Schema {
    let mut table = TableSchema::new("t")
        .column("id", ColumnType::U64)
        .column("number", ColumnType::I64)
        .nullable()
        .column("short", ColumnType::Text { max: 5 })
        .nullable()
        .column("long", ColumnType::Text { max: 300 })
        .nullable()
        .column("always", ColumnType::I32)
        .column("bytes", ColumnType::Bytes { max: 90 })
        .nullable()
        .column("float", ColumnType::F64)
        .nullable()
        .column("truth", ColumnType::Bool)
        .nullable()
        .column("at", ColumnType::Timestamp)
        .nullable()
        .column("uuid", ColumnType::Uuid)
        .nullable()
        .key(&["id"])
        .index("by_number", &["number"])
        .index("by_short", &["short", "always"])
        .index("by_uuid", &["uuid", "last"]);
    for number in 0..60 {
        table = table.column(format!("more {number}"), ColumnType::U16).nullable();
    }
    table = table.column("last", ColumnType::U32).nullable();
    Schema::new().table(if inline { table.inline_columns() } else { table })
}

fn random_value(random: &mut SmallRng, column: &perdura::Column) -> Own {
    if column.nullable && random.random_bool(0.4) {
        return Own::Null;
    }
    match column.kind {
        // Zero and empty are not NULL.
        ColumnType::I64 | ColumnType::Timestamp | ColumnType::I32 => {
            Own::I64(random.random_range(-2..3))
        }
        ColumnType::Text { max } => {
            let most = [0, 3, max as usize][random.random_range(0..3)];
            Own::Text("é".repeat(random.random_range(0..=most / 2)))
        }
        ColumnType::Bytes { max } => Own::Bytes(vec![7; random.random_range(0..=max as usize)]),
        ColumnType::F64 => Own::F64([0.0, -0.0, 1.5][random.random_range(0..3)]),
        ColumnType::Bool => Own::Bool(random.random()),
        ColumnType::Uuid => Own::Bytes(vec![random.random_range(0..3); 16]),
        _ => Own::U64(random.random_range(0..3)),
    }
}

type Model = BTreeMap<u64, Tuple>;

fn tuples(model: &Model) -> Vec<Tuple> {
    model.values().cloned().collect()
}

/// Some changes: of one column, of several.
fn random_changes(random: &mut SmallRng, table: &Table) -> Vec<(u16, Own)> {
    let columns = table.schema().columns();
    let count = [1, 1, 1, 2, 3, 9][random.random_range(0..6)];
    let mut changes: Vec<(u16, Own)> = (0..count)
        .map(|_| {
            let most = if random.random_bool(0.7) { 10 } else { columns.len() };
            let at = random.random_range(1..most);
            (at as u16, random_value(random, &columns[at]))
        })
        .collect();
    // A column can be named once.
    changes.sort_by_key(|(at, _)| *at);
    changes.dedup_by_key(|(at, _)| *at);
    changes
}

fn run(seed: u64, inline: bool) {
    println!("seed {seed}, inline {inline}");
    let digests = std::cell::RefCell::new(Vec::new());
    each(|engine| {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut store = Store::new(&schema(inline), small(engine).page_bytes(2048));
        let mut model = Model::new();
        for round in 0..6 {
            let table = store.db().table("t").unwrap();
            for number in 0..50 {
                let mut after = model.clone();
                let mut tx = store.db().begin().unwrap();
                for _ in 0..random.random_range(1..6) {
                    let id = random.random_range(0..40);
                    let key = [Value::U64(id)];
                    match (after.contains_key(&id), random.random_range(0..5)) {
                        (false, _) => {
                            let columns = table.schema().columns().iter();
                            let mut tuple: Tuple =
                                columns.map(|column| random_value(&mut random, column)).collect();
                            tuple[0] = Own::U64(id);
                            tx.insert(&table, &values(&tuple)).unwrap();
                            after.insert(id, tuple);
                        }
                        (true, 0) => {
                            tx.delete(&table, &key).unwrap();
                            after.remove(&id);
                        }
                        (true, _) => {
                            let changes = random_changes(&mut random, &table);
                            let given: Vec<_> =
                                changes.iter().map(|(at, own)| (*at, own.value())).collect();
                            tx.update(&table, &key, &given).unwrap();
                            let tuple = after.get_mut(&id).unwrap();
                            for (at, own) in changes {
                                tuple[usize::from(at)] = own;
                            }
                        }
                    }
                }
                if number % 6 == 5 {
                    tx.abort().unwrap();
                } else {
                    let _ticket = tx.commit().unwrap();
                    model = after;
                }
                if number % 9 == 4 {
                    let _waiting = store.db().background(700).unwrap();
                }
            }
            // Statements of their own.
            for id in model.keys().copied().collect::<Vec<_>>() {
                let changes = random_changes(&mut random, &table);
                let given: Vec<_> = changes.iter().map(|(at, own)| (*at, own.value())).collect();
                store.db().update(&table, &[Value::U64(id)], &given).unwrap();
                for (at, own) in changes {
                    model.get_mut(&id).unwrap()[usize::from(at)] = own;
                }
            }
            holds(store.db(), &[(&table, tuples(&model))]);
            if round % 2 == 0 {
                store.crash();
            } else {
                store.reopen();
            }
            if round == 3 {
                store.db().checkpoint().unwrap();
            }
            let table = store.db().table("t").unwrap();
            holds(store.db(), &[(&table, tuples(&model))]);
        }
        let table = store.db().table("t").unwrap();
        digests.borrow_mut().push(holds(store.db(), &[(&table, tuples(&model))]));
    });
    let digests = digests.into_inner();
    assert!(digests.iter().all(|digest| *digest == digests[0]), "{digests:x?}");
}

#[test]
fn random_operations_on_columns_that_may_be_null() {
    run(1, false);
}

#[test]
fn random_operations_on_inlined_columns_that_may_be_null() {
    run(2, true);
}

fn two(id: u64, number: Option<i64>, short: Option<&str>) -> Tuple {
    vec![
        Own::U64(id),
        number.map_or(Own::Null, Own::I64),
        short.map_or(Own::Null, |short| Own::Text(short.into())),
    ]
}

fn small_schema() -> Schema {
    Schema::new().table(
        TableSchema::new("t")
            .column("id", ColumnType::U64)
            .column("number", ColumnType::I64)
            .nullable()
            .column("short", ColumnType::Text { max: 7 })
            .nullable()
            .key(&["id"])
            .index("by_number", &["number"]),
    )
}

#[test]
fn null_is_neither_zero_nor_empty_and_comes_first() {
    each(|engine| {
        let mut store = Store::new(&small_schema(), small(engine));
        let table = store.db().table("t").unwrap();
        let all = [
            two(1, Some(0), Some("")),
            two(2, None, None),
            two(3, Some(i64::MIN), None),
            two(4, None, Some("seven b")),
            two(5, Some(i64::MAX), Some("x")),
        ];
        for tuple in &all {
            store.db().write(|tx| tx.insert(&table, &values(tuple))).unwrap();
        }
        store.thrice(|db| {
            let table = db.table("t").unwrap();
            let by_number =
                |what: Scan<'_>| -> Vec<Tuple> { scan(db, &table, &what.by("by_number")) };
            let pick = |ids: &[usize]| ids.iter().map(|id| all[id - 1].clone()).collect::<Vec<_>>();
            assert_eq!(by_number(Scan::all()), pick(&[2, 4, 3, 1, 5]));
            let null = [Value::Null];
            assert_eq!(by_number(Scan::prefix(&null[..])), pick(&[2, 4]));
            assert_eq!(by_number(Scan::prefix(&[Value::Null, Value::U64(4)][..])), pick(&[4]));
            let behind = (std::ops::Bound::Excluded(&null[..]), std::ops::Bound::Unbounded);
            assert_eq!(by_number(Scan::range(behind)), pick(&[3, 1, 5]));
            assert_eq!(by_number(Scan::prefix(&[Value::I64(0)][..])), pick(&[1]));
            let mut row = Row::new();
            assert!(db.read(|tx| tx.get_into(&table, &[Value::U64(2)], &mut row)).unwrap());
            assert!(row.is_null(1) && row.is_null(2) && !row.is_null(0) && row.len() == 3);
            let columns = [2, 0, 2, 1];
            let key = [Value::U64(4)];
            assert!(db.read(|tx| tx.get_columns_into(&table, &key, &columns, &mut row)).unwrap());
            assert_eq!(row.text(0), row.text(2));
            assert!((row.u64(1), row.is_null(3), row.len()) == (4, true, 4));
            // As zero and as nothing, where there is no room to say more.
            let mut out = [7; 16];
            let bytes = db.read(|tx| tx.get_bytes(&table, &[Value::U64(2)], &[1, 2], &mut out));
            assert_eq!((bytes.unwrap(), &out[..9]), (Some(8), &[0, 0, 0, 0, 0, 0, 0, 0, 7][..]));
        });
    });
}

#[test]
fn snapshots_show_null() {
    each(|engine| {
        let store = Store::new(&small_schema(), small(engine));
        let table = store.db().table("t").unwrap();
        for tuple in [two(1, None, Some("a")), two(2, Some(5), None)] {
            store.db().write(|tx| tx.insert(&table, &values(&tuple))).unwrap();
        }
        let taken: Snapshot = match store.db().snapshot() {
            Ok(snapshot) => snapshot,
            Err(Error::NoSnapshots { .. }) => return,
            Err(other) => panic!("{other}"),
        };
        let changes = [(1, Value::I64(9)), (2, Value::Null)];
        store.db().update(&table, &[Value::U64(1)], &changes).unwrap();
        let mut row = Row::new();
        assert!(taken.get_into(&table, &[Value::U64(1)], &mut row).unwrap());
        assert!(row.is_null(1) && row.text(2) == "a");
        assert!(taken.get_columns_into(&table, &[Value::U64(2)], &[2, 1], &mut row).unwrap());
        assert!(row.is_null(0) && row.i64(1) == 5);
        let mut shown: Vec<Tuple> = Vec::new();
        let visit = |row: &Row| {
            shown.push(row.values().map(Own::from).collect());
            ControlFlow::Continue(())
        };
        taken.scan(&table, &Scan::all().by("by_number").columns(&[1, 0]), visit).unwrap();
        assert_eq!(shown, [vec![Own::Null, Own::U64(1)], vec![Own::I64(5), Own::U64(2)]]);
        assert_eq!(scan(store.db(), &table, &Scan::all())[0], two(1, Some(9), None));
    });
}

#[test]
fn null_is_refused_where_it_cannot_be_and_nothing_changes() {
    let schema = Schema::new()
        .table(
            TableSchema::new("mixed")
                .column("id", ColumnType::U64)
                .column("must", ColumnType::Text { max: 20 })
                .column("may", ColumnType::Uuid)
                .nullable()
                .key(&["id"]),
        )
        .table(
            TableSchema::new("plain")
                .column("id", ColumnType::U64)
                .column("must", ColumnType::I64)
                .key(&["id"])
                .index("by_must", &["must"]),
        );
    each(|engine| {
        let store = Store::new(&schema, small(engine));
        let db = store.db();
        let (mixed, plain) = (db.table("mixed").unwrap(), db.table("plain").unwrap());
        let first = [Value::U64(1), Value::Text("x"), Value::Null];
        db.write(|tx| {
            tx.insert(&mixed, &first)?;
            tx.insert(
                &plain,
                &first[..1].iter().copied().chain([Value::I64(7)]).collect::<Vec<_>>(),
            )
        })
        .unwrap();
        let key = [Value::U64(1)];
        let refused = |done: Result<(), Error>, why: &str| {
            let error = done.unwrap_err();
            assert!(matches!(error, Error::Invalid(_)), "{error}");
            assert!(error.to_string().contains(why), "{error}");
        };
        let must = "column `must` of table `mixed` cannot be NULL";
        let null = [Value::U64(2), Value::Null, Value::Null];
        refused(db.write(|tx| tx.insert(&mixed, &null)), must);
        refused(db.write(|tx| tx.update(&mixed, &key, &[(1, Value::Null)])), must);
        refused(db.update(&mixed, &key, &[(1, Value::Null)]).map(drop), must);
        let must = "column `must` of table `plain` cannot be NULL";
        refused(db.write(|tx| tx.insert(&plain, &null[..2])), must);
        refused(db.write(|tx| tx.update(&plain, &key, &[(1, Value::Null)])), must);
        refused(db.update(&plain, &key, &[(1, Value::Null)]).map(drop), must);
        let null_key = [Value::Null];
        refused(db.write(|tx| tx.delete(&mixed, &null_key)), "column `id` of table `mixed`");
        refused(db.read(|tx| tx.get_into(&plain, &null_key, &mut Row::new())).map(drop), "`plain`");
        let by_must = Scan::prefix(&null_key[..]).by("by_must");
        refused(super::try_scan(db, &plain, &by_must).map(drop), "`must` of table `plain`");
        // The bytes in the place of a UUID that is NULL cannot be inserted as one.
        let empty = [(2, Value::Bytes(&[]))];
        refused(db.write(|tx| tx.update(&mixed, &key, &empty)), "`may` holds a uuid of 16 bytes");
        // The null word is no column.
        refused(db.write(|tx| tx.update(&mixed, &key, &[(3, Value::U64(0))])), "no column 3");
        let columns = db.read(|tx| tx.get_columns_into(&mixed, &key, &[3], &mut Row::new()));
        refused(columns.map(drop), "no column 3");
        let missing = db.write(|tx| tx.update(&mixed, &[Value::U64(9)], &[(2, Value::Null)]));
        assert!(matches!(missing, Err(Error::MissingKey { .. })), "{missing:?}");
        let expected = vec![Own::U64(1), Own::Text("x".into()), Own::Null];
        let other = vec![Own::U64(1), Own::I64(7)];
        holds(db, &[(&mixed, vec![expected]), (&plain, vec![other])]);
    });
}
