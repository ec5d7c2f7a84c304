//! Lanes that are handed out and taken back, against a model: no slot is given out twice, whichever owner has
//! the lane; what is persisted is there after reopening, with the lanes; space comes back; and a
//! damaged list of blocks is an error.
//!
//! Crashes are in `handed_out_crash.rs`.

use std::collections::BTreeMap;
use std::sync::Mutex;

use heap::{Heap, HeapError, HeapOptions, Lane, Lanes, MAX_LANES, Purpose};
use pm::{Bad, Dram, LineSet, Memory, Off};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sim::Recording;

const LIMIT: u64 = 16 << 20;
const CHUNK: u64 = 8 << 10;
/// Lanes of a block with chunks of this size.
const IN_A_BLOCK: u32 = 7;

fn options(lanes: u32) -> HeapOptions {
    HeapOptions { chunk_bytes: CHUNK, lanes }
}

fn formatted(limit: u64) -> (Recording, Heap<Recording>) {
    let memory = Recording::pool(16 << 10, limit).unwrap();
    let heap = Heap::format(memory.clone(), options(1)).unwrap();
    (memory, heap)
}

/// The memory as another process finds it.
fn reopened(memory: &Recording, limit: u64) -> (Recording, Heap<Recording>) {
    let copy = Recording::from_image(&memory.contents(), limit).unwrap();
    let heap = Heap::open(copy.clone()).unwrap();
    (copy, heap)
}

fn contents(stamp: u64, bytes: u64) -> Vec<u8> {
    let mut contents = vec![stamp as u8; bytes as usize];
    contents[..8].copy_from_slice(&stamp.to_le_bytes());
    contents
}

/// Objects by their offset: stamp and size. Persisted, unless the memory is volatile.
type Model = BTreeMap<u64, (u64, u64)>;

fn persisted<M: Memory>(lane: &mut Lane<M>, stamp: u64, bytes: u64) -> u64 {
    let at = lane.allocate(bytes, Purpose::Table).unwrap();
    lane.memory().copy(Off::new(at), &contents(stamp, bytes));
    lane.mark_persisted(at, &mut LineSet::new());
    at
}

fn free<M: Memory>(lane: &mut Lane<M>, at: u64) {
    lane.clear_persisted(at, &mut LineSet::new()).unwrap();
    lane.release(at);
}

fn found(heap: &Heap<Recording>) -> Vec<u64> {
    let mut found = Vec::new();
    heap.for_each_persisted(|at, _| found.push(at)).unwrap();
    found
}

fn insert(model: &Mutex<Model>, at: u64, stamp: u64, bytes: u64) {
    let mut model = model.lock().unwrap();
    if let Some((other, (_, before))) = model.range(..at + bytes).next_back() {
        assert!(other + before <= at, "{at:#x} overlaps {other:#x}");
    }
    model.insert(at, (stamp, bytes));
}

/// Does what a thread does with one lane: objects become persisted, some of them are freed again, and some
/// that others have made are given back to their lanes.
fn turn<M: Memory>(lanes: &Lanes<M>, model: &Mutex<Model>, random: &mut SmallRng, stamp: &mut u64) {
    let mut lane = lanes.take().unwrap();
    let mut mine = Vec::new();
    for _ in 0..20 {
        let bytes = [16, 100, 1000, 3000, 20_000][random.random_range(0..5)];
        *stamp += 1;
        let at = persisted(&mut lane, *stamp, bytes);
        insert(model, at, *stamp, bytes);
        mine.push((at, *stamp));
        if random.random_bool(0.4) {
            let (at, stamp) = mine.swap_remove(random.random_range(0..mine.len()));
            // Another one may have been faster. Then the slot may hold an object of another lane by now.
            let mut all = model.lock().unwrap();
            if all.get(&at).is_some_and(|found| found.0 == stamp) {
                all.remove(&at);
                drop(all);
                free(&mut lane, at);
            }
        }
        if random.random_bool(0.4) {
            let mut all = model.lock().unwrap();
            let from = random.random_range(0..LIMIT);
            if let Some(at) = all.range(from..).next().map(|(at, _)| *at) {
                let (stamp, bytes) = all.remove(&at).unwrap();
                let mut found = vec![0; bytes as usize];
                lane.memory().read_into(Off::new(at), &mut found).unwrap();
                assert!(found == contents(stamp, bytes), "{at:#x}");
                drop(all);
                lanes.give_back(at).unwrap();
            }
        }
    }
}

