//! Scenarios: what an engine does before it crashes.
//!
//! Transactions with few and many operations, aborts, duplicate and missing keys; small in every
//! way, so that a scenario has splits, merges, root changes, growth of pool and log, rotations,
//! checkpoints, MemTables that are frozen or written out and merged through several levels, pages
//! that do not fit into the cache, batches of several transactions, and snapshots that pin what is
//! superseded.

use perdura::{Commit, Database, EngineKind, Error, Options, Schema, Snapshot, Value};
use rand::Rng;
use sim::{Recorded, Recording, RecordingFiles};

use crate::driver::Driver;
use crate::explorer::Scenario;
use crate::files::{self, FileMedium};
use crate::items::{Item, Model, Tables, compare, contents, insert_item, schema, update_item};
use crate::medium::InPool;
use crate::plot::{Plot, options};
use crate::pool::{self, PoolMedium};
use crate::work::Items;

impl Plot {
    /// Runs the scenario of an engine whose data lie in the pool; see [`Self::run_on`].
    pub fn run_in_pool(&self) -> Scenario<PoolMedium> {
        self.run_on()
    }

    /// Runs the scenario of an engine whose data lie in the pool and in files. Note `n` says that
    /// the first `n` transactions are acknowledged.
    ///
    /// # Panics
    /// The engine fails without any crash.
    pub fn run_on<M: InPool>(&self) -> Scenario<M> {
        let handle = M::fresh();
        let note = |note: usize| M::note(&handle, note as u64);
        let options = self.options.clone().commit(self.commit());
        M::start(&handle);
        let media = M::media(&handle);
        let db = Database::create_on(media, &self.schema(), &options).expect("a database");
        note(0);
        let tables = Tables::of(&db);
        let mut driver = Driver::new(self.seed, self.keys);
        let mut models = vec![Model::default()];
        let mut snapshots: Vec<Snapshot> = Vec::new();
        for transaction in 0..self.transactions {
            let before = &models[models.len() - 1];
            let mut model = before.clone();
            // Now and then one that needs several log segments.
            let operations = if transaction % 40 == 39 { self.large } else { 1 + transaction % 6 };
            // Each in a thread of its own: no fence may be relied on that another thread makes.
            let mut ticket = None;
            let work = || driver.grouped(&db, &tables, &mut model, operations).expect("it runs");
            std::thread::scope(|scope| ticket = scope.spawn(work).join().expect("it runs"));
            let changed = model != *before;
            if changed {
                models.push(model);
            }
            let mut durable = ticket.is_some_and(|ticket| self.acknowledges(ticket, changed));
            if self.group > 1 && transaction % 10 == 9 {
                db.sync().expect("a sync");
                durable = true;
            }
            if durable {
                note(models.len() - 1);
            }
            match transaction % 9 {
                2 => snapshots.extend(db.snapshot()),
                7 => snapshots.clear(),
                _ => {}
            }
        }
        db.sync().expect("a sync");
        note(models.len() - 1);
        snapshots.clear();
        compare(&db, &models[models.len() - 1]);
        db.close().expect("it closes");
        let trace = M::stop(&handle);
        let medium = M::of(self.options.clone(), handle);
        Scenario {
            work: Items,
            medium,
            trace,
            models,
            in_flight: self.group as usize,
            created: true,
        }
    }

