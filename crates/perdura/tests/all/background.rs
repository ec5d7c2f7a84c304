//! Work that engines put off, done by the thread in the background: the results are those of doing
//! it inline, nothing is lost in a crash while the thread works, it ends with the database, and
//! what it could not do is reported.

use std::ops::ControlFlow;
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::support::{Driver, Model, Tables, compare, contents, schema, small_logs};
use faults::{explorer::Effort, plot::Plot};
use perdura::{
    Background, Database, Domain, EngineKind, EngineStats, Environment, Error, Options, OwnStats,
    Scan, Value,
};
use sim::{Recorded, Recording, RecordingFiles, Replay};

/// The engines that put anything off.
const ENGINES: [EngineKind; 5] =
    [EngineKind::Inp, EngineKind::Cow, EngineKind::Log, EngineKind::NvmCow, EngineKind::NvmLog];
const LIMIT: u64 = 8 << 20;

/// So small that there is much to do.
fn options(engine: EngineKind) -> Options {
    small_logs()
        .engine(engine)
        .background(Background::Thread)
        .tune("checkpoint_bytes", 16 << 10)
        .tune("wal_reserve_bytes", 4 << 10)
        .tune("page_bytes", 512)
        .tune("cache_bytes", 64 << 10)
        .tune("memtable_bytes", 4 << 10)
        .tune("growth", 2)
        .tune("level0_runs", 2)
        .tune("block_bytes", 512)
}

fn native(engine: EngineKind) -> Options {
    options(engine).domain(Domain::Process).pool_limit(1 << 30).volatile_limit(1 << 30)
}

fn run<E: Environment>(db: &Database<E>, model: &mut Model, seed: u64, transactions: usize) {
    let (tables, mut driver) = (Tables::of(db), Driver::new(seed, 200));
    for transaction in 0..transactions {
        driver.transaction(db, &tables, model, 1 + transaction % 7).unwrap();
    }
}

fn checkpoints(stats: &EngineStats) -> u64 {
    match stats.own {
        OwnStats::Inp(own) => own.checkpoints,
        other => panic!("{other:?}"),
    }
}

