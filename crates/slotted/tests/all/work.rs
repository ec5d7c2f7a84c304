//! Random transactions, and the model that says what they do.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use heap::{Heap, HeapOptions};
use pm::Memory;
use rand::Rng;
use rand::rngs::SmallRng;
use sim::Arena;
use slotted::{Options, Scheme, Store};

/// The contents of the trees, by tree and key.
pub(crate) type Model = BTreeMap<(u32, Vec<u8>), Vec<u8>>;

pub(crate) const TREES: u32 = 2;

/// The parameters of small stores, in which everything happens soon.
pub(crate) fn small(page_bytes: u32) -> Options {
    let segment_bytes = 16 * u64::from(page_bytes);
    Options { page_bytes, segment_bytes, trees: TREES, log_bytes: 1024 }
}

/// An empty memory.
pub(crate) fn arena() -> Arena {
    arena_of(64 << 20)
}

/// An empty memory that can have so many bytes.
pub(crate) fn arena_of(limit: u64) -> Arena {
    Arena::new(16 << 10, limit).unwrap()
}

/// A heap of small chunks over a memory.
pub(crate) fn heap_over<M: Memory>(memory: M) -> Heap<M> {
    Heap::format(memory, HeapOptions { chunk_bytes: 8 << 10, lanes: 1 }).unwrap()
}

/// The operations of a transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mix {
    /// Keys are below this number.
    pub(crate) keys: u32,
    /// The most operations of a transaction.
    pub(crate) operations: usize,
    /// The share of deletions, in percent.
    pub(crate) deletions: u32,
    /// The share of long values, in percent.
    pub(crate) long: u32,
    /// The most bytes of other values.
    pub(crate) value_bytes: usize,
}

/// A key: its length depends on its number.
pub(crate) fn key(number: u32) -> Vec<u8> {
    let mut key = number.wrapping_mul(2_654_435_761).to_be_bytes().to_vec();
    key.resize(4 + number as usize % 11, number as u8);
    key
}

fn value(random: &mut SmallRng, mix: Mix) -> Vec<u8> {
    let long = random.random_range(0..100) < mix.long;
    let bytes = if long {
        random.random_range(120..1500)
    } else {
        random.random_range(0..=mix.value_bytes)
    };
    let first: u8 = random.random();
    (0..bytes).map(|at| first.wrapping_add(at as u8)).collect()
}

/// Runs the operations of a transaction; the caller commits it or not. Checks what each returns. In
/// one of a few, some operations more are undone.
pub(crate) fn run<M: Memory, S: Scheme<M>>(
    store: &mut Store<M, S>,
    model: &mut Model,
    random: &mut SmallRng,
    mix: Mix,
) {
    operations(store, model, random, mix);
    if random.random_range(0..6) == 0 {
        let savepoint = store.savepoint().unwrap();
        operations(store, &mut model.clone(), random, mix);
        store.rollback_to(savepoint).unwrap();
        operations(store, model, random, mix);
    }
}

fn operations<M: Memory, S: Scheme<M>>(
    store: &mut Store<M, S>,
    model: &mut Model,
    random: &mut SmallRng,
    mix: Mix,
) {
    for _ in 0..random.random_range(1..=mix.operations) {
        let (tree, key) = (random.random_range(0..TREES), key(random.random_range(0..mix.keys)));
        let at = (tree, key.clone());
        if random.random_range(0..100) < mix.deletions {
            assert_eq!(store.delete(tree, &key).unwrap(), model.remove(&at).is_some());
        } else {
            let value = value(random, mix);
            let there = store.put(tree, &key, &value).unwrap();
            assert_eq!(model.insert(at.clone(), value).is_some(), there);
            assert_eq!(store.get(tree, &key).unwrap().as_ref(), model.get(&at));
        }
    }
}

/// Returns whether a store has the contents of a model.
pub(crate) fn agrees<M: Memory, S: Scheme<M>>(
    store: &Store<M, S>,
    model: &Model,
) -> Result<bool, slotted::SlottedError> {
    for tree in 0..TREES {
        let mut wanted = model.range((tree, Vec::new())..(tree + 1, Vec::new()));
        let mut same = true;
        store.scan(tree, &[], |key, value| {
            same = wanted.next().is_some_and(|((_, k), v)| k == key && v == value);
            if same { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        if !same || wanted.next().is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// All of a store, by scans.
pub(crate) fn contents<M: Memory, S: Scheme<M>>(
    store: &Store<M, S>,
) -> Result<Model, slotted::SlottedError> {
    let mut found = Model::new();
    for tree in 0..TREES {
        store.scan(tree, &[], |key, value| {
            found.insert((tree, key.to_vec()), value.to_vec());
            ControlFlow::Continue(())
        })?;
    }
    Ok(found)
}
