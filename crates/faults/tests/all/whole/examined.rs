//! Every engine, with as many states and crashes in recovery as `docs/reliability.md` asks of every build.

use perdura::EngineKind;

use crate::examined::{examined, random_scenarios};

/// Scenarios of both, in groups too: their standard scenario alone takes minutes.
#[test]
#[ignore = "a build of .ci/run runs it"]
fn random_scenarios_of_nv_logging() {
    random_scenarios(EngineKind::NvLoggingFoi, 2);
    random_scenarios(EngineKind::NvLoggingFoc, 4);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn nvm_inp() {
    examined(EngineKind::NvmInp, 10_000, 2_000);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn nvm_cow() {
    examined(EngineKind::NvmCow, 10_000, 2_000);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn nvm_log() {
    examined(EngineKind::NvmLog, 10_000, 2_000);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn inp() {
    examined(EngineKind::Inp, 10_000, 2_000);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn cow() {
    examined(EngineKind::Cow, 10_000, 2_000);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn log() {
    examined(EngineKind::Log, 10_000, 2_000);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn nv_disk() {
    examined(EngineKind::NvDisk, 8_000, 1_000);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn fast() {
    examined(EngineKind::Fast, 8_000, 1_000);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn fash() {
    examined(EngineKind::Fash, 8_000, 1_000);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn nvwal() {
    examined(EngineKind::Nvwal, 8_000, 1_000);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn journal() {
    examined(EngineKind::Journal, 8_000, 1_000);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn wal() {
    examined(EngineKind::Wal, 8_000, 1_000);
}

/// Transactions that are open go on after each crash, and after the next one.
#[test]
#[ignore = "a build of .ci/run runs it"]
fn sofort() {
    examined(EngineKind::Sofort, 8_000, 1_000);
}
