//! Faults of recovery.

use faults::explorer::{Again, Effort};
use faults::mutation::{Code, Defect, Mutation, Where};
use faults::plot::Plot;
use faults::scenario::two_operations_on_one_tuple;
use perdura::EngineKind;

use crate::examiner::kills_notice_what_is_not_stored;

/// A fault of recovery shows only when it is recovery that crashes, or what comes after it.
#[test]
#[ignore = "a build of .ci/run runs it"]
fn faults_of_recovery_need_a_second_crash_to_show() {
    let code = |file, function, text| Where::Code(Code { file, function, text });
    let (inp, log) = ("engines/src/nvm_inp.rs", "engines/src/nvm_log.rs");
    let plot = |engine| Plot::new(engine, 14, 60, 3).run_in_pool();
    // In which order operations are undone, and that none is undone again after an older one, only
    // several on one tuple tell.
    let two = two_operations_on_one_tuple(EngineKind::NvmInp, true);
    let (some, others) = (plot(EngineKind::NvmInp), plot(EngineKind::NvmLog));
    for (scenario, defect, at) in [
        (&some, Defect::NoStore, code(inp, "recover", "undo.recovered")),
        (&some, Defect::NoStore, code(inp, "recover", "self.tables.undo")),
        (&two, Defect::NoStore, code(inp, "recover", "log.retract")),
        (&two, Defect::NoFlush, code(inp, "recover", "log.retract")),
        (&two, Defect::NoFence, code(inp, "recover", "log.retract")),
        (&others, Defect::NoStore, code(log, "recover", "undo.recovered")),
        (&others, Defect::NoStore, code(log, "recover", "self.runs.undo")),
    ] {
        let fault = Mutation { defect, at };
        let once = scenario.explore(Some(&fault), Effort::once(4));
        assert_eq!((once.injected, once.violation), (0, None), "{fault:?}");
        let twice = Effort::once(2).then(Again::every(3, 1));
        let again = scenario.explore(Some(&fault), twice);
        assert!(again.violation.is_some(), "{fault:?}: {again:?}");
    }
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn kills_alone_notice_what_is_not_stored() {
    kills_notice_what_is_not_stored(&["nvm-inp/delete-not-logged", "nvm-log/entry-not-logged"]);
}
