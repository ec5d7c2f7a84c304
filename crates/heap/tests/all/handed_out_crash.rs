//! Lanes that are handed out, under power cuts (`docs/format/crash-model.md`): blocks are made, lanes
//! taken and dropped by threads that come and go, objects freed by threads with another lane.
//!
//! At every fence, in every state that lines can be in: the list of blocks is whole, no chunk is lost
//! and none belongs to two, every acknowledged object is there; what was queued to be freed is still
//! persisted, and what was freed is not. Without one of the flushes or fences the test fails.

use std::collections::BTreeSet;
use std::sync::mpsc;

use heap::{Heap, HeapOptions, Lane, Lanes, Purpose};
use pm::{Durable, Flushed, LineSet, Memory, Off, Range, Site, fence_for};
use sim::{Event, Recording, Replay, Trace};

const LIMIT: u64 = 1 << 20;
const CHUNK: u64 = 8 << 10;
const IN_A_BLOCK: usize = 7;
/// The place where the record of a mini-transaction begins in a lane's area.
const RECORD: usize = 3072;
const NAMES: u64 = 4;
/// Bytes of an object: whole lines, which no other one shares.
const BYTES: u64 = 128;
const SENTINEL: u64 = 0x5e17;

fn open(image: &[u8]) -> Result<Heap<Recording>, String> {
    let memory = Recording::pool_from_image(image, LIMIT).map_err(|error| error.to_string())?;
    Heap::open(memory).map_err(|error| error.to_string())
}

fn contents(stamp: u64) -> Vec<u8> {
    let mut contents = vec![(stamp * 7 + 1) as u8; BYTES as usize];
    contents[..8].copy_from_slice(&stamp.to_le_bytes());
    contents
}

fn name(slot: u64) -> String {
    format!("object {slot}")
}

fn persisted_in(heap: &Heap<Recording>) -> Result<BTreeSet<u64>, String> {
    let mut persisted = BTreeSet::new();
    heap.for_each_persisted(|at, _| {
        persisted.insert(at);
    })
    .map_err(|bad| bad.to_string())?;
    Ok(persisted)
}

fn in_a_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(work).join().unwrap())
}

/// A durable, persisted object.
fn durable_object(lane: &mut Lane<Recording>, stamp: u64) -> u64 {
    let memory = lane.memory().clone();
    let mut lines = LineSet::new();
    let at = lane.allocate(BYTES, Purpose::Table).unwrap();
    memory.copy(Off::new(at), &contents(stamp));
    lines.add(Range::new(at, BYTES));
    lines.flush(&memory);
    memory.fence();
    lane.mark_persisted(at, &mut lines);
    lines.flush(&memory);
    memory.fence();
    at
}

/// The state that a note acknowledges.
#[derive(Clone, Default, Debug)]
struct Acknowledged {
    /// The stamp under each name.
    stamps: [u64; NAMES as usize],
    /// Lanes that are there.
    lanes: u32,
    /// Objects that are queued to be freed.
    queued: usize,
}

/// A story that goes on, with what its notes acknowledge.
struct Teller {
    heap: Heap<Recording>,
    lanes: Lanes<Recording>,
    now: Acknowledged,
    notes: Vec<Acknowledged>,
}

impl Teller {
    fn new(heap: Heap<Recording>) -> Self {
        let lanes = Lanes::of(&heap);
        let now = Acknowledged { lanes: lanes.count(), ..Acknowledged::default() };
        Self { heap, lanes, notes: vec![now.clone()], now }
    }

    fn note(&mut self) {
        self.heap.memory().note(self.notes.len() as u64);
        self.notes.push(self.now.clone());
    }

    /// A thread that comes takes a lane, makes its object the one under a name, and goes; the old one
    /// is for its own lane to free.
    fn replace(&mut self, slot: u64, stamp: u64) {
        let (heap, lanes) = (&self.heap, &self.lanes);
        let old = in_a_thread(|| {
            let mut lane = lanes.take().unwrap();
            let at = durable_object(&mut lane, stamp);
            let old = heap.root(&name(slot)).unwrap();
            heap.set_root(&name(slot), at).unwrap();
            drop(lane);
            old
        });
        self.now.stamps[slot as usize] = stamp;
        if let Some(old) = old {
            self.lanes.give_back(old).unwrap();
            self.now.queued += 1;
        }
        self.now.lanes = self.lanes.count();
        self.note();
    }

