//! FAST and FASH with the option `checksummed`: one fence a commit, and checksums that say after a
//! crash whether it came in whole. Power cuts at every fence, kills at stores, and each flush and
//! fence left out.

use crate::common::Explained;
use crate::points::{at_kills, at_points};
use faults::explorer::{Again, Effort, Scenario};
use faults::{plot::Plot, pool::PoolMedium};
use perdura::EngineKind;
use sim::{Event, Trace};

pub(crate) const ENGINES: [EngineKind; 2] = [EngineKind::Fast, EngineKind::Fash];

pub(crate) fn plot(engine: EngineKind, seed: u64, checksummed: u64) -> Plot {
    let plot = Plot::new(engine, seed, 40, 60);
    Plot { options: plot.options.set("checksummed", checksummed), ..plot }
}

/// The part of a trace from the note of the creation to that of the last transaction.
pub(crate) fn work(trace: &Trace) -> Trace {
    let noted = |event: &Event| matches!(event, Event::Note(_));
    let first = trace.events.iter().position(|one| noted(&one.event)).expect("a note");
    let last = trace.events.iter().rposition(|one| noted(&one.event)).expect("a note");
    Trace { events: trace.events[first..last].to_vec(), ..trace.clone() }
}

fn fences(scenario: &Scenario<PoolMedium>) -> usize {
    let events = work(&scenario.trace).events;
    events.iter().filter(|one| matches!(one.event, Event::Fence)).count()
}

const ZEROS: &str = "a larger log is emptied in room that was never used: zeros anyway";
pub(crate) const NEW_SEGMENT: Explained = (
    "pages.rs",
    "add_segment",
    "lane.fence_flushed()",
    "after a mini-transaction of the heap, for a user of the same lane who changes its words in another way",
);
pub(crate) const FLUSHES_OF_FASH: [Explained; 1] =
    [("alternate.rs", "create", "lines.flush", ZEROS)];
pub(crate) const FENCES_OF_FASH: [Explained; 3] = [
    NEW_SEGMENT,
    ("alternate.rs", "create", ".fence()", ZEROS),
    ("alternate.rs", "settle", ".fence()", "rare in these scenarios; those of its crate show it"),
];

#[test]
fn commits_with_one_fence_survive_crashes() {
    for engine in ENGINES {
        let (two, one) = (plot(engine, 14, 0).run_in_pool(), plot(engine, 14, 1).run_in_pool());
        // The option is that of the scenario. Some transactions abort, some change pages that have
        // to be split.
        let (more, less) = (fences(&two), fences(&one));
        assert!(less + one.models.len() / 2 <= more, "{engine}: {less} of {more} fences");
        let effort = at_points(Effort::once(20).then(Again::every(500, 2)));
        let explored = one.explore(None, effort);
        println!("{engine}: {less} of {more} fences, {explored:?}");
        assert_eq!(explored.violation, None, "{engine}");
        assert!(explored.points > 5 && explored.states > 100, "{engine}: {explored:?}");
        let kills = one.explore_kills(None, at_kills(7));
        assert_eq!(kills.violation, None, "{engine}, killed");
    }
}
