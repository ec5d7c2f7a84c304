//! Values at and beyond their limits: large ones, empty ones, numbers at the ends of their range,
//! wide keys.

use crate::support::small_pages;
use perdura::{ColumnType, Database, Domain, Error, Scan, Schema, TableSchema, Value};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::{Own, Setup, Store, Tuple, Under, each, holds, small, values};

/// The largest value that a column can hold.
const MOST: usize = 16 << 20;
/// Beyond this size values are in `large.rs`.
const MANY: usize = 128 << 10;

fn large(engine: Under) -> Setup {
    let options = small_pages()
        .domain(Domain::Process)
        .tune("cache_bytes", 256 << 10)
        .tune("memtable_bytes", 600 << 10)
        .tune("growth", 2)
        .tune("level0_runs", 2)
        .tune("checkpoint_bytes", 1 << 20)
        .tune("wal_reserve_bytes", 256 << 10)
        .pool_limit(1 << 30)
        .volatile_limit(1 << 30);
    Setup::of(engine, options)
}

fn blobs(max: usize) -> Schema {
    Schema::new().table(
        TableSchema::new("blob")
            .column("id", ColumnType::U64)
            .column("one", ColumnType::Bytes { max: max as u32 })
            .column("number", ColumnType::U64)
            .column("two", ColumnType::Text { max: max as u32 })
            .key(&["id"])
            .index("by_number", &["number"]),
    )
}

fn blob(id: u64, one: usize, two: usize) -> Tuple {
    let bytes: Vec<u8> = (0..one).map(|at| (at as u64 * 31 + id) as u8).collect();
    let text: String =
        (0..two).map(|at| char::from(b'a' + ((at as u64 + id) % 26) as u8)).collect();
    vec![Own::U64(id), Own::Bytes(bytes), Own::U64(id % 3), Own::Text(text)]
}

#[test]
fn values_of_every_size_come_back() {
    let sizes = [
        0,
        1,
        6,
        7,
        8,
        9,
        15,
        16,
        17,
        63,
        64,
        65,
        250,
        511,
        512,
        513,
        1000,
        4080,
        4095,
        4096,
        4097,
        8192,
        20_000,
        65_535,
        65_536,
        65_537,
        MANY - 1,
        MANY,
    ];
    each(|engine| {
        let mut store = Store::new(&blobs(MOST), large(engine));
        let mut expected: Vec<Tuple> = Vec::new();
        let table = store.db().table("blob").unwrap();
        for (id, size) in sizes.into_iter().enumerate() {
            let tuple = blob(id as u64, size, sizes[sizes.len() - 1 - id]);
            store.db().write(|tx| tx.insert(&table, &values(&tuple))).unwrap();
            expected.push(tuple);
        }
        store.thrice(|db| {
            holds(db, &[(&db.table("blob").unwrap(), expected.clone())]);
        });
        // Each gets another size, in one column or in both; some are aborted.
        let table = store.db().table("blob").unwrap();
        for id in 0..sizes.len() {
            let (one, two) = (sizes[id * 11 % sizes.len()], sizes[id * 5 % sizes.len()]);
            let new = blob(id as u64 + 50, one, two);
            let changes = [(1, new[1].value()), (3, new[3].value())];
            let changes = if id % 2 == 0 { &changes[..] } else { &changes[..1] };
            let mut tx = store.db().begin().unwrap();
            tx.update(&table, &[Value::U64(id as u64)], changes).unwrap();
            if id % 5 == 4 {
                tx.abort().unwrap();
                continue;
            }
            assert!(tx.commit().unwrap().is_durable());
            expected[id][1] = new[1].clone();
            if id % 2 == 0 {
                expected[id][3] = new[3].clone();
            }
        }
        store.thrice(|db| {
            holds(db, &[(&db.table("blob").unwrap(), expected.clone())]);
        });
        let too_large = vec![0; MOST + 1];
        let table = store.db().table("blob").unwrap();
        let changes = [(1, Value::Bytes(&too_large))];
        let error =
            store.db().write(|tx| tx.update(&table, &[Value::U64(1)], &changes)).unwrap_err();
        assert!(error.to_string().contains("at most 16777216 bytes, not 16777217"), "{error}");
    });
    let wrong = blobs(MOST + 1);
    let directory = crate::support::in_memory();
    let error = Database::create(directory.path().join("db"), &wrong, &small_pages()).unwrap_err();
    assert!(error.to_string().contains("at most 16777216 bytes"), "{error}");
}

