//! Tests that each build of `.ci/run` adds to the ordinary ones: more states of each power cut.

use index::{LongKey, WideKey};

use crate::crash::survives;

#[test]
#[ignore = "a build of .ci/run runs it"]
fn narrow_trees_survive_a_power_cut_at_every_fence() {
    survives::<u64>(1, 90, 30);
    survives::<u64>(2, 90, 30);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn wide_trees_survive_a_power_cut_at_every_fence() {
    survives::<WideKey>(3, 90, 30);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn long_trees_survive_a_power_cut_at_every_fence() {
    survives::<LongKey>(4, 60, 8);
}
