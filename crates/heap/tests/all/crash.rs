//! The allocator under power cuts (`docs/format/crash-model.md`): at every fence, in every state
//! that lines and their stores can be in.
//!
//! An object becomes part of the heap in the order: contents durable, marked persisted durably,
//! then a root leads to it. After a crash in between it is there, whole, or its slot is free: never
//! half, never lost, never handed out again. A mini-transaction changes all of its words or none,
//! and its lines are durable when it is. And without one of its flushes or fences the test fails.

use std::collections::BTreeSet;

use heap::{Heap, HeapOptions, Lane, Purpose};
use pm::{LineSet, Memory, Off, Range, Site};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sim::{Killed, Recording, Replay, Trace};

const LIMIT: u64 = 1 << 20;
const WORDS: u64 = 6;
const LINES_OF_WORK: u64 = 3;

fn options() -> HeapOptions {
    HeapOptions { chunk_bytes: 8 << 10, lanes: 1 }
}

fn open(image: &[u8]) -> Result<Heap<Recording>, String> {
    let whole = Recording::from_image(image, LIMIT).unwrap();
    let (header, _) = pm::read_header(&whole).map_err(|bad| bad.to_string())?;
    let memory = Recording::from_image(&image[..header.size as usize], LIMIT).unwrap();
    Heap::open(memory).map_err(|error| error.to_string())
}

fn contents(stamp: u64, bytes: u64) -> Vec<u8> {
    let mut contents = vec![(stamp * 7 + 1) as u8; bytes as usize];
    if bytes > 4096 {
        // As the tag of a chunk of small slots: what lies in a span is never taken for one.
        let (words, _) = contents.as_chunks_mut::<16>();
        words.iter_mut().for_each(|word| word[..8].copy_from_slice(b"PDCK\0\0\0\0"));
    }
    contents[..8].copy_from_slice(&stamp.to_le_bytes());
    contents
}

/// The stamp from which on objects take two chunks, but for some.
const SPANS: u64 = 1 << 20;

fn size(stamp: u64) -> u64 {
    if stamp >= SPANS {
        return [8_600, 100][stamp as usize % 3 / 2];
    }
    [8, 24, 100, 300, 64, 1500][stamp as usize % 6]
}

fn name(slot: u64) -> String {
    format!("object {slot}")
}

/// Durably replaces the object under a name: the documented protocol, then the old one is freed.
fn replace(lane: &mut Lane<Recording>, slot: u64, stamp: u64) {
    let (heap, memory) = (lane.heap().clone(), lane.memory().clone());
    let old = heap.root(&name(slot)).unwrap().filter(|old| *old != 0);
    let mut lines = LineSet::new();
    let bytes = size(stamp);
    let at = lane.allocate(bytes, Purpose::Table).unwrap();
    memory.copy(Off::new(at), &contents(stamp, bytes));
    lines.add(Range::new(at, bytes));
    lines.flush(&memory);
    memory.fence();
    lane.mark_persisted(at, &mut lines);
    lines.flush(&memory);
    memory.fence();
    heap.set_root(&name(slot), at).unwrap();
    if let Some(old) = old {
        lane.clear_persisted(old, &mut lines).unwrap();
        lines.flush(&memory);
        memory.fence();
        lane.release(old);
    }
}

const NAMES: u64 = 4;

/// The state that each note acknowledges: the stamp under each name.
struct Story {
    trace: Trace,
    acknowledged: Vec<[u64; NAMES as usize]>,
    /// Objects that crashes may have left persisted without a name: this protocol has no log that
    /// would know them.
    leaks: usize,
    /// True if it is that of a process after a kill.
    killed: bool,
}

fn story(seed: u64, steps: u64) -> Story {
    story_of(seed, 1..=steps)
}

fn story_of(seed: u64, stamps: std::ops::RangeInclusive<u64>) -> Story {
    let memory = Recording::pool(16 << 10, LIMIT).unwrap();
    let heap = Heap::format(memory.clone(), options()).unwrap();
    let mut lane = heap.lane(0);
    let mut acknowledged = vec![[0; NAMES as usize]];
    memory.start();
    replace_some(&mut lane, seed, stamps, &mut acknowledged);
    Story { trace: memory.stop(), acknowledged, leaks: 2, killed: false }
}

