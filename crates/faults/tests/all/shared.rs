//! Threads that share one partition, in the optimistic engine and in those that take turns: what
//! they saw has to have an order, a crash has to leave a prefix of it, and each flaw that is put
//! into the optimistic engine has to be noticed and called by its name. See `faults::shared`.

use std::sync::Arc;

use crate::points::{one_in, thinned};
use faults::explorer::{Again, Effort};
use faults::history::Rule::{self, Serializable, Snapshot};
use faults::medium::Part;
use faults::plot::options;
use faults::shared::{Brought, Shared};
use faults::sharing::Mix;
use optimistic::{At, Flaw, Optimistic};
use perdura::{Concurrency, EngineKind};

/// A scenario of the optimistic engine.
fn shared(engine: &Optimistic, seed: u64, transactions: usize) -> Shared {
    let engine = engine.clone();
    let maker = move |scheduler: Arc<faults::scheduler::Scheduler>| -> Brought {
        Arc::new(engine.clone().at_lock(move |at| match at {
            At::Before => scheduler.pass(),
            At::Taken => scheduler.give_on(),
        }))
    };
    let options = options(EngineKind::NvmInp);
    Shared { maker: Some(Arc::new(maker)), ..Shared::new(options, seed, transactions) }
}

#[test]
fn interleavings_of_the_optimistic_engine_are_serializable() {
    let (mut committed, mut conflicts, mut handed_over) = (0, 0, 0);
    for seed in 0..40 {
        let threads = 2 + seed as usize % 3;
        let scenario = Shared { threads, ..shared(&Optimistic::new(), seed, 60) }.run();
        let order = scenario.history.check(Serializable);
        committed += order.unwrap_or_else(|violation| panic!("seed {seed}: {violation}")).len();
        conflicts += scenario.conflicts;
        handed_over += scenario.handed_over;
    }
    println!("{committed} committed, {conflicts} conflicts, {handed_over} changes of thread");
    assert!(committed > 1_000 && conflicts > 100 && handed_over > 10_000);
}

#[test]
fn on_snapshots_writes_are_skewed_and_nothing_worse() {
    let engine = Optimistic::new().on_snapshots();
    let mut skewed = Vec::new();
    for seed in 0..40 {
        let scenario = shared(&engine, seed, 60).run();
        scenario.history.check(Snapshot).unwrap_or_else(|found| panic!("seed {seed}: {found}"));
        if let Err(found) = scenario.history.check(Serializable) {
            println!("seed {seed}: {found}");
            skewed.push(found.to_string());
        }
    }
    assert!(skewed.iter().any(|found| found.starts_with("write skew (G2)")), "{skewed:?}");
    assert!(skewed.iter().all(|f| f.starts_with("write skew") || f.starts_with("phantom")));
}

/// The record does not depend on the machine.
#[test]
fn the_same_seed_gives_the_same_record() {
    let record = || {
        let scenario = shared(&Optimistic::new(), 3, 40).run();
        let mut threads: Vec<u32> = Vec::new();
        let mut number = |thread| {
            threads.iter().position(|known| *known == thread).unwrap_or_else(|| {
                threads.push(thread);
                threads.len() - 1
            })
        };
        let events = scenario.trace.events.iter();
        let events: Vec<_> =
            events.map(|one| format!("{} {:?}", number(one.thread), one.event)).collect();
        (events, scenario.history)
    };
    let (first, second) = (record(), record());
    assert!(first.0 == second.0, "{} events and {}", first.0.len(), second.0.len());
    assert_eq!(first.1, second.1);
    assert!(first.0.iter().any(|event| event.starts_with('1')), "both threads are in it");
}

/// Power cuts at one in so many fences, kills at one in so many stores.
fn survives_in_part(name: &str, scenario: &Shared, (rule, stride): (Rule, u64), one_in: u64) {
    let (seed, scenario) = (scenario.seed, scenario.run());
    scenario.history.check(rule).unwrap_or_else(|found| panic!("{name}, seed {seed}: {found}"));
    let effort = Effort::once(6).then(Again::every(16, 1));
    let explored = scenario.explore(rule, thinned(effort, one_in));
    println!("{name}, seed {seed}: {} conflicts, {scenario:?}, {explored:?}", scenario.conflicts);
    assert_eq!(explored.violation, None, "{name}, seed {seed}");
    let enough = explored.points * one_in > 60 && scenario.handed_over > 50;
    assert!(enough, "{scenario:?}, {explored:?}");
    let kills = scenario.explore_kills(rule, stride);
    assert_eq!(kills.violation, None, "{name}, seed {seed}");
    // Where pages are changed in a cache, a transaction has few stores.
    assert!(kills.states > if one_in == 1 { 15 } else { 4 }, "{kills:?}");
}

