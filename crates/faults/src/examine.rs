//! An engine under examination: the standard story, then random ones, until as many states have been
//! looked at as are wanted; and the shortest story that fails.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use perdura::EngineKind;
use serde::Serialize;

use crate::catalogue::Fault;
use crate::explorer::{Again, Effort, Explored, Story, Violation};
use crate::medium::{Medium, Part};
use crate::mutation::Mutation;
use crate::story::{Plot, STANDARD, inserts_with_updates, two_operations_on_one_tuple};
use crate::workers::in_parallel;

/// Into how many pieces the standard story is cut. It has nothing to do with the number of cores:
/// what is looked at is the same everywhere.
const PARTS: u64 = 8;
/// Random stories that are told at a time.
const ROUND: u64 = 4;
/// Most states of a crash point.
const BOUND: u64 = 12;
/// Of the kills of a story one in so many is looked at.
const KILL_STRIDE: u64 = 5;

/// What is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The engine.
    pub engine: EngineKind,
    /// Of the first random story; those after it have the next numbers.
    pub seed: u64,
    /// At least so many distinct states.
    pub states: u64,
    /// At least so many states of crashes in recovery and in the first transactions after it.
    pub nested: u64,
    /// A fault that the program is to have.
    pub inject: Option<&'static Fault>,
    /// Only the story with this seed.
    pub replay: Option<u64>,
}

/// What was found.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The engine.
    pub engine: &'static str,
    /// As in the settings; of the one story that was replayed, its own.
    pub seed: u64,
    /// Crash points: fences or syncs, and acknowledgements.
    pub crash_points: u64,
    /// Distinct states.
    pub states: u64,
    /// Of them, those that a kill of the process leaves behind.
    pub kill_states: u64,
    /// States that a second crash leaves behind, or a third.
    pub nested_states: u64,
    /// Stories that failed.
    pub violations: u64,
    /// The fault.
    pub inject: Option<&'static str>,
    /// How often the fault showed in what was recorded.
    pub injected: u64,
    /// How long it took.
    pub seconds: f64,
    /// The first story that failed.
    pub first: Option<Found>,
}

/// A story that failed.
#[derive(Clone, Debug, Serialize)]
pub struct Found {
    /// Which one: for a replay.
    pub seed: u64,
    /// Its name, if it has no seed.
    pub story: String,
    /// How few of its transactions suffice.
    pub transactions: usize,
    /// How many events lie before the crash.
    pub position: usize,
    /// What is wrong.
    pub what: String,
    /// What the crash has lost, and who had done it.
    pub lost: Vec<String>,
}

/// Examines an engine. `done` counts states, for whoever shows the progress.
pub fn examine(settings: &Settings, done: &AtomicU64) -> Report {
    let started = Instant::now();
    let mut report = if settings.engine.uses_files() {
        let short = |number| short_file_story(settings.engine, number);
        run(settings, done, &|plot: &Plot| plot.run_in_files().0, &short)
    } else {
        let short = |number| short_pool_story(settings.engine, number);
        run(settings, done, &Plot::run_in_pool, &short)
    };
    report.seconds = started.elapsed().as_secs_f64();
    report
}

