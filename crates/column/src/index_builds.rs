//! Builders that meet: one builds a structure at a time, and others go on to the next one. Builders that come to damage:
//! it is in the way of the structure that has it, and of no other one.

use std::ops::ControlFlow;
use std::sync::Arc;

use heap::{Heap, HeapOptions};
use pm::Memory;
use sim::Recording;

use crate::{FirstColumn, KeyRange, Kind, Options, Part, Pause, Store, Structure, Value, Waiting};

#[test]
fn whoever_finds_a_structure_taken_builds_the_next_one_and_what_is_owed_stays_owed() {
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
    // A search that owes rows in all structures but one.
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
    // There is more, and nothing to be done.
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
/// One of the last ones, which are built first. An opening looks at the last one.
const LATE: u64 = ROWS - 2;
/// The damaged row is one of the first table's, of which the index of its keys comes to be.
const DAMAGED: Structure = Structure { table: 0, part: Part::Keys(0) };

/// A store that was opened, with no index built. A row of the first table has an id that no value has.
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

/// No latch is taken by somebody else, as far as it is asked for.
#[derive(Debug)]
struct Never;

impl Pause for Never {
    fn pause(&self) {
        panic!("it waits for a latch");
    }
}

/// The rows or values that wait, of the damaged structure and of all others.
fn waiting(store: &Store<Recording>) -> (u64, u64) {
    let all: u64 = store.structures().iter().map(|state| state.waiting).sum();
    let damaged = store.0.waiting(DAMAGED);
    (damaged, all - damaged)
}

fn has(store: &Store<Recording>, table: usize, key: u64) -> bool {
    store.session().get(table, Value::Word(key)).unwrap().is_some()
}

#[test]
fn damage_stops_whoever_builds_beside_reads_from_building_that_structure_alone() {
    let store = damaged(ROWS / 2);
    let mut steps = 0;
    while store.rebuild_sound(7) {
        steps += 1;
        assert!(steps < 100, "it comes to an end");
    }
    let (left, others) = waiting(&store);
    assert!((ROWS / 2..ROWS).contains(&left), "it is built as far as the damage: {left}");
    assert_eq!(others, 0);
    // Whoever changes something is told, each time; so is whoever reads that.
    for _ in 0..3 {
        assert!(store.rebuild(7).is_err());
    }
    let visit = |_| ControlFlow::Continue(());
    let scan = |table| store.session().scan(table, 0, KeyRange::ALL, None, visit);
    assert!(scan(0).is_err());
    scan(1).unwrap();
    assert!((1..=ROWS).all(|key| has(&store, 1, key)));
}

/// The one who has the damaged structure is told; nobody else takes what is unbuilt for built.
#[test]
fn whoever_meets_another_builder_at_damage_is_not_told_that_all_is_built() {
    let store = damaged(ROWS / 2);
    while store.rebuild_sound(7) {}
    let alone = store.0.building.iter().find(|building| building.structure == DAMAGED).unwrap();
    let alone = alone.alone.write();
    // What is left beside it is rows that are not in use.
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
fn whoever_is_told_of_damage_has_built_another_structure() {
    let store = damaged(LATE);
    let errors = (0..1000).filter(|_| store.rebuild(7).is_err()).count();
    assert!(errors > 900, "{errors}");
    let (left, others) = waiting(&store);
    assert_eq!((left >= LATE, others), (true, 0));
}

#[test]
fn what_is_owed_is_built_beside_damage() {
    let store = damaged(LATE);
    while store.0.waiting(DAMAGED) > LATE {
        store.0.build(DAMAGED, 1).unwrap();
    }
    let owe = || assert!(has(&store, 0, 1) && has(&store, 1, 1));
    owe();
    let before = waiting(&store);
    assert!(store.build_pending_sound() > 0);
    let after = waiting(&store);
    assert_eq!(after.0, before.0);
    assert!(after.1 < before.1, "{after:?}");
    // Nobody tries it again but for those who are told.
    owe();
    assert!(store.build_pending_sound() > 0);
    assert!(store.0.backlog(DAMAGED, crate::unbuilt::IndexBacklog::has_pending));
    let before = waiting(&store);
    owe();
    assert!(store.build_pending().is_err());
    assert!(waiting(&store).1 < before.1);
}

/// A store in which all is built but what is damaged.
fn built_beside_damage(waiting: &Waiting) -> Store<Recording> {
    let store = damaged_and_waiting(ROWS / 2, waiting);
    while store.rebuild_sound(7) {}
    assert!(store.rebuild(7).is_err(), "whoever is told comes to it again");
    store
}

#[test]
fn whoever_reads_beside_damage_asks_for_no_latch_to_build() {
    let store = built_beside_damage(&Waiting::through(Arc::new(Never)));
    let indexes = store.0.tables.iter().flat_map(|table| &table.indexes);
    let _keys: Vec<_> = indexes.map(|index| index.write()).collect();
    assert_eq!((store.rebuild_sound(7), store.build_pending_sound()), (false, 0));
}

#[test]
fn whoever_reads_builds_on_when_the_damage_is_gone() {
    let store = built_beside_damage(&Waiting::default());
    // The row gets back its id, which is that of the second column: both have the same values.
    let table = &store.0.tables[0];
    let (id, at) = (table.id(ROWS / 2, 1).unwrap(), table.place(ROWS / 2).unwrap().id(0));
    store.0.memory.copy(at.plus(0), &id.to_le_bytes());
    assert!(!store.rebuild_sound(7), "nobody tries it but for those who are told");
    assert!(store.rebuild(7).unwrap() && waiting(&store).0 > 7);
    while store.rebuild_sound(7) {}
    assert_eq!(waiting(&store), (0, 0));
}