#[test]
fn two_writers_of_the_optimistic_engine_survive_crashes() {
    writers_of_the_optimistic_engine(1, 5);
    writers_on_snapshots(5);
}

/// At each crash point, or at one in so many.
pub(crate) fn writers_of_the_optimistic_engine(seed: u64, one_in: u64) {
    let scenario = shared(&Optimistic::new(), seed, 50);
    survives_in_part("optimistic", &scenario, (Serializable, 37 * one_in), one_in);
}

pub(crate) fn writers_on_snapshots(one_in: u64) {
    let engine = Optimistic::new().on_snapshots();
    let scenario = shared(&engine, 4, 50);
    survives_in_part("on snapshots", &scenario, (Snapshot, 37 * one_in), one_in);
}

/// Their transactions are in different threads, whose fences are their own.
#[test]
fn two_writers_that_take_turns_survive_crashes() {
    writers_that_take_turns(4);
}

/// At some crash points, or at one in so many of these.
pub(crate) fn writers_that_take_turns(part: u64) {
    // One that runs them at once is interleaved at its latches, too: `column/tests/all/crowd.rs`.
    let one_by_one = |engine: &EngineKind| engine.traits().concurrency == Concurrency::Serial;
    let in_pool = |engine: &EngineKind| !engine.traits().needs_files();
    for engine in EngineKind::ALL.into_iter().filter(one_by_one).filter(in_pool) {
        let scenario = Shared::new(options(engine), 5, 50);
        survives_in_part(engine.name(), &scenario, (Serializable, 97), part * one_in(engine));
    }
}

/// Only changes of what was not looked at.
const BLIND: Mix = Mix { blind: 1, longest: 6, ..Mix::NONE };
/// Looks at few keys and changes them.
const CHANGES: Mix = Mix { change: 1, longest: 2, ..Mix::NONE };
/// Looks at the same keys again and again.
const LOOKS: Mix = Mix { get: 6, change: 1, longest: 9, ..Mix::NONE };
/// Ranges, and rows that come and go.
const RANGES: Mix = Mix { scan: 3, insert: 2, delete: 2, longest: 4, ..Mix::NONE };

/// One of so many seeds has a scenario that shows the anomaly. A flaw has other faces, too:
/// scenarios before it may show them.
#[track_caller]
fn noticed(flaw: Flaw, mix: Mix, name: &str, seeds: u64, crashes: bool) {
    let engine = Optimistic::new().with(flaw);
    // Between its two parts others have to come to an end.
    let one_in = if flaw == Flaw::DirtyWrite { 40 } else { 3 };
    for seed in 0..seeds {
        let scenario = Shared { mix, keys: 4, one_in, ..shared(&engine, seed, 40) }.run();
        let found = match scenario.history.check(Serializable) {
            Err(violation) => Some(violation.to_string()),
            Ok(_) if crashes => {
                let effort = Effort { part: Part { stride: 3, ..Part::ALL }, ..Effort::once(4) };
                let explored = scenario.explore(Serializable, effort);
                explored.violation.map(|violation| violation.what)
            }
            Ok(_) => None,
        };
        let Some(found) = found else { continue };
        println!("{flaw:?}, seed {seed}: {found}");
        if found.contains(name) {
            return;
        }
    }
    panic!("{flaw:?}: no {name} in {seeds} seeds");
}

#[test]
fn a_lost_update_is_noticed() {
    noticed(Flaw::LostUpdate, CHANGES, "lost update", 10, false);
}

#[test]
fn a_non_repeatable_read_is_noticed() {
    noticed(Flaw::NonRepeatableRead, LOOKS, "non-repeatable read", 10, false);
}

#[test]
fn a_phantom_is_noticed() {
    noticed(Flaw::Phantom, RANGES, "phantom", 10, false);
}

#[test]
fn a_dirty_read_is_noticed() {
    noticed(Flaw::DirtyRead, LOOKS, "dirty read (G1a", 20, false);
}

#[test]
fn a_dirty_write_is_noticed() {
    noticed(Flaw::DirtyWrite, BLIND, "dirty write (G0)", 10, false);
}

#[test]
fn a_torn_commit_is_noticed() {
    noticed(Flaw::TornCommit, Mix::ALL, "torn transaction", 5, true);
}

#[test]
fn an_early_acknowledgement_is_noticed() {
    noticed(Flaw::EarlyAcknowledgement, Mix::ALL, "dirty acknowledgement", 5, true);
}
