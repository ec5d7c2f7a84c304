//! Sizes and numbers of the conformance tests that the ordinary ones have a small part of.

use crate::conformance::large::{
    IN_A_BUILD, MOST, SIZES, values_beyond_all_buffers, values_of_several_chunks,
};
use crate::conformance::long_keys;
use crate::conformance::partitions::{MOST_PARTITIONS, there_can_be_as_many_partitions};
use crate::conformance::scans::scans_within_bounds;
use crate::conformance::situations::aborts_take_no_more_room_than_two_hundred;
use crate::support::few;

#[test]
#[ignore = "a build of .ci/run runs it"]
fn there_can_be_256_partitions() {
    few().for_each(|engine| there_can_be_as_many_partitions(engine, MOST_PARTITIONS));
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn values_of_several_chunks_come_back_change_and_go() {
    few().for_each(|engine| values_of_several_chunks(engine, &SIZES));
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn the_largest_values_in_one_transaction() {
    IN_A_BUILD.into_iter().for_each(|engine| values_beyond_all_buffers(engine, MOST));
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn long_keys_agree_with_a_model_in_every_engine() {
    long_keys::run(2);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn long_keys_go_into_backups_and_dumps_and_come_back() {
    long_keys::long_keys_come_back(1);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn scans_show_exactly_what_lies_within_their_bounds() {
    scans_within_bounds(300);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn a_thousand_aborts_take_no_more_room_than_two_hundred() {
    aborts_take_no_more_room_than_two_hundred(1_000);
}
