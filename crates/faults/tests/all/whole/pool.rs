//! Engines whose data lie in the pool: their flushes and fences, and values and keys of other sizes.

use faults::explorer::{Again, Effort};
use faults::large::large_values_in_a_pool;
use faults::plot::Plot;
use faults::short_scenarios::{statements_with_long_keys, statements_with_nulls};
use perdura::EngineKind;

use crate::points::{at_kills, one_in};
use crate::pool::{
    engines, operations_are_ordered, plot, power_cuts, power_cuts_of_nvm_inp,
    released_pages_are_flushed, statements_of_nvm_inp, survives, sweep_in_place,
    updates_after_a_statement_survive, what_nvm_log_gives_back_survives_power_cuts,
};

#[test]
#[ignore = "a build of .ci/run runs it"]
fn nvm_inp_needs_every_flush_and_fence() {
    sweep_in_place(EngineKind::NvmInp, 160);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn nvm_log_needs_every_flush_and_fence() {
    sweep_in_place(EngineKind::NvmLog, 80);
}

/// NULL is stored in words that change with those of the columns: never the one without the other.
#[test]
#[ignore = "a build of .ci/run runs it"]
fn columns_that_may_be_null_survive_power_cuts_at_fences() {
    let again = Again::every(2_000, 2);
    let statements = statements_with_nulls(EngineKind::NvmInp, 16, 100);
    survives("statements", &statements, Effort::once(20).then(Again::every(500, 2)));
    for engine in EngineKind::ALL.into_iter().filter(|engine| !engine.traits().needs_files()) {
        let plots = [plot(engine, 14, 50, 3), plot(engine, 11, 40, 60)];
        power_cuts(engine, &plots.map(Plot::with_nulls), 4, again);
    }
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn long_keys_survive_crashes() {
    let statements = statements_with_long_keys(EngineKind::NvmInp, 16, 60);
    survives("statements", &statements, Effort::once(10).then(Again::every(900, 1)));
    for engine in engines() {
        let plots = [plot(engine, 14, 30, 3), plot(engine, 11, 20, 60)];
        power_cuts(engine, &plots.map(Plot::with_long_keys), 4, Again::every(1_500, 1));
        let killed = plot(engine, 15, 30, 20).with_long_keys().run_in_pool();
        let kills = killed.explore_kills(None, at_kills(29 * one_in(engine)));
        assert_eq!(kills.violation, None, "{engine}, killed");
    }
}

/// Values of several chunks, cut off at every fence, and killed.
#[test]
#[ignore = "a build of .ci/run runs it"]
fn values_of_several_chunks_survive_crashes() {
    for engine in engines() {
        let scenario = large_values_in_a_pool(engine);
        survives(
            &format!("{engine}, large values"),
            &scenario,
            Effort::once(3).then(Again::every(300, 1)),
        );
        let kills = scenario.explore_kills(None, at_kills(11));
        assert_eq!(kills.violation, None, "{engine}, killed");
    }
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn nvm_inp_survives_power_cuts_at_fences() {
    let engine = EngineKind::NvmInp;
    statements_of_nvm_inp(17);
    power_cuts_of_nvm_inp(&[plot(engine, 11, 60, 60), plot(engine, 12, 40, 300)]);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn every_engine_in_the_pool_survives_power_cuts_in_groups() {
    for engine in engines() {
        let grouped = plot(engine, 31, 30, 30).groups_of(4);
        power_cuts(engine, &[grouped], 4, Again::every(400, 2));
    }
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn operations_on_one_tuple_are_ordered() {
    operations_are_ordered(1);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn pages_released_by_a_snapshot_are_flushed_on_reuse() {
    released_pages_are_flushed(1);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn updates_after_a_statement_on_its_column_survive() {
    updates_after_a_statement_survive(1);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn what_nvm_log_gives_back_to_the_pool_survives_power_cuts() {
    what_nvm_log_gives_back_survives_power_cuts();
}
