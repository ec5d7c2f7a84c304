//! Room that a log has taken for large transactions goes back to the heap when a store is settled,
//! but for a bound, and for what the deletion of a row needs in a full memory.

use heap::{Heap, HeapError};
use pm::Memory;
use sim::Arena;
use slotted::{Fash1, Journal, KEPT_LOG_BYTES, Nvwal, Options, Scheme, SlottedError, Store};

use crate::work::{Model, agrees, heap_over, key, small};

const NAME: &str = "slotted";
/// Rows of a transaction whose log is many times what is kept of one.
pub(crate) const MANY_ROWS: u32 = 40_000;
const SOME_ROWS: u32 = 10_000;

/// Bytes of the objects that the log is.
pub(crate) fn log_bytes<M: Memory, S: Scheme<M>>(heap: &Heap<M>, store: &Store<M, S>) -> u64 {
    let (mut objects, mut bytes) = (Vec::new(), 0);
    store.objects(&mut |object| objects.push(object)).unwrap();
    // The master comes first, the segments last.
    let logs = &objects[1..objects.len() - store.census().unwrap().segments as usize];
    heap.for_each_persisted(|object, size| {
        bytes += if logs.contains(&object) { size } else { 0 };
    })
    .unwrap();
    bytes
}

fn all_bytes<M: Memory>(heap: &Heap<M>) -> u64 {
    let mut bytes = 0;
    heap.for_each_persisted(|_, size| bytes += size).unwrap();
    bytes
}

/// A memory whose objects are persisted or not, as those of a pool.
fn arena(limit: u64) -> Arena {
    Arena::new(16 << 10, limit).unwrap()
}

fn create<S: Scheme<Arena>>(memory: &Arena, options: Options) -> (Heap<Arena>, Store<Arena, S>) {
    let heap = heap_over(memory.clone());
    let store = Store::create(heap.lane(0), options).unwrap();
    heap.set_root(NAME, store.at()).unwrap();
    (heap, store)
}

fn reopen<S: Scheme<Arena>>(memory: &Arena) -> (Heap<Arena>, Store<Arena, S>) {
    let heap = Heap::open(memory.clone()).unwrap();
    let at = heap.root(NAME).unwrap().unwrap();
    let store = Store::open(heap.lane(0), at).unwrap();
    (heap, store)
}

fn is_given_back<S: Scheme<Arena>>(rows: u32) {
    let memory = arena(64 << 20);
    let (heap, mut store) = create::<S>(&memory, small(512));
    let mut model = Model::new();
    for round in 0..2 {
        for number in 0..rows {
            let value = vec![(number as u8).wrapping_add(round); 60];
            store.put(0, &key(number), &value).unwrap();
            model.insert((0, key(number)), value);
        }
        // It is kept as long as the transaction is open.
        let open = all_bytes(&heap);
        store.settle().unwrap();
        assert_eq!(all_bytes(&heap), open, "{}", S::NAME);
        store.commit().unwrap();
        let taken = log_bytes(&heap, &store);
        store.settle().unwrap();
        // Two logs, and sizes that are powers of two.
        let kept = log_bytes(&heap, &store);
        assert!(kept <= 5 * KEPT_LOG_BYTES && kept < taken, "{}: {kept} {taken}", S::NAME);
        store.settle().unwrap();
        assert_eq!(log_bytes(&heap, &store), kept, "{}", S::NAME);
        assert!(agrees(&store, &model).unwrap(), "{}", S::NAME);
        store.check().unwrap();
    }
    drop((heap, store));
    let (heap, mut store) = reopen::<S>(&memory);
    assert!(agrees(&store, &model).unwrap(), "{}", S::NAME);
    assert!(store.delete(0, &key(7)).unwrap());
    store.commit().unwrap();
    let census = store.check().unwrap();
    let mut persisted = 0;
    heap.for_each_persisted(|_, _| persisted += 1).unwrap();
    assert_eq!(persisted, 1 + census.log_objects + census.segments, "{}", S::NAME);
}

/// The long value's deletion needs more of the log than the bound, in schemes that log whole pages
/// or runs.
fn a_long_value_can_go<S: Scheme<Arena>>() {
    let memory = arena(2 << 20);
    let (_, mut store) = create::<S>(&memory, small(512));
    store.put(0, b"long", &[7; 120_000]).unwrap();
    store.commit().unwrap();
    // By this process and by the next one.
    store.settle().unwrap();
    drop(store);
    let (_, mut store) = reopen::<S>(&memory);
    store.settle().unwrap();
    for number in 0.. {
        match store.put(1, &key(number), &[1; 90]) {
            Ok(_) => store.commit().unwrap(),
            Err(SlottedError::Heap(HeapError::Full(_))) => break,
            Err(other) => panic!("{other}"),
        }
    }
    store.abort();
    assert!(store.delete(0, b"long").unwrap(), "{}", S::NAME);
    store.commit().unwrap();
    store.check().unwrap();
}

/// The log of a scheme gives back what transactions of so many rows had taken.
pub(crate) fn gives_back<S: Scheme<Arena>>(rows: u32) {
    is_given_back::<S>(rows);
    a_long_value_can_go::<S>();
}

#[test]
fn nvwal_gives_back_what_its_log_had_taken() {
    gives_back::<Nvwal<Arena>>(SOME_ROWS);
}

#[test]
fn the_journal_gives_back_what_it_had_taken() {
    gives_back::<Journal<Arena>>(SOME_ROWS);
}

#[test]
fn fash1_gives_back_what_its_logs_had_taken() {
    gives_back::<Fash1<Arena>>(SOME_ROWS);
}