    fn collect(&mut self) {
        let lanes = &self.lanes;
        assert_eq!(in_a_thread(|| lanes.collect().unwrap()), 0);
        self.now.queued = 0;
        self.note();
    }
}

/// A heap in which the chunks that the first block takes have been used: wherever the area of a lane
/// will be there is a record of a mini-transaction that changes the sentinel.
fn used_before() -> (Heap<Recording>, u64) {
    let memory = Recording::pool(16 << 10, LIMIT).unwrap();
    let heap = Heap::format(memory.clone(), HeapOptions { chunk_bytes: CHUNK, lanes: 1 }).unwrap();
    let mut lane = heap.lane(0);
    lane.recovered();
    let sentinel = lane.allocate(64, Purpose::Log).unwrap();
    memory.store(Off::new(sentinel), SENTINEL);
    lane.mark_persisted(sentinel, &mut LineSet::new());
    heap.set_root("sentinel", sentinel).unwrap();
    let span = lane.allocate(8 * CHUNK - 1024, Purpose::Log).unwrap();
    let entry = [sentinel.to_le_bytes(), 0xbadu64.to_le_bytes()].concat();
    let header = u64::from(crc32c::crc32c(&entry)) << 32 | 1 << 16 | 1;
    // Chunks start at multiples of 4096, and the object in the first 1024 bytes of one.
    let start = span / 4096 * 4096;
    let tag: u64 = memory.read(Off::new(start)).unwrap();
    assert!(tag.to_le_bytes().starts_with(b"PDCK"));
    for area in 0..IN_A_BLOCK as u64 {
        let record = start + 64 + area * 8192 + RECORD as u64;
        memory.store(Off::new(record), header);
        memory.copy(Off::new(record + 64), &entry);
    }
    lane.release(span);
    assert_eq!(heap.chunk_use().unwrap().iter().filter(|chunk| chunk.slots > 0).count(), 1);
    drop(lane);
    (heap, sentinel)
}

/// Two blocks, the first of used chunks, the second of fresh ones; objects in many lanes.
fn story() -> (Trace, Vec<Acknowledged>) {
    let (heap, _) = used_before();
    let memory = heap.memory().clone();
    memory.start();
    let mut teller = Teller::new(heap);
    for stamp in 1..=6 {
        teller.replace(stamp % NAMES, stamp);
    }
    // Others have all lanes of the first block but one; then all.
    let lanes = teller.lanes.clone();
    let mut busy = Vec::new();
    for stamp in 7..=14 {
        if stamp % 2 == 1 {
            busy.extend((0..IN_A_BLOCK / 2).map(|_| in_a_thread(|| lanes.take().unwrap())));
        }
        teller.replace(stamp % NAMES, stamp);
    }
    assert_eq!(lanes.count() as usize, 2 * IN_A_BLOCK);
    drop(busy);
    teller.collect();
    // Objects in lanes of their own, so that each has its bit on a line of its own.
    let mut all: Vec<_> = (0..5).map(|_| lanes.take().unwrap()).collect();
    let objects: Vec<u64> = (20..)
        .zip(&mut all)
        .map(|(stamp, lane)| in_a_thread(|| durable_object(lane, stamp)))
        .collect();
    drop(all);
    objects.into_iter().for_each(|at| lanes.give_back(at).unwrap());
    teller.now.queued = 5;
    teller.note();
    teller.collect();
    (memory.stop(), teller.notes)
}

