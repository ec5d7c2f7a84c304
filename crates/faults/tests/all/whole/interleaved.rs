//! Partitions whose transactions interleave, in the engines and with the statements that take longest.

use faults::interleaved::Interleaved;
use perdura::EngineKind;

use crate::interleaved::{SEEDS, survives, survives_in_pool, with_statements};
use crate::points::some_of;

#[test]
#[ignore = "a build of .ci/run runs it"]
fn partitions_of_nvm_inp_with_statements_survive_crashes() {
    for &seed in some_of(&SEEDS) {
        let scenario = with_statements(seed).run_in_pool();
        survives(EngineKind::NvmInp, seed, &scenario, 4_000);
    }
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn partitions_of_nvm_cow_that_interleave_survive_crashes() {
    survives_in_pool(EngineKind::NvmCow, 60);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn partitions_in_files_that_interleave_survive_crashes() {
    for engine in EngineKind::P1.into_iter().filter(|engine| engine.traits().needs_files()) {
        for &seed in some_of(&SEEDS) {
            survives(engine, seed, &Interleaved::new(engine, seed, 60).run_in_files(), 40);
        }
    }
}
