//! Scans over the primary and over secondary indexes: every kind of bound, prefixes, both
//! directions, chosen columns, stopping early; against a brute-force reading of the contract.

use std::ops::{Bound, ControlFlow};

use perdura::{ColumnType, Database, Error, Scan, Schema, Table, TableSchema, Value};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::{Own, Store, Tuple, each, holds, key_columns, scan, small, sorted, try_scan, values};

/// Composite keys of all types in both kinds of index, and indexes on a single number.
fn schema() -> Schema {
    Schema::new()
        .table(
            TableSchema::new("wide")
                .column("a", ColumnType::U64)
                .column("b", ColumnType::I64)
                .column("c", ColumnType::F64)
                .column("d", ColumnType::Text { max: 9 })
                .column("e", ColumnType::Bytes { max: 6 })
                .column("f", ColumnType::U64)
                .key(&["d", "b", "a"])
                .index("by_f", &["f"])
                .index("by_c_e", &["c", "e"])
                .index("by_e_d_f", &["e", "d", "f"]),
        )
        .table(
            TableSchema::new("narrow")
                .column("id", ColumnType::I64)
                .column("score", ColumnType::F64)
                .key(&["id"])
                .index("by_score", &["score"]),
        )
        .table(
            TableSchema::new("packed")
                .column("a", ColumnType::I8)
                .column("b", ColumnType::U32)
                .column("c", ColumnType::I16)
                .column("d", ColumnType::U8)
                .column("e", ColumnType::I32)
                .column("f", ColumnType::U16)
                .key(&["a", "b", "c"])
                .index("by_d", &["d"])
                .index("by_e_f", &["e", "f"]),
        )
        .table(
            TableSchema::new("named")
                .column("done", ColumnType::Bool)
                .column("at", ColumnType::Timestamp)
                .nullable()
                .column("who", ColumnType::Uuid)
                .column("kind", ColumnType::U8)
                .key(&["done", "who", "kind"])
                .index("by_at", &["at"])
                .index("by_kind_done", &["kind", "done"])
                .index("by_who", &["who", "at"]),
        )
        .table(
            TableSchema::new("nulls")
                .column("id", ColumnType::I64)
                .column("text", ColumnType::Text { max: 9 })
                .nullable()
                .column("bytes", ColumnType::Bytes { max: 6 })
                .nullable()
                .column("float", ColumnType::F64)
                .nullable()
                .column("small", ColumnType::I8)
                .nullable()
                .column("truth", ColumnType::Bool)
                .nullable()
                .column("uuid", ColumnType::Uuid)
                .nullable()
                .key(&["id"])
                .index("by_text", &["text"])
                .index("by_small", &["small"])
                .index("by_truth", &["truth", "bytes", "float"])
                .index("by_uuid", &["uuid", "text"]),
        )
}

/// As [`random_value`], or NULL if the column may be so.
fn random_column(random: &mut SmallRng, column: &perdura::Column) -> Own {
    if column.nullable && random.random_bool(0.3) {
        return Own::Null;
    }
    random_value(random, column.kind)
}

