//! Engines whose data lie in the pool: power cuts at every fence, kills at every store. See the
//! crate for the fault model.

use crate::common::{Explained, unexplained};
use crate::points::{at_kills, at_least, at_points, one_in, thinned};
use faults::explorer::{Again, Effort, Scenario};
use faults::mutation::{Defect, Mutation, Where};
use faults::scenario::{
    a_snapshot_goes_before_its_group_is_durable, chunks_go_back,
    chunks_go_back_when_runs_are_merged, inserts_with_updates, two_operations_on_one_tuple,
    two_updates_after_a_statement,
};
use faults::short_scenarios::{savepoints, statements};
use faults::{full::room_is_made_on_a_full_pool, plot::Plot, pool::PoolMedium, sweep::sweep};
use perdura::EngineKind;
use pm::Site;
use sim::{Event, Trace};

pub(crate) fn engines() -> impl Iterator<Item = EngineKind> {
    EngineKind::ALL.into_iter().filter(|engine| !engine.traits().needs_files())
}

pub(crate) fn survives(what: &str, scenario: &Scenario<PoolMedium>, effort: Effort) {
    survives_in_part(what, scenario, effort, 1);
}

/// The same at one in so many of the usual points.
fn survives_in_part(what: &str, scenario: &Scenario<PoolMedium>, effort: Effort, one_in: u64) {
    let explored = scenario.explore(None, thinned(at_points(effort), one_in));
    println!("{what}: {} transactions, {explored:?}", scenario.models.len() - 1);
    assert_eq!(explored.violation, None, "{what}");
    let (points, states) = (at_least(15, 1), at_least(200, 15));
    let enough = explored.points * one_in > points && explored.states * one_in > states;
    assert!(enough, "{explored:?}");
    let few = effort.again.depth == 0 || explored.states < 1_000;
    assert!(few || explored.nested > 0, "{explored:?}");
}

pub(crate) fn power_cuts(engine: EngineKind, plots: &[Plot], bound: u64, again: Again) {
    for plot in plots {
        let what = format!("{engine}, seed {}, groups of {}", plot.seed, plot.group);
        let effort = Effort::once(bound).then(again);
        survives_in_part(&what, &plot.run_in_pool(), effort, one_in(engine));
    }
}

pub(crate) fn plot(engine: EngineKind, seed: u64, transactions: usize, keys: u64) -> Plot {
    Plot::new(engine, seed, transactions, keys)
}

#[test]
fn nvm_inp_survives_power_cuts_at_fences() {
    let engine = EngineKind::NvmInp;
    survives("inserts with updates", &inserts_with_updates(engine), Effort::once(10));
    statements_of_nvm_inp(16);
    power_cuts_of_nvm_inp(&[plot(engine, 14, 60, 3)]);
}

pub(crate) fn statements_of_nvm_inp(seed: u64) {
    let effort = Effort::once(40).then(Again::every(500, 2));
    survives("statements", &statements(EngineKind::NvmInp, seed, 120), effort);
}

/// Whatever the bound, every two lines are seen in all four combinations.
pub(crate) fn power_cuts_of_nvm_inp(plots: &[Plot]) {
    power_cuts(EngineKind::NvmInp, plots, 10, Again::every(2_000, 2));
}

#[test]
fn nvm_log_survives_power_cuts_at_fences() {
    let engine = EngineKind::NvmLog;
    survives("inserts with updates", &inserts_with_updates(engine), Effort::once(10));
    // Freezing, merging and taking apart have crash points of their own: shorter scenarios.
    let plots = [plot(engine, 14, 60, 3), plot(engine, 11, 50, 60), plot(engine, 12, 30, 300)];
    power_cuts(engine, &plots, 4, Again::every(2_000, 2));
}

#[test]
fn nvm_cow_survives_power_cuts_at_fences() {
    let engine = EngineKind::NvmCow;
    let plots = [
        plot(engine, 14, 60, 3),
        plot(engine, 11, 120, 60),
        plot(engine, 12, 50, 300),
        plot(engine, 13, 160, 60).groups_of(4),
        plot(engine, 15, 160, 60).groups_of(30),
    ];
    power_cuts(engine, &plots, 10, Again::every(1_000, 2));
}

/// Full, half deleted, filled with others: cut off at every fence, killed at every store.
#[test]
fn nvm_log_makes_room_on_a_full_pool_and_survives_crashes() {
    let scenario = room_is_made_on_a_full_pool(EngineKind::NvmLog);
    survives("a full pool", &scenario, Effort::once(3).then(Again::every(3_000, 1)));
    let kills = scenario.explore_kills(None, at_kills(29));
    assert_eq!(kills.violation, None, "killed");
}