fn many_threads<M: Memory>(heap: &Heap<M>, seed: u64) -> Model {
    let lanes = Lanes::of(heap);
    lanes.recovered();
    let model = Mutex::new(Model::new());
    std::thread::scope(|scope| {
        for number in 0..4 {
            let (lanes, model) = (&lanes, &model);
            scope.spawn(move || {
                let mut random = SmallRng::seed_from_u64(seed + number);
                let mut stamp = number << 32;
                for _ in 0..25 {
                    turn(lanes, model, &mut random, &mut stamp);
                }
            });
        }
    });
    // Four threads need no more than four lanes, however often they take one.
    assert_eq!(lanes.count(), IN_A_BLOCK);
    assert_eq!(lanes.collect().unwrap(), 0);
    let model = model.into_inner().unwrap();
    for (at, (stamp, bytes)) in &model {
        let mut found = vec![0; *bytes as usize];
        heap.memory().read_into(Off::new(*at), &mut found).unwrap();
        assert!(found == contents(*stamp, *bytes), "{at:#x}");
    }
    model
}

#[test]
fn lanes_that_go_between_threads_give_no_slot_twice() {
    for seed in [1, 100, 200] {
        println!("seed {seed}");
        let memory = Dram::new(LIMIT).unwrap();
        many_threads(&Heap::format(memory, options(1)).unwrap(), seed);
        let (memory, heap) = formatted(LIMIT);
        let model = many_threads(&heap, seed);
        assert!(model.len() > 50, "{}", model.len());
        assert!(found(&heap).iter().eq(model.keys()));
        let (_, heap) = reopened(&memory, LIMIT);
        assert!(found(&heap).iter().eq(model.keys()), "and after reopening");
        let lanes = Lanes::of(&heap);
        assert_eq!(lanes.count(), IN_A_BLOCK);
        // Every one of them is there, and frees what is its own.
        let mut all: Vec<_> = (0..IN_A_BLOCK).map(|_| lanes.take().unwrap()).collect();
        for at in model.keys() {
            let owners = all.iter_mut().filter_map(|lane| {
                lane.clear_persisted(*at, &mut LineSet::new()).is_ok().then(|| lane.release(*at))
            });
            assert_eq!(owners.count(), 1, "{at:#x} has one owner");
        }
        assert_eq!(found(&heap), []);
        assert_eq!(lanes.count(), IN_A_BLOCK);
    }
}

