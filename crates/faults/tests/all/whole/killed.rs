//! Power cuts after kills, more closely.

use perdura::EngineKind;

use crate::killed::kills_then_power_cuts;

#[test]
#[ignore = "a build of .ci/run runs it"]
fn sofort_survives_a_power_cut_after_a_kill() {
    kills_then_power_cuts(EngineKind::Sofort, 13);
}
