//! The paged store, with as many states as `docs/reliability.md` asks of every build.

use faults::paged::stage::LogKind;

use crate::paged::examined;

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
