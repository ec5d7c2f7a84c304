//! A kill, and a power cut after the next process has continued, of engines that others stand for.

use perdura::EngineKind;

use crate::killed::{kills_in_story, kills_then_power_cuts, openings_without_one};

#[test]
#[ignore = "a build of .ci/run runs it"]
fn nvm_cow_survives_a_power_cut_after_a_kill() {
    kills_then_power_cuts(EngineKind::NvmCow, 11);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn fash_survives_a_power_cut_after_a_kill() {
    kills_then_power_cuts(EngineKind::Fash, 13);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn nvwal_survives_a_power_cut_after_a_kill() {
    kills_then_power_cuts(EngineKind::Nvwal, 2);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn journal_survives_a_power_cut_after_a_kill() {
    kills_then_power_cuts(EngineKind::Journal, 7);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn wal_survives_a_power_cut_after_a_kill() {
    kills_then_power_cuts(EngineKind::Wal, 11);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn recovery_of_nvm_cow_needs_every_flush_and_fence() {
    openings_without_one(EngineKind::NvmCow, &[]);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn recovery_of_nvm_log_needs_every_flush_and_fence() {
    openings_without_one(EngineKind::NvmLog, &[]);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn recovery_of_nvm_inp_needs_every_flush_and_fence() {
    openings_without_one(EngineKind::NvmInp, &[]);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn another_story_of_nvm_inp_survives_a_power_cut_after_a_kill() {
    kills_in_story(EngineKind::NvmInp, 32, 23);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn another_story_of_nvm_log_survives_a_power_cut_after_a_kill() {
    kills_in_story(EngineKind::NvmLog, 32, 13);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn another_story_of_fast_survives_a_power_cut_after_a_kill() {
    kills_in_story(EngineKind::Fast, 32, 13);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn another_story_of_sofort_survives_a_power_cut_after_a_kill() {
    kills_in_story(EngineKind::Sofort, 32, 13);
}