    /// Runs the scenario of an engine that keeps files, with checkpoints, aborts and large
    /// transactions. Note `n` says that the first `n` are acknowledged: as they commit, or if they
    /// are grouped, as a sync returns. Returns the names of the files at the end, too.
    ///
    /// # Panics
    /// The engine fails without any crash.
    pub fn run_in_files(&self) -> (Scenario<FileMedium>, Vec<String>) {
        let options = self.options.clone().commit(self.commit());
        let memory = Recording::pool(64 << 10, files::LIMIT).expect("address space");
        let files = RecordingFiles::new();
        let media = crate::recorded(memory.clone(), files.clone());
        // Until creation is acknowledged the pool has no description, and the files are not opened.
        files.start();
        let mut db: Database<Recorded> =
            Database::create_on(media, &self.schema(), &options).expect("a database");
        files.note(0);
        let mut tables = Tables::of(&db);
        let (mut driver, mut models) = (Driver::new(self.seed, self.keys), vec![Model::default()]);
        let same = FileMedium { options, pool: memory.contents() };
        for transaction in 0..self.transactions {
            let before = models[models.len() - 1].clone();
            let mut model = before.clone();
            let operations = if transaction % 25 == 24 { self.large } else { 1 + transaction % 5 };
            let mut tx = db.begin().expect("a transaction");
            for _ in 0..operations {
                driver.operation(&mut tx, &tables, &mut model).expect("it runs");
            }
            if transaction % 7 == 6 {
                tx.abort().expect("an abort");
                continue;
            }
            let changed = model != before;
            if self.kills && changed && transaction % 3 == 2 {
                let most = if driver.random.random_bool(0.5) { 3 } else { 12 };
                let call = driver.random.random_range(0..most);
                // From some call on all fail, which is a kill; or one alone does.
                if driver.random.random_bool(0.3) {
                    files.fail_once_after(call);
                } else {
                    files.fail_after(Some(call));
                }
                let _ = tx.commit();
                db.abandon();
                // The first successor is killed during recovery.
                files.fail_after(Some(driver.random.random_range(0..5)));
                if let Ok(db) = same.open_on(&files) {
                    db.abandon();
                }
                files.fail_after(None);
                db = same.open_on(&files).expect("a recovery");
                tables = Tables::of(&db);
                let found = contents(&db).expect("contents");
                assert!(found == model || found == before, "transaction {transaction}");
                if found == model {
                    models.push(model);
                }
                files.note(models.len() as u64 - 1);
                continue;
            }
            let ticket = tx.commit().expect("a commit");
            assert!(self.group > 1 || ticket.is_durable());
            if changed {
                models.push(model);
            }
            if let Some(failing) = self.failing
                && transaction % 30 == 29
            {
                // There is no room for the checkpoint: the log goes on.
                db.sync().expect("a sync");
                files.fail_after(Some(failing));
                assert!(db.checkpoint().is_err());
                files.fail_after(None);
            }
            if transaction % 10 == 9 {
                db.sync().expect("a sync");
                files.note(models.len() as u64 - 1);
            } else if self.acknowledges(ticket, changed) {
                files.note(models.len() as u64 - 1);
            }
        }
        db.sync().expect("a sync");
        files.note(models.len() as u64 - 1);
        compare(&db, &models[models.len() - 1]);
        assert_eq!(
            memory.contents(),
            same.pool,
            "the pool of an engine with files does not change"
        );
        db.close().expect("it closes");
        let names = files.image().into_keys().collect();
        let medium = FileMedium { options: self.options.clone(), pool: same.pool };
        let in_flight = self.group as usize;
        let trace = files.stop();
        (Scenario { work: Items, medium, trace, models, in_flight, created: true }, names)
    }
}

/// Many tuples of one size are deleted, so that chunks of the pool become empty and go back to it,
/// and others of other sizes are inserted, a few dozen in each transaction.
///
/// # Panics
/// The engine fails without any crash.
pub fn chunks_go_back(engine: EngineKind) -> Scenario<PoolMedium> {
    const PART: u64 = 40;
    const PARTS: u64 = 8;
    let item = |key: u64| Item {
        name: format!("n{key}"),
        payload: vec![key as u8; 300],
        count: 0,
        flag: vec![],
        score: 0.0,
    };
    let pairs = |part: u64| part as i64 * 2..(part as i64 + 1) * 2;
    let mut model = Model::default();
    model.items.extend((0..PART * PARTS).map(|key| (key, item(key))));
    let mut models = vec![model.clone()];
    let first = |db: &Database<Recorded>, tables: &Tables| {
        (0..PARTS).try_for_each(|part| {
            let keys = part * PART..(part + 1) * PART;
            db.write(|tx| keys.clone().try_for_each(|key| insert_item(tx, tables, key, &item(key))))
        })
    };
    let act = |db: &Database<Recorded>, tables: &Tables, memory: &Recording| {
        for part in 0..PARTS {
            let keys = part * PART..(part + 1) * PART;
            db.write(|tx| {
                keys.clone().try_for_each(|key| tx.delete(&tables.item, &[Value::U64(key)]))?;
                pairs(part).try_for_each(|right| {
                    let pair = [Value::Text("k"), Value::I64(right), Value::Bytes(&[7; 90])];
                    tx.insert(&tables.pair, &pair)
                })
            })?;
            keys.for_each(|key| drop(model.items.remove(&key)));
            model.pairs.extend(pairs(part).map(|right| (("k".into(), right), vec![7; 90])));
            models.push(model.clone());
            memory.note(models.len() as u64 - 1);
        }
        Ok(())
    };
    let (medium, trace) = record(engine, first, act).expect("it runs");
    Scenario { work: Items, medium, trace, models, in_flight: 1, created: false }
}

