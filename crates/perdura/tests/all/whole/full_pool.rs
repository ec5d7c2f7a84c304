//! Full pools, at more places than the ordinary tests visit.

use perdura::EngineKind;

use crate::full_pool::{full_databases_go_on, growths_fail_in_turn, pools_of_small_limits};

#[test]
#[ignore = "a build of .ci/run runs it"]
fn a_full_database_can_be_read_emptied_filled_again_and_opened() {
    full_databases_go_on(EngineKind::ALL.into_iter(), 40);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn growths_of_a_pool_fail_in_turn_and_nothing_is_lost_or_leaked() {
    growths_fail_in_turn(3);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn pools_of_every_small_limit_work_or_say_that_they_are_full() {
    pools_of_small_limits(1);
}
