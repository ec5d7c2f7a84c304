//! Tests that `scripts/long` runs in a night, and no build.

mod crash;
mod given_back;

use crate::opening::all_cost_the_same;

#[test]
#[ignore = "scripts/long runs it"]
fn opening_does_not_depend_on_the_number_of_records() {
    all_cost_the_same([10_000, 1_000_000]);
}