/// The same of NVM-Log, which frees what was deleted when so much has come after it that all runs
/// are merged: just before that the scenario begins, and goes on with updates of tuples of that
/// size.
///
/// # Panics
/// The engine fails without any crash.
pub fn chunks_go_back_when_runs_are_merged() -> Scenario<PoolMedium> {
    const GONE: u64 = 280;
    const LEFT: u64 = 30;
    /// Transactions that fill MemTables, before and in the scenario.
    const BEFORE: i64 = 27;
    const IN_IT: i64 = 6;
    const PAIRS: i64 = 30;
    let item = |key: u64, version: i64| Item {
        name: format!("n{key}"),
        payload: vec![(key as i64 + version) as u8; 300],
        count: 0,
        flag: vec![],
        score: 0.0,
    };
    let value = [7; 90];
    let pairs = |round: i64| round * PAIRS..(round + 1) * PAIRS;
    let fill = |db: &Database<Recorded>, tables: &Tables, round: i64| {
        db.write(|tx| {
            pairs(round).try_for_each(|right| {
                let pair = [Value::Text("k"), Value::I64(right), Value::Bytes(&value)];
                tx.insert(&tables.pair, &pair)
            })
        })
    };
    let filled = |model: &mut Model, round| {
        model.pairs.extend(pairs(round).map(|right| (("k".into(), right), value.to_vec())));
    };
    let mut model = Model::default();
    model.items.extend((GONE..GONE + LEFT).map(|key| (key, item(key, 0))));
    (0..BEFORE).for_each(|round| filled(&mut model, round));
    let mut models = vec![model.clone()];
    let first = |db: &Database<Recorded>, tables: &Tables| {
        for from in (0..GONE + LEFT).step_by(40) {
            let keys = from..(from + 40).min(GONE + LEFT);
            db.write(|tx| {
                keys.clone().try_for_each(|key| insert_item(tx, tables, key, &item(key, 0)))
            })?;
        }
        for from in (0..GONE).step_by(40) {
            db.write(|tx| {
                (from..from + 40).try_for_each(|key| tx.delete(&tables.item, &[Value::U64(key)]))
            })?;
        }
        for round in 0..BEFORE {
            fill(db, tables, round)?;
            while db.background(64 << 10)? > 0 {}
        }
        Ok(())
    };
    let act = |db: &Database<Recorded>, tables: &Tables, memory: &Recording| {
        let mut acknowledge = |model: &Model| {
            models.push(model.clone());
            memory.note(models.len() as u64 - 1);
        };
        let mut version = 0;
        for round in BEFORE..BEFORE + IN_IT {
            fill(db, tables, round)?;
            filled(&mut model, round);
            acknowledge(&model);
            while db.background(512)? > 0 {
                version += 1;
                let key = GONE + version as u64 % LEFT;
                let new = item(key, version);
                db.write(|tx| update_item(tx, tables, key, &new, 2))?;
                model.items.insert(key, new);
                acknowledge(&model);
            }
        }
        Ok(())
    };
    let (medium, trace) = record(EngineKind::NvmLog, first, act).expect("it runs");
    Scenario { work: Items, medium, trace, models, in_flight: 1, created: false }
}

/// One transaction that updates both columns of a composite index and then deletes the tuple; or
/// aborts.
///
/// # Panics
/// The engine fails without any crash.
pub fn two_operations_on_one_tuple(engine: EngineKind, commit: bool) -> Scenario<PoolMedium> {
    let item = |count, flag: &[u8]| Item {
        name: "n".into(),
        payload: vec![],
        count,
        flag: flag.into(),
        score: 0.0,
    };
    let mut models = vec![Model::default()];
    models[0].items.insert(1, item(1, b"ffff"));
    let first = |db: &Database<Recorded>, tables: &Tables| {
        db.write(|tx| insert_item(tx, tables, 1, &item(1, b"ffff")))
    };
    let act = |db: &Database<Recorded>, tables: &Tables, memory: &Recording| {
        let mut tx = db.begin()?;
        update_item(&mut tx, tables, 1, &item(0, b"f"), 4 | 8)?;
        tx.delete(&tables.item, &[Value::U64(1)])?;
        if commit {
            assert!(tx.commit()?.is_durable());
            models.push(Model::default());
            memory.note(1);
        } else {
            tx.abort()?;
        }
        Ok(())
    };
    let (medium, trace) = record(engine, first, act).expect("it runs");
    Scenario { work: Items, medium, trace, models, in_flight: 1, created: false }
}

