//! The figures that `docs/reliability.md` asks of every build: every crash point of the standard
//! story, so many distinct states, so many crashes in recovery. The kills are in the tests of the
//! command.

use std::sync::atomic::AtomicU64;

use faults::examine::{Settings, examine};
use perdura::EngineKind;

fn examined(engine: EngineKind, states: u64) {
    examined_again(engine, states, 20_000);
}

/// The same with so many crashes in recovery.
fn examined_again(engine: EngineKind, states: u64, nested: u64) {
    // So many states the standard story has, where it has more than are wanted: crashes in recovery
    // come for a share of them.
    let settings = Settings { states, nested, bound: 4, ..Settings::of(engine) };
    let report = examine(&settings, &AtomicU64::new(0));
    println!("{report:?}");
    assert_eq!(report.violations, 0, "{report:?}");
    assert!(report.states >= states && report.in_recovery >= nested, "{report:?}");
}

#[test]
fn nvm_inp() {
    examined(EngineKind::NvmInp, 57_000);
}

#[test]
fn nvm_cow() {
    examined(EngineKind::NvmCow, 99_000);
}

#[test]
fn nvm_log() {
    examined(EngineKind::NvmLog, 60_000);
}

#[test]
fn inp() {
    examined(EngineKind::Inp, 20_000);
}

#[test]
fn cow() {
    examined(EngineKind::Cow, 20_000);
}

#[test]
fn log() {
    examined(EngineKind::Log, 20_000);
}

#[test]
fn nv_disk() {
    examined_again(EngineKind::NvDisk, 6_000, 1_000);
}

#[test]
#[ignore = "takes a minute"]
fn nv_disk_closely() {
    examined_again(EngineKind::NvDisk, 20_000, 2_000);
}
