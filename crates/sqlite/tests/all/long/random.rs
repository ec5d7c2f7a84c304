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
