//! SOFORT with its indexes in persistent memory: power cuts at every fence, and kills at stores.

use crate::points::{at_kills, at_points};
use faults::explorer::{Again, Effort};
use faults::plot::Plot;
use perdura::{EngineKind, Placement};

#[test]
#[ignore = "a build of .ci/run runs it"]
fn indexes_in_persistent_memory_survive_crashes() {
    for percent in [50, 100] {
        let plot = Plot::new(EngineKind::Sofort, 21, 30, 40);
        let options = plot.options.placement(Placement::Percent(percent));
        let scenario = Plot { options, ..plot }.run_in_pool();
        let explored =
            scenario.explore(None, at_points(Effort::once(6).then(Again::every(500, 2))));
        println!("{percent} %: {explored:?}");
        assert_eq!(explored.violation, None, "{percent} %");
        assert!(explored.points > 5 && explored.states > 100, "{percent} %: {explored:?}");
        let kills = scenario.explore_kills(None, at_kills(13));
        assert_eq!(kills.violation, None, "{percent} %, killed");
    }
}
