//! Interleavings that follow from a seed. What the transactions saw has a serial order that agrees
//! with real time, an acknowledged transaction has seen nothing that a crash takes, and a crash
//! leaves a prefix.

use faults::{history::Rule::Serializable, sharing::Mix};
use sim::DiskReplay;

use super::scenario::{Plan, Scenario, left};

/// Early lock release and lock inheritance.
const LOCKING: [(bool, Option<u64>); 4] =
    [(true, Some(1)), (true, None), (false, Some(1)), (false, None)];

pub(crate) fn scenarios(seeds: std::ops::Range<u64>, mix: Mix) -> impl Iterator<Item = Scenario> {
    seeds.flat_map(move |seed| {
        LOCKING.map(|(early_release, inherit_after)| {
            // Every third one locks whole tables soon, and every other one has more keys than fit a
            // page.
            let escalate_after = if seed % 3 == 0 { 4 } else { usize::MAX };
            let keys = if seed % 2 == 0 { 5 } else { 24 };
            let scenario = Scenario::new(seed, mix);
            Scenario { keys, early_release, inherit_after, escalate_after, ..scenario }
        })
    })
}

pub(crate) fn all_have_an_order(seeds: std::ops::Range<u64>) {
    let (mut committed, mut conflicts, mut waits, mut inherited) = (0, 0, 0, 0);
    for scenario in scenarios(seeds, Mix::LOCKS) {
        let ran = scenario.run();
        let order = ran.history.check(Serializable);
        committed += order.unwrap_or_else(|found| panic!("{scenario:?}: {found}")).len();
        conflicts += ran.conflicts;
        waits += ran.locks.waits;
        inherited += ran.locks.inherited;
        assert_eq!((ran.locks.timeouts, ran.locks.held), (0, 0), "{scenario:?}");
    }
    println!("{committed} committed, {conflicts} conflicts, {waits} waits, {inherited} inherited");
    assert!(committed > 100 && conflicts > 10 && waits > 50 && inherited > 20);
}

#[test]
fn whatever_interleaves_is_strictly_serializable() {
    all_have_an_order(0..6);
}

/// Readers that take no locks see what some order of the transactions leaves, in real time.
#[test]
fn reads_without_locks_fit_into_the_order() {
    let (mut unlocked, mut reads) = (0, 0);
    for seed in 0..12 {
        // More keys than fit a page, and in every third more pages than frames.
        let keys = if seed % 3 == 0 { 400 } else { 40 };
        let scenario = Scenario { keys, each: 30, ..Scenario::new(seed, Mix::LOCKS) };
        let scenario = Scenario { unlocked: true, early_release: seed % 2 == 0, ..scenario };
        let ran = scenario.run();
        let order = ran.history.check(Serializable);
        reads += order.unwrap_or_else(|found| panic!("{scenario:?}: {found}")).len() as u64;
        unlocked += ran.unlocked;
    }
    println!("{unlocked} of {reads} transactions read without locks");
    assert!(unlocked > 100, "{unlocked} of {reads} transactions read without locks");
}

#[test]
fn what_was_read_without_locks_survives_a_crash() {
    let scenario = Scenario { keys: 24, unlocked: true, ..Scenario::new(7, Mix::LOCKS) };
    let (points, states) = survives(&scenario, 4);
    assert!(points > 20 && states > 100, "{points} points, {states} states");
}

#[test]
fn transactions_in_the_order_of_keys_have_no_victims() {
    for seed in 0..20 {
        let scenario =
            Scenario { plan: Plan::Ascending, keys: 8, ..Scenario::new(seed, Mix::NONE) };
        let ran = scenario.run();
        assert_eq!((ran.locks.victims, ran.conflicts, ran.locks.held), (0, 0, 0), "seed {seed}");
        ran.history.check(Serializable).unwrap_or_else(|found| panic!("seed {seed}: {found}"));
    }
}

pub(crate) fn survives(scenario: &Scenario, bound: u64) -> (u64, u64) {
    let ran = Scenario { crashes: true, ..*scenario }.run();
    ran.history.check(Serializable).unwrap_or_else(|found| panic!("{scenario:?}: {found}"));
    let trace = ran.trace.as_ref().expect("it was recorded");
    let mut replay = DiskReplay::new(trace);
    let (mut points, mut states) = (0, 0);
    while let Some(point) = replay.next_point() {
        points += 1;
        let (noted, position) = (point.last_note.unwrap_or(0), point.position);
        let visited = point.for_each_state(bound, 5, |image| {
            let found = left(image.clone()).unwrap_or_else(|error| panic!("{scenario:?}: {error}"));
            let order = ran.history.recovered(Serializable, noted, &found);
            order.unwrap_or_else(|why| panic!("{scenario:?}, before event {position}: {why}"));
        });
        states += visited.visited;
    }
    (points, states)
}

#[test]
fn a_crash_leaves_a_prefix_of_what_interleaved() {
    let (mut points, mut states) = (0, 0);
    for scenario in scenarios(100..101, Mix::LOCKS) {
        let (more_points, more_states) = survives(&scenario, 4);
        points += more_points;
        states += more_states;
    }
    println!("{points} crash points, {states} states");
    assert!(points > 100 && states > 300, "{points} points, {states} states");
}
