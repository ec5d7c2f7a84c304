//! The statistics of engines: counts that follow from what was run, and from nothing else.

use crate::support::{Driver, Model, Tables, compare, schema, small_logs};
use perdura::{
    Commit, Database, Domain, EngineKind, EngineStats, Footprint, InpStats, Options, OwnStats,
    Value,
};

fn options(engine: EngineKind) -> Options {
    small_logs()
        .engine(engine)
        .domain(Domain::Process)
        .tune("checkpoint_bytes", 16 << 10)
        .tune("wal_reserve_bytes", 4 << 10)
        .tune("page_bytes", 512)
        .tune("buffer_bytes", 4 << 20)
        .tune("memtable_bytes", 8 << 10)
        .tune("growth", 2)
        // The machine decides whether the persister or a commit is first.
        .tune("persister", 0)
        .tune("level0_runs", 2)
        .tune("checkpoint_frames", 200)
        .pool_limit(1 << 30)
        .volatile_limit(1 << 30)
}

/// Random transactions; returns how many have committed and changed something, about.
fn run(db: &Database, model: &mut Model, transactions: usize) {
    let (tables, mut driver) = (Tables::of(db), Driver::new(5, 300));
    for transaction in 0..transactions {
        driver.transaction(db, &tables, model, 1 + transaction % 5).unwrap();
    }
}

fn after_run(engine: EngineKind) -> (EngineStats, Model) {
    let directory = crate::support::in_memory();
    let path = directory.path().join("db");
    let db = Database::create(&path, &schema(), &options(engine)).unwrap();
    assert_eq!(
        db.stats().unwrap(),
        EngineStats::from(engine),
        "{engine}: nothing has been done yet"
    );
    let mut model = Model::default();
    run(&db, &mut model, 500);
    compare(&db, &model);
    let stats = db.stats().unwrap();
    db.close().unwrap();
    let db = Database::open(&path, &options(engine)).unwrap();
    assert_eq!(db.stats().unwrap().user_bytes, 0, "since it was opened");
    (stats, model)
}

#[test]
fn the_same_work_has_the_same_user_bytes_and_the_same_counts_each_time() {
    let first = after_run(EngineKind::NvmInp);
    for engine in EngineKind::ALL {
        let (stats, model) = after_run(engine);
        println!("{engine}: {stats:?}");
        assert_eq!((stats.user_bytes, &model), (first.0.user_bytes, &first.1), "{engine}");
        assert_eq!(after_run(engine).0, stats, "{engine}: another time");
        assert_eq!(stats.background.steps, 0, "{engine}: nobody helped");
        assert_eq!(stats.failures, 0, "{engine}");
        assert_eq!(stats.logged_bytes == 0, engine == EngineKind::Cow, "{engine}");
        assert_eq!(stats.own.kind(), engine);
        let copies = matches!(engine, EngineKind::Cow | EngineKind::NvmCow);
        assert_eq!(stats.own.pages().is_some(), copies, "{engine}");
        if let Some(pages) = stats.own.pages() {
            assert!(pages.batches > 0 && pages.made_pages > 0 && pages.page_bytes > 0, "{stats:?}");
        }
        let runs = matches!(engine, EngineKind::Log | EngineKind::NvmLog);
        assert_eq!(stats.own.runs().is_some(), runs, "{engine}");
        if let Some(levels) = stats.own.runs() {
            assert!(levels.merges > 0 && levels.all_merged_bytes() > 0, "{stats:?}");
            assert!(levels.runs.iter().sum::<u32>() > 0, "{stats:?}");
        }
        let paged = EngineKind::P2.contains(&engine);
        assert_eq!(stats.own.buffer().is_some(), paged, "{engine}");
        if let Some(buffer) = stats.own.buffer() {
            assert!(buffer.hits > 0 && buffer.lock_requests > 0, "{stats:?}");
        }
        match stats.own {
            OwnStats::Inp(own) => assert!(own.checkpoints > 0, "{own:?}"),
            OwnStats::Log(own) => assert!(own.flushes > 0 && own.flushed_bytes > 0, "{own:?}"),
            OwnStats::NvmLog(own) => assert!(own.freezes > 0, "{own:?}"),
            OwnStats::NvDisk(own) => assert!(own.log_groups > 0, "{own:?}"),
            OwnStats::NvLoggingFoi(own) => assert!(own.objects > 500, "{own:?}"),
            OwnStats::NvLoggingFoc(own) => assert!(own.objects > 500, "{own:?}"),
            OwnStats::Fast(own) => assert!(own.in_place > 0 && own.logged > 0, "{own:?}"),
            OwnStats::Fash(own) => assert!(own.logged > 300, "{own:?}"),
            OwnStats::Nvwal(own) => assert!(own.logged > 300 && own.checkpoints > 0, "{own:?}"),
            OwnStats::Journal(own) => assert!(own.logged > 300, "{own:?}"),
            OwnStats::Wal(own) => assert!(own.logged > 300 && own.checkpoints > 0, "{own:?}"),
            OwnStats::Sofort(own) => assert!(own.commits > 0 && own.statements > 0, "{own:?}"),
            OwnStats::Cow(_) | OwnStats::NvmInp(_) | OwnStats::NvmCow(_) => {}
        }
        let puts_off = runs || matches!(engine, EngineKind::Inp | EngineKind::Sofort);
        assert_eq!((stats.inline.steps > 0, stats.inline.bytes > 0), (puts_off, puts_off));
        const WRITERS: [EngineKind; 4] =
            [EngineKind::NvDisk, EngineKind::Nvwal, EngineKind::Journal, EngineKind::Wal];
        let writes = copies || runs || WRITERS.contains(&engine);
        assert_eq!(stats.write_amplification() > 0.0, writes, "{engine}");
    }
}

