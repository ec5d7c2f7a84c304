//! Typed rows: what a struct declares, that its values go in and come out again in each engine, and
//! that a table which is declared otherwise is refused. What does not compile is in `derive`.

use crate::support::small_logs;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, SystemTime};

use perdura::{
    ColumnType, Database, EngineKind, Error, Field, FromValue, RowError, Scan, Schema, Table,
    TableRow, TableSchema, TypedTable, Value,
};

#[expect(dead_code, reason = "the example is a program")]
#[path = "../../examples/typed.rs"]
mod example;

use example::{Book, Library};

#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    Waiting = 3,
    Running = 4,
}

impl FromValue<'_> for State {
    const NAME: &'static str = "a state";

    fn from_value(value: Value<'_>) -> Option<Self> {
        match value {
            Value::U64(3) => Some(Self::Waiting),
            Value::U64(4) => Some(Self::Running),
            _ => None,
        }
    }
}

impl Field for State {
    const TYPE: ColumnType = ColumnType::U8;
    type Given<'v> = u8;

    fn value(&self) -> Value<'_> {
        Value::from(*self as u8)
    }
}

/// A type of each kind that a column can have.
#[derive(Table, Clone, PartialEq, Debug)]
#[table(
    name = "everything",
    inline,
    key(realm, id),
    index("by_state", state, due),
    unique("by_two", small, text)
)]
struct Everything {
    id: u64,
    #[table(max = 12)]
    realm: String,
    #[table(default = State::Waiting as u8)]
    state: State,
    #[table(index = "by_due")]
    due: Option<SystemTime>,
    #[table(unique = "by_uuid")]
    uuid: [u8; 16],
    small: i8,
    #[table(name = "type", default = -2)]
    r#type: i16,
    medium: i32,
    large: i64,
    short: u16,
    wide: u32,
    float: f64,
    truth: Option<bool>,
    #[table(max = 80, default = Some("none"))]
    text: Option<String>,
    #[table(max = 9, default = b"\x01")]
    bytes: Vec<u8>,
}

fn declared_by_hand() -> TableSchema {
    TableSchema::new("everything")
        .column("id", ColumnType::U64)
        .column("realm", ColumnType::Text { max: 12 })
        .column("state", ColumnType::U8)
        .default(Value::U64(3))
        .column("due", ColumnType::Timestamp)
        .nullable()
        .column("uuid", ColumnType::Uuid)
        .column("small", ColumnType::I8)
        .column("type", ColumnType::I16)
        .default(Value::I64(-2))
        .column("medium", ColumnType::I32)
        .column("large", ColumnType::I64)
        .column("short", ColumnType::U16)
        .column("wide", ColumnType::U32)
        .column("float", ColumnType::F64)
        .column("truth", ColumnType::Bool)
        .nullable()
        .column("text", ColumnType::Text { max: 80 })
        .nullable()
        .default(Value::Text("none"))
        .column("bytes", ColumnType::Bytes { max: 9 })
        .default(Value::Bytes(&[1]))
        .key(&["realm", "id"])
        .index("by_due", &["due"])
        .unique_index("by_uuid", &["uuid"])
        .index("by_state", &["state", "due"])
        .unique_index("by_two", &["small", "text"])
        .inline_columns()
}

/// The row with this number; every third one has NULLs.
fn everything(id: u64) -> Everything {
    let null = id.is_multiple_of(3);
    let number = id as i8 - 5;
    Everything {
        id,
        realm: ["a", "b"][(id % 2) as usize].into(),
        state: if null { State::Waiting } else { State::Running },
        due: (!null).then_some(SystemTime::UNIX_EPOCH + Duration::from_micros(id)),
        uuid: [id as u8; 16],
        small: number,
        r#type: 100 * i16::from(number),
        medium: i32::MIN,
        large: i64::from(number) << 40,
        short: u16::MAX,
        wide: u32::MAX - id as u32,
        float: -0.5 * id as f64,
        truth: (!null).then_some(id.is_multiple_of(2)),
        text: (!null).then(|| format!("text {id}")),
        bytes: vec![id as u8; (id % 9) as usize],
    }
}

fn key(row: &Everything) -> (&str, u64) {
    (&row.realm, row.id)
}

