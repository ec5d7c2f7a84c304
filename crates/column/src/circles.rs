//! Versions that lead to each other, which only damage makes.

use std::sync::Arc;

use heap::{Heap, HeapError, HeapOptions};
use pm::{Bad, Memory, Recording};

use crate::{ColumnError, FirstColumn, Kind, Options, Result, Store, Value};

fn is_damage<T>(result: &Result<T>) -> bool {
    matches!(result, Err(ColumnError::Heap(HeapError::Bad(Bad::Damaged { .. }))))
}

#[test]
fn versions_that_lead_to_each_other_are_damage() {
    let memory = Recording::pool(16 << 10, 1 << 20).unwrap();
    let options = HeapOptions { chunk_bytes: 16 << 10, lanes: 1 };
    let heap = Heap::format(memory.clone(), options).unwrap();
    let options = Options { slots: 4, first_rows: 64, most_rows: 64, reserve: 16 };
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
    // The two of the open transaction, which others pass on their way back.
    let (table, one, other) = (&store.0.tables[0], 3, 4);
    assert_eq!(table.prev(other, &mut 0).unwrap(), one);
    assert_eq!(first.get(0, key).unwrap().unwrap()[1], Value::Word(1).into());
    memory.store(table.place(one).unwrap().prev(), other);
    assert!(is_damage(&first.get(0, key)));
    assert!(is_damage(&store.collect(64)));
}
