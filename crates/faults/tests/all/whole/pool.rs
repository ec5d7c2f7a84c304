//! The flushes and fences of engines whose data lie in the pool.

use perdura::EngineKind;

use crate::pool::sweep_in_place;

#[test]
#[ignore = "a build of .ci/run runs it"]
fn nvm_inp_needs_every_flush_and_fence() {
    sweep_in_place(EngineKind::NvmInp, 160);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn nvm_log_needs_every_flush_and_fence() {
    sweep_in_place(EngineKind::NvmLog, 80);
}
