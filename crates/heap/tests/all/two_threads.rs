//! The things that lanes share, in two threads: Miri is to see them (`scripts/miri`).

use heap::{Heap, HeapOptions, Lanes, Purpose};
use pm::{Dram, LineSet, Memory, Off};

const ROUNDS: u64 = if cfg!(miri) { 8 } else { 40 };

fn heap() -> Heap<Dram> {
    let memory = Dram::new(1 << 22).unwrap();
    Heap::format(memory, HeapOptions { chunk_bytes: 8 << 10, lanes: 2 }).unwrap()
}

#[test]
fn a_name_is_looked_up_while_another_one_is_set() {
    let heap = heap();
    heap.set_root("known", 1).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=ROUNDS {
                heap.set_root(&format!("name {round}"), round).unwrap();
                heap.set_root("known", round).unwrap();
            }
        });
        let mut newest = 0;
        for _ in 0..ROUNDS {
            let known = heap.root("known").unwrap().unwrap();
            assert!(known >= newest, "{known} after {newest}");
            newest = known;
            assert!(heap.roots().unwrap().iter().any(|(name, _)| name == "known"));
        }
    });
    assert_eq!(heap.roots().unwrap().len() as u64, ROUNDS + 1);
}

#[test]
fn two_lanes_take_chunks_and_give_them_back() {
    let heap = heap();
    std::thread::scope(|scope| {
        for number in 0..2 {
            let mut lane = heap.lane(number);
            scope.spawn(move || {
                let mut lines = LineSet::new();
                for round in 0..ROUNDS {
                    let objects: Vec<u64> = (0..if cfg!(miri) { 4 } else { 40 })
                        .map(|_| lane.allocate(3000, Purpose::Table).unwrap())
                        .collect();
                    for at in &objects {
                        lane.memory().copy(Off::new(*at), &[round as u8; 3000]);
                        lane.mark_persisted(*at, &mut lines);
                    }
                    for at in objects {
                        let first: [u8; 8] = lane.memory().read(Off::new(at)).unwrap();
                        assert_eq!(first, [round as u8; 8]);
                        lane.clear_persisted(at, &mut lines).unwrap();
                        lane.release(at);
                    }
                }
            });
        }
    });
}

/// Each thread takes lanes and drops them, and frees what the other one has made.
#[test]
fn two_threads_take_lanes_and_free_each_others_objects() {
    let heap = heap();
    let lanes = Lanes::of(&heap);
    let (to_first, first) = std::sync::mpsc::channel();
    let (to_second, second) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        for (to_other, made) in [(to_second, first), (to_first, second)] {
            let lanes = &lanes;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let mut lane = lanes.take().unwrap();
                    for bytes in [100, 3000] {
                        let at = lane.allocate(bytes, Purpose::Table).unwrap();
                        lane.memory().store(Off::new(at), round);
                        // The other one may have ended.
                        let _ended = to_other.send((at, round));
                    }
                    for (at, stamp) in made.try_iter() {
                        assert_eq!(lane.memory().read::<u64>(Off::new(at)).unwrap(), stamp);
                        lanes.give_back(at).unwrap();
                    }
                }
            });
        }
    });
    assert_eq!((lanes.count(), lanes.collect().unwrap()), (7, 0));
}
