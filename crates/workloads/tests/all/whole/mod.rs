//! Tests that each build of `.ci/run` adds to the ordinary ones: all workloads in every engine, in each form, and with
//! power cuts in TPC-C.

use perdura::EngineKind;

use crate::tpcc_crash::{conditions_hold, fails_without_fences_flushes_or_syncs};
use crate::{tatp, tpcb, tpcc};

#[test]
#[ignore = "a build of .ci/run runs it"]
fn every_condition_of_tpcc_holds_after_a_power_cut() {
    conditions_hold(EngineKind::ALL, 1);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn crash_test_of_tpcc_fails_without_fences_flushes_or_syncs() {
    let known = [EngineKind::NvmInp, EngineKind::Inp];
    let others = EngineKind::ALL.into_iter().filter(|engine| !known.contains(engine));
    fails_without_fences_flushes_or_syncs(others);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn all_conditions_of_tpcc_hold_after_loading_a_run_and_a_kill() {
    tpcc::all_conditions_hold(&EngineKind::ALL, 1500);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn the_same_seed_of_tpcc_leaves_the_same_database_in_every_engine() {
    tpcc::same_database_in_every_engine(1);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn rates_and_rows_of_tatp_are_right_after_runs_and_kills() {
    tatp::rates_and_rows_are_right(1);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn the_same_seed_of_tatp_leaves_the_same_database_in_every_engine() {
    tatp::same_database_in_every_engine(1);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn balances_of_tpcb_agree_after_loading_a_run_and_a_kill() {
    tpcb::balances_agree(1);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn the_same_seed_of_tpcb_leaves_the_same_database_for_any_engine_and_workers() {
    tpcb::same_database_in_every_engine(1);
}
