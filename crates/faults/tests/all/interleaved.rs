//! Partitions whose transactions interleave, in threads that hand their turn over at seeded points:
//! power cuts at every fence or sync, kills between any two stores or calls. See
//! `faults::interleaved`.

use crate::points::{at_kills, at_least, at_points, some_of};
use faults::explorer::{Again, Effort};
use faults::interleaved::{Interleaved, InterleavedScenario};
use faults::medium::Medium;
use faults::mutation::{Code, Defect, Mutation, Where};
use perdura::EngineKind;

/// The seeds of the scenarios.
pub(crate) const SEEDS: [u64; 2] = [1, 2];

/// Looks at a scenario; crashes again from every so many of its states.
pub(crate) fn survives<M: Medium>(
    engine: EngineKind,
    seed: u64,
    scenario: &InterleavedScenario<M>,
    every: u64,
) {
    let transactions: Vec<_> = scenario.models.iter().map(|models| models.len() - 1).collect();
    let changes = if engine.traits().needs_files() { 10 } else { 50 };
    let effort = Effort::once(6).then(Again::every(every, 1));
    let explored = scenario.explore(None, at_points(effort));
    println!(
        "{engine}, seed {seed}: {transactions:?} transactions, {} changes of thread, {explored:?}",
        scenario.handed_over
    );
    assert_eq!(explored.violation, None, "{engine}, seed {seed}");
    assert!(scenario.handed_over > changes, "{engine}: {} changes of thread", scenario.handed_over);
    assert!(explored.points > at_least(20, 3) && explored.nested > 0, "{explored:?}");
    let kills =
        scenario.explore_kills(at_kills(if engine.traits().needs_files() { 3 } else { 97 }));
    assert_eq!(kills.violation, None, "{engine}, seed {seed}");
    assert!(kills.states > at_least(20, 3), "{kills:?}");
}

pub(crate) fn survives_in_pool(engine: EngineKind, transactions: usize) {
    for &seed in some_of(&SEEDS) {
        survives(engine, seed, &Interleaved::new(engine, seed, transactions).run_in_pool(), 4_000);
    }
}

#[test]
fn partitions_of_nvm_inp_that_interleave_survive_crashes() {
    survives_in_pool(EngineKind::NvmInp, 60);
}

/// Few keys, so that most statements find theirs.
pub(crate) fn with_statements(seed: u64) -> Interleaved {
    Interleaved { statements: true, keys: 6, ..Interleaved::new(EngineKind::NvmInp, seed, 90) }
}

#[test]
fn partitions_of_nvm_log_that_interleave_survive_crashes() {
    survives_in_pool(EngineKind::NvmLog, 40);
}

/// A record does not depend on the machine.
#[test]
fn the_same_seed_gives_the_same_interleaving() {
    let record = || {
        let trace = Interleaved::new(EngineKind::NvmInp, 3, 30).run_in_pool().trace;
        let mut threads: Vec<u32> = Vec::new();
        let mut number = |thread| {
            threads.iter().position(|known| *known == thread).unwrap_or_else(|| {
                threads.push(thread);
                threads.len() - 1
            })
        };
        let events = trace.events.iter();
        events.map(|one| format!("{} {:?}", number(one.thread), one.event)).collect::<Vec<_>>()
    };
    let (first, second) = (record(), record());
    assert!(first == second, "{} events and {}", first.len(), second.len());
}

const fn code(file: &'static str, function: &'static str, text: &'static str) -> Where {
    Where::Code(Code { file, function, text })
}

/// Faults that only another thread's transactions could hide.
#[test]
fn faults_between_partitions_are_noticed() {
    const LANE: &str = "heap/src/lane.rs";
    let fence = Defect::FenceOfAnotherThread;
    let all = |engine, at| {
        [
            (engine, Mutation { defect: fence, at }),
            // A chunk that is used before its reservation is durable.
            (
                engine,
                Mutation { defect: Defect::NoFence, at: code(LANE, "carve", "memory.fence()") },
            ),
            (
                engine,
                Mutation { defect: Defect::NoFlush, at: code(LANE, "carve", "flush_word(at)") },
            ),
            (engine, Mutation { defect: Defect::NoStore, at: code(LANE, "carve", "HIGH_WATER") }),
        ]
    };
    let commit = code("engines/src/undo/engine.rs", "commit", "memory.fence()");
    let batch = code("engines/src/nvm_cow.rs", "write_batch", "self.memory.fence()");
    let faults = [
        all(EngineKind::NvmInp, commit),
        all(EngineKind::NvmLog, commit),
        all(EngineKind::NvmCow, batch),
    ];
    let scenarios = faults.into_iter().flatten();
    let scenarios =
        scenarios.map(|(engine, fault)| (engine, Interleaved::new(engine, 1, 60), fault));
    let at = code("engines/src/nvm_inp.rs", "statement", "fence_for");
    let fault = Mutation { defect: fence, at };
    let of_statements = (EngineKind::NvmInp, with_statements(1), fault);
    let mut missed = Vec::new();
    for (engine, interleaved, fault) in scenarios.chain([of_statements]) {
        let scenario = interleaved.run_in_pool();
        let explored = scenario.explore(Some(&fault), Effort::once(10));
        println!("{engine}, {fault:?}: {} changed, {} states", explored.injected, explored.states);
        if explored.violation.is_none() {
            missed.push((engine, fault, explored.injected));
        }
    }
    assert!(missed.is_empty(), "not noticed: {missed:#?}");
}
