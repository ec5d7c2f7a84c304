//! The flushes and fences of commits with one fence.

use faults::explorer::Effort;
use faults::mutation::{Defect, Mutation};
use faults::sweep::sweep;
use perdura::EngineKind;
use pm::Site;
use sim::Trace;

use crate::checksummed::{ENGINES, FENCES_OF_FASH, FLUSHES_OF_FASH, NEW_SEGMENT, plot, work};
use crate::common::{Explained, unexplained};

/// Without one of the flushes and fences of its transactions
/// `checksummed::commits_with_one_fence_survive_crashes` has to fail.
#[test]
#[ignore = "a build of .ci/run runs it"]
fn the_test_fails_without_any_one_flush_or_fence() {
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
