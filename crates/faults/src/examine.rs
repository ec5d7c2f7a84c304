//! An engine under examination: the standard scenario, then random ones, until as many states have
//! been looked at as are wanted, half of them of random scenarios; and the shortest scenario that
//! fails.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use perdura::{DurableIn, EngineKind, Placement, Unfinished};
use serde::Serialize;

use crate::catalogue::Fault;
use crate::combined::CombinedMedium;
use crate::explorer::{Again, Effort, Explored, Scenario, Violation, Visited, without_panic};
use crate::files::FileMedium;
use crate::medium::{Medium, Part};
use crate::plot::{Plot, STANDARD, Workload};
use crate::promise;
use crate::scenario::{inserts_with_updates, two_operations_on_one_tuple};
use crate::script;
use crate::short_scenarios::statements;
use crate::work::Work;
use crate::workers::in_parallel;

/// Into how many pieces the standard scenario is cut. It has nothing to do with the number of
/// cores: what is looked at is the same everywhere.
const PARTS: u64 = 8;
/// Random scenarios that are run in one batch.
const ROUND: u64 = 4;
/// States of a crash point, unless the settings say otherwise. Some are always looked at, whatever
/// the bound: every two lines in all four combinations.
pub const BOUND: u64 = 12;
/// Crash points that a scenario has at most which is looked at closely for a fault.
const SHORTEST: u64 = 200;
/// Lost stores that are shown of a violation.
const MOST_LINES: usize = 20;
/// The strides of kills: one in so many is looked at of a random scenario, and of the standard one,
/// which is long.
const KILL_STRIDES: [u64; 2] = [29, 97];

/// The scenarios and states that are wanted.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The workload of the scenarios.
    pub workload: Workload,
    /// The engine.
    pub engine: EngineKind,
    /// The seed of the first random scenario; those after it have the next numbers.
    pub seed: u64,
    /// The least number of distinct states, of which random scenarios have half.
    pub states: u64,
    /// The least number of states of crashes in recovery; those in the first transactions after it
    /// come on top.
    pub nested: u64,
    /// A fault that the program is to have.
    pub inject: Option<&'static Fault>,
    /// States of a crash point, beyond those that are always looked at; usually [`BOUND`].
    pub bound: u64,
    /// Only the scenario with this seed.
    pub replay: Option<u64>,
    /// The number of transactions of each scenario; without one, its own.
    pub transactions: Option<usize>,
    /// The share of the engine's indexes that lies in persistent memory, in per cent; the engine
    /// has such a choice.
    pub placement: Option<u32>,
}

impl Settings {
    /// Returns the settings from the first seed on, with as few states as the standard scenario
    /// has.
    pub fn of(engine: EngineKind) -> Self {
        Self {
            workload: Workload::Scenario,
            engine,
            seed: 1,
            states: 0,
            nested: 0,
            inject: None,
            bound: BOUND,
            replay: None,
            transactions: None,
            placement: None,
        }
    }

    /// The random scenario of this number.
    fn plot(&self, seed: u64) -> Plot {
        let fault = self.inject.map(|fault| &fault.mutation);
        let plot = Plot::of(self.workload, self.engine, seed).with_fault(fault);
        let transactions = self.transactions.unwrap_or(plot.transactions);
        let plot = Plot { transactions, ..plot };
        match self.placement {
            Some(percent) => {
                let options = plot.options.placement(Placement::Percent(percent));
                Plot { options, ..plot }
            }
            None => plot,
        }
    }
}