/// Waits until the thread has nothing more to do; returns what there is to see then.
fn idle<E: Environment>(db: &Database<E>) -> EngineStats {
    for _ in 0..20_000 {
        let stats = db.stats().unwrap();
        if stats.waiting_bytes == 0 {
            return stats;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("the thread does not come to an end: {:?}", db.stats().unwrap());
}

#[test]
fn inline_and_in_a_thread_the_contents_are_the_same() {
    for engine in EngineKind::ALL {
        let directory = crate::support::in_memory();
        let mut ends = Vec::new();
        for background in [Background::Inline, Background::Thread] {
            let options = native(engine).background(background);
            let path = directory.path().join(format!("{background:?}"));
            let mut model = Model::default();
            let db = Database::create(&path, &schema(), &options).unwrap();
            run(&db, &mut model, 1, 400);
            compare(&db, &model);
            // As a kill: there is something to recover, and a dead directory to collect.
            db.abandon();
            let db = Database::open(&path, &options.clone().accept_loss(true)).unwrap();
            run(&db, &mut model, 2, 400);
            if background == Background::Thread {
                idle(&db);
            }
            compare(&db, &model);
            db.close().unwrap();
            let db = Database::open(&path, &small_logs()).unwrap();
            compare(&db, &model);
            ends.push(model);
        }
        assert_eq!(ends[0], ends[1], "{engine}");
    }
}

#[test]
fn what_the_thread_does_is_in_the_statistics() {
    for engine in ENGINES {
        let directory = crate::support::in_memory();
        let path = directory.path().join("db");
        let mut model = Model::default();
        let inline = native(engine).background(Background::Inline);
        let db = Database::create(&path, &schema(), &inline).unwrap();
        run(&db, &mut model, 1, 300);
        let stats = db.stats().unwrap();
        assert_eq!(stats.background.steps, 0, "{engine}: {stats:?}");
        db.abandon();
        let db = Database::open(&path, &native(engine)).unwrap();
        let mut stats = idle(&db);
        // Engines that were done at once get more to do.
        for round in 0..200 {
            if stats.background.bytes > 0 {
                break;
            }
            run(&db, &mut model, 10 + round, 50);
            stats = idle(&db);
        }
        assert!(stats.background.steps > 0 && stats.background.bytes > 0, "{engine}: {stats:?}");
        assert_eq!((stats.failures, stats.waiting_bytes), (0, 0), "{engine}: {stats:?}");
        compare(&db, &model);
    }
}

/// The items of a partition: key and payload.
fn items(db: &Database, partition: usize) -> Vec<(u64, Vec<u8>)> {
    let (table, mut all) = (Tables::of(db).item, Vec::new());
    db.partition(partition)
        .read(|tx| {
            tx.scan(&table, &Scan::all().columns(&[0, 2]), |row| {
                all.push((row.u64(0), row.bytes(1).to_vec()));
                ControlFlow::Continue(())
            })
        })
        .unwrap();
    all
}

#[test]
fn one_thread_serves_two_partitions_whose_owners_work_meanwhile() {
    for engine in ENGINES {
        let directory = crate::support::in_memory();
        let path = directory.path().join("db");
        let db = Database::create(&path, &schema(), &native(engine).partitions(2)).unwrap();
        let mut models = [Model::default(), Model::default()];
        thread::scope(|scope| {
            for (number, model) in models.iter_mut().enumerate() {
                let db = &db;
                scope.spawn(move || {
                    let (tables, mut driver) = (Tables::of(db), Driver::new(number as u64, 100));
                    // One owns its partition, the other takes it for each transaction.
                    let mut owned = (number == 0).then(|| db.partition(0).exclusive().unwrap());
                    for transaction in 0..500 {
                        let mut tx = match &mut owned {
                            Some(partition) => partition.begin(),
                            None => db.partition(1).begin().unwrap(),
                        };
                        for _ in 0..1 + transaction % 4 {
                            driver.operation(&mut tx, &tables, model).unwrap();
                        }
                        assert!(tx.commit().unwrap().is_durable());
                    }
                });
            }
        });
        let check = |db: &Database| {
            for (number, model) in models.iter().enumerate() {
                let wanted: Vec<_> =
                    model.items.iter().map(|(key, item)| (*key, item.payload.clone())).collect();
                assert_eq!(items(db, number), wanted, "{engine}, partition {number}");
            }
            let report = db.check().unwrap();
            assert_eq!((report.leaked, report.dangling), (0, 0), "{engine}: {report:?}");
        };
        check(&db);
        idle(&db);
        check(&db);
        drop(db);
        check(&Database::open(&path, &native(engine)).unwrap());
    }
}

#[test]
fn the_thread_ends_with_the_database_whatever_it_does() {
    for engine in ENGINES {
        let directory = crate::support::in_memory();
        let path = directory.path().join("db");
        let mut model = Model::default();
        drop(Database::create(&path, &schema(), &native(engine)).unwrap());
        for round in 0..12 {
            // The lock on the pool is free: no handle holds it any more.
            let db = Database::open(&path, &native(engine)).unwrap();
            compare(&db, &model);
            run(&db, &mut model, round, 40);
            match round % 3 {
                0 => db.close().unwrap(),
                1 => drop(db),
                _ => db.abandon(),
            }
        }
        let db = Database::open(&path, &native(engine)).unwrap();
        compare(&db, &model);
    }
}

#[test]
fn engines_with_files_survive_a_power_cut_while_the_thread_works() {
    for engine in [EngineKind::Inp, EngineKind::Cow, EngineKind::Log] {
        let options = options(engine)
            .tune("checkpoint_bytes", 6 << 10)
            .tune("wal_reserve_bytes", 2 << 10)
            .tune("memtable_bytes", 2 << 10)
            .tune("cache_bytes", 16 << 10);
        for (seed, kills) in [(1, false), (2, true), (3, true)] {
            let options = options.clone();
            let plot = Plot::new(engine, seed, 29, 40);
            let plot = Plot { options, large: 40, failing: Some(1), kills, ..plot };
            let explored = plot.run_in_files().0.explore(None, Effort::once(6));
            assert_eq!(explored.violation, None, "seed {seed}");
        }
    }
}

fn open(image: &[u8], engine: EngineKind) -> Result<(Database<Recorded>, Recording), Error> {
    let whole = Recording::from_image(image, LIMIT).unwrap();
    let (header, _) = pm::read_header(&whole)?;
    let memory = Recording::from_image(&image[..header.size as usize], LIMIT).unwrap();
    let media = faults::recorded(memory.clone(), RecordingFiles::new());
    Ok((Database::open_on(media, &options(engine))?, memory))
}

/// Power fails at any moment while the thread merges runs or collects what an earlier crash has
/// left; the lines that a thread has flushed are durable only when the same thread makes a fence.
#[test]
fn engines_in_the_pool_survive_a_power_cut_while_the_thread_works() {
    for (engine, seed) in [EngineKind::NvmCow, EngineKind::NvmLog].into_iter().zip(1..) {
        let memory = Recording::pool(64 << 10, LIMIT).unwrap();
        let media = faults::recorded(memory.clone(), RecordingFiles::new());
        let options = options(engine).chunk_bytes(16 << 10);
        let db = Database::create_on(media, &schema(), &options).unwrap();
        let mut model = Model::default();
        run(&db, &mut model, seed, 60);
        db.abandon();
        let (db, memory) = open(&memory.contents(), engine).unwrap();
        let (tables, mut driver) = (Tables::of(&db), Driver::new(seed + 10, 200));
        let mut models = vec![model];
        memory.start();
        for transaction in 0..40 {
            let mut model = models[models.len() - 1].clone();
            if driver.transaction(&db, &tables, &mut model, 1 + transaction % 5).unwrap() {
                models.push(model);
                memory.note(models.len() as u64 - 1);
            }
            // The thread has its turn.
            thread::yield_now();
        }
        idle(&db);
        let (trace, stats) = (memory.stop(), db.stats().unwrap());
        db.abandon();
        let (mut states, mut deep) = (0, 0);
        let mut replay = Replay::new(&trace);
        while let Some(point) = replay.next_point() {
            let (position, acknowledged) = (point.position, point.last_note.unwrap_or(0));
            let looked = point.for_each_state(1, 5, |image| {
                let (db, _) = open(image, engine).unwrap();
                let found = contents(&db).unwrap();
                let mut possible = models[acknowledged as usize..].iter().take(2);
                assert!(possible.any(|model| *model == found), "{engine}: event {position}");
                let report = db.check().unwrap();
                assert_eq!((report.leaked, report.dangling), (0, 0), "{engine}: event {position}");
                deep += 1;
                if deep % 32 == 0 {
                    let mut model = found;
                    run(&db, &mut model, position as u64, 20);
                    compare(&db, &model);
                }
                db.abandon();
            });
            states += looked.visited;
        }
        println!("{engine}: {states} states; {stats:?}");
        assert!(states > 500, "{engine}: {states}");
    }
}

/// The next segment of the log is begun, then there is no room for the checkpoint.
#[test]
fn what_the_thread_could_not_do_is_counted_and_returned_once_and_done_later() {
    let files = RecordingFiles::new();
    let memory = Recording::pool(64 << 10, 1 << 20).unwrap();
    let options = options(EngineKind::Inp)
        .tune("checkpoint_bytes", 60 << 10)
        .tune("wal_reserve_bytes", 16 << 10);
    let media = faults::recorded(memory, files.clone());
    let db: Database<Recorded> = Database::create_on(media, &schema(), &options).unwrap();
    let pair = Tables::of(&db).pair;
    let mut inserted = 0;
    let mut insert = |fail: Option<u64>| {
        let mut tx = db.begin().unwrap();
        for _ in 0..200 {
            inserted += 1;
            let key = [Value::Text("k"), Value::I64(inserted)];
            tx.insert(&pair, &[key[0], key[1], Value::Bytes(&[7; 300])]).unwrap();
        }
        files.fail_after(fail);
        assert!(tx.commit().unwrap().is_durable());
    };
    // A write and a sync of the commit, then those of the thread.
    insert(Some(2 + 5));
    let failed = (0..20_000).find_map(|_| {
        thread::sleep(Duration::from_millis(1));
        db.sync().err()
    });
    let failed = failed.expect("the thread has failed, and said so");
    assert!(matches!(failed, Error::Background { partition: 0, .. }), "{failed}");
    assert!(failed.to_string().contains("background"), "{failed}");
    db.sync().unwrap();
    let stats = db.stats().unwrap();
    assert_eq!((stats.failures, checkpoints(&stats)), (1, 0), "{stats:?}");
    files.fail_after(None);
    for _ in 0..4 {
        insert(None);
    }
    let stats = idle(&db);
    assert!(checkpoints(&stats) > 0, "{stats:?}");
    db.close().unwrap();
}

fn damage(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let from = bytes.len() / 4;
    bytes[from..].iter_mut().step_by(64).for_each(|byte| *byte ^= 0x55);
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn damage_that_the_thread_finds_stops_the_partition_and_nothing_hides_it() {
    let directory = crate::support::in_memory();
    let path = directory.path().join("db");
    let options = native(EngineKind::Cow).background(Background::Inline);
    let db = Database::create(&path, &schema(), &options).unwrap();
    run(&db, &mut Model::default(), 1, 400);
    db.close().unwrap();
    damage(&directory.path().join("db.files").join("cow-0"));
    let db = Database::open(&path, &native(EngineKind::Cow)).unwrap();
    for _ in 0..20_000 {
        if db.stats().unwrap().failures > 0 {
            break;
        }
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(db.stats().unwrap().failures, 1, "the thread has met the damage");
    let tables = Tables::of(&db);
    let refused = db.write(|tx| tx.delete(&tables.item, &[Value::U64(1)])).unwrap_err();
    assert!(refused.to_string().contains("stopped"), "{refused}");
    assert!(db.close().is_err());
}
