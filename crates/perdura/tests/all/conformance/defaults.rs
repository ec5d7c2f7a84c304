//! Inserts that name some columns: the others have their defaults, or are NULL, in every engine and
//! in JSON lines; and what is refused.

use perdura::{ColumnType, Database, Error, LoadOptions, Schema, TableSchema, Value};

use super::{Own, Store, Tuple, each, holds, small};

fn schema() -> Schema {
    Schema::new().table(
        TableSchema::new("job")
            .column("id", ColumnType::U64)
            .column("state", ColumnType::Text { max: 20 })
            .default(Value::Text("waiting"))
            .column("tries", ColumnType::I16)
            .default(Value::I64(-1))
            .column("at", ColumnType::Timestamp)
            .default(Value::I64(1_000_001))
            .column("done", ColumnType::Bool)
            .default(Value::Bool(false))
            .column("weight", ColumnType::F64)
            .nullable()
            .default(Value::F64(0.5))
            .column("result", ColumnType::Bytes { max: 30 })
            .nullable()
            .column("owner", ColumnType::Uuid)
            .default(Value::Bytes(&[7; 16]))
            .column("must", ColumnType::U8)
            .key(&["id"])
            .index("by_state", &["state", "done"]),
    )
}

fn tuple(id: u64, must: u64) -> Tuple {
    vec![
        Own::U64(id),
        Own::Text("waiting".into()),
        Own::I64(-1),
        Own::I64(1_000_001),
        Own::Bool(false),
        Own::F64(0.5),
        Own::Null,
        Own::Bytes(vec![7; 16]),
        Own::U64(must),
    ]
}

#[test]
fn columns_that_an_insert_does_not_name_have_their_defaults() {
    each(|engine| {
        let mut store = Store::new(&schema(), small(engine));
        let table = store.db().table("job").unwrap();
        let insert =
            |values: &[(u16, Value<'_>)]| store.db().write(|tx| tx.insert_columns(&table, values));
        insert(&[(8, Value::U64(3)), (0, Value::U64(1))]).unwrap();
        let null = [(0, Value::U64(2)), (8, Value::U64(4)), (5, Value::Null)];
        insert(&[&null[..], &[(1, Value::Text(""))]].concat()).unwrap();
        let refused = |values: &[(u16, Value<'_>)], why: &str| {
            let error = insert(values).unwrap_err();
            assert!(matches!(error, Error::Invalid(_)), "{error}");
            assert!(error.to_string().contains(why), "{error}");
        };
        let must = "column `must` of table `job` has no value; name it, or declare a default";
        refused(&[(0, Value::U64(9))], must);
        refused(&[(8, Value::U64(9))], "column `id` of table `job` has no value");
        refused(&[(0, Value::U64(9)), (0, Value::U64(9))], "column `id` is named twice");
        refused(&[(0, Value::U64(9)), (9, Value::U64(9))], "no column 9");
        refused(&[(0, Value::U64(9)), (8, Value::Null)], "`must` of table `job` cannot be NULL");
        refused(&[(0, Value::U64(9)), (8, Value::U64(256))], "`must` holds u8 from 0 to 255");
        let again = insert(&[(0, Value::U64(1)), (8, Value::U64(3))]);
        assert!(matches!(again, Err(Error::DuplicateKey { index: None, .. })), "{again:?}");
        let mut second = tuple(2, 4);
        (second[1], second[5]) = (Own::Text(String::new()), Own::Null);
        let mut expected = vec![tuple(1, 3), second];
        // A JSON line that does not name them.
        let mut lines = &br#"{"table": "job", "tuple": {"must": 5, "id": 3}}
            {"table": "job", "tuple": {"must": 6, "id": 4, "result": null, "at": "1970-01-01T00:00:00Z"}}"#[..];
        store.db().load(&mut lines, &LoadOptions::new("lines"), &mut |_| ()).unwrap();
        expected.push(tuple(3, 5));
        let mut fourth = tuple(4, 6);
        fourth[3] = Own::I64(0);
        expected.push(fourth);
        let mut wrong = &br#"{"table": "job", "tuple": {"id": 5}}"#[..];
        let error = store.db().load(&mut wrong, &LoadOptions::new("lines"), &mut |_| ());
        let error = error.unwrap_err().to_string();
        assert!(error.contains("column `must` is missing"), "{error}");
        store.thrice(|db| {
            holds(db, &[(&db.table("job").unwrap(), expected.clone())]);
        });
    });
}

#[test]
fn a_schema_with_defaults_is_the_same_however_it_is_written() {
    let json = br#"{"tables": [{"name": "job", "columns": [
        {"name": "id", "kind": "u64"},
        {"name": "state", "kind": {"text": {"max": 20}}, "default": "waiting"},
        {"name": "tries", "kind": "i16", "default": -1},
        {"name": "at", "kind": "timestamp", "default": 1000001},
        {"name": "done", "kind": "bool", "default": false},
        {"name": "weight", "kind": "f64", "nullable": true, "default": 5e-1},
        {"name": "result", "kind": {"bytes": {"max": 30}}, "nullable": true},
        {"name": "owner", "kind": "uuid", "default": "07070707-0707-0707-0707-070707070707"},
        {"name": "must", "kind": "u8"}],
        "key": ["id"], "indexes": [{"name": "by_state", "columns": ["state", "done"]}]}]}"#;
    assert_eq!(Schema::from_json(json).unwrap(), schema());
    let directory = crate::support::in_memory();
    let path = directory.path().join("db");
    let options = small(perdura::EngineKind::NvmInp);
    drop(Database::create(&path, &schema(), &options).unwrap());
    let db = Database::open_or_create(&path, &Schema::from_json(json).unwrap(), &options).unwrap();
    assert_eq!(*db.schema(), schema());
    drop(db);
    // A default belongs to the schema.
    let table = TableSchema::new("job").column("id", ColumnType::U64).key(&["id"]);
    let error = Database::open_or_create(&path, &Schema::new().table(table), &options).unwrap_err();
    assert!(matches!(error, Error::WrongSchema { .. }), "{error}");
}
