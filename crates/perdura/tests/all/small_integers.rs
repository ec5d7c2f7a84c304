//! Columns of one, two and four bytes, and keys that are packed into one word, in every engine.

use crate::support::small_logs;
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use perdura::{
    ColumnType, Database, Domain, EngineKind, Error, Options, Row, Scan, Schema, Table,
    TableSchema, Value,
};

/// Region and number are packed to the primary key, area and these to the key of the index.
fn schema() -> Schema {
    let places = TableSchema::new("places")
        .column("region", ColumnType::I8)
        .column("number", ColumnType::U32)
        .column("area", ColumnType::U16)
        .column("height", ColumnType::I32)
        .column("level", ColumnType::I16)
        .column("colour", ColumnType::U8)
        .column("name", ColumnType::Text { max: 30 })
        .key(&["region", "number"])
        .index("by_area", &["area"])
        .index("by_name", &["name"]);
    Schema::new().table(places)
}

fn options(engine: EngineKind) -> Options {
    small_logs()
        .engine(engine)
        .domain(Domain::Process)
        .pool_limit(1 << 30)
        .volatile_limit(1 << 30)
        .chunk_bytes(16 << 10)
        // Small, so that there are runs, levels and splits.
        .tune("memtable_bytes", 8 << 10)
        .tune("growth", 2)
}

type Places = BTreeMap<(i64, u64), (u64, i64)>;

fn insert(db: &Database, table: &Table, key: (i64, u64), area: u64) -> Result<(), Error> {
    let name = format!("place {}", key.1 % 7);
    let values = [
        Value::I64(key.0),
        Value::U64(key.1),
        Value::U64(area),
        Value::I64(-5),
        Value::I64(key.0 - 300),
        Value::U64(255),
        Value::Text(&name),
    ];
    db.write(|tx| tx.insert(table, &values))
}

fn compare(db: &Database, places: &Places) {
    let table = db.table("places").unwrap();
    let scan = |scan: &Scan<'_>| {
        let mut found = Vec::new();
        db.read(|tx| {
            tx.scan(&table, scan, |row| {
                assert_eq!((row.i64(4), row.u64(5)), (row.i64(0) - 300, 255));
                found.push(((row.i64(0), row.u64(1)), (row.u64(2), row.i64(3))));
                ControlFlow::Continue(())
            })
        })
        .unwrap();
        found
    };
    let mut expected: Vec<_> = places.iter().map(|(key, rest)| (*key, *rest)).collect();
    assert_eq!(scan(&Scan::all()), expected);
    for region in [-128i64, -1, 0, 127] {
        let prefix = [Value::I64(region)];
        let of_region: Vec<_> =
            expected.iter().copied().filter(|(key, _)| key.0 == region).collect();
        assert_eq!(scan(&Scan::prefix(&prefix[..])), of_region);
        let behind = (Bound::Excluded(&prefix[..]), Bound::Unbounded);
        let later: Vec<_> = expected.iter().copied().filter(|(key, _)| key.0 > region).collect();
        assert_eq!(scan(&Scan::range(behind)), later);
    }
    expected.reverse();
    assert_eq!(scan(&Scan::all().backward()), expected);
    expected.sort_by_key(|(key, (area, _))| (*area, *key));
    assert_eq!(scan(&Scan::all().by("by_area")), expected);
    expected.sort_by_key(|(key, _)| (key.1 % 7, *key));
    assert_eq!(scan(&Scan::all().by("by_name")), expected);
    let mut row = Row::new();
    for (key, (area, _)) in places {
        let values = [Value::I64(key.0), Value::U64(key.1)];
        assert!(db.read(|tx| tx.get_into(&table, &values, &mut row)).unwrap());
        assert_eq!(row.u64(2), *area);
    }
    assert_eq!(db.check().unwrap().tuples, places.len() as u64);
}

#[test]
fn small_integers_in_packed_keys() {
    for engine in EngineKind::ALL {
        println!("{engine}");
        let directory = crate::support::in_memory();
        let path = directory.path().join("db");
        let db = Database::create(&path, &schema(), &options(engine)).unwrap();
        let table = db.table("places").unwrap();
        let mut places = Places::new();
        for step in 0..400u64 {
            let region = [-128, -1, 0, 1, 127][(step % 5) as usize];
            let number = (step * 0x9e37_79b9) & 0xffff_ffff;
            insert(&db, &table, (region, number), step % 13).unwrap();
            places.insert((region, number), (step % 13, -5));
        }
        for edge in [0, u64::from(u32::MAX)] {
            insert(&db, &table, (-128, edge), 65_535).map_or_else(
                |error| assert!(matches!(error, Error::DuplicateKey { .. }), "{error}"),
                |()| {
                    places.insert((-128, edge), (65_535, -5));
                },
            );
            let again = insert(&db, &table, (-128, edge), 1);
            assert!(matches!(again, Err(Error::DuplicateKey { .. })));
        }
        compare(&db, &places);
        // Updates of a column of the packed index, of others, deletes.
        let keys: Vec<_> = places.keys().copied().collect();
        for (step, key) in keys.iter().enumerate() {
            let values = [Value::I64(key.0), Value::U64(key.1)];
            match step % 3 {
                0 => {
                    let change =
                        [(2, Value::U64(step as u64 * 100)), (3, Value::I64(i32::MIN.into()))];
                    db.write(|tx| tx.update(&table, &values, &change)).unwrap();
                    places.insert(*key, (step as u64 * 100, i32::MIN.into()));
                }
                1 => {
                    db.write(|tx| tx.delete(&table, &values)).unwrap();
                    places.remove(key);
                }
                _ => {}
            }
        }
        compare(&db, &places);
        // A value that its type does not hold is refused and changes nothing.
        let key = [Value::I64(keys[2].0), Value::U64(keys[2].1)];
        let long = [Value::I64(keys[2].0), Value::U64(1 << 32)];
        for (change, why) in [
            ((2u16, Value::U64(65_536)), "column `area` holds u16 from 0 to 65535, not 65536"),
            ((3, Value::I64(1 << 31)), "column `height` holds i32 from -2147483648 to 2147483647"),
            ((4, Value::F64(1.0)), "column `level` holds i16, not f64"),
            ((5, Value::U64(256)), "column `colour` holds u8 from 0 to 255, not 256"),
        ] {
            let error = db.write(|tx| tx.update(&table, &key, &[change])).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
        }
        let error = db.write(|tx| tx.delete(&table, &long)).unwrap_err();
        assert!(error.to_string().contains("from 0 to 4294967295, not 4294967296"), "{error}");
        assert!(
            insert(&db, &table, (128, 1), 1).is_err()
                && insert(&db, &table, (0, 1 << 32), 1).is_err()
        );
        compare(&db, &places);
        db.abandon();
        let db = Database::open(&path, &options(engine)).unwrap();
        compare(&db, &places);
    }
}
