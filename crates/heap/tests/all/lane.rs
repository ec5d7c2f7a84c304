//! The allocator alone, against a model: no slot is handed out twice or too small, what is
//! persisted and only that is there after reopening, and space comes back.
//!
//! Over volatile and over recording memory; crashes are in `crash.rs`.

use std::collections::BTreeMap;

use heap::{Heap, HeapError, HeapOptions, Lane, MAX_OBJECT_BYTES, Purpose};
use pm::{Dram, LineSet, Memory, Off};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sim::Recording;

const PURPOSES: [Purpose; 3] = [Purpose::Table, Purpose::Index, Purpose::Log];
const LIMIT: u64 = 64 << 20;

fn options(chunk_bytes: u64, lanes: u32) -> HeapOptions {
    HeapOptions { chunk_bytes, lanes }
}

fn recording() -> Recording {
    Recording::pool(16 << 10, LIMIT).unwrap()
}

/// The contents that an object was given when it was allocated.
#[derive(Clone, Copy, Debug)]
struct Object {
    bytes: u64,
    stamp: u64,
    persisted: bool,
}

/// Objects by their offset, with every byte that they own.
#[derive(Default)]
struct Model {
    objects: BTreeMap<u64, Object>,
    stamp: u64,
}

impl Model {
    fn allocate<M: Memory>(&mut self, lane: &mut Lane<M>, bytes: u64, purpose: Purpose) -> u64 {
        let at = lane.allocate(bytes, purpose).unwrap();
        self.add(lane.memory(), at, bytes);
        at
    }

    fn add<M: Memory>(&mut self, memory: &M, at: u64, bytes: u64) {
        assert!(at.is_multiple_of(8), "{at:#x} is aligned");
        if bytes.is_power_of_two() && bytes >= 64 {
            assert!(at.is_multiple_of(64), "{bytes} bytes at {at:#x} start on a line");
        }
        if let Some((other, object)) = self.objects.range(..at + bytes).next_back() {
            assert!(other + object.bytes <= at, "{at:#x} overlaps {object:?} at {other:#x}");
        }
        self.stamp += 1;
        let object = Object { bytes, stamp: self.stamp, persisted: false };
        memory.copy(Off::new(at), &contents(object));
        assert!(self.objects.insert(at, object).is_none());
    }

    /// All objects still have the contents that they were given.
    fn check<M: Memory>(&self, memory: &M) {
        for (at, object) in &self.objects {
            let mut found = vec![0; object.bytes as usize];
            memory.read_into(Off::new(*at), &mut found).unwrap();
            assert_eq!(found, contents(*object), "at {at:#x}");
        }
    }

    fn any(&self, random: &mut SmallRng) -> Option<u64> {
        let from = random.random_range(0..LIMIT);
        let next = self.objects.range(from..).next().or_else(|| self.objects.iter().next());
        next.map(|(at, _)| *at)
    }
}

fn contents(object: Object) -> Vec<u8> {
    let mut bytes = vec![object.stamp as u8; object.bytes as usize];
    let stamp = object.stamp.to_le_bytes();
    let many = bytes.len().min(8);
    bytes[..many].copy_from_slice(&stamp[..many]);
    bytes
}

/// Sizes around the borders of classes, mostly small.
fn size(random: &mut SmallRng, most: u64) -> u64 {
    let around = 1u64 << random.random_range(0..=most.ilog2());
    let size = match random.random_range(0..4) {
        0 => around,
        1 => around + 1,
        2 => around.saturating_sub(1),
        _ => random.random_range(1..=around),
    };
    size.clamp(1, most)
}

