//! A full disk (`docs/reliability.md`, "Bad inputs" 20), for every engine that keeps files:
//! wherever a call fails nothing acknowledged is lost, what cannot be undone stops the partition
//! with an error that says so, and when there is room again everything goes on.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use crate::support::{PAIR, schema, small_logs};
use perdura::{Commit, Concurrency, Database, EngineKind, Error, Options, Scan, Table, Tx, Value};
use sim::{Recorded, Recording, RecordingFiles};

type Model = BTreeMap<i64, Vec<u8>>;

fn options(engine: EngineKind) -> Options {
    small_logs()
        .engine(engine)
        .commit(Commit::Durable)
        .tune("page_bytes", 512)
        .tune("cache_bytes", 1 << 20)
        .tune("memtable_bytes", 3 << 10)
        .tune("growth", 2)
        .tune("level0_runs", 2)
        .tune("block_bytes", 512)
        .tune("checkpoint_bytes", 8 << 10)
        .tune("wal_reserve_bytes", 2 << 10)
        .tune("buffer_bytes", 8 << 10)
        .tune("log_bytes", 128 << 10)
}

fn engines() -> impl Iterator<Item = EngineKind> {
    EngineKind::ALL.into_iter().filter(|engine| engine.traits().needs_files())
}

struct Store {
    db: Option<Database<Recorded>>,
    files: RecordingFiles,
    memory: Recording,
    engine: EngineKind,
}

impl Store {
    fn new(engine: EngineKind) -> Self {
        let memory = Recording::pool(64 << 10, 1 << 20).unwrap();
        let files = RecordingFiles::new();
        let media = faults::recorded(memory.clone(), files.clone());
        let db = Database::create_on(media, &schema(), &options(engine)).unwrap();
        Self { db: Some(db), files, memory, engine }
    }

    fn db(&self) -> &Database<Recorded> {
        self.db.as_ref().unwrap()
    }

    fn table(&self) -> Table {
        self.db().table(PAIR).unwrap()
    }

    /// As after a kill, whether the partition has stopped or not.
    fn reopen(&mut self) {
        self.db.take().unwrap().abandon();
        self.memory = Recording::from_image(&self.memory.contents(), 1 << 20).unwrap();
        let media = faults::recorded(self.memory.clone(), self.files.clone());
        self.db = Some(Database::open_on(media, &options(self.engine)).unwrap());
    }

    fn contents(&self) -> Model {
        self.read().unwrap()
    }

    fn read(&self) -> Result<Model, Error> {
        let mut model = Model::new();
        let table = self.table();
        self.db().read(|tx| {
            tx.scan(&table, &Scan::all(), |row| {
                model.insert(row.i64(1), row.bytes(2).into());
                ControlFlow::Continue(())
            })
        })?;
        Ok(model)
    }
}

fn key(number: i64) -> [Value<'static>; 2] {
    [Value::Text("k"), Value::I64(number)]
}

/// Inserts, updates or deletes the tuple; says in the model what it has done.
fn change(
    tx: &mut Tx<'_, Recorded>,
    table: &Table,
    model: &mut Model,
    number: i64,
    stamp: u64,
) -> Result<(), Error> {
    let value = vec![stamp as u8; 20 + (stamp * 37 % 250) as usize];
    let [left, right] = key(number);
    match (model.contains_key(&number), stamp.is_multiple_of(3)) {
        (false, _) => {
            tx.insert(table, &[left, right, Value::Bytes(&value)])?;
            model.insert(number, value);
        }
        (true, true) => {
            tx.delete(table, &[left, right])?;
            model.remove(&number);
        }
        (true, false) => {
            tx.update(table, &[left, right], &[(2, Value::Bytes(&value))])?;
            model.insert(number, value);
        }
    }
    Ok(())
}

#[derive(Default, Debug)]
struct Seen {
    refused: usize,
    stopped: usize,
}

/// Runs transactions while the disk may be full; returns the states that there may be.
fn run_into_it(store: &Store, model: &mut Model, from: u64, seen: &mut Seen) -> Vec<Model> {
    let table = store.table();
    for transaction in from..from + 60 {
        let mut after = model.clone();
        let mut tx = match store.db().begin() {
            Ok(tx) => tx,
            // The work that follows the last commit has failed, and stopped the partition.
            Err(error) => {
                let paged = store.engine.traits().concurrency == Concurrency::Shared;
                assert!(paged, "{}: {error}", store.engine);
                seen.stopped += 1;
                break;
            }
        };
        let mut done = Ok(());
        for operation in 0..1 + transaction % 5 {
            let stamp = transaction * 7 + operation;
            done = change(&mut tx, &table, &mut after, (stamp * 11 % 40) as i64, stamp);
            if done.is_err() {
                break;
            }
        }
        if done.is_err() {
            seen.refused += 1;
            if tx.abort().is_err() {
                break;
            }
            // An engine that stopped says so, to readers too.
            let read =
                store.db().read(|tx| tx.scan(&table, &Scan::all(), |_| ControlFlow::Break(())));
            if read.is_err() {
                break;
            }
            match store.read() {
                Ok(found) => assert_eq!(found, *model, "what was refused is undone"),
                // A page that is read takes the place of one that has to be written first.
                Err(error) => {
                    let paged = store.engine.traits().concurrency == Concurrency::Shared;
                    assert!(paged, "{}: {error}", store.engine);
                }
            }
            continue;
        }
        match tx.commit() {
            Ok(ticket) => {
                assert!(ticket.is_durable());
                *model = after;
            }
            Err(_) => {
                // It may or may not be there.
                seen.stopped += 1;
                let again = store.db().write(|tx| tx.delete(&table, &key(1)));
                assert!(matches!(again, Err(Error::Engine(_))), "{again:?}");
                return vec![model.clone(), after];
            }
        }
    }
    vec![model.clone()]
}

