//! Lost pages, in the engines that others stand for.

use crate::lost_stores::lost_as_in_a_kill;
use crate::support::the_others;

#[test]
#[ignore = "a build of .ci/run runs it"]
fn what_a_medium_loses_is_lost_as_in_a_kill() {
    the_others().for_each(lost_as_in_a_kill);
}
