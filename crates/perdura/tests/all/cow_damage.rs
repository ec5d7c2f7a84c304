//! Damaged files of CoW (`docs/reliability.md`, "Bad inputs"): each gives a clear error, or works,
//! and never a panic. Places in the file are from `docs/format/directory.md`.

use std::path::{Path, PathBuf};

use crate::support::{Driver, Model, Tables, compare, schema, small_logs};
use perdura::{
    ColumnType, Database, Domain, EngineKind, Error, Options, Schema, TableSchema, Value,
};

const COPIES: [usize; 2] = [4096, 8192];
const DATA_AT: usize = 12_288;
const PAGE_BYTES: usize = 512;

fn options() -> Options {
    small_logs()
        .engine(EngineKind::Cow)
        .domain(Domain::Process)
        .tune("page_bytes", PAGE_BYTES as u64)
        .tune("cache_bytes", 64 << 10)
}

/// A database with a few hundred tuples, closed; its file; what is in it.
fn database(directory: &Path) -> (PathBuf, PathBuf, Model) {
    let path = directory.join("db");
    let db = Database::create(&path, &schema(), &options()).unwrap();
    let (tables, mut driver, mut model) = (Tables::of(&db), Driver::new(1, 200), Model::default());
    for transaction in 0..120 {
        driver.transaction(&db, &tables, &mut model, 1 + transaction % 7).unwrap();
    }
    db.close().unwrap();
    let file = directory.join("db.files").join("cow-0");
    (path, file, model)
}

fn refused(path: &Path, words: &str) {
    match Database::open(path, &options()) {
        Ok(_) => panic!("it opens; it should say `{words}`"),
        Err(error) => assert!(error.to_string().contains(words), "{error}"),
    }
}

#[test]
fn either_copy_of_the_master_record_is_enough() {
    let directory = crate::support::in_memory();
    let (path, file, mut model) = database(directory.path());
    let sound = std::fs::read(&file).unwrap();
    for copy in COPIES {
        for at in (copy..copy + 80).step_by(7) {
            let mut bytes = sound.clone();
            bytes[at] ^= 0x10;
            std::fs::write(&file, &bytes).unwrap();
            let db = Database::open(&path, &options()).unwrap();
            compare(&db, &model);
            db.abandon();
        }
    }
    let mut bytes = sound.clone();
    for copy in COPIES {
        bytes[copy + 20] ^= 1;
    }
    std::fs::write(&file, &bytes).unwrap();
    refused(&path, "both copies of its master record");
    // With one of them the database works as before.
    let mut bytes = sound;
    bytes[COPIES[0]..COPIES[0] + 72].fill(0xff);
    std::fs::write(&file, &bytes).unwrap();
    let db = Database::open(&path, &options()).unwrap();
    let (tables, mut driver) = (Tables::of(&db), Driver::new(9, 200));
    for _ in 0..20 {
        driver.transaction(&db, &tables, &mut model, 4).unwrap();
    }
    db.close().unwrap();
    compare(&Database::open(&path, &options()).unwrap(), &model);
}

#[test]
fn a_file_with_a_damaged_header_is_named() {
    let directory = crate::support::in_memory();
    let (path, file, model) = database(directory.path());
    let sound = std::fs::read(&file).unwrap();
    for at in 0..32 {
        let mut bytes = sound.clone();
        bytes[at] ^= 4;
        std::fs::write(&file, &bytes).unwrap();
        refused(&path, "cow-0");
    }
    let mut bytes = sound.clone();
    bytes[8..12].copy_from_slice(&9u32.to_le_bytes());
    std::fs::write(&file, &bytes).unwrap();
    refused(&path, "has format version 9");
    for len in [0, 1, 31, 4096, COPIES[0] + 8] {
        std::fs::write(&file, &sound[..len]).unwrap();
        refused(&path, "is damaged");
    }
    for len in [DATA_AT, DATA_AT + PAGE_BYTES, DATA_AT + 4 * PAGE_BYTES + 5] {
        std::fs::write(&file, &sound[..len]).unwrap();
        refused(&path, "it ends before the page");
    }
    std::fs::remove_file(&file).unwrap();
    refused(&path, "cannot open cow-0");
    // Garbage after the pages is room for more.
    let mut bytes = sound;
    bytes.extend(vec![0xa5; 3 * PAGE_BYTES + 17]);
    std::fs::write(&file, &bytes).unwrap();
    compare(&Database::open(&path, &options()).unwrap(), &model);
}

