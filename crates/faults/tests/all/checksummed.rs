//! FAST and FASH with the option `checksummed`: one fence a commit, and checksums that say after a
//! crash whether it came in whole. Power cuts at every fence, kills at stores, and each flush and
//! fence left out.

use crate::common::{Explained, unexplained};
use crate::points::{at_kills, at_points};
use faults::explorer::{Again, Effort, Scenario};
use faults::mutation::{Defect, Mutation};
use faults::{plot::Plot, pool::PoolMedium, sweep::sweep};
use perdura::EngineKind;
use pm::Site;
use sim::{Event, Trace};

const ENGINES: [EngineKind; 2] = [EngineKind::Fast, EngineKind::Fash];

fn plot(engine: EngineKind, seed: u64, checksummed: u64) -> Plot {
    let plot = Plot::new(engine, seed, 40, 60);
    Plot { options: plot.options.set("checksummed", checksummed), ..plot }
}

/// The part of a trace from the note of the creation to that of the last transaction.
fn work(trace: &Trace) -> Trace {
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
const NEW_SEGMENT: Explained = (
    "pages.rs",
    "add_segment",
    "lane.fence_flushed()",
    "after a mini-transaction of the heap, for a user of the same lane who changes its words in another way",
);
const FLUSHES_OF_FASH: [Explained; 1] = [("alternate.rs", "create", "lines.flush", ZEROS)];
const FENCES_OF_FASH: [Explained; 3] = [
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

/// Without one of the flushes and fences of its transactions the test above has to fail.
#[test]
#[ignore = "takes seconds; CI runs it"]
fn whole_the_test_fails_without_any_one_flush_or_fence() {
    // The heap has a test of its own.
    let of_work = |defect, trace: &Trace| -> Vec<Site> {
        let sites = Mutation::sites_in_memory(defect, &work(trace));
        sites.into_iter().filter(|site| site.file().contains("slotted/src")).collect()
    };
    for engine in ENGINES {
        let scenarios = [14, 15].map(|seed| plot(engine, seed, 1).run_in_pool());
        let [one, other] = &scenarios;
        let efforts = [
            (one, Effort::once(2)),
            (other, Effort::once(2)),
            (one, Effort::once(40)),
            (other, Effort::once(40)),
        ];
        for defect in [Defect::NoFlush, Defect::NoFence] {
            let swept = sweep(&efforts, defect, of_work);
            println!("{engine}, {defect:?}: {} places", swept.places);
            assert!(swept.places > 0, "{engine}, {defect:?}");
            let explained: &[Explained] = match (engine, defect) {
                (EngineKind::Fash, Defect::NoFlush) => &FLUSHES_OF_FASH,
                (EngineKind::Fash, _) => &FENCES_OF_FASH,
                (_, Defect::NoFence) => &[NEW_SEGMENT],
                _ => &[],
            };
            let (open, stale) = unexplained(swept.unnoticed, explained);
            assert_eq!((open, stale), (vec![], vec![]), "{engine}, {defect:?}");
        }
    }
}
