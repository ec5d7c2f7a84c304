//! Races of opening and closing, in the engines that others stand for.

use crate::racing::threads_that_open_while_others_close;
use crate::support::the_others;

#[test]
#[ignore = "a build of .ci/run runs it"]
fn threads_that_open_while_others_close_lose_nothing() {
    the_others().for_each(threads_that_open_while_others_close);
}