fn run<M: Medium>(
    settings: &Settings,
    done: &AtomicU64,
    tell: &(dyn Fn(&Plot) -> Story<M> + Sync),
    short: &(dyn Fn(usize) -> Option<Story<M>> + Sync),
) -> Report {
    let engine = settings.engine;
    let mut report = Report {
        engine: engine.name(),
        seed: settings.replay.unwrap_or(settings.seed),
        crash_points: 0,
        states: 0,
        kill_states: 0,
        nested_states: 0,
        violations: 0,
        inject: settings.inject.map(|fault| fault.name),
        injected: 0,
        seconds: 0.0,
        first: None,
    };
    let again = |depth| Again {
        every: 1,
        per_mille: settings.nested.saturating_mul(1000) / settings.states.max(1),
        depth: if settings.nested > 0 { depth } else { 0 },
    };
    let fault = settings.inject.map(|fault| &fault.mutation);
    if fault.is_some() && settings.replay.is_none() {
        // Most faults show in a short story.
        let stories: Vec<_> = (0..).map_while(short).collect();
        // And at many of its crash points.
        let few = Effort { part: Part { index: 5, of: 16 }, ..Effort::once(4) };
        let nested = Effort::once(20).then(Again::every(40, 1));
        for effort in [few, Effort::once(4), Effort::once(20), nested] {
            for (number, story) in stories.iter().enumerate() {
                let explored = story.explore(fault, effort);
                report.add(&explored);
                if let Some(violation) = explored.violation {
                    let story = format!("short story {number}");
                    report.fail(settings.seed, story, 0, violation);
                    return report;
                }
            }
        }
    }
    let standard = settings.replay.unwrap_or(STANDARD);
    let plot = Plot::of_seed(engine, standard);
    let story = tell(&plot);
    let parts = in_parallel(PARTS as usize, |index| {
        let part = Part { index: index as u64, of: PARTS };
        let effort = Effort { bound: BOUND, part, seed: settings.seed, again: again(3) };
        let explored = story.explore(fault, effort);
        done.fetch_add(explored.states + explored.nested, Ordering::Relaxed);
        explored
    });
    report.add_all(&parts, &plot, standard, &|plot| tell(plot), fault);
    if settings.replay.is_some() {
        return report;
    }
    let mut seed = settings.seed.max(1);
    while report.first.is_none()
        && (report.states < settings.states || report.nested_states < settings.nested)
    {
        let plots: Vec<_> = (0..ROUND).map(|index| Plot::of_seed(engine, seed + index)).collect();
        let explored = in_parallel(plots.len(), |index| {
            let story = tell(&plots[index]);
            let power = story.explore(fault, Effort::once(BOUND).then(again(3)));
            let kills = match fault {
                None => story.explore_kills(KILL_STRIDE),
                Some(_) => Explored::default(),
            };
            done.fetch_add(power.states + power.nested + kills.states, Ordering::Relaxed);
            (power, kills)
        });
        for (index, (power, kills)) in explored.into_iter().enumerate() {
            let plot = &plots[index];
            report.kill_states += kills.states;
            report.states += kills.states;
            for explored in [power, Explored { states: 0, points: 0, ..kills }] {
                report.add_all(
                    std::slice::from_ref(&explored),
                    plot,
                    seed + index as u64,
                    &|plot| tell(plot),
                    fault,
                );
            }
        }
        seed += ROUND;
    }
    report
}

impl Report {
    fn add(&mut self, explored: &Explored) {
        self.crash_points += explored.points;
        self.states += explored.states;
        self.nested_states += explored.nested;
        self.injected += explored.injected;
    }

    /// Adds parts of one story; of those that failed, the one that fails first.
    fn add_all<M: Medium>(
        &mut self,
        parts: &[Explored],
        plot: &Plot,
        seed: u64,
        tell: &dyn Fn(&Plot) -> Story<M>,
        fault: Option<&Mutation>,
    ) {
        parts.iter().for_each(|explored| self.add(explored));
        let failed = parts.iter().filter_map(|explored| explored.violation.as_ref());
        let Some(violation) = failed.min_by_key(|violation| violation.position) else { return };
        let transactions = shortest(plot, violation.position, tell, fault);
        self.fail(seed, format!("story {seed}"), transactions, violation.clone());
    }

    fn fail(&mut self, seed: u64, story: String, transactions: usize, violation: Violation) {
        self.violations += 1;
        let Violation { position, what, lost } = violation;
        self.first.get_or_insert(Found { seed, story, transactions, position, what, lost });
    }
}

/// How few of a story's transactions lead to the event at `position`: a story's beginning does not
/// depend on its length.
fn shortest<M: Medium>(
    plot: &Plot,
    position: usize,
    tell: &dyn Fn(&Plot) -> Story<M>,
    fault: Option<&Mutation>,
) -> usize {
    let long_enough = |transactions: usize| {
        let story = tell(&Plot { transactions, ..plot.clone() });
        let trace = match fault {
            None => story.trace,
            Some(fault) => M::mutate(&story.trace, fault).0,
        };
        M::events(&trace) >= position
    };
    let (mut less, mut enough) = (0, plot.transactions);
    while enough - less > 1 {
        let middle = (less + enough) / 2;
        if long_enough(middle) { enough = middle } else { less = middle }
    }
    enough
}

/// Stories in which most faults show soon.
fn short_pool_story(engine: EngineKind, number: usize) -> Option<Story<crate::pool::PoolMedium>> {
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
        _ => return None,
    })
}

fn short_file_story(engine: EngineKind, number: usize) -> Option<Story<crate::files::FileMedium>> {
    let plot = |seed| Plot::new(engine, seed, 100, 40);
    let story = match number {
        0 => plot(5),
        1 => plot(6).with_kills(),
        2 => plot(3).groups_of(4),
        3 => Plot { keys: 400, large: 50, ..plot(7) },
        _ => return None,
    };
    Some(story.run_in_files().0)
}