fn random_operations<M: Memory>(memory: &M, seed: u64, chunk_bytes: u64, rounds: u64) {
    println!("seed {seed}, chunks of {chunk_bytes}");
    let heap = Heap::format(memory.clone(), options(chunk_bytes, 1)).unwrap();
    let most = heap.max_slot_bytes();
    assert!(most * 2 >= chunk_bytes.min(256 << 10), "{most}");
    let mut lane = heap.lane(0);
    let (mut random, mut model) = (SmallRng::seed_from_u64(seed), Model::default());
    let mut lines = LineSet::new();
    for round in 0..rounds {
        match random.random_range(0..10) {
            // More are allocated than freed, then the other way round.
            0..6 if round / 500 % 2 == 0 => {
                let bytes = size(&mut random, most.min(8192) * 2);
                model.allocate(&mut lane, bytes, PURPOSES[random.random_range(0..3)]);
            }
            0..3 => {
                let bytes = size(&mut random, 512);
                model.allocate(&mut lane, bytes, Purpose::Table);
            }
            3..5 => {
                if let Some(at) = model.any(&mut random) {
                    lane.mark_persisted(at, &mut lines);
                    model.objects.get_mut(&at).unwrap().persisted = true;
                }
            }
            _ => {
                if let Some(at) = model.any(&mut random) {
                    model.objects.remove(&at);
                    lane.clear_persisted(at, &mut lines).unwrap();
                    lane.release(at);
                }
            }
        }
        if round % 1000 == 999 {
            model.check(memory);
        }
    }
    model.check(memory);
    if M::DURABLE {
        for (at, object) in &model.objects {
            assert_eq!(heap.is_persisted(*at).unwrap(), object.persisted, "{at:#x}");
        }
    }
    assert!(matches!(
        lane.allocate(MAX_OBJECT_BYTES + 1, Purpose::Table),
        Err(HeapError::TooLarge { bytes, max }) if bytes == max + 1 && max == MAX_OBJECT_BYTES
    ));
}

#[test]
fn no_slot_is_handed_out_twice() {
    for (seed, chunk_bytes) in [(1, 8 << 10), (2, 16 << 10), (3, 256 << 10), (4, 1 << 20)] {
        random_operations(&Dram::new(256 << 20).unwrap(), seed, chunk_bytes, 10_000);
        random_operations(
            &Recording::pool(16 << 10, 256 << 20).unwrap(),
            seed,
            chunk_bytes,
            10_000,
        );
    }
}

#[test]
fn reopening_finds_the_persisted_objects_and_reuses_the_rest() {
    for seed in 0..6 {
        println!("seed {seed}");
        let memory = recording();
        let mut heap = Heap::format(memory.clone(), options(8 << 10, 1)).unwrap();
        let (mut random, mut model) = (SmallRng::seed_from_u64(seed), Model::default());
        let mut bytes_of_pool = Vec::new();
        for _ in 0..16 {
            let mut lane = heap.lane(0);
            let mut lines = LineSet::new();
            for _ in 0..400 {
                let bytes = [8, 24, 100, 300, 1000, 1500][random.random_range(0..6)];
                let at = model.allocate(&mut lane, bytes, PURPOSES[random.random_range(0..3)]);
                if random.random_bool(0.6) {
                    lane.mark_persisted(at, &mut lines);
                    model.objects.get_mut(&at).unwrap().persisted = true;
                }
            }
            while model.objects.values().filter(|object| object.persisted).count() > 200 {
                let at = model.any(&mut random).unwrap();
                model.objects.remove(&at);
                lane.clear_persisted(at, &mut lines).unwrap();
                lane.release(at);
            }
            drop(lane);
            model.objects.retain(|_, object| object.persisted);
            let image = Recording::from_image(&memory.contents(), LIMIT).unwrap();
            memory.copy(Off::new(0), &image.contents());
            heap = Heap::open(memory.clone()).unwrap();
            let mut found = Vec::new();
            heap.for_each_persisted(|at, bytes| found.push((at, bytes))).unwrap();
            assert!(found.iter().map(|(at, _)| at).eq(model.objects.keys()));
            for (at, bytes) in found {
                assert!(bytes >= model.objects[&at].bytes, "its slot is large enough");
            }
            model.check(&memory);
            bytes_of_pool.push(memory.len());
        }
        println!("bytes of the pool after each reopening: {bytes_of_pool:?}");
        // The unfinished objects of a round are 80 KB: lost, they would add up to 640 KB.
        assert!(bytes_of_pool[15] - bytes_of_pool[7] < 160 << 10);
    }
}