/// Megabytes in one transaction, more than any buffer or MemTable, committed and aborted, and
/// replaced often enough that what they leave is used again.
#[test]
fn many_large_values_in_one_transaction() {
    each(|engine| {
        let mut store = Store::new(&blobs(MOST), large(engine));
        let table = store.db().table("blob").unwrap();
        let tuples = |version| -> Vec<Tuple> {
            (0..20).map(|id| blob(id, 50_000 + (version * 1000) as usize, 9_000)).collect()
        };
        let put = |version| {
            let tuples = tuples(version);
            let mut tx = store.db().begin().unwrap();
            for tuple in &tuples {
                match tx.delete(&table, &[tuple[0].value()]) {
                    Ok(()) | Err(Error::MissingKey { .. }) => {}
                    Err(other) => panic!("{other}"),
                }
                tx.insert(&table, &values(tuple)).unwrap();
            }
            tx
        };
        let _ticket = put(0).commit().unwrap();
        for version in 1..4 {
            put(version + 10).abort().unwrap();
            let _ticket = put(version).commit().unwrap();
        }
        holds(store.db(), &[(&table, tuples(3))]);
        store.thrice(|db| {
            holds(db, &[(&db.table("blob").unwrap(), tuples(3))]);
        });
    });
}

#[test]
fn values_at_and_beyond_their_limits() {
    each(|engine| {
        let schema = Schema::new().table(
            TableSchema::new("t")
                .column("key", ColumnType::Text { max: 10 })
                .column("id", ColumnType::U64)
                .column("long", ColumnType::Bytes { max: 5000 })
                .column("short", ColumnType::Text { max: 7 })
                .key(&["key", "id"]),
        );
        let mut store = Store::new(&schema, small(engine));
        let db = store.db();
        let table = db.table("t").unwrap();
        let keys = [("", 0), ("", 1 << 31), ("", u64::MAX), ("ten bytes!", u64::MAX)];
        let tuple = |key: &str, id, long: &[u8], short: &str| {
            vec![
                Own::Text(key.into()),
                Own::U64(id),
                Own::Bytes(long.into()),
                Own::Text(short.into()),
            ]
        };
        let mut expected: Vec<_> = keys.iter().map(|(key, id)| tuple(key, *id, &[], "")).collect();
        expected.push(tuple("full", 1, &[9; 5000], "seven b"));
        for tuple in &expected {
            db.write(|tx| tx.insert(&table, &values(tuple))).unwrap();
        }
        for (key, long, short) in [
            ("eleven byte", 5, "a"),
            ("a", 5001, "a"),
            ("a", 1 << 20, "a"),
            ("a", 5, "eight by"),
            ("", 5001, ""),
        ] {
            let tuple = tuple(key, 77, &vec![1; long], short);
            let error = db.write(|tx| tx.insert(&table, &values(&tuple))).unwrap_err();
            assert!(matches!(error, Error::Invalid(_)), "{error}");
            assert!(error.to_string().contains("at most"), "{error}");
        }
        store.thrice(|db| {
            holds(db, &[(&db.table("t").unwrap(), expected.clone())]);
        });
    });
}

