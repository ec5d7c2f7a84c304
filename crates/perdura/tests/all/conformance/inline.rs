//! Tables that ask for inlined columns: what they hold is what it is without, whatever the engine
//! makes of it.

use std::collections::BTreeMap;

use perdura::{ColumnType, Database, Error, Scan, Schema, TableSchema, Value};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::{Own, Store, Tuple, each, holds, scan, small, values};

const TABLE: &str = "wide";
/// Name and longest value of the columns after the key. The first is indexed, the second stands in
/// its word, the third is too long; with the one before the last the tuple is.
const COLUMNS: [(&str, u32); 9] = [
    ("indexed", 20),
    ("short", 7),
    ("long", 1025),
    ("hundred", 100),
    ("kilobyte", 1024),
    ("more", 1000),
    ("and more", 1000),
    ("too much", 1000),
    ("last", 50),
];

fn schema() -> Schema {
    let table = TableSchema::new(TABLE).column("id", ColumnType::U64).key(&["id"]);
    let add = |table: TableSchema, (name, max)| match name {
        "indexed" | "last" => table.column(name, ColumnType::Text { max }),
        _ => table.column(name, ColumnType::Bytes { max }),
    };
    let table = COLUMNS.into_iter().fold(table, add).index("by_indexed", &["indexed"]);
    Schema::new().table(table.inline_columns())
}

/// A value for column `column`: often as long as there may be, or empty.
fn value(random: &mut SmallRng, column: usize) -> Own {
    let (name, max) = COLUMNS[column];
    let len = match random.random_range(0..4) {
        0 => 0,
        1 => max,
        _ => random.random_range(0..=max),
    };
    match name {
        "indexed" | "last" => Own::Text((0..len).map(|_| random.random_range('a'..='f')).collect()),
        _ => Own::Bytes((0..len).map(|_| random.random()).collect()),
    }
}

type Model = BTreeMap<u64, Tuple>;

fn compare(db: &Database, model: &Model) {
    let table = db.table(TABLE).unwrap();
    holds(db, &[(&table, model.values().cloned().collect())]);
}

/// Some columns, each once, in any order.
fn changes(random: &mut SmallRng, most: usize) -> Vec<(u16, Own)> {
    let mut changes: Vec<(u16, Own)> = Vec::new();
    for _ in 0..random.random_range(1..=most) {
        let column = random.random_range(0..COLUMNS.len());
        let number = column as u16 + 1;
        changes.retain(|(other, _)| *other != number);
        changes.push((number, value(random, column)));
    }
    changes
}

fn borrowed(changes: &[(u16, Own)]) -> Vec<(u16, Value<'_>)> {
    changes.iter().map(|(column, value)| (*column, value.value())).collect()
}

fn apply(tuple: &mut Tuple, changes: Vec<(u16, Own)>) {
    for (column, value) in changes {
        tuple[usize::from(column)] = value;
    }
}

#[test]
fn random_transactions_and_statements_leave_what_the_model_says() {
    each(|engine| {
        let mut store = Store::new(&schema(), small(engine).memtable_bytes(64 << 10));
        let (mut random, mut model) = (SmallRng::seed_from_u64(9), Model::new());
        for round in 0..500 {
            let db = store.db();
            let table = db.table(TABLE).unwrap();
            let key = random.random_range(0..12);
            if random.random_bool(0.4)
                && let Some(tuple) = model.get_mut(&key)
            {
                let changes = changes(&mut random, 3);
                db.update(&table, &[Value::U64(key)], &borrowed(&changes)).unwrap();
                apply(tuple, changes);
            } else {
                let mut after = model.clone();
                let mut tx = db.begin().unwrap();
                for _ in 0..random.random_range(1..5) {
                    let key = random.random_range(0..12);
                    match after.get_mut(&key) {
                        None => {
                            let rest = (0..COLUMNS.len()).map(|column| value(&mut random, column));
                            let tuple: Tuple = std::iter::once(Own::U64(key)).chain(rest).collect();
                            tx.insert(&table, &values(&tuple)).unwrap();
                            after.insert(key, tuple);
                        }
                        Some(_) if random.random_bool(0.2) => {
                            tx.delete(&table, &[Value::U64(key)]).unwrap();
                            after.remove(&key);
                        }
                        Some(tuple) => {
                            let changes = changes(&mut random, 6);
                            tx.update(&table, &[Value::U64(key)], &borrowed(&changes)).unwrap();
                            apply(tuple, changes);
                        }
                    }
                }
                if random.random_bool(0.25) {
                    tx.abort().unwrap();
                } else {
                    let _ticket = tx.commit().unwrap();
                    model = after;
                }
            }
            match round % 29 {
                7 => store.reopen(),
                14 | 28 => store.crash(),
                _ => continue,
            }
            compare(store.db(), &model);
        }
        store.thrice(|db| compare(db, &model));
    });
}

