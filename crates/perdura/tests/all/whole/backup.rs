//! Copies, in the engines that others stand for, and the longest tests of them in every engine.

use perdura::EngineKind;

use crate::backup::chunks::chunks_of_sizes_hold;
use crate::backup::lines::{a_line_that_is_wrong_is_named, what_goes_out_comes_back};
use crate::backup::moments::{a_backup_is_one_moment, several_partitions_are_copied};
use crate::backup::restored::every_type_comes_back;
use crate::support::the_others;

#[test]
#[ignore = "a build of .ci/run runs it"]
fn a_backup_taken_while_others_write_is_of_one_moment() {
    the_others().for_each(a_backup_is_one_moment);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn several_partitions_are_copied_at_one_moment() {
    EngineKind::ALL.into_iter().for_each(|engine| several_partitions_are_copied(engine, 8, 500));
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn chunks_of_every_size_hold_a_database_and_its_restored_backup() {
    EngineKind::ALL.into_iter().for_each(|engine| chunks_of_sizes_hold(engine, 1));
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn what_goes_out_comes_back_in_every_engine() {
    EngineKind::ALL
        .into_iter()
        .for_each(|engine| what_goes_out_comes_back(engine, &EngineKind::ALL));
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn a_line_that_is_wrong_is_named_and_nothing_of_its_batch_is_in() {
    the_others().for_each(a_line_that_is_wrong_is_named);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn every_type_comes_back_in_every_engine() {
    EngineKind::ALL.into_iter().for_each(|engine| every_type_comes_back(engine, &EngineKind::ALL));
}
