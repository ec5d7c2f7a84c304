//! Damage to every byte of files.

use perdura::EngineKind;

use crate::damage_sweep::files::every_byte;

#[test]
#[ignore = "a build of .ci/run runs it"]
fn nv_disk_survives_damage_of_every_byte() {
    every_byte(EngineKind::NvDisk);
}
