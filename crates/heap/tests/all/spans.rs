//! Objects that take several chunks, and objects in slots, against a model: nothing is handed out
//! twice, also where their contents look like the allocator's own words, over two lanes, opened
//! again and again, and on a full memory.

use std::collections::BTreeMap;

use heap::{Heap, HeapError, HeapOptions, LARGE_ALIGN, Lane, Lanes, MAX_OBJECT_BYTES, Purpose};
use pm::{Dram, LineSet, Memory, Off};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sim::Recording;

const LIMIT: u64 = 4 << 20;
const CHUNK: u64 = 8 << 10;
const SIZES: [u64; 8] = [40, 700, 7000, 7600, 9_000, 20_000, 65_536, 150_000];

fn options(lanes: u32) -> HeapOptions {
    HeapOptions { chunk_bytes: CHUNK, lanes }
}

/// Every other word is the tag of a chunk of small slots, of either lane.
fn contents(stamp: u64, bytes: u64) -> Vec<u8> {
    let tag = u64::from(u32::from_le_bytes(*b"PDCK")) | (stamp % 2) << 48;
    (0..bytes.div_ceil(16))
        .flat_map(|_| [tag.to_le_bytes(), stamp.to_le_bytes()].concat())
        .take(bytes as usize)
        .collect()
}

/// Persisted objects: stamp, size, lane.
type Model = BTreeMap<u64, (u64, u64, usize)>;

fn check<M: Memory>(memory: &M, model: &Model) {
    let mut end = 0;
    for (at, (stamp, bytes, _)) in model {
        assert!(*at >= end, "{at:#x} overlaps");
        end = at + bytes;
        let mut found = vec![0; *bytes as usize];
        memory.read_into(Off::new(*at), &mut found).unwrap();
        assert!(found == contents(*stamp, *bytes), "{at:#x} has other contents");
    }
}

fn allocate<M: Memory>(
    lanes: &mut [Lane<M>],
    random: &mut SmallRng,
    model: &mut Model,
    lines: &mut LineSet,
) -> Result<(), HeapError> {
    let (number, bytes) = (random.random_range(0..lanes.len()), SIZES[random.random_range(0..8)]);
    let lane = &mut lanes[number];
    let at = lane.allocate(bytes, Purpose::Table)?;
    let large = bytes > lane.heap().max_slot_bytes();
    assert!(!large || at.is_multiple_of(LARGE_ALIGN), "{at:#x}");
    let stamp = random.random();
    lane.memory().copy(Off::new(at), &contents(stamp, bytes));
    if random.random_bool(0.1) {
        lane.release(at);
    } else {
        lane.mark_persisted(at, lines);
        assert!(model.insert(at, (stamp, bytes, number)).is_none(), "{at:#x} twice");
    }
    Ok(())
}

fn free_one<M: Memory>(
    lanes: &mut [Lane<M>],
    random: &mut SmallRng,
    model: &mut Model,
    lines: &mut LineSet,
) {
    let Some((at, (_, _, number))) = model.range(random.random::<u64>() % LIMIT..).next() else {
        return;
    };
    let (at, lane) = (*at, &mut lanes[*number]);
    lane.clear_persisted(at, lines).unwrap();
    lane.release(at);
    model.remove(&at);
}

