//! The particulars of Log: levels, tombstones above live tuples, partial entries over several runs,
//! space, work in the background, damaged and missing files, full disks.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use crate::support::{Driver, Model, Tables, compare, contents, schema, small_logs};
use perdura::{
    Database, Domain, EngineKind, Error, LogStats, Options, OwnStats, Row, Scan, Table, Value,
};
use sim::{Recorded, Recording, RecordingFiles};

fn own(db: &Database) -> LogStats {
    match db.stats().unwrap().own {
        OwnStats::Log(own) => own,
        other => panic!("{other:?}"),
    }
}

fn options() -> Options {
    small_logs()
        .engine(EngineKind::Log)
        .domain(Domain::Process)
        .tune("memtable_bytes", 8 << 10)
        .tune("growth", 3)
        .tune("level0_runs", 2)
        .tune("block_bytes", 512)
        .tune("cache_bytes", 64 << 10)
        .tune("wal_reserve_bytes", 16 << 10)
        .pool_limit(1 << 30)
        .volatile_limit(1 << 30)
}

/// No merge comes by itself.
fn unmerged() -> Options {
    options().tune("level0_runs", 1000).tune("memtable_bytes", 1 << 20)
}

struct Store {
    db: Database,
    path: PathBuf,
    _directory: tempfile::TempDir,
}

impl Store {
    fn new(options: &Options) -> Self {
        let directory = crate::support::in_memory();
        let path = directory.path().join("db");
        let db = Database::create(&path, &schema(), options).unwrap();
        Self { db, path, _directory: directory }
    }

    fn files(&self) -> PathBuf {
        PathBuf::from(format!("{}.files", self.path.display()))
    }
}

fn item(number: u64) -> crate::support::Item {
    crate::support::Item {
        name: format!("n{}", number % 50),
        payload: vec![number as u8; 100],
        count: number as i64 % 7,
        flag: vec![],
        score: number as f64,
    }
}

fn put(db: &Database, model: &mut Model, key: u64, version: u64) {
    let tables = Tables::of(db);
    let new = item(version);
    db.write(|tx| match model.items.contains_key(&key) {
        true => crate::support::update_item(tx, &tables, key, &new, 31),
        false => crate::support::insert_item(tx, &tables, key, &new),
    })
    .unwrap();
    model.items.insert(key, new);
}

fn delete(db: &Database, model: &mut Model, key: u64) {
    let tables = Tables::of(db);
    db.write(|tx| tx.delete(&tables.item, &[Value::U64(key)])).unwrap();
    model.items.remove(&key);
}

#[test]
fn runs_go_down_three_levels_and_more() {
    let store = Store::new(&options());
    let mut model = Model::default();
    let mut deepest = 0;
    for number in 0..6000u64 {
        put(&store.db, &mut model, number.wrapping_mul(0x9e37_79b9) % 3000, number);
        if number % 5 == 0 {
            let (&key, _) = model.items.range(number % 3000..).next().unwrap_or((&0, &item(0)));
            if model.items.contains_key(&key) {
                delete(&store.db, &mut model, key);
            }
        }
        if number % 500 == 0 {
            let runs = own(&store.db).levels.runs;
            deepest = deepest.max(runs.iter().rposition(|runs| *runs > 0).unwrap_or(0));
            assert!(runs.iter().skip(1).all(|runs| *runs <= 2), "{runs:?}");
            assert!(runs[0] <= 6, "{runs:?}");
        }
    }
    compare(&store.db, &model);
    let stats = store.db.stats().unwrap();
    println!("{stats:?}: {:.2}", stats.write_amplification());
    assert!(deepest >= 3 && own(&store.db).levels.merged_bytes[3] > 0, "{deepest} {stats:?}");
    assert_eq!((own(&store.db).stalls, stats.failures), (0, 0), "the pace is right");
    let amplification = stats.write_amplification();
    assert!((2.0..16.0).contains(&amplification), "{amplification}");
    // Everything merged: nothing is left that is dead.
    while store.db.background(1 << 20).unwrap() > 0 {}
    compare(&store.db, &model);
    store.db.close().unwrap();
    let db = Database::open(&store.path, &small_logs()).unwrap();
    compare(&db, &model);
}

