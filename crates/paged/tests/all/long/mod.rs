//! Tests that `scripts/long` runs in a night, and no build.

use crate::store::nv_power::{Look, explore};

#[test]
#[ignore = "scripts/long runs it"]
fn power_cuts_of_memory_and_files() {
    explore(0..16, &[false, true], Look { stride: 1, bound: 6, one_in: 200 });
}
