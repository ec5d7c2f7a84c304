//! The copy-on-write engines in trouble: a snapshot that fills the pool, a sync that fails, a
//! master record that is lost, a medium that fails under a reader.

use std::fs::OpenOptions;

use crate::support::{Driver, Model, Tables, compare, contents, schema, small_logs};
use perdura::{
    ColumnType, Database, Domain, EngineKind, Error, Row, Scan, Schema, TableSchema, Value,
};
use sim::{Recording, RecordingFiles};

/// Rows that fill more than half of a pool of 1 MiB.
const ROWS: u64 = 1100;

fn small() -> Schema {
    let table = TableSchema::new("t").column("k", ColumnType::U64);
    Schema::new().table(table.column("v", ColumnType::Bytes { max: 400 }).key(&["k"]))
}

/// The room that only a snapshot kept is free as soon as it is needed.
#[test]
fn a_pool_that_a_snapshot_has_filled_is_not_full_when_it_has_gone() {
    let directory = crate::support::in_memory();
    let options = small_logs()
        .engine(EngineKind::NvmCow)
        .domain(Domain::Process)
        .chunk_bytes(8 << 10)
        .pool_limit(1 << 20);
    let db = Database::create(directory.path().join("db"), &small(), &options).unwrap();
    let t = db.table("t").unwrap();
    let value = [7; 400];
    for key in 0..ROWS {
        db.write(|tx| tx.insert(&t, &[Value::U64(key), Value::Bytes(&value)])).unwrap();
    }
    let snapshot = db.snapshot().unwrap();
    let mut updates = 0u64;
    let full = loop {
        let key = [Value::U64(updates)];
        match db.write(|tx| tx.update(&t, &key, &[(1, Value::Bytes(&value))])) {
            Ok(()) => updates += 1,
            Err(error) => break error,
        }
        assert!(updates < ROWS, "the snapshot keeps a copy of each row");
    };
    assert!(matches!(full, Error::Full(_)), "{full}");
    drop(snapshot);
    for key in 0..2 * ROWS {
        let key = [Value::U64(key % ROWS)];
        db.write(|tx| tx.update(&t, &key, &[(1, Value::Bytes(&value))])).unwrap();
    }
    db.check().unwrap();
}

/// A snapshot that stays keeps what it has seen, not each copy made since.
#[test]
fn a_snapshot_that_stays_costs_what_it_has_seen() {
    let directory = crate::support::in_memory();
    for engine in [EngineKind::NvmCow, EngineKind::Cow] {
        let options = small_logs()
            .engine(engine)
            .domain(Domain::Process)
            .chunk_bytes(8 << 10)
            .pool_limit(2 << 20);
        let path = directory.path().join(engine.name());
        let db = Database::create(path, &small(), &options).unwrap();
        let t = db.table("t").unwrap();
        for key in 0..50 {
            db.write(|tx| tx.insert(&t, &[Value::U64(key), Value::Bytes(&[1; 400])])).unwrap();
        }
        let snapshot = db.snapshot().unwrap();
        // Half a pool for each thousand, if all copies stayed.
        for round in 0..10_000u64 {
            let value = [round as u8; 400];
            let change = [(1, Value::Bytes(&value))];
            db.write(|tx| tx.update(&t, &[Value::U64(7)], &change)).unwrap();
        }
        let mut row = Row::new();
        assert!(snapshot.get_into(&t, &[Value::U64(7)], &mut row).unwrap());
        assert_eq!(row.bytes(1), [1; 400]);
        assert!(db.footprint().unwrap().total() < 4 << 20, "{engine}");
    }
}

/// A change that could not be made durable is never shown.
#[test]
fn snapshots_do_not_show_a_commit_that_failed() {
    let memory = Recording::pool(64 << 10, 4 << 20).unwrap();
    let files = RecordingFiles::new();
    let media = faults::recorded(memory, files.clone());
    let db = Database::create_on(media, &small(), &small_logs().engine(EngineKind::Cow)).unwrap();
    let t = db.table("t").unwrap();
    db.write(|tx| tx.insert(&t, &[Value::U64(1), Value::Bytes(b"a")])).unwrap();
    let before = db.snapshot().unwrap();
    files.fail_after(Some(1));
    let failed = db.write(|tx| tx.insert(&t, &[Value::U64(2), Value::Bytes(b"b")]));
    files.fail_after(None);
    failed.unwrap_err();
    let stopped = |error: Error| error.to_string().contains("stopped");
    assert!(stopped(db.snapshot().unwrap_err()));
    assert!(stopped(before.get_into(&t, &[Value::U64(2)], &mut Row::new()).unwrap_err()));
    let scanned = before.scan(&t, &Scan::all(), |_| std::ops::ControlFlow::Continue(()));
    assert!(stopped(scanned.unwrap_err()));
    db.abandon();
}