fn replace_some(
    lane: &mut Lane<Recording>,
    seed: u64,
    stamps: std::ops::RangeInclusive<u64>,
    acknowledged: &mut Vec<[u64; NAMES as usize]>,
) {
    let mut random = SmallRng::seed_from_u64(seed);
    for stamp in stamps {
        let slot = random.random_range(0..NAMES);
        // Each in a thread of its own: no fence may be relied on that another one makes.
        std::thread::scope(|scope| {
            scope.spawn(|| replace(lane, slot, stamp)).join().unwrap();
        });
        let mut now = acknowledged[acknowledged.len() - 1];
        now[slot as usize] = stamp;
        lane.memory().note(acknowledged.len() as u64);
        acknowledged.push(now);
    }
}

/// The stamp of an object, all of whose bytes are there.
fn whole_object(memory: &Recording, at: u64) -> Result<u64, String> {
    let stamp: u64 = memory.read(Off::new(at)).map_err(|bad| bad.to_string())?;
    let mut object = vec![0; size(stamp) as usize];
    memory.read_into(Off::new(at), &mut object).map_err(|bad| bad.to_string())?;
    if object == contents(stamp, size(stamp)) {
        Ok(stamp)
    } else {
        Err(format!("the object at {at:#x} is not whole"))
    }
}

/// The stamp under each name, and where these objects lie.
fn named(heap: &Heap<Recording>) -> Result<([u64; NAMES as usize], BTreeSet<u64>), String> {
    let mut found = [0; NAMES as usize];
    let mut reachable = BTreeSet::new();
    for slot in 0..NAMES {
        let Some(at) = heap.root(&name(slot)).map_err(|error| error.to_string())? else { continue };
        let stamp = whole_object(heap.memory(), at)?;
        if !heap.is_persisted(at).map_err(|bad| bad.to_string())? {
            return Err(format!("the object at {at:#x} has a name and is not persisted"));
        }
        found[slot as usize] = stamp;
        reachable.insert(at);
    }
    Ok((found, reachable))
}

/// Returns what is wrong with the state that a crash left, if anything.
fn verdict(image: &[u8], story: &Story, noted: u64) -> Result<(), String> {
    let heap = open(image)?;
    let memory = heap.memory().clone();
    let (found, reachable) = named(&heap)?;
    let before = story.acknowledged[noted as usize];
    let after = story.acknowledged.get(noted as usize + 1).copied().unwrap_or(before);
    if found != before && found != after {
        return Err(format!("{found:?} is neither {before:?} nor {after:?}"));
    }
    let mut persisted = BTreeSet::new();
    heap.for_each_persisted(|at, _| assert!(persisted.insert(at)))
        .map_err(|bad| bad.to_string())?;
    // After a kill, one that was about to go may have been given out again before its bit was
    // durably clear. Who has a log clears it once more before.
    for at in if story.killed { &reachable } else { &persisted } {
        whole_object(&memory, *at)?;
    }
    // Of each crash, the replaced object and the one not yet named.
    if !persisted.is_superset(&reachable) || persisted.len() > reachable.len() + story.leaks {
        return Err(format!("persisted {persisted:x?}, named {reachable:x?}"));
    }
    // What is allocated now belongs to no other object.
    let mut lane = heap.lane(0);
    for stamp in 0..60 {
        let at = lane.allocate(size(stamp), Purpose::Table).map_err(|error| error.to_string())?;
        if !persisted.insert(at) {
            return Err(format!("{at:#x} is handed out twice"));
        }
    }
    Ok(())
}

/// Looks at every crash point; stops at the first violation.
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
        let (position, noted) = (point.position, point.last_note.unwrap_or(0));
        states += point
            .for_each_state(bound, 11, |image| {
                if failed.is_none()
                    && let Err(why) = check(image, noted)
                {
                    failed = Some(format!("event {position}: {why}"));
                }
            })
            .visited;
    }
    (points, states, failed)
}

