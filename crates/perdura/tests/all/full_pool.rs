//! A full pool (`docs/reliability.md`, "Bad inputs" 14): an ordinary error, wherever it comes.
//!
//! After it the transaction can go on or abort, nothing that was there is lost, nothing leaks,
//! reading and deleting work, what is deleted makes room, and the pool opens again. Growing fails
//! at every place in turn: in a tuple, in a split at every level, in an index of its own, in the
//! log, at a chunk of every size class.

use crate::support::{Driver, Model, Tables, compare, few, schema, small_logs};
use faults::points::at_all;
use perdura::{
    ColumnType, Database, Domain, EngineKind, Environment, Error, Options, Schema, Table,
    TableSchema, Value,
};
use rand::Rng;
use sim::{Recorded, Recording, RecordingFiles};

const LIMIT: u64 = 512 << 10;

fn options(engine: EngineKind) -> Options {
    small_logs()
        .engine(engine)
        .domain(Domain::Process)
        .chunk_bytes(8 << 10)
        .pool_limit(LIMIT)
        .volatile_limit(12 << 20)
        .tune("node_bytes", 128)
        .tune("page_bytes", 512)
        .tune("most_rows", 64)
        .tune("reserve", 16)
        .tune("slots", 4)
}

/// Runs transactions until the memory is full so many times; the model follows.
fn run_into_the_limit<E: Environment>(
    db: &Database<E>,
    driver: &mut Driver,
    model: &mut Model,
    failures: usize,
) {
    let tables = Tables::of(db);
    let mut failed = 0;
    for transaction in 0..20_000 {
        match driver.transaction(db, &tables, model, 1 + transaction % 12) {
            Ok(_) => {}
            Err(Error::User(_) | Error::Full(_)) => {
                failed += 1;
                if failed % 8 == 1 {
                    compare(db, model);
                }
                if failed == failures {
                    return;
                }
            }
            Err(other) => panic!("{other}"),
        }
    }
    panic!("full only {failed} times");
}

fn delete_everything<E: Environment>(db: &Database<E>, model: &mut Model) {
    let tables = Tables::of(db);
    for key in std::mem::take(&mut model.items).into_keys() {
        db.write(|tx| tx.delete(&tables.item, &[Value::U64(key)])).unwrap();
    }
    for (left, right) in std::mem::take(&mut model.pairs).into_keys() {
        let key = [Value::Text(&left), Value::I64(right)];
        db.write(|tx| tx.delete(&tables.pair, &key)).unwrap();
    }
}

#[test]
fn a_full_database_can_be_read_emptied_filled_again_and_opened() {
    full_databases_go_on(few(), 5);
}

/// Fills them up until so many transactions have failed, over and over.
pub(crate) fn full_databases_go_on(of: impl Iterator<Item = EngineKind>, failures: usize) {
    // A full column store is not: its dictionaries keep the values of what is deleted.
    // InP's 12 MiB of volatile memory are filled with more and larger tuples.
    let engines = [
        (EngineKind::NvmInp, 3_000),
        (EngineKind::NvmCow, 3_000),
        (EngineKind::NvmLog, 3_000),
        (EngineKind::Fast, 3_000),
        (EngineKind::Fash, 3_000),
        (EngineKind::Nvwal, 3_000),
        (EngineKind::Journal, 3_000),
        (EngineKind::Wal, 3_000),
        (EngineKind::Inp, 200_000),
    ];
    let wanted: Vec<EngineKind> = of.collect();
    for (engine, keys) in engines.into_iter().filter(|(engine, _)| wanted.contains(engine)) {
        let directory = crate::support::in_memory();
        let path = directory.path().join("db");
        let mut db = Database::create(&path, &schema(), &options(engine)).unwrap();
        let (mut driver, mut model) = (Driver::new(1, keys), Model::default());
        for round in 0..3 {
            run_until_full(&db, engine, &mut driver, &mut model, failures);
            compare(&db, &model);
            // Deleting works when full, also in a transaction that has just been refused.
            let (tables, key) = (Tables::of(&db), *model.items.keys().next().unwrap());
            db.write(|tx| {
                let refused = until_full(tx, &tables, &mut driver);
                assert!(matches!(refused, Error::Full(_)), "{refused}");
                tx.delete(&tables.item, &[Value::U64(key)])?;
                Err::<(), _>(Error::user("and nothing of it stays"))
            })
            .unwrap_err();
            compare(&db, &model);
            db.write(|tx| tx.delete(&tables.item, &[Value::U64(key)])).unwrap();
            model.items.remove(&key);
            if round == 1 {
                db.abandon();
            } else {
                db.close().unwrap();
            }
            db = Database::open(&path, &options(engine)).unwrap();
            compare(&db, &model);
            delete_everything(&db, &mut model);
            compare(&db, &model);
        }
    }
}