/// The first copy of the master record is damaged, and the second is of a directory whose pages
/// have been used again since: the last transactions are gone, and that is reported, not served.
#[test]
fn pages_of_transactions_whose_master_record_is_lost_are_damage() {
    let directory = crate::support::in_memory();
    let path = directory.path().join("db");
    let options = small_logs()
        .engine(EngineKind::Cow)
        .domain(Domain::Process)
        .tune("page_bytes", 512)
        .tune("cache_bytes", 64 << 10);
    let db = Database::create(&path, &schema(), &options).unwrap();
    let (tables, mut driver, mut model) = (Tables::of(&db), Driver::new(3, 100), Model::default());
    for transaction in 0..60 {
        driver.transaction(&db, &tables, &mut model, 1 + transaction % 7).unwrap();
    }
    db.close().unwrap();
    let file = directory.path().join("db.files").join("cow-0");
    let old = std::fs::read(&file).unwrap();
    let db = Database::open(&path, &options).unwrap();
    assert_eq!(db.recovery_report().second_copies, 0);
    let (tables, mut later) = (Tables::of(&db), model.clone());
    for transaction in 0..200 {
        driver.transaction(&db, &tables, &mut later, 1 + transaction % 7).unwrap();
    }
    db.close().unwrap();
    Database::open(&path, &options).unwrap().abandon();
    let mut mixed = std::fs::read(&file).unwrap();
    mixed[4096..12_288].copy_from_slice(&old[4096..12_288]);
    mixed[4096 + 20] ^= 1;
    std::fs::write(&file, mixed).unwrap();
    let refused = Database::open(&path, &options).unwrap_err().to_string();
    assert!(refused.contains("another moment"), "{refused}");
    // Where nothing says how it ended, reading finds it.
    let identity = directory.path().join("db.files").join("identity");
    let mut bytes = std::fs::read(&identity).unwrap();
    bytes[4608..].fill(0);
    std::fs::write(&identity, bytes).unwrap();
    let db = Database::open(&path, &options).unwrap();
    assert_eq!(db.recovery_report().second_copies, 1);
    let read = contents(&db).unwrap_err().to_string();
    assert!(read.contains("page of a later transaction"), "{read}");
    db.check().unwrap_err();
    db.abandon();
    std::fs::write(&file, old).unwrap();
    compare(&Database::open(&path, &options).unwrap(), &model);
}

/// A medium that fails reads as zeros: that a key is not there is then an error, too.
#[test]
fn a_read_that_meets_a_media_error_does_not_say_that_there_is_nothing() {
    for engine in [EngineKind::NvmInp, EngineKind::NvmCow, EngineKind::NvmLog] {
        let directory = crate::support::in_memory();
        let path = directory.path().join("db");
        let options = small_logs().engine(engine).domain(Domain::Process);
        let db = Database::create(&path, &small(), &options).unwrap();
        let t = db.table("t").unwrap();
        for key in 0..3000 {
            db.write(|tx| tx.insert(&t, &[Value::U64(key), Value::Bytes(&[1; 100])])).unwrap();
        }
        db.close().unwrap();
        let db = Database::open(&path, &options).unwrap();
        let t = db.table("t").unwrap();
        let snapshot = db.snapshot().ok();
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        let bytes = file.metadata().unwrap().len();
        file.set_len(32 << 10).unwrap();
        let mut row = Row::new();
        // The first read that touches a lost page, and all after it.
        let mut failed = false;
        for key in 0..6000 {
            let key = [Value::U64(key)];
            let found = match &snapshot {
                Some(snapshot) => snapshot.get_into(&t, &key, &mut row),
                None => db.read(|tx| tx.get_into(&t, &key, &mut row)),
            };
            failed |= found.is_err();
            assert!(failed || matches!(found, Ok(true)), "{engine}: {found:?} for {key:?}");
        }
        assert!(failed, "{engine}");
        file.set_len(bytes).unwrap();
        db.abandon();
    }
}
