//! The store under power cuts and kills (`docs/format/crash-model.md`): at every fence, in the states
//! that lines and their stores can be in.
//!
//! Each committed transaction is there, the open transaction is there as a whole or not at all, all pages
//! agree, none is lost, and the store can be used. So it is when the crash comes while another one is
//! being recovered from. And without one of its flushes or fences the test fails.

use std::collections::BTreeSet;

use heap::Heap;
use pm::{Recording, Replay, Trace};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use slotted::{Fash, Fast, Nvwal, Scheme, Store};

use crate::work::{Mix, Model, contents, heap_over, run, small};

const LIMIT: u64 = 1 << 20;

/// NVWAL with a checkpoint every few transactions.
type SmallNvwal = Nvwal<Recording, 150>;
const NAME: &str = "slotted";

/// Transactions, what they left, and what the crash finds.
struct Story {
    trace: Trace,
    /// The contents that each note acknowledges.
    acknowledged: Vec<Model>,
}

const MIX: Mix = Mix { keys: 120, operations: 3, deletions: 30, long: 4, value_bytes: 70 };

fn open<S: Scheme<Recording>>(memory: Recording) -> Result<Store<Recording, S>, String> {
    let heap = Heap::open(memory).map_err(|error| error.to_string())?;
    let at = heap.root(NAME).map_err(|error| error.to_string())?.ok_or("no name")?;
    Store::open(heap.lane(0), at).map_err(|error| error.to_string())
}

fn from_image(image: &[u8]) -> Result<Recording, String> {
    let memory = Recording::pool_from_image(image, LIMIT).map_err(|error| error.to_string())?;
    memory.mark_open().map_err(|error| error.to_string())?;
    Ok(memory)
}

/// A store with some rows, and the trace of random transactions on it: one in four is aborted.
fn story<S: Scheme<Recording>>(seed: u64, steps: u64, mix: Mix) -> Story {
    let memory = Recording::pool(16 << 10, LIMIT).unwrap();
    let heap = heap_over(memory.clone());
    let mut store = Store::<Recording, S>::create(heap.lane(0), small(512)).unwrap();
    heap.set_root(NAME, store.at()).unwrap();
    let (mut model, mut random) = (Model::new(), SmallRng::seed_from_u64(seed));
    for _ in 0..40 {
        run(&mut store, &mut model, &mut random, Mix { deletions: 10, ..MIX });
        store.commit().unwrap();
    }
    let mut acknowledged = vec![model];
    memory.start();
    transactions(&mut store, &memory, &mut random, steps, mix, &mut acknowledged);
    Story { trace: memory.stop(), acknowledged }
}

fn transactions<S: Scheme<Recording>>(
    store: &mut Store<Recording, S>,
    memory: &Recording,
    random: &mut SmallRng,
    steps: u64,
    mix: Mix,
    acknowledged: &mut Vec<Model>,
) {
    for step in 0..steps {
        let mut after = acknowledged[acknowledged.len() - 1].clone();
        // Each in a thread of its own: no fence may be relied on that another one makes.
        let committed = std::thread::scope(|scope| {
            let transaction = scope.spawn(|| {
                run(store, &mut after, random, mix);
                if step % 4 == 3 {
                    store.abort();
                    return false;
                }
                store.commit().unwrap();
                true
            });
            transaction.join().unwrap()
        });
        if committed {
            memory.note(acknowledged.len() as u64);
            acknowledged.push(after);
        }
    }
}

/// Returns what is wrong with the state that a crash left behind, if anything; else the store.
fn verdict<S: Scheme<Recording>>(
    memory: Recording,
    acknowledged: &[Model],
    noted: u64,
) -> Result<Store<Recording, S>, String> {
    let mut store = open::<S>(memory)?;
    let found = contents(&store).map_err(|error| error.to_string())?;
    let before = &acknowledged[noted as usize];
    let after = acknowledged.get(noted as usize + 1).unwrap_or(before);
    if found != *before && found != *after {
        return Err(format!("neither transaction {noted} nor the next one"));
    }
    let census = store.check().map_err(|error| error.to_string())?;
    if census.records != found.len() as u64 {
        return Err("the check counts other records".into());
    }
    // The master, the log and the segments: nothing that the heap keeps is nobody's.
    let mut persisted = 0;
    let heap = store.lane().heap().clone();
    heap.for_each_persisted(|_, _| persisted += 1).map_err(|bad| bad.to_string())?;
    if persisted != 1 + census.log_objects + census.segments {
        return Err(format!("{persisted} objects, {census:?}"));
    }
    Ok(store)
}