/// Returns what is wrong with the state that a crash left, if anything.
fn verdict(image: &[u8], notes: &[Acknowledged], noted: u64) -> Result<(), String> {
    let say = |bad: &dyn std::fmt::Display| bad.to_string();
    let (before, after) =
        (&notes[noted as usize], notes.get(noted as usize + 1).unwrap_or(&notes[noted as usize]));
    let heap = open(image)?;
    let (memory, lanes) = (heap.memory().clone(), Lanes::of(&heap));
    let count = lanes.count();
    if count < before.lanes
        || count as usize > 2 * IN_A_BLOCK
        || !(count as usize).is_multiple_of(IN_A_BLOCK)
    {
        return Err(format!("{count} lanes after {}", before.lanes));
    }
    let sentinel = heap.root("sentinel").map_err(|error| say(&error))?.ok_or("no sentinel")?;
    if memory.read::<u64>(Off::new(sentinel)) != Ok(SENTINEL) {
        return Err("an old record was applied".into());
    }
    let mut named = BTreeSet::from([sentinel]);
    for slot in 0..NAMES {
        let at = heap.root(&name(slot)).map_err(|error| say(&error))?;
        let stamp = match at {
            None => 0,
            Some(at) => {
                let stamp: u64 = memory.read(Off::new(at)).map_err(|bad| say(&bad))?;
                let mut found = vec![0; BYTES as usize];
                memory.read_into(Off::new(at), &mut found).map_err(|bad| say(&bad))?;
                if found != contents(stamp) || !heap.is_persisted(at).map_err(|bad| say(&bad))? {
                    return Err(format!("{at:#x} is not whole"));
                }
                named.insert(at);
                stamp
            }
        };
        let possible = [before.stamps[slot as usize], after.stamps[slot as usize]];
        if !possible.contains(&stamp) {
            return Err(format!("{stamp} under name {slot} instead of {possible:?}"));
        }
    }
    let persisted = persisted_in(&heap)?;
    let extra: Vec<u64> = persisted.difference(&named).copied().collect();
    // Of the one under way the old object or the new one; in the last round five are made at once.
    let more = if after.queued >= 5 { 5 } else { 1 };
    if !persisted.is_superset(&named) || extra.len() > before.queued.max(after.queued) + more {
        return Err(format!("{extra:x?} with {} queued", before.queued));
    }
    if before.queued == 0
        && after.queued == 0
        && noted as usize + 1 == notes.len()
        && !extra.is_empty()
    {
        return Err(format!("{extra:x?} were freed"));
    }
    heap.chunk_use().map_err(|bad| say(&bad))?;
    // As recovery does: what nothing leads to is freed, by whichever lane it is of.
    for at in extra {
        lanes.give_back(at).map_err(|bad| say(&bad))?;
    }
    if lanes.collect().map_err(|bad| say(&bad))? != 0 {
        return Err("something waits".into());
    }
    // Every lane can be used, and another block be made.
    let mut taken = named.clone();
    let mut all = Vec::new();
    for _ in 0..=count {
        let mut lane = lanes.take().map_err(|error| say(&error))?;
        for bytes in [BYTES, 3000] {
            let at = lane.allocate(bytes, Purpose::Table).map_err(|error| say(&error))?;
            lane.mark_persisted(at, &mut LineSet::new());
            if !taken.insert(at) {
                return Err(format!("{at:#x} is handed out twice"));
            }
        }
        all.push(lane);
    }
    drop((all, lanes, heap));
    let again = Heap::open(memory).map_err(|error| say(&error))?;
    let found = persisted_in(&again)?;
    if found == taken { Ok(()) } else { Err("not all of it is there again".into()) }
}

/// Looks at up to so many states of each crash point, until one fails.
fn explore(
    mut replay: Replay<'_>,
    bound: u64,
    mut check: impl FnMut(&[u8], u64) -> Result<(), String>,
) -> (u64, u64, Option<String>) {
    let (mut points, mut states, mut failed) = (0, 0, None);
    while failed.is_none()
        && let Some(point) = replay.next_point()
    {
        points += 1;
        let noted = point.last_note.unwrap_or(0);
        let seen = point.for_each_state(bound, points, |image| {
            if failed.is_none()
                && let Err(why) = check(image, noted)
            {
                failed = Some(format!("point {points}: {why}"));
            }
        });
        states += seen.visited;
    }
    (points, states, failed)
}