#[test]
fn a_block_has_as_many_lanes_as_fit() {
    for (chunk_bytes, chunks, in_a_block) in
        [(8 << 10, 8, 7), (32 << 10, 2, 7), (64 << 10, 1, 7), (256 << 10, 1, 31), (4 << 20, 1, 511)]
    {
        let memory = Recording::pool(16 << 10, 64 << 20).unwrap();
        let heap = Heap::format(memory.clone(), HeapOptions { chunk_bytes, lanes: 2 }).unwrap();
        let before = heap.chunk_use().unwrap().len();
        let lanes = Lanes::of(&heap);
        let mut first = lanes.take().unwrap();
        assert_eq!(lanes.count(), in_a_block, "chunks of {chunk_bytes}");
        let uses = heap.chunk_use().unwrap();
        assert_eq!(uses.len() - before, chunks);
        for chunk in &uses[before..] {
            let seen = (chunk.purpose, chunk.lanes, chunk.lane, chunk.slots, chunk.persisted);
            assert_eq!(seen, (None, in_a_block, 2, 0, 0));
        }
        // Mini-transactions use all of a lane's area; they are in no other lane's way.
        let mini = |lane: &mut Lane<Recording>, stamp| {
            let at = lane.allocate(3000, Purpose::Log).unwrap();
            for word in 0..300 {
                lane.mini_store(Off::new(at + word * 8), stamp);
            }
            lane.mini_persist(at).unwrap();
            lane.mini_commit(&mut LineSet::new());
            at
        };
        let mut all: Vec<_> = (1..in_a_block.min((48 << 20) / chunk_bytes as u32))
            .map(|_| lanes.take().unwrap())
            .collect();
        all.push(heap.lane(1));
        let objects: Vec<u64> = (1..).zip(&mut all).map(|(n, lane)| mini(lane, n)).collect();
        let mine = mini(&mut first, 0);
        assert_eq!(found(&heap).len(), objects.len() + 1);
        drop((first, all));
        let (memory, heap) = reopened(&memory, 64 << 20);
        assert_eq!(Lanes::of(&heap).count(), in_a_block);
        for (stamp, at) in (1..).zip(&objects).chain([(0, &mine)]) {
            for word in 0..300 {
                assert_eq!(memory.read::<u64>(Off::new(at + word * 8)).unwrap(), stamp);
            }
        }
    }
}

/// Slots that a lane's owner has neither persisted nor released are not the next owner's to have; they
/// can be given back by anybody, and none of them is lost.
#[test]
fn a_lane_that_is_taken_again_is_as_it_was_left() {
    let (memory, heap) = formatted(LIMIT);
    let lanes = Lanes::of(&heap);
    let mut lane = lanes.take().unwrap();
    let mut all: Vec<u64> = (0..42).map(|_| lane.allocate(1000, Purpose::Table).unwrap()).collect();
    let kept = all.split_off(20);
    all.iter().for_each(|at| lane.release(*at));
    lane.mini_store(Off::new(kept[0]), 7);
    drop(lane);
    let length = memory.len();
    // The slots that are free, and no other, without another chunk.
    let mut lane = lanes.take().unwrap();
    lane.mini_commit(&mut LineSet::new());
    let word: u64 = memory.read(Off::new(kept[0])).unwrap();
    assert_eq!(word, 0, "a mini-transaction that was not committed is forgotten");
    let again: Vec<u64> = (0..20).map(|_| lane.allocate(1000, Purpose::Table).unwrap()).collect();
    assert!(again.iter().all(|at| !kept.contains(at)));
    assert_eq!(memory.len(), length);
    drop(lane);
    kept.iter().for_each(|at| lanes.give_back(*at).unwrap());
    let mut lane = lanes.take().unwrap();
    let mut last: Vec<u64> =
        (0..22).map(|_| lane.allocate(1000, Purpose::Table).unwrap()).collect();
    last.sort_unstable();
    let mut kept = kept;
    kept.sort_unstable();
    assert_eq!(last, kept);
    assert_eq!(memory.len(), length);
}

/// Objects that an owner has lost track of are found again: slots and spans that are not persisted, and no
/// others.
#[test]
fn what_is_not_persisted_in_an_abandoned_lane_is_free() {
    let (memory, heap) = formatted(LIMIT);
    let lanes = Lanes::of(&heap);
    for round in 0..3 {
        let mut lane = lanes.take().unwrap();
        lane.recovered();
        let stays = [persisted(&mut lane, 1, 1000), persisted(&mut lane, 2, 30_000)];
        let lost: Vec<u64> =
            [1000, 30_000].map(|bytes| lane.allocate(bytes, Purpose::Table).unwrap()).into();
        lanes.give_back(lost[0]).unwrap();
        lane.keep(500, Purpose::Index, 3, true).unwrap();
        let length = memory.len();
        lane.abandon().unwrap();
        let mut lane = lanes.take().unwrap();
        for (at, bytes) in lost.iter().zip([1000, 30_000]) {
            let slots: Vec<u64> =
                (0..2).map(|_| lane.allocate(bytes, Purpose::Table).unwrap()).collect();
            assert!(slots.contains(at) || memory.len() == length, "round {round}: {at:#x}");
            assert!(!slots.iter().any(|at| stays.contains(at)));
            slots.into_iter().for_each(|at| lane.release(at));
        }
        // A span that was persisted can be freed by the next owner.
        stays.into_iter().for_each(|at| free(&mut lane, at));
        assert_eq!(found(&heap), []);
    }
}