/// The sites without whose flushes, or fences, the check still passes.
fn unseen(trace: &Trace, mut check: impl FnMut(&[u8], u64) -> Result<(), String>) -> Vec<String> {
    let mut unseen = Vec::new();
    for site in trace.flush_sites() {
        if explore(Replay::new(&trace.without_flushes_of(site)), 60, &mut check).2.is_none() {
            unseen.push(format!("flush at {}:{}", site.file(), site.line()));
        }
    }
    for site in trace.fence_sites() {
        if explore(Replay::new(&trace.without_fences_of(site)), 60, &mut check).2.is_none() {
            unseen.push(format!("fence at {}:{}", site.file(), site.line()));
        }
    }
    unseen
}

#[test]
fn objects_are_there_or_not_at_every_fence() {
    objects_are_there_or_not(&[1]);
}

pub(crate) fn objects_are_there_or_not(seeds: &[u64]) {
    for &seed in seeds {
        let story = story(seed, 60);
        let (points, states, failed) =
            explore(Replay::new(&story.trace), 200, |image, noted| verdict(image, &story, noted));
        println!("seed {seed}: {points} points, {states} states");
        assert_eq!(failed, None, "seed {seed}");
        assert!(points > 150 && states > 1_000);
    }
}

#[test]
fn a_kill_leaves_the_heap_sound_at_every_store() {
    let story = story(4, 40);
    let mut noted = vec![0];
    for recorded in &story.trace.events {
        let note = match recorded.event {
            sim::Event::Note(note) => note,
            _ => noted[noted.len() - 1],
        };
        noted.push(note);
    }
    story.trace.process_states(|events, image| {
        assert_eq!(verdict(image, &story, noted[events]), Ok(()), "after event {events}");
    });
}

#[test]
fn the_test_of_objects_fails_without_one_flush_or_fence() {
    let story = story(5, 40);
    let mut unseen = unseen(&story.trace, |image, noted| verdict(image, &story, noted));
    // A new chunk's tag is fenced for log entries and mini-transactions, which name its slots
    // before the next fence; objects do not. The test of mini-transactions sees it.
    unseen.retain(|place| !place.starts_with("fence at crates/heap/src/lane.rs"));
    assert_eq!(unseen, [""; 0]);
}

/// Objects that take several chunks, taken, given back and taken again: at every fence, at every
/// store, and without each flush and fence of theirs.
#[test]
fn spans_are_there_or_not_wherever_a_crash_comes() {
    let story = story_of(6, SPANS..=SPANS + 11);
    let check = |image: &[u8], noted: u64| verdict(image, &story, noted);
    let (points, states, failed) = explore(Replay::new(&story.trace), 12, check);
    println!("{points} points, {states} states");
    assert_eq!(failed, None);
    assert!(points > 60 && states > 500, "{points} {states}");
    let mut noted = 0;
    let notes: Vec<u64> = std::iter::once(0)
        .chain(story.trace.events.iter().map(|recorded| {
            if let sim::Event::Note(note) = recorded.event {
                noted = note;
            }
            noted
        }))
        .collect();
    story.trace.process_states(|events, image| {
        assert_eq!(verdict(image, &story, notes[events]), Ok(()), "after event {events}");
    });
}

/// A trace of mini-transactions: words that all get the same number, lines that get it too before,
/// an object that becomes persisted and one that is freed, all together.
fn mini_story(steps: u64) -> (Trace, u64) {
    let (mut lane, area) = mini_area();
    lane.memory().start();
    mini_steps(&mut lane, area, 1..=steps, None);
    (lane.memory().stop(), area)
}