#[test]
fn lanes_and_blocks_are_whole_at_every_fence() {
    let (trace, notes) = story();
    let (points, states, failed) =
        explore(Replay::new(&trace), 40, |image, noted| verdict(image, &notes, noted));
    println!("{points} points, {states} states");
    assert_eq!(failed, None);
    assert!(points > 100 && states > 1_000, "{points} {states}");
}

#[test]
fn a_kill_leaves_lanes_and_blocks_whole_at_every_store() {
    let (trace, notes) = story();
    let mut noted = vec![0];
    for recorded in &trace.events {
        noted.push(match recorded.event {
            Event::Note(note) => note,
            _ => noted[noted.len() - 1],
        });
    }
    // Of the atoms of a copy one in nine; all other stores.
    let (mut last, mut copies, mut states) = (0, 0, 0);
    trace.process_states(|events, image| {
        copies = if events == last { copies + 1 } else { 0 };
        last = events;
        if copies % 9 == 0 {
            states += 1;
            assert_eq!(verdict(image, &notes, noted[events]), Ok(()), "after event {events}");
        }
    });
    assert!(states > 200, "{states}");
}

#[test]
fn the_test_of_lanes_fails_without_one_flush_or_fence() {
    let (trace, notes) = story();
    let check = |image: &[u8], noted| verdict(image, &notes, noted);
    let mut unseen = Vec::new();
    let of_heap = |site: &&Site| {
        ["block.rs", "lanes.rs", "span.rs"].iter().any(|file| site.file().ends_with(file))
    };
    let flushes = trace.flush_sites();
    for site in flushes.iter().filter(of_heap) {
        if explore(Replay::new(&trace.without_flushes_of(site)), 20, check).2.is_none() {
            unseen.push(format!("flush at {}:{}", site.file(), site.line()));
        }
    }
    let fences = trace.fence_sites();
    for site in fences.iter().filter(of_heap) {
        if explore(Replay::new(&trace.without_fences_of(site)), 20, check).2.is_none() {
            unseen.push(format!("fence at {}:{}", site.file(), site.line()));
        }
    }
    println!("{flushes:?} {fences:?}");
    assert!(flushes.iter().filter(of_heap).count() >= 4, "{flushes:?}");
    // `hints.rs` misses the flush of older hints.
    let span = include_str!("../../src/span.rs");
    let hints = span.lines().position(|line| line.contains("fn forget_hints")).unwrap() as u32;
    let end = span.lines().position(|line| line.contains("fn take_chunks")).unwrap() as u32;
    unseen.retain(|place| !(hints..end).any(|line| place.ends_with(&format!("span.rs:{line}"))));
    assert_eq!(unseen, [""; 0]);
}

/// Kills while blocks are made, a second process that goes on, and a power cut.
#[test]
fn a_power_cut_after_a_kill_leaves_lanes_and_blocks_whole() {
    let (heap, _) = used_before();
    let memory = heap.memory().clone();
    memory.start();
    Lanes::of(&heap).reserve(2 * IN_A_BLOCK as u32).unwrap();
    let mut nexts = Vec::new();
    memory.stop().kills(1, |killed| {
        let memory = killed.reopened(LIMIT).unwrap();
        let mut teller = Teller::new(Heap::open(memory.clone()).unwrap());
        // What it found is there to stay.
        teller.note();
        teller.replace(0, 1);
        teller.replace(1, 2);
        teller.collect();
        nexts.push((killed.clone(), memory.stop(), teller.notes));
    });
    assert!(nexts.len() >= 20, "{}", nexts.len());
    let fails = |edit: &dyn Fn(&Trace) -> Trace| {
        nexts.iter().find_map(|(killed, trace, notes)| {
            let trace = edit(trace);
            let check = |image: &[u8], noted: u64| match noted {
                // It has promised nothing yet.
                0 => {
                    let first = Acknowledged::default();
                    verdict(image, &[first, notes[2].clone()], 0)
                }
                noted => verdict(image, notes, noted),
            };
            explore(killed.replay(&trace), 12, check).2
        })
    };
    assert_eq!(fails(&Trace::clone), None);
    // What only opening does, it does for this.
    let mut sites: Vec<(Site, bool)> = Vec::new();
    for (_, trace, _) in &nexts {
        sites.extend(trace.flush_sites().into_iter().map(|site| (site, true)));
        sites.extend(trace.fence_sites().into_iter().map(|site| (site, false)));
    }
    let reads = include_str!("../../src/block.rs")
        .lines()
        .position(|line| line.contains("fn read_blocks"))
        .unwrap() as u32;
    sites.retain(|(site, _)| site.file().ends_with("block.rs") && site.line() > reads);
    sites.sort_by_key(|(site, flush)| (site.line(), *flush));
    sites.dedup();
    assert_eq!(sites.len(), 2, "{sites:?}");
    for (site, flush) in sites {
        let failed = fails(&|trace| match flush {
            true => trace.without_flushes_of(site),
            false => trace.without_fences_of(site),
        });
        assert!(failed.is_some(), "{site}");
    }
}

