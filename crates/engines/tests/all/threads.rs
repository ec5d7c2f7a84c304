//! Transactions of one partition, each in a thread of its own, as when a lock admits them one by
//! one. A fence covers what its own thread has flushed: a thread that releases a partition has left
//! nothing to the fences of the next one.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use engines::below::{
    Catalog, ColumnType, Dram, Heap, HeapOptions, Row, Schema, Site, TableSchema, Value,
};
use engines::{EngineError, Method, NvmInp, NvmLog, OwnOptions, Resources, Scan, Setup};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sim::{Event, Recorded, Recording, Replay, Trace};

const LIMIT: u64 = 4 << 20;
const COLUMNS: u16 = 8;

/// Tuples of a line, so that bits of neighbours share a word, and many indexes, so that one of them
/// may find no room after another one has split a leaf.
fn catalog() -> Arc<Catalog> {
    let mut table = TableSchema::new("t").column("id", ColumnType::U64).key(&["id"]);
    for column in 1..COLUMNS {
        let name = format!("c{column}");
        table = table.column(&name, ColumnType::I64);
        if column < 6 {
            table = table.index(format!("by_{name}"), &[&name]);
        }
    }
    Arc::new(Catalog::new(&Schema::new().table(table)).unwrap())
}

fn values(id: u64) -> Vec<Value<'static>> {
    let columns = (1..COLUMNS).map(|column| Value::I64(id as i64 * i64::from(column)));
    std::iter::once(Value::U64(id)).chain(columns).collect()
}

struct Subject<E> {
    catalog: Arc<Catalog>,
    memory: Recording,
    engine: E,
}

/// Small nodes, so that few tuples take several.
fn setup() -> Setup {
    Setup { node_bytes: 256, ..Setup::default() }
}

fn options<O: OwnOptions>() -> O {
    let mut options = O::default();
    for (name, value) in [("memtable_bytes", 2 << 10), ("growth", 2), ("level0_runs", 2)] {
        options.put(name, value);
    }
    options
}

fn resources(heap: &Heap<Recording>) -> Resources<Recorded> {
    let volatile = Dram::new(1 << 20).unwrap();
    Resources { partition: 0, volatile, durable: heap.clone(), files: None }
}

fn open<E: Method<Recorded>>(image: &[u8], catalog: &Arc<Catalog>) -> E {
    let memory = Recording::from_image(image, LIMIT).unwrap();
    E::open(resources(&Heap::open(memory).unwrap()), catalog, &setup(), &options()).unwrap().0
}

fn ids<E: Method<Recorded>>(engine: &E) -> BTreeSet<u64> {
    let mut ids = BTreeSet::new();
    let mut visit = |row: &Row| {
        ids.insert(row.u64(0));
        ControlFlow::Continue(())
    };
    let scan = Scan { columns: Some(&[0]), ..Scan::ALL };
    engine.scan(0, &scan, &mut Row::new(), &mut visit).unwrap();
    ids
}

impl<E: Method<Recorded>> Subject<E> {
    fn new() -> Self {
        let catalog = catalog();
        let memory = Recording::pool(64 << 10, LIMIT).unwrap();
        let heap_options = HeapOptions { chunk_bytes: 8 << 10, lanes: 1 };
        let heap = Heap::format(memory.clone(), heap_options).unwrap();
        let engine = E::create(resources(&heap), &catalog, &setup(), &options()).unwrap();
        Self { catalog, memory, engine }
    }

    /// Does something in a thread of its own.
    fn alone<T: Send>(&mut self, act: impl FnOnce(&mut E) -> T + Send) -> T {
        let engine = &mut self.engine;
        std::thread::scope(|scope| scope.spawn(move || act(engine)).join().unwrap())
    }
}

/// A transaction of a few operations, of which some fail.
fn transaction<E: Method<Recorded>>(engine: &mut E, random: &mut SmallRng, model: &BTreeSet<u64>) {
    for _ in 0..random.random_range(1..4) {
        let id = random.random_range(0..400u64);
        let key = [Value::U64(id)];
        let column = random.random_range(1..COLUMNS);
        let done = match random.random_range(0..10) {
            0..2 if model.contains(&id) => engine.delete(0, &key),
            0..6 => engine.insert(0, &values(id)),
            // As it was, in an entry of its own.
            _ => engine.update(0, &key, &[(column, values(id)[usize::from(column)])]),
        };
        assert!(!matches!(done, Err(EngineError::Stopped { .. })));
    }
    if random.random_range(0..10) == 0 {
        engine.abort().unwrap();
    } else {
        engine.commit().unwrap();
    }
}

