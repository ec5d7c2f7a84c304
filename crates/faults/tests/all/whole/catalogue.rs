//! Faults of most engines.

use perdura::EngineKind;

use crate::catalogue::caught;

#[test]
#[ignore = "a build of .ci/run runs it"]
fn faults_of_nvm_inp_are_caught() {
    caught(EngineKind::NvmInp);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn faults_of_nvm_log_are_caught() {
    caught(EngineKind::NvmLog);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn faults_of_inp_are_caught() {
    caught(EngineKind::Inp);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn faults_of_cow_are_caught() {
    caught(EngineKind::Cow);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn faults_of_log_are_caught() {
    caught(EngineKind::Log);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn faults_of_nv_disk_are_caught() {
    caught(EngineKind::NvDisk);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn faults_of_nvm_cow_are_caught() {
    caught(EngineKind::NvmCow);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn faults_of_journal_are_caught() {
    caught(EngineKind::Journal);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn faults_of_wal_are_caught() {
    caught(EngineKind::Wal);
}
