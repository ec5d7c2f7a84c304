//! A full disk, at each call.

use crate::full_disk::a_full_disk_loses_nothing;

#[test]
#[ignore = "a build of .ci/run runs it"]
fn a_disk_that_is_full_at_any_call_loses_nothing() {
    a_full_disk_loses_nothing(1);
}