/// Few different values, so that many tuples share prefixes.
fn random_value(random: &mut SmallRng, kind: ColumnType) -> Own {
    const FLOATS: [f64; 7] = [f64::NEG_INFINITY, -1.5, -0.0, 0.0, 2.5, f64::INFINITY, f64::NAN];
    const TEXTS: [&str; 6] = ["", "a", "a\0", "ab", "\u{e4}\u{f6}", "nine byte"];
    match kind {
        ColumnType::U64 => Own::U64([0, 1, 2, u64::MAX][random.random_range(0..4)]),
        ColumnType::I64 => Own::I64([i64::MIN, -1, 0, 1, i64::MAX][random.random_range(0..5)]),
        ColumnType::U8 | ColumnType::U16 | ColumnType::U32 => {
            let most = kind.integer_range().unwrap().1;
            Own::U64([0, 1, most - 1, most][random.random_range(0..4)])
        }
        ColumnType::I8 | ColumnType::I16 | ColumnType::I32 => {
            let (least, most) = kind.integer_range().unwrap();
            Own::I64([least, -1, 0, 1, most as i64][random.random_range(0..5)])
        }
        ColumnType::Bool => Own::Bool(random.random()),
        ColumnType::Timestamp => Own::I64([-1, 0, i64::MAX][random.random_range(0..3)]),
        ColumnType::Uuid => {
            let mut uuid = vec![if random.random_bool(0.5) { 0xff } else { 0 }; 16];
            uuid[random.random_range(0..16)] ^= 1 << random.random_range(0..8);
            Own::Bytes(uuid)
        }
        ColumnType::F64 => Own::F64(FLOATS[random.random_range(0..FLOATS.len())]),
        ColumnType::Text { .. } => Own::Text(TEXTS[random.random_range(0..TEXTS.len())].into()),
        ColumnType::Bytes { max } => {
            let byte = if random.random_bool(0.3) { 0xff } else { 0 };
            Own::Bytes(vec![byte; random.random_range(0..=max.min(3)) as usize])
        }
    }
}

fn fill(store: &Store, random: &mut SmallRng) -> Vec<(Table, Vec<Tuple>)> {
    let db = store.db();
    let mut tables = Vec::new();
    for table in ["wide", "narrow", "packed", "named", "nulls"].map(|name| db.table(name).unwrap())
    {
        let columns = table.schema().columns();
        let mut tuples: Vec<Tuple> = Vec::new();
        for number in 0..250 {
            let mut tuple: Tuple =
                columns.iter().map(|column| random_column(random, column)).collect();
            if ["narrow", "nulls"].contains(&table.name()) {
                tuple[0] = Own::I64(number * 3 - 300);
            }
            match db.write(|tx| tx.insert(&table, &values(&tuple))) {
                Ok(()) => tuples.push(tuple),
                Err(Error::DuplicateKey { .. }) => {}
                Err(other) => panic!("{other}"),
            }
        }
        tables.push((table, tuples));
    }
    tables
}

/// Returns what the contract says about a bound: it may give the first columns only.
fn within(key: &[&Own], low: &Bound<Tuple>, high: &Bound<Tuple>) -> bool {
    let compare = |bound: &Tuple| key.iter().copied().take(bound.len()).cmp(bound.iter());
    let above = match low {
        Bound::Included(bound) => compare(bound).is_ge(),
        Bound::Excluded(bound) => compare(bound).is_gt(),
        Bound::Unbounded => true,
    };
    above
        && match high {
            Bound::Included(bound) => compare(bound).is_le(),
            Bound::Excluded(bound) => compare(bound).is_lt(),
            Bound::Unbounded => true,
        }
}

fn random_bound(random: &mut SmallRng, kinds: &[&perdura::Column], narrow: bool) -> Bound<Tuple> {
    let columns = if narrow { 1 } else { random.random_range(1..=kinds.len()) };
    let mut bound: Tuple =
        kinds[..columns].iter().map(|column| random_column(random, column)).collect();
    if narrow && let Own::I64(_) = bound[0] {
        bound[0] = Own::I64(random.random_range(-310..460));
    }
    match random.random_range(0..5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Included(bound),
        _ => Bound::Excluded(bound),
    }
}

fn as_slice<'a>(bound: &'a Bound<Vec<Value<'a>>>) -> Bound<&'a [Value<'a>]> {
    match bound {
        Bound::Included(bound) => Bound::Included(bound),
        Bound::Excluded(bound) => Bound::Excluded(bound),
        Bound::Unbounded => Bound::Unbounded,
    }
}

