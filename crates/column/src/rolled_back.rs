//! Versions of rolled-back transactions, to which a secondary index still leads.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::stamps::parts;
use crate::validation::{Counting, create, row};
use crate::{KeyRange, Value};

/// A transaction inserts a key that was deleted, and is rolled back. Between its end and the moment when its
/// version is queued for the collection, another thread takes the deleted version out of the indexes. A scan that
/// begins after that has found the rolled-back version when the deleted one is made free.
#[test]
fn the_version_before_a_rolled_back_one_may_be_free() {
    let store = create(&Arc::new(Counting::default()), 0);
    let (mut one, mut rolled_back) = (store.session(), store.session());
    one.begin().unwrap();
    one.insert(0, &row(5, 1)).unwrap();
    one.insert(0, &row(7, 1)).unwrap();
    one.commit().unwrap();
    // Two rows take turns: each leads to the other one.
    for value in [2, 3, 4] {
        one.begin().unwrap();
        one.update(0, Value::Word(7), &[(1, Value::Word(value))]).unwrap();
        one.commit().unwrap();
        store.collect(100).unwrap();
        assert_eq!(store.collect(100).unwrap().freed + store.garbage() as u64, 0);
    }
    one.begin().unwrap();
    one.delete(0, Value::Word(7)).unwrap();
    one.commit().unwrap();
    one.finish();

    rolled_back.begin().unwrap();
    rolled_back.insert(0, &row(7, 9)).unwrap();
    let (slot, _) = parts(rolled_back.open.as_ref().unwrap().mark);
    store.0.slots.set_aborted(slot);
    assert_eq!(store.collect(100).unwrap().unlinked, 1);
    rolled_back.abort().unwrap();

    let mut seen = Vec::new();
    one.begin().unwrap();
    one.scan(0, 1, KeyRange::ALL, None, |fields| {
        assert_eq!(store.collect(100).unwrap().freed, 1, "the deleted version");
        seen.push(fields);
        ControlFlow::Continue(())
    })
    .unwrap();
    one.commit().unwrap();
    assert_eq!(seen.len(), 1, "{seen:?}");
    store.check().unwrap();
}
