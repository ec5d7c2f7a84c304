//! Faults of the engines that have most of them.

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
