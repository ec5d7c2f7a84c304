//! A full memory refuses operations, for the room that they need themselves or that the log needs
//! when they are committed. It never refuses a commit, nor a deletion that is alone in its
//! transaction.

use heap::HeapError;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sim::Arena;
use slotted::{Fash, Fash1, Fast, Fast1, Journal, Nvwal, Scheme, SlottedError, Store, Wal, Word};

use crate::work::{Model, TREES, agrees, arena_of, contents, heap_over, key, small};

fn is_full<T>(done: Result<T, SlottedError>) -> Option<T> {
    match done {
        Ok(done) => Some(done),
        Err(SlottedError::Heap(HeapError::Full(_))) => None,
        Err(other) => panic!("{other}"),
    }
}

fn objects<S: Scheme<Arena>>(store: &Store<Arena, S>) -> Vec<u64> {
    let mut objects = Vec::new();
    store.objects(&mut |at| objects.push(at)).unwrap();
    objects
}

/// Does random operations; returns how many were refused.
fn operations<S: Scheme<Arena>>(
    store: &mut Store<Arena, S>,
    model: &mut Model,
    random: &mut SmallRng,
    many: usize,
) -> usize {
    let mut refused = 0;
    for _ in 0..many {
        let (tree, key) = (random.random_range(0..TREES), key(random.random_range(0..900)));
        let at = (tree, key.clone());
        if random.random_range(0..100) < 25 {
            match is_full(store.delete(tree, &key)) {
                Some(there) => assert_eq!(there, model.remove(&at).is_some()),
                None => refused += 1,
            }
            continue;
        }
        let bytes = match random.random_range(0..20) {
            0 => random.random_range(200..6000),
            _ => random.random_range(0..90),
        };
        let value = vec![random.random(); bytes];
        match is_full(store.put(tree, &key, &value)) {
            Some(_) => drop(model.insert(at, value)),
            None => refused += 1,
        }
    }
    refused
}

fn refuses_operations_alone<S: Scheme<Arena>>(seed: u64) {
    let memory = arena_of(320 << 10);
    let mut store = Store::<Arena, S>::create(heap_over(memory).lane(0), small(512)).unwrap();
    store.keep_room_for(TREES as usize);
    let (mut model, mut random) = (Model::new(), SmallRng::seed_from_u64(seed));
    let (mut refused, mut committed) = (0, 0);
    for step in 0..200 {
        let (mut after, many) = (model.clone(), random.random_range(1..=40));
        let now = if step % 4 == 1 {
            // A part of it is undone.
            let before = operations(&mut store, &mut after, &mut random, many);
            let savepoint = store.savepoint().unwrap();
            let undone = operations(&mut store, &mut after.clone(), &mut random, many);
            store.rollback_to(savepoint).unwrap();
            before + undone
        } else {
            operations(&mut store, &mut after, &mut random, many)
        };
        refused += now;
        let before = objects(&store);
        if step % 5 == 0 {
            store.abort();
        } else {
            store.commit().unwrap();
            model = after;
            committed += usize::from(now > 0);
        }
        assert_eq!(before, objects(&store), "{}: a commit takes room", S::NAME);
        if step % 10 == 0 {
            assert!(agrees(&store, &model).unwrap(), "{}, seed {seed}, step {step}", S::NAME);
        }
    }
    println!("{}: {refused} refused, {committed} transactions without them", S::NAME);
    assert!(refused > 100 && committed > 50, "{}: {refused}, {committed}", S::NAME);
    assert_eq!(store.census().unwrap().records, model.len() as u64);
    // Rows go from both trees.
    let keys: Vec<Vec<u8>> = model.keys().map(|(_, key)| key.clone()).collect();
    for key in keys {
        for tree in 0..TREES {
            let there = model.remove(&(tree, key.clone())).is_some();
            assert_eq!(store.delete(tree, &key).unwrap(), there, "{}", S::NAME);
        }
        store.commit().unwrap();
    }
    assert!(contents(&store).unwrap().is_empty());
    store.check().unwrap();
}

macro_rules! refuse_operations_alone {
    ($($name:ident: $scheme:ty;)*) => {$(
        #[test]
        fn $name() {
            (1..3).for_each(refuses_operations_alone::<$scheme>);
        }
    )*};
}

refuse_operations_alone! {
    a_full_memory_refuses_no_commit_of_fash: Fash<Arena>;
    a_full_memory_refuses_no_commit_of_fast: Fast<Arena>;
    a_full_memory_refuses_no_commit_of_nvwal: Nvwal<Arena>;
    a_full_memory_refuses_no_commit_of_the_journal: Journal<Arena>;
    a_full_memory_refuses_no_commit_of_the_log_of_pages: Wal<Arena>;
    a_full_memory_refuses_no_commit_of_fash1: Fash1<Arena>;
    a_full_memory_refuses_no_commit_of_fast1: Fast1<Arena>;
    a_full_memory_refuses_no_commit_of_word: Word<Arena>;
}
