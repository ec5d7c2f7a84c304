//! Damage to every byte of the files of NV-Logging, and to every word of pools that are those of `fast` but for
//! its commits.

use perdura::EngineKind;

use crate::damage_sweep::files::every_byte;
use crate::damage_sweep::pools::every_word;

#[test]
#[ignore = "scripts/long runs it"]
fn nv_logging_survives_damage_of_every_byte() {
    every_byte(EngineKind::NvLoggingFoi);
    every_byte(EngineKind::NvLoggingFoc);
}

#[test]
#[ignore = "scripts/long runs it"]
fn fash_survives_damage_of_every_word() {
    every_word(EngineKind::Fash);
}

#[test]
#[ignore = "scripts/long runs it"]
fn nvwal_survives_damage_of_every_word() {
    every_word(EngineKind::Nvwal);
}

#[test]
#[ignore = "scripts/long runs it"]
fn journal_survives_damage_of_every_word() {
    every_word(EngineKind::Journal);
}

#[test]
#[ignore = "scripts/long runs it"]
fn wal_survives_damage_of_every_word() {
    every_word(EngineKind::Wal);
}
