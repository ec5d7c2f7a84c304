//! Policies of locks and commits that are wrong are noticed: as an anomaly with its name, as a
//! victim where there can be none, or as an operation that fails.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use faults::{history::Rule::Serializable, sharing::Mix};
use paged::flaw::Flaw;
use paged::ids::{Lsn, TreeNo};
use paged::lock::{LockOptions, LockTable, Mode, Name};
use paged::threads::Baton;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sim::DiskReplay;

use super::scenario::{Plan, Ran, Scenario, left};

/// Looks at few keys and changes them.
const CHANGES: Mix = Mix { change: 1, longest: 2, ..Mix::NONE };
/// Looks at the same keys again and again.
const LOOKS: Mix = Mix { get: 6, change: 1, longest: 9, ..Mix::NONE };
/// Ranges, and rows that come and go.
const RANGES: Mix = Mix { scan: 3, insert: 2, delete: 2, longest: 4, ..Mix::NONE };
/// Changes that are undone in part.
const SAVEPOINTS: Mix = Mix { get: 2, change: 2, insert: 1, savepoint: 4, ..Mix::NONE };

/// A scenario with a policy that is wrong.
fn with(flaw: Flaw, mix: Mix) -> Scenario {
    Scenario { keys: 4, flaw: Some(flaw), ..Scenario::new(0, mix) }
}

/// The anomaly that a scenario shows, its crashes included if it records any; or the panic that it
/// ends in.
fn found_in(scenario: &Scenario) -> Option<String> {
    let ran = match catch_unwind(AssertUnwindSafe(|| scenario.run())) {
        Ok(ran) => ran,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            return Some(text.unwrap_or_else(|| "a panic without a message".into()));
        }
    };
    match ran.history.check(Serializable) {
        Err(violation) => Some(violation.to_string()),
        Ok(_) => crashes(&ran),
    }
}

fn crashes(ran: &Ran) -> Option<String> {
    let mut replay = DiskReplay::new(ran.trace.as_ref()?);
    let mut found = None;
    while found.is_none() {
        let Some(point) = replay.next_point() else { break };
        let noted = point.last_note.unwrap_or(0);
        point.for_each_state(2, 5, |image| {
            let contents = left(image.clone()).expect("it opens");
            let order = ran.history.recovered(Serializable, noted, &contents);
            found = found.take().or(order.err().map(|violation| violation.to_string()));
        });
    }
    found
}

/// One of so many seeds has a scenario that shows the anomaly. A flaw has other faces, too:
/// scenarios before it may show them.
#[track_caller]
fn noticed(scenario: Scenario, name: &str, seeds: u64) {
    // Nothing of it shows when nothing is wrong.
    for seed in 0..seeds {
        let scenario = Scenario { seed, ..scenario };
        let right = Scenario { flaw: None, ..scenario };
        assert_eq!(found_in(&right), None, "{right:?}");
        let Some(found) = found_in(&scenario) else { continue };
        println!("{:?}, seed {seed}: {found}", scenario.flaw);
        if found.contains(name) {
            return;
        }
    }
    panic!("{:?}: no {name} in {seeds} seeds", scenario.flaw);
}

#[test]
fn a_lost_update_is_noticed() {
    noticed(with(Flaw::ReadLockLetGo, CHANGES), "lost update", 10);
}

#[test]
fn a_non_repeatable_read_is_noticed() {
    noticed(with(Flaw::ReadLockLetGo, LOOKS), "non-repeatable read", 10);
}

#[test]
fn a_write_skew_is_noticed() {
    let scenario = with(Flaw::ReadLockLetGo, Mix::NONE);
    noticed(Scenario { plan: Plan::Skewed, threads: 2, ..scenario }, "write skew (G2)", 10);
}

#[test]
fn a_dirty_read_is_noticed() {
    noticed(with(Flaw::ReadNotLocked, LOOKS), "dirty read (G1a", 20);
}

#[test]
fn a_dirty_write_is_noticed() {
    let scenario = with(Flaw::WriteNotLocked, Mix::NONE);
    let scenario = Scenario { plan: Plan::Blind, aborts: 0, keys: 8, ..scenario };
    noticed(scenario, "dirty write (G0)", 200);
}

#[test]
fn a_phantom_is_noticed() {
    noticed(with(Flaw::GapNotLocked, RANGES), "phantom", 10);
}