#[test]
fn a_tombstone_hides_the_tuple_below_it_until_both_are_gone() {
    let store = Store::new(&unmerged());
    let mut model = Model::default();
    (0..20).for_each(|key| put(&store.db, &mut model, key, key));
    store.db.checkpoint().unwrap();
    delete(&store.db, &mut model, 7);
    compare(&store.db, &model);
    store.db.checkpoint().unwrap();
    assert_eq!(own(&store.db).levels.runs[0], 2);
    compare(&store.db, &model);
    // The same key again, over the tombstone, in a third run.
    put(&store.db, &mut model, 7, 70);
    store.db.checkpoint().unwrap();
    compare(&store.db, &model);
    delete(&store.db, &mut model, 7);
    delete(&store.db, &mut model, 8);
    store.db.checkpoint().unwrap();
    compare(&store.db, &model);
    store.db.close().unwrap();
    // Opened with another shape, all of it goes into one run at the bottom.
    let db = Database::open(&store.path, &options().tune("level0_runs", 1).tune("growth", 1000))
        .unwrap();
    while db.background(1 << 20).unwrap() > 0 {}
    compare(&db, &model);
    let levels = own(&db).levels;
    assert_eq!((levels.runs.iter().sum::<u32>(), levels.merges), (1, 1), "{levels:?}");
    let before = levels.run_bytes.iter().sum::<u64>();
    // All deleted: no run is left at all.
    model.items.keys().copied().collect::<Vec<_>>().into_iter().for_each(|key| {
        delete(&db, &mut model, key);
    });
    db.checkpoint().unwrap();
    while db.background(1 << 20).unwrap() > 0 {}
    compare(&db, &model);
    assert!(
        before > 0 && own(&db).levels.runs.iter().all(|runs| *runs == 0),
        "{:?}",
        db.stats().unwrap()
    );
}

#[test]
fn a_tuple_comes_together_from_three_runs_the_memtable_and_the_one_being_written() {
    let store = Store::new(&unmerged());
    let tables = Tables::of(&store.db);
    let mut model = Model::default();
    (0..9).for_each(|key| put(&store.db, &mut model, key, key));
    store.db.checkpoint().unwrap();
    let update = |model: &mut Model, key: u64, columns: u8, version: u64| {
        let new = item(version);
        store.db.write(|tx| crate::support::update_item(tx, &tables, key, &new, columns)).unwrap();
        let stored = model.items.get_mut(&key).unwrap();
        if columns & 1 != 0 {
            stored.name = new.name;
        }
        if columns & 2 != 0 {
            stored.payload = new.payload;
        }
        if columns & 4 != 0 {
            stored.count = new.count;
        }
        if columns & 16 != 0 {
            stored.score = new.score;
        }
    };
    for (round, columns) in [2u8, 16, 4 | 2, 1].into_iter().enumerate() {
        update(&mut model, 3, columns, 100 + round as u64);
        update(&mut model, round as u64, columns, 200);
        compare(&store.db, &model);
        if round < 3 {
            store.db.checkpoint().unwrap();
        }
    }
    assert_eq!(own(&store.db).levels.runs[0], 4);
    compare(&store.db, &model);
    // Each column by itself, in any order and twice, and as plain bytes.
    let mut row = Row::new();
    store
        .db
        .read(|tx| {
            let key = [Value::U64(3)];
            assert!(tx.get_columns_into(&tables.item, &key, &[5, 2, 5, 0], &mut row)?);
            assert_eq!(
                (row.f64(0), row.bytes(1)[0], row.f64(2), row.u64(3)),
                (101.0, 102, 101.0, 3)
            );
            let mut out = [0; 200];
            let bytes = tx.get_bytes(&tables.item, &key, &[3, 2], &mut out)?;
            assert_eq!((bytes, out[0], out[8]), (Some(108), 102 % 7, 102));
            Ok(())
        })
        .unwrap();
    let scanned = |direction: Scan<'static>| {
        let scan = direction.columns(&[0, 5]);
        let mut all = Vec::new();
        store
            .db
            .read(|tx| {
                tx.scan(&tables.item, &scan, |row| {
                    all.push((row.u64(0), row.f64(1)));
                    ControlFlow::Continue(())
                })
            })
            .unwrap();
        all
    };
    let mut expected: Vec<_> = model.items.iter().map(|(key, item)| (*key, item.score)).collect();
    assert_eq!(scanned(Scan::all()), expected);
    expected.reverse();
    assert_eq!(scanned(Scan::all().backward()), expected);
    // An abort brings back what stands in the MemTable and what does not.
    let mut tx = store.db.begin().unwrap();
    for key in 0..9 {
        crate::support::update_item(&mut tx, &tables, key, &item(999), 31).unwrap();
        tx.delete(&tables.item, &[Value::U64(key)]).unwrap();
        crate::support::insert_item(&mut tx, &tables, key, &item(998)).unwrap();
        crate::support::update_item(&mut tx, &tables, key, &item(997), 2).unwrap();
    }
    tx.abort().unwrap();
    compare(&store.db, &model);
    store.db.close().unwrap();
    let db = Database::open(&store.path, &options().tune("level0_runs", 1)).unwrap();
    compare(&db, &model);
    while db.background(64).unwrap() > 0 {
        compare(&db, &model);
    }
    compare(&db, &model);
}