#[test]
fn a_volatile_lane_is_cleared_by_its_owner() {
    let heap = Heap::format(Dram::new(1 << 20).unwrap(), options(1)).unwrap();
    let lanes = Lanes::of(&heap);
    for round in 0..6 {
        let mut lane = lanes.take().unwrap();
        let many = (0..).take_while(|_| lane.allocate(50_000, Purpose::Table).is_ok()).count();
        assert!(many >= 14, "round {round}: {many}");
        match round % 3 {
            0 => lane.clear(),
            1 => lane.abandon().unwrap(),
            _ => {
                // Taken again, with what it knows.
                drop(lane);
                lane = lanes.take().unwrap();
                assert!(lane.allocate(50_000, Purpose::Table).is_err());
                lane.clear();
            }
        }
    }
}

/// An object that still waits to be freed when all of its lane's objects go is not freed once more.
#[test]
fn clearing_a_lane_frees_objects_that_were_given_back() {
    for abandons in [false, true] {
        let heap = Heap::format(Dram::new(1 << 20).unwrap(), options(1)).unwrap();
        let lanes = Lanes::of(&heap);
        let (mut one, mut other) = (lanes.take().unwrap(), lanes.take().unwrap());
        let freed = one.allocate(3000, Purpose::Table).unwrap();
        lanes.give_back(freed).unwrap();
        if abandons {
            one.abandon().unwrap();
            one = lanes.take().unwrap();
        } else {
            one.clear();
        }
        assert_eq!(lanes.collect().unwrap(), 0, "abandons: {abandons}");
        let mut all: Vec<u64> = (0..4)
            .flat_map(|_| [&mut one, &mut other].map(|lane| lane.allocate(3000, Purpose::Table)))
            .map(Result::unwrap)
            .collect();
        assert!(all.contains(&freed), "the chunk serves again");
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 8, "abandons: {abandons}: a slot was handed out twice");
    }
}

/// Damage in what was given back to one lane is an error once; the others serve.
#[test]
fn a_lane_that_cannot_free_is_taken_last() {
    for used in [false, true] {
        let (memory, heap) = formatted(LIMIT);
        let at = persisted(&mut Lanes::of(&heap).take().unwrap(), 1, 3000);
        let (memory, heap) = reopened(&memory, LIMIT);
        let lanes = Lanes::of(&heap);
        if used {
            // The owner of the object is dropped last.
            let all: Vec<_> = (0..IN_A_BLOCK).map(|_| lanes.take().unwrap()).collect();
            all.into_iter().rev().for_each(drop);
        }
        lanes.give_back(at).unwrap();
        // The tag of the object's chunk.
        let chunk = (0..at).rev().find(|start| {
            start.is_multiple_of(8)
                && memory.read(Off::new(*start)).is_ok_and(|tag| {
                    let tag: [u8; 4] = tag;
                    tag == *b"PDCK"
                })
        });
        memory.store(Off::new(chunk.unwrap()), 1);
        assert!(lanes.take().is_err(), "used: {used}");
        let mut all: Vec<_> = (1..IN_A_BLOCK).map(|_| lanes.take().unwrap()).collect();
        assert!(lanes.take().is_err() && lanes.collect().is_err(), "used: {used}");
        all.pop();
        all.push(lanes.take().unwrap());
        assert_eq!(lanes.count(), IN_A_BLOCK);
    }
}