/// Every engine, whichever there are, in a short scenario.
#[test]
fn every_engine_in_the_pool_survives_power_cuts() {
    for engine in engines() {
        power_cuts(engine, &[plot(engine, 30, 20, 40)], 4, Again::every(400, 2));
    }
}

/// The second operation's log entry must not persist before the first one's changes, and an
/// operation that is undone must not be undone again after an older one: index keys are made of
/// logged and of stored fields, and half of an update would give keys that never were.
#[test]
fn operations_on_one_tuple_are_ordered() {
    operations_are_ordered(5);
}

/// Looks at some states of each crash point, or at one in so many of these.
pub(crate) fn operations_are_ordered(one_in: u64) {
    for engine in engines() {
        for commit in [true, false] {
            let scenario = two_operations_on_one_tuple(engine, commit);
            // The others change nothing in place.
            let states = if engine == EngineKind::NvmInp { 5_000 } else { 500 };
            let explored =
                scenario.explore(None, Effort::once(states / one_in).then(Again::every(97, 1)));
            assert_eq!(explored.violation, None, "{engine}, committed: {commit}");
        }
    }
}

/// A page that a snapshot let go of while its group was made durable was flushed already: the next
/// group that takes it has to flush it anew.
#[test]
fn pages_released_by_a_snapshot_are_flushed_on_reuse() {
    released_pages_are_flushed(7);
}

/// Kills at each store, or at one in so many.
pub(crate) fn released_pages_are_flushed(stride: u64) {
    for engine in engines() {
        let scenario = a_snapshot_goes_before_its_group_is_durable(engine);
        let again = Again::every(200, 1);
        let explored = scenario.explore(None, Effort::once(40).then(again));
        assert_eq!(explored.violation, None, "{engine}");
        let kills = scenario.explore_kills(None, stride);
        assert_eq!(kills.violation, None, "{engine}, killed");
    }
}

/// The change that the statement has made in place is older than that of the transaction's first
/// update: recovery must not do it again where the second one's image is missing.
#[test]
fn updates_after_a_statement_on_its_column_survive() {
    updates_after_a_statement_survive(7);
}

/// Looks at some states of each power cut, and at a kill at each store, or at one in so many of these.
pub(crate) fn updates_after_a_statement_survive(one_in: u64) {
    for engine in engines() {
        for commit in [true, false] {
            let scenario = two_updates_after_a_statement(engine, commit);
            // The others have no statements.
            let effort = match engine {
                EngineKind::NvmInp => Effort::once(5_000 / one_in).then(Again::every(97, 2)),
                _ => Effort::once(20),
            };
            let explored = scenario.explore(None, effort);
            assert_eq!(explored.violation, None, "{engine}, committed: {commit}");
            let kills = scenario.explore_kills(None, one_in);
            assert_eq!(kills.violation, None, "{engine}, committed: {commit}, killed");
        }
    }
}

/// Changes that were rolled back to a savepoint are gone whatever happens, and no entry of them
/// comes back into the log after a later one.
#[test]
fn transactions_that_go_back_to_savepoints_survive_crashes() {
    for engine in [EngineKind::NvmInp, EngineKind::NvmLog] {
        for seed in [31, 32] {
            let scenario = savepoints(engine, seed, 40);
            let again = Again::every(500, 2);
            survives(&format!("{engine}, {seed}"), &scenario, Effort::once(10).then(again));
            let kills = scenario.explore_kills(None, at_kills(3));
            assert_eq!(kills.violation, None, "{engine}, {seed}, killed");
        }
    }
}

/// Kills at every `stride`th store of a scenario, or at some of those.
fn kills(engine: EngineKind, transactions: usize, stride: u64) {
    let scenario = plot(engine, 21, transactions, 40).run_in_pool();
    let explored = scenario.explore_kills(None, at_kills(stride));
    println!("{engine}: {} stores, {} states", explored.points, explored.states);
    assert_eq!(explored.violation, None, "{engine}");
    assert!(explored.points > at_least(2_000, 200), "{explored:?}");
}

#[test]
fn nvm_inp_survives_kills() {
    kills(EngineKind::NvmInp, 40, 1);
}

#[test]
fn statements_of_nvm_inp_survive_kills() {
    for seed in [18, 19] {
        let explored = statements(EngineKind::NvmInp, seed, 120).explore_kills(None, at_kills(1));
        assert_eq!(explored.violation, None, "seed {seed}");
        assert!(explored.points > at_least(1_000, 100), "{explored:?}");
    }
}

#[test]
fn nvm_log_survives_kills() {
    kills(EngineKind::NvmLog, 60, 1);
}

