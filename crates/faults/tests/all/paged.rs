//! The paged store over each of its logs: what threads, a crash, a crash in recovery leave of it. See
//! `faults::paged`.

use faults::explorer::{Again, Effort};
use faults::medium::Part;
use faults::paged::catalogue::FAULTS;
use faults::paged::examine::examine;
use faults::paged::stage::LogKind;
use faults::paged::tell::{Plan, Told};

/// Some of the crash points of the first stories.
fn survives(log: LogKind, stride: u64) {
    let mut all = Told::default();
    let (mut states, mut nested) = (0, 0);
    for seed in 1..5 {
        let story = Plan::new(log, seed).tell();
        let story = story.unwrap_or_else(|why| panic!("{}, seed {seed}: {why}", log.name()));
        let part = Part { from: seed, to: u64::MAX, stride };
        let again = Again { per_mille: 500, ..Again::every(20, 2) };
        let effort = Effort { part, ..Effort::once(4).then(again) };
        let explored = story.explore(effort);
        assert_eq!(explored.violation, None, "{}, seed {seed}", log.name());
        println!("{}, seed {seed}: {:?}, {explored:?}", log.name(), story.told);
        (states, nested) = (states + explored.states, nested + explored.nested);
        all.committed += story.told.committed;
        all.conflicts += story.told.conflicts;
        all.rolled_back += story.told.rolled_back;
        all.evictions += story.told.evictions;
        all.waits += story.told.waits;
    }
    println!("{}: {all:?}, {states} states, {nested} in recovery", log.name());
    assert!(states > 200 && nested > 100, "{states} states, {nested} in recovery");
    assert!(all.committed > 150 && all.conflicts > 2 && all.rolled_back > 5, "{all:?}");
    assert!(all.evictions > 5 && all.waits > 30, "{all:?}");
}

#[test]
fn threads_over_the_central_log_survive_crashes() {
    survives(LogKind::Central, 7);
}

#[test]
fn threads_over_flush_on_insert_survive_crashes() {
    survives(LogKind::OnInsert, 47);
}

#[test]
fn threads_over_flush_on_commit_survive_crashes() {
    survives(LogKind::OnCommit, 23);
}

/// As many states as `docs/reliability.md` asks of every build.
fn examined(log: LogKind) {
    let examined = examine(log, 1, 20_000, 2_000).unwrap_or_else(|violation| panic!("{violation}"));
    println!("{}: {examined:?}", log.name());
}

#[test]
#[ignore = "takes seconds; CI runs it"]
fn whole_central_log() {
    examined(LogKind::Central);
}

#[test]
#[ignore = "takes seconds; CI runs it"]
fn whole_flush_on_insert() {
    examined(LogKind::OnInsert);
}

#[test]
#[ignore = "takes seconds; CI runs it"]
fn whole_flush_on_commit() {
    examined(LogKind::OnCommit);
}

/// The record does not depend on the machine.
#[test]
fn the_same_seed_tells_the_same_story() {
    for log in LogKind::ALL {
        let events = || {
            let story = Plan { transactions: 8, ..Plan::new(log, 3) }.tell().expect("a story");
            let memory = story.trace.memory.events.into_iter();
            let files = story.trace.files.events.into_iter();
            let memory: Vec<_> =
                memory.map(|one| format!("{} {:?}", one.number, one.event)).collect();
            let files: Vec<_> =
                files.map(|one| format!("{} {:?}", one.number, one.event)).collect();
            (memory, files, story.history)
        };
        assert!(events() == events(), "{}", log.name());
    }
}

#[test]
#[ignore = "minutes"]
fn every_fault_is_noticed() {
    let mut missed = Vec::new();
    for fault in FAULTS {
        for log in fault.logs {
            match fault.notice(*log, 6) {
                Ok(found) => println!(
                    "{} over {}: seed {}, {} states: {}",
                    fault.name,
                    log.name(),
                    found.seed,
                    found.states,
                    found.what
                ),
                Err(injected) => missed.push((fault.name, log.name(), injected)),
            }
        }
    }
    assert!(missed.is_empty(), "not noticed (with the events that were changed): {missed:?}");
}
