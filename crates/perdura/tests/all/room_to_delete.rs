//! A full medium always leaves room to delete: what the engines of P1 with files set aside takes
//! deletions, their commits and aborts, and checkpoints, whatever other users of the medium take, and
//! wherever the process is killed. Deleted rows make room for others.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use crate::support::{PAIR, schema, small_logs};
use perdura::{Commit, Database, EngineKind, Error, Options, Scan, Table, Value};
use sim::{Recorded, Recording, RecordingFiles};

type Model = BTreeMap<i64, usize>;

/// Bytes of the medium.
const MEDIUM: u64 = 160 << 10;

fn options(engine: EngineKind) -> Options {
    small_logs()
        .engine(engine)
        .commit(Commit::Durable)
        .tune("page_bytes", 512)
        .tune("cache_bytes", 1 << 20)
        .tune("memtable_bytes", 8 << 10)
        .tune("growth", 3)
        .tune("level0_runs", 2)
        .tune("block_bytes", 512)
        .tune("checkpoint_bytes", 16 << 10)
        .tune("wal_reserve_bytes", 2 << 10)
}

fn engines() -> impl Iterator<Item = EngineKind> {
    EngineKind::P1.into_iter().filter(|engine| engine.traits().needs_files())
}

fn key(number: i64) -> [Value<'static>; 2] {
    [Value::Text("k"), Value::I64(number)]
}

fn value(number: i64, bytes: usize) -> Vec<u8> {
    let mut word = number as u64;
    let next = |_| {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (word >> 56) as u8
    };
    (0..bytes).map(next).collect()
}

struct Store {
    db: Database<Recorded>,
    files: RecordingFiles,
    memory: Recording,
    engine: EngineKind,
    model: Model,
    next: i64,
}

impl Store {
    fn new(engine: EngineKind) -> Self {
        Self::on(engine, MEDIUM)
    }

    fn on(engine: EngineKind, medium: u64) -> Self {
        let memory = Recording::pool(64 << 10, 1 << 20).unwrap();
        let files = RecordingFiles::new();
        let media = faults::recorded(memory.clone(), files.clone());
        let db = Database::create_on(media, &schema(), &options(engine)).unwrap();
        files.limit(Some(medium));
        Self { db, files, memory, engine, model: Model::new(), next: 0 }
    }

    fn table(&self) -> Table {
        self.db.table(PAIR).unwrap()
    }

    fn bytes(&self) -> u64 {
        self.files.image().values().map(|bytes| bytes.len() as u64).sum()
    }

    /// Inserts until the medium is full. Returns the number of tuples and the error.
    fn fill(&mut self) -> (i64, Error) {
        let first = self.next;
        loop {
            let (number, bytes) = (self.next, 100 + (self.next * 37 % 200) as usize);
            let ([left, right], table) = (key(number), self.table());
            let stored = value(number, bytes);
            match self.db.write(|tx| tx.insert(&table, &[left, right, Value::Bytes(&stored)])) {
                Ok(()) => _ = self.model.insert(number, bytes),
                Err(error) => return (number - first, error),
            }
            self.next += 1;
            assert!(self.next - first < 10_000, "{}: the medium is never full", self.engine);
        }
    }

    /// Others take what is left of the medium.
    fn take_the_rest(&self) {
        self.files.limit(Some(self.bytes()));
    }

    fn delete(&mut self, number: i64) -> Result<(), Error> {
        let table = self.table();
        self.db.write(|tx| tx.delete(&table, &key(number)))?;
        self.model.remove(&number);
        Ok(())
    }

    /// As after a kill.
    fn reopen(self) -> Self {
        let Self { db, files, memory, engine, model, next } = self;
        db.abandon();
        let memory = Recording::from_image(&memory.contents(), 1 << 20).unwrap();
        let media = faults::recorded(memory.clone(), files.clone());
        let db = Database::open_on(media, &options(engine)).unwrap();
        Self { db, files, memory, engine, model, next }
    }

