//! Stores that never reach the medium, of databases whose data lie in a pool: what a database is
//! like whose medium has lost pages while it was open, and what is saved of one that an older build
//! has left, in which later stores had arrived and the lost one had not.
//!
//! A page is lost by cutting the file off under its mapping (SIGBUS, as of a hole on a full
//! medium), and by giving it back what it had before.

use std::ops::ControlFlow;
use std::path::Path;

use crate::support::{Driver, Model, Tables, compare, contents, few, schema, small_logs};
use perdura::{
    ColumnType, Database, Domain, EngineKind, Error, Options, Scan, Schema, Table, TableSchema, Tx,
    Value, examine_parts, salvage,
};

const PAGE: usize = 4096;

fn options(engine: EngineKind) -> Options {
    small_logs()
        .engine(engine)
        .domain(Domain::Process)
        .chunk_bytes(8 << 10)
        .tune("node_bytes", 128)
        .tune("slots", 4)
        .pool_initial(320 << 10)
}

/// Loses stores from each page in turn on. Whatever else arrives, the file has what a kill leaves
/// when the first of them is lost. One page in so many is needed at least. With a `step` not each page is
/// lost.
fn stores_are_lost(engine: EngineKind, options: &Options, one_in: usize, step: usize) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let db = Database::create(&path, &schema(), options).unwrap();
    let (mut driver, mut before) = (Driver::new(5, 60), Model::default());
    for transaction in 0..30 {
        driver.transaction(&db, &Tables::of(&db), &mut before, 1 + transaction % 7).unwrap();
    }
    db.close().unwrap();
    let sound = std::fs::read(&path).unwrap();
    let (mut failed, mut in_flight) = (0, 0);
    let pages = (0..sound.len() / PAGE).step_by(step);
    let least = pages.len() / one_in;
    for page in pages {
        std::fs::write(&path, &sound).unwrap();
        let db = Database::open(&path, &small_logs()).unwrap();
        let opened = std::fs::read(&path).unwrap();
        let cut = page * PAGE;
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(cut as u64).unwrap();
        let (mut driver, mut model) = (Driver::new(page as u64, 60), before.clone());
        let mut states = vec![model.clone()];
        for transaction in 0..25 {
            let done = driver.transaction(&db, &Tables::of(&db), &mut model, 1 + transaction % 5);
            // The transaction that failed was not acknowledged; it may have committed.
            if done.is_err() {
                failed += 1;
                states.push(model.clone());
                break;
            }
            states = vec![model.clone()];
        }
        db.abandon();
        let arrived = std::fs::read(&path).unwrap();
        // Where the pool has grown, what was lost is a hole in it.
        let mut after = arrived[..cut.min(arrived.len())].to_vec();
        after.extend_from_slice(&opened[after.len()..]);
        std::fs::write(&path, &after).unwrap();
        let db = Database::open(&path, &small_logs())
            .unwrap_or_else(|error| panic!("{engine}, page {page}: {error}"));
        let found = contents(&db).unwrap();
        in_flight += usize::from(found != states[0]);
        assert!(states.contains(&found), "{engine}, page {page}");
        compare(&db, &found);
    }
    println!("{engine}: {failed} pages failed, {in_flight} times the last one was there");
    assert!(failed > least, "{engine}: {failed}");
}

/// Options of the engines that change pages in a cache, whose pool has room for all that the test
/// writes: one that grew, by the log, would lie over what is lost.
fn roomy(engine: EngineKind) -> Options {
    options(engine).tune("page_bytes", 512).tune("checkpoint_frames", 40).pool_initial(448 << 10)
}

const CACHED: [EngineKind; 3] = [EngineKind::Nvwal, EngineKind::Journal, EngineKind::Wal];

#[test]
fn what_a_medium_loses_is_lost_as_in_a_kill() {
    few().for_each(|engine| lost_as_in_a_kill(engine, 4));
}

pub(crate) fn lost_as_in_a_kill(engine: EngineKind, step: usize) {
    match engine.traits().needs_files() {
        true => {}
        false if CACHED.contains(&engine) => stores_are_lost(engine, &roomy(engine), 8, step),
        false => stores_are_lost(engine, &options(engine), 4, step),
    }
}

