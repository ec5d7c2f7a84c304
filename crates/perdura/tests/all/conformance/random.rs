//! Random operations against a model, with aborts, clean reopenings and kills, under options that
//! keep all work in the background busy. The same seed leaves the same database in every engine.

use optimistic::Optimistic;
use perdura::{Commit, Database, EngineKind, Environment};
use sim::{Recording, RecordingFiles};

use super::{Own, Setup, Store, Tuple, Under, each_known, holds, small};
use crate::support::{Driver, Model, Tables, schema};

/// All tuples of the model.
fn tuples(model: &Model) -> [Vec<Tuple>; 2] {
    let items = model.items.iter().map(|(id, item)| {
        vec![
            Own::U64(*id),
            Own::Text(item.name.clone()),
            Own::Bytes(item.payload.clone()),
            Own::I64(item.count),
            Own::Bytes(item.flag.clone()),
            Own::F64(item.score),
        ]
    });
    let pairs = model.pairs.iter().map(|((left, right), value)| {
        vec![Own::Text(left.clone()), Own::I64(*right), Own::Bytes(value.clone())]
    });
    [items.collect(), pairs.collect()]
}

/// Compares all of the database, in every order, with the model; returns a digest.
fn agrees<E: Environment>(db: &Database<E>, model: &Model) -> u64 {
    let Tables { item, pair } = Tables::of(db);
    let [items, pairs] = tuples(model);
    holds(db, &[(&item, items), (&pair, pairs)])
}

/// One random transaction, which is committed unless `abort` is.
fn transaction<E: Environment>(
    db: &Database<E>,
    driver: &mut Driver,
    model: &mut Model,
    operations: usize,
    abort: bool,
) {
    let tables = Tables::of(db);
    let mut after = model.clone();
    let mut tx = db.begin().unwrap();
    for _ in 0..operations {
        driver.operation(&mut tx, &tables, &mut after).unwrap();
    }
    if abort {
        tx.abort().unwrap();
    } else {
        let _ticket = tx.commit().unwrap();
        *model = after;
    }
}

pub(crate) struct Run {
    pub(crate) seed: u64,
    pub(crate) rounds: usize,
    pub(crate) keys: u64,
    pub(crate) group: u32,
}

impl Run {
    fn setup(&self, engine: Under) -> Setup {
        small(engine).commit(match self.group {
            1 => Commit::Durable,
            group => Commit::grouped(group),
        })
    }

    /// Runs it, and returns a digest of what is there in the end.
    fn digest(&self, engine: Under) -> u64 {
        let mut store = Store::new(&schema(), self.setup(engine));
        let (mut driver, mut model) = (Driver::new(self.seed, self.keys), Model::default());
        for round in 0..self.rounds {
            let db = store.db();
            for number in 0..60 {
                // Small ones, and some that fill several segments, MemTables and batches.
                let operations = if number % 20 == 19 { 90 } else { 1 + (number * 7 + round) % 12 };
                transaction(db, &mut driver, &mut model, operations, number % 7 == 3);
                match (round * 60 + number) % 41 {
                    11 => drop(db.background(700).unwrap()),
                    23 => db.sync().unwrap(),
                    37 => db.checkpoint().unwrap(),
                    _ => {}
                }
            }
            agrees(db, &model);
            if round % 2 == 0 {
                store.reopen();
            } else {
                // Grouped commits that were not synced may be gone.
                db.sync().unwrap();
                store.crash();
            }
            agrees(store.db(), &model);
        }
        store.reopen();
        agrees(store.db(), &model)
    }

    pub(crate) fn same_in_every_engine(self) {
        let Self { seed, group, .. } = self;
        println!("seed {seed}, groups of {group}");
        let digest = |engine| {
            println!("engine {engine}");
            self.digest(engine)
        };
        let digests: Vec<u64> = Under::in_all_forms().map(digest).collect();
        println!("{digests:x?}");
        assert!(digests.iter().all(|digest| *digest == digests[0]), "{digests:x?}");
    }
}

#[test]
fn few_keys() {
    Run { seed: 0, rounds: 4, keys: 40, group: 1 }.same_in_every_engine();
}

#[test]
fn hundreds_of_keys() {
    Run { seed: 1, rounds: 2, keys: 400, group: 1 }.same_in_every_engine();
}

#[test]
fn groups_of_a_few() {
    Run { seed: 3, rounds: 2, keys: 200, group: 7 }.same_in_every_engine();
}

#[test]
fn groups_that_only_a_sync_ends() {
    Run { seed: 4, rounds: 2, keys: 100, group: 100_000 }.same_in_every_engine();
}

