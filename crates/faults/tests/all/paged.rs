//! The paged store over each of its logs: what threads, a crash, a crash in recovery leave of it.
//! See `faults::paged`.

use crate::common::{Explained, unexplained};
use crate::seeds::{again, first_seed};
use faults::explorer::{Again, Effort};
use faults::medium::Part;
use faults::mutation::{Code, Defect, Mutation, Where};
use faults::paged::examine::examine;
use faults::paged::left_out::LeftOut;
use faults::paged::run::{Plan, RunCounts};
use faults::paged::stage::LogKind;

/// Some of the crash points of the first scenarios.
fn survives(log: LogKind, stride: u64) {
    let mut all = RunCounts::default();
    let (mut states, mut nested) = (0, 0);
    for seed in 1..5 {
        let scenario = Plan::new(log, seed).run();
        let scenario = scenario.unwrap_or_else(|why| panic!("{}, seed {seed}: {why}", log.name()));
        let part = Part { from: seed, to: u64::MAX, stride };
        let again = Again { per_mille: 500, ..Again::every(20, 2) };
        let effort = Effort { part, ..Effort::once(4).then(again) };
        let explored = scenario.explore(effort);
        assert_eq!(explored.violation, None, "{}, seed {seed}", log.name());
        println!("{}, seed {seed}: {:?}, {explored:?}", log.name(), scenario.counts);
        (states, nested) = (states + explored.states, nested + explored.nested);
        all.committed += scenario.counts.committed;
        all.conflicts += scenario.counts.conflicts;
        all.rolled_back += scenario.counts.rolled_back;
        all.evictions += scenario.counts.evictions;
        all.waits += scenario.counts.waits;
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
pub(crate) fn examined(log: LogKind) {
    let examined = examine(log, first_seed(), 8_000, 1_000).unwrap_or_else(|violation| {
        let test = std::thread::current().name().map(again).unwrap_or_default();
        panic!("{violation}\nagain with: {test}")
    });
    println!("{}: {examined:?}", log.name());
}

/// The record does not depend on the machine.
#[test]
fn the_same_seed_gives_the_same_scenario() {
    for log in LogKind::ALL {
        let events = || {
            let scenario = Plan { transactions: 8, ..Plan::new(log, 3) }.run().expect("a scenario");
            let memory = scenario.trace.memory.events.into_iter();
            let files = scenario.trace.files.events.into_iter();
            let memory: Vec<_> =
                memory.map(|one| format!("{} {:?}", one.number, one.event)).collect();
            let files: Vec<_> =
                files.map(|one| format!("{} {:?}", one.number, one.event)).collect();
            (memory, files, scenario.history)
        };
        assert!(events() == events(), "{}", log.name());
    }
}

pub(crate) const fn left_out(
    defect: Defect,
    file: &'static str,
    function: &'static str,
    text: &'static str,
) -> Mutation {
    Mutation { defect, at: Where::Code(Code { file, function, text }) }
}

const INSERT: &str = "paged/src/log/nv/insert.rs";
const COMMIT: &str = "paged/src/log/nv/commit.rs";
pub(crate) const FORM: &str = "paged/src/log/nv/form.rs";
pub(crate) const AGAIN: &str = "paged/src/log/nv/restart.rs";

/// A flush, a fence and a sync of each log and of the pages, of those that [`LeftOut::sweep`] leaves
/// out.
#[test]
fn a_flush_fence_or_sync_that_is_left_out_is_noticed() {
    let sync = left_out(Defect::NoSync, "paged/src/log/central/flush.rs", "write_out", "file.sync");
    let pages = left_out(Defect::NoSync, "paged/src/pool/cleaner.rs", "write_batch", "file.sync");
    for (log, faults) in [
        (LogKind::Central, [sync, pages]),
        (
            LogKind::OnInsert,
            [
                left_out(Defect::NoFlush, INSERT, "insert", "memory.flush"),
                left_out(Defect::NoFence, INSERT, "insert", "memory.fence"),
            ],
        ),
        (
            LogKind::OnCommit,
            [
                left_out(Defect::NoFlush, COMMIT, "pass", "ring.set"),
                left_out(Defect::NoFence, COMMIT, "pass", "memory.fence"),
            ],
        ),
    ] {
        let left_out = LeftOut::new(log, 2, 41);
        for fault in faults {
            assert!(left_out.notice(&fault).is_some(), "{}: {fault:?}", log.name());
        }
    }
}

/// The places that may be left out.
pub(crate) const COPIED: Explained = (
    "central/open.rs",
    "open_at",
    "files.sync_directory()",
    "names are durable since the log was made; those of copied files may not be",
);
pub(crate) const CLEARED: Explained = (
    "nv/ring.rs",
    "clear",
    "self.memory.f",
    "an entry that is not cleared has the number of another round, and is set before that comes again; P2's \
     entries have no round, so it clears them (4.5)",
);

pub(crate) const SPACE: Explained = (
    "central/space.rs",
    "sync_all",
    "file.sync()",
    "space that was reserved counts on a medium that is full, which those of the scenarios never are: \
     central_crash.rs in crates/paged leaves it out",
);

pub(crate) fn each_place(log: LogKind, explained: &[Explained]) {
    let (left_out, mut unnoticed) = (LeftOut::new(log, 6, 23), Vec::new());
    for defect in [Defect::NoFlush, Defect::NoFence, Defect::NoSync] {
        let swept = left_out.sweep(defect);
        println!("{}, {defect:?}: {} places", log.name(), swept.places);
        unnoticed.extend(swept.unnoticed);
    }
    let (open, _) = unexplained(unnoticed, explained);
    assert!(open.is_empty(), "superfluous, or the scenarios are blind: {open:#?}");
}
