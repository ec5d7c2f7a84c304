//! Schemas at their limits: hundreds of tables, the most columns that a table can have, no column
//! except the key; and schemas that make no sense.

use crate::support::small_logs;
use perdura::{ColumnType, Database, Schema, TableSchema, Value};

use super::{Own, Store, Tuple, each, holds, small, values};

#[test]
fn hundreds_of_tables() {
    const TABLES: u64 = 300;
    let mut schema = Schema::new();
    for number in 0..TABLES {
        let mut table = TableSchema::new(format!("table {number}"))
            .column("id", ColumnType::U64)
            .column("text", ColumnType::Text { max: 40 });
        if number % 3 == 0 {
            table = table.index("by_text", &["text"]);
        }
        schema = schema.table(table.key(&["id"]));
    }
    let tuple = |table: u64, id: u64| -> Tuple {
        vec![Own::U64(id), Own::Text(format!("{id} of table {table}"))]
    };
    each(|engine| {
        let options = small(engine).memtable_bytes(64 << 10).chunk_bytes(64 << 10);
        let mut store = Store::new(&schema, options);
        let db = store.db();
        let tables: Vec<_> =
            (0..TABLES).map(|number| db.table(&format!("table {number}")).unwrap()).collect();
        // One transaction over all of them, then one for each.
        db.write(|tx| {
            tables
                .iter()
                .zip(0..)
                .try_for_each(|(table, number)| tx.insert(table, &values(&tuple(number, 1))))
        })
        .unwrap();
        let mut tx = db.begin().unwrap();
        for (table, number) in tables.iter().zip(0..) {
            tx.insert(table, &values(&tuple(number, 2))).unwrap();
            tx.delete(table, &[Value::U64(1)]).unwrap();
        }
        tx.abort().unwrap();
        for (table, number) in tables.iter().zip(0..) {
            db.write(|tx| tx.insert(table, &values(&tuple(number, number)))).ok();
            if number % 2 == 0 {
                db.write(|tx| tx.delete(table, &[Value::U64(1)])).unwrap();
            }
        }
        store.thrice(|db| {
            let tables: Vec<_> =
                (0..TABLES).map(|number| db.table(&format!("table {number}")).unwrap()).collect();
            let expected: Vec<_> = tables
                .iter()
                .zip(0..)
                .map(|(table, number)| {
                    let first = (number % 2 == 1).then(|| tuple(number, 1));
                    let second = (number != 1).then(|| tuple(number, number));
                    (table, first.into_iter().chain(second).collect())
                })
                .collect();
            holds(db, &expected);
        });
    });
}

/// The most columns, all of which change at once, one by one, and not at all.
#[test]
fn a_table_with_very_many_columns() {
    const COLUMNS: u16 = 1024;
    let kind = |column: u16| match column % 5 {
        0 => ColumnType::U64,
        1 => ColumnType::Bytes { max: 7 },
        2 => ColumnType::Text { max: 40 },
        3 => ColumnType::F64,
        _ => ColumnType::I64,
    };
    let value = |column: u16, version: u64| {
        let seed = version * 1000 + u64::from(column);
        match column % 5 {
            0 => Own::U64(seed),
            1 => Own::Bytes(vec![seed as u8; (seed % 8) as usize]),
            2 => Own::Text("t".repeat((seed % 41) as usize)),
            3 => Own::F64(seed as f64),
            _ => Own::I64(-seed.cast_signed()),
        }
    };
    let mut table = TableSchema::new("t");
    for column in 0..COLUMNS {
        table = table.column(format!("c{column}"), kind(column));
    }
    let table = table.key(&["c0"]).index("last", &["c1022", "c1023"]);
    let schema = Schema::new().table(table);
    let tuple = |id: u64, version: u64| -> Tuple {
        let rest = (1..COLUMNS).map(|column| value(column, version));
        std::iter::once(Own::U64(id)).chain(rest).collect()
    };
    each(|engine| {
        let options = small(engine).chunk_bytes(256 << 10).memtable_bytes(64 << 10);
        let mut store = Store::new(&schema, options);
        let table = store.db().table("t").unwrap();
        let mut expected: Vec<Tuple> = (0..4).map(|id| tuple(id, id)).collect();
        for tuple in &expected {
            store.db().write(|tx| tx.insert(&table, &values(tuple))).unwrap();
        }
        for id in 0..3u64 {
            let new = tuple(id, id + 10);
            let changes: Vec<_> = (1..COLUMNS)
                .filter(|column| id == 0 || u64::from(*column) % 7 == id)
                .map(|column| (column, new[usize::from(column)].value()))
                .collect();
            let mut tx = store.db().begin().unwrap();
            tx.update(&table, &[Value::U64(id)], &changes).unwrap();
            tx.abort().unwrap();
            holds(store.db(), &[(&table, expected.clone())]);
            store.db().write(|tx| tx.update(&table, &[Value::U64(id)], &changes)).unwrap();
            for (column, _) in changes {
                expected[id as usize][usize::from(column)] = new[usize::from(column)].clone();
            }
        }
        store.db().write(|tx| tx.delete(&table, &[Value::U64(3)])).unwrap();
        expected.pop();
        store.thrice(|db| {
            holds(db, &[(&db.table("t").unwrap(), expected.clone())]);
        });
    });
}