const MARK: u64 = 0x7a31_9d42_c865_f017;
const KEY: &str = "a key that has a slot of its own";
const TEXT: [u8; 60] = *b"a value that has a slot of its own and is sixty bytes long..";

/// A table whose key is a number, or text that does not fit a word, with another index.
fn lost_schema(text_key: bool) -> Schema {
    let table = TableSchema::new("items")
        .column("id", ColumnType::U64)
        .column("name", ColumnType::Text { max: 40 })
        .column("number", ColumnType::U64)
        .column("text", ColumnType::Bytes { max: 60 })
        .key(&[if text_key { "name" } else { "id" }])
        .index("by_number", &["number"]);
    Schema::new().table(table)
}

fn insert(tx: &mut Tx<'_>, table: &Table, id: u64, name: &str, number: u64) {
    let values = [Value::U64(id), Value::Text(name), Value::U64(number), Value::Bytes(&TEXT)];
    tx.insert(table, &values).unwrap();
}

/// A database with 200 tuples, killed in a transaction.
fn killed(engine: EngineKind, path: &Path, schema: &Schema, act: impl FnOnce(&mut Tx<'_>, &Table)) {
    let db = Database::create(path, schema, &options(engine)).unwrap();
    let table = db.table("items").unwrap();
    for id in 0..200 {
        db.write(|tx| {
            insert(tx, &table, id, &format!("{id:020}"), id % 7);
            Ok(())
        })
        .unwrap();
    }
    let mut tx = db.begin().unwrap();
    act(&mut tx, &table);
    std::mem::forget(tx);
    // The lock of the partition goes on: the file is looked at as a kill leaves it.
    let killed = std::fs::read(path).unwrap();
    std::mem::forget(db);
    std::fs::remove_file(path).unwrap();
    std::fs::write(path, killed).unwrap();
}

/// Fills `len` bytes from `before` bytes before each copy of `bytes` on.
fn overwrite(path: &Path, bytes: &[u8], before: usize, len: usize, with: u8) {
    let mut all = std::fs::read(path).unwrap();
    let found: Vec<usize> =
        (0..all.len() - bytes.len()).filter(|at| all[*at..].starts_with(bytes)).collect();
    assert!(!found.is_empty(), "they are in the file");
    for at in found {
        all[at - before..at - before + len].fill(with);
    }
    std::fs::write(path, all).unwrap();
}

/// By the primary key and by the other index.
fn ids(db: &Database) -> [Vec<u64>; 2] {
    let table = db.table("items").unwrap();
    [Scan::all(), Scan::all().by("by_number")].map(|scan| {
        let mut ids = Vec::new();
        db.read(|tx| {
            tx.scan(&table, &scan, |row| {
                ids.push(row.u64(0));
                ControlFlow::Continue(())
            })
        })
        .unwrap();
        ids.sort_unstable();
        ids
    })
}

fn opens_without_it(engine: EngineKind, path: &Path, leaked: u64) {
    let to = path.with_extension("saved");
    let saved = salvage(path, &to).unwrap();
    assert!(saved.findings.is_empty(), "{engine}: {:?}", saved.findings);
    assert_eq!(saved.tuples(), 200, "{engine}");
    let all: Vec<u64> = (0..200).collect();
    for path in [path, &to] {
        let db = Database::open(path, &small_logs()).unwrap();
        assert_eq!(ids(&db), [all.clone(), all.clone()], "{engine}");
        let report = db.check().unwrap();
        let leaked = if path == to { 0 } else { leaked };
        assert_eq!((report.tuples, report.dangling, report.leaked), (200, 0, leaked), "{engine}");
    }
}

#[test]
fn an_insert_of_which_nothing_arrived_is_undone() {
    for engine in [EngineKind::NvmInp, EngineKind::NvmLog] {
        for text_key in [false, true] {
            let place = tempfile::tempdir().unwrap();
            let path = place.path().join("db");
            killed(engine, &path, &lost_schema(text_key), |tx, table| {
                insert(tx, table, 1000, "000 an earlier operation", 3);
                insert(tx, table, 2000, KEY, MARK);
            });
            // The words of the tuple, of which the third is the number.
            overwrite_words(&path);
            opens_without_it(engine, &path, 2);
        }
    }
}

/// The tuple is distinguished from entries of the other index, whose keys are big-endian.
fn overwrite_words(path: &Path) {
    overwrite(path, &MARK.to_le_bytes(), 16, 32, 0);
}

#[test]
fn an_insert_whose_key_did_not_arrive_is_undone() {
    for engine in [EngineKind::NvmInp, EngineKind::NvmLog] {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("db");
        killed(engine, &path, &lost_schema(true), |tx, table| {
            insert(tx, table, 2000, KEY, MARK);
        });
        // The slot alone: nodes of trees have the key with its length after the padding.
        let mut all = std::fs::read(&path).unwrap();
        let slots: Vec<usize> = (0..all.len() - 64)
            .filter(|at| all[*at..].starts_with(KEY.as_bytes()))
            .filter(|at| all[at + 40..at + 42] != (KEY.len() as u16).to_be_bytes())
            .collect();
        assert_eq!(slots.len(), 1, "{engine}");
        all[slots[0]..slots[0] + KEY.len()].fill(0);
        std::fs::write(&path, all).unwrap();
        opens_without_it(engine, &path, 0);
    }
}

#[test]
fn an_update_whose_entry_did_not_arrive_is_undone() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("db");
    killed(EngineKind::NvmLog, &path, &lost_schema(false), |tx, table| {
        tx.update(table, &[Value::U64(77)], &[(2, Value::U64(MARK))]).unwrap();
    });
    overwrite_words(&path);
    opens_without_it(EngineKind::NvmLog, &path, 0);
}