#[test]
fn spans_survive_a_full_memory_and_an_opening() {
    for seed in 0..4 {
        println!("seed {seed}");
        let mut memory = Recording::pool(16 << 10, LIMIT).unwrap();
        let mut heap = Heap::format(memory.clone(), options(2)).unwrap();
        let (mut random, mut model) = (SmallRng::seed_from_u64(seed), Model::new());
        let mut full = 0;
        for round in 0..12 {
            let mut lanes = [heap.lane(0), heap.lane(1)];
            lanes.iter_mut().for_each(Lane::recovered);
            let mut lines = LineSet::new();
            for _ in 0..150 {
                // Ever fuller, then emptier.
                if random.random_bool(if round % 4 < 2 { 0.8 } else { 0.35 }) {
                    match allocate(&mut lanes, &mut random, &mut model, &mut lines) {
                        Ok(()) => {}
                        Err(HeapError::Full(_)) => full += 1,
                        Err(error) => panic!("{error}"),
                    }
                } else {
                    free_one(&mut lanes, &mut random, &mut model, &mut lines);
                }
            }
            check(&memory, &model);
            let whole = heap.chunk_use().unwrap();
            let slots: u64 = whole.iter().map(|chunk| chunk.persisted).sum();
            assert_eq!(slots, model.len() as u64);
            drop(lanes);
            memory = Recording::from_image(&memory.contents(), LIMIT).unwrap();
            heap = Heap::open(memory.clone()).unwrap();
            let mut found = Vec::new();
            heap.for_each_persisted(|at, _| found.push(at)).unwrap();
            assert!(found.iter().eq(model.keys()));
            for at in model.keys() {
                assert!(heap.is_persisted(*at).unwrap());
            }
        }
        assert!(full > 0, "it was full");
    }
}

#[test]
fn what_was_large_becomes_small_and_large_again() {
    let memory = Recording::pool(16 << 10, 1 << 20).unwrap();
    let heap = Heap::format(memory.clone(), options(1)).unwrap();
    let mut lane = heap.lane(0);
    lane.recovered();
    let mut fill = |bytes| {
        let mut lines = LineSet::new();
        let mut all = Vec::new();
        while let Ok(at) = lane.allocate(bytes, Purpose::Table) {
            lane.mark_persisted(at, &mut lines);
            all.push(at);
        }
        for at in &all {
            lane.clear_persisted(*at, &mut lines).unwrap();
            lane.release(*at);
        }
        all.len() as u64 * bytes
    };
    for bytes in [100, 900_000, 3000, 60_000, 100, 900_000] {
        let filled = fill(bytes);
        assert!(filled > 700_000, "{filled} bytes in objects of {bytes}");
    }
}

#[test]
fn volatile_lanes_give_spans_back_all_at_once() {
    let heap = Heap::format(Dram::new(1 << 20).unwrap(), options(1)).unwrap();
    let mut lane = heap.lane(0);
    for _ in 0..5 {
        let many = (0..).take_while(|_| lane.allocate(50_000, Purpose::Table).is_ok()).count();
        assert!(many >= 16, "{many}");
        lane.clear();
    }
    let error = lane.allocate(MAX_OBJECT_BYTES + 1, Purpose::Table);
    assert!(matches!(error, Err(HeapError::TooLarge { .. })), "{error:?}");
}

/// A heap of two lanes that cannot grow, with one span of lane 0, as it is opened after a crash.
fn opened_with_a_span(persisted: bool) -> (Heap<Recording>, u64) {
    let memory = Recording::pool(16 << 10, LIMIT).unwrap();
    let heap = Heap::format(memory.clone(), options(2)).unwrap();
    let mut lane = heap.lane(0);
    let at = lane.allocate(50_000, Purpose::Table).unwrap();
    if persisted {
        lane.mark_persisted(at, &mut LineSet::new());
    }
    let memory = Recording::from_image(&memory.contents(), LIMIT).unwrap();
    memory.fail_growth_after(Some(0));
    (Heap::open(memory).unwrap(), at)
}

/// A log may name a span whose bit is clear: no other lane gets its chunks before the owner says
/// that it has recovered.
#[test]
fn an_empty_span_is_kept_until_its_owner_has_recovered() {
    let (heap, at) = opened_with_a_span(false);
    let (mut owner, mut other) = (heap.lane(0), heap.lane(1));
    while owner.discover(8).unwrap() {}
    for bytes in [50_000, 1000] {
        let found = other.allocate(bytes, Purpose::Index);
        assert!(matches!(found, Err(HeapError::Full(_))), "{bytes} bytes: {found:?}");
    }
    // As recovery does for what its log names.
    owner.clear_persisted(at, &mut LineSet::new()).unwrap();
    owner.release(at);
}