#[test]
fn space_stays_flat_under_churn() {
    let store = Store::new(&options());
    let tables = Tables::of(&store.db);
    let mut random = Driver::new(1, 1).random;
    let mut churn = |operations: u64| {
        for _ in 0..operations {
            let key = rand::Rng::random_range(&mut random, 0..800u64);
            let new = item(rand::Rng::random(&mut random));
            store
                .db
                .write(|tx| match tx.delete(&tables.item, &[Value::U64(key)]) {
                    Err(Error::MissingKey { .. }) => Ok(()),
                    done => done,
                })
                .unwrap();
            store.db.write(|tx| crate::support::insert_item(tx, &tables, key, &new)).unwrap();
        }
        let (mut kept, mut files) = (0, 0);
        for file in std::fs::read_dir(store.files()).unwrap().map(Result::unwrap) {
            let is_kept = file.file_name().to_str().unwrap().starts_with("spare-merge-");
            *(if is_kept { &mut kept } else { &mut files }) += file.metadata().unwrap().len();
        }
        assert!(0 < kept && kept < 2 * files, "for deletions on a full medium: {kept}, {files}");
        (files, store.db.footprint().unwrap().total())
    };
    let mut peaks = [(0, 0); 2];
    churn(2000);
    for (half, peak) in peaks.iter_mut().enumerate() {
        for _ in 0..8 {
            let (files, all) = churn(250);
            println!("half {half}: {files} bytes of files, {all} in all");
            *peak = (files.max(peak.0), all.max(peak.1));
        }
    }
    let data = 800 * 150;
    // Runs of three levels, a merge's output and its inputs, and a log of four MemTables; and what is
    // set aside for a full medium: six times 16 KiB of log.
    assert!(peaks[0].0 < 6 * data + (96 << 10), "{peaks:?}");
    assert!(peaks[1].0 * 10 <= peaks[0].0 * 12, "files grow: {peaks:?}");
    assert!(peaks[1].1 * 10 <= peaks[0].1 * 12, "memory grows: {peaks:?}");
}

#[test]
fn work_in_the_background_spares_the_writers_and_changes_nothing() {
    let store = Store::new(&options());
    let mut model = Model::default();
    let mut waiting = 0;
    for number in 0..2000u64 {
        put(&store.db, &mut model, number % 700, number);
        if number % 3 == 0 {
            waiting = store.db.background(4 << 10).unwrap();
        }
        assert!(waiting < 1 << 20, "{waiting}");
    }
    compare(&store.db, &model);
    while store.db.background(1 << 10).unwrap() > 0 {}
    let stats = store.db.stats().unwrap();
    let stalls = own(&store.db).stalls;
    assert_eq!((stats.waiting_bytes, stalls, stats.failures), (0, 0, 0), "{stats:?}");
    compare(&store.db, &model);
}