/// The same over recording media: what a test of crashes runs on is what a user gets.
#[test]
fn recording_media_hold_the_same() {
    let digest = |engine| {
        let media =
            faults::recorded(Recording::pool(64 << 10, 64 << 20).unwrap(), RecordingFiles::new());
        let setup = small(engine);
        let db = match engine {
            Under::Known(_) | Under::Checksummed(_) | Under::Placed => {
                Database::create_on(media, &schema(), &setup)
            }
            Under::Optimistic => {
                Database::create_with(media, &schema(), &setup, &Optimistic::new())
            }
        };
        let db = db.unwrap();
        let (mut driver, mut model) = (Driver::new(9, 150), Model::default());
        for number in 0..150 {
            transaction(&db, &mut driver, &mut model, 1 + number % 9, number % 7 == 3);
        }
        let digest = agrees(&db, &model);
        db.close().unwrap();
        digest
    };
    let digests: Vec<u64> = Under::in_all_forms().map(digest).collect();
    assert!(digests.iter().all(|digest| *digest == digests[0]), "{digests:x?}");
}

/// Returns which of the engines that ship have savepoints.
fn has_savepoints(engine: EngineKind) -> bool {
    EngineKind::P2.contains(&engine)
        || [EngineKind::NvmInp, EngineKind::NvmLog].contains(&engine)
        || EngineKind::P3.contains(&engine)
}

#[test]
fn what_was_done_behind_a_savepoint_is_undone() {
    savepoints_are_undone(0..1);
}

/// Undoes all that was done after a savepoint, in transactions of each of these seeds.
pub(crate) fn savepoints_are_undone(seeds: std::ops::Range<u64>) {
    each_known(|engine| {
        let mut store = Store::new(&schema(), small(engine));
        if !has_savepoints(engine) {
            let refused = store.db().begin().unwrap().savepoint();
            assert!(matches!(refused, Err(perdura::Error::Unsupported { .. })), "{refused:?}");
            return;
        }
        for seed in seeds.clone() {
            let (mut driver, mut model) = (Driver::new(seed, 30), Model::default());
            store = Store::new(&schema(), small(engine));
            for round in 0..5 {
                for steps in 0..40 {
                    let (db, tables) = (store.db(), Tables::of(store.db()));
                    driver.with_savepoints(db, &tables, &mut model, 1 + steps).unwrap();
                    driver.transaction(db, &tables, &mut model, 3).unwrap();
                }
                agrees(store.db(), &model);
                // Nothing is leaked: the check of an opened database says so.
                if round % 2 == 0 {
                    store.reopen();
                } else {
                    store.crash();
                }
                agrees(store.db(), &model);
            }
        }
    });
}

#[test]
fn a_savepoint_is_of_one_transaction_and_of_one_way_through_it() {
    each_known(|engine| {
        if !has_savepoints(engine) {
            return;
        }
        let store = Store::new(&schema(), small(engine));
        let tables = Tables::of(store.db());
        let mut driver = Driver::new(1, 30);
        let mut model = Model::default();
        let void = |done: Result<(), perdura::Error>| {
            assert!(matches!(done, Err(perdura::Error::NoSavepoint)), "{done:?}");
        };
        let mut tx = store.db().begin().unwrap();
        let first = tx.savepoint().unwrap();
        let before = model.clone();
        driver.operation(&mut tx, &tables, &mut model).unwrap();
        let second = tx.savepoint().unwrap();
        tx.rollback_to(second).unwrap();
        tx.rollback_to(first).unwrap();
        tx.rollback_to(first).unwrap();
        void(tx.rollback_to(second));
        model = before;
        // As if nothing had been done: its number is that of the next transaction.
        let _ticket = tx.commit().unwrap();
        let mut tx = store.db().begin().unwrap();
        void(tx.rollback_to(first));
        driver.operation(&mut tx, &tables, &mut model).unwrap();
        void(tx.rollback_to(first));
        let _ticket = tx.commit().unwrap();
        agrees(store.db(), &model);
        // Before the first statement of a partition that is owned.
        let mut own = store.db().partition(0).exclusive().unwrap();
        let mut tx = own.begin();
        let first = tx.savepoint().unwrap();
        let before = model.clone();
        driver.operation(&mut tx, &tables, &mut model).unwrap();
        tx.rollback_to(first).unwrap();
        model = before;
        driver.operation(&mut tx, &tables, &mut model).unwrap();
        let _ticket = tx.commit().unwrap();
        drop(own);
        agrees(store.db(), &model);
    });
}
