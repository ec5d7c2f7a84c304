//! A medium that fails at any page.

use perdura::EngineKind;

use crate::media_errors::{in_pools, pages_fail, slotted};

#[test]
#[ignore = "a build of .ci/run runs it"]
fn a_medium_that_fails_under_slotted_pages_gives_errors() {
    for engine in EngineKind::P3 {
        pages_fail(engine, &slotted(engine), 4, 1);
    }
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn a_medium_that_fails_at_any_page_gives_errors() {
    in_pools(1);
}
