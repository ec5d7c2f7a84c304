//! The figures that `FAULTS.md` asks of every build: every crash point of the standard story, so many
//! distinct states, so many crashes in recovery. The kills are in the tests of the command. Four
//! minutes on two cores: `cargo test -p perdura-faults --test examined -- --ignored --nocapture`

use std::sync::atomic::AtomicU64;

use faults::examine::{Settings, examine};
use perdura::EngineKind;

/// `nested` is asked for in proportion to the states, of which the standard stories of NVM-InP and
/// NVM-Log have more than enough.
fn examined(engine: EngineKind, states: u64, nested: u64) {
    let settings = Settings { states, nested, ..Settings::of(engine) };
    let report = examine(&settings, &AtomicU64::new(0));
    println!("{report:?}");
    assert_eq!(report.violations, 0, "{report:?}");
    assert!(report.states >= states && report.nested_states >= 20_000, "{report:?}");
}

#[test]
#[ignore = "takes four minutes"]
fn nvm_inp() {
    examined(EngineKind::NvmInp, 34_000, 9_000);
}

#[test]
#[ignore = "takes four minutes"]
fn nvm_cow() {
    examined(EngineKind::NvmCow, 34_000, 20_000);
}

#[test]
#[ignore = "takes four minutes"]
fn nvm_log() {
    examined(EngineKind::NvmLog, 34_000, 9_000);
}

#[test]
#[ignore = "takes four minutes"]
fn inp() {
    examined(EngineKind::Inp, 20_000, 20_000);
}

#[test]
#[ignore = "takes four minutes"]
fn cow() {
    examined(EngineKind::Cow, 20_000, 20_000);
}

#[test]
#[ignore = "takes four minutes"]
fn log() {
    examined(EngineKind::Log, 20_000, 20_000);
}
