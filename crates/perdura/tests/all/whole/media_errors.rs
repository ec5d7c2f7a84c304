//! A medium that fails under slotted pages.

use perdura::EngineKind;

use crate::media_errors::{every_page_fails, slotted};

#[test]
#[ignore = "a build of .ci/run runs it"]
fn a_medium_that_fails_under_slotted_pages_gives_errors() {
    for engine in EngineKind::P3 {
        every_page_fails(engine, &slotted(engine), 4);
    }
}