#[test]
fn the_file_of_another_database_is_refused() {
    let directory = crate::support::in_memory();
    let (path, file, _) = database(directory.path());
    let table = TableSchema::new("t").column("id", ColumnType::U64).key(&["id"]);
    let other = directory.path().join("other");
    let small = Schema::new().table(table);
    Database::create(&other, &small, &options()).unwrap().close().unwrap();
    std::fs::copy(directory.path().join("other.files").join("cow-0"), &file).unwrap();
    refused(&path, "belongs to another database or partition");
}

/// Every page in turn: what leads through it is an error, and so is the check.
#[test]
fn a_damaged_page_is_an_error_where_it_is_read() {
    let directory = crate::support::in_memory();
    let (path, file, model) = database(directory.path());
    let sound = std::fs::read(&file).unwrap();
    let (mut noticed, mut unused) = (0, 0);
    for page in (DATA_AT..sound.len()).step_by(PAGE_BYTES) {
        let mut bytes = sound.clone();
        bytes[page + 13] ^= 2;
        std::fs::write(&file, &bytes).unwrap();
        let db = Database::open(&path, &options()).unwrap();
        match db.check() {
            Ok(_) => {
                unused += 1;
                compare(&db, &model);
            }
            Err(error) => {
                noticed += 1;
                assert!(matches!(error, Error::Damaged(_)), "{error}");
                let tables = Tables::of(&db);
                let mut failed = 0;
                for key in model.items.keys() {
                    let mut row = perdura::Row::new();
                    match db.read(|tx| tx.get_into(&tables.item, &[Value::U64(*key)], &mut row)) {
                        Ok(found) => assert!(found),
                        Err(Error::Damaged(_) | Error::Engine(_)) => failed += 1,
                        Err(other) => panic!("{other}"),
                    }
                    // Changing is refused as a whole, or done.
                    let flag = [(4, Value::Bytes(b"x"))];
                    let done = db.write(|tx| tx.update(&tables.item, &[Value::U64(*key)], &flag));
                    assert!(matches!(done, Ok(()) | Err(Error::Damaged(_) | Error::Engine(_))));
                }
                assert!(failed <= model.items.len());
            }
        }
        db.abandon();
    }
    println!("{noticed} pages noticed, {unused} unused");
    assert!(noticed > 50);
}

/// Killed again and again, the file grows by what was in flight at most: dead directories are
/// collected while transactions go on.
#[test]
fn what_crashes_leave_behind_is_used_again() {
    for engine in [EngineKind::Cow, EngineKind::NvmCow] {
        let directory = crate::support::in_memory();
        let mut path = directory.path().join("db");
        let options = options().engine(engine).chunk_bytes(16 << 10).tune("tree_node_bytes", 128);
        let mut db = Database::create(&path, &schema(), &options).unwrap();
        let (mut driver, mut model) = (Driver::new(7, 500), Model::default());
        let mut sizes = Vec::new();
        for transaction in 0..3000 {
            driver.transaction(&db, &Tables::of(&db), &mut model, 1 + transaction % 8).unwrap();
        }
        for round in 0..12 {
            let tables = Tables::of(&db);
            for transaction in 0..150 {
                driver.transaction(&db, &tables, &mut model, 1 + transaction % 6).unwrap();
            }
            let (mut tx, mut unfinished) = (db.begin().unwrap(), model.clone());
            for _ in 0..40 {
                driver.operation(&mut tx, &tables, &mut unfinished).unwrap();
            }
            // As a kill: the transaction is open, nothing is finished.
            let copy = directory.path().join(format!("copy-{round}"));
            copy_files(&path, &copy);
            drop(tx);
            db.abandon();
            db = Database::open(&copy, &small_logs().tune("cache_bytes", 64 << 10)).unwrap();
            compare(&db, &model);
            sizes.push(db.stored_bytes().unwrap());
            path = copy;
        }
        println!("{engine}: {sizes:?}");
        assert!(sizes[11] <= sizes[2] + sizes[2] / 10, "{engine}: {sizes:?}");
        db.abandon();
    }
}

fn copy_files(from: &Path, to: &Path) {
    std::fs::copy(from, to).unwrap();
    let files = |path: &Path| PathBuf::from(format!("{}.files", path.display()));
    if files(from).exists() {
        std::fs::create_dir(files(to)).unwrap();
        for name in ["cow-0", "identity"] {
            std::fs::copy(files(from).join(name), files(to).join(name)).unwrap();
        }
    }
}
