//! Repairs after damage at all the places, and in the engines that others stand for.

use perdura::EngineKind;

use crate::salvage::{damaged_pages_are_named, what_is_salvaged_is_right};
use crate::support::the_others;

#[test]
#[ignore = "a build of .ci/run runs it"]
fn what_is_salvaged_of_damaged_files_is_right() {
    what_is_salvaged_is_right(EngineKind::ALL.into_iter(), 1);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn a_damaged_page_is_named_and_costs_no_other() {
    damaged_pages_are_named(the_others(), 7);
}
