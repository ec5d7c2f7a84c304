//! Faults that take minutes to be noticed.

use perdura::EngineKind;

use crate::catalogue::caught;

#[test]
#[ignore = "scripts/long runs it"]
fn faults_of_nv_logging_foi_are_caught() {
    caught(EngineKind::NvLoggingFoi);
}

#[test]
#[ignore = "scripts/long runs it"]
fn faults_of_nv_logging_foc_are_caught() {
    caught(EngineKind::NvLoggingFoc);
}

#[test]
#[ignore = "scripts/long runs it"]
fn faults_of_sofort_are_caught() {
    caught(EngineKind::Sofort);
}