/// Its stores are mostly copies of nodes that are never seen: one in nine stands for the others.
#[test]
fn nvm_cow_survives_kills() {
    kills(EngineKind::NvmCow, 30, 9);
}

/// The places after the creation of the database, which acknowledges itself with the note 0, and
/// before its closing, which follows the last note.
fn sites_of_work(defect: Defect, trace: &Trace) -> Vec<Site> {
    let events = &trace.events;
    let created = events.iter().position(|one| matches!(one.event, Event::Note(0)));
    let closing = events.iter().rposition(|one| matches!(one.event, Event::Note(_)));
    let work = created.unwrap_or(0)..closing.unwrap_or(events.len());
    let work = Trace { events: events[work].to_vec(), ..trace.clone() };
    Mutation::sites_in_memory(defect, &work)
}

/// Without one of its flushes or fences an engine must fail the tests above: else either they are
/// blind or the instruction superfluous.
fn sweep_all(scenarios: &[(&Scenario<PoolMedium>, Effort)]) {
    let flushes = sweep(scenarios, Defect::NoFlush, sites_of_work);
    let fences = sweep(scenarios, Defect::NoFence, sites_of_work);
    println!("{} places flush, {} fence", flushes.places, fences.places);
    assert!(flushes.places >= 5 && fences.places >= 2);
    assert_eq!((flushes.unnoticed, fences.unnoticed), (vec![], vec![]));
}

pub(crate) fn sweep_in_place(engine: EngineKind, transactions: usize) {
    let few_keys = plot(engine, 14, 60, 3).run_in_pool();
    let many_keys = plot(engine, 12, 60, 300).run_in_pool();
    let long = plot(engine, 11, transactions, 60).run_in_pool();
    let inlined = statements(engine, 17, 80);
    let statements = statements(engine, 16, 80);
    sweep_all(&[
        // The short ones first, then a few states of each point: most faults show there.
        (&inserts_with_updates(engine), Effort::once(10)),
        (&two_operations_on_one_tuple(engine, true), Effort::once(5_000)),
        (&two_operations_on_one_tuple(engine, false), Effort::once(5_000)),
        (&statements, Effort::once(2)),
        (&few_keys, Effort::once(2)),
        (&many_keys, Effort::once(2)),
        (&long, Effort::once(2)),
        (&inlined, Effort::once(2)),
        (&statements, Effort::once(40)),
        (&inlined, Effort::once(40)),
        (&few_keys, Effort::once(10)),
        (&many_keys, Effort::once(10)),
        (&long, Effort::once(20)),
    ]);
}

#[test]
fn nvm_cow_needs_every_flush_and_fence() {
    let engine = EngineKind::NvmCow;
    sweep_all(&[
        (&plot(engine, 11, 90, 60).run_in_pool(), Effort::once(20)),
        (&plot(engine, 13, 120, 60).groups_of(4).run_in_pool(), Effort::once(20)),
    ]);
}

/// Nothing depends on it while creation goes on: the description's name, written last and fenced,
/// says that there is a database.
const SETTLED_AGAIN: &str = "each part settles itself before it is led to; creation fences later";
const ZEROS: &str = "zeros, which a fresh pool has there anyway";
const OPENING_CLEARS: &str = "what opening finds not cleared it clears, as after a crash";

fn around_the_work(engine: EngineKind, flushes: &[Explained], fences: &[Explained]) {
    // The transactions are there to need what was created.
    let scenario = plot(engine, 30, 12, 40).run_in_pool();
    for (defect, explained) in [(Defect::NoFlush, flushes), (Defect::NoFence, fences)] {
        let work = sites_of_work(defect, &scenario.trace);
        let around = |defect, trace: &Trace| {
            let mut sites = Mutation::sites_in_memory(defect, trace);
            sites.retain(|site| !work.contains(site));
            sites
        };
        let swept = sweep(&[(&scenario, Effort::once(10))], defect, around);
        println!("{engine}, {defect:?}: {} places in creation and closing alone", swept.places);
        let (open, stale) = unexplained(swept.unnoticed, explained);
        assert_eq!((open, stale), (vec![], vec![]), "{engine}, {defect:?}");
    }
}

const UNDO_LOG_ZEROS: Explained = ("undo_log.rs", "create", "flush", ZEROS);
const UNDO_LOG_SEGMENT: Explained = ("undo_log.rs", "create", "add_segment", SETTLED_AGAIN);
const UNDO_LOG_FENCE: Explained = ("undo_log.rs", "create", "fence", SETTLED_AGAIN);
const NVM_LOG_SETTLES: Explained =
    ("undo/engine.rs", "close", "superseded.clear_all", OPENING_CLEARS);
