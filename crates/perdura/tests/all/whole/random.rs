//! Random operations on many rows, in every engine.

use crate::conformance::random::Run;

#[test]
#[ignore = "a build of .ci/run runs it"]
fn thousands_of_keys() {
    Run { seed: 2, rounds: 8, keys: 3000, group: 1 }.same_in_every_engine();
}