fn create(path: &Path, engine: EngineKind) -> Database {
    let schema = Schema::new().table(Everything::schema());
    Database::create(path, &schema, &small_logs().engine(engine)).unwrap()
}

fn each(test: impl Fn(&Path, Database, TypedTable<Everything>)) {
    for engine in EngineKind::ALL {
        println!("engine {engine}");
        let directory = crate::support::in_memory();
        let path = directory.path().join("db");
        let db = create(&path, engine);
        let table = db.typed().unwrap();
        test(&path, db, table);
    }
}

#[test]
fn a_struct_declares_the_table_that_its_attributes_say() {
    assert_eq!(Everything::schema(), declared_by_hand());
    assert_eq!(Book::schema().name(), "book");
}

#[test]
fn typed_rows_come_out_as_they_went_in_also_when_the_database_is_opened_again() {
    each(|path, db, table| {
        let mut rows: Vec<_> = (1..=20).map(everything).collect();
        db.write(|tx| rows.iter().try_for_each(|row| table.insert(tx, row))).unwrap();
        rows.sort_by(|one, other| key(one).cmp(&key(other)));
        drop((db, table));
        let db = Database::open(path, &small_logs()).unwrap();
        let table = db.typed::<Everything>().unwrap();
        db.read(|tx| {
            for row in &rows {
                assert_eq!(table.get(tx, key(row))?.as_ref(), Some(row));
            }
            assert_eq!(table.get(tx, ("c", 1))?, None);
            let all: Vec<Everything> = table.rows(tx, Scan::all()).collect::<Result<_, _>>()?;
            assert_eq!(all, rows);
            let mut seen = Vec::new();
            let waiting = Scan::prefix([State::Waiting.value()]).by("by_state").backward();
            table.scan(tx, &waiting, |row| {
                seen.push(row.id);
                if seen.len() == 4 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
            // In the order of the primary key, realms first: all have the same NULL before.
            assert_eq!(seen, [15, 9, 3, 18]);
            Ok(())
        })
        .unwrap();
        if let Ok(snapshot) = db.snapshot() {
            assert_eq!(table.rows(&snapshot, Scan::all()).count(), 20);
        }
    });
}

#[test]
fn typed_rows_are_changed_as_others_are() {
    each(|_, db, table| {
        let (one, two) = (everything(1), everything(2));
        let twice = db.write(|tx| {
            table.insert(tx, &one)?;
            table.insert(tx, &one)
        });
        assert!(matches!(twice, Err(Error::DuplicateKey { index: None, .. })), "{twice:?}");
        db.write(|tx| {
            assert_eq!(table.get(tx, key(&one))?, None, "the transaction was undone");
            assert!(table.upsert(tx, &one)?);
            assert!(!table.insert_if_absent(tx, &Everything { wide: 5, ..one.clone() })?);
            assert!(table.insert_if_absent(tx, &two)?);
            assert_eq!(table.get_for_update(tx, key(&one))?.as_ref(), Some(&one));
            assert!(!table.upsert(tx, &Everything { wide: 6, due: None, ..one.clone() })?);
            Ok(())
        })
        .unwrap();
        let read = |row| db.read(|tx| table.get(tx, key(row))).unwrap();
        let now = Everything { wide: 6, due: None, ..one.clone() };
        assert_eq!((read(&one), read(&two)), (Some(now.clone()), Some(two.clone())));
        let now = Everything { text: None, bytes: b"more".into(), ..now };
        db.write(|tx| table.update(tx, &now)).unwrap();
        assert_eq!(read(&one), Some(now.clone()));
        let missing = db.write(|tx| table.update(tx, &everything(3)));
        assert!(matches!(missing, Err(Error::MissingKey { .. })), "{missing:?}");
        let same = everything(2).uuid;
        let refused = db.write(|tx| table.update(tx, &Everything { uuid: same, ..now.clone() }));
        let is_unique = |error: &Error| matches!(error, Error::DuplicateKey { index: Some(_), .. });
        assert!(refused.as_ref().is_err_and(is_unique), "{refused:?}");
        db.write(|tx| table.delete(tx, key(&one))).unwrap();
        assert_eq!(read(&one), None);
        let missing = db.write(|tx| table.delete(tx, key(&one)));
        assert!(matches!(missing, Err(Error::MissingKey { .. })), "{missing:?}");
        assert_eq!(db.check().unwrap().tuples, 1);
    });
}

#[test]
fn modify_writes_the_columns_that_have_changed_and_no_others() {
    each(|_, db, table| {
        let one = Everything { float: 0.0, ..everything(1) };
        db.write(|tx| table.insert(tx, &one)).unwrap();
        let statements = |change: &dyn Fn(&mut Everything)| {
            let mut tx = db.begin().unwrap();
            let now = table.modify(&mut tx, key(&one), change).unwrap();
            let done = tx.statements_done();
            let _ticket = tx.commit().unwrap();
            assert_eq!(db.read(|tx| table.get(tx, key(&one))).unwrap().as_ref(), Some(&now));
            done
        };
        assert_eq!(statements(&|_| {}), 0);
        assert_eq!(statements(&|row| row.wide = u32::MAX - 1), 0, "it was so before");
        assert_eq!(statements(&|row| (row.state, row.text) = (State::Waiting, None)), 1);
        assert_eq!(statements(&|row| row.float = -0.0), 1);
        let float = db.read(|tx| table.get(tx, key(&one))).unwrap().unwrap().float;
        assert!(float.is_sign_negative());
        let key_changed = db.write(|tx| table.modify(tx, key(&one), |row| row.id = 9));
        assert!(matches!(key_changed, Err(Error::Invalid(_))), "{key_changed:?}");
        let missing = db.write(|tx| table.modify(tx, ("z", 1), |_| {})).unwrap_err();
        assert!(matches!(missing, Error::MissingKey { .. }), "{missing}");
        assert!(missing.to_string().contains("realm \"z\"") || missing.to_string().contains('z'));
    });
}

#[test]
fn a_value_that_a_field_cannot_have_is_an_error_and_ends_a_scan() {
    each(|_, db, table| {
        db.write(|tx| (1..=3).try_for_each(|id| table.insert(tx, &everything(id)))).unwrap();
        let bad = everything(1);
        let place = [Value::from("b"), Value::from(1)];
        db.update(table.table(), &place, &[("state", Value::from(5))]).unwrap();
        let wrong = |error: &Error| {
            matches!(error, Error::Row(RowError::WrongType { wanted: "a state", .. }))
        };
        let got = db.read(|tx| table.get(tx, key(&bad))).unwrap_err();
        assert!(wrong(&got), "{got}");
        assert_eq!(got.to_string(), "column 2 is 5, not a state");
        db.read(|tx| {
            let ids: Vec<_> =
                table.rows(tx, Scan::all()).map(|row| row.map(|row| row.id)).collect();
            assert!(matches!(&ids[..], [Ok(2), Err(error)] if wrong(error)), "{ids:?}");
            let mut seen = 0;
            let done = table.scan(tx, &Scan::all(), |_| {
                seen += 1;
                ControlFlow::Continue(())
            });
            assert!(done.as_ref().is_err_and(wrong), "{done:?}");
            assert_eq!(seen, 1);
            Ok(())
        })
        .unwrap();
    });
}

#[test]
fn a_scan_of_typed_rows_that_names_columns_is_refused() {
    let directory = crate::support::in_memory();
    let db = create(&directory.path().join("db"), EngineKind::NvmInp);
    let table = db.typed::<Everything>().unwrap();
    let some = Scan::all().columns(&["id"]);
    db.read(|tx| {
        let mut rows = table.rows(tx, some.clone());
        assert!(matches!(rows.next(), Some(Err(Error::Options(_)))));
        assert!(rows.next().is_none());
        let scanned = table.scan(tx, &some, |_| ControlFlow::Continue(()));
        assert!(matches!(scanned, Err(Error::Options(_))), "{scanned:?}");
        Ok(())
    })
    .unwrap();
}

mod other {
    use super::Table;

    #[derive(Table)]
    #[table(name = "job")]
    pub(super) struct Longer {
        #[table(key)]
        pub(super) id: u64,
        #[table(max = 90)]
        pub(super) name: String,
        pub(super) tries: u8,
    }

    #[derive(Table)]
    #[table(name = "job", key(name))]
    pub(super) struct OtherKey {
        #[table(index = "by_id")]
        pub(super) id: u64,
        #[table(max = 80)]
        pub(super) name: String,
    }

    #[derive(Table)]
    pub(super) struct NoTable {
        #[table(key)]
        pub(super) id: u64,
    }
}

#[derive(Table)]
struct Job {
    #[table(key)]
    id: u64,
    #[table(max = 80)]
    name: String,
}

#[test]
fn a_type_that_declares_the_table_otherwise_is_refused_and_told_how() {
    let directory = crate::support::in_memory();
    let schema = Schema::new().table(Job::schema());
    let db = Database::create(directory.path().join("db"), &schema, &small_logs()).unwrap();
    let jobs = db.typed::<Job>().unwrap();
    assert_eq!(jobs.table().name(), "job");
    db.write(|tx| jobs.insert(tx, &Job { id: 1, name: "one".into() })).unwrap();
    let job = db.read(|tx| jobs.get(tx, 1)).unwrap().unwrap();
    assert_eq!((job.id, job.name.as_str()), (1, "one"));
    let longer = db.typed::<other::Longer>().unwrap_err();
    let said = longer.to_string();
    assert!(matches!(longer, Error::WrongRows { .. }), "{said}");
    for part in [
        "other::Longer`",
        r#"table `job` has column {"name":"name","kind":{"text":{"max":80}}}, not"#,
        r#""max":90"#,
        "table `job` has no column `tries`",
    ] {
        assert!(said.contains(part), "{said}");
    }
    let said = db.typed::<other::OtherKey>().unwrap_err().to_string();
    assert!(said.contains("primary key (id), not (name)"), "{said}");
    assert!(said.contains("no index `by_id`"), "{said}");
    let none = db.typed::<other::NoTable>().unwrap_err();
    assert!(matches!(&none, Error::NoTable { name, .. } if name == "no_table"), "{none}");
}

/// A default in the database may be written in several ways that mean the same.
#[test]
fn a_table_that_is_declared_in_json_is_the_one_of_the_struct_if_it_means_the_same() {
    #[derive(Table)]
    struct Visit {
        #[table(key)]
        at: SystemTime,
        #[table(default = SystemTime::UNIX_EPOCH)]
        until: SystemTime,
    }
    let json = br#"{"tables": [{"name": "visit", "key": ["at"], "columns": [
        {"name": "at", "kind": "timestamp"},
        {"name": "until", "kind": "timestamp", "default": 0}]}]}"#;
    let schema = Schema::from_json(json).unwrap();
    let directory = crate::support::in_memory();
    let db = Database::create(directory.path().join("db"), &schema, &small_logs()).unwrap();
    let visits = db.typed::<Visit>().unwrap();
    let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    db.write(|tx| visits.insert(tx, &Visit { at: at(1), until: at(2) })).unwrap();
    let visit = db.read(|tx| visits.get(tx, at(1))).unwrap().unwrap();
    assert_eq!((visit.at, visit.until), (at(1), at(2)));
}

