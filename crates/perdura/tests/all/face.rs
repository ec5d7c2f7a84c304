//! The API as an application meets it: columns by name, rows that are returned, scans as iterators.
//! Conformance tests show that the engines do the same; these run on each engine where rows come
//! from its own code.

use crate::support::small_pages;
use std::ops::ControlFlow;
use std::time::{Duration, SystemTime};

use perdura::{
    ColumnType, Database, EngineKind, Error, Row, RowError, Scan, Schema, Table, TableSchema, Tx,
    Value,
};

struct Store {
    db: Database,
    table: Table,
    _directory: tempfile::TempDir,
}

impl Store {
    /// Accounts 1 to `accounts`, whose owners are `Ada`, `Adam`, `Bob` in turn; each third has no
    /// note.
    fn new(engine: EngineKind, accounts: u64) -> Self {
        let directory = crate::support::in_memory();
        let table = TableSchema::new("account")
            .column("id", ColumnType::U64)
            .column("owner", ColumnType::Text { max: 12 })
            .column("balance", ColumnType::I64)
            .column("note", ColumnType::Text { max: 20 })
            .nullable()
            .column("since", ColumnType::Timestamp)
            .default(Value::from(SystemTime::UNIX_EPOCH + Duration::from_secs(7)))
            .key(&["id"])
            .index("by_owner", &["owner"])
            .index("by_note", &["note"]);
        let options = small_pages().engine(engine).tune("memtable_bytes", 64 << 10);
        let path = directory.path().join("db");
        let db = Database::create(path, &Schema::new().table(table), &options).unwrap();
        let table = db.table("account").unwrap();
        let store = Self { db, table, _directory: directory };
        let all = |tx: &mut Tx<'_>| (1..=accounts).try_for_each(|id| store.insert(tx, id));
        store.db.write(all).unwrap();
        store
    }

    fn insert(&self, tx: &mut Tx<'_>, id: u64) -> Result<(), Error> {
        let owner = ["Ada", "Adam", "Bob"][(id % 3) as usize];
        let note = (!id.is_multiple_of(3)).then_some("a note");
        let values = [
            ("balance", Value::from(10 * id)),
            ("note", Value::from(note)),
            ("id", Value::from(id)),
            ("owner", Value::from(owner)),
        ];
        tx.insert_columns(&self.table, &values)
    }

    fn ids(&self, scan: Scan<'_>) -> Vec<u64> {
        let rows = |row: Result<Row, Error>| row?.try_get("id").map_err(Error::from);
        let tx = self.db.begin().unwrap();
        tx.rows(&self.table, scan).map(rows).collect::<Result<_, _>>().unwrap()
    }
}

fn each(test: impl Fn(EngineKind)) {
    EngineKind::ALL.iter().for_each(|engine| test(*engine));
}