#[test]
fn two_threads_with_two_lanes_never_meet() {
    let memory = recording();
    let heap = Heap::format(memory.clone(), options(8 << 10, 2)).unwrap();
    let models: Vec<Model> = std::thread::scope(|scope| {
        let work = |number: u32| {
            let mut lane = heap.lane(number);
            let mut random = SmallRng::seed_from_u64(u64::from(number));
            let (mut model, mut lines) = (Model::default(), LineSet::new());
            for _ in 0..6_000 {
                if random.random_bool(0.6) {
                    let bytes = size(&mut random, 1024);
                    let at = model.allocate(&mut lane, bytes, Purpose::Table);
                    lane.mark_persisted(at, &mut lines);
                } else if let Some(at) = model.any(&mut random) {
                    model.objects.remove(&at);
                    lane.clear_persisted(at, &mut lines).unwrap();
                    lane.release(at);
                }
            }
            model
        };
        let threads: Vec<_> = (0..2).map(|number| scope.spawn(move || work(number))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut both = Model::default();
    for model in &models {
        model.check(&memory);
        for (at, object) in &model.objects {
            if let Some((other, before)) = both.objects.range(..at + object.bytes).next_back() {
                assert!(other + before.bytes <= *at, "{at:#x} overlaps {other:#x}");
            }
            both.objects.insert(*at, *object);
        }
    }
    let mut persisted = 0;
    heap.for_each_persisted(|at, _| persisted += usize::from(both.objects.contains_key(&at)))
        .unwrap();
    assert_eq!(persisted, both.objects.len());
}

#[test]
#[should_panic(expected = "has an owner")]
fn a_lane_has_one_owner() {
    let heap = Heap::format(recording(), options(8 << 10, 2)).unwrap();
    let _mine = heap.lane(1);
    let _again = heap.lane(1);
}

#[test]
fn churn_with_changing_sizes_keeps_the_footprint_flat() {
    let memory = recording();
    let heap = Heap::format(memory.clone(), options(16 << 10, 1)).unwrap();
    let mut lane = heap.lane(0);
    let (mut random, mut lines) = (SmallRng::seed_from_u64(5), LineSet::new());
    let mut live: Vec<u64> = Vec::new();
    let mut high_water = Vec::new();
    for phase in 0..20u64 {
        // Each phase likes other sizes; the number of bytes alive is about the same.
        let bytes = [64, 100, 300, 1000][phase as usize % 4];
        for _ in 0..4_000 {
            while live.len() as u64 * bytes > 400_000 {
                let at = live.swap_remove(random.random_range(0..live.len()));
                lane.clear_persisted(at, &mut lines).unwrap();
                lane.release(at);
            }
            let at = lane.allocate(bytes, Purpose::Table).unwrap();
            lane.mark_persisted(at, &mut lines);
            live.push(at);
        }
        high_water.push(memory.len() >> 10);
    }
    println!("KiB after each phase: {high_water:?}");
    assert!(
        high_water[19] <= high_water[11] * 102 / 100,
        "flat after some turns through the sizes"
    );
}

#[test]
fn a_full_heap_is_an_error_until_something_is_freed() {
    let memory = Recording::pool(16 << 10, 128 << 10).unwrap();
    let heap = Heap::format(memory, options(8 << 10, 1)).unwrap();
    let mut lane = heap.lane(0);
    let mut lines = LineSet::new();
    for bytes in [40, 500, 3000] {
        let mut all = Vec::new();
        let error = loop {
            match lane.allocate(bytes, Purpose::Table) {
                Ok(at) => all.push(at),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, HeapError::Full(_)), "{error}");
        assert!(matches!(lane.allocate(bytes, Purpose::Index), Err(HeapError::Full(_))));
        for at in &all {
            lane.mark_persisted(*at, &mut lines);
        }
        let freed = all.swap_remove(all.len() / 2);
        lane.clear_persisted(freed, &mut lines).unwrap();
        lane.release(freed);
        assert_eq!(lane.allocate(bytes, Purpose::Table).unwrap(), freed, "the one free slot");
        // All of it goes back, for the next size.
        lane.mark_persisted(freed, &mut lines);
        for at in all.into_iter().chain([freed]) {
            lane.clear_persisted(at, &mut lines).unwrap();
            lane.release(at);
        }
    }
}

/// Lanes begin after the names, wherever those end.
/// More chunks than one step of the discovery looks at, and one free slot, or one free chunk without
/// a tag, wherever it is.
#[test]
fn a_full_heap_that_is_opened_again_gives_what_is_free() {
    let memory = Recording::pool(16 << 10, 1 << 20).unwrap();
    let heap = Heap::format(memory.clone(), options(8 << 10, 1)).unwrap();
    let mut lane = heap.lane(0);
    let mut lines = LineSet::new();
    let mut all = Vec::new();
    while let Ok(at) = lane.allocate(3000, Purpose::Table) {
        lane.mark_persisted(at, &mut lines);
        all.push(at);
    }
    assert!(all.len() > 200, "{}", all.len());
    drop((lane, heap));
    for free in [0, 1, 70, 120, all.len() - 2, all.len() - 1] {
        let heap = Heap::open(memory.clone()).unwrap();
        let mut lane = heap.lane(0);
        lane.clear_persisted(all[free], &mut lines).unwrap();
        drop((lane, heap));

        let heap = Heap::open(memory.clone()).unwrap();
        let mut lane = heap.lane(0);
        let found = lane.allocate(3000, Purpose::Table).expect("there is one");
        assert_eq!(found, all[free]);
        let error = lane.allocate(3000, Purpose::Table).expect_err("it was the last");
        assert!(matches!(error, HeapError::Full(_)), "{error}");
        lane.mark_persisted(found, &mut lines);
    }
}

#[test]
fn there_is_a_name_for_each_lane() {
    for lanes in [1, 62, 63, 126, 127, 257] {
        let memory = recording();
        let heap = Heap::format(memory.clone(), options(8 << 10, lanes)).unwrap();
        let mut objects = Vec::new();
        for number in 0..lanes {
            let (mut lane, mut lines) = (heap.lane(number), LineSet::new());
            let object = lane.allocate(64, Purpose::Log).unwrap();
            lane.mark_persisted(object, &mut lines);
            heap.set_root(&format!("lane {number}"), object).unwrap();
            objects.push(object);
        }
        drop(heap);
        let heap = Heap::open(memory).unwrap();
        assert_eq!(heap.lanes(), lanes);
        for (number, object) in objects.into_iter().enumerate() {
            assert_eq!(heap.root(&format!("lane {number}")).unwrap(), Some(object), "{lanes}");
            assert!(heap.is_persisted(object).unwrap(), "{lanes}");
        }
    }
}

#[test]
fn names_are_few_short_and_replaced_in_place() {
    let memory = recording();
    let heap = Heap::format(memory.clone(), options(8 << 10, 1)).unwrap();
    for name in ["", &"x".repeat(49), "nul\0"] {
        assert!(matches!(heap.set_root(name, 1), Err(HeapError::BadName { .. })), "{name:?}");
    }
    let longest = "x".repeat(48);
    heap.set_root(&longest, 7).unwrap();
    let mut count = 1;
    while heap.set_root(&format!("name {count}"), count).is_ok() {
        count += 1;
    }
    assert!(matches!(heap.set_root("one more", 1), Err(HeapError::NamesFull { .. })));
    heap.set_root(&longest, 8).unwrap();
    let heap = Heap::open(memory).unwrap();
    assert_eq!(heap.root(&longest).unwrap(), Some(8));
    assert_eq!(heap.roots().unwrap().len() as u64, count);
    assert_eq!(heap.root("none").unwrap(), None);
}

#[test]
fn impossible_shapes_are_refused() {
    for (chunk_bytes, lanes) in
        [(0, 1), (4096, 1), (5000, 1), (8 << 20, 1), (8192, 0), (8192, 5000)]
    {
        let made = Heap::format(recording(), options(chunk_bytes, lanes));
        assert!(matches!(made, Err(HeapError::Options { .. })), "{chunk_bytes} {lanes}");
    }
}

/// The cost of an object that is allocated, marked and freed on its own: no fence is the
/// allocator's, and one line of a bitmap each time.
#[test]
fn allocating_and_freeing_cost_a_line_each_and_no_fence() {
    let memory = recording();
    let heap = Heap::format(memory.clone(), options(16 << 10, 1)).unwrap();
    let mut lane = heap.lane(0);
    let warm = lane.allocate(100, Purpose::Table).unwrap();
    lane.release(warm);
    let mut lines = LineSet::new();
    memory.start();
    for _ in 0..100 {
        let at = lane.allocate(100, Purpose::Table).unwrap();
        lane.mark_persisted(at, &mut lines);
        lines.flush(&memory);
        lane.clear_persisted(at, &mut lines).unwrap();
        lines.flush(&memory);
        lane.release(at);
    }
    let counted = memory.stop().counters();
    println!("100 objects: {} lines, {} fences", counted.flushed_lines, counted.fences);
    assert_eq!((counted.flushed_lines, counted.fences), (200, 0));
}

/// A damaged record names a word that is not aligned, at the end of one of its lines: it is no
/// record, and no panic. Places from `docs/format/heap.md`.
#[test]
fn a_record_with_a_word_across_two_lines_is_none() {
    const LOG: u64 = 8192 + 4096 + 3072;
    let memory = Recording::new(1 << 20).unwrap();
    let heap =
        Heap::format(memory.clone(), HeapOptions { chunk_bytes: 8 << 10, lanes: 1 }).unwrap();
    drop(heap);
    let line = 8192u64 + 1024;
    for word in [line + 61, line + 57, line + 63, line + 1] {
        memory.copy(Off::new(LOG + 64), &word.to_le_bytes());
        memory.copy(Off::new(LOG + 80), &line.to_le_bytes());
        memory.store(Off::new(LOG + 88), 1);
        // Two entries, one of them a word; and some checksum.
        memory.store(Off::new(LOG), 0x1234_5678 << 32 | 2 << 16 | 1);
        Heap::open(memory.clone()).unwrap();
        assert_eq!(memory.load(Off::new(LOG), std::sync::atomic::Ordering::Acquire), Ok(0));
    }
}

/// A pool whose header says that it is shorter than the lanes' areas: what lanes write there is not
/// checked again.
#[test]
fn a_memory_that_ends_within_the_lanes_is_damaged() {
    let memory = Recording::new(1 << 20).unwrap();
    let lanes = HeapOptions { chunk_bytes: 8 << 10, lanes: 2 };
    drop(Heap::format(memory.clone(), lanes).unwrap());
    let image = memory.contents();
    for size in (8192 + 4096..8192 + 4096 + 2 * 8192).step_by(512) {
        let short = Recording::from_image(&image[..size], 1 << 20).unwrap();
        assert!(Heap::open(short).is_err(), "{size}");
    }
}

/// Chunks of one lane that are empty when a heap is closed are anybody's when it is opened again,
/// for objects of any size, without more memory.
#[test]
fn empty_chunks_are_anybodys_after_reopening() {
    let memory = recording();
    let heap = Heap::format(memory.clone(), options(16 << 10, 2)).unwrap();
    let mut lane = heap.lane(0);
    let mut lines = LineSet::new();
    let objects: Vec<u64> = (0..400)
        .map(|_| {
            let at = lane.allocate(1000, Purpose::Table).unwrap();
            lane.mark_persisted(at, &mut lines);
            at
        })
        .collect();
    let chunks = heap.chunk_use().unwrap().len();
    for at in objects {
        lane.clear_persisted(at, &mut lines).unwrap();
        lane.release(at);
    }
    let of_lane = |heap: &Heap<Recording>| {
        heap.chunk_use().unwrap().iter().filter(|chunk| chunk.purpose.is_some()).count()
    };
    let kept = of_lane(&heap);
    assert!(kept <= 2, "{kept} of {chunks} chunks are kept");
    let image = memory.contents();
    for other in [0, 1] {
        let copy = Recording::from_image(&image, LIMIT).unwrap();
        let heap = Heap::open(copy.clone()).unwrap();
        assert_eq!(of_lane(&heap), kept);
        copy.fail_growth_after(Some(0));
        let mut lane = heap.lane(other);
        lane.recovered();
        let mut found = 0;
        while lane.allocate(3000, Purpose::Index).is_ok() {
            found += 1;
        }
        // What lane 0 keeps for its own size is for others only if it is lane 0 that needs it.
        let lost = if other == 0 { 0 } else { kept };
        assert_eq!(found, (chunks - lost) * 5, "lane {other}: {chunks} chunks, {kept} kept");
        assert!(matches!(lane.allocate(3000, Purpose::Index), Err(HeapError::Full(_))));
    }
}

/// A log may name a slot whose bit is clear, in a chunk in which recovery frees everything else: the
/// chunk stays until the owner says that it has recovered.
#[test]
fn until_its_owner_has_recovered_a_lane_gives_nothing_back() {
    let memory = recording();
    let heap = Heap::format(memory.clone(), options(16 << 10, 1)).unwrap();
    let mut lane = heap.lane(0);
    let mut lines = LineSet::new();
    let objects: Vec<u64> = (0..600)
        .map(|_| {
            let at = lane.allocate(1000, Purpose::Table).unwrap();
            lane.mark_persisted(at, &mut lines);
            at
        })
        .collect();
    // One in each chunk, or more.
    let named: Vec<u64> = objects.iter().copied().step_by(7).collect();
    for at in &named {
        lane.clear_persisted(*at, &mut lines).unwrap();
    }
    let copy = Recording::from_image(&memory.contents(), LIMIT).unwrap();
    let heap = Heap::open(copy.clone()).unwrap();
    let mut lane = heap.lane(0);
    for at in objects.iter().filter(|at| !named.contains(at)) {
        lane.clear_persisted(*at, &mut lines).unwrap();
        lane.release(*at);
    }
    let chunks = heap.chunk_use().unwrap().len();
    let used = |heap: &Heap<Recording>| {
        heap.chunk_use().unwrap().iter().filter(|chunk| chunk.purpose.is_some()).count()
    };
    assert_eq!(used(&heap), chunks, "none was given back");
    for at in &named {
        lane.clear_persisted(*at, &mut lines).unwrap();
    }
    lane.recovered();
    for at in &named {
        lane.release(*at);
    }
    // What is empty serves other sizes now.
    copy.fail_growth_after(Some(0));
    assert!((0..chunks * 5).all(|_| lane.allocate(3000, Purpose::Index).is_ok()));
}

/// A chunk that became empty before the discovery had come to it is not found a second time.
#[test]
fn a_chunk_that_is_emptied_before_it_is_discovered_serves_once() {
    let memory = recording();
    let heap = Heap::format(memory.clone(), options(16 << 10, 1)).unwrap();
    let mut lane = heap.lane(0);
    let mut lines = LineSet::new();
    let mut model = Model::default();
    let objects: Vec<u64> = (0..3000)
        .map(|_| {
            let at = lane.allocate(1000, Purpose::Table).unwrap();
            lane.mark_persisted(at, &mut lines);
            at
        })
        .collect();
    let copy = Recording::from_image(&memory.contents(), LIMIT).unwrap();
    let heap = Heap::open(copy.clone()).unwrap();
    let mut lane = heap.lane(0);
    lane.recovered();
    // From the back: the discovery has all of them still before it.
    for at in objects.iter().rev() {
        lane.clear_persisted(*at, &mut lines).unwrap();
        lane.release(*at);
    }
    copy.fail_growth_after(Some(0));
    for turn in 0.. {
        let (bytes, purpose) = [(1000, Purpose::Table), (200, Purpose::Log)][turn % 2];
        match lane.allocate(bytes, purpose) {
            // No two of them overlap.
            Ok(at) => model.add(&copy, at, bytes),
            Err(_) => break,
        }
    }
    model.check(&copy);
    assert!(model.objects.len() > 4000, "{}", model.objects.len());
}

/// Slots that are kept back are there when nothing else is, for their size alone, and only for a caller
/// that asks for them.
#[test]
fn slots_that_are_kept_back_serve_a_full_memory() {
    let memory = recording();
    let heap = Heap::format(memory.clone(), options(8 << 10, 1)).unwrap();
    let mut lane = heap.lane(0);
    lane.recovered();
    lane.keep(512, Purpose::Index, 5, true).unwrap();
    memory.fail_growth_after(Some(0));
    let full = |lane: &mut Lane<Recording>, purpose| {
        let mut many = 0;
        loop {
            match lane.allocate(512, purpose) {
                Ok(_) => many += 1,
                Err(HeapError::Full(_)) => break many,
                Err(error) => panic!("{error}"),
            }
        }
    };
    assert!(full(&mut lane, Purpose::Index) > 5, "a chunk has more than what is kept back");
    assert_eq!(full(&mut lane, Purpose::Index), 0);
    lane.use_kept(true);
    assert_eq!(full(&mut lane, Purpose::Table), 0);
    assert_eq!(full(&mut lane, Purpose::Index), 5);
    lane.use_kept(false);
    lane.keep(512, Purpose::Index, 5, true).unwrap();
    assert_eq!(full(&mut lane, Purpose::Index), 0, "there was nothing to keep back");
    // Nothing durable says that they were kept.
    drop((lane, heap));
    let copy = Recording::from_image(&memory.contents(), LIMIT).unwrap();
    copy.fail_growth_after(Some(0));
    let mut lane = Heap::open(copy).unwrap().lane(0);
    lane.keep(512, Purpose::Index, 5, false).unwrap();
    assert!(full(&mut lane, Purpose::Index) > 5);
}