/// A table whose columns are all in its key, and one with one column.
#[test]
fn tables_of_keys_alone() {
    let schema = Schema::new()
        .table(TableSchema::new("one").column("k", ColumnType::I64).key(&["k"]).index("i", &["k"]))
        .table(
            TableSchema::new("two")
                .column("a", ColumnType::Text { max: 3 })
                .column("b", ColumnType::U64)
                .key(&["b", "a"])
                .index("by_a", &["a"]),
        );
    each(|engine| {
        let mut store = Store::new(&schema, small(engine));
        let (one, two) = (store.db().table("one").unwrap(), store.db().table("two").unwrap());
        let ones: Vec<Tuple> = (0..50).map(|number| vec![Own::I64(number * 7 % 50 - 25)]).collect();
        let twos: Vec<Tuple> = (0..50)
            .map(|number| vec![Own::Text(format!("{}", number % 4)), Own::U64(number / 4)])
            .collect();
        store
            .db()
            .write(|tx| {
                ones.iter().try_for_each(|tuple| tx.insert(&one, &values(tuple)))?;
                twos.iter().try_for_each(|tuple| tx.insert(&two, &values(tuple)))?;
                // Nothing can be updated, but the tuple is there.
                tx.update(&one, &[Value::I64(0)], &[(0, Value::Null); 0])
            })
            .unwrap();
        store
            .db()
            .write(|tx| {
                tx.delete(&one, &[Value::I64(3)])?;
                tx.delete(&two, &[Value::U64(3), Value::Text("1")])
            })
            .unwrap();
        let left = |tuples: &[Tuple], gone: &[Own]| -> Vec<Tuple> {
            tuples.iter().filter(|tuple| *tuple != gone).cloned().collect()
        };
        let ones = left(&ones, &[Own::I64(3)]);
        let twos = left(&twos, &[Own::Text("1".into()), Own::U64(3)]);
        store.thrice(|db| {
            let (one, two) = (db.table("one").unwrap(), db.table("two").unwrap());
            holds(db, &[(&one, ones.clone()), (&two, twos.clone())]);
        });
    });
}

#[test]
fn schemas_that_make_no_sense_are_refused_and_leave_nothing() {
    let table = || TableSchema::new("t").column("a", ColumnType::U64);
    let directory = crate::support::in_memory();
    let path = directory.path().join("db");
    let wide = |bytes| {
        let text = ColumnType::Text { max: bytes };
        TableSchema::new("t").column("a", text).key(&["a"])
    };
    for (words, schema) in [
        ("1 to 1024 tables", Schema::new()),
        ("no primary key", Schema::new().table(table())),
        ("no column `b`", Schema::new().table(table().key(&["b"]))),
        ("no column `b`", Schema::new().table(table().key(&["a"]).index("i", &["b"]))),
        ("has no columns", Schema::new().table(table().key(&["a"]).index("i", &[]))),
        (
            "two indexes",
            Schema::new().table(table().key(&["a"]).index("i", &["a"]).index("i", &["a"])),
        ),
        ("two columns", Schema::new().table(table().column("a", ColumnType::I64).key(&["a"]))),
        ("two tables", Schema::new().table(table().key(&["a"])).table(table().key(&["a"]))),
        (
            "its name",
            Schema::new().table(TableSchema::new("").column("a", ColumnType::U64).key(&["a"])),
        ),
        (
            "the primary key of table `t`: its columns take 1025 bytes, a key has at most 1024",
            Schema::new().table(wide(1_023)),
        ),
        (
            "index `i`: its columns take 1025 bytes, a key has at most 1024",
            Schema::new()
                .table(wide(9).column("b", ColumnType::Bytes { max: 1_023 }).index("i", &["b"])),
        ),
    ] {
        each(|engine| {
            let error = Database::create(&path, &schema, &small(engine)).unwrap_err();
            assert!(error.to_string().contains(words), "`{words}`, not `{error}`");
            assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        });
    }
    // The widest that need nothing of their own. (`long_keys.rs` has the widest that there are.)
    each(|engine| {
        let schema = Schema::new().table(wide(238));
        let store = Store::new(&schema, small(engine).page_bytes(2048));
        let table = store.db().table("t").unwrap();
        let text = "w".repeat(238);
        store.db().write(|tx| tx.insert(&table, &[Value::Text(&text)])).unwrap();
        holds(store.db(), &[(&table, vec![vec![Own::Text(text)]])]);
    });
    assert!(Database::open(&path, &small_logs()).is_err());
}
