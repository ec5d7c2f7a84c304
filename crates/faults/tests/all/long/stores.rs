//! Every ordered store of the NVM engines left out in turn, by the place in the source that asks
//! for it. Left out means: it never persists. The program that runs sees what it stored, and so
//! does a process that is killed, but after a power cut the word is as it was before, until
//! something else stores there. So a place that is not noticed is a hint, whose loss costs nothing
//! that was promised and is repaired, or it is superfluous.
//!
//! `cargo test -p perdura-faults --test all -- --ignored --nocapture long::stores::`

use std::ops::{ControlFlow, Range};
use std::time::Instant;

use crate::common::{Explained, unexplained};
use faults::explorer::{Again, Effort, Scenario};
use faults::medium::{Medium, Part};
use faults::mutation::{Defect, Mutation, Where};
use faults::plot::Plot;
use faults::pool::PoolMedium;
use faults::scenario::{inserts_with_updates, lists_that_grow_again, two_operations_on_one_tuple};
use faults::short_scenarios::statements;
use faults::sweep::sweep_with;
use perdura::EngineKind;
use pm::Site;

/// The allocator's hints.
const TAKEN: Explained = (
    "heap/src/lane.rs",
    "carve",
    "memory.store(self.taken_at()",
    "for the process after a kill, which sees it whatever persists: the chunk's tag may be stored \
     and not durable then. After a power cut what the tag says is durable",
);

const HINT: Explained = (
    "heap/src/lane.rs",
    "carve",
    "memory.store(self.hint(",
    "says where to look first for free slots; without it all chunks are looked through",
);

/// NVM-InP's.
const CLOSED: Explained = (
    "engines/src/nvm_inp.rs",
    "close",
    "log.nothing_left",
    "says that nothing is left to do; without it opening does what is left again",
);

/// NVM-Log's.
const MEMTABLE_USE: Explained = (
    "engines/src/nvm_log.rs",
    "note",
    "log.note(&undo.memory",
    "how much the MemTable holds: it decides when that is frozen, and how large its filter becomes, \
     and nothing else",
);

const FILTER: Explained = (
    "storage/src/runs/filter.rs",
    "finish_filter",
    "mini_commit",
    "gives a run its filter, which is work put off: without it entries are looked for in the run \
     itself, and what the filter lies in is free",
);

/// NVM-CoW's.
const FINISHED: Explained = (
    "heap/src/mini.rs",
    "finish",
    "memory.store(header, 0);",
    "what mini-transactions change here (links of lists and the bits of their segments) nothing else \
     changes, and the next one takes the place of the record: applied again it changes nothing. \
     The other engines need it",
);

/// Crash points of a scenario from which one crashes again, to see what is lost of a recovery.
const POINTS: usize = 8;

/// Tuples of a scenario from which one does not crash again.
const MANY_TUPLES: usize = 1000;

/// Transactions after such a recovery: enough to change what it has changed.
const AFTER: usize = 8;

/// Places that store in the recovery from some of a scenario's states, each with numbers of crash
/// points after which it does.
fn sites_in_recovery(scenario: &Scenario<PoolMedium>) -> Vec<(Site, Vec<u64>)> {
    let mut sites: Vec<(Site, Vec<u64>)> = Vec::new();
    let part = Part { from: 3, to: u64::MAX, stride: 7 };
    let (mut point, mut position) = (part.from, None);
    PoolMedium::walk(&scenario.trace, 2, part, 5, &mut |state| {
        if position.replace(state.position).is_some_and(|before| before != state.position) {
            point += part.stride;
        }
        if state.acknowledged.is_none() {
            // It is not created yet.
            return ControlFlow::Continue(());
        }
        let (db, memory) = scenario.medium.open(state.image, true).expect("it opens");
        db.abandon();
        for site in Mutation::sites_in_memory(Defect::NoStore, &PoolMedium::stop(&memory)) {
            match sites.iter_mut().find(|(other, _)| *other == site) {
                Some((_, points)) if points.len() == POINTS || points.last() == Some(&point) => {}
                Some((_, points)) => points.push(point),
                None => sites.push((site, vec![point])),
            }
        }
        ControlFlow::Continue(())
    });
    sites
}

