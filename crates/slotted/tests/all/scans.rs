//! Scans both ways, from every kind of bound, against a model.

use std::ops::{Bound, ControlFlow};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sim::Arena;
use slotted::{Direction, Fash, Fast, Scheme, Store};

use crate::work::{Mix, Model, arena, heap_over, key, run, small};

const MIX: Mix = Mix { keys: 400, operations: 200, deletions: 30, long: 2, value_bytes: 60 };

fn filled<S: Scheme<Arena>>(seed: u64) -> (Store<Arena, S>, Model, SmallRng) {
    let mut store = Store::<Arena, S>::create(heap_over(arena()).lane(0), small(512)).unwrap();
    let (mut model, mut random) = (Model::new(), SmallRng::seed_from_u64(seed));
    while model.len() < 300 {
        run(&mut store, &mut model, &mut random, MIX);
        store.commit().unwrap();
    }
    // Some of it is not committed.
    run(&mut store, &mut model, &mut random, MIX);
    (store, model, random)
}

fn bound_of(random: &mut SmallRng, key: &[u8]) -> Bound<Vec<u8>> {
    match random.random_range(0..5) {
        0 | 1 => Bound::Included(key.to_vec()),
        2 | 3 => Bound::Excluded(key.to_vec()),
        _ => Bound::Unbounded,
    }
}

fn borrowed(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

fn is_above(bound: &Bound<Vec<u8>>, key: &[u8]) -> bool {
    match bound {
        Bound::Included(low) => key >= low,
        Bound::Excluded(low) => key > low,
        Bound::Unbounded => true,
    }
}

fn is_below(bound: &Bound<Vec<u8>>, key: &[u8]) -> bool {
    match bound {
        Bound::Included(high) => key <= high,
        Bound::Excluded(high) => key < high,
        Bound::Unbounded => true,
    }
}

fn agree<S: Scheme<Arena>>(seed: u64) {
    let (store, model, mut random) = filled::<S>(seed);
    for round in 0..400 {
        let (tree, number) = (random.random_range(0..2), random.random_range(0..MIX.keys));
        let mut from = key(number);
        if round % 3 == 0 {
            // A key that may not be there.
            from.push(random.random());
        }
        let bound = bound_of(&mut random, &from);
        let forward = random.random();
        let most = random.random_range(1..200);
        let keys =
            model.iter().filter(|((of, _), _)| *of == tree).map(|((_, key), value)| (key, value));
        let mut wanted: Vec<_> = if forward {
            keys.filter(|(key, _)| is_above(&bound, key)).collect()
        } else {
            keys.rev().filter(|(key, _)| is_below(&bound, key)).collect()
        };
        wanted.truncate(most);
        let direction = if forward { Direction::Forward } else { Direction::Backward };
        let mut met = Vec::new();
        store
            .scan_from(tree, borrowed(&bound), direction, |key, value| {
                met.push((key.to_vec(), value.to_vec()));
                if met.len() == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })
            .unwrap();
        let met: Vec<_> = met.iter().map(|(key, value)| (key, value)).collect();
        assert!(met == wanted, "seed {seed}, round {round}: {bound:?}, {direction:?}");
    }
}

#[test]
fn scans_go_both_ways_from_every_bound() {
    agree::<Fash<Arena>>(1);
    agree::<Fast<Arena>>(2);
}

#[test]
fn a_range_is_deleted_and_one_of_nothing_deletes_nothing() {
    let (mut store, mut model, mut random) = filled::<Fast<Arena>>(3);
    let mut deleted = [0, 0];
    for _ in 0..40 {
        let [low, high] = [(); 2].map(|()| key(random.random_range(0..MIX.keys)));
        let (low, high) = (bound_of(&mut random, &low), bound_of(&mut random, &high));
        if low == Bound::Unbounded || high == Bound::Unbounded {
            continue;
        }
        let before = model.len();
        model.retain(|(tree, key), _| *tree == 0 || !is_above(&low, key) || !is_below(&high, key));
        let gone = before - model.len();
        assert_eq!(store.delete_range(1, borrowed(&low), borrowed(&high)).unwrap(), gone as u64);
        store.commit().unwrap();
        deleted[usize::from(gone > 0)] += 1;
        run(&mut store, &mut model, &mut random, Mix { deletions: 0, ..MIX });
        store.commit().unwrap();
        assert_eq!(store.check().unwrap().records, model.len() as u64);
    }
    assert!(deleted[0] > 5 && deleted[1] > 5, "{deleted:?}");
}

#[test]
fn a_value_is_read_into_the_buffer_of_the_caller() {
    let (store, model, _) = filled::<Fash<Arena>>(4);
    let mut buffer = b"as it was".to_vec();
    assert!(!store.get_into(0, b"no such key", &mut buffer).unwrap());
    assert_eq!(buffer, b"as it was");
    for ((tree, key), value) in &model {
        assert!(store.get_into(*tree, key, &mut buffer).unwrap());
        assert_eq!(&buffer, value);
    }
}
