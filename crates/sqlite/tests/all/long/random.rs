//! More crash states.

use crate::random::explore_states;
use crate::stock_crashes;

#[test]
#[ignore = "scripts/long runs it"]
fn every_crash_state_of_random_sql_is_whole() {
    explore_states(1000, 500_000, 48);
}

#[test]
#[ignore = "scripts/long runs it"]
fn every_crash_state_shared_or_not_is_right_or_refused() {
    stock_crashes::explore_states(1000, 300_000, 48, false);
    stock_crashes::explore_states(1000, 300_000, 48, true);
}

#[test]
#[ignore = "scripts/long runs it"]
fn power_cut_in_wal_mode_loses_nothing_durable() {
    let seeds = std::env::var("PERDURA_TEST_SEEDS").map_or(100, |text| text.parse().unwrap());
    crate::wal::power_cuts::explore_random(100..100 + seeds, 80, 24);
}

#[test]
#[ignore = "scripts/long runs it"]
fn power_cut_with_a_differential_log_loses_nothing_acknowledged() {
    let seeds = std::env::var("PERDURA_TEST_SEEDS").map_or(100, |text| text.parse().unwrap());
    crate::wal::diff::power_cuts::explore_random(100..100 + seeds, 80, 16);
}