/// The same with an object that is replaced after each mini-transaction. Its persisted bit is in a
/// word that the mini-transaction has changed.
fn mini_story_with_allocations(steps: u64) -> (Trace, u64) {
    let (mut lane, area) = mini_area();
    let (heap, memory) = (lane.heap().clone(), lane.memory().clone());
    let mut lines = LineSet::new();
    memory.start();
    for step in 1..=steps {
        let current: u64 = memory.read(Off::new(area + WORDS * 64)).unwrap();
        mini_steps(&mut lane, area, step..=step, Some(current).filter(|at| *at != 0));
        lane.fence_flushed();
        let old = heap.root(BESIDE).unwrap();
        let beside = lane.allocate(LINES_OF_WORK * 64, Purpose::Table).unwrap();
        lane.mark_persisted(beside, &mut lines);
        lines.flush(&memory);
        memory.fence();
        heap.set_root(BESIDE, beside).unwrap();
        if let Some(old) = old {
            lane.clear_persisted(old, &mut lines).unwrap();
            lines.flush(&memory);
            memory.fence();
            lane.release(old);
        }
    }
    (memory.stop(), area)
}

/// A lane with a durable object of some lines.
fn mini_area() -> (Lane<Recording>, u64) {
    let memory = Recording::pool(16 << 10, LIMIT).unwrap();
    let heap = Heap::format(memory.clone(), options()).unwrap();
    let mut lane = heap.lane(0);
    let mut lines = LineSet::new();
    let area = lane.allocate(1024, Purpose::Log).unwrap();
    memory.copy(Off::new(area), &[0; 1024]);
    lane.mark_persisted(area, &mut lines);
    lines.add(Range::new(area, 1024));
    lines.flush(&memory);
    memory.fence();
    heap.set_root("area", area).unwrap();
    (lane, area)
}

/// The name of an object that has nothing to do with the mini-transactions.
const BESIDE: &str = "beside";

fn mini_steps(
    lane: &mut Lane<Recording>,
    area: u64,
    steps: std::ops::RangeInclusive<u64>,
    mut current: Option<u64>,
) {
    let memory = lane.memory().clone();
    let mut lines = LineSet::new();
    for step in steps {
        let object = lane.allocate(LINES_OF_WORK * 64, Purpose::Table).unwrap();
        memory.copy(Off::new(object), &contents(step, LINES_OF_WORK * 64));
        lines.add(Range::new(object, LINES_OF_WORK * 64));
        // Words on lines of their own, so that they persist independently.
        for word in 0..WORDS {
            lane.mini_store(Off::new(area + word * 64), step);
        }
        lane.mini_store(Off::new(area + WORDS * 64), object);
        lane.mini_persist(object).unwrap();
        if let Some(old) = current.replace(object) {
            lane.mini_free(old).unwrap();
        }
        lane.mini_commit(&mut lines);
        // The next mini-transaction fences before it changes one of the words again.
        memory.note(step);
    }
}

/// `leaks`: how many objects may be persisted that nothing leads to.
fn mini_verdict(image: &[u8], area: u64, noted: u64, leaks: usize) -> Result<(), String> {
    let heap = open(image)?;
    let memory = heap.memory();
    let word = |index: u64| memory.read::<u64>(Off::new(area + index * 64)).unwrap();
    let step = word(0);
    if step != noted && step != noted + 1 {
        return Err(format!("{step} after {noted} acknowledged"));
    }
    if let Some(other) = (1..WORDS).map(word).find(|other| *other != step) {
        return Err(format!("half a mini-transaction: {step} and {other}"));
    }
    let object = word(WORDS);
    let mut persisted = Vec::new();
    heap.for_each_persisted(|at, _| persisted.push(at)).map_err(|bad| bad.to_string())?;
    if step == 0 {
        let sound = persisted.contains(&area) && persisted.len() <= 1 + leaks;
        return if sound { Ok(()) } else { Err("something leaked".into()) };
    }
    let mut expected = BTreeSet::from([area, object]);
    expected.extend(heap.root(BESIDE).map_err(|error| error.to_string())?);
    let persisted: BTreeSet<u64> = persisted.into_iter().collect();
    if !persisted.is_superset(&expected) || persisted.len() > expected.len() + leaks {
        return Err(format!("persisted {persisted:x?} instead of {expected:x?}"));
    }
    let mut bytes = vec![0; (LINES_OF_WORK * 64) as usize];
    memory.read_into(Off::new(object), &mut bytes).unwrap();
    if bytes != contents(step, LINES_OF_WORK * 64) {
        return Err("the lines of the mini-transaction are not durable with it".into());
    }
    // Opened again, the record is not applied a second time.
    let again = Recording::from_image(&memory.contents(), LIMIT).unwrap();
    let before = again.contents();
    Heap::open(again.clone()).map_err(|error| error.to_string())?;
    if again.contents() == before { Ok(()) } else { Err("opening again changed something".into()) }
}

