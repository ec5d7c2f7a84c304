//! Each flush, fence and sync of the store and its logs left out in turn, in what threads do, in
//! the recoveries from it and in those from kills: either a state is wrong, or the scenarios are
//! blind there, or it is superfluous.

use std::sync::OnceLock;
use std::time::Instant;

use pm::Site;
use sim::CombinedTrace;

use super::catalogue::efforts;
use super::killed::Kill;
use super::run::{Plan, Scenario};
use super::stage::LogKind;
use crate::explorer::{Effort, Known};
use crate::mutation::{Defect, Mutation, Where};
use crate::sweep::{Swept, sweep_with};
use crate::workers::in_parallel;

/// Seeds of the scenarios whose places are looked for.
const PLACES: usize = 3;

/// The scenarios over a log, with the ways in which they are looked at.
#[derive(Debug)]
pub struct LeftOut {
    log: LogKind,
    scenarios: Vec<Scenario>,
    /// The process is killed at one in so many fences and syncs.
    one_in: usize,
    /// The kills of each scenario, found when they are needed.
    kills: Vec<OnceLock<Vec<Kill>>>,
    /// The number of a scenario, an effort, and the states without a fault, found when they are
    /// needed.
    efforts: Vec<(usize, Effort, OnceLock<Known>)>,
}

impl LeftOut {
    /// Runs the scenarios with the first few seeds. The process will be killed at one in so many
    /// fences and syncs.
    ///
    /// # Panics
    /// One goes wrong though nothing is left out.
    pub fn new(log: LogKind, seeds: u64, one_in: usize) -> Self {
        let scenarios = in_parallel(seeds as usize, |index| {
            let seed = index as u64 + 1;
            let ran = Plan::new(log, seed).run();
            ran.unwrap_or_else(|why| panic!("{}, seed {seed}: {why}", log.name()))
        });
        let kills = scenarios.iter().map(|_| OnceLock::new()).collect();
        let efforts = efforts().into_iter();
        let efforts = efforts.flat_map(|effort| {
            (0..scenarios.len()).map(move |scenario| (scenario, effort, OnceLock::new()))
        });
        Self { log, one_in, kills, efforts: efforts.collect(), scenarios }
    }

    /// The kills of a scenario.
    ///
    /// # Panics
    /// A power cut after a kill goes wrong though nothing is left out.
    fn kills(&self, scenario: usize) -> &[Kill] {
        self.kills[scenario].get_or_init(|| {
            let kills = self.scenarios[scenario].kills(self.one_in);
            kills.unwrap_or_else(|why| panic!("{}, seed {}: {why}", self.log.name(), scenario + 1))
        })
    }

    /// Looks for a fault at crashes of the scenarios; returns how it shows.
    ///
    /// # Panics
    /// As [`Self::new`].
    pub fn notice(&self, fault: &Mutation) -> Option<String> {
        let found = self.efforts.iter().find_map(|(scenario, effort, known)| {
            let scenario = &self.scenarios[*scenario];
            let known = known.get_or_init(|| scenario.known(*effort));
            scenario.explore_beyond(known, fault, *effort).violation
        });
        found.map(|violation| violation.what)
    }

    /// Looks for a fault of recoveries at power cuts after kills; returns how it shows.
    ///
    /// # Panics
    /// As [`Self::new`].
    pub fn notice_after_kills(&self, fault: &Mutation) -> Option<String> {
        let all = self.scenarios.iter().enumerate();
        let mut all = all.flat_map(|(number, scenario)| {
            self.kills(number).iter().map(move |kill| (scenario, kill))
        });
        let found =
            all.find_map(|(scenario, kill)| scenario.explore_kill(kill, Some(fault)).violation);
        found.map(|violation| violation.what)
    }

    /// The places where the first scenarios, and what comes after them, flush, fence or sync, in
    /// their order and perhaps more than once.
    fn places(&self, defect: Defect) -> Vec<Site> {
        let mut sites = Vec::new();
        let mut add = |trace: &CombinedTrace| {
            sites.extend(match defect {
                Defect::NoSync => Mutation::sites_in_files(defect, &trace.files),
                _ => Mutation::sites_in_memory(defect, &trace.memory),
            });
        };
        for (number, scenario) in self.scenarios.iter().enumerate().take(PLACES) {
            scenario.recoveries(50).expect("it recovers").iter().for_each(&mut add);
            self.kills(number).iter().for_each(|kill| add(&kill.next));
            add(&scenario.trace);
        }
        sites
    }

    /// Leaves out what is flushed, fenced or synced in each place in turn.
    ///
    /// # Panics
    /// As [`Self::new`].
    pub fn sweep(&self, defect: Defect) -> Swept {
        sweep_with(self.places(defect), |site| {
            let (fault, begun) = (Mutation { defect, at: Where::Site(site) }, Instant::now());
            let found = self.notice_after_kills(&fault).or_else(|| self.notice(&fault));
            let (name, seconds) = (self.log.name(), begun.elapsed().as_secs_f64());
            let said = found.as_deref().unwrap_or("NOT NOTICED");
            println!("{name}, {defect:?} at {site}, {seconds:.1} s: {said}");
            found.is_some()
        })
    }
}
