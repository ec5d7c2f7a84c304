//! A log manager under examination: scenarios with one seed after another, until as many states
//! have been looked at as are wanted.

use super::run::Plan;
use super::stage::LogKind;
use crate::explorer::{Again, Effort};

/// Crashes in recovery: from one in so many states, one for five of the first ones.
const AGAIN: Again = Again { per_mille: 200, ..Again::every(29, 2) };
/// States of a crash point.
const BOUND: u64 = 8;

/// The number of things that were looked at.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Examined {
    /// Scenarios.
    pub scenarios: u64,
    /// Fences and syncs in them.
    pub barriers: u64,
    /// Crash points.
    pub points: u64,
    /// States that crashes leave, distinct within a scenario.
    pub states: u64,
    /// States that crashes in a recovery leave.
    pub nested: u64,
}

/// Looks at the scenarios from a seed on until there were so many states, and so many of crashes in
/// recovery.
///
/// # Errors
/// The first violation.
pub fn examine(log: LogKind, first: u64, states: u64, nested: u64) -> Result<Examined, String> {
    let mut all = Examined::default();
    while all.states < states || all.nested < nested {
        let seed = first + all.scenarios;
        let at = |why: String| format!("{}, seed {seed}: {why}", log.name());
        let scenario =
            Plan::new(log, seed).run().map_err(|why| at(format!("without a crash: {why}")))?;
        let explored = scenario.explore(Effort::once(BOUND).then(AGAIN));
        all.scenarios += 1;
        all.barriers += explored.barriers;
        all.points += explored.points;
        all.states += explored.states;
        all.nested += explored.nested;
        if let Some(violation) = explored.violation {
            return Err(at(format!("{violation:#?}")));
        }
    }
    Ok(all)
}
