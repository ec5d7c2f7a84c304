//! Builders that meet: one builds a structure at a time, and others go on to the next one.

use std::sync::Arc;

use heap::{Heap, HeapOptions};
use pm::Recording;

use crate::{FirstColumn, Kind, Options, Store, Value, Waiting};

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
        store.repay().unwrap();
    }
    // There is more, and nothing to be done.
    assert!(store.rebuild(7).unwrap() && store.has_unbuilt());
    assert_eq!((store.repay().unwrap(), waiting(0)), (0, before[0]));
    drop(alone);
    let is_owed = store.0.debt(store.0.building[0].structure, crate::unbuilt::Debt::is_owed);
    assert_eq!(store.repay().unwrap() > 0, is_owed);
    while store.rebuild(7).unwrap() {}
    assert_eq!(store.built().waiting, 0);
    store.check().unwrap();
}