/// NVM-InP: a line for an entry; an update of up to two fields, an insert, a delete has one.
#[test]
fn the_undo_log_says_how_many_bytes_it_was_given() {
    let directory = crate::support::in_memory();
    for engine in [EngineKind::NvmInp, EngineKind::NvmLog] {
        let path = directory.path().join(engine.name());
        let options = options(engine).tune("memtable_bytes", 1 << 20);
        let db = Database::create(path, &schema(), &options).unwrap();
        let table = Tables::of(&db).pair;
        let key = [Value::Text("a"), Value::I64(1)];
        let values = [key[0], key[1], Value::Bytes(&[7; 20])];
        db.write(|tx| tx.insert(&table, &values)).unwrap();
        assert_eq!(db.stats().unwrap().logged_bytes, 64);
        assert_eq!(db.stats().unwrap().user_bytes, 1 + 8 + 20);
        db.write(|tx| {
            tx.update(&table, &key, &[(2, Value::Bytes(&[8; 20]))])?;
            tx.delete(&table, &key)
        })
        .unwrap();
        let mut tx = db.begin().unwrap();
        tx.insert(&table, &values).unwrap();
        tx.abort().unwrap();
        assert_eq!(db.stats().unwrap().logged_bytes, 4 * 64, "{engine}");
        assert_eq!(db.stats().unwrap().user_bytes, 2 * 29 + 20, "{engine}");
    }
}

#[test]
fn a_group_of_transactions_is_one_batch() {
    let directory = crate::support::in_memory();
    for engine in [EngineKind::Cow, EngineKind::NvmCow] {
        let path = directory.path().join(engine.name());
        let options = options(engine).commit(Commit::grouped(10));
        let db = Database::create(path, &schema(), &options).unwrap();
        let table = Tables::of(&db).pair;
        for number in 0..100 {
            let values = [Value::Text("a"), Value::I64(number), Value::Bytes(&[7; 20])];
            db.write(|tx| tx.insert(&table, &values)).unwrap();
        }
        let stats = db.stats().unwrap();
        assert_eq!(stats.own.pages().unwrap().batches, 10, "{engine}");
        if engine == EngineKind::NvmCow {
            // New: the tuple, its text, its bytes.
            assert_eq!(stats.logged_bytes, 100 * 3 * 8);
        }
    }
}

