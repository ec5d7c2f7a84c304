//! Lost pages, each of them, in every engine.

use perdura::EngineKind;

use crate::lost_stores::lost_as_in_a_kill;

#[test]
#[ignore = "a build of .ci/run runs it"]
fn what_a_medium_loses_is_lost_as_in_a_kill() {
    EngineKind::ALL.into_iter().for_each(|engine| lost_as_in_a_kill(engine, 1));
}
