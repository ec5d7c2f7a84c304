//! Standard scenarios that take minutes, and more crashes in recovery.

use perdura::EngineKind;

use crate::examined::examined;

#[test]
#[ignore = "scripts/long runs it"]
fn crashes_in_recovery_of_p1() {
    EngineKind::P1.into_iter().for_each(|engine| examined(engine, 20_000, 20_000));
}

#[test]
#[ignore = "scripts/long runs it"]
fn nv_logging() {
    examined(EngineKind::NvLoggingFoi, 20_000, 2_000);
    examined(EngineKind::NvLoggingFoc, 20_000, 2_000);
}