/// Mini-transactions in a lane that goes from thread to thread: one commits, another one drops the
/// lane, a third changes a word of the mini-transaction in another way.
fn mini_story() -> (Trace, u64) {
    let (heap, sentinel) = used_before();
    let (memory, lanes) = (heap.memory().clone(), Lanes::of(&heap));
    memory.start();
    for step in 1..=6u64 {
        let lane = in_a_thread(|| {
            let mut lane = lanes.take().unwrap();
            let at = lane.allocate(BYTES, Purpose::Table).unwrap();
            memory.copy(Off::new(at), &contents(step));
            let mut lines = LineSet::new();
            lines.add(Range::new(at, BYTES));
            lane.mini_persist(at).unwrap();
            lane.mini_store(Off::new(sentinel + 8), at);
            lane.mini_store(Off::new(sentinel + 16), step);
            if let Some(old) = Some(memory.read::<u64>(Off::new(sentinel + 8)).unwrap())
                && old != 0
            {
                lane.mini_free(old).unwrap();
            }
            lane.mini_commit(&mut lines);
            lane
        });
        in_a_thread(|| drop(lane));
        // The same lane: its bits are in the same word.
        in_a_thread(|| {
            let mut lane = lanes.take().unwrap();
            let at = durable_object(&mut lane, step + 100);
            let old = heap.root("beside").unwrap();
            heap.set_root("beside", at).unwrap();
            if let Some(old) = old {
                let mut lines = LineSet::new();
                lane.clear_persisted(old, &mut lines).unwrap();
                lines.flush(&memory);
                memory.fence();
                lane.release(old);
            }
        });
        memory.note(step);
    }
    (memory.stop(), sentinel)
}

fn mini_verdict(image: &[u8], sentinel: u64, noted: u64) -> Result<(), String> {
    let say = |bad: &dyn std::fmt::Display| bad.to_string();
    let heap = open(image)?;
    let memory = heap.memory();
    let [at, step] = [8, 16].map(|word| memory.read::<u64>(Off::new(sentinel + word)).unwrap());
    if step != noted && step != noted + 1 {
        return Err(format!("{step} after {noted}"));
    }
    let beside = heap.root("beside").map_err(|error| say(&error))?;
    let mut expected = BTreeSet::from([sentinel]);
    for (at, stamp) in (step > 0).then_some((at, step)).into_iter().chain(beside.map(|at| (at, 0)))
    {
        let mut found = vec![0; BYTES as usize];
        memory.read_into(Off::new(at), &mut found).map_err(|bad| say(&bad))?;
        let first = u64::from_le_bytes(found[..8].try_into().unwrap());
        if found != contents(first) || (stamp > 0 && stamp != first) {
            return Err(format!("{at:#x} is not whole"));
        }
        expected.insert(at);
    }
    let persisted = persisted_in(&heap)?;
    if !persisted.is_superset(&expected) || persisted.len() > expected.len() + 1 {
        return Err(format!("persisted {persisted:x?} instead of {expected:x?}"));
    }
    Ok(())
}

