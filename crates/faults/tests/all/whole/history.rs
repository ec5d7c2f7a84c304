//! Crashes of more random histories.

use crate::history::crashes::random_prefixes;

#[test]
#[ignore = "a build of .ci/run runs it"]
fn random_prefixes_pass_and_changed_ones_do_not() {
    random_prefixes(100);
}