fn random_scans(db: &Database, tables: &[(Table, Vec<Tuple>)], seed: u64, scans: usize) {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut shown = 0;
    for number in 0..scans {
        let (table, tuples) = &tables[random.random_range(0..tables.len())];
        let indexes = table.schema().indexes();
        let index = match random.random_range(0..=indexes.len()) {
            0 => None,
            one => Some(indexes[one - 1].name.as_str()),
        };
        let columns = key_columns(table, index);
        let kinds: Vec<_> = columns.iter().map(|at| &table.schema().columns()[*at]).collect();
        let narrow = columns.len() == 1;
        let low = random_bound(&mut random, &kinds, narrow);
        let high = if random.random_bool(0.3) {
            low.clone()
        } else {
            random_bound(&mut random, &kinds, narrow)
        };
        let mut expected: Vec<Tuple> = sorted(tuples.clone(), &columns);
        expected.retain(|tuple| {
            within(&columns.iter().map(|at| &tuple[*at]).collect::<Vec<_>>(), &low, &high)
        });
        let (low_values, high_values) =
            (low.as_ref().map(|low| values(low)), high.as_ref().map(|high| values(high)));
        let mut what = Scan::range((as_slice(&low_values), as_slice(&high_values)));
        if let Some(index) = index {
            what = what.by(index);
        }
        let backward = random.random_bool(0.5);
        let behind = match random.random_range(0..3) {
            0 => random_bound(&mut random, &kinds, narrow),
            _ => Bound::Unbounded,
        };
        let behind_values = behind.as_ref().map(|behind| values(behind));
        if let Bound::Included(key) | Bound::Excluded(key) = &behind_values {
            what = what.after(key);
            let key: Vec<Own> = key.iter().copied().map(Own::from).collect();
            let end = Bound::Excluded(key);
            let (low, high) =
                if backward { (Bound::Unbounded, end) } else { (end, Bound::Unbounded) };
            expected.retain(|tuple| {
                within(&columns.iter().map(|at| &tuple[*at]).collect::<Vec<_>>(), &low, &high)
            });
        }
        if backward {
            what = what.backward();
            expected.reverse();
        }
        let most = table.schema().columns().len() as u16;
        let picked: Vec<u16> =
            (0..random.random_range(0..4)).map(|_| random.random_range(0..most)).collect();
        if random.random_bool(0.5) {
            what = what.columns(&picked);
            for tuple in &mut expected {
                *tuple = picked.iter().map(|at| tuple[usize::from(*at)].clone()).collect();
            }
        }
        let about = || {
            let bounds = format!("{low:?} {high:?}, behind {behind:?}");
            format!("seed {seed}, scan {number}: {} {index:?} {bounds}", table.name())
        };
        assert_eq!(scan(db, table, &what), expected, "{}", about());
        shown += expected.len();
        // Stopping after any number of tuples shows just these.
        let stop = random.random_range(0..=expected.len());
        let mut first = Vec::new();
        db.read(|tx| {
            tx.scan(table, &what, |row| {
                first.push(row.values().map(Own::from).collect::<Tuple>());
                if first.len() > stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })
        })
        .unwrap();
        assert_eq!(first, expected[..expected.len().min(stop + 1)], "{}", about());
    }
    assert!(shown > scans * 10, "{shown}");
}

#[test]
fn scans_show_exactly_what_lies_within_their_bounds() {
    scans_within_bounds(60);
}

/// So many random scans of each engine, and half as many after an opening.
pub(crate) fn scans_within_bounds(many: usize) {
    each(|engine| {
        let mut random = SmallRng::seed_from_u64(3);
        let mut store = Store::new(&schema(), small(engine));
        let tables = fill(&store, &mut random);
        let expected: Vec<_> =
            tables.iter().map(|(table, tuples)| (table, tuples.clone())).collect();
        holds(store.db(), &expected);
        random_scans(store.db(), &tables, 1, many);
        store.reopen();
        let again: Vec<_> = tables
            .iter()
            .map(|(table, tuples)| (store.db().table(table.name()).unwrap(), tuples.clone()))
            .collect();
        random_scans(store.db(), &again, 2, many / 2);
    });
}