/// Columns in any choice and order, also so few of them that not all of the tuple is asked for.
#[test]
fn any_columns_can_be_read() {
    each(|engine| {
        let store = Store::new(&schema(), small(engine).memtable_bytes(64 << 10));
        let table = store.db().table(TABLE).unwrap();
        let mut random = SmallRng::seed_from_u64(3);
        let rest = (0..COLUMNS.len()).map(|column| value(&mut random, column));
        let tuple: Tuple = std::iter::once(Own::U64(1)).chain(rest).collect();
        store.db().write(|tx| tx.insert(&table, &values(&tuple))).unwrap();
        let choices: [&[u16]; 6] =
            [&[], &[9], &[9, 4, 4], &[3, 8], &[0, 5, 1], &[9, 8, 7, 6, 5, 4, 3, 2, 1, 0]];
        for choice in choices {
            let expected: Vec<Own> =
                choice.iter().map(|column| tuple[usize::from(*column)].clone()).collect();
            let bytes: Vec<u8> = expected.iter().flat_map(Own::raw).collect();
            let what = Scan::all().columns(choice);
            assert_eq!(scan(store.db(), &table, &what), [expected], "columns {choice:?}");
            let mut out = vec![0; 8 << 10];
            let key = [Value::U64(1)];
            let found = store.db().read(|tx| tx.get_bytes(&table, &key, choice, &mut out)).unwrap();
            assert_eq!(found, Some(bytes.len()), "columns {choice:?}");
            assert_eq!(out[..bytes.len()], bytes, "columns {choice:?}");
        }
    });
}

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    each(|engine| {
        let mut store = Store::new(&schema(), small(engine).memtable_bytes(64 << 10));
        let mut random = SmallRng::seed_from_u64(4);
        let rest = (0..COLUMNS.len()).map(|column| value(&mut random, column));
        let tuple: Tuple = std::iter::once(Own::U64(1)).chain(rest).collect();
        let table = store.db().table(TABLE).unwrap();
        store.db().write(|tx| tx.insert(&table, &values(&tuple))).unwrap();
        let long = vec![0; 1026];
        for (column, (name, max)) in COLUMNS.into_iter().enumerate() {
            let long = &long[..=max as usize];
            let value = match name {
                "indexed" | "last" => Value::Text(std::str::from_utf8(long).unwrap()),
                _ => Value::Bytes(long),
            };
            // After one that fits.
            let changes = [(4, Value::Bytes(b"fits")), (column as u16 + 1, value)];
            let failed = store.db().write(|tx| tx.update(&table, &[Value::U64(1)], &changes));
            assert!(matches!(failed, Err(Error::Invalid(_))), "{name}: {failed:?}");
            let failed = store.db().update(&table, &[Value::U64(1)], &changes);
            assert!(matches!(failed, Err(Error::Invalid(_))), "{name}: {failed:?}");
        }
        store.thrice(|db| compare(db, &Model::from([(1, tuple.clone())])));
    });
}