#[test]
fn a_commit_after_a_conflict_is_noticed() {
    let scenario = Scenario { heedless: true, ..with(Flaw::DoomedCommits, CHANGES) };
    noticed(scenario, "dirty read (G1a", 10);
}

#[test]
fn what_a_savepoint_keeps_is_noticed() {
    noticed(with(Flaw::SavepointIgnored, SAVEPOINTS), "dirty read (G1a", 10);
}

#[test]
fn a_kept_lock_that_was_taken_is_noticed() {
    let scenario = Scenario { escalate_after: 0, ..with(Flaw::KeptThoughTaken, RANGES) };
    noticed(scenario, "something that no transaction has written", 40);
}

#[test]
fn dirty_acknowledgements_are_noticed() {
    for flaw in [Flaw::AcknowledgedEarly, Flaw::ReaderIndependent] {
        let scenario = Scenario { crashes: true, each: 6, lag: 100, ..with(flaw, LOOKS) };
        noticed(scenario, "dirty acknowledgement", 5);
    }
    let scenario = with(Flaw::GoneGhostForgotten, Mix::NONE);
    let scenario = Scenario { plan: Plan::Vanishing, crashes: true, each: 8, lag: 200, ..scenario };
    // What a scan has not met is there again.
    noticed(scenario, "phantom", 60);
}

/// A scenario in which readers try it without locks.
fn unlocked(flaw: Flaw, mix: Mix) -> Scenario {
    Scenario { unlocked: true, each: 30, lag: 100, keys: 40, ..with(flaw, mix) }
}

/// Changes of pages while they are looked at, and of their rows.
const UNLOCKED: Mix =
    Mix { get: 4, scan: 1, change: 3, insert: 1, delete: 1, longest: 4, ..Mix::NONE };

#[test]
fn wrong_reads_without_locks_are_noticed() {
    noticed(unlocked(Flaw::HorizonPastOpen, UNLOCKED), "dirty read (G1a", 20);
    noticed(unlocked(Flaw::PageLsnIgnored, UNLOCKED), "non-repeatable read", 20);
    let scenario = unlocked(Flaw::HorizonPastDurable, UNLOCKED);
    noticed(Scenario { crashes: true, each: 6, ..scenario }, "dirty acknowledgement", 20);
}

/// No anomaly comes of it: transactions are victims of deadlocks that there need not be.
#[test]
fn victims_of_an_update_that_is_read_as_any_row_are_noticed() {
    let victims = |flaw| {
        let scenario = Scenario { plan: Plan::Ascending, keys: 8, ..Scenario::new(1, Mix::NONE) };
        Scenario { flaw, ..scenario }.run().locks.victims
    };
    assert_eq!(victims(None), 0);
    assert!(victims(Some(Flaw::UpdateAsShared)) > 0);
}

/// Locks rows in the order of their keys, over and over: there can be no circle. Returns the number
/// of victims.
fn victims_in_order(seed: u64, flaw: Option<Flaw>) -> u64 {
    let baton = Arc::new(Baton::new(seed).with(flaw));
    let look_after = Duration::from_micros(2);
    let locks =
        LockTable::new(Arc::clone(&baton), LockOptions { look_after, ..LockOptions::default() });
    let ages = AtomicU64::new(1);
    baton.run(3, |thread| {
        let mut session = locks.session();
        let mut random = SmallRng::seed_from_u64(seed * 4 + thread as u64);
        for _ in 0..60 {
            session.begin(ages.fetch_add(1, Ordering::Relaxed));
            for key in (0..4_u64).filter(|_| random.random()) {
                let name = Name::row(TreeNo(1), &key.to_be_bytes());
                if session.lock(name, Mode::Exclusive).is_err() {
                    break;
                }
            }
            session.release(Lsn::NONE);
        }
    });
    assert_eq!(locks.counts().held, 0, "seed {seed}");
    locks.counts().victims
}

/// The same.
#[test]
fn victims_of_a_circle_that_is_over_are_noticed() {
    let victims = |flaw| (0..40).map(|seed| victims_in_order(seed, flaw)).sum::<u64>();
    assert_eq!(victims(None), 0);
    let wrong = victims(Some(Flaw::EdgeNotRechecked));
    println!("{wrong} victims");
    assert!(wrong > 0);
}