    fn contents(&self) -> Model {
        let mut model = Model::new();
        let table = self.table();
        let scanned = self.db.read(|tx| {
            tx.scan(&table, &Scan::all(), |row| {
                let (number, bytes) = (row.i64(1), row.bytes(2).len());
                assert_eq!(row.bytes(2), value(number, bytes));
                model.insert(number, bytes);
                ControlFlow::Continue(())
            })
        });
        scanned.unwrap();
        model
    }
}

/// The medium fills up, and others take what is left of it for good. Then most tuples are deleted, one in
/// each transaction or some, and it is filled again, again and again.
#[test]
fn a_full_medium_always_leaves_room_to_delete() {
    for engine in engines() {
        for at_once in [1, 3] {
            let mut store = Store::new(engine);
            for round in 0..5 {
                let (inserted, error) = store.fill();
                let said = error.to_string();
                assert!(said.contains("full") || said.contains("space"), "{engine}: {said}");
                assert!(inserted > 20, "{engine}, round {round}: only {inserted} tuples, {said}");
                assert_eq!(store.contents(), store.model, "{engine}: what was refused is undone");
                if round == 0 {
                    store.take_the_rest();
                }
                if round % 2 == 1 {
                    store = store.reopen();
                }
                let all: Vec<i64> = store.model.keys().copied().collect();
                let gone: Vec<i64> = all.into_iter().filter(|at| (at + round) % 5 != 0).collect();
                for (index, some) in gone.chunks(at_once).enumerate() {
                    let table = store.table();
                    let mut tx = store.db.begin().unwrap();
                    some.iter().for_each(|number| tx.delete(&table, &key(*number)).unwrap());
                    // Some of them twice.
                    if index % 7 == 3 {
                        tx.abort().unwrap();
                        assert_eq!(store.contents(), store.model, "{engine}: it is undone");
                        tx = store.db.begin().unwrap();
                        some.iter().for_each(|number| tx.delete(&table, &key(*number)).unwrap());
                    }
                    assert!(tx.commit().unwrap().is_durable());
                    some.iter().for_each(|number| _ = store.model.remove(number));
                }
                store.db.checkpoint().unwrap();
                store = store.reopen();
                assert_eq!(store.contents(), store.model, "{engine}, round {round}");
                store.db.check().unwrap();
                println!("{engine}: {inserted} tuples in, {} out, then {said}", gone.len());
                // Merges may find too little space.
                while store.db.background(1 << 20).is_ok_and(|waiting| waiting > 0) {}
            }
            store.db.abandon();
        }
    }
}

/// Deletions of far more than the log has room for: all of them, which leave room for as many tuples
/// again, or three of four.
#[test]
fn a_full_medium_takes_the_deletion_of_everything() {
    for engine in engines() {
        for every in [i64::MAX, 5] {
            let mut store = Store::on(engine, 1 << 20);
            let mut files = 0;
            let mut first = store.fill().0;
            // No merge that is under way has space.
            while store.db.background(1 << 20).is_ok_and(|waiting| waiting > 0) {}
            let (more, said) = store.fill();
            first += more;
            store.take_the_rest();
            let limit = store.bytes();
            for number in store.model.keys().copied().collect::<Vec<_>>() {
                if number % every != every - 1 {
                    let done = store.delete(number);
                    assert!(done.is_ok(), "{engine}: {number} of {first}: {done:?}");
                    files = files.max(store.files.image().len());
                }
            }
            assert_eq!(store.contents(), store.model, "{engine}");
            store.db.checkpoint().unwrap();
            store = store.reopen();
            assert_eq!(store.contents(), store.model, "{engine}");
            let (second, again) = store.fill();
            println!(
                "{engine}: {limit} bytes, {first} tuples, {said}; then {second}, {again}; {files} files"
            );
            let least = if every == 5 { first / 2 } else { first * 3 / 4 };
            assert!(second > least, "{engine}: {first} tuples, then {second}, {again}");
            assert!(files < 60, "{engine}: {files} files");
            store.db.abandon();
        }
    }
}

