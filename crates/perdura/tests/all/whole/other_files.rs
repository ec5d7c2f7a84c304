//! Files of another moment, in every engine that has files.

use crate::other_files::{ALL, a_single_file_is_refused, with_files};

#[test]
#[ignore = "a build of .ci/run runs it"]
fn a_single_file_of_another_moment_is_refused() {
    let moments = [(true, true), (false, true), (true, false), (false, false)];
    a_single_file_is_refused(with_files(), &moments, &ALL);
}