#[test]
fn the_library_lends_each_book_once_and_counts() {
    let directory = crate::support::in_memory();
    let path = directory.path().join("library");
    let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    let book = |id, title: &str| Book { id, title: title.into(), mark: None, times_lent: 0 };
    let library = Library::open(&path).unwrap();
    for (id, title) in [(1, "One"), (2, "Two"), (3, "Three")] {
        library.buy(&book(id, title)).unwrap();
    }
    let lent = library.lend(1, "Ada", at(20)).unwrap();
    assert_eq!(lent, Some(Book { times_lent: 1, ..book(1, "One") }));
    assert_eq!(library.lend(1, "Bob", at(20)).unwrap(), None, "Ada has it");
    library.lend(2, "Ada", at(10)).unwrap().unwrap();
    assert!(matches!(library.lend(4, "Ada", at(1)), Err(Error::MissingKey { .. })));
    drop(library);
    let library = Library::open(&path).unwrap();
    let ids = |reader| {
        let books = library.lent_to(reader).unwrap();
        books.iter().map(|book| book.id).collect::<Vec<_>>()
    };
    assert_eq!((ids("Ada"), ids("Bob")), (vec![2, 1], vec![]));
    library.give_back(1).unwrap();
    let lent = library.lend(1, "Bob", at(30)).unwrap().unwrap();
    assert_eq!((ids("Ada"), ids("Bob"), lent.times_lent), (vec![2], vec![1], 2));
}
