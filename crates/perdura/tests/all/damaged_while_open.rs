//! The log of `nvm-inp` leads to something that rots while a transaction is open. An abort that
//! cannot undo it says so and stops the partition, and the next opening finds the damage, too:
//! neither takes it for something that had not persisted, which would leave the transaction's
//! changes in place.

use crate::support::small_logs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use perdura::{
    ColumnType, Database, Domain, EngineKind, Error, Isolation, Schema, Table, TableSchema, Tx,
    Value,
};

const BEFORE: [u8; 60] = *b"what stands in the column before the transaction changes it.";
const NUMBER: u64 = 0x7a31_9d42_c865_f017;

fn schema() -> Schema {
    let table = TableSchema::new("items")
        .column("id", ColumnType::U64)
        .column("number", ColumnType::U64)
        .column("text", ColumnType::Bytes { max: 60 })
        .key(&["id"])
        .inline_columns();
    Schema::new().table(table)
}

/// Turns a bit of every copy of `bytes` in a file that is mapped.
fn rot(path: &Path, bytes: &[u8]) {
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let all = std::fs::read(path).unwrap();
    let copies: Vec<usize> =
        (0..all.len() - bytes.len()).filter(|at| all[*at..].starts_with(bytes)).collect();
    assert!(!copies.is_empty(), "they are in the file");
    for at in copies {
        file.write_all_at(&[bytes[0] ^ 4], at as u64).unwrap();
    }
}

fn abort_fails(act: impl FnOnce(&mut Tx<'_>, &Table), rotten: &[u8], expected: &str) {
    let directory = crate::support::in_memory();
    let path = directory.path().join("db");
    let options = small_logs().engine(EngineKind::NvmInp).domain(Domain::Process);
    let db = Database::create(&path, &schema(), &options).unwrap();
    let table = db.table("items").unwrap();
    let old = [Value::U64(1), Value::U64(0), Value::Bytes(&BEFORE)];
    db.write(|tx| tx.insert(&table, &old)).unwrap();
    let mut tx = db.begin().unwrap();
    act(&mut tx, &table);
    rot(&path, rotten);
    let is_damaged = |error: Error| match error {
        Error::Damaged(damaged) => assert!(damaged.to_string().contains(expected), "{damaged}"),
        other => panic!("{other}"),
    };
    is_damaged(tx.abort().unwrap_err());
    let stopped = db.write(|tx| tx.delete(&table, &[Value::U64(1)]));
    assert!(stopped.unwrap_err().to_string().contains("stopped after a failure"));
    drop(db);
    is_damaged(Database::open(&path, &small_logs()).unwrap_err());
}

#[test]
fn an_image_that_rots_is_found_by_the_abort() {
    let act = |tx: &mut Tx<'_>, table: &Table| {
        let change = [(2, Value::Bytes(&b"something else"[..]))];
        tx.update(table, &[Value::U64(1)], &change).unwrap();
    };
    abort_fails(act, &BEFORE, "image of a column");
}

#[test]
fn a_tuple_that_rots_is_found_by_the_abort() {
    let act = |tx: &mut Tx<'_>, table: &Table| {
        tx.insert(table, &[Value::U64(2), Value::U64(NUMBER), Value::Bytes(b"")]).unwrap();
    };
    abort_fails(act, &NUMBER.to_le_bytes(), "inserted tuple");
}

/// The number of a row of `sofort`, its place in the array of rows; the version that replaces it
/// has it.
const ROW: u64 = 2_777;

/// Something that a serializable transaction has read rots before its commit looks at that again.
/// Nothing is in doubt: the transaction is undone, and others go on.
#[test]
fn damage_that_a_validation_finds_undoes_its_transaction_alone() {
    let directory = crate::support::in_memory();
    let path = directory.path().join("db");
    let options = small_logs().engine(EngineKind::Sofort).domain(Domain::Process);
    let options = options.isolation(Isolation::Serializable).retry_for(Duration::ZERO);
    let table = TableSchema::new("items").column("id", ColumnType::U64);
    let table = table.column("number", ColumnType::U64).key(&["id"]);
    let db = Database::create(&path, &Schema::new().table(table), &options).unwrap();
    let table = db.table("items").unwrap();
    let key = |row: u64| [Value::U64(10_000 + row)];
    let row = |row: u64| [Value::U64(10_000 + row), Value::U64(7)];
    db.write(|tx| (1..3_000).try_for_each(|number| tx.insert(&table, &row(number)))).unwrap();
    let mut tx = db.begin().unwrap();
    assert!(tx.get(&table, &key(ROW)).unwrap().is_some());
    tx.update(&table, &key(5), &[(1, Value::U64(8))]).unwrap();
    db.update(&table, &key(ROW), &[(1, Value::U64(9))]).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    let all = std::fs::read(&path).unwrap();
    let copies: Vec<usize> =
        (0..all.len()).step_by(8).filter(|at| all[*at..].starts_with(&ROW.to_le_bytes())).collect();
    assert!(!copies.is_empty(), "the new version leads to the old one");
    for at in copies {
        file.write_all_at(&(u64::MAX >> 8).to_le_bytes(), at as u64).unwrap();
    }
    let found = tx.commit().map(drop);
    assert!(matches!(found, Err(Error::Damaged(_))), "{found:?}");
    assert_eq!(db.get(&table, &key(5)).unwrap().unwrap().u64(1), 7, "it is undone");
    db.update(&table, &key(5), &[(1, Value::U64(10))]).unwrap();
    assert_eq!(db.get(&table, &key(5)).unwrap().unwrap().u64(1), 10);
}
