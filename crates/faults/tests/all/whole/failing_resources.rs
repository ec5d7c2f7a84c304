//! Calls that change a file and fail, in larger numbers.

use crate::failing_resources::{each_call_that_changes_a_file_fails, the_disk_is_full};

#[test]
#[ignore = "a build of .ci/run runs it"]
fn calls_that_change_a_file_fail_in_turn() {
    each_call_that_changes_a_file_fails(11, 83);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn the_disk_is_full_from_a_call_on() {
    the_disk_is_full(11, 83);
}