/// A database with runs at several levels, closed.
fn closed() -> (Store, Model) {
    let store = Store::new(&options());
    let mut model = Model::default();
    (0..900u64).for_each(|number| put(&store.db, &mut model, number * 7 % 400, number));
    let Store { db, path, _directory } = store;
    db.close().unwrap();
    let db = Database::open(&path, &options()).unwrap();
    compare(&db, &model);
    db.close().unwrap();
    let other = Database::create(path.with_extension("other"), &schema(), &options()).unwrap();
    (Store { db: other, path, _directory }, model)
}

fn names(directory: &Path, prefix: &str) -> Vec<PathBuf> {
    let files = std::fs::read_dir(directory).unwrap().map(|file| file.unwrap().path());
    let mut found: Vec<_> = files
        .filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(prefix))
        .collect();
    found.sort();
    found
}

/// Opens with `path` changed by `change`, and puts it back; returns the error.
fn refusal(store: &Store, path: &Path, change: impl FnOnce(&Path)) -> String {
    let before = std::fs::read(path).unwrap();
    let all = names(&store.files(), "");
    change(path);
    let error = Database::open(&store.path, &options()).map(|_| ()).unwrap_err().to_string();
    std::fs::write(path, before).unwrap();
    assert_eq!(names(&store.files(), ""), all, "a refused opening removes nothing");
    error
}

#[test]
fn missing_and_damaged_files_are_named_and_nothing_is_removed() {
    let (store, model) = closed();
    let runs = names(&store.files(), "sstable-0-");
    assert!(runs.len() >= 3, "{runs:?}");
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    for run in &runs {
        let error = refusal(&store, run, |run| std::fs::remove_file(run).unwrap());
        assert!(error.contains(&name(run)) && error.contains("are lost"), "{error}");
        let error = refusal(&store, run, |run| std::fs::write(run, b"x").unwrap());
        assert!(error.contains(&name(run)), "{error}");
    }
    let error = refusal(&store, &runs[0], |run| {
        std::fs::copy(&runs[1], run).unwrap();
    });
    assert!(error.contains("is not the file that the manifest names"), "{error}");
    let manifest = &names(&store.files(), "manifest")[0];
    let error = refusal(&store, manifest, |path| std::fs::remove_file(path).unwrap());
    assert!(error.contains("manifest-0 is missing"), "{error}");
    // What it has set aside is zero.
    let len = std::fs::read(manifest).unwrap();
    let len = len.iter().rposition(|byte| *byte != 0).unwrap() as u64;
    for keep in [0, 1, 31, 32, 33, 79] {
        let error = refusal(&store, manifest, |path| {
            std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(keep).unwrap();
        });
        assert!(error.contains("manifest-0"), "{keep}: {error}");
    }
    // Without its last edits it asks for what these had superseded.
    let error = refusal(&store, manifest, |path| {
        std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(len / 2).unwrap();
    });
    assert!(error.contains("is missing"), "{error}");
    let log = &names(&store.files(), "wal-0-")[0];
    let error = refusal(&store, log, |log| std::fs::remove_file(log).unwrap());
    assert!(error.contains("wal-0-"), "{error}");
    compare(&Database::open(&store.path, &options()).unwrap(), &model);
}

#[test]
fn damage_inside_a_run_is_found_where_it_is_read_and_by_a_check() {
    let (store, model) = closed();
    let runs = names(&store.files(), "sstable-0-");
    let run = runs.iter().max_by_key(|run| std::fs::metadata(run).unwrap().len()).unwrap();
    let before = std::fs::read(run).unwrap();
    for at in (20..before.len() - 120).step_by(before.len() / 40) {
        let mut damaged = before.clone();
        damaged[at] ^= 0x10;
        std::fs::write(run, damaged).unwrap();
        let db = match Database::open(&store.path, &options()) {
            Ok(db) => db,
            Err(error) => {
                // Replaying the log has read it.
                assert!(error.to_string().contains("sstable-0-"), "{error}");
                std::fs::write(run, &before).unwrap();
                continue;
            }
        };
        let tables = Tables::of(&db);
        let error = db.check().unwrap_err().to_string();
        assert!(error.contains("sstable-0-") && error.contains("is damaged at byte"), "{error}");
        // A read is right, or an error.
        let mut row = Row::new();
        for (key, item) in &model.items {
            let read = db.read(|tx| tx.get_into(&tables.item, &[Value::U64(*key)], &mut row));
            assert!(read.is_err() || row.bytes(2) == item.payload, "byte {at}, key {key}");
        }
        db.close().unwrap();
        std::fs::write(run, &before).unwrap();
    }
    compare(&Database::open(&store.path, &options()).unwrap(), &model);
}