#[test]
fn numbers_at_the_ends_of_their_range_are_keys_like_others() {
    let mut schema = Schema::new();
    for (name, kind) in [("u", ColumnType::U64), ("i", ColumnType::I64), ("f", ColumnType::F64)] {
        schema = schema.table(
            TableSchema::new(name)
                .column("k", kind)
                .column("n", ColumnType::U64)
                .key(&["k"])
                .index("both", &["n", "k"]),
        );
        // The same values as columns of a secondary index and of a composite key.
        schema = schema.table(
            TableSchema::new(format!("{name}2"))
                .column("n", ColumnType::U64)
                .column("k", kind)
                .key(&["n", "k"])
                .index("by_k", &["k"]),
        );
    }
    let ascending: [(&str, Vec<Own>); 3] = [
        ("u", [0, 1, 1 << 31, 1 << 32, 1 << 63, u64::MAX].map(Own::U64).into()),
        ("i", [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX].map(Own::I64).into()),
        (
            "f",
            [
                f64::NEG_INFINITY,
                f64::MIN,
                -1.0,
                -f64::MIN_POSITIVE,
                0.0,
                f64::from_bits(1),
                1e-300,
                f64::MAX,
                f64::INFINITY,
                f64::NAN,
            ]
            .map(Own::F64)
            .into(),
        ),
    ];
    each(|engine| {
        let mut store = Store::new(&schema, small(engine));
        for (name, keys) in &ascending {
            let (table, second) =
                (store.db().table(name).unwrap(), store.db().table(&format!("{name}2")).unwrap());
            for key in keys.iter().rev() {
                let db = store.db();
                db.write(|tx| tx.insert(&table, &[key.value(), Value::U64(7)])).unwrap();
                db.write(|tx| tx.insert(&second, &[Value::U64(7), key.value()])).unwrap();
                let again = db.write(|tx| tx.insert(&table, &[key.value(), Value::U64(8)]));
                assert!(matches!(again, Err(Error::DuplicateKey { .. })));
            }
        }
        let look = |db: &Database, without: Option<usize>| {
            for (name, keys) in &ascending {
                let (table, second) =
                    (db.table(name).unwrap(), db.table(&format!("{name}2")).unwrap());
                let mut keys = keys.clone();
                without.map(|at| keys.remove(at));
                let column = |rows: Vec<Tuple>, at: usize| -> Vec<Own> {
                    rows.into_iter().map(|row| row[at].clone()).collect()
                };
                assert_eq!(column(super::scan(db, &table, &Scan::all()), 0), keys);
                assert_eq!(column(super::scan(db, &table, &Scan::all().by("both")), 0), keys);
                assert_eq!(column(super::scan(db, &second, &Scan::all()), 1), keys);
                assert_eq!(column(super::scan(db, &second, &Scan::all().by("by_k")), 1), keys);
                for key in &keys {
                    let (prefix, mut row) = ([key.value()], perdura::Row::new());
                    assert!(db.read(|tx| tx.get_into(&table, &prefix, &mut row)).unwrap());
                    let found = super::scan(db, &second, &Scan::prefix(&prefix[..]).by("by_k"));
                    assert_eq!(column(found, 1), std::slice::from_ref(key));
                }
            }
        };
        store.thrice(|db| look(db, None));
        for (name, keys) in &ascending {
            let second = format!("{name}2");
            let (table, second) =
                (store.db().table(name).unwrap(), store.db().table(&second).unwrap());
            let key = keys[2].value();
            store.db().write(|tx| tx.delete(&table, &[key])).unwrap();
            store.db().write(|tx| tx.delete(&second, &[Value::U64(7), key])).unwrap();
        }
        store.thrice(|db| look(db, Some(2)));
    });
}

/// Keys of text and bytes up to the widest that there are, with zeros, prefixes of each other,
/// empty ones and full ones; as primary keys, in secondary indexes, and both.
#[test]
fn wide_keys_keep_their_order() {
    let schema = Schema::new().table(
        TableSchema::new("t")
            .column("a", ColumnType::Text { max: 100 })
            .column("b", ColumnType::Bytes { max: 20 })
            .column("c", ColumnType::I64)
            .column("d", ColumnType::Text { max: 90 })
            .key(&["a", "b", "c"])
            .index("by_d", &["d"]),
    );
    const TEXTS: [&str; 9] = ["", "\0", "\0\0", "a", "a\0", "aa", "b", "\u{7f}", "\u{10ffff}"];
    each(|engine| {
        let mut store = Store::new(&schema, small(engine).page_bytes(2048));
        let table = store.db().table("t").unwrap();
        let mut random = SmallRng::seed_from_u64(11);
        let full = "x".repeat(100);
        let mut expected: Vec<Tuple> = Vec::new();
        for number in 0..300i64 {
            let text = |random: &mut SmallRng, max: usize| match random.random_range(0..=9) {
                9 => full[..random.random_range(0..=max)].to_owned(),
                some => TEXTS[some].to_owned(),
            };
            let byte = [0, 1, 0xff][random.random_range(0..3)];
            let tuple = vec![
                Own::Text(text(&mut random, 100)),
                Own::Bytes(vec![byte; random.random_range(0..=20)]),
                Own::I64(if number % 9 == 0 { i64::MIN } else { number % 4 - 2 }),
                Own::Text(text(&mut random, 90)),
            ];
            match store.db().write(|tx| tx.insert(&table, &values(&tuple))) {
                Ok(()) => expected.push(tuple),
                Err(Error::DuplicateKey { .. }) => {
                    let key = &values(&tuple)[..3];
                    let changes = [(3, tuple[3].value())];
                    store.db().write(|tx| tx.update(&table, key, &changes)).unwrap();
                    let stored = expected.iter_mut().find(|other| other[..3] == tuple[..3]);
                    stored.unwrap()[3] = tuple[3].clone();
                }
                Err(other) => panic!("{other}"),
            }
            if number % 4 == 3 {
                let gone = expected.swap_remove(random.random_range(0..expected.len()));
                store.db().write(|tx| tx.delete(&table, &values(&gone)[..3])).unwrap();
            }
        }
        store.thrice(|db| {
            holds(db, &[(&db.table("t").unwrap(), expected.clone())]);
        });
    });
}