/// An insert that is neither lost nor right is damage, as ever: the database does not open, and all
/// but the damage is saved.
#[test]
fn an_insert_that_has_rotted_is_damage_and_costs_nothing_else() {
    for engine in [EngineKind::NvmInp, EngineKind::NvmLog] {
        let place = tempfile::tempdir().unwrap();
        let (path, to) = (place.path().join("db"), place.path().join("saved"));
        killed(engine, &path, &lost_schema(false), |tx, table| {
            insert(tx, table, 1000, "an earlier operation", 3);
            insert(tx, table, 2000, KEY, MARK);
        });
        overwrite(&path, &MARK.to_le_bytes(), 0, 1, 0xee);
        let error = Database::open(&path, &small_logs()).unwrap_err();
        assert!(matches!(error, Error::Damaged(_)), "{engine}: {error}");
        let examined = examine_parts(&path, &small_logs()).unwrap();
        let told = examined.findings.listed[0].to_string();
        assert!(told.contains("inserted") && told.contains("offset 0x"), "{engine}: {told}");
        let saved = salvage(&path, &to).unwrap();
        assert_eq!((saved.tuples(), saved.findings.total()), (200, 1), "{engine}");
        let db = Database::open(&to, &small_logs()).unwrap();
        let all: Vec<u64> = (0..200).collect();
        assert_eq!(ids(&db), [all.clone(), all], "{engine}");
        db.check().unwrap();
    }
}

/// The log's head is gone: nothing can be undone, and what is committed is saved.
#[test]
fn a_log_that_is_gone_costs_no_tuple() {
    for engine in [EngineKind::NvmInp, EngineKind::NvmLog] {
        let place = tempfile::tempdir().unwrap();
        let (path, to) = (place.path().join("db"), place.path().join("saved"));
        killed(engine, &path, &lost_schema(false), |_, _| ());
        let mut all = std::fs::read(&path).unwrap();
        let name = format!("{engine}/0").into_bytes();
        let at = all.windows(name.len()).position(|part| part == name).unwrap();
        let root = u64::from_le_bytes(all[at + 48..at + 56].try_into().unwrap()) as usize;
        all[root..root + 64].fill(0);
        std::fs::write(&path, all).unwrap();
        assert!(Database::open(&path, &small_logs()).is_err(), "{engine}");
        let saved = salvage(&path, &to).unwrap();
        assert_eq!((saved.tuples(), saved.findings.total()), (200, 1), "{engine}");
    }
}