#[test]
fn recovery_takes_the_lane_of_an_object() {
    let (memory, heap) = formatted(LIMIT);
    let lanes = Lanes::of(&heap);
    let (mut one, mut two) = (lanes.take().unwrap(), lanes.take().unwrap());
    let objects = [persisted(&mut one, 1, 100), persisted(&mut two, 2, 100)];
    let fixed = persisted(&mut heap.lane(0), 3, 100);
    assert!(lanes.take_owner(objects[0]).unwrap().is_none(), "it has an owner");
    drop(one);
    let (copy, heap) = reopened(&memory, LIMIT);
    for lanes in [lanes, Lanes::of(&heap)] {
        for wild in [fixed, 0, 8, objects[0] + 8, fixed - 256, u64::MAX / 2, u64::MAX] {
            assert!(lanes.take_owner(wild).is_err(), "{wild:#x}");
            assert!(lanes.give_back(wild).is_err(), "{wild:#x}");
        }
        let mut owner = lanes.take_owner(objects[0]).unwrap().unwrap();
        assert!(lanes.take_owner(objects[0]).unwrap().is_none());
        assert!(owner.clear_persisted(objects[1], &mut LineSet::new()).is_err(), "not its own");
        free(&mut owner, objects[0]);
        assert!(owner.restore(objects[1], &mut LineSet::new()).is_err());
    }
    assert_eq!(found(&heap), [fixed.min(objects[1]), fixed.max(objects[1])]);
    // A lane that was not taken yet frees what is given back to it.
    let lanes = Lanes::of(&heap);
    lanes.give_back(objects[1]).unwrap();
    assert_eq!(found(&heap).len(), 2, "it waits");
    assert_eq!(lanes.collect().unwrap(), 0);
    assert_eq!(found(&heap), [fixed]);
    assert_eq!(copy.contents().len(), memory.contents().len());
    drop(two);
}

/// A lane with an owner keeps what is given back to it until it needs room, and does not touch a
/// word that a mini-transaction has begun to change.
#[test]
fn what_is_given_back_waits_for_its_lane() {
    let (memory, heap) = formatted(LIMIT);
    let lanes = Lanes::of(&heap);
    let mut lane = lanes.take().unwrap();
    // Two to a chunk; the next one needs another chunk.
    let pair = [1, 2].map(|stamp| persisted(&mut lane, stamp, 3000));
    lanes.give_back(pair[0]).unwrap();
    assert_eq!(lanes.collect().unwrap(), 1);
    lane.mini_free(pair[1]).unwrap();
    let other = lane.allocate(3000, Purpose::Table).unwrap();
    assert!(!pair.contains(&other), "not while the mini-transaction is open");
    assert!(heap.is_persisted(pair[0]).unwrap());
    lane.mini_commit(&mut LineSet::new());
    assert!(heap.is_persisted(pair[0]).unwrap(), "it waits");
    let length = memory.len();
    let mut taken: Vec<u64> =
        (0..3).map(|_| lane.allocate(3000, Purpose::Table).unwrap()).collect();
    taken.push(other);
    taken.sort_unstable();
    taken.dedup();
    assert_eq!((taken.len(), memory.len()), (4, length));
    assert!(pair.iter().all(|at| taken.contains(at)));
    assert_eq!(lanes.collect().unwrap(), 0);
}