#[test]
fn a_disk_that_is_full_at_some_calls_loses_nothing() {
    a_full_disk_loses_nothing(5);
}

/// A disk that is full at any of the first hundred calls, or at one in so many.
pub(crate) fn a_full_disk_loses_nothing(one_in: usize) {
    for engine in engines() {
        let mut seen = Seen::default();
        for calls in (0..100).step_by(one_in) {
            let mut store = Store::new(engine);
            let mut model = Model::new();
            store.files.fail_after(Some(calls));
            let possible = run_into_it(&store, &mut model, 0, &mut seen);
            store.files.fail_after(None);
            store.reopen();
            let mut found = store.contents();
            assert!(possible.contains(&found), "{engine}, after {calls} calls");
            let possible = run_into_it(&store, &mut found, 100, &mut Seen::default());
            assert_eq!(possible, [found.clone()], "{engine}: there is room again");
            store.reopen();
            assert_eq!(store.contents(), found, "{engine}, after {calls} calls");
            store.db().check().unwrap();
            store.db.take().unwrap().abandon();
        }
        println!("{engine}: {seen:?}");
        assert!((seen.refused + seen.stopped) * one_in > 20, "{engine}: {seen:?}");
    }
}

/// A disk of so many bytes fills up with inserts. Then tuples are deleted in small transactions as
/// far as the engine can, the database is opened again, and with more room all of it goes on.
#[test]
fn a_disk_fills_up_and_its_space_comes_back() {
    for engine in engines() {
        let mut store = Store::new(engine);
        store.files.limit(Some(96 << 10));
        let table = store.table();
        let mut model = Model::new();
        let value = vec![7; 200];
        let insert = |store: &Store, number: i64| {
            let [left, right] = key(number);
            store.db().write(|tx| tx.insert(&table, &[left, right, Value::Bytes(&value)]))
        };
        let mut next = 0;
        let full = loop {
            match insert(&store, next) {
                Ok(()) => drop(model.insert(next, vec![7; 200])),
                Err(error) => break error,
            }
            next += 1;
            assert!(next < 10_000, "{engine}: the disk is never full");
        };
        assert!(model.len() > 20, "{engine}: {} tuples", model.len());
        let uncertain = next;
        let look = |store: &Store, model: &mut Model| {
            let found = store.contents();
            if found.contains_key(&uncertain) {
                model.insert(uncertain, vec![7; 200]);
            }
            assert!(found == *model, "{engine}: {} and {} tuples", found.len(), model.len());
        };
        let table = store.table();
        if store.db().write(|tx| tx.get_into(&table, &key(0), &mut perdura::Row::new())).is_err() {
            store.reopen();
        }
        look(&store, &mut model);
        let (mut deleted, mut refused) = (0, 0);
        for number in (0..next).step_by(2) {
            let table = store.table();
            match store.db().write(|tx| tx.delete(&table, &key(number))) {
                Ok(()) => {
                    deleted += 1;
                    model.remove(&number);
                }
                Err(_) => {
                    refused += 1;
                    break;
                }
            }
        }
        println!("{engine}: {next} tuples, then {full}; {deleted} deleted, {refused} refused");
        if engine == EngineKind::Cow {
            assert_eq!(refused, 0, "its spare pages are for deleting");
        }
        store.files.limit(None);
        store.reopen();
        // The delete that was refused may have been logged before its sync failed.
        let found = store.contents();
        let gone: Vec<i64> = model.keys().filter(|at| !found.contains_key(at)).copied().collect();
        assert!(gone.len() <= refused, "{engine}: {gone:?}");
        gone.iter().for_each(|at| drop(model.remove(at)));
        look(&store, &mut model);
        // Deleted rows make room: the files do not grow by new ones.
        for number in 0..200 {
            let table = store.table();
            store
                .db()
                .write(|tx| change(tx, &table, &mut model, number % 40, number as u64))
                .unwrap();
        }
        while store.db().background(1 << 20).unwrap() > 0 {}
        store.reopen();
        assert!(store.contents() == model, "{engine}");
        store.db().check().unwrap();
        store.db.take().unwrap().abandon();
    }
}
