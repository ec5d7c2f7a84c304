//! Files of another moment, in every engine that has files.

use crate::other_files::{a_single_file_is_refused, with_files};
use crate::support::the_others;

#[test]
#[ignore = "a build of .ci/run runs it"]
fn a_single_file_of_another_moment_is_refused() {
    a_single_file_is_refused(with_files(), &[(true, true)]);
    let others = the_others().filter(|engine| engine.traits().needs_files());
    a_single_file_is_refused(others, &[(false, true), (true, false)]);
    a_single_file_is_refused(with_files(), &[(false, false)]);
}
