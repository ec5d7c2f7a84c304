//! Tests that a build of .ci/run runs, and `cargo test` a small part of.

use perdura_sqlite::store::mode::Mode;

use crate::explore;
use crate::wal::diff::power_cuts;

#[test]
#[ignore = "a build of .ci/run runs it"]
fn power_cut_with_a_differential_log_loses_nothing() {
    power_cuts::explore_statements(&[("FULL", 8), ("NORMAL", 4), ("OFF", 4)]);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn power_cut_in_random_sql_with_a_differential_log_loses_nothing() {
    power_cuts::explore_random(0..9, 40, 6);
}

/// Where a processor orders the stores to a line no more than those to several.
#[test]
#[ignore = "a build of .ci/run runs it"]
fn weakly_ordered_stores_with_a_differential_log_lose_nothing() {
    power_cuts::explore_weakly_ordered(6);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn seeded_fault_of_the_differential_log_is_noticed() {
    power_cuts::faults_are_noticed(&power_cuts::FAULTS);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn interrupted_recovery_from_a_differential_log_is_repeated() {
    power_cuts::interrupted_recoveries_are_repeated(23);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn every_crash_state_of_streamed_commits_is_whole() {
    explore::streamed_commits(&[
        ("streamed-lean", Mode::Lean, 1024, 6),
        ("streamed-full", Mode::Full, 512, 6),
        ("streamed-fash", Mode::Fash, 1024, 6),
        ("streamed-nvwal", Mode::Nvwal, 1024, 6),
    ]);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn every_kill_in_the_other_modes_leaves_whole_transactions() {
    explore::every_kill("kills-fash", Mode::Fash);
    explore::every_kill("kills-fast", Mode::Fast);
    explore::every_kill("kills-nvwal", Mode::Nvwal);
}
