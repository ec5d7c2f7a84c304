//! Tests that each build of `.ci/run` adds to the ordinary ones: more stories of objects, and each flush and fence of
//! an opening left out.

use crate::crash::{objects_are_there_or_not, opening_needs_each_flush_and_fence};

#[test]
#[ignore = "a build of .ci/run runs it"]
fn objects_are_there_or_not_at_every_fence() {
    objects_are_there_or_not(&[2, 3]);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn opening_after_a_kill_needs_each_flush_and_fence() {
    opening_needs_each_flush_and_fence();
}