/// The findings.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The workload of the scenarios.
    pub workload: &'static str,
    /// The engine.
    pub engine: &'static str,
    /// The seed, as in the settings; of the one scenario that was replayed, its own.
    pub seed: u64,
    /// Crash points: fences or syncs, and acknowledgements.
    pub crash_points: u64,
    /// Distinct states.
    pub states: u64,
    /// The number of [`Self::states`] of random scenarios.
    pub random_states: u64,
    /// Distinguishes the states of random scenarios from others.
    #[serde(skip)]
    pub visited: Visited,
    /// The number of [`Self::states`] that a kill of the process leaves.
    pub kill_states: u64,
    /// States that a second or third crash leaves.
    pub nested_states: u64,
    /// The number of [`Self::nested_states`] from crashes before the recovery had ended.
    pub in_recovery: u64,
    /// Scenarios that failed.
    pub violations: u64,
    /// The share of indexes in persistent memory, in per cent, if it was chosen.
    pub placement: Option<u32>,
    /// The fault.
    pub inject: Option<&'static str>,
    /// The number of times that the fault showed in what was recorded.
    pub injected: u64,
    /// The time that it took.
    pub seconds: f64,
    /// The first scenario that failed.
    pub first: Option<Found>,
}

/// A scenario that failed.
#[derive(Clone, Debug, Serialize)]
pub struct Found {
    /// The seed, for a replay. The short scenarios that look for faults have none.
    pub seed: Option<u64>,
    /// Its name.
    #[serde(rename = "story")]
    pub scenario: String,
    /// The least number of its transactions that suffices; 0 for a scenario without a seed.
    pub transactions: usize,
    /// The number of events before the crash.
    pub position: usize,
    /// The fault.
    pub what: String,
    /// The stores that the crash has lost, and who had done them.
    pub lost: Vec<String>,
}

/// Examines an engine. `done` counts states, for a display of the progress.
pub fn examine(settings: &Settings, done: &AtomicU64) -> Report {
    let started = Instant::now();
    let continues = settings.engine.traits().unfinished == Unfinished::Continued;
    let mut report = match (settings.workload, settings.engine.traits().durable_in) {
        (Workload::Scenario, DurableIn::Files) => {
            let short = |number| short_file_scenario(settings, number);
            run(settings, done, &|plot: &Plot| plot.run_in_files().0, &short)
        }
        (Workload::Scenario, DurableIn::Pool) if continues => {
            let short = |number| promise::short(settings.engine, number);
            run(settings, done, &promise::run_in_pool, &short)
        }
        (Workload::Scenario, DurableIn::Pool) => {
            let short = |number| short_pool_scenario(settings.engine, number);
            run(settings, done, &Plot::run_in_pool, &short)
        }
        (Workload::Scenario, DurableIn::Both) => {
            let short = |number| short_scenario_of_combined(settings, number);
            run(settings, done, &Plot::run_on::<CombinedMedium>, &short)
        }
        (_, DurableIn::Files) => run(settings, done, &script::run_in_files, &|_| None),
        (_, DurableIn::Pool) => run(settings, done, &script::run_in_pool, &|_| None),
        (_, DurableIn::Both) => run(settings, done, &script::run_on::<CombinedMedium>, &|_| None),
    };
    report.seconds = started.elapsed().as_secs_f64();
    report
}

fn run<M: Medium, W: Work>(
    settings: &Settings,
    done: &AtomicU64,
    run: &(dyn Fn(&Plot) -> Scenario<M, W> + Sync),
    short: &(dyn Fn(usize) -> Option<Scenario<M, W>> + Sync),
) -> Report {
    let mut report = Report::new(settings);
    let run = |plot: &Plot| without_panic(|| Ok(run(plot)));
    let examiner = Examiner { settings, done, run: &run };
    let fault = settings.inject.map(|fault| &fault.mutation);
    if fault.is_some() && settings.replay.is_none() {
        // Most faults show in a short scenario.
        let scenarios: Vec<_> = (0..).map_while(short).collect();
        // And at many of its crash points.
        let few = Part { from: 5, to: u64::MAX, stride: 16 };
        let few = Effort { part: few, ..Effort::once(4) };
        let nested = Effort::once(20).then(Again::every(40, 1));
        // The shortest can be looked at closely before the others are.
        let (close, all) = (SHORTEST, u64::MAX);
        for (effort, points) in [
            (few, all),
            (Effort::once(40), close),
            (Effort::once(4), all),
            (Effort::once(20), all),
            (nested, all),
        ] {
            let short_enough = |scenario: &Scenario<M, W>| M::points(&scenario.trace) <= points;
            for (number, scenario) in
                scenarios.iter().enumerate().filter(|(_, one)| short_enough(one))
            {
                let explored = scenario.explore(fault, effort);
                let violation = report.add(&explored);
                if let Some(violation) = violation {
                    report.fail(Found::in_short_scenario(number, violation));
                    return report;
                }
            }
        }
    }
    let first = settings.replay.unwrap_or(STANDARD);
    let plot = settings.plot(first);
    let (violation, kills) = match examiner.scenario(&plot, first, PARTS) {
        Ok(parts) => report.add_scenario(&parts),
        Err(what) => (Some(Violation::without_a_crash(&what)), false),
    };
    if let Some(violation) = violation {
        report.fail(examiner.shortest(&plot, first, violation, kills));
    }
    if settings.replay.is_none() {
        examiner.random_scenarios(&mut report);
    }
    report
}