#[test]
fn mini_transactions_are_atomic_at_every_fence() {
    let (trace, area) = mini_story(40);
    let (points, states, failed) =
        explore(Replay::new(&trace), 600, |image, noted| mini_verdict(image, area, noted, 0));
    println!("{points} points, {states} states");
    assert_eq!(failed, None);
    assert!(points > 100 && states > 20_000);
}

#[test]
fn mini_transactions_need_each_flush_and_fence() {
    let (trace, area) = mini_story(12);
    let unseen = unseen(&trace, |image, noted| mini_verdict(image, area, noted, 0));
    assert_eq!(unseen, [""; 0]);
}

/// Each store of a mini-transaction by its place there: the one that commits, the words, the one
/// that ends it. Left out, it never persists.
#[test]
fn the_test_of_mini_transactions_fails_without_any_one_store() {
    let (trace, area) = mini_story_with_allocations(12);
    let check = |image: &[u8], noted| mini_verdict(image, area, noted, 2);
    assert_eq!(explore(Replay::new(&trace), 60, check).2, None);
    // They have the place of the call that commits.
    let commits = |line: &str| line.trim() == "lane.mini_commit(&mut lines);";
    let place = 1 + include_str!("crash.rs").lines().position(commits).unwrap() as u32;
    let without = |number: usize| {
        let (mut events, mut stores, mut most) = (Vec::new(), 0, 0);
        for recorded in &trace.events {
            match recorded.event {
                sim::Event::Note(_) => stores = 0,
                sim::Event::Store { .. } if recorded.site.line() == place => {
                    stores += 1;
                    most = most.max(stores);
                    if stores == number {
                        continue;
                    }
                }
                _ => {}
            }
            events.push(recorded.clone());
        }
        (Trace { image: trace.image.clone(), events }, most)
    };
    let many = without(usize::MAX).1;
    // The commit, the words with the object's place, a word of bits or more, and the end.
    assert!(many >= 4 + WORDS as usize, "{many}");
    let unseen: Vec<usize> = (1..=many)
        .filter(|number| explore(Replay::new(&without(*number).0), 60, check).2.is_none())
        .collect();
    println!("{many} stores");
    assert_eq!(unseen, [0; 0]);
}

/// The second process after a kill: what it found, and its trace.
struct Next {
    killed: Killed,
    trace: Trace,
    story: Story,
}

/// Kills the process of a story at many stores. The next one opens the heap and goes on.
fn after_kills(story: &Story, every: usize) -> Vec<Next> {
    let mut nexts = Vec::new();
    story.trace.kills(every, |killed| {
        let memory = killed.reopened(LIMIT).unwrap();
        let heap = Heap::open(memory.clone()).unwrap();
        let before = story.acknowledged[killed.last_note().unwrap_or(0) as usize];
        // What has been found and acted upon must stay.
        let mut acknowledged = vec![before, named(&heap).unwrap().0];
        memory.note(1);
        let mut lane = heap.lane(0);
        replace_some(&mut lane, killed.position() as u64, 1001..=1003, &mut acknowledged);
        let trace = memory.stop();
        let story = Story { trace: Trace::default(), acknowledged, leaks: 4, killed: true };
        nexts.push(Next { killed: killed.clone(), trace, story });
    });
    nexts
}

