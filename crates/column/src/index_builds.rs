//! Concurrent builds of indexes: one thread builds a structure at a time, and others go on to the next one. Damage
//! in a structure stops the building of that one alone.

use std::ops::ControlFlow;
use std::sync::Arc;

use heap::{Heap, HeapOptions};
use pm::Memory;
use sim::Recording;

use crate::{FirstColumn, KeyRange, Kind, Options, Part, Pause, Store, Structure, Value, Waiting};

#[test]
fn taken_structure_is_skipped_and_its_backlog_stays() {
    let memory = Recording::pool(16 << 10, 1 << 20).unwrap();
    let options = HeapOptions { chunk_bytes: 16 << 10, lanes: 1 };
    let heap = Heap::format(memory.clone(), options).unwrap();
    let options =
        Options { slots: 4, first_rows: 64, most_rows: 64, reserve: 16, ..Options::default() };
    let (tables, keys): (&[&[Kind]], _) = (&[&[Kind::Word, Kind::Word]], Arc::new(FirstColumn));
    let store = Store::create(heap.lane(0), options, tables, &keys).unwrap();
    let mut session = store.session();
    session.begin().unwrap();
    (1..50).for_each(|key| session.insert(0, &[Value::Word(key), Value::Word(key)]).unwrap());
    session.commit().unwrap();
    let memory = Recording::pool_from_image(&memory.contents(), 1 << 20).unwrap();
    memory.mark_open().unwrap();
    let heap = Heap::open(memory).unwrap();
    let store = Store::open(heap.lane(0), store.at(), &keys, &Waiting::default()).unwrap().0;
    let waiting = |number: usize| store.0.waiting(store.0.building[number].structure);
    let all = store.0.building.len();
    assert_eq!(all, 3);
    // A search that adds to the backlog of all structures but one.
    assert!(store.session().get(0, Value::Word(25)).unwrap().is_some());
    let before: Vec<u64> = (0..all).map(waiting).collect();
    let alone = store.0.building[0].alone.write();
    assert!(store.rebuild(7).unwrap());
    assert_eq!((waiting(0), waiting(1)), (before[0], before[1] - 7));
    let others = || (1..all).map(waiting).sum::<u64>();
    while others() > 0 {
        assert!(store.rebuild(7).unwrap());
        store.build_pending().unwrap();
    }
    // There is more, which another thread has taken.
    assert!(store.rebuild(7).unwrap() && store.has_unbuilt());
    assert_eq!((store.build_pending().unwrap(), waiting(0)), (0, before[0]));
    drop(alone);
    let has_pending =
        store.0.backlog(store.0.building[0].structure, crate::unbuilt::IndexBacklog::has_pending);
    assert_eq!(store.build_pending().unwrap() > 0, has_pending);
    while store.rebuild(7).unwrap() {}
    assert_eq!(store.built().waiting, 0);
    store.check().unwrap();
}

/// Rows of each of two tables.
const ROWS: u64 = 49;
/// One of the last rows, which are built first. An opening checks the last one.
const LATE: u64 = ROWS - 2;
/// The structure that comes to the damaged row.
const DAMAGED: Structure = Structure { table: 0, part: Part::Keys(0) };

/// A store that was opened, with no index built. A row of the first table has an id without a value.
fn damaged(row: u64) -> Store<Recording> {
    damaged_and_waiting(row, &Waiting::default())
}

fn damaged_and_waiting(row: u64, waiting: &Waiting) -> Store<Recording> {
    let memory = Recording::pool(16 << 10, 1 << 20).unwrap();
    let options = HeapOptions { chunk_bytes: 16 << 10, lanes: 1 };
    let heap = Heap::format(memory.clone(), options).unwrap();
    let options =
        Options { slots: 4, first_rows: 64, most_rows: 64, reserve: 16, ..Options::default() };
    let table: &[Kind] = &[Kind::Word, Kind::Word];
    let keys = Arc::new(FirstColumn);
    let store = Store::create(heap.lane(0), options, &[table, table], &keys).unwrap();
    let mut session = store.session();
    session.begin().unwrap();
    for key in 1..=ROWS {
        (0..2).for_each(|of| session.insert(of, &[Value::Word(key), Value::Word(key)]).unwrap());
    }
    session.commit().unwrap();
    session.finish();
    let at = store.0.tables[0].place(row).unwrap().id(0).get() as usize;
    let mut image = memory.contents();
    image[at..at + 4].copy_from_slice(&(1_u32 << 20).to_le_bytes());
    let memory = Recording::pool_from_image(&image, 1 << 20).unwrap();
    memory.mark_open().unwrap();
    let heap = Heap::open(memory).unwrap();
    Store::open(heap.lane(0), store.at(), &keys, waiting).unwrap().0
}

/// A test in which no thread waits for a latch.
#[derive(Debug)]
struct NoPause;

