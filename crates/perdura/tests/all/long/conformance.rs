//! Large values and 256 partitions, in the engines that others stand for.

use perdura::EngineKind;

use crate::conformance::large::{IN_A_BUILD, the_largest_values, values_of_several_chunks};
use crate::conformance::partitions::there_can_be_as_many_partitions;
use crate::support::the_others;

#[test]
#[ignore = "scripts/long runs it"]
fn there_can_be_256_partitions() {
    the_others().for_each(there_can_be_as_many_partitions);
}

#[test]
#[ignore = "scripts/long runs it"]
fn values_of_several_chunks_come_back_change_and_go() {
    the_others().for_each(values_of_several_chunks);
}

#[test]
#[ignore = "scripts/long runs it"]
fn the_largest_values_in_one_transaction() {
    let others = EngineKind::ALL.into_iter().filter(|engine| !IN_A_BUILD.contains(engine));
    others.for_each(the_largest_values);
}