/// A statement on an inlined column, and a transaction that updates it twice; or aborts.
///
/// # Panics
/// The engine fails without any crash.
pub fn two_updates_after_a_statement(engine: EngineKind, commit: bool) -> Scenario<PoolMedium> {
    let names = [Value::Text("l"), Value::I64(1)];
    let value = |version| [version; 100];
    let model = |version| {
        let mut model = Model::default();
        model.pairs.insert(("l".into(), 1), value(version).to_vec());
        model
    };
    let mut models = vec![model(0)];
    let first = |db: &Database<Recorded>, tables: &Tables| {
        db.write(|tx| tx.insert(&tables.pair, &[names[0], names[1], Value::Bytes(&value(0))]))
    };
    let act = |db: &Database<Recorded>, tables: &Tables, memory: &Recording| {
        db.update(&tables.pair, &names, &[(2, Value::Bytes(&value(1)))])?;
        models.push(model(1));
        memory.note(1);
        let mut tx = db.begin()?;
        tx.update(&tables.pair, &names, &[(2, Value::Bytes(&value(2)))])?;
        tx.update(&tables.pair, &names, &[(2, Value::Bytes(&value(3)))])?;
        if commit {
            assert!(tx.commit()?.is_durable());
            models.push(model(3));
            memory.note(2);
        } else {
            tx.abort()?;
        }
        Ok(())
    };
    let (medium, trace) = record(engine, first, act).expect("it runs");
    Scenario { work: Items, medium, trace, models, in_flight: 1, created: false }
}

/// Transactions that insert a tuple and update it several times, so that one which fills the
/// MemTable has superseded something too.
///
/// # Panics
/// The engine fails without any crash.
pub fn inserts_with_updates(engine: EngineKind) -> Scenario<PoolMedium> {
    let mut models = vec![Model::default()];
    let act = |db: &Database<Recorded>, tables: &Tables, memory: &Recording| {
        for key in 0..24u64 {
            let mut model = models[models.len() - 1].clone();
            let mut tx = db.begin()?;
            for round in 0..4u8 {
                let item = Item {
                    name: "n".into(),
                    payload: vec![round; 150],
                    count: key as i64,
                    flag: b"f".into(),
                    score: 0.0,
                };
                if round == 0 {
                    insert_item(&mut tx, tables, key, &item)?;
                } else {
                    update_item(&mut tx, tables, key, &item, 2)?;
                }
                model.items.insert(key, item);
            }
            assert!(tx.commit()?.is_durable());
            models.push(model);
            memory.note(models.len() as u64 - 1);
        }
        Ok(())
    };
    let (medium, trace) = record(engine, |_, _| Ok(()), act).expect("it runs");
    Scenario { work: Items, medium, trace, models, in_flight: 1, created: false }
}

/// A group of transactions whose first one a snapshot sees; it goes before the group is made
/// durable. What the group has superseded is free then, and the next one takes it.
///
/// # Panics
/// The engine fails without any crash.
pub fn a_snapshot_goes_before_its_group_is_durable(engine: EngineKind) -> Scenario<PoolMedium> {
    const KEYS: u64 = 2;
    let item =
        |count| Item { name: "n".into(), payload: vec![], count, flag: b"f".into(), score: 0.0 };
    let mut models = vec![Model::default()];
    models[0].items.extend((0..KEYS).map(|key| (key, item(0))));
    let first = |db: &Database<Recorded>, tables: &Tables| {
        db.write(|tx| (0..KEYS).try_for_each(|key| insert_item(tx, tables, key, &item(0))))?;
        db.sync()
    };
    let act = |db: &Database<Recorded>, tables: &Tables, memory: &Recording| {
        let mut count = 0;
        let mut change = |models: &mut Vec<Model>| {
            count += 1;
            let mut model = models[models.len() - 1].clone();
            model.items.insert(count as u64 % KEYS, item(count));
            models.push(model);
            let work = || {
                let mut tx = db.begin()?;
                update_item(&mut tx, tables, count as u64 % KEYS, &item(count), 4)?;
                tx.commit().map(|_| ())
            };
            // In a thread of its own: no fence may be relied on that another thread makes.
            std::thread::scope(|scope| scope.spawn(work).join().expect("it runs"))
        };
        for transactions in [2, 1, 4, 3] {
            change(&mut models)?;
            let snapshot = db.snapshot();
            change(&mut models)?;
            drop(snapshot);
            db.sync()?;
            memory.note(models.len() as u64 - 1);
            (0..transactions).try_for_each(|_| change(&mut models))?;
            db.sync()?;
            memory.note(models.len() as u64 - 1);
        }
        Ok(())
    };
    let options = options(engine).commit(Commit::grouped(GROUP));
    let (medium, trace) = record_with(&schema(), options, first, act).expect("it runs");
    Scenario { work: Items, medium, trace, models, in_flight: GROUP as usize, created: false }
}