/// Returns a trace of transactions with a note after each.
fn story<E: Method<Recorded>>(transactions: u64) -> Trace {
    let mut subject = Subject::<E>::new();
    let mut random = SmallRng::seed_from_u64(1);
    subject.memory.start();
    for number in 0..transactions {
        // Now and then nothing more fits.
        subject.memory.fail_growth_after((number % 4 == 3).then_some(0));
        let model = ids(&subject.engine);
        subject.alone(|engine| {
            if number % 16 == 5 {
                engine.background(1 << 10).unwrap();
            } else {
                transaction(engine, &mut random, &model);
            }
        });
        subject.memory.note(number);
    }
    let trace = subject.memory.stop();
    subject.engine.check(&mut |_| ()).unwrap();
    trace
}

/// The first flush that its thread has not fenced at a note.
fn unfenced(trace: &Trace) -> Option<(u64, Site)> {
    let mut flushed = BTreeMap::new();
    for recorded in &trace.events {
        match recorded.event {
            Event::Flush { .. } => {
                flushed.entry(recorded.thread).or_insert(recorded.site);
            }
            Event::Fence => {
                flushed.remove(&recorded.thread);
            }
            Event::Note(number) => {
                if let Some(site) = flushed.values().next() {
                    return Some((number, site));
                }
            }
            _ => {}
        }
    }
    None
}

fn nothing_is_left_to_the_next_thread<E: Method<Recorded>>(least_noticed: usize) {
    let trace = story::<E>(1_500);
    let found = unfenced(&trace).map(|(number, site)| format!("transaction {number}: {site}"));
    assert_eq!(found, None, "{}", E::KIND);
    // And it is noticed where one of the fences at an end is missing.
    let sites = trace.fence_sites();
    let noticed: Vec<String> = sites
        .iter()
        .copied()
        .filter(|site| unfenced(&trace.without_fences_of(site)).is_some())
        .map(ToString::to_string)
        .collect();
    println!("{}: of {} fences {noticed:#?} are last ones", E::KIND, sites.len());
    assert!(noticed.len() >= least_noticed, "{noticed:?}");
}

#[test]
fn nvm_inp_leaves_nothing_to_the_next_thread() {
    nothing_is_left_to_the_next_thread::<NvmInp<Recorded>>(4);
}

#[test]
fn nvm_log_leaves_nothing_to_the_next_thread() {
    nothing_is_left_to_the_next_thread::<NvmLog<Recorded>>(5);
}

/// An insert splits a leaf of one index, and finds no room in the next one. Then another thread
/// inserts into what is left of that leaf, and power fails: the split must not be done again.
fn a_failed_insert_does_not_undo_that_of_another_thread<E: Method<Recorded>>() {
    let mut subject = Subject::<E>::new();
    let mut random = SmallRng::seed_from_u64(2);
    let (mut model, mut refused, mut states) = (BTreeSet::new(), 0, 0);
    for _ in 0..1_500 {
        let id = random.random_range(0..4_000u64) * 16;
        if model.contains(&id) {
            continue;
        }
        subject.memory.start();
        subject.memory.fail_growth_after(Some(0));
        let inserted = subject.alone(|engine| {
            let inserted = engine.insert(0, &values(id)).is_ok();
            if inserted {
                engine.commit().unwrap();
            } else {
                engine.abort().unwrap();
            }
            inserted
        });
        subject.memory.fail_growth_after(None);
        if inserted {
            model.insert(id);
            continue;
        }
        refused += 1;
        let neighbours = || [id.saturating_sub(2), id.saturating_sub(1), id + 1, id + 2];
        subject.alone(|engine| {
            for id in neighbours() {
                // Where there is one already, it is refused.
                let _ = engine.insert(0, &values(id));
            }
            engine.commit().unwrap();
        });
        model.extend(neighbours());
        subject.memory.note(1);
        let trace = subject.memory.stop();
        let mut replay = Replay::new(&trace);
        while let Some(point) = replay.next_point() {
            if point.last_note.is_none() {
                continue;
            }
            let seen = point.for_each_state(8, 3, |image| {
                let engine: E = open(image, &subject.catalog);
                let tuples = engine.check(&mut |_| ()).map_err(|error| error.to_string());
                assert_eq!(tuples, Ok(model.len() as u64), "{refused} refused");
                assert_eq!(ids(&engine), model, "{refused} refused");
            });
            states += seen.visited;
        }
    }
    println!("{}: {refused} inserts were refused, {states} states", E::KIND);
    assert!(refused > 20 && states >= refused);
}

#[test]
fn nvm_inp_failed_insert_keeps_that_of_another_thread() {
    a_failed_insert_does_not_undo_that_of_another_thread::<NvmInp<Recorded>>();
}

#[test]
fn nvm_log_failed_insert_keeps_that_of_another_thread() {
    a_failed_insert_does_not_undo_that_of_another_thread::<NvmLog<Recorded>>();
}