#[test]
fn mini_transactions_of_a_shared_lane_are_atomic() {
    let (trace, sentinel) = mini_story();
    let check = |image: &[u8], noted| mini_verdict(image, sentinel, noted);
    let (points, states, failed) = explore(Replay::new(&trace), 300, check);
    println!("{points} points, {states} states");
    assert_eq!(failed, None);
    assert!(points > 50 && states > 1_000, "{points} {states}");
    // Dropping the lane flushes the end of the mini-transaction once more, and fences.
    let persisted = include_str!("../../src/persisted.rs");
    let ends = persisted.lines().position(|line| line.contains("fn end_mini")).unwrap() as u32;
    let ends = |site: &&Site| {
        site.file().ends_with("persisted.rs") && (ends..ends + 7).contains(&site.line())
    };
    let (flushes, fences) = (trace.flush_sites(), trace.fence_sites());
    let flush = flushes.iter().find(ends).expect("a flush");
    assert!(explore(Replay::new(&trace.without_flushes_of(flush)), 60, check).2.is_some());
    let fence = fences.iter().find(ends).expect("a fence");
    assert!(explore(Replay::new(&trace.without_fences_of(fence)), 60, check).2.is_some());
}

/// One thread flushes and fences an object, and hands its receipt to another one, which publishes it:
/// the fences of that one cover nothing of the first one's.
fn published_by_another() -> Trace {
    let memory = Recording::pool(16 << 10, LIMIT).unwrap();
    let options = HeapOptions { chunk_bytes: CHUNK, lanes: 1 };
    let heap = Heap::format(memory.clone(), options).unwrap();
    let lanes = Lanes::of(&heap);
    lanes.reserve(1).unwrap();
    memory.start();
    let (to_publisher, receipts) = mpsc::channel::<Durable<u64>>();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let to_publisher = to_publisher;
            let (mut lane, mut lines) = (lanes.take().unwrap(), LineSet::new());
            for stamp in 1..=5 {
                let at = lane.allocate(BYTES, Purpose::Table).unwrap();
                memory.copy(Off::new(at), &contents(stamp));
                lane.mark_persisted(at, &mut lines);
                lines.add(Range::new(at, BYTES));
                let written = Flushed::lines(&memory, &mut lines, at);
                to_publisher.send(fence_for(&memory, written)).unwrap();
            }
        });
        scope.spawn(|| {
            for durable in receipts {
                heap.set_root("newest", durable.into_inner()).unwrap();
                memory.note(1);
            }
        });
    });
    memory.stop()
}

#[test]
fn what_one_thread_has_fenced_another_one_can_publish() {
    let trace = published_by_another();
    let check = |image: &[u8], noted: u64| {
        let heap = open(image)?;
        let Some(at) = heap.root("newest").map_err(|error| error.to_string())? else {
            return if noted == 0 { Ok(()) } else { Err("it has no name".into()) };
        };
        let mut found = vec![0; BYTES as usize];
        heap.memory().read_into(Off::new(at), &mut found).map_err(|bad| bad.to_string())?;
        let stamp = u64::from_le_bytes(found[..8].try_into().unwrap());
        if found == contents(stamp) && heap.is_persisted(at).map_err(|bad| bad.to_string())? {
            return Ok(());
        }
        Err(format!("{at:#x} was published and is not durable"))
    };
    assert_eq!(explore(Replay::new(&trace), 100, check).2, None);
    let here = |site: &&Site| site.file().ends_with("handed_out_crash.rs");
    let (flushes, fences) = (trace.flush_sites(), trace.fence_sites());
    let flush = flushes.iter().find(here).expect("the first thread's flush");
    assert!(explore(Replay::new(&trace.without_flushes_of(flush)), 100, check).2.is_some());
    let fence = fences.iter().find(here).expect("the first thread's fence");
    assert!(explore(Replay::new(&trace.without_fences_of(fence)), 100, check).2.is_some());
}
