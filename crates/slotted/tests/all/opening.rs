//! The cost of opening a store after a kill: nothing that grows with its records. Counted in cache
//! lines that are loaded and stored, not in time.

use heap::{Heap, HeapOptions};
use sim::{Arena, Emulated, Meter, MeterOptions};
use slotted::{Fash, Fash1, Fast, Fast1, Journal, Nvwal, Options, Scheme, Store, Wal, Word};

const NAME: &str = "slotted";

/// Lines that opening loads and stores, of the heap and of the store, after a process was killed
/// that had put so many records.
fn opening<S, O>(records: u64) -> [u64; 2]
where
    S: Scheme<Arena>,
    O: Scheme<Emulated<Arena>>,
{
    let arena = Arena::new(1 << 20, 1 << 30).unwrap();
    let heap =
        Heap::format(arena.clone(), HeapOptions { chunk_bytes: 64 << 10, lanes: 1 }).unwrap();
    let mut store = Store::<Arena, S>::create(heap.lane(0), Options::default()).unwrap();
    heap.set_root(NAME, store.at()).unwrap();
    for record in 0..records {
        let key = record.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
        store.put(0, &key, &[7; 64]).unwrap();
        if record % 1000 == 999 {
            store.commit().unwrap();
        }
    }
    store.settle().unwrap();
    for record in 0..5u64 {
        let key = record.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
        assert!(store.delete(0, &key).unwrap());
        store.commit().unwrap();
    }
    store.put(0, b"open", b"when the process is killed").unwrap();
    drop((store, heap));
    let meter = Meter::new(MeterOptions::default());
    let memory = Emulated::new(arena, &meter);
    let heap = Heap::open(memory).unwrap();
    let at = heap.root(NAME).unwrap().unwrap();
    let lines = || meter.counts().accesses;
    let before = lines();
    let store = Store::<Emulated<Arena>, O>::open(heap.lane(0), at).unwrap();
    let counted = [before, lines() - before];
    assert!(store.get(0, b"open").unwrap().is_none());
    let there = [3u64, 7].map(|record| {
        let key = record.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
        store.get(0, &key).unwrap().is_some()
    });
    assert_eq!(there, [false, true]);
    counted
}

/// Few records and many cost the same, but for `more` lines: what the five transactions have
/// changed is not as long in every page, and a log of pages or runs has it.
fn costs_the_same<S, O>([few, many]: [u64; 2], more: u64)
where
    S: Scheme<Arena>,
    O: Scheme<Emulated<Arena>>,
{
    let [few, many] = [few, many].map(opening::<S, O>);
    println!("{}: {few:?}, {many:?} lines of the heap and of the store", S::NAME);
    assert!(many[1] <= few[1] + more && many[0] == few[0], "{}: {few:?} {many:?}", S::NAME);
}

pub(crate) fn all_cost_the_same(records: [u64; 2]) {
    costs_the_same::<Fash<Arena>, Fash<Emulated<Arena>>>(records, 10);
    costs_the_same::<Fash1<Arena>, Fash1<Emulated<Arena>>>(records, 10);
    costs_the_same::<Fast<Arena>, Fast<Emulated<Arena>>>(records, 10);
    costs_the_same::<Fast1<Arena>, Fast1<Emulated<Arena>>>(records, 10);
    costs_the_same::<Nvwal<Arena>, Nvwal<Emulated<Arena>>>(records, 20);
    costs_the_same::<Journal<Arena>, Journal<Emulated<Arena>>>(records, 10);
    costs_the_same::<Wal<Arena>, Wal<Emulated<Arena>>>(records, 20);
    costs_the_same::<Word<Arena>, Word<Emulated<Arena>>>(records, 10);
}

#[test]
fn opening_does_not_depend_on_how_many_records_there_are() {
    all_cost_the_same([1_000, 10_000]);
}
