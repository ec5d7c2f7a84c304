//! Tests that each build of `.ci/run` adds to the ordinary ones: power cuts in TPC-C, in the engines that others stand for.

use perdura::EngineKind;

use crate::tpcc_crash::{USUAL, conditions_hold};

#[test]
#[ignore = "a build of .ci/run runs it"]
fn every_condition_holds_after_a_power_cut() {
    conditions_hold(EngineKind::ALL.into_iter().filter(|engine| !USUAL.contains(engine)));
}
