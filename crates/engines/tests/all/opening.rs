//! The cost of opening a database of SOFORT after a kill. With all indexes in persistent memory (P4
//! 4.1): from the heap and the description to the first durable commit, nothing that grows with the
//! pool. With none there: the first answer, for which rows are looked through (P4 4.4). Counted in
//! cache lines that are loaded and stored, not in time.

use std::ops::ControlFlow;
use std::sync::Arc;

use engines::{
    Begin, Engine, EngineKind, Isolation, Method, Read, Resources, Scan, Setup, Sofort,
    SofortOptions, Write,
};
use heap::{Heap, HeapOptions};
use pm::{Dram, Environment, HostFiles};
use sim::{Arena, Emulated, Meter, MeterOptions};
use storage::{Catalog, ColumnType, Description, Row, Schema, TableSchema, Value};

/// An environment that is filled, and left by a killed process.
enum Filled {}

impl Environment for Filled {
    type Volatile = Dram;
    type Durable = Arena;
    type Files = HostFiles;
}

/// The same in the next process, whose lines are counted.
enum Counted {}

impl Environment for Counted {
    type Volatile = Dram;
    type Durable = Emulated<Arena>;
    type Files = HostFiles;
}

fn resources<E: Environment<Volatile = Dram>>(heap: &Heap<E::Durable>) -> Resources<E> {
    let volatile = Dram::new(0).unwrap();
    Resources { partition: 0, volatile, durable: heap.clone(), files: None }
}

fn begin() -> Begin {
    Begin { isolation: Isolation::Snapshot, age: 0, wait: None, reads_only: false }
}

fn values(number: u64) -> (String, String) {
    (format!("{number:0100}"), format!("{:0100}", number * 7))
}

/// The lines of an opening and of the first commit after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Lines {
    /// The heap, its unfinished changes; the description, the schema.
    describe: u64,
    /// The partition.
    recovery: u64,
    commit: u64,
    pool_bytes: u64,
}

/// A pool that a killed process has left, with a transaction in flight.
fn killed(rows: u64, options: &SofortOptions) -> Arena {
    let arena = Arena::new(64 << 10, 4 << 30).unwrap();
    let table = TableSchema::new("t")
        .column("id", ColumnType::U64)
        .column("one", ColumnType::Text { max: 100 })
        .column("other", ColumnType::Text { max: 100 })
        .key(&["id"]);
    let schema = Schema::new().table(table);
    let catalog = Arc::new(Catalog::new(&schema).unwrap());
    let setup = Setup::default();
    let heap_options = HeapOptions { chunk_bytes: 256 << 10, lanes: 2 };
    let heap = Heap::format(arena.clone(), heap_options).unwrap();
    let mut engine = Sofort::<Filled>::create(resources(&heap), &catalog, &setup, options).unwrap();
    let (name, node_bytes) = (EngineKind::Sofort.name().into(), setup.node_bytes);
    let description = Description { engine: name, node_bytes, partitions: 1, schema };
    description.write(&mut heap.lane(1)).unwrap();
    for id in 0..rows {
        let (one, other) = values(id);
        engine.begin(&begin()).unwrap();
        engine.insert(0, &[Value::U64(id), Value::Text(&one), Value::Text(&other)]).unwrap();
        engine.commit().unwrap();
    }
    engine.begin_named(&begin(), b"cut off").unwrap();
    engine.update(0, &[Value::U64(rows / 2)], &[(1, Value::Text("changed"))]).unwrap();
    // As a kill does.
    std::mem::forget(engine);
    arena
}

