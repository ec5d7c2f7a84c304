//! The particulars of NV-Logging: a log in the pool with pages in files, its size, its persister,
//! and what a crash leaves while it is created.

use std::time::{Duration, Instant};

use crate::support::{Driver, Model, Tables, compare, in_memory, schema, small_pages};
use perdura::{
    Commit, Database, Domain, EngineKind, Environment, Error, NvLoggingFocStats, Options, OwnStats,
};
use sim::{Recorded, Recording, RecordingFiles, Replay};

const BOTH: [EngineKind; 2] = [EngineKind::NvLoggingFoi, EngineKind::NvLoggingFoc];

fn options(engine: EngineKind) -> Options {
    let options = small_pages().engine(engine).domain(Domain::Process);
    options.tune("page_bytes", 512).tune("buffer_bytes", 4 << 20)
}

fn run<E: Environment>(db: &Database<E>, model: &mut Model, transactions: usize) {
    let (tables, mut driver) = (Tables::of(db), Driver::new(3, 100));
    for transaction in 0..transactions {
        let _ticket = driver.grouped(db, &tables, model, 1 + transaction % 5).unwrap();
    }
}

fn own<E: Environment>(db: &Database<E>) -> NvLoggingFocStats {
    match db.stats().unwrap().own {
        OwnStats::NvLoggingFoc(own) => own,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_log_is_as_large_as_the_pool_allows() {
    for engine in BOTH {
        for (limit, least, most) in [(64 << 20, 12 << 20, 16 << 20), (8 << 20, 1 << 20, 2 << 20)] {
            let memory = Recording::pool(64 << 10, limit).unwrap();
            let files = RecordingFiles::new();
            let media = faults::recorded(memory.clone(), files.clone());
            let db = Database::create_on(media, &schema(), &options(engine)).unwrap();
            let log = db.footprint().unwrap().log;
            assert!((least..=most + (512 << 10)).contains(&log), "{engine}: {log} of {limit}");
            let mut model = Model::default();
            // Several times what the smaller one holds.
            run(&db, &mut model, 2000);
            compare(&db, &model);
            let report = db.check().unwrap();
            assert_eq!((report.leaked, report.dangling), (0, 0));
            db.abandon();
            let media = faults::recorded(memory.clone(), files.clone());
            let db = Database::open_on(media, &options(engine)).unwrap();
            compare(&db, &model);
        }
        let large = options(engine).set("log_bytes", 1 << 30).pool_limit(32 << 20);
        let directory = in_memory();
        let db = Database::create(directory.path().join("db"), &schema(), &large).unwrap();
        let bytes = std::fs::metadata(directory.path().join("db")).unwrap().len();
        assert!((4 << 20..16 << 20).contains(&bytes), "{bytes}");
        db.close().unwrap();
    }
}

/// With many partitions each has its own part of the pool.
#[test]
fn every_partition_has_a_log_of_its_own() {
    for engine in BOTH {
        let directory = in_memory();
        let path = directory.path().join("db");
        let options = options(engine).partitions(4).pool_limit(64 << 20);
        let db = Database::create(&path, &schema(), &options).unwrap();
        let mut models: Vec<Model> = vec![Model::default(); 4];
        for (number, model) in models.iter_mut().enumerate() {
            let (tables, mut driver) = (Tables::of(&db), Driver::new(number as u64, 50));
            let partition = db.partition(number);
            for _ in 0..50 {
                driver.in_partition(&partition, &tables, model, 3).unwrap();
            }
        }
        let before = db.check().unwrap();
        assert!(before.tuples > 50, "{before:?}");
        db.abandon();
        let db = Database::open(&path, &options).unwrap();
        assert_eq!(db.check().unwrap(), before);
        assert_eq!((before.leaked, before.dangling), (0, 0));
        db.close().unwrap();
    }
}

#[test]
fn a_persister_makes_durable_what_nobody_waits_for() {
    let directory = in_memory();
    let grouped = options(EngineKind::NvLoggingFoc).commit(Commit::grouped(1_000_000));
    let db = Database::create(directory.path().join("db"), &schema(), &grouped).unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    let mut model = Model::default();
    // The second time it may sleep, and is woken.
    for _ in 0..2 {
        run(&db, &mut model, 100);
        loop {
            let NvLoggingFocStats { objects, by_persister, by_commits, .. } = own(&db);
            if by_persister + by_commits == objects {
                assert!(by_persister > 0);
                break;
            }
            assert!(Instant::now() < until, "{objects} objects, {by_persister} are durable");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    compare(&db, &model);
    // A kill takes nothing that was made durable.
    db.abandon();
    let db = Database::open(directory.path().join("db"), &grouped).unwrap();
    compare(&db, &model);
}

#[test]
fn without_a_persister_commits_make_everything_durable() {
    let directory = in_memory();
    let alone = options(EngineKind::NvLoggingFoc).set("persister", 0);
    let db = Database::create(directory.path().join("db"), &schema(), &alone).unwrap();
    let mut model = Model::default();
    run(&db, &mut model, 100);
    let found = own(&db);
    assert!(found.by_persister == 0 && found.by_commits > 100, "{found:?}");
    drop(db);
    // In a recording there is none either, whatever the options say.
    let memory = Recording::pool(64 << 10, 64 << 20).unwrap();
    let media = faults::recorded(memory, RecordingFiles::new());
    let foc = options(EngineKind::NvLoggingFoc);
    let db = Database::create_on(media, &schema(), &foc).unwrap();
    let mut model = Model::default();
    run(&db, &mut model, 100);
    let found = own(&db);
    assert!(found.by_persister == 0 && found.by_commits > 100, "{found:?}");
}

/// Whatever is there of it, the pool has no description of a database, or all of it is there.
#[test]
fn a_crash_while_it_is_created_leaves_no_database_or_a_whole_one() {
    for engine in BOTH {
        let memory = Recording::pool(64 << 10, 8 << 20).unwrap();
        let files = RecordingFiles::new();
        memory.start();
        let media = faults::recorded(memory.clone(), files.clone());
        let small = options(engine);
        let db = Database::create_on(media, &schema(), &small).unwrap();
        memory.note(1);
        db.abandon();
        let (trace, image) = (memory.stop(), files.image());
        let (mut unfinished, mut whole) = (0, 0);
        let mut replay = Replay::new(&trace);
        while let Some(point) = replay.next_point() {
            let created = point.last_note.is_some();
            point.for_each_state(4, 1, |left| {
                let memory = Recording::pool_from_image(left, 8 << 20).unwrap();
                let files = RecordingFiles::from_image(image.clone());
                match Database::<Recorded>::open_on(faults::recorded(memory, files), &small) {
                    Ok(db) => {
                        assert_eq!(db.check().unwrap().leaked, 0);
                        whole += 1;
                    }
                    Err(Error::Unfinished { .. }) if !created => unfinished += 1,
                    Err(error) => panic!("{engine}, created: {created}: {error}"),
                }
            });
        }
        println!("{engine}: {unfinished} unfinished, {whole} whole");
        assert!(unfinished > 20 && whole > 0);
    }
}

/// Pages are redone when they are first used, or all before the database is open.
#[test]
fn either_restart_leaves_what_was_committed() {
    for engine in BOTH {
        for full in [0, 1] {
            let memory = Recording::pool(64 << 10, 64 << 20).unwrap();
            let files = RecordingFiles::new();
            let media = || faults::recorded(memory.clone(), files.clone());
            let of = options(engine).set("full_restart", full);
            let db = Database::create_on(media(), &schema(), &of).unwrap();
            let mut model = Model::default();
            run(&db, &mut model, 500);
            db.abandon();
            // The second one finds the log of the first, after the checkpoint of a full restart.
            for time in 0..2 {
                let db = Database::open_on(media(), &of).unwrap();
                let redone = db.recovery_report().redone;
                assert_eq!(redone > 0, time == 0 || full == 0, "{engine}, {full}: {redone}");
                compare(&db, &model);
                db.abandon();
            }
        }
    }
}