/// Reads a scan in pages, each a transaction of its own that begins after the last tuple's key, and
/// returns what they show together and how many there were.
fn pages(
    db: &Database,
    table: &Table,
    what: &Scan<'_>,
    key: &[usize],
    size: usize,
) -> (Vec<Tuple>, usize) {
    let (mut all, mut pages): (Vec<Tuple>, _) = (Vec::new(), 0);
    loop {
        let last: Option<Vec<Own>> =
            all.last().map(|tuple| key.iter().map(|at| tuple[*at].clone()).collect());
        let last = last.as_ref().map(|last| values(last));
        let mut page = what.clone().limit(size);
        if let Some(last) = &last {
            page = page.after(last);
        }
        let rows = |row: Result<perdura::Row, Error>| {
            row.map(|row| row.values().map(Own::from).collect::<Tuple>())
        };
        let shown: Vec<Tuple> =
            db.read(|tx| tx.rows(table, page.clone()).map(rows).collect()).unwrap();
        assert!(shown.len() <= size);
        pages += 1;
        let whole = shown.len() == size;
        all.extend(shown);
        if !whole {
            return (all, pages);
        }
    }
}

/// Each tuple of a range is on one page, in the order of the index, both ways.
#[test]
fn pages_behind_the_last_key_show_each_tuple_of_a_range_once() {
    each(|engine| {
        let mut random = SmallRng::seed_from_u64(7);
        let store = Store::new(&schema(), small(engine));
        let tables = fill(&store, &mut random);
        let wide = &tables[0].0;
        let nulls = &tables[4].0;
        let (a, one, bytes) = ([Value::Text("a")], [Value::I64(1)], [Value::Bytes(&[0])]);
        let (null, from) = ([Value::Null], [Value::Text("a"), Value::I64(0)]);
        let scans = [
            (wide, None, Scan::all()),
            (wide, None, Scan::prefix(a)),
            (wide, None, Scan::range(&from[..]..=&a[..])),
            (wide, None, Scan::starting_with(a)),
            (wide, None, Scan::range(..&a)),
            (wide, Some("by_f"), Scan::all()),
            (wide, Some("by_f"), Scan::prefix(one)),
            (wide, Some("by_e_d_f"), Scan::starting_with(bytes)),
            (nulls, Some("by_text"), Scan::prefix(null)),
            (nulls, Some("by_text"), Scan::starting_with(a)),
            (nulls, Some("by_truth"), Scan::all()),
        ];
        for (table, index, what) in scans {
            let key = key_columns(table, index);
            let what = index.map_or(what.clone(), |index| what.by(index));
            for what in [what.clone(), what.backward()] {
                let all = scan(store.db(), table, &what);
                assert!(all.len() > 10, "{what:?}: {}", all.len());
                for size in [1, 7, all.len(), all.len() + 1] {
                    let (shown, count) = pages(store.db(), table, &what, &key, size);
                    assert_eq!((shown, count), (all.clone(), all.len() / size + 1), "{what:?}");
                }
            }
        }
    });
}

