//! The paged store, with as many states as `docs/reliability.md` asks of every build.

use faults::mutation::Defect;
use faults::paged::left_out::LeftOut;
use faults::paged::stage::LogKind;

use crate::paged::{AGAIN, FORM, examined, left_out};

#[test]
#[ignore = "a build of .ci/run runs it"]
fn central_log() {
    examined(LogKind::Central);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn flush_on_insert() {
    examined(LogKind::OnInsert);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn flush_on_commit() {
    examined(LogKind::OnCommit);
}

/// The next process relies on what the killed one had only stored or written.
#[test]
#[ignore = "a build of .ci/run runs it"]
fn what_is_seen_after_a_kill_survives_a_power_cut() {
    let end = left_out(Defect::NoSync, "paged/src/log/central/end.rs", "write_anew", "file.sync");
    let object = left_out(Defect::NoFlush, AGAIN, "note", "memory.flush");
    let entry = left_out(Defect::NoFlush, AGAIN, "note", "ring.flush");
    // The thread that opens the log may not be the next to fence.
    let restart = left_out(Defect::NoFence, FORM, "begin", "memory.fence");
    for (log, faults) in [
        (LogKind::Central, vec![end]),
        (LogKind::OnInsert, vec![object, entry, restart]),
        (LogKind::OnCommit, vec![object, entry, restart]),
    ] {
        let left_out = LeftOut::new(log, 2, 41);
        for fault in faults {
            // One kill of each scenario is followed by two threads.
            let more = || LeftOut::new(log, 16, 997).notice_after_kills(&fault);
            let found = left_out.notice_after_kills(&fault).or_else(more);
            println!("{}: {fault:?}: {found:?}", log.name());
            assert!(found.is_some(), "{}: {fault:?}", log.name());
        }
    }
}
