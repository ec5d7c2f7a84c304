//! Damage to every byte of files and every word of pools, in the engines that others stand for.

use perdura::EngineKind;

use crate::damage_sweep::files::every_byte;
use crate::damage_sweep::pools::every_word;

#[test]
#[ignore = "a build of .ci/run runs it"]
fn nv_disk_survives_damage_of_every_byte() {
    every_byte(EngineKind::NvDisk);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn cow_survives_damage_of_every_byte() {
    every_byte(EngineKind::Cow);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn log_survives_damage_of_every_byte() {
    every_byte(EngineKind::Log);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn nvm_cow_survives_damage_of_every_word() {
    every_word(EngineKind::NvmCow);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn nvm_log_survives_damage_of_every_word() {
    every_word(EngineKind::NvmLog);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn sofort_survives_damage_of_every_word() {
    every_word(EngineKind::Sofort);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn nvm_inp_survives_damage_of_every_word() {
    every_word(EngineKind::NvmInp);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn fast_survives_damage_of_every_word() {
    every_word(EngineKind::Fast);
}