const SAYS_SO: &str = "that nothing is left to do; without that opening does what is left again";

#[test]
fn the_crash_test_of_nvm_inps_creation_and_closing_fails_too() {
    let fences = [
        ("undo/engine.rs", "create", "fence", SETTLED_AGAIN),
        ("btree.rs", "create", "mini_commit", SETTLED_AGAIN),
        UNDO_LOG_SEGMENT,
        UNDO_LOG_FENCE,
        ("nvm_inp.rs", "close", "memory.fence", SAYS_SO),
    ];
    let flushes = [UNDO_LOG_ZEROS, ("nvm_inp.rs", "close", "lines.flush", SAYS_SO)];
    around_the_work(EngineKind::NvmInp, &flushes, &fences);
}

#[test]
fn the_crash_test_of_nvm_logs_creation_and_closing_fails_too() {
    let flushes = [
        UNDO_LOG_ZEROS,
        NVM_LOG_SETTLES,
        ("runs/mod.rs", "create", "flush(Range::new(directory", ZEROS),
    ];
    let fences = [
        ("undo/engine.rs", "create", "fence", SETTLED_AGAIN),
        ("runs/mod.rs", "create", "mini_commit", SETTLED_AGAIN),
        ("runs/mod.rs", "create", "fence", SETTLED_AGAIN),
        UNDO_LOG_SEGMENT,
        UNDO_LOG_FENCE,
        NVM_LOG_SETTLES,
    ];
    around_the_work(EngineKind::NvmLog, &flushes, &fences);
}

#[test]
fn the_crash_test_of_nvm_cows_creation_and_closing_fails_too() {
    let flushes = [
        ("pool_master.rs", "create", "SLOTS_AT", ZEROS),
        ("nvm_cow.rs", "close", "flush", OPENING_CLEARS),
    ];
    let fences = [
        ("pool_master.rs", "create", "fence", SETTLED_AGAIN),
        ("nvm_cow.rs", "close", "fence", OPENING_CLEARS),
    ];
    around_the_work(EngineKind::NvmCow, &flushes, &fences);
}

/// A violation that the explorer reports is one: a trace without any fence has some.
#[test]
fn the_explorer_sees_missing_fences_in_every_engine() {
    for engine in engines() {
        let scenario = plot(engine, 30, 20, 40).run_in_pool();
        let fault = Mutation { defect: Defect::NoFence, at: Where::Anywhere };
        let explored = scenario.explore(Some(&fault), Effort::once(20));
        assert!(explored.violation.is_some(), "{engine}");
    }
}

/// Chunks that become empty are given back, and serve others.
fn what_goes_back_survives_power_cuts(
    engine: EngineKind,
    scenario: &Scenario<PoolMedium>,
    bound: u64,
) {
    let sites = Mutation::sites_in_memory(Defect::NoFlush, &scenario.trace);
    let given = sites.iter().filter(|site| site.line() == given_back()).count();
    survives(&format!("{engine}, chunks that go back"), scenario, Effort::once(bound));
    assert!(given > 0, "{engine}: no chunk was given back");
}

#[test]
fn chunks_freed_by_nvm_inp_survive_power_cuts_and_kills() {
    let scenario = chunks_go_back(EngineKind::NvmInp);
    what_goes_back_survives_power_cuts(EngineKind::NvmInp, &scenario, 3);
    assert_eq!(scenario.explore_kills(None, at_kills(5)).violation, None, "killed");
}

#[test]
fn chunks_freed_by_nvm_cow_survive_power_cuts_and_kills() {
    let scenario = chunks_go_back(EngineKind::NvmCow);
    what_goes_back_survives_power_cuts(EngineKind::NvmCow, &scenario, 3);
    assert_eq!(scenario.explore_kills(None, at_kills(5)).violation, None, "killed");
}

/// The longer scenario with fewer states of each point.
pub(crate) fn what_nvm_log_gives_back_survives_power_cuts() {
    what_goes_back_survives_power_cuts(
        EngineKind::NvmLog,
        &chunks_go_back_when_runs_are_merged(),
        1,
    );
}

#[test]
fn what_nvm_log_gives_back_to_the_pool_survives_kills() {
    let explored = chunks_go_back_when_runs_are_merged().explore_kills(None, at_kills(40));
    assert_eq!(explored.violation, None);
}

/// The line that flushes the tag of a chunk that is given back.
fn given_back() -> u32 {
    let source = include_str!("../../../heap/src/lane.rs");
    let line = source.lines().position(|line| line.contains("heap.memory().flush_word(tag)"));
    line.expect("it is there") as u32 + 1
}