/// A span that recovery has emptied, or found empty, is anybody's as soon as the owner has
/// recovered, not only when the owner itself finds no room.
#[test]
fn an_owner_that_has_recovered_gives_its_empty_spans_to_others() {
    for persisted in [false, true] {
        let (heap, at) = opened_with_a_span(persisted);
        let (mut owner, mut other) = (heap.lane(0), heap.lane(1));
        owner.clear_persisted(at, &mut LineSet::new()).unwrap();
        owner.release(at);
        let taken = || heap.chunk_use().unwrap().iter().any(|chunk| chunk.purpose.is_some());
        assert!(taken(), "kept until then");
        owner.recovered();
        assert!(!taken(), "persisted before: {persisted}");
        assert_eq!(other.allocate(50_000, Purpose::Index).unwrap(), at);
    }
}

/// A length that was not written is damage, not the end of what is gone past.
#[test]
fn the_length_of_a_span_is_checked() {
    let memory = Recording::pool(16 << 10, 1 << 20).unwrap();
    let heap = Heap::format(memory.clone(), options(1)).unwrap();
    let mut lane = heap.lane(0);
    let at = lane.allocate(50_000, Purpose::Table).unwrap();
    lane.mark_persisted(at, &mut LineSet::new());
    drop((lane, heap));
    let image = memory.contents();
    for bit in 0..64 {
        let mut damaged = image.clone();
        let word = (at / LARGE_ALIGN * LARGE_ALIGN) as usize;
        // The word after the tag, whose line comes before the object's.
        let tag = (0..word).rev().step_by(1).find(|at| damaged[*at..].starts_with(b"PDCK"));
        damaged[tag.unwrap() + 8 + bit / 8] ^= 1 << (bit % 8);
        let heap = Heap::open(Recording::from_image(&damaged, LIMIT).unwrap()).unwrap();
        assert!(heap.for_each_persisted(|_, _| ()).is_err(), "bit {bit}");
        assert!(heap.is_persisted(at).is_err() && heap.chunk_use().is_err());
        assert!(heap.lane(0).allocate(100, Purpose::Index).is_err());
    }
}

/// A wild offset may lead into a span that was there when the heap was opened, to a word that is
/// zero.
#[test]
fn an_offset_into_a_span_makes_none_of_its_chunks_free() {
    let memory = Recording::pool(16 << 10, LIMIT).unwrap();
    let heap = Heap::format(memory.clone(), options(2)).unwrap();
    let mut lane = heap.lane(0);
    let at = lane.allocate(50_000, Purpose::Table).unwrap();
    memory.copy(Off::new(at), &[0; 50_000]);
    lane.mark_persisted(at, &mut LineSet::new());
    let heap = Heap::open(Recording::from_image(&memory.contents(), LIMIT).unwrap()).unwrap();
    let (mut lane, mut other) = (heap.lane(0), heap.lane(1));
    for inner in (at..at + 50_000).step_by(CHUNK as usize).skip(1) {
        assert!(lane.clear_persisted(inner, &mut LineSet::new()).is_err());
        lane.release(inner);
        let slot = other.allocate(7000, Purpose::Table).unwrap();
        assert!(!(at..at + 50_000).contains(&slot), "{slot:#x} lies in the span at {at:#x}");
    }
}

/// A volatile span that is cleared leaves its contents where tags of chunks will stand.
#[test]
fn chunks_that_are_known_to_be_free_are_not_read() {
    let heap = Heap::format(Dram::new(64 << 10).unwrap(), options(1)).unwrap();
    let mut lane = heap.lane(0);
    let three = lane.allocate(20_000, Purpose::Table).unwrap();
    heap.memory().copy(Off::new(three), &[0xff; 20_000]);
    lane.clear();
    assert_eq!(lane.allocate(12_000, Purpose::Table).unwrap(), three, "two of its chunks");
    // There is no room for a block of lanes, whichever chunks are free.
    let none = Lanes::of(&heap).take();
    assert!(matches!(none, Err(HeapError::Full(_))), "{none:?}");
    assert_eq!(heap.chunk_use().unwrap().len(), 3);
}