fn checkpoints(db: &Database) -> InpStats {
    match db.stats().unwrap().own {
        OwnStats::Inp(own) => own,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_checkpoint_counts_what_it_wrote() {
    let directory = crate::support::in_memory();
    let options = options(EngineKind::Inp).tune("checkpoint_bytes", 1 << 20);
    let db = Database::create(directory.path().join("db"), &schema(), &options).unwrap();
    run(&db, &mut Model::default(), 100);
    assert_eq!(checkpoints(&db).checkpoints, 0);
    db.checkpoint().unwrap();
    let own = checkpoints(&db);
    assert_eq!(own.checkpoints, 1);
    assert_eq!(own.checkpoint_bytes, db.footprint().unwrap().checkpoint);
    assert_eq!(db.stats().unwrap().inline.steps, 1);
}

/// A reserve of the log does not make a checkpoint due: one would follow the other.
#[test]
fn a_reserve_that_is_larger_than_the_log_may_grow_makes_no_checkpoint_due() {
    let directory = crate::support::in_memory();
    let options = options(EngineKind::Inp)
        .tune("checkpoint_bytes", 64 << 10)
        .tune("wal_reserve_bytes", 1 << 20);
    let db = Database::create(directory.path().join("db"), &schema(), &options).unwrap();
    let mut model = Model::default();
    run(&db, &mut model, 20);
    assert_eq!((checkpoints(&db).checkpoints, db.background(1 << 20).unwrap()), (0, 0));
    run(&db, &mut model, 1500);
    let own = checkpoints(&db);
    assert!((1..40).contains(&own.checkpoints), "{own:?}");
    while db.background(1 << 20).unwrap() > 0 {}
}

/// CoW's file by components: leaves with tuples, all other nodes, pages that are free.
#[test]
fn the_footprint_of_cow_tells_tables_from_indexes() {
    let directory = crate::support::in_memory();
    let path = directory.path().join("db");
    let db = Database::create(&path, &schema(), &options(EngineKind::Cow)).unwrap();
    let tables = Tables::of(&db);
    let name = directory.path().join("db.files").join("cow-0");
    let file = || std::fs::metadata(&name).unwrap().len();
    let before = db.footprint().unwrap();
    assert_eq!((before.table, before.index), (0, 0), "{before:?}");
    let pool = before.total() - file();
    // Besides them, the pages that are cached: none is evicted here, and none is there twice.
    let cached = |footprint: Footprint| {
        let bytes = footprint.total().checked_sub(file() + pool).expect("every byte once");
        assert!(bytes.is_multiple_of(512) && bytes <= file(), "{footprint:?}");
        bytes
    };
    assert_eq!(cached(before), 0);
    for number in 0..500 {
        let values = [Value::Text("a"), Value::I64(number), Value::Bytes(&[7; 300])];
        db.write(|tx| tx.insert(&tables.pair, &values)).unwrap();
    }
    let plain = db.footprint().unwrap();
    println!("{plain:?}, pool {pool}");
    assert!(cached(plain) >= plain.table, "each was written through the cache");
    assert!((500 * 300..500 * 900).contains(&plain.table), "{plain:?}");
    // Only inner nodes: no index except the key's.
    assert!(plain.index > 0 && plain.index < plain.table / 8, "{plain:?}");
    let mut model = Model::default();
    run(&db, &mut model, 300);
    let more = db.footprint().unwrap();
    assert!(more.index > plain.index, "secondary indexes: {more:?}");
    assert!(cached(more) >= cached(plain), "{more:?}");
    // Deleted: the pages are free, and still there.
    for number in 0..500 {
        let key = [Value::Text("a"), Value::I64(number)];
        db.write(|tx| tx.delete(&tables.pair, &key)).unwrap();
    }
    let less = db.footprint().unwrap();
    assert!(less.table < more.table / 2 && less.other > more.other, "{less:?}");
}