fn swept(engine: EngineKind, scenarios: &[(Scenario<PoolMedium>, u64)], explained: &[Explained]) {
    let in_scenario: Vec<Site> = scenarios
        .iter()
        .flat_map(|(scenario, _)| Mutation::sites_in_memory(Defect::NoStore, &scenario.trace))
        .collect();
    // With thousands of tuples each second crash takes too long, and recovery has no other places.
    let is_small = |scenario: &Scenario<PoolMedium>| scenario.models[0].items.len() < MANY_TUPLES;
    let in_recovery: Vec<_> = scenarios
        .iter()
        .map(
            |(scenario, _)| {
                if is_small(scenario) { sites_in_recovery(scenario) } else { Vec::new() }
            },
        )
        .collect();
    let mut places = in_scenario.clone();
    places.extend(in_recovery.iter().flatten().map(|(site, _)| site));
    // Small scenarios whole, of large ones every fifth crash point; then all of them.
    let glances = scenarios.iter().map(|(scenario, bound)| {
        let stride = if *bound > 8 { 1 } else { 5 };
        (scenario, Effort { part: Part { stride, ..Part::ALL }, ..Effort::once(*bound) })
    });
    let whole = scenarios.iter().map(|(scenario, bound)| (scenario, Effort::once(*bound)));
    let once: Vec<_> = glances.chain(whole).collect();
    // What the program leaves without the fault, too.
    let known: Vec<_> = once.iter().map(|(scenario, effort)| scenario.known(*effort)).collect();
    let once = |fault: &Mutation, range: Range<usize>| {
        once[range.clone()].iter().zip(&known[range]).any(|((scenario, effort), known)| {
            scenario.explore_beyond(known, fault, *effort).violation.is_some()
        })
    };
    let nested = |fault: &Mutation, (scenario, bound): &(Scenario<PoolMedium>, u64)| {
        let effort = Effort::once(*bound).then(Again::every(60, 1));
        scenario.explore(Some(fault), effort).violation.is_some()
    };
    // What is lost of a recovery is seen by crashes after those recoveries that come there.
    let again = |fault: &Mutation, site: Site| {
        scenarios.iter().zip(&in_recovery).any(|((scenario, _), sites)| {
            let points = sites.iter().filter(|(other, _)| *other == site).flat_map(|one| &one.1);
            points.into_iter().any(|from| {
                let part = Part { from: *from, to: from + 1, stride: 1 };
                let crash = Again { transactions: AFTER, ..Again::every(1, 1) };
                let effort = Effort { part, ..Effort::once(2).then(crash) };
                scenario.explore(Some(fault), effort).violation.is_some()
            })
        })
    };
    let swept = sweep_with(places, |site| {
        let begun = Instant::now();
        let fault = Mutation { defect: Defect::NoStore, at: Where::Site(site) };
        // Most places show soon. What has a reason is not looked for any longer: it is what no
        // effort finds.
        let is_explained =
            unexplained([format!("{}:{}", site.file(), site.line())], explained).0.is_empty();
        let in_scenario = in_scenario.contains(&site);
        let noticed = in_scenario && once(&fault, 0..scenarios.len())
            || again(&fault, site)
            || !is_explained
                && (in_scenario && once(&fault, scenarios.len()..2 * scenarios.len())
                    || scenarios
                        .iter()
                        .filter(|one| is_small(&one.0))
                        .any(|scenario| nested(&fault, scenario)));
        println!("{engine}: {site} {noticed}, {} s", begun.elapsed().as_secs());
        noticed
    });
    println!("{engine}: {} places store, {} unnoticed", swept.places, swept.unnoticed.len());
    let (open, stale) = unexplained(swept.unnoticed, explained);
    assert!(open.is_empty(), "{engine}: superfluous, or the tests are blind: {open:#?}");
    assert!(stale.is_empty(), "{engine}: noticed now, or gone: {stale:?}");
}

fn plot(engine: EngineKind, seed: u64, transactions: usize, keys: u64) -> Plot {
    Plot::new(engine, seed, transactions, keys)
}

#[test]
#[ignore = "scripts/long runs it"]
fn nvm_inp() {
    let engine = EngineKind::NvmInp;
    let scenarios = [
        (two_operations_on_one_tuple(engine, true), 60),
        (two_operations_on_one_tuple(engine, false), 60),
        (inserts_with_updates(engine), 4),
        (statements(engine, 16, 60), 4),
        (statements(engine, 17, 60), 4),
        (plot(engine, 14, 60, 3).run_in_pool(), 4),
        (plot(engine, 12, 60, 300).run_in_pool(), 4),
        (plot(engine, 11, 160, 60).run_in_pool(), 4),
    ];
    swept(engine, &scenarios, &[TAKEN, HINT, CLOSED]);
}

#[test]
#[ignore = "scripts/long runs it"]
fn nvm_cow() {
    let engine = EngineKind::NvmCow;
    let large_nodes = plot(engine, 15, 30, 20);
    let large_nodes =
        Plot { options: large_nodes.options.tune("tree_node_bytes", 512), ..large_nodes };
    let scenarios = [
        (plot(engine, 14, 60, 3).run_in_pool(), 4),
        (plot(engine, 12, 60, 300).run_in_pool(), 4),
        (large_nodes.run_in_pool(), 4),
        (plot(engine, 11, 120, 60).run_in_pool(), 4),
        (plot(engine, 13, 120, 60).groups_of(4).run_in_pool(), 4),
        (lists_that_grow_again(), 4),
    ];
    swept(engine, &scenarios, &[TAKEN, HINT, FINISHED]);
}

#[test]
#[ignore = "scripts/long runs it"]
fn nvm_log() {
    let engine = EngineKind::NvmLog;
    let scenarios = [
        (two_operations_on_one_tuple(engine, true), 60),
        (two_operations_on_one_tuple(engine, false), 60),
        (inserts_with_updates(engine), 4),
        (plot(engine, 14, 60, 3).run_in_pool(), 4),
        (plot(engine, 12, 60, 300).run_in_pool(), 4),
        (plot(engine, 11, 80, 60).run_in_pool(), 4),
    ];
    swept(engine, &scenarios, &[TAKEN, HINT, MEMTABLE_USE, FILTER]);
}
