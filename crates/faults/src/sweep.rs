//! Each flush, fence, ordered store or sync in the source left out in turn: either a scenario
//! fails, or the tests are blind there, or the instruction is superfluous.

use std::time::Instant;

use pm::Site;

use crate::explorer::{Effort, Scenario};
use crate::medium::Medium;
use crate::mutation::{Defect, Mutation, Where};
use crate::workers::in_parallel;

/// The findings of a sweep.
#[derive(Clone, Default, Debug)]
pub struct Swept {
    /// The number of places.
    pub places: usize,
    /// The places whose absence no scenario notices, as `file:line`.
    pub unnoticed: Vec<String>,
}

/// Puts `defect` into each place of the scenarios in turn; each scenario comes with how much of it
/// to look at.
pub fn sweep<M: Medium>(
    scenarios: &[(&Scenario<M>, Effort)],
    defect: Defect,
    sites: impl Fn(Defect, &M::Trace) -> Vec<Site>,
) -> Swept {
    let places =
        scenarios.iter().flat_map(|(scenario, _)| sites(defect, &scenario.trace)).collect();
    let known = in_parallel(scenarios.len(), |index| {
        let (scenario, effort) = scenarios[index];
        scenario.known(effort)
    });
    sweep_with(places, |site| {
        let (fault, begun) = (Mutation { defect, at: Where::Site(site) }, Instant::now());
        let noticed = scenarios.iter().zip(&known).position(|((scenario, effort), known)| {
            scenario.explore_beyond(known, &fault, *effort).violation.is_some()
        });
        println!(
            "{defect:?} at {site}: scenario {noticed:?}, {:.1} s",
            begun.elapsed().as_secs_f64()
        );
        noticed.is_some()
    })
}

/// Asks for each of the places in turn whether its absence is noticed.
pub fn sweep_with(mut places: Vec<Site>, noticed: impl Fn(Site) -> bool + Sync) -> Swept {
    places.sort_by_key(|site| (site.file(), site.line(), site.column()));
    places.dedup();
    let noticed = in_parallel(places.len(), |index| noticed(places[index]));
    let name = |site: &Site| format!("{}:{}", site.file(), site.line());
    let unnoticed = places.iter().zip(noticed).filter(|(_, noticed)| !noticed);
    Swept { places: places.len(), unnoticed: unnoticed.map(|(site, _)| name(site)).collect() }
}