fn run_until_full(
    db: &Database,
    engine: EngineKind,
    driver: &mut Driver,
    model: &mut Model,
    failures: usize,
) {
    if engine == EngineKind::Inp {
        // Chunks of InP's tables are large: this fills them quickly.
        let tables = Tables::of(db);
        let mut item = large_item();
        for key in 0.. {
            item.count = key as i64;
            match db.write(|tx| crate::support::insert_item(tx, &tables, key, &item)) {
                Ok(()) => assert!(model.items.insert(key, item.clone()).is_none()),
                Err(Error::Full(_)) => break,
                Err(other) => panic!("{other}"),
            }
        }
    }
    run_into_the_limit(db, driver, model, if engine == EngineKind::Inp { 2 } else { failures });
}

fn large_item() -> crate::support::Item {
    crate::support::Item {
        name: "large".into(),
        payload: vec![7; 300],
        count: 0,
        flag: b"full".to_vec(),
        score: 0.0,
    }
}

/// Inserts until there is no room, at keys that no test uses.
fn until_full<E: Environment>(
    tx: &mut perdura::Tx<'_, E>,
    tables: &Tables,
    driver: &mut Driver,
) -> Error {
    let from = 1 << 40 | u64::from(driver.random.random::<u32>());
    (from..)
        .find_map(|key| crate::support::insert_item(tx, tables, key, &large_item()).err())
        .unwrap()
}

/// Engines whose data are in the pool.
const IN_POOL: [EngineKind; 9] = [
    EngineKind::NvmInp,
    EngineKind::NvmCow,
    EngineKind::NvmLog,
    EngineKind::Fast,
    EngineKind::Fash,
    EngineKind::Nvwal,
    EngineKind::Journal,
    EngineKind::Wal,
    EngineKind::Sofort,
];

fn recorded(engine: EngineKind, initial: u64) -> (Database<Recorded>, Recording) {
    let memory = Recording::pool(initial, 16 << 20).unwrap();
    let media = faults::recorded(memory.clone(), RecordingFiles::new());
    // Small runs: freezing, filters and merges find no room, too.
    let options = options(engine).tune("memtable_bytes", 8 << 10).tune("growth", 2);
    let db = Database::create_on(media, &schema(), &options).unwrap();
    (db, memory)
}

fn reopen(memory: &Recording) -> Result<Database<Recorded>, Error> {
    let copy = Recording::from_image(&memory.contents(), 16 << 20).unwrap();
    // No room for recovery either.
    copy.fail_growth_after(Some(0));
    Database::open_on(faults::recorded(copy, RecordingFiles::new()), &small_logs())
}

#[test]
fn growths_fail_in_turn_and_nothing_is_lost_or_leaked() {
    growths_fail_in_turn(9);
}

/// Growths that fail in turn: one in so many, or all of them in the long run.
pub(crate) fn growths_fail_in_turn(one_in: usize) {
    let step = if at_all() { 1 } else { one_in };
    IN_POOL.into_iter().for_each(|engine| one_growth_fails(engine, step));
}

fn one_growth_fails(engine: EngineKind, step: usize) {
    let mut growths = 0;
    for allowed in (0..).step_by(step) {
        let (db, memory) = recorded(engine, 64 << 10);
        memory.fail_growth_after(Some(allowed));
        let (tables, mut driver, mut model) =
            (Tables::of(&db), Driver::new(7, 1200), Model::default());
        let mut failed = 0;
        let mut later = 0;
        for transaction in 0..300 {
            // A third failure would say the same: from then on there is room, for some transactions
            // more.
            later += usize::from(failed == 2);
            if later > 40 {
                break;
            }
            match driver.transaction(&db, &tables, &mut model, 1 + transaction % 10) {
                Ok(_) => {}
                Err(Error::User(_) | Error::Full(_)) => {
                    failed += 1;
                    compare(&db, &model);
                    let again = reopen(&memory).unwrap();
                    compare(&again, &model);
                    again.abandon();
                    if failed == 2 {
                        memory.fail_growth_after(None);
                    }
                }
                Err(other) => panic!("{other}"),
            }
        }
        compare(&db, &model);
        db.abandon();
        compare(&reopen(&memory).unwrap(), &model);
        if failed == 0 {
            growths = allowed;
            break;
        }
    }
    println!("{engine}: {growths} growths failed in turn");
    assert!(growths >= 15, "{growths}");
}