/// The parts of a scenario that were seen: of power cuts, in pieces, and of kills.
struct Parts {
    power: Vec<Explored>,
    kills: Explored,
}

impl Parts {
    fn all(&self) -> impl Iterator<Item = &Explored> {
        self.power.iter().chain([&self.kills])
    }
}

/// Runs a scenario. An error, if the engine fails without any crash.
type Runner<'a, M, W> = dyn Fn(&Plot) -> Result<Scenario<M, W>, String> + Sync + 'a;

struct Examiner<'a, M: Medium, W: Work> {
    settings: &'a Settings,
    done: &'a AtomicU64,
    run: &'a Runner<'a, M, W>,
}

impl<M: Medium, W: Work> Examiner<'_, M, W> {
    /// Looks at random scenarios until there were enough states, unless a scenario has failed.
    fn random_scenarios(&self, report: &mut Report) {
        let settings = self.settings;
        let (standard, mut visited) = (report.states, Visited::default());
        let mut seed = settings.seed;
        while report.first.is_none() && !report.is_enough(settings) {
            let before = report.states;
            let plots: Vec<_> = (seed..seed + ROUND).map(|seed| settings.plot(seed)).collect();
            let explored = in_parallel(plots.len(), |index| {
                self.scenario(&plots[index], seed + index as u64, 1)
            });
            for (index, parts) in explored.into_iter().enumerate() {
                let (violation, kills) = match parts {
                    Ok(parts) => {
                        parts.all().for_each(|explored| visited.add(explored.visited));
                        report.add_scenario(&parts)
                    }
                    Err(what) => (Some(Violation::without_a_crash(&what)), false),
                };
                if let Some(violation) = violation {
                    let seed = seed + index as u64;
                    report.fail(self.shortest(&plots[index], seed, violation, kills));
                }
            }
            report.random_states = report.states - standard;
            report.visited = visited;
            if report.states == before {
                // Scenarios without transactions.
                return;
            }
            seed += ROUND;
        }
    }

    /// Looks at a scenario. Everything that is looked at follows from the arguments and the
    /// settings.
    fn scenario(&self, plot: &Plot, seed: u64, pieces: u64) -> Result<Parts, String> {
        let Settings { bound, states, nested, .. } = *self.settings;
        let fault = self.settings.inject.map(|fault| &fault.mutation);
        let scenario = (self.run)(plot)?;
        let again = Again {
            every: 1,
            // Some are of crashes after recovery.
            per_mille: nested.saturating_mul(1300) / states.max(1),
            depth: if nested > 0 { 3 } else { 0 },
            transactions: 1,
            // What comes after a recovery has many more crash points than the recovery.
            one_in: 4,
        };
        let points = M::points(&scenario.trace);
        // The pieces, followed by the kills.
        let mut explored = in_parallel(pieces as usize + 1, |index| {
            let explored = if index as u64 == pieces {
                scenario.explore_kills(fault, KILL_STRIDES[usize::from(seed == STANDARD)])
            } else {
                let mut part = Part::piece(index as u64, pieces, points);
                if index as u64 + 1 == pieces {
                    // A fault can add points.
                    part.to = u64::MAX;
                }
                scenario.explore(fault, Effort { bound, part, seed, again })
            };
            self.done.fetch_add(explored.states + explored.nested, Ordering::Relaxed);
            explored
        });
        let kills = explored.pop().unwrap_or_default();
        Ok(Parts { power: explored, kills })
    }

    /// The least number of the scenario's transactions that still fails, and what fails then. A
    /// scenario's beginning does not depend on its length, but a shorter one ends with a sync of
    /// its own: so it is looked at, and if it does not fail the whole one stands.
    fn shortest(&self, plot: &Plot, seed: u64, violation: Violation, kills: bool) -> Found {
        let fault = self.settings.inject.map(|fault| &fault.mutation);
        let cut = |transactions| (self.run)(&Plot { transactions, ..plot.clone() });
        let long_enough = |transactions| {
            cut(transactions).is_ok_and(|scenario| match fault {
                None => M::events(&scenario.trace) >= violation.position,
                Some(fault) => {
                    M::events(&M::mutate(&scenario.trace, fault).0) >= violation.position
                }
            })
        };
        let (mut less, mut enough) = (0, plot.transactions);
        while violation.position > 0 && enough - less > 1 {
            let middle = (less + enough) / 2;
            if long_enough(middle) { enough = middle } else { less = middle }
        }
        let shorter = Plot { transactions: enough, ..plot.clone() };
        let again = self.scenario(&shorter, seed, 1).map(|parts| Report::first_of(&parts));
        let (transactions, violation, kills) = match again {
            Ok((Some(violation), kills)) => (enough, violation, kills),
            _ => (plot.transactions, violation, kills),
        };
        let Violation { position, what, lost } = violation;
        let kind = if kills { ", killed" } else { "" };
        let scenario = format!("scenario {seed}{kind}");
        Found { seed: Some(seed), scenario, transactions, position, what, lost }
    }
}