/// The same with mini-transactions.
fn after_mini_kills(trace: &Trace, area: u64, every: usize) -> Vec<Next> {
    let mut nexts = Vec::new();
    trace.kills(every, |killed| {
        let memory = killed.reopened(LIMIT).unwrap();
        let heap = Heap::open(memory.clone()).unwrap();
        let mut lane = heap.lane(0);
        let step: u64 = memory.read(Off::new(area)).unwrap();
        let current: u64 = memory.read(Off::new(area + WORDS * 64)).unwrap();
        memory.note(step);
        // Outside of mini-transactions: its bit is in a word that the last one has changed.
        let mut lines = LineSet::new();
        let beside = lane.allocate(LINES_OF_WORK * 64, Purpose::Table).unwrap();
        memory.copy(Off::new(beside), &contents(step, LINES_OF_WORK * 64));
        lane.mark_persisted(beside, &mut lines);
        lines.flush(&memory);
        memory.fence();
        heap.set_root(BESIDE, beside).unwrap();
        let current = Some(current).filter(|_| step > 0);
        mini_steps(&mut lane, area, step + 1..=step + 2, current);
        let trace = memory.stop();
        let story =
            Story { trace: Trace::default(), acknowledged: Vec::new(), leaks: 0, killed: true };
        nexts.push(Next { killed: killed.clone(), trace, story });
    });
    nexts
}

/// Cuts the power of the second process at every fence.
fn power_cuts(
    nexts: &[Next],
    edit: impl Fn(&Trace) -> Trace,
    check: impl Fn(&Next, &[u8], u64) -> Result<(), String>,
) -> Option<String> {
    nexts.iter().find_map(|next| {
        let trace = edit(&next.trace);
        let failed =
            explore(next.killed.replay(&trace), 14, |image, noted| check(next, image, noted));
        failed.2.map(|why| format!("killed after event {}: {why}", next.killed.position()))
    })
}

fn check_objects(next: &Next, image: &[u8], noted: u64) -> Result<(), String> {
    verdict(image, &next.story, noted)
}

fn check_minis(area: u64) -> impl Fn(&Next, &[u8], u64) -> Result<(), String> {
    // Until the next process has said something, what the killed one said holds.
    move |next, image, noted| {
        mini_verdict(image, area, noted.max(next.killed.last_note().unwrap_or(0)), 1)
    }
}

#[test]
fn a_power_cut_after_a_kill_leaves_the_heap_sound() {
    let nexts = after_kills(&story(6, 12), 1);
    assert!(nexts.len() > 60);
    assert_eq!(power_cuts(&nexts, Trace::clone, check_objects), None);
    let (trace, area) = mini_story(6);
    let nexts = after_mini_kills(&trace, area, 1);
    assert!(nexts.len() > 60);
    assert_eq!(power_cuts(&nexts, Trace::clone, check_minis(area)), None);
}

/// Each flush and fence that opening the heap alone has is there for the case above.
pub(crate) fn opening_needs_each_flush_and_fence() {
    let (trace, area) = mini_story(4);
    let nexts = [after_kills(&story(6, 12), 1), after_mini_kills(&trace, area, 1)];
    let opening =
        |site: &Site| site.file().ends_with("heap.rs") || site.file().ends_with("mini.rs");
    let seen = |edit: &dyn Fn(&Trace) -> Trace| {
        power_cuts(&nexts[0], edit, check_objects).is_some()
            || power_cuts(&nexts[1], edit, check_minis(area)).is_some()
    };
    let sites = |of: fn(&Trace) -> Vec<Site>| {
        let mut sites: Vec<Site> =
            nexts.iter().flatten().flat_map(|next| of(&next.trace)).collect();
        sites.retain(opening);
        sites.sort_by_key(|site| (site.file(), site.line()));
        sites.dedup();
        sites
    };
    let mut unseen = sites(Trace::flush_sites);
    unseen.retain(|site| !seen(&|trace| trace.without_flushes_of(site)));
    assert_eq!(unseen, [] as [Site; 0]);
    let mut unseen = sites(Trace::fence_sites);
    unseen.retain(|site| !seen(&|trace| trace.without_fences_of(site)));
    assert_eq!(unseen, [] as [Site; 0]);
}
