//! Tests that each build of `.ci/run` adds to the ordinary ones: longer stories, more kills, and each flush and fence
//! left out.

use crate::collected::kills_in_the_collection;
use crate::crash::{
    fails_without_one, kills_then_power_cuts, longer_recovery_survives_power_cuts,
    statements_survive_power_cuts,
};
use crate::crowd::interleavings_survive_power_cuts;
use crate::hashed;
use crate::work::{durable, small};

#[test]
#[ignore = "a build of .ci/run runs it"]
fn each_flush_and_fence_is_needed() {
    let files = "array bytes chunk collect ids session slots statement unfenced";
    fails_without_one(small(), 13, files);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn each_flush_and_fence_of_persistent_indexes_is_needed() {
    fails_without_one(durable(), 13, "collect statement unfenced");
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn each_flush_and_fence_of_a_hash_table_is_needed() {
    hashed::each_flush_and_fence_is_needed();
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn a_power_cut_while_a_hash_table_grows_loses_no_value() {
    hashed::growing_tables_lose_no_value(1);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn statements_and_commits_survive_power_cuts_at_every_fence() {
    statements_survive_power_cuts(1);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn recovery_survives_power_cuts_at_every_fence() {
    longer_recovery_survives_power_cuts();
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn a_power_cut_after_a_kill_loses_nothing() {
    kills_then_power_cuts(1);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn a_kill_in_the_collection_misleads_no_key() {
    kills_in_the_collection(1);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn interleaved_sessions_survive_power_cuts_at_fences() {
    interleavings_survive_power_cuts(21);
}
