//! Engines whose data lie in the pool: their flushes and fences, and values and keys of other sizes.

use faults::explorer::{Again, Effort};
use faults::large::large_values_in_a_pool;
use faults::plot::Plot;
use faults::short_scenarios::{statements_with_long_keys, statements_with_nulls};
use perdura::EngineKind;

use crate::points::{at_kills, one_in};
use crate::pool::{engines, plot, power_cuts, survives, sweep_in_place};

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