#[test]
fn creating_without_room_is_an_error_at_every_growth() {
    creating_without_room(EngineKind::NvmInp, 3);
    creating_without_room(EngineKind::NvmCow, 2);
    creating_without_room(EngineKind::NvmLog, 3);
}

fn creating_without_room(engine: EngineKind, least: u64) {
    for allowed in 0.. {
        let memory = Recording::pool(8 << 10, 16 << 20).unwrap();
        memory.fail_growth_after(Some(allowed));
        let media = faults::recorded(memory.clone(), RecordingFiles::new());
        match Database::create_on(media, &schema(), &options(engine)) {
            Ok(_) => {
                println!("{engine}: {allowed} growths of a new database failed in turn");
                assert!(allowed >= least);
                return;
            }
            Err(Error::Full(_)) => {}
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn recovery_of_a_full_pool_needs_no_room() {
    for (seed, engine) in (0..6).flat_map(|seed| IN_POOL.map(|engine| (seed, engine))) {
        let (db, memory) = recorded(engine, 64 << 10);
        let (tables, mut driver, mut model) =
            (Tables::of(&db), Driver::new(seed, 300), Model::default());
        for transaction in 0..60 {
            driver.transaction(&db, &tables, &mut model, 1 + transaction % 10).unwrap();
        }
        memory.fail_growth_after(Some(0));
        // A transaction that removes and moves index entries, cut off.
        let mut tx = db.begin().unwrap();
        let keys: Vec<u64> = model.items.keys().copied().collect();
        for (at, key) in keys.iter().enumerate() {
            let done = match at % 3 {
                0 => tx.delete(&tables.item, &[Value::U64(*key)]),
                1 => crate::support::update_item(&mut tx, &tables, *key, &large_item(), 1 | 4),
                _ => crate::support::insert_item(&mut tx, &tables, key + 1000, &large_item()),
            };
            assert!(matches!(done, Ok(()) | Err(Error::Full(_))), "{done:?}");
        }
        let again = reopen(&memory).unwrap();
        compare(&again, &model);
        again.abandon();
        // And undone in place.
        tx.abort().unwrap();
        compare(&db, &model);
        db.abandon();
    }
}

/// As small as a pool can be, the limit strikes in the first nodes and chunks.
#[test]
fn pools_of_some_small_limits_work_or_say_that_they_are_full() {
    pools_of_small_limits(5);
}

/// Pools of every small limit, or of one in so many.
pub(crate) fn pools_of_small_limits(one_in: usize) {
    let schema = Schema::new()
        .table(TableSchema::new("t").column("k", ColumnType::U64).key(&["k"]).index("i", &["k"]));
    for engine in IN_POOL {
        small_limits(engine, &schema, one_in);
    }
}

fn small_limits(engine: EngineKind, schema: &Schema, one_in: usize) {
    let directory = crate::support::in_memory();
    let (mut refused, mut created) = (0, 0);
    for pages in (1..60).step_by(one_in) {
        let path = directory.path().join(format!("db-{pages}"));
        let options = options(engine).pool_limit(pages * 4096);
        let db = match Database::create(&path, schema, &options) {
            Ok(db) => db,
            Err(error) => {
                assert!(matches!(error, Error::Full(_) | Error::Pool(_)), "{error}");
                assert!(!path.exists(), "nothing is left afterwards");
                refused += 1;
                continue;
            }
        };
        created += 1;
        let table: Table = db.table("t").unwrap();
        let mut inserted = 0;
        let error = loop {
            match db.write(|tx| tx.insert(&table, &[Value::U64(inserted)])) {
                Ok(()) => inserted += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::Full(_)), "{error}");
        assert_eq!(db.check().unwrap().tuples, inserted);
        for key in 0..inserted {
            db.write(|tx| tx.delete(&table, &[Value::U64(key)])).unwrap();
        }
        let report = db.check().unwrap();
        assert_eq!((report.tuples, report.leaked, report.dangling), (0, 0, 0));
    }
    assert!(refused * one_in > 3 && created * one_in > 30, "{engine}: {refused} {created}");
}

/// Filled with inserts, half of it deleted in small transactions, filled again. In NVM-Log that
/// takes tombstones, for which nodes are kept back, and runs are cleared in place. Full disks are
/// in `full_disk.rs`.
#[test]
fn what_is_deleted_in_a_full_pool_makes_room() {
    for engine in IN_POOL.into_iter().chain([EngineKind::Inp]) {
        let directory = crate::support::in_memory();
        let path = directory.path().join("db");
        // Small runs: most tuples are in frozen ones.
        let options = options(engine).tune("memtable_bytes", 16 << 10).tune("growth", 2);
        let db = Database::create(&path, &schema(), &options).unwrap();
        let (tables, mut model) = (Tables::of(&db), Model::default());
        let insert = |model: &mut Model, key: u64| -> bool {
            match db.write(|tx| crate::support::insert_item(tx, &tables, key, &large_item())) {
                Ok(()) => model.items.insert(key, large_item()).is_none(),
                Err(Error::Full(_)) => false,
                Err(other) => panic!("{engine}: {other}"),
            }
        };
        let filled = (0..).take_while(|key| insert(&mut model, *key)).count() as u64;
        compare(&db, &model);
        let (mut deleted, mut refused) = (0, 0);
        for key in (0..filled).step_by(2) {
            match db.write(|tx| tx.delete(&tables.item, &[Value::U64(key)])) {
                Ok(()) => {
                    model.items.remove(&key);
                    deleted += 1;
                }
                Err(Error::Full(_)) => refused += 1,
                Err(other) => panic!("{engine}: {other}"),
            }
        }
        while db.background(1 << 20).unwrap() > 0 && refused == 0 {}
        compare(&db, &model);
        let gone: Vec<u64> = (0..filled).filter(|key| !model.items.contains_key(key)).collect();
        let again = gone.iter().take_while(|key| insert(&mut model, **key)).count();
        println!(
            "{engine}: {filled} inserted, {deleted} deleted, {refused} refused, {again} again"
        );
        assert_eq!(refused, 0, "{engine}: deleting needs no room");
        assert!(again >= deleted / 2, "{engine}: {again} in place of {deleted}");
        compare(&db, &model);
        db.close().unwrap();
        compare(&Database::open(&path, &options).unwrap(), &model);
    }
}

/// Pools of NVM-Log of several sizes, with MemTables that are frozen often, and with the default
/// ones: every other tuple is deleted, one by one, and others come in their place, with new keys,
/// round after round. An insert that finds no room makes some: a few attempts are enough.
#[test]
fn nvm_log_takes_inserts_again_after_half_of_a_full_pool_was_deleted() {
    const ATTEMPTS: usize = 40;
    let columns = |payload| {
        TableSchema::new("t")
            .column("k", ColumnType::U64)
            .column("group", ColumnType::U64)
            .column("v", ColumnType::Bytes { max: payload })
            .key(&["k"])
            .index("groups", &["group"])
    };
    for (limit_mb, payload, memtable) in
        [(2, 40, 32 << 10), (8, 900, 32 << 20), (16, 900, 256 << 10), (64, 6000, 32 << 20)]
    {
        let directory = crate::support::in_memory();
        let path = directory.path().join("db");
        let schema = Schema::new().table(columns(payload));
        let options = small_logs().engine(EngineKind::NvmLog).domain(Domain::Process);
        let options = options.pool_limit(limit_mb << 20).tune("memtable_bytes", memtable);
        let mut db = Database::create(&path, &schema, &options).unwrap();
        let mut table = db.table("t").unwrap();
        let value = vec![7; payload as usize];
        let mut next = 0u64;
        let mut keys = Vec::new();
        for round in 0..5 {
            let (before, mut attempts) = (keys.len(), 0);
            while attempts < ATTEMPTS {
                let tuple = [Value::U64(next), Value::U64(next / 10), Value::Bytes(&value)];
                match db.write(|tx| tx.insert(&table, &tuple)) {
                    Ok(()) => {
                        keys.push(next);
                        (next, attempts) = (next + 1, 0);
                    }
                    Err(Error::Full(_)) => attempts += 1,
                    Err(other) => panic!("{other}"),
                }
            }
            let inserted = keys.len() - before;
            println!("{limit_mb} MiB, {memtable}: round {round}, {before} there, {inserted} more");
            assert!(inserted >= before / 3, "{inserted} in place of {before}");
            if round == 2 {
                db.close().unwrap();
                db = Database::open(&path, &options).unwrap();
                table = db.table("t").unwrap();
            }
            for key in keys.iter().step_by(2) {
                db.write(|tx| tx.delete(&table, &[Value::U64(*key)])).unwrap();
            }
            let mut at = 0;
            keys.retain(|_| {
                at += 1;
                at % 2 == 0
            });
            let report = db.check().unwrap();
            let counted = (report.tuples, report.leaked, report.dangling);
            assert_eq!(counted, (keys.len() as u64, 0, 0));
        }
    }
}

/// A leaf is full, of tuples that the transaction deletes, and of others that it inserts in their
/// place and deletes, too. Killed while it aborts, or in recovery, it is undone again from its
/// newest operation on, when the old tuples are in the leaf already: opening must not need another
/// node, which a full pool does not have.
#[test]
fn what_is_undone_again_after_a_kill_needs_no_room() {
    let item = TableSchema::new("item").column("id", ColumnType::U64);
    let item = item.column("group", ColumnType::U64).key(&["id"]).index("groups", &["group"]);
    let schema = Schema::new().table(item);
    for engine in EngineKind::ALL.into_iter().filter(|engine| !engine.traits().needs_files()) {
        let options = small_logs().engine(engine).chunk_bytes(16 << 10).tune("node_bytes", 128);
        let options = options.tune("tree_node_bytes", 128).pool_limit(1 << 20);
        let mut states = 0;
        // Some of these fill a leaf of either index.
        for tuples in 2..=9 {
            let memory = Recording::pool(64 << 10, 1 << 20).unwrap();
            let media = faults::recorded(memory.clone(), RecordingFiles::new());
            let db: Database<Recorded> = Database::create_on(media, &schema, &options).unwrap();
            let item = db.table("item").unwrap();
            let tuple = |id| [Value::U64(id), Value::U64(id / 2)];
            for id in 1..=tuples {
                db.write(|tx| tx.insert(&item, &tuple(id))).unwrap();
            }
            let before = db.check().unwrap();
            memory.start();
            let mut tx = db.begin().unwrap();
            for (gone, guest) in [(1, tuples + 1), (2, tuples + 2)] {
                tx.delete(&item, &tuple(gone)[..1]).unwrap();
                tx.insert(&item, &tuple(guest)).unwrap();
                tx.update(&item, &tuple(guest)[..1], &[(1, Value::U64(gone + 100))]).unwrap();
                tx.update(&item, &tuple(guest)[..1], &[(1, Value::U64(gone + 50))]).unwrap();
                tx.delete(&item, &tuple(guest)[..1]).unwrap();
            }
            tx.insert(&item, &tuple(1)).unwrap();
            tx.abort().unwrap();
            let after = db.check().unwrap();
            memory.stop().process_states(|at, image| {
                let memory = Recording::pool_from_image(image, 1 << 20).unwrap();
                let media = faults::recorded(memory, RecordingFiles::new());
                let db: Database<Recorded> = Database::open_on(media, &options).unwrap();
                let found = db.check().unwrap();
                let place = format!("{engine}, {tuples} tuples, event {at}");
                assert_eq!((found.tuples, found.leaked, found.dangling), (tuples, 0, 0), "{place}");
                // The transaction itself may have needed a node, which stays.
                let most = before.objects.max(after.objects);
                assert!(found.objects <= most, "{place}: {found:?}, {most} objects before");
                db.abandon();
                states += 1;
            });
        }
        // Some store nothing in the pool before they commit.
        let cached = [EngineKind::Nvwal, EngineKind::Journal, EngineKind::Wal];
        let least = if cached.contains(&engine) { 1 } else { 500 };
        assert!(states > least, "{engine}: {states}");
    }
}
