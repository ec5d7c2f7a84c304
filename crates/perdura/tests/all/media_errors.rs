//! A medium that fails under a database (`docs/reliability.md`, "Bad inputs" 16), at each of its
//! pages in turn: header, allocator, log, leaf, free space. An error, never a dead process; nothing
//! is acknowledged any more; and where the medium comes back, what was acknowledged is there.
//!
//! The failure is a file that is cut off under its mapping, which gives SIGBUS as poisoned memory
//! does. (UFFDIO_POISON needs rights that tests do not have everywhere.)

use std::ops::ControlFlow;

use crate::support::{
    Driver, Item, Model, Tables, compare, insert_item, item_of, schema, small_logs,
};
use perdura::{Database, Domain, EngineKind, Error, Options, Scan};

const PAGE: u64 = 4096;

fn options(engine: EngineKind) -> Options {
    small_logs().engine(engine).domain(Domain::Process).chunk_bytes(8 << 10).tune("node_bytes", 128)
}

/// Options of the engines on slotted pages, whose pool has room for all that the test writes: one
/// that grew would lie over what has failed.
pub(crate) fn slotted(engine: EngineKind) -> Options {
    options(engine).tune("page_bytes", 512).tune("checkpoint_frames", 40).pool_initial(448 << 10)
}

/// Options of the column store, with few slots, and room for all that the test writes.
fn columns() -> Options {
    options(EngineKind::Sofort).tune("slots", 4).tune("most_rows", 128).pool_initial(448 << 10)
}

fn item() -> Item {
    Item { name: "x".into(), payload: vec![1; 100], count: 1, flag: vec![], score: 0.5 }
}

/// The items in order. What a scan has shown by the time at which it fails may be anything.
fn items(db: &Database) -> Result<Vec<(u64, Item)>, Error> {
    let (tables, mut items) = (Tables::of(db), Vec::new());
    db.read(|tx| {
        tx.scan(&tables.item, &Scan::all(), |row| {
            items.push(item_of(row));
            ControlFlow::Continue(())
        })
    })?;
    Ok(items)
}

/// Lets each page fail, or every `step`th; one in so many is read at least.
pub(crate) fn pages_fail(engine: EngineKind, options: &Options, one_in: usize, step: usize) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let db = Database::create(&path, &schema(), options).unwrap();
    let (mut driver, mut model) = (Driver::new(3, 60), Model::default());
    for transaction in 0..40 {
        driver.transaction(&db, &Tables::of(&db), &mut model, 1 + transaction % 7).unwrap();
    }
    db.close().unwrap();
    let sound = std::fs::read(&path).unwrap();
    let (mut wrong, mut right) = (0, 0);
    for page in (0..sound.len() as u64 / PAGE).step_by(step) {
        for write in [false, true] {
            std::fs::write(&path, &sound).unwrap();
            let db = Database::open(&path, &small_logs()).unwrap();
            let tables = Tables::of(&db);
            let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
            file.set_len(page * PAGE).unwrap();
            if write {
                let mut failed = false;
                for key in 1000..1020 {
                    let done = db.write(|tx| insert_item(tx, &tables, key, &item()));
                    assert!(!failed || done.is_err(), "{engine}, page {page}: after a failure");
                    failed |= done.is_err();
                }
            }
            match items(&db) {
                Ok(found) if write => assert!(found.len() >= model.items.len()),
                Ok(found) => {
                    assert!(found.into_iter().eq(model.items.clone()), "right, if nothing is said");
                    right += 1;
                }
                Err(_) => wrong += 1,
            }
            let _ = (db.check(), db.footprint(), db.examine());
            let copy = directory.path().join("copy");
            if db.backup(&copy).is_ok() {
                std::fs::remove_file(&copy).unwrap();
            }
            let _ = db.dump_to(
                &mut Vec::new(),
                "copy",
                std::slice::from_ref(&tables.item),
                &mut |_| (),
            );
            // Nothing lies over what has failed.
            assert_eq!(
                std::fs::metadata(&path).unwrap().len(),
                page * PAGE,
                "{engine}: it has grown"
            );
            if db.close().is_ok() {
                // The lost part has not been touched.
                assert!(std::fs::metadata(&path).unwrap().len() == page * PAGE);
            }
            assert!(Database::open(&path, &small_logs()).is_err(), "it is cut off");
        }
        // The medium comes back: reading has changed nothing.
        std::fs::write(&path, &sound).unwrap();
        if page % 8 == 0 {
            compare(&Database::open(&path, &small_logs()).unwrap(), &model);
        }
    }
    println!("{engine}: {wrong} errors, {right} pages that reading does not need");
    assert!(wrong * one_in > wrong + right, "{engine}: {wrong} {right}");
}

#[test]
fn a_medium_that_fails_at_some_pages_gives_errors() {
    in_pools(4);
    // One of the engines on slotted pages, whose code is the same.
    pages_fail(EngineKind::Fast, &slotted(EngineKind::Fast), 4, 4);
}

/// The same of the other engines whose data lie in the pool.
pub(crate) fn in_pools(step: usize) {
    for engine in EngineKind::P1.into_iter().filter(|kind| !kind.traits().needs_files()) {
        pages_fail(engine, &options(engine), 2, step);
    }
    pages_fail(EngineKind::Sofort, &columns(), 4, step);
}