/// A key knows one zero and one NaN, which comes last; a tuple keeps the bits that it was given.
#[test]
fn zeros_and_nans_are_one_key_each() {
    let schema = Schema::new().table(
        TableSchema::new("t")
            .column("k", ColumnType::F64)
            .column("v", ColumnType::F64)
            .key(&["k"])
            .index("by_v", &["v"]),
    );
    let other_nan = f64::from_bits(0xfff4_0000_0000_0abc);
    each(|engine| {
        let mut store = Store::new(&schema, small(engine));
        let table = store.db().table("t").unwrap();
        let insert = |k: f64, v: f64| {
            store.db().write(|tx| tx.insert(&table, &[Value::F64(k), Value::F64(v)]))
        };
        insert(-0.0, other_nan).unwrap();
        insert(other_nan, 0.0).unwrap();
        insert(f64::INFINITY, f64::NEG_INFINITY).unwrap();
        insert(-1.0, -0.0).unwrap();
        for same in [0.0, -0.0, f64::NAN, -f64::NAN] {
            let again = insert(same, 1.0);
            assert!(matches!(again, Err(Error::DuplicateKey { .. })), "{same}");
        }
        // A change that no key sees, and one that it does.
        let update = |k: f64, v: f64| {
            store.db().write(|tx| tx.update(&table, &[Value::F64(k)], &[(1, Value::F64(v))]))
        };
        update(f64::NAN, -0.0).unwrap();
        update(0.0, f64::NAN).unwrap();
        update(-1.0, 0.0).unwrap();
        update(f64::INFINITY, other_nan).unwrap();
        let tuple = |k: f64, v: f64| vec![Own::F64(k), Own::F64(v)];
        let expected = vec![
            tuple(-1.0, 0.0),
            tuple(-0.0, f64::NAN),
            tuple(f64::INFINITY, other_nan),
            tuple(other_nan, -0.0),
        ];
        store.thrice(|db| {
            let table = db.table("t").unwrap();
            holds(db, &[(&table, expected.clone())]);
            assert_eq!(super::scan(db, &table, &Scan::all()), expected);
            let zero = [Value::F64(0.0)];
            let zeros = super::scan(db, &table, &Scan::prefix(&zero[..]).by("by_v"));
            assert_eq!(zeros, [expected[0].clone(), expected[3].clone()]);
            let nan = [Value::F64(-f64::NAN)];
            let nans = super::scan(db, &table, &Scan::prefix(&nan[..]).by("by_v"));
            assert_eq!(nans, [expected[1].clone(), expected[2].clone()]);
        });
        let table = store.db().table("t").unwrap();
        for key in [0.0, f64::NAN] {
            store.db().write(|tx| tx.delete(&table, &[Value::F64(key)])).unwrap();
        }
        store.thrice(|db| {
            let left = vec![expected[0].clone(), expected[2].clone()];
            holds(db, &[(&db.table("t").unwrap(), left)]);
        });
    });
}
