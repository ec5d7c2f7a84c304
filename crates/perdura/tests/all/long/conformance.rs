//! Large values and 256 partitions, in the engines that others stand for.

use perdura::EngineKind;

use crate::conformance::large::{
    IN_A_BUILD, MOST, SIZES, values_beyond_all_buffers, values_of_several_chunks,
};
use crate::conformance::partitions::{MOST_PARTITIONS, there_can_be_as_many_partitions};
use crate::support::the_others;

#[test]
#[ignore = "scripts/long runs it"]
fn there_can_be_256_partitions() {
    the_others().for_each(|engine| there_can_be_as_many_partitions(engine, MOST_PARTITIONS));
}

#[test]
#[ignore = "scripts/long runs it"]
fn values_of_several_chunks_come_back_change_and_go() {
    the_others().for_each(|engine| values_of_several_chunks(engine, &SIZES));
}

#[test]
#[ignore = "scripts/long runs it"]
fn the_largest_values_in_one_transaction() {
    let others = EngineKind::ALL.into_iter().filter(|engine| !IN_A_BUILD.contains(engine));
    others.for_each(|engine| values_beyond_all_buffers(engine, MOST));
}
