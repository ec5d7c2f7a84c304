//! A log that gives room back to the heap, cut off at every fence of it and of the next
//! transaction.

use heap::Heap;
use sim::{Recording, Replay};
use slotted::{Scheme, Store};

use super::story::{LIMIT, NAME, verdict, verdict_and_use};
use super::{Journal, SmallNvwal, SmallWal};
use crate::given_back::log_bytes;
use crate::work::{Model, heap_over, key, small};

fn survives_power_cuts<S: Scheme<Recording>>() {
    let memory = Recording::pool(16 << 10, LIMIT).unwrap();
    let heap: Heap<Recording> = heap_over(memory.clone());
    let mut store = Store::<Recording, S>::create(heap.lane(0), small(512)).unwrap();
    heap.set_root(NAME, store.at()).unwrap();
    let mut model = Model::new();
    for round in 0..2 {
        for number in 0..700 {
            let value = vec![(number as u8).wrapping_add(round); 90];
            store.put(0, &key(number), &value).unwrap();
            model.insert((0, key(number)), value);
        }
        store.commit().unwrap();
    }
    let taken = log_bytes(&heap, &store);
    memory.start();
    store.settle().unwrap();
    let kept = log_bytes(&heap, &store);
    let mut after = model.clone();
    after.insert((1, key(1)), vec![1; 20]);
    store.put(1, &key(1), &[1; 20]).unwrap();
    store.commit().unwrap();
    memory.note(1);
    let (trace, acknowledged) = (memory.stop(), [model, after]);
    assert!(kept < taken, "{}: {kept} of {taken}", S::NAME);
    let mut met = 0;
    let explored = Replay::new(&trace).explore(30, 11, |image, noted| {
        met += 1;
        let check = if met % 8 == 0 { verdict_and_use::<S> } else { verdict::<S> };
        check(image, &acknowledged, noted)
    });
    println!("{}: {kept} of {taken} bytes, {} states", S::NAME, explored.states);
    assert_eq!(explored.failed, None, "{}", S::NAME);
    assert!(explored.states > 20, "{}", explored.states);
}

#[test]
fn a_log_that_gives_room_back_survives_power_cuts() {
    survives_power_cuts::<Journal<Recording>>();
    survives_power_cuts::<SmallNvwal>();
    survives_power_cuts::<SmallWal>();
}