impl Report {
    fn new(settings: &Settings) -> Self {
        Self {
            workload: settings.workload.name(),
            engine: settings.engine.name(),
            seed: settings.replay.unwrap_or(settings.seed),
            crash_points: 0,
            states: 0,
            random_states: 0,
            visited: Visited::default(),
            kill_states: 0,
            nested_states: 0,
            in_recovery: 0,
            violations: 0,
            placement: settings.placement,
            inject: settings.inject.map(|fault| fault.name),
            injected: 0,
            seconds: 0.0,
            first: None,
        }
    }

    /// Returns whether as many states were looked at as are wanted, and half of them are of random
    /// scenarios.
    fn is_enough(&self, settings: &Settings) -> bool {
        self.states >= settings.states
            && self.random_states >= settings.states.div_ceil(2)
            && self.in_recovery >= settings.nested
    }

    fn add(&mut self, explored: &Explored) -> Option<Violation> {
        self.crash_points += explored.points;
        self.states += explored.states;
        self.nested_states += explored.nested;
        self.in_recovery += explored.nested_in_recovery;
        self.injected += explored.injected;
        explored.violation.clone()
    }

    /// Adds what was seen of a scenario; its first violation, and whether kills have shown it.
    fn add_scenario(&mut self, parts: &Parts) -> (Option<Violation>, bool) {
        for explored in &parts.power {
            self.add(explored);
        }
        self.states += parts.kills.states;
        self.kill_states += parts.kills.states;
        Self::first_of(parts)
    }

    fn first_of(parts: &Parts) -> (Option<Violation>, bool) {
        let failed = parts.power.iter().filter_map(|explored| explored.violation.as_ref());
        match failed.min_by_key(|violation| violation.position) {
            Some(violation) => (Some(violation.clone()), false),
            None => (parts.kills.violation.clone(), true),
        }
    }

    fn fail(&mut self, found: Found) {
        self.violations += 1;
        self.first.get_or_insert(found);
    }

