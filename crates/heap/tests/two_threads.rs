//! What lanes share, in two threads: Miri is to see it (`scripts/miri`).

use heap::{Heap, HeapOptions, Purpose};
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
