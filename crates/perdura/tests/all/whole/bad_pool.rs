//! Random damage of pools, over and over.

use crate::bad_pool::random_damage;

#[test]
#[ignore = "a build of .ci/run runs it"]
fn random_damage_gives_errors_and_never_a_panic() {
    random_damage(10..14, 500);
}