/// A transaction's scans see what it has done, in each place where an engine keeps changes.
#[test]
fn scans_of_a_transaction_see_its_own_changes() {
    each(|engine| {
        let mut random = SmallRng::seed_from_u64(5);
        let store = Store::new(&schema(), small(engine));
        let tables = fill(&store, &mut random);
        let (table, tuples) = &tables[1];
        let mut tx = store.db().begin().unwrap();
        let mut expected = Vec::new();
        for (number, tuple) in tuples.iter().enumerate() {
            let key = [tuple[0].value()];
            match number % 4 {
                0 => tx.delete(table, &key).unwrap(),
                1 => {
                    tx.update(table, &key, &[(1, Value::F64(number as f64))]).unwrap();
                    expected.push(vec![tuple[0].clone(), Own::F64(number as f64)]);
                }
                2 => {
                    tx.delete(table, &key).unwrap();
                    tx.insert(table, &[key[0], Value::F64(-1.0)]).unwrap();
                    expected.push(vec![tuple[0].clone(), Own::F64(-1.0)]);
                }
                _ => expected.push(tuple.clone()),
            }
        }
        for (what, columns) in [(Scan::all(), vec![0]), (Scan::all().by("by_score"), vec![1, 0])] {
            let expected = sorted(expected.clone(), &columns);
            let mut rows = Vec::new();
            tx.scan(table, &what, |row| {
                rows.push(row.values().map(Own::from).collect::<Tuple>());
                ControlFlow::Continue(())
            })
            .unwrap();
            assert_eq!(rows, expected);
            rows.clear();
            tx.scan(table, &what.backward(), |row| {
                rows.push(row.values().map(Own::from).collect::<Tuple>());
                ControlFlow::Continue(())
            })
            .unwrap();
            rows.reverse();
            assert_eq!(rows, expected);
        }
        tx.abort().unwrap();
        let all: Vec<_> = tables.iter().map(|(table, tuples)| (table, tuples.clone())).collect();
        holds(store.db(), &all);
    });
}

#[test]
fn empty_tables_empty_ranges_and_wrong_bounds() {
    each(|engine| {
        let store = Store::new(&schema(), small(engine));
        let db = store.db();
        let (wide, narrow) = (db.table("wide").unwrap(), db.table("narrow").unwrap());
        for what in [Scan::all(), Scan::all().backward(), Scan::prefix(&[Value::Text("a")][..])] {
            assert!(scan(db, &wide, &what).is_empty());
        }
        let zero = [Value::I64(0)];
        let one = [Value::I64(1)];
        for id in [0, 1] {
            db.write(|tx| tx.insert(&narrow, &[Value::I64(id), Value::F64(0.5)])).unwrap();
        }
        let upside_down = Scan::range((Bound::Included(&one[..]), Bound::Included(&zero[..])));
        let nothing = Scan::range((Bound::Excluded(&zero[..]), Bound::Excluded(&one[..])));
        for what in [upside_down, nothing] {
            assert!(scan(db, &narrow, &what).is_empty());
            assert!(scan(db, &narrow, &what.backward()).is_empty());
        }
        // A bound without columns is none.
        let both = Scan::range((Bound::Included(&zero[..0]), Bound::Included(&zero[..0])));
        assert_eq!(scan(db, &narrow, &both).len(), 2);
        assert_eq!(scan(db, &narrow, &both.after(zero)), scan(db, &narrow, &Scan::prefix(one)));
        let no_key = Scan::prefix(one).after(&zero[..0]);
        assert_eq!(scan(db, &narrow, &no_key), scan(db, &narrow, &Scan::prefix(one)));
        assert!(scan(db, &narrow, &Scan::prefix(zero).after(one)).is_empty());
        assert_eq!(scan(db, &narrow, &Scan::prefix(one).after(zero)).len(), 1);
        let too_many = [Value::I64(1), Value::F64(1.0)];
        let long = [Value::Text("ten bytes!")];
        for (table, what) in [
            (&narrow, Scan::prefix(&[Value::U64(u64::MAX)][..])),
            (&narrow, Scan::prefix(&too_many[..])),
            (&wide, Scan::prefix(&[Value::U64(1)][..])),
            (&wide, Scan::prefix(&long[..])),
            (&wide, Scan::prefix(&[Value::Text("a")][..]).by("by_f")),
            (&wide, Scan::all().after([Value::U64(1)])),
            (&narrow, Scan::all().after(too_many)),
            (&narrow, Scan::prefix(one).after([Value::Bool(true)])),
            (&wide, Scan::all().columns(&[6])),
        ] {
            let error = try_scan(db, table, &what).unwrap_err();
            assert!(matches!(error, Error::Invalid(_)), "{error}");
        }
        let error = try_scan(db, &wide, &Scan::all().by("by_a")).unwrap_err();
        assert!(matches!(error, Error::NoIndex { .. }), "{error}");
        assert!(error.to_string().contains("by_a"));
    });
}
