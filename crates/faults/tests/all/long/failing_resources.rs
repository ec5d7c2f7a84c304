//! Every call that changes a file fails.

use crate::failing_resources::{each_call_that_changes_a_file_fails, the_disk_is_full};

#[test]
#[ignore = "scripts/long runs it"]
fn every_call_that_changes_a_file_fails_in_turn() {
    each_call_that_changes_a_file_fails(1, 1);
}

#[test]
#[ignore = "scripts/long runs it"]
fn the_disk_is_full_from_every_call_on() {
    the_disk_is_full(1, 1);
}