/// The same, and then some transactions, which a power cut at their end keeps.
fn verdict_and_use<S: Scheme<Recording>>(
    image: &[u8],
    acknowledged: &[Model],
    noted: u64,
) -> Result<(), String> {
    let memory = from_image(image)?;
    let mut store = verdict::<S>(memory, acknowledged, noted)?;
    let mut model = contents(&store).map_err(|error| error.to_string())?;
    let mut random = SmallRng::seed_from_u64(noted);
    for _ in 0..3 {
        run(&mut store, &mut model, &mut random, MIX);
        store.commit().map_err(|error| error.to_string())?;
    }
    let found = contents(&store).map_err(|error| error.to_string())?;
    store.check().map_err(|error| error.to_string())?;
    if found == model { Ok(()) } else { Err("what came after recovery is wrong".into()) }
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

fn survives_power_cuts<S: Scheme<Recording>>(seed: u64, steps: u64, bound: u64) -> u64 {
    let story = story::<S>(seed, steps, MIX);
    let (points, states, failed) = explore(Replay::new(&story.trace), bound, |image, noted| {
        verdict_and_use::<S>(image, &story.acknowledged, noted)
    });
    println!("{}, seed {seed}: {points} points, {states} states", S::NAME);
    assert_eq!(failed, None, "{}, seed {seed}", S::NAME);
    states
}

#[test]
fn committed_transactions_survive_power_cuts_at_every_fence() {
    assert!(survives_power_cuts::<Fash<Recording>>(1, 40, 24) > 2000);
    assert!(survives_power_cuts::<Fast<Recording>>(2, 40, 24) > 1500);
    assert!(survives_power_cuts::<SmallNvwal>(9, 40, 24) > 700);
}

#[test]
#[ignore = "a minute"]
fn committed_transactions_survive_many_power_cuts() {
    for seed in 10..16 {
        assert!(survives_power_cuts::<Fash<Recording>>(seed, 100, 150) > 20_000);
        assert!(survives_power_cuts::<Fast<Recording>>(seed, 100, 150) > 15_000);
        assert!(survives_power_cuts::<SmallNvwal>(seed, 100, 150) > 5_000);
    }
}

/// The states in which a power cut finds a valid mark, or a commit in place half done, are recovered
/// from, and the power is cut again at every fence of that.
fn survives_in_recovery<S: Scheme<Recording>>(seed: u64) {
    let story = story::<S>(seed, 16, MIX);
    let mut seen = BTreeSet::new();
    let mut crashes = 0;
    let (.., failed) = explore(Replay::new(&story.trace), 8, |image, noted| {
        let memory = from_image(image)?;
        memory.start();
        let store = open::<S>(memory.clone())?;
        drop(store);
        let trace = memory.stop();
        seen.insert(trace.events.len());
        let (_, states, failed) = explore(Replay::new(&trace), 8, |image, _| {
            verdict::<S>(from_image(image)?, &story.acknowledged, noted).map(drop)
        });
        crashes += states;
        failed.map_or(Ok(()), Err)
    });
    println!("{}: {crashes} crashes in recovery", S::NAME);
    assert_eq!(failed, None, "{}", S::NAME);
    assert!(crashes > 1000 && seen.len() > 3, "{crashes} {seen:?}");
}

#[test]
fn recovery_survives_power_cuts_at_every_fence() {
    survives_in_recovery::<Fash<Recording>>(3);
    survives_in_recovery::<Fast<Recording>>(4);
    survives_in_recovery::<SmallNvwal>(10);
}

/// A process is killed at every few stores; the next one finds what it had stored, durable or not,
/// goes on, and loses its power.
fn survives_kills<S: Scheme<Recording>>(
    seed: u64,
    every: usize,
    edit: impl Fn(&Trace) -> Trace,
) -> Option<String> {
    let story = story::<S>(seed, 12, MIX);
    let mut failed = None;
    story.trace.kills(every, |killed| {
        if failed.is_some() {
            return;
        }
        let memory = killed.reopened(LIMIT).unwrap();
        let noted = killed.last_note().unwrap_or(0);
        let mut store = match verdict::<S>(memory.clone(), &story.acknowledged, noted) {
            Ok(store) => store,
            Err(why) => return failed = Some(why),
        };
        // What has been found and acted upon must stay.
        let mut acknowledged =
            vec![story.acknowledged[noted as usize].clone(), contents(&store).unwrap()];
        memory.note(1);
        let mut random = SmallRng::seed_from_u64(killed.position() as u64);
        transactions(&mut store, &memory, &mut random, 3, MIX, &mut acknowledged);
        let trace = edit(&memory.stop());
        let (.., why) = explore(killed.replay(&trace), 6, |image, noted| {
            verdict::<S>(from_image(image)?, &acknowledged, noted).map(drop)
        });
        failed = why.map(|why| format!("killed after event {}: {why}", killed.position()));
    });
    failed
}

#[test]
fn a_power_cut_after_a_kill_loses_nothing() {
    assert_eq!(survives_kills::<Fash<Recording>>(5, 5, Trace::clone), None);
    assert_eq!(survives_kills::<Fast<Recording>>(6, 5, Trace::clone), None);
    assert_eq!(survives_kills::<SmallNvwal>(11, 5, Trace::clone), None);
}

/// The sites of the crate without whose flushes, or fences, everything still passes.
fn unseen<S: Scheme<Recording>>(seed: u64) -> Vec<String> {
    let story = story::<S>(seed, 60, MIX);
    let passes = |trace: &Trace| {
        explore(Replay::new(trace), 12, |image, noted| {
            verdict::<S>(from_image(image)?, &story.acknowledged, noted).map(drop)
        })
        .2
        .is_none()
    };
    assert!(passes(&story.trace));
    let mut unseen = Vec::new();
    let ours = |site: &pm::Site| site.file().contains("slotted/src");
    for site in story.trace.flush_sites().into_iter().filter(ours) {
        if passes(&story.trace.without_flushes_of(site)) {
            unseen.push(format!("flush at {}:{}", site.file(), site.line()));
        }
    }
    for site in story.trace.fence_sites().into_iter().filter(ours) {
        if passes(&story.trace.without_fences_of(site)) {
            unseen.push(format!("fence at {}:{}", site.file(), site.line()));
        }
    }
    unseen
}

/// A fence behind a mini-transaction of the heap is for whoever changes one of its words next in
/// another way, such as a persisted bit beside the segment's. The store has no such change; who shares
/// the lane may.
const FOR_OTHERS: &str = "lane.fence_flushed();";

#[test]
fn the_test_of_power_cuts_fails_without_one_flush_or_fence() {
    let for_others = |place: &String| {
        let (file, line) = place.trim_start_matches("fence at ").split_once(':').unwrap();
        let source = match file.rsplit('/').next() {
            Some("pages.rs") => include_str!("../../src/pages.rs"),
            Some("log.rs") => include_str!("../../src/log.rs"),
            Some("blocks.rs") => include_str!("../../src/blocks.rs"),
            _ => return false,
        };
        let line: usize = line.parse().unwrap();
        source.lines().nth(line - 1).is_some_and(|line| line.trim().ends_with(FOR_OTHERS))
    };
    let all =
        [unseen::<Fash<Recording>>(7), unseen::<Fast<Recording>>(8), unseen::<SmallNvwal>(12)];
    for mut unseen in all {
        unseen.retain(|place| !for_others(place));
        assert_eq!(unseen, [""; 0]);
    }
}