#[test]
fn empty_chunks_of_idle_lanes_serve_a_full_memory() {
    let (memory, heap) = formatted(1 << 20);
    let lanes = Lanes::of(&heap);
    lanes.recovered();
    let fill = |lane: &mut Lane<Recording>, bytes| {
        let mut all = Vec::new();
        while let Ok(at) = lane.allocate(bytes, Purpose::Table) {
            lane.mark_persisted(at, &mut LineSet::new());
            all.push(at);
        }
        all
    };
    let mut lane = lanes.take().unwrap();
    let all = fill(&mut lane, 1000);
    assert!(all.len() > 700, "{}", all.len());
    for (round, bytes) in (0..).zip([3000, 100, 50_000, 1000]) {
        // As many as the lane keeps for itself, and as many as wait for it.
        let all = if round == 0 { all.clone() } else { fill(&mut lane, 1000) };
        drop(lane);
        all.iter().for_each(|at| lanes.give_back(*at).unwrap());
        let mut other = heap.lane(0);
        let found = fill(&mut other, bytes);
        assert!(found.len() as u64 * bytes > 600_000, "round {round}: {}", found.len());
        other.recovered();
        found.into_iter().for_each(|at| free(&mut other, at));
        drop(other);
        lane = lanes.take().unwrap();
    }
    assert_eq!(lanes.count(), IN_A_BLOCK);
    drop(lane);
    drop((memory, heap));
}

/// Taking a lane where there is no room is an error that changes nothing; chunks that a crash has
/// left free, and that were not found yet, are room.
#[test]
fn a_block_that_finds_no_room_is_an_error() {
    let (memory, heap) = formatted(1 << 20);
    let mut lane = heap.lane(0);
    lane.recovered();
    let mut all = Vec::new();
    while let Ok(at) = lane.allocate(60_000, Purpose::Table) {
        lane.mark_persisted(at, &mut LineSet::new());
        all.push(at);
    }
    while lane.allocate(100, Purpose::Table).is_ok() {}
    let lanes = Lanes::of(&heap);
    let before = memory.contents();
    for _ in 0..2 {
        assert!(matches!(lanes.take(), Err(HeapError::Full(_))));
        assert!(matches!(lanes.reserve(3), Err(HeapError::Full(_))));
    }
    assert_eq!((lanes.count(), memory.contents() == before), (0, true));
    lanes.reserve(0).unwrap();
    free(&mut lane, all[3]);
    drop(lane);
    let (memory, heap) = reopened(&memory, 1 << 20);
    memory.fail_growth_after(Some(0));
    let lanes = Lanes::of(&heap);
    lanes.reserve(IN_A_BLOCK).unwrap();
    assert_eq!(lanes.count(), IN_A_BLOCK);
    assert!(matches!(lanes.reserve(IN_A_BLOCK + 1), Err(HeapError::Full(_))));
    let all: Vec<_> = (0..IN_A_BLOCK).map(|_| lanes.take().unwrap()).collect();
    assert!(matches!(lanes.take(), Err(HeapError::Full(_))));
    drop(all);
    lanes.take().unwrap();
}

#[test]
fn there_are_lanes_up_to_the_limit() {
    let memory = Recording::pool(16 << 10, 1 << 30).unwrap();
    let heap = Heap::format(memory, HeapOptions { chunk_bytes: 4 << 20, lanes: 4096 }).unwrap();
    let lanes = Lanes::of(&heap);
    lanes.reserve(MAX_LANES - 4096).unwrap();
    assert_eq!(lanes.count(), MAX_LANES - 4096);
    let error = lanes.reserve(MAX_LANES - 4095).unwrap_err();
    assert!(matches!(error, HeapError::NoLaneLeft { max: MAX_LANES }), "{error}");
    // Those that are there can be used.
    let mut lane = lanes.take().unwrap();
    let at = persisted(&mut lane, 1, 100);
    assert!(heap.is_persisted(at).unwrap());
}

