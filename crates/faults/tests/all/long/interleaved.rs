//! Partitions that interleave, more closely.

use faults::interleaved::Interleaved;
use perdura::EngineKind;

use crate::interleaved::survives;

/// Ten times as close, of other interleavings.
#[test]
#[ignore = "scripts/long runs it"]
fn interleaved_partitions_survive_ten_times_as_many_crashes() {
    for seed in 3..6 {
        for engine in EngineKind::P1 {
            let interleaved = Interleaved::new(engine, seed, 60);
            if engine.traits().needs_files() {
                survives(engine, seed, &interleaved.run_in_files(), 10);
            } else {
                survives(engine, seed, &interleaved.run_in_pool(), 300);
            }
        }
    }
}
