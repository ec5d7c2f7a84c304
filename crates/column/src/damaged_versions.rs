//! Versions that lead to each other, or to themselves, which only damage makes.

use std::sync::Arc;

use heap::{Heap, HeapError, HeapOptions};
use pm::{Bad, Memory};
use sim::Recording;

use crate::{ColumnError, FirstColumn, Kind, Options, Result, Store, Value, Waiting};

fn is_damage<T>(result: &Result<T>) -> bool {
    matches!(result, Err(ColumnError::Heap(HeapError::Bad(Bad::Damaged { .. }))))
}

#[test]
fn versions_that_lead_to_each_other_are_damage() {
    let memory = Recording::pool(16 << 10, 1 << 20).unwrap();
    let options = HeapOptions { chunk_bytes: 16 << 10, lanes: 1 };
    let heap = Heap::format(memory.clone(), options).unwrap();
    let options =
        Options { slots: 4, first_rows: 64, most_rows: 64, reserve: 16, ..Options::default() };
    let tables: &[&[Kind]] = &[&[Kind::Word, Kind::Word]];
    let store = Store::create(heap.lane(0), options, tables, &Arc::new(FirstColumn)).unwrap();
    let (key, mut session) = (Value::Word(7), store.session());
    let mut first = store.session();
    first.begin().unwrap();
    first.insert(0, &[key, Value::Null]).unwrap();
    first.commit().unwrap();
    first.begin().unwrap();
    first.update(0, key, &[(1, Value::Word(1))]).unwrap();
    first.commit().unwrap();
    session.begin().unwrap();
    (2..4).for_each(|number| session.update(0, key, &[(1, Value::Word(number))]).unwrap());
    // The versions of the open transaction, which other transactions pass.
    let (table, one, other) = (&store.0.tables[0], 3, 4);
    assert_eq!(table.prev(other, &mut 0).unwrap(), one);
    assert_eq!(first.get(0, key).unwrap().unwrap()[1], Value::Word(1).into());
    memory.store(table.place(one).unwrap().prev(), other);
    assert!(is_damage(&first.get(0, key)));
    assert!(is_damage(&store.collect(64)));
}

/// One transaction changes a row so often that walking over its versions for each of them would cost all pairs.
/// Here each version leads to itself, so any walk finds damage.
#[test]
fn building_an_index_walks_over_no_versions() {
    const MANY: u64 = 100;
    let memory = Recording::pool(16 << 10, 1 << 20).unwrap();
    let options = HeapOptions { chunk_bytes: 16 << 10, lanes: 1 };
    let heap = Heap::format(memory.clone(), options).unwrap();
    let options =
        Options { slots: 4, first_rows: 64, most_rows: 64, reserve: 16, ..Options::default() };
    let (tables, keys): (&[&[Kind]], _) = (&[&[Kind::Word, Kind::Word]], Arc::new(FirstColumn));
    let store = Store::create(heap.lane(0), options, tables, &keys).unwrap();
    let [committed, deleted, open] = [7, 8, 9].map(Value::Word);
    let mut last = Vec::new();
    for key in [committed, deleted, open] {
        let mut session = store.session();
        session.begin().unwrap();
        session.insert(0, &[key, Value::Null]).unwrap();
        (0..MANY).for_each(|to| session.update(0, key, &[(1, Value::Word(to))]).unwrap());
        last.push(store.0.tables[0].ids.next() - 1);
        if key == deleted {
            session.delete(0, key).unwrap();
        }
        if key == open {
            session.detach().unwrap();
        } else {
            session.commit().unwrap();
        }
    }
    let image = memory.contents();
    for step in [1, 7, 1000] {
        let memory = Recording::pool_from_image(&image, 1 << 20).unwrap();
        memory.mark_open().unwrap();
        let heap = Heap::open(memory.clone()).unwrap();
        let opened = Store::open(heap.lane(0), store.at(), &keys, &Waiting::default());
        let (store, _) = opened.unwrap();
        let table = &store.0.tables[0];
        for row in 1..=last[2] {
            memory.store(table.place(row).unwrap().prev(), row);
        }
        let newest = |key: Value<'_>| store.0.newest(table, &key.into()).unwrap();
        loop {
            assert_eq!((newest(committed), newest(open)), (last[0], last[2]));
            assert!(store.session().get(0, deleted).unwrap().is_none());
            if !store.rebuild(step).unwrap() {
                break;
            }
        }
        let keys = table.indexes[0].read();
        let indexed =
            [committed, open].map(|key| keys.get(&crate::Key::from(key).bytes).unwrap().unwrap());
        assert_eq!((keys.unbuilt, indexed), (1, [last[0], last[2]]));
    }
}