#[test]
fn a_row_knows_its_columns_by_name_however_it_was_read() {
    each(|engine| {
        let store = Store::new(engine, 3);
        let (db, table) = (&store.db, &store.table);
        let row = db.get(table, &[Value::from(1)]).unwrap().unwrap();
        assert_eq!(format!("{row:?}"), r#"Row [1, "Adam", 10, "a note", 7000000]"#);
        assert_eq!((row.try_get("owner"), row.try_get("balance")), (Ok("Adam"), Ok(10u8)));
        let since = SystemTime::UNIX_EPOCH + Duration::from_secs(7);
        assert_eq!((row.try_get("since"), row.try_get(4)), (Ok(since), Ok(7_000_000)));
        assert_eq!(db.get(table, &[Value::from(4)]).unwrap(), None);
        db.read(|tx| {
            let some = tx.get_columns(table, &[Value::from(3)], &["note", "id"])?.unwrap();
            assert_eq!((some.try_get("note"), some.try_get("id")), (Ok(None::<&str>), Ok(3)));
            let known = "`note`, `id`".into();
            let error = RowError::NoColumn { column: "`owner`".into(), known };
            assert_eq!(some.try_get::<&str>("owner"), Err(error));
            assert_eq!(tx.get_columns(table, &[Value::from(4)], &["id"])?, None);
            // One buffer for all: its names are those of what was read last.
            let mut row = Row::new();
            assert!(tx.get_into(table, &[Value::from(2)], &mut row)?);
            assert_eq!(row.try_get("owner"), Ok("Bob"));
            assert!(tx.get_columns_into(table, &[Value::from(2)], &[1], &mut row)?);
            let nameless = row.try_get::<&str>("owner");
            assert_eq!(nameless, Err(RowError::NoNames { column: "owner".into() }));
            let mut seen = 0;
            for scan in [Scan::all(), Scan::all().columns(&["note", "owner", "id"])] {
                tx.scan(table, &scan.by("by_owner"), |row| {
                    seen += row.try_get::<u64>("id").unwrap();
                    assert!(row.try_get::<&str>("owner").is_ok(), "{engine}: {row:?}");
                    ControlFlow::Continue(())
                })?;
            }
            assert_eq!(seen, 12);
            Ok(())
        })
        .unwrap();
        if let Ok(snapshot) = db.snapshot() {
            let row = snapshot.get(table, &[Value::from(2)]).unwrap().unwrap();
            assert_eq!(row.try_get("owner"), Ok("Bob"));
        }
    });
}

#[test]
fn columns_are_changed_by_name_and_an_unknown_one_is_told_with_those_that_there_are() {
    let store = Store::new(EngineKind::NvmInp, 2);
    let (db, table) = (&store.db, &store.table);
    let key = [Value::from(1)];
    let balance = || db.get(table, &key).unwrap().unwrap().try_get::<i64>("balance").unwrap();
    db.update(table, &key, &[("balance", Value::from(-5))]).unwrap();
    assert_eq!(balance(), -5);
    let changes = [("note", Value::Null), ("balance", Value::from(6))];
    db.write(|tx| tx.update(table, &key, &changes)).unwrap();
    assert_eq!(balance(), 6);
    db.partition(0).exclusive().unwrap().update(table, &key, &[("balance", 7.into())]).unwrap();
    assert_eq!(balance(), 7);
    let _ticket = db.begin().unwrap().update_and_commit(table, &key, &[("balance", 8.into())]);
    assert_eq!(balance(), 8);
    let wrong = db.update(table, &key, &[("balanse", Value::from(1))]).unwrap_err().to_string();
    let names = "`id`, `owner`, `balance`, `note`, `since`";
    let said = format!("table `account` has no column `balanse`; it has {names}");
    assert!(wrong.starts_with(&said), "{wrong}");
    assert!(wrong.contains("did you mean `balance`"), "{wrong}");
    db.read(|tx| {
        let in_scan = tx.scan(table, &Scan::all().columns(&["x"]), |_| ControlFlow::Continue(()));
        assert!(matches!(in_scan, Err(Error::NoColumn { .. })), "{in_scan:?}");
        let in_get = tx.get_columns(table, &key, &["x"]);
        assert!(matches!(in_get, Err(Error::NoColumn { .. })), "{in_get:?}");
        let mut rows = tx.rows(table, Scan::all().columns(&["x"]));
        assert!(matches!(rows.next(), Some(Err(Error::NoColumn { .. }))));
        assert!(rows.next().is_none(), "an error ends it");
        Ok(())
    })
    .unwrap();
    let inserted = db.write(|tx| tx.insert_columns(table, &[("x", Value::Null)]));
    assert!(matches!(inserted, Err(Error::NoColumn { .. })), "{inserted:?}");
}

#[test]
fn an_integer_fits_each_column_that_can_hold_it() {
    let store = Store::new(EngineKind::NvmInp, 1);
    let (db, table) = (&store.db, &store.table);
    // The key is unsigned, the balance signed.
    let found = db.get(table, &[Value::I64(1)]).unwrap();
    assert_eq!(found, db.get(table, &[Value::U64(1)]).unwrap());
    let key = [Value::U64(1)];
    db.update(table, &key, &[(2, Value::U64(9))]).unwrap();
    assert_eq!(db.get(table, &key).unwrap().unwrap().get(2), Value::I64(9));
    let refused = db.get(table, &[Value::I64(-1)]).unwrap_err().to_string();
    assert!(refused.contains("column `id` holds u64 from 0 to"), "{refused}");
    let refused = db.update(table, &key, &[(2, Value::U64(u64::MAX))]).unwrap_err().to_string();
    assert!(refused.contains("column `balance` holds i64 from"), "{refused}");
    assert!(db.update(table, &key, &[(2, Value::F64(1.0))]).is_err());
}

#[test]
fn an_iterator_shows_what_a_scan_does_across_batches_both_ways_and_by_each_index() {
    each(|engine| {
        let store = Store::new(engine, 700);
        let (db, table) = (&store.db, &store.table);
        let names = ["note", "owner"];
        let scans = [
            Scan::all(),
            Scan::all().by("by_owner"),
            Scan::all().by("by_note"),
            Scan::all().by("by_note").columns(&["balance"]),
            Scan::all().columns(&names),
            Scan::all().columns(&[2, 2, 0]),
            Scan::range([Value::from(100)]..[Value::from(600)]),
            Scan::prefix([Value::Null]).by("by_note"),
            Scan::starting_with([Value::from("Ad")]).by("by_owner"),
            Scan::range([Value::from(650)]..),
            Scan::all().limit(300),
        ];
        for scan in scans.into_iter().flat_map(|scan| [scan.clone(), scan.backward()]) {
            let mut seen = Vec::new();
            db.read(|tx| {
                tx.scan(table, &scan, |row| {
                    seen.push(row.clone());
                    ControlFlow::Continue(())
                })?;
                let rows: Vec<_> = tx.rows(table, scan.clone()).collect::<Result<_, _>>()?;
                assert!(rows == seen, "{engine}: {scan:?}: {} of {}", rows.len(), seen.len());
                let named = |row: &Row| row.column_names().unwrap().collect::<Vec<_>>().join(",");
                assert_eq!(named(&rows[0]), named(&seen[0]));
                Ok(())
            })
            .unwrap();
            assert!(seen.len() > 40, "{engine}: {scan:?}");
        }
        let snapshot = db.snapshot();
        db.write(|tx| store.insert(tx, 701)).unwrap();
        if let Ok(snapshot) = snapshot {
            assert_eq!(snapshot.rows(table, Scan::all()).count(), 700);
        }
        // Sees what its own transaction has done.
        let mut tx = db.begin().unwrap();
        tx.delete(table, &[Value::from(9)]).unwrap();
        assert_eq!(tx.rows(table, Scan::all()).count(), 700);
    });
}

#[test]
fn ranges_are_written_as_ranges_and_a_limit_ends_them() {
    let store = Store::new(EngineKind::NvmInp, 9);
    let (two, four) = ([Value::from(2)], vec![Value::from(4)]);
    assert_eq!(store.ids(Scan::range([Value::from(2)]..=[Value::from(4)])), [2, 3, 4]);
    assert_eq!(store.ids(Scan::range(&two[..]..&four[..])), [2, 3]);
    assert_eq!(store.ids(Scan::range(&two..&[Value::from(3)])), [2]);
    assert_eq!(store.ids(Scan::range(&four..)).len(), 6);
    assert_eq!(store.ids(Scan::range(..four.clone())), [1, 2, 3]);
    assert_eq!(store.ids(Scan::range(..=four)), [1, 2, 3, 4]);
    assert_eq!(store.ids(Scan::range(..)).len(), 9);
    assert_eq!(store.ids(Scan::all().backward().limit(2)), [9, 8]);
    assert!(store.ids(Scan::all().limit(0)).is_empty());
    let mut seen = 0;
    let count = |_: &Row| {
        seen += 1;
        ControlFlow::Continue(())
    };
    store.db.begin().unwrap().scan(&store.table, &Scan::all().limit(3), count).unwrap();
    assert_eq!(seen, 3);
}

#[test]
fn the_beginning_of_a_text_finds_all_that_start_with_it() {
    let store = Store::new(EngineKind::NvmInp, 9);
    let by = |text: &str| store.ids(Scan::starting_with([Value::from(text)]).by("by_owner"));
    assert_eq!(by("Ada"), [3, 6, 9, 1, 4, 7]);
    assert_eq!(by("Adam"), [1, 4, 7]);
    assert!(by("Ac").is_empty());
    assert_eq!(by("").len(), 9);
    // As long as the column: only itself can start with it.
    let long = "\u{7f}".repeat(12);
    store.db.update(&store.table, &[Value::from(5)], &[("owner", long.as_str().into())]).unwrap();
    assert_eq!((by(&long), by(&long[..11])), (vec![5], vec![5]));
    let backward = Scan::starting_with([Value::from("Ada")]).by("by_owner").backward();
    assert_eq!(store.ids(backward), [7, 4, 1, 9, 6, 3]);
    // After a key of such a text, of another one, and of only the first columns of a key.
    let ada = || Scan::starting_with([Value::from("Ada")]).by("by_owner");
    let after = |scan: Scan<'_>, owner, id| store.ids(scan.after([Value::from(owner), id]));
    assert_eq!(after(ada(), "Ada", 6.into()), [9, 1, 4, 7]);
    assert_eq!(after(ada(), "Adam", 4.into()), [7]);
    assert_eq!(after(ada().backward(), "Adam", 4.into()), [1, 9, 6, 3]);
    assert_eq!(after(ada().backward(), "Ada", 6.into()), [3]);
    assert_eq!(after(ada().backward(), "Bob", 2.into()), [7, 4, 1, 9, 6, 3]);
    assert_eq!(after(ada(), "Ab", 2.into()).len(), 6);
    assert!(after(ada(), "Bob", 2.into()).is_empty());
    assert_eq!(store.ids(ada().after([Value::from("Ada")])), [1, 4, 7]);
    assert_eq!(store.ids(ada().after([Value::from("Adam")]).backward()), [9, 6, 3]);
    let wrong =
        store.db.begin().unwrap().rows(&store.table, Scan::starting_with([1.into()])).next();
    let wrong = wrong.unwrap().unwrap_err().to_string();
    assert!(wrong.contains("the beginning of a text"), "{wrong}");
    let too_long = Scan::starting_with([Value::from("a long owner!")]).by("by_owner");
    assert!(store.db.begin().unwrap().rows(&store.table, too_long).next().unwrap().is_err());
}

#[test]
fn a_function_that_fails_ends_its_scan_with_its_own_error() {
    #[derive(Debug)]
    enum Own {
        Enough(u64),
        Database(Error),
    }
    impl From<Error> for Own {
        fn from(error: Error) -> Self {
            Self::Database(error)
        }
    }
    let store = Store::new(EngineKind::NvmInp, 9);
    let sum = |most: u64, scan: Scan<'_>| {
        let mut sum = 0;
        store.db.read_or(|tx| {
            sum = 0;
            tx.try_scan(&store.table, &scan, |row| {
                sum += row.try_get::<u64>("balance").map_err(Error::from)?;
                if sum > most { Err(Own::Enough(sum)) } else { Ok(ControlFlow::Continue(())) }
            })?;
            Ok::<_, Own>(sum)
        })
    };
    assert!(matches!(sum(1000, Scan::all()), Ok(450)));
    assert!(matches!(sum(50, Scan::all()), Err(Own::Enough(60))));
    let no_column = sum(50, Scan::all().columns(&["id"]));
    assert!(matches!(no_column, Err(Own::Database(Error::Row(RowError::NoColumn { .. })))));
}

