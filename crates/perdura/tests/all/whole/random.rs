//! Random operations on many rows, in every engine.

use crate::conformance::random::{Run, savepoints_are_undone};

#[test]
#[ignore = "a build of .ci/run runs it"]
fn thousands_of_keys() {
    Run { seed: 2, rounds: 8, keys: 3000, group: 1 }.same_in_every_engine();
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn few_keys() {
    Run { seed: 0, rounds: 14, keys: 40, group: 1 }.same_in_every_engine();
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn hundreds_of_keys() {
    Run { seed: 1, rounds: 8, keys: 400, group: 1 }.same_in_every_engine();
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn groups_of_a_few() {
    Run { seed: 3, rounds: 8, keys: 200, group: 7 }.same_in_every_engine();
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn groups_that_only_a_sync_ends() {
    Run { seed: 4, rounds: 8, keys: 100, group: 100_000 }.same_in_every_engine();
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn what_was_done_after_a_savepoint_is_undone() {
    savepoints_are_undone(1..6);
}