/// A deletion that is refused has not made the next checkpoint shorter: there is room for all tuples in it.
#[test]
fn a_refused_deletion_leaves_room_for_a_checkpoint() {
    let mut store = Store::new(EngineKind::Inp);
    store.fill();
    store.take_the_rest();
    let table = store.table();
    let mut tx = store.db.begin().unwrap();
    let mut refused = 0;
    for number in store.model.keys().copied().collect::<Vec<_>>() {
        // What is set aside is less than the log of all.
        match tx.delete(&table, &key(number)) {
            Ok(()) => _ = store.model.remove(&number),
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 200, "{refused}");
    assert!(tx.commit().unwrap().is_durable());
    store.files.limit(Some(MEDIUM));
    store.fill();
    store.take_the_rest();
    store.db.checkpoint().unwrap();
    store = store.reopen();
    assert_eq!(store.contents(), store.model);
    store.db.abandon();
}

/// A kill at any call while tuples are deleted on a full medium: it opens again, which takes no more of
/// the medium, and the deletions go on.
#[test]
fn a_kill_on_a_full_medium_leaves_room_to_delete() {
    for engine in engines() {
        let mut store = Store::new(engine);
        store.fill();
        store.take_the_rest();
        let limit = store.bytes();
        let before = store.model.clone();
        let mut acknowledged = vec![before.clone()];
        store.files.start();
        let deleted: Vec<i64> = before.keys().copied().filter(|at| at % 2 == 0).collect();
        for number in &deleted {
            store.delete(*number).unwrap();
            acknowledged.push(store.model.clone());
            store.files.note(acknowledged.len() as u64 - 1);
        }
        store.db.checkpoint().unwrap();
        let (trace, memory) = (store.files.stop(), store.memory.contents());
        store.db.abandon();
        let (mut states, mut seen, mut superseded) = (0_u64, 0, 0);
        trace.process_states(|_, noted, image| {
            states += 1;
            // Two checkpoints: the older one is the space of the next.
            let two = image.keys().filter(|name| name.starts_with("checkpoint-")).count() > 1;
            // An edit of the manifest, of which half may be there, has a state of its own.
            if states % 5 != 0 && !two {
                return;
            }
            seen += 1;
            superseded += u64::from(two);
            let files = RecordingFiles::from_image(image.clone());
            // If a checkpoint has just been taken, others take what it has given back.
            let bytes: u64 = image.values().map(|bytes| bytes.len() as u64).sum();
            files.limit(Some(if two { bytes } else { limit }));
            let memory = Recording::from_image(&memory, 1 << 20).unwrap();
            let media = faults::recorded(memory.clone(), files.clone());
            let db = Database::open_on(media, &options(engine)).unwrap();
            let noted = noted.unwrap_or(0) as usize;
            let mut store = Store { db, files, memory, engine, model: Model::new(), next: 100_000 };
            store.model = store.contents();
            let found = acknowledged.iter().position(|model| *model == store.model);
            assert!(
                found == Some(noted) || found == Some(noted + 1),
                "{engine}: {found:?}, {noted}"
            );
            let left: Vec<i64> = store.model.keys().copied().filter(|at| at % 4 != 0).collect();
            for number in &left {
                let done = store.delete(*number);
                assert!(done.is_ok(), "{engine}, state {states}, {number}: {done:?}");
            }
            store.db.checkpoint().unwrap();
            store = store.reopen();
            assert_eq!(store.contents(), store.model, "{engine}");
            let (inserted, error) = store.fill();
            assert!(inserted > 5, "{engine}, state {states}: {inserted} tuples, then {error}");
            store.db.abandon();
        });
        println!("{engine}: {} deleted, {states} states, {seen} seen", deleted.len());
        assert!(seen > 20, "{engine}: {states}");
        assert!(engine != EngineKind::Inp || superseded >= 2, "{superseded}");
    }
}