impl Pause for NoPause {
    fn pause(&self) {
        panic!("it waits for a latch");
    }
}

/// The rows or values that are not indexed, of the damaged structure and of all others.
fn waiting(store: &Store<Recording>) -> (u64, u64) {
    let all: u64 = store.structures().iter().map(|state| state.waiting).sum();
    let damaged = store.0.waiting(DAMAGED);
    (damaged, all - damaged)
}

fn has(store: &Store<Recording>, table: usize, key: u64) -> bool {
    store.session().get(table, Value::Word(key)).unwrap().is_some()
}

#[test]
fn damage_stops_builds_for_reads_of_that_structure_alone() {
    let store = damaged(ROWS / 2);
    let mut steps = 0;
    while store.rebuild_sound(7) {
        steps += 1;
        assert!(steps < 100, "it comes to an end");
    }
    let (left, others) = waiting(&store);
    assert!((ROWS / 2..ROWS).contains(&left), "it is built as far as the damage: {left}");
    assert_eq!(others, 0);
    // Every call for writers reports it, and so does every read of the structure.
    for _ in 0..3 {
        assert!(store.rebuild(7).is_err());
    }
    let visit = |_| ControlFlow::Continue(());
    let scan = |table| store.session().scan(table, 0, KeyRange::ALL, None, visit);
    assert!(scan(0).is_err());
    scan(1).unwrap();
    assert!((1..=ROWS).all(|key| has(&store, 1, key)));
}

/// While one thread reports the damage, another one does not take what is unbuilt for built.
#[test]
fn a_damaged_structure_that_is_taken_is_not_built() {
    let store = damaged(ROWS / 2);
    while store.rebuild_sound(7) {}
    let alone = store.0.building.iter().find(|building| building.structure == DAMAGED).unwrap();
    let alone = alone.alone.write();
    // What is left apart from it are rows to check for use.
    for _ in 0..100 {
        assert!(store.rebuild(7).unwrap());
    }
    assert_eq!((store.built().unswept, waiting(&store).1), (0, 0));
    drop(alone);
    for _ in 0..3 {
        assert!(store.rebuild(7).is_err());
    }
}

#[test]
fn reporting_damage_builds_another_structure() {
    let store = damaged(LATE);
    let errors = (0..1000).filter(|_| store.rebuild(7).is_err()).count();
    assert!(errors > 900, "{errors}");
    let (left, others) = waiting(&store);
    assert_eq!((left >= LATE, others), (true, 0));
}

#[test]
fn the_backlog_is_built_despite_damage() {
    let store = damaged(LATE);
    while store.0.waiting(DAMAGED) > LATE {
        store.0.build(DAMAGED, 1).unwrap();
    }
    let search = || assert!(has(&store, 0, 1) && has(&store, 1, 1));
    search();
    let before = waiting(&store);
    assert!(store.build_pending_sound() > 0);
    let after = waiting(&store);
    assert_eq!(after.0, before.0);
    assert!(after.1 < before.1, "{after:?}");
    // Only calls that report damage try it again.
    search();
    assert!(store.build_pending_sound() > 0);
    assert!(store.0.backlog(DAMAGED, crate::unbuilt::IndexBacklog::has_pending));
    let before = waiting(&store);
    search();
    assert!(store.build_pending().is_err());
    assert!(waiting(&store).1 < before.1);
}

/// A store in which everything is built but the damaged structure.
fn built_despite_damage(waiting: &Waiting) -> Store<Recording> {
    let store = damaged_and_waiting(ROWS / 2, waiting);
    while store.rebuild_sound(7) {}
    assert!(store.rebuild(7).is_err(), "the damage is reported again");
    store
}

#[test]
fn reads_take_no_latch_to_build_where_only_damage_is_left() {
    let store = built_despite_damage(&Waiting::through(Arc::new(NoPause)));
    let indexes = store.0.tables.iter().flat_map(|table| &table.indexes);
    let _keys: Vec<_> = indexes.map(|index| index.write()).collect();
    assert_eq!((store.rebuild_sound(7), store.build_pending_sound()), (false, 0));
}

#[test]
fn reads_build_again_when_the_damage_is_gone() {
    let store = built_despite_damage(&Waiting::default());
    // The row gets back its id, which is that of the second column: both have the same values.
    let table = &store.0.tables[0];
    let (id, at) = (table.id(ROWS / 2, 1).unwrap(), table.place(ROWS / 2).unwrap().id(0));
    store.0.memory.copy(at.plus(0), &id.to_le_bytes());
    assert!(!store.rebuild_sound(7), "reads do not try it");
    assert!(store.rebuild(7).unwrap() && waiting(&store).0 > 7);
    while store.rebuild_sound(7) {}
    assert_eq!(waiting(&store), (0, 0));
}