fn recorded(files: &RecordingFiles) -> (Database<Recorded>, Recording) {
    let memory = Recording::pool(64 << 10, 1 << 20).unwrap();
    let media = faults::recorded(memory.clone(), files.clone());
    (Database::create_on(media, &schema(), &options().tune("block_bytes", 256)).unwrap(), memory)
}

/// The disk is full at every call of the flushes and merges in turn: no transaction fails for it,
/// nothing is lost, and when there is room again all goes on.
#[test]
fn a_full_disk_at_every_call_loses_nothing() {
    let (mut failures, mut stops) = (0, 0);
    for seed in 0..30 {
        let files = RecordingFiles::new();
        let (mut db, memory) = recorded(&files);
        let mut tables = Tables::of(&db);
        let (mut driver, mut model) = (Driver::new(seed, 60), Model::default());
        for transaction in 0..120 {
            driver.transaction(&db, &tables, &mut model, 1 + transaction % 4).unwrap();
        }
        for number in 0..120u64 {
            let value = vec![number as u8; 200];
            let key = [Value::Text("full"), Value::I64(number as i64)];
            let values = [key[0], key[1], Value::Bytes(&value)];
            let mut tx = db.begin().unwrap();
            if tx.insert(&tables.pair, &values).is_err() {
                // A sync of the manifest or of the next segment failed after the commit before:
                // which of two states counts only recovery finds out.
                drop(tx);
                stops += 1;
                failures += db.stats().unwrap().failures;
                db.abandon();
                let memory = Recording::from_image(&memory.contents(), 1 << 20).unwrap();
                let media = faults::recorded(memory, files.clone());
                db = Database::open_on(media, &options()).unwrap();
                tables = Tables::of(&db);
                assert_eq!(contents(&db).unwrap(), model, "seed {seed}");
                tx = db.begin().unwrap();
                tx.insert(&tables.pair, &values).unwrap();
            }
            // The log has its space reserved: one write, one sync.
            files.fail_after(Some(2 + (seed + number) % 9));
            assert!(tx.commit().unwrap().is_durable());
            files.fail_after(None);
            model.pairs.insert(("full".into(), number as i64), value);
        }
        failures += db.stats().unwrap().failures;
        if db.sync().is_err() {
            db.abandon();
            continue;
        }
        compare(&db, &model);
        for transaction in 0..60 {
            driver.transaction(&db, &tables, &mut model, 1 + transaction % 4).unwrap();
        }
        compare(&db, &model);
        while db.background(1 << 20).unwrap() > 0 {}
        compare(&db, &model);
        db.abandon();
    }
    println!("{failures} flushes and merges failed, a database stopped {stops} times");
    assert!(failures > 60 && stops > 10, "{failures} {stops}");
}

#[test]
fn a_full_memory_is_an_error_after_which_everything_goes_on() {
    let directory = crate::support::in_memory();
    // No MemTable ever becomes full, so memory does.
    let options = options().tune("memtable_bytes", 1 << 30).volatile_limit(24 << 20);
    let path = directory.path().join("db");
    let db = Database::create(&path, &schema(), &options).unwrap();
    let table: Table = db.table(crate::support::PAIR).unwrap();
    let (mut inserted, mut refused) = (0i64, 0);
    while refused < 3 {
        let value = vec![7; 300];
        let key = [Value::Text("k"), Value::I64(inserted)];
        match db.write(|tx| tx.insert(&table, &[key[0], key[1], Value::Bytes(&value)])) {
            Ok(()) => inserted += 1,
            Err(Error::Full(_)) => {
                refused += 1;
                assert_eq!(db.check().unwrap().tuples, inserted as u64);
                // Written out, the MemTable is empty again.
                db.checkpoint().unwrap();
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(inserted > 30_000, "{inserted}");
    db.close().unwrap();
    let db = Database::open(&path, &options).unwrap();
    assert_eq!(db.check().unwrap().tuples, inserted as u64);
}