    /// Describes the first scenario that failed, with the command that shows it again, for people.
    /// These are the settings of the report.
    pub fn violation(&self, settings: &Settings) -> Option<String> {
        let found = self.first.as_ref()?;
        let mut text = format!(
            "{}: after event {} of {}, the database {}\n",
            self.engine, found.position, found.scenario, found.what
        );
        if let Some(command) = found.command(settings) {
            text += &format!("  in {} transactions; again with: {command}\n", found.transactions);
        }
        for line in found.lost.iter().take(MOST_LINES) {
            text += &format!("  {line}\n");
        }
        if found.lost.len() > MOST_LINES {
            text += &format!("  and {} more\n", found.lost.len() - MOST_LINES);
        }
        Some(text)
    }
}

impl Found {
    /// The command that shows the violation again.
    fn command(&self, settings: &Settings) -> Option<String> {
        let workload = match settings.workload {
            Workload::Scenario => String::new(),
            other => format!(" --workload {other}"),
        };
        let placement = settings.placement.map(|percent| format!(" --placement {percent}"));
        let inject = settings.inject.map(|fault| format!(" --inject {}", fault.name));
        let Settings { engine, seed, states, nested, bound, .. } = settings;
        Some(format!(
            "perdura crash --engine {engine}{workload} --replay {} --transactions {} --seed {seed} --states {states} --nested {nested} --bound {bound}{}{}",
            self.seed?,
            self.transactions,
            placement.unwrap_or_default(),
            inject.unwrap_or_default()
        ))
    }

    fn in_short_scenario(number: usize, violation: Violation) -> Self {
        let Violation { position, what, lost } = violation;
        let scenario = format!("short scenario {number}");
        Self { seed: None, scenario, transactions: 0, position, what, lost }
    }
}

impl Violation {
    fn without_a_crash(what: &str) -> Self {
        Self { position: 0, what: format!("fails without any crash: {what}"), lost: Vec::new() }
    }
}

/// Scenarios in which most faults show soon.
fn short_pool_scenario(
    engine: EngineKind,
    number: usize,
) -> Option<Scenario<crate::pool::PoolMedium>> {
    let plot = |seed, transactions, keys| Plot::new(engine, seed, transactions, keys);
    // MemTables are frozen and merged in the longest one only.
    let number = match (engine, number) {
        (EngineKind::NvmLog, 2..=5) => [5, 2, 3, 4][number - 2],
        (_, number) => number,
    };
    Some(match number {
        0 => two_operations_on_one_tuple(engine, true),
        1 => two_operations_on_one_tuple(engine, false),
        2 => inserts_with_updates(engine),
        3 => plot(14, 60, 3).run_in_pool(),
        4 => plot(12, 60, 300).run_in_pool(),
        5 => plot(11, 80, 60).run_in_pool(),
        6 if engine == EngineKind::NvmCow => plot(13, 120, 60).groups_of(4).run_in_pool(),
        6 if engine == EngineKind::NvmInp => statements(engine, 16, 60),
        _ => return None,
    })
}

fn short_file_scenario(settings: &Settings, number: usize) -> Option<Scenario<FileMedium>> {
    let fault = settings.inject.map(|fault| &fault.mutation);
    let plot = |seed| Plot::new(settings.engine, seed, 100, 40).with_fault(fault);
    let scenario = match number {
        0 => plot(5),
        1 => plot(6).with_kills(),
        2 => plot(3).groups_of(4),
        3 => Plot { keys: 400, large: plot(7).large + 10, ..plot(7) },
        _ => return None,
    };
    Some(scenario.run_in_files().0)
}

/// Commits one by one, and in groups.
fn short_scenario_of_combined(
    settings: &Settings,
    number: usize,
) -> Option<Scenario<CombinedMedium>> {
    let fault = settings.inject.map(|fault| &fault.mutation);
    let plot = Plot::new(settings.engine, 5, 60, 20).with_fault(fault);
    match number {
        0 => Some(plot.run_on()),
        1 if settings.engine.groups_commits() => Some(plot.groups_of(4).run_on()),
        _ => None,
    }
}
