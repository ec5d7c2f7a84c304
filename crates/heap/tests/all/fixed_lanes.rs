//! A pool in which no lane that is handed out is taken is what it was before there were such lanes:
//! the same bytes, and the same stores, flushes and fences.

use heap::{Heap, HeapOptions, Lane, Lanes, Purpose};
use pm::{LineSet, Memory, Off, Range};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sim::{Event, Recording, Trace};

const LIMIT: u64 = 400 << 10;
const PURPOSES: [Purpose; 3] = [Purpose::Table, Purpose::Index, Purpose::Log];

/// The checksum of everything that was done to a memory, but for the places in the source.
fn digest(trace: &Trace) -> u32 {
    trace.events.iter().fold(0, |sum, recorded| {
        let words = match &recorded.event {
            Event::Store { at, value } => [1, *at, *value],
            Event::Copy { at, bytes } => [2, *at, u64::from(crc32c::crc32c(bytes))],
            Event::Line { line, bytes } => [8, *line, u64::from(crc32c::crc32c(&bytes[..]))],
            Event::Flush { first, end } => [3, *first, *end],
            Event::Fence => [4, 0, 0],
            Event::Grow { to } => [5, *to, 0],
            Event::Mark(_) => [6, 0, 0],
            Event::Note(note) => [7, *note, 0],
        };
        words.iter().fold(sum, |sum, word| crc32c::crc32c_append(sum, &word.to_le_bytes()))
    })
}

/// Everything that lanes do, over three of them: objects of all sizes that become persisted and are
/// freed, alone or in mini-transactions, chunks that go from one lane to another, a full memory.
fn work(
    lanes: &mut [Lane<Recording>],
    random: &mut SmallRng,
    live: &mut Vec<(usize, u64)>,
) -> usize {
    let (mut lines, mut full) = (LineSet::new(), 0);
    for round in 0..400 {
        let number = random.random_range(0..lanes.len());
        let bytes = [8, 100, 1000, 3000, 7000, 20_000][random.random_range(0..6)];
        let grows = round % 200 < 120;
        if random.random_bool(if grows { 0.7 } else { 0.3 }) {
            let lane = &mut lanes[number];
            let Ok(at) = lane.allocate(bytes, PURPOSES[random.random_range(0..3)]) else {
                full += 1;
                continue;
            };
            lane.memory().copy(Off::new(at), &vec![round as u8; bytes as usize]);
            lines.add(Range::new(at, bytes));
            if random.random_bool(0.3) {
                lane.mini_persist(at).unwrap();
                lane.mini_commit(&mut lines);
                lane.fence_flushed();
            } else {
                lane.mark_persisted(at, &mut lines);
                lines.flush(lane.memory());
                lane.memory().fence();
            }
            live.push((number, at));
        } else if !live.is_empty() {
            let (number, at) = live.swap_remove(random.random_range(0..live.len()));
            let lane = &mut lanes[number];
            lane.clear_persisted(at, &mut lines).unwrap();
            lines.flush(lane.memory());
            lane.memory().fence();
            lane.release(at);
        }
    }
    full
}

#[test]
fn a_pool_without_lanes_that_are_handed_out_has_not_changed() {
    let memory = Recording::pool(16 << 10, LIMIT).unwrap();
    memory.start();
    let options = HeapOptions { chunk_bytes: 8 << 10, lanes: 3 };
    let mut heap = Heap::format(memory.clone(), options).unwrap();
    let (mut random, mut live, mut full) = (SmallRng::seed_from_u64(1), Vec::new(), 0);
    for round in 0..4 {
        let mut lanes = [0, 1, 2].map(|number| heap.lane(number));
        lanes.iter_mut().for_each(Lane::recovered);
        full += work(&mut lanes, &mut random, &mut live);
        heap.set_root(&format!("round {round}"), live[0].1).unwrap();
        drop(lanes);
        // Looked at, and none is taken.
        assert_eq!(Lanes::of(&heap).count(), 0);
        heap = Heap::open(memory.clone()).unwrap();
    }
    assert!(full > 10, "it was full");
    let trace = memory.stop();
    println!("{} events", trace.events.len());
    assert_eq!(crc32c::crc32c(&memory.contents()), 0xeb91_72ac, "the bytes");
    assert_eq!(digest(&trace), 0xf8db_7ee4, "what was done");
}
