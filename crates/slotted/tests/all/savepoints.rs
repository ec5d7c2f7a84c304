//! Savepoints against a model: nested ones, taken back to, released, with splits, merges, long
//! values and pages that come and go between them.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sim::Arena;
use slotted::{
    Fash, Fash1, Fast, Fast1, Journal, Nvwal, Savepoint, Scheme, SlottedError, Store, Wal,
};

use crate::work::{Mix, Model, arena, arena_of, contents, heap_over, key, run, small};

fn follow_the_model<S: Scheme<Arena>>(seed: u64) {
    let mix = Mix { keys: 300, operations: 8, deletions: 40, long: 5, value_bytes: 90 };
    let mut store = Store::<Arena, S>::create(heap_over(arena()).lane(0), small(512)).unwrap();
    let (mut committed, mut random) = (Model::new(), SmallRng::seed_from_u64(seed));
    let mut undone = 0;
    for step in 0..120 {
        let mut model = committed.clone();
        let mut savepoints: Vec<(Savepoint, Model)> = Vec::new();
        let deletions = if step / 30 % 2 == 0 { 20 } else { 75 };
        for _ in 0..random.random_range(1..12) {
            run(&mut store, &mut model, &mut random, Mix { deletions, ..mix });
            let at = random.random_range(0..savepoints.len().max(1));
            match random.random_range(0..6) {
                0..3 => savepoints.push((store.savepoint().unwrap(), model.clone())),
                3 | 4 if at < savepoints.len() => {
                    savepoints.truncate(at + 1);
                    store.rollback_to(savepoints[at].0).unwrap();
                    model.clone_from(&savepoints[at].1);
                    undone += 1;
                    assert!(contents(&store).unwrap() == model, "seed {seed}, step {step}");
                }
                5 if at < savepoints.len() => {
                    store.release(savepoints[at].0).unwrap();
                    savepoints.truncate(at);
                }
                _ => {}
            }
        }
        assert!(contents(&store).unwrap() == model, "seed {seed}, step {step}");
        if random.random_range(0..4) == 0 {
            store.abort();
        } else {
            store.commit().unwrap();
            committed = model;
        }
        assert!(contents(&store).unwrap() == committed, "seed {seed}, step {step}");
        assert_eq!(store.check().unwrap().records, committed.len() as u64);
    }
    assert!(undone > 50, "{undone}");
}

#[test]
fn a_transaction_goes_back_to_its_savepoints() {
    for seed in 0..2 {
        follow_the_model::<Fash<Arena>>(seed);
        follow_the_model::<Fash1<Arena>>(seed);
        follow_the_model::<Fast<Arena>>(seed);
        follow_the_model::<Fast1<Arena>>(seed);
        follow_the_model::<Nvwal<Arena>>(seed);
        follow_the_model::<Journal<Arena>>(seed);
        follow_the_model::<Wal<Arena>>(seed);
    }
}

#[test]
fn a_void_savepoint_is_refused_and_undoes_nothing() {
    let mut store =
        Store::<Arena, Fash<Arena>>::create(heap_over(arena()).lane(0), small(512)).unwrap();
    let refused = |result| matches!(result, Err(SlottedError::NoSavepoint));
    let first = store.savepoint().unwrap();
    store.put(0, &key(1), b"one").unwrap();
    let second = store.savepoint().unwrap();
    store.put(0, &key(2), b"two").unwrap();
    store.rollback_to(first).unwrap();
    store.put(0, &key(3), b"three").unwrap();
    assert!(refused(store.rollback_to(second)) && refused(store.release(second)));
    let third = store.savepoint().unwrap();
    store.commit().unwrap();
    store.put(0, &key(4), b"four").unwrap();
    assert!(refused(store.rollback_to(first)) && refused(store.rollback_to(third)));
    store.commit().unwrap();
    let there = |number| store.get(0, &key(number)).unwrap().is_some();
    assert_eq!([1, 2, 3, 4].map(there), [false, false, true, true]);
}

/// The bytes of a record that the transaction has put and deleted are used once more, as without
/// savepoints.
#[test]
fn space_of_a_released_savepoint_is_used_again() {
    let free_after = |statements: bool| {
        let mut store =
            Store::<Arena, Fash<Arena>>::create(heap_over(arena()).lane(0), small(512)).unwrap();
        for _ in 0..200 {
            let savepoint = statements.then(|| store.savepoint().unwrap());
            store.put(0, &key(1), &[7; 50]).unwrap();
            store.delete(0, &key(1)).unwrap();
            savepoint.map_or(Ok(()), |one| store.release(one)).unwrap();
        }
        store.commit().unwrap();
        let census = store.check().unwrap();
        (census.leaves, census.free)
    };
    assert_eq!(free_after(true), free_after(false));
}

/// A memory that is full in the middle of a transaction: what came before stays, and can be
/// committed.
#[test]
fn a_statement_that_found_the_memory_full_is_undone_alone() {
    let memory = arena_of(256 << 10);
    let mut store =
        Store::<Arena, Fast<Arena>>::create(heap_over(memory).lane(0), small(512)).unwrap();
    let mut there = 0;
    loop {
        let statement = store.savepoint().unwrap();
        let both =
            store.put(0, &key(there), &[1; 60]).and_then(|_| store.put(1, &key(there), &[2; 300]));
        if both.is_err() {
            store.rollback_to(statement).unwrap();
            break;
        }
        store.release(statement).unwrap();
        there += 1;
        if there % 8 == 0 {
            store.commit().unwrap();
        }
    }
    store.commit().unwrap();
    let found = contents(&store).unwrap();
    assert_eq!(found.keys().filter(|(tree, _)| *tree == 0).count(), there as usize);
    assert_eq!(found.keys().filter(|(tree, _)| *tree == 1).count(), there as usize);
    assert!(there > 100, "{there}");
}