#[test]
fn changes_that_look_first_say_what_they_found() {
    each(|engine| {
        let store = Store::new(engine, 2);
        let (db, table) = (&store.db, &store.table);
        let tuple = |id: u64, owner, balance: i64| {
            [Value::from(id), Value::from(owner), balance.into(), Value::Null, Value::from(0)]
        };
        let shown = |id: u64| {
            let row = db.get(table, &[Value::from(id)]).unwrap();
            row.map(|row| format!("{row:?}"))
        };
        assert!(!db.insert_if_absent(table, &tuple(1, "Eve", 0)).unwrap());
        assert_eq!(shown(1).unwrap(), r#"Row [1, "Adam", 10, "a note", 7000000]"#);
        assert!(db.insert_if_absent(table, &tuple(3, "Eve", 0)).unwrap());
        assert!(!db.upsert(table, &tuple(1, "Eve", 5)).unwrap());
        assert_eq!(shown(1).unwrap(), r#"Row [1, "Eve", 5, NULL, 0]"#);
        assert!(db.partition(0).upsert(table, &tuple(4, "Eve", 5)).unwrap());
        let by_owner = Scan::prefix([Value::from("Eve")]).by("by_owner");
        assert_eq!(store.ids(by_owner), [1, 3, 4]);
        // All in one transaction, of which nothing is left.
        let undone = db.write(|tx| {
            assert!(tx.insert_if_absent(table, &tuple(5, "Zoe", 1))?);
            assert!(!tx.upsert(table, &tuple(5, "Zoe", 2))?);
            tx.modify(table, &[Value::from(5)], |row| vec![("balance", (row.i64(2) + 1).into())])?;
            let row = tx.get(table, &[Value::from(5)])?.unwrap();
            assert_eq!((row.try_get("balance"), tx.statements_done()), (Ok(3), 3));
            Err::<(), _>(Error::user("no"))
        });
        assert!(undone.is_err() && shown(5).is_none());
        let mut own = db.partition(0).exclusive().unwrap();
        own.modify(table, &[Value::from(4)], |row| vec![(1, row.get(1)), (2, 8.into())]).unwrap();
        own.delete(table, &[Value::from(3)]).unwrap();
        drop(own);
        assert_eq!(shown(4).unwrap(), r#"Row [4, "Eve", 8, NULL, 0]"#);
        assert_eq!(shown(3), None);
        let missing = db.modify(table, &[Value::from(3)], |_| Vec::<(u16, Value<'_>)>::new());
        let missing = missing.unwrap_err().to_string();
        assert_eq!(missing, "table `account` has no tuple with primary key id = 3");
        assert!(db.insert(table, &tuple(4, "Eve", 0)).is_err());
    });
}
