//! The faults of the paged store, and each of its flushes, fences and syncs left out.

use faults::paged::catalogue::FAULTS;
use faults::paged::stage::LogKind;

use crate::paged::{CLEARED, COPIED, SPACE, each_place};

#[test]
#[ignore = "scripts/long runs it"]
fn each_flush_over_the_central_log_is_left_out() {
    each_place(LogKind::Central, &[COPIED, SPACE]);
}

#[test]
#[ignore = "scripts/long runs it"]
fn each_flush_over_flush_on_insert_is_left_out() {
    each_place(LogKind::OnInsert, &[CLEARED]);
}

#[test]
#[ignore = "scripts/long runs it"]
fn each_flush_over_flush_on_commit_is_left_out() {
    each_place(LogKind::OnCommit, &[CLEARED]);
}

#[test]
#[ignore = "scripts/long runs it"]
fn every_fault_is_noticed() {
    let mut missed = Vec::new();
    for fault in FAULTS {
        for log in fault.logs {
            match fault.notice(*log, 6) {
                Ok(found) => println!(
                    "{} over {}: seed {}, {} states: {}",
                    fault.name,
                    log.name(),
                    found.seed,
                    found.states,
                    found.what
                ),
                Err(injected) => missed.push((fault.name, log.name(), injected)),
            }
        }
    }
    assert!(missed.is_empty(), "not noticed (with the events that were changed): {missed:?}");
}