/// More than there are transactions between two syncs.
const GROUP: u32 = 10;

/// A transaction of NVM-CoW that needs segments of its batch's list again which an earlier one has
/// needed and which were given back since: they hold what they held.
///
/// # Panics
/// The engine fails without any crash.
pub fn lists_that_grow_again() -> Scenario<PoolMedium> {
    /// Tuples of the first transaction, for seven segments at least, and of the last, for five.
    const TUPLES: (u64, u64) = (3500, 2500);
    let item =
        |count| Item { name: "n".into(), payload: vec![], count, flag: b"f".into(), score: 0.0 };
    let mut models = vec![Model::default()];
    models[0].items.extend((0..TUPLES.0).map(|key| (key, item(2))));
    models[0].items.insert(0, item(1));
    let first = |db: &Database<Recorded>, tables: &Tables| {
        db.write(|tx| (0..TUPLES.0).try_for_each(|key| insert_item(tx, tables, key, &item(2))))?;
        // Each of the two lists has its turn: the large one is given back.
        (0..2).try_for_each(|count| db.write(|tx| update_item(tx, tables, 0, &item(count), 4)))
    };
    let act = |db: &Database<Recorded>, tables: &Tables, memory: &Recording| {
        for (from, to) in [(0, 1), (1, TUPLES.1), (TUPLES.1, TUPLES.1 + 1)] {
            let mut model = models[models.len() - 1].clone();
            let mut tx = db.begin()?;
            for key in from..to {
                tx.delete(&tables.item, &[perdura::Value::U64(key)])?;
                model.items.remove(&key);
            }
            assert!(tx.commit()?.is_durable());
            models.push(model);
            memory.note(models.len() as u64 - 1);
        }
        Ok(())
    };
    let (medium, trace) = record(EngineKind::NvmCow, first, act).expect("it runs");
    Scenario { work: Items, medium, trace, models, in_flight: 1, created: false }
}

/// Makes a database in a pool, does `first`, and records `act`.
pub(crate) fn record(
    engine: EngineKind,
    first: impl FnOnce(&Database<Recorded>, &Tables) -> Result<(), Error>,
    act: impl FnOnce(&Database<Recorded>, &Tables, &Recording) -> Result<(), Error>,
) -> Result<(PoolMedium, sim::Trace), Error> {
    record_with(&schema(), options(engine), first, act)
}

/// The same with a database of this schema and these options.
pub(crate) fn record_with(
    schema: &Schema,
    options: Options,
    first: impl FnOnce(&Database<Recorded>, &Tables) -> Result<(), Error>,
    act: impl FnOnce(&Database<Recorded>, &Tables, &Recording) -> Result<(), Error>,
) -> Result<(PoolMedium, sim::Trace), Error> {
    let io = |source| Error::Io { path: "recording".into(), source };
    let memory = Recording::pool(64 << 10, pool::LIMIT).map_err(io)?;
    let media = crate::recorded(memory.clone(), RecordingFiles::new());
    let db = Database::create_on(media, schema, &options)?;
    let tables = Tables::of(&db);
    first(&db, &tables)?;
    memory.start();
    act(&db, &tables, &memory)?;
    let trace = memory.stop();
    db.close()?;
    // The next process that opens it commits one by one.
    let options = options.commit(Commit::Durable);
    Ok((PoolMedium { options, before: memory }, trace))
}