/// Places from `docs/format/heap.md`.
#[test]
fn a_damaged_list_of_blocks_is_an_error() {
    const HEAD: usize = 8192 + 72;
    let (memory, heap) = formatted(LIMIT);
    let lanes = Lanes::of(&heap);
    lanes.reserve(2 * IN_A_BLOCK).unwrap();
    let all: Vec<_> = (0..2 * IN_A_BLOCK).map(|_| lanes.take().unwrap()).collect();
    let at = {
        let mut all = all;
        persisted(&mut all[2 * IN_A_BLOCK as usize - 1], 1, 100)
    };
    let image = memory.contents();
    let uses = heap.chunk_use().unwrap();
    let starts: Vec<usize> = (0..uses.len())
        .filter(|chunk| uses[*chunk].lanes > 0 && chunk % 8 == 0)
        .map(|chunk| 8192 + 4096 + 8192 + chunk * CHUNK as usize)
        .collect();
    assert_eq!(starts.len(), 2);
    let word = |at: usize| u64::from_le_bytes(image[at..at + 8].try_into().unwrap());
    assert!(starts.iter().all(|at| word(*at) as u32 == u32::from_le_bytes(*b"PDCK")));
    let refuses = |image: &[u8], what: &str| {
        let memory = Recording::from_image(image, LIMIT).unwrap();
        match Heap::open(memory) {
            Err(HeapError::Bad(Bad::Damaged { .. })) => {}
            other => panic!("{what}: {other:?}"),
        }
    };
    // The head; the tags, the lengths, and the link to the second block.
    let words =
        [HEAD, starts[0], starts[0] + 8, starts[0] + 16, starts[1], starts[1] + 8, starts[1] + 16];
    for at in words {
        for bit in 0..64 {
            let mut damaged = image.clone();
            damaged[at + bit / 8] ^= 1 << (bit % 8);
            refuses(&damaged, &format!("bit {bit} of the word at {at:#x}"));
        }
    }
    // A list that comes back to its first block, or to its last, by a link that was right elsewhere.
    for (to, link) in
        [(starts[1] + 16, HEAD), (starts[1] + 16, starts[0] + 16), (HEAD, starts[0] + 16)]
    {
        let mut damaged = image.clone();
        damaged[to..to + 8].copy_from_slice(&word(link).to_le_bytes());
        refuses(&damaged, &format!("the link of {link:#x} at {to:#x}"));
    }
    // Without a tag a block counts, if it is the last one.
    let mut first = image.clone();
    first[starts[0]..starts[0] + 8].fill(0);
    refuses(&first, "a block in the list without a tag");
    let mut last = image.clone();
    last[starts[1]..starts[1] + 8].fill(0);
    let heap = Heap::open(Recording::from_image(&last, LIMIT).unwrap()).unwrap();
    assert_eq!(heap.memory().contents(), image);
    assert!(heap.is_persisted(at).unwrap());
    // Where the list ends too early, the tags say so, wherever they are read.
    for end in [HEAD, starts[0] + 16] {
        let mut damaged = image.clone();
        damaged[end..end + 8].fill(0);
        let heap = Heap::open(Recording::from_image(&damaged, LIMIT).unwrap()).unwrap();
        assert!(heap.for_each_persisted(|_, _| ()).is_err());
        assert!(heap.chunk_use().is_err() && heap.is_persisted(at).is_err());
        assert!(heap.lane(0).allocate(100, Purpose::Table).is_err());
        assert!(Lanes::of(&heap).give_back(at).is_err());
    }
    // A span that is called a block is none.
    let (memory, heap) = formatted(LIMIT);
    Lanes::of(&heap).reserve(1).unwrap();
    let span = persisted(&mut heap.lane(0), 1, 50_000);
    let tag = span - span % CHUNK + (8192 + 4096 + 8192) % CHUNK;
    let tag = if tag > span { tag - CHUNK } else { tag };
    let word: u64 = memory.read(Off::new(tag)).unwrap();
    assert_eq!(word >> 32 & 0xff, 255);
    for lane in [0, 1] {
        memory.store(Off::new(tag), word & !(0xff << 32 | 0xffff << 48) | 254 << 32 | lane << 48);
        assert!(heap.is_persisted(span).is_err() && heap.chunk_use().is_err());
    }
}