fn opening(rows: u64, hashed: u32) -> Lines {
    let options = SofortOptions { placement: 100, hashed, seed: 7, ..SofortOptions::default() };
    let (arena, setup) = (killed(rows, &options), Setup::default());
    let pool_bytes = pm::Memory::len(&arena);
    let meter = Meter::new(MeterOptions::default());
    let lines = || meter.counts().accesses;
    let heap = Heap::open(Emulated::new(arena, &meter)).unwrap();
    let (description, _) = Description::read(&heap).unwrap().unwrap();
    let catalog = Arc::new(Catalog::new(&description.schema).unwrap());
    let describe = lines();
    let (mut engine, _) =
        Sofort::<Counted>::open(resources(&heap), &catalog, &setup, &options).unwrap();
    let recovery = lines() - describe;
    let sessions = engine.sessions().unwrap();
    assert_eq!(sessions.in_flight().len(), 1);
    assert!(
        engine.structures().iter().all(|structure| structure.durable && structure.waiting == 0)
    );
    let before = lines();
    engine.begin(&begin()).unwrap();
    engine.update(0, &[Value::U64(rows / 3)], &[(2, Value::Text("again"))]).unwrap();
    engine.commit().unwrap();
    let commit = lines() - before;
    let mut row = Row::new();
    assert!(engine.get(0, &[Value::U64(rows / 3)], None, &mut row).unwrap());
    assert_eq!((row.text(1), row.text(2)), (&*values(rows / 3).0, "again"));
    Lines { describe, recovery, commit, pool_bytes }
}

/// A search in a list looks at some lines more where there are 300 times as many keys; nothing else
/// depends on that.
#[test]
fn opening_and_first_commit_do_not_grow_with_the_pool() {
    for hashed in [0, 1] {
        let (small, large) = (opening(300, hashed), opening(100_000, hashed));
        println!("{small:?}\n{large:?}");
        assert!(large.pool_bytes > 16 * small.pool_bytes);
        assert_eq!(large.describe, small.describe);
        assert!(large.recovery < small.recovery + 250, "{small:?} {large:?}");
        assert!(large.commit < small.commit + 400, "{small:?} {large:?}");
    }
}

/// Rows and values that a scan indexes at least, where an index lacks them.
const BUILT_BY_A_SCAN: u64 = 16_384;

/// Returns the lines of the first answer after an opening, of a row that no index has.
fn first_answer(rows: u64) -> u64 {
    let options = SofortOptions { placement: 0, seed: 7, ..SofortOptions::default() };
    let (arena, setup) = (killed(rows, &options), Setup::default());
    let meter = Meter::new(MeterOptions::default());
    let heap = Heap::open(Emulated::new(arena, &meter)).unwrap();
    let (description, _) = Description::read(&heap).unwrap().unwrap();
    let catalog = Arc::new(Catalog::new(&description.schema).unwrap());
    let (engine, _) =
        Sofort::<Counted>::open(resources(&heap), &catalog, &setup, &options).unwrap();
    let before = meter.counts().accesses;
    let mut row = Row::new();
    assert!(engine.get(0, &[Value::U64(rows / 3)], None, &mut row).unwrap());
    assert_eq!(row.text(1), values(rows / 3).0);
    let lines = meter.counts().accesses - before;
    let waiting = || engine.structures().iter().map(|one| one.waiting).collect::<Vec<_>>();
    assert!(waiting().iter().all(|waiting| *waiting > 0), "{:?}", waiting());
    // The first scan is that of the index of keys: it misses the whole index, and builds a bounded
    // part. Later scans build the rest.
    let mut scans = 0;
    while waiting()[0] > 0 {
        let (mut found, left) = (0, waiting()[0]);
        let mut visit = |_: &Row| {
            found += 1;
            ControlFlow::Continue(())
        };
        engine.scan(0, &Scan::ALL, &mut row, &mut visit).unwrap();
        assert_eq!(found, rows);
        assert!(waiting()[0] == 0 || waiting()[0] <= left - BUILT_BY_A_SCAN, "{:?}", waiting());
        scans += 1;
    }
    assert!(scans <= rows.div_ceil(BUILT_BY_A_SCAN) && waiting()[1] > 0, "{:?}", waiting());
    lines
}

/// Eight bytes of each value up to that of the key, and four of each row after that with the key;
/// and the rows and values of a step that is built.
#[test]
fn first_answer_without_index_reads_five_bytes_a_row() {
    let (small, large) = (first_answer(3_000), first_answer(100_000));
    println!("{small} {large}");
    let more = (large - small) as f64 / 97_000.0 * 64.0;
    assert!((5.0..6.5).contains(&more), "{more} bytes a row, {small} and {large} lines");
}
