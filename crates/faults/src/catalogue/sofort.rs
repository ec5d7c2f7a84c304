//! Faults of the column store.

use perdura::EngineKind;

use super::{Fault, code, fault};
use crate::mutation::{Defect, Where};

const ENGINE: EngineKind = EngineKind::Sofort;
const STATEMENT: &str = "column/src/statement.rs";
const SESSION: &str = "column/src/session.rs";
const SLOTS: &str = "column/src/slots.rs";

/// All of them.
pub(super) static FAULTS: &[Fault] = &[
    fault(
        "sofort/insert-not-flushed",
        ENGINE,
        "INSERT fences without having flushed row and entry",
        Defect::NoFlush,
        code(STATEMENT, "insert", "self.statement("),
    ),
    fault(
        "sofort/update-not-flushed",
        ENGINE,
        "UPDATE fences without having flushed the new version and its entry",
        Defect::NoFlush,
        code(STATEMENT, "update", "self.statement("),
    ),
    fault(
        "sofort/delete-not-flushed",
        ENGINE,
        "DELETE fences without having flushed its entry",
        Defect::NoFlush,
        code(STATEMENT, "delete", "self.statement("),
    ),
    fault(
        "sofort/update-start-of-lines",
        ENGINE,
        "UPDATE does not flush the first of its lines",
        Defect::NoFirstLine,
        code(STATEMENT, "update", "self.statement("),
    ),
    fault(
        "sofort/insert-end-of-lines",
        ENGINE,
        "INSERT does not flush the last of its lines",
        Defect::NoLastLine,
        code(STATEMENT, "insert", "self.statement("),
    ),
    fault(
        "sofort/insert-not-fenced",
        ENGINE,
        "INSERT is acknowledged before it is durable",
        Defect::NoFence,
        code(STATEMENT, "insert", "self.statement("),
    ),
    fault(
        "sofort/update-fenced-by-another-thread",
        ENGINE,
        "UPDATE relies on a fence of another thread",
        Defect::FenceOfAnotherThread,
        code(STATEMENT, "update", "self.statement("),
    ),
    fault(
        "sofort/delete-not-fenced",
        ENGINE,
        "DELETE is acknowledged before it is durable",
        Defect::NoFence,
        code(STATEMENT, "delete", "self.statement("),
    ),
    fault(
        "sofort/entry-not-written",
        ENGINE,
        "DELETE writes no entry",
        Defect::NoCopy,
        code(STATEMENT, "delete", "self.statement("),
    ),
    fault(
        "sofort/end-marked-early",
        ENGINE,
        "the old version's end is marked before the statement is durable",
        Defect::StoreBeforeFence,
        code(STATEMENT, "publish", "memory.store(end, own)"),
    ),
    fault(
        "sofort/statement-commit-not-fenced",
        ENGINE,
        "an update that commits returns without its fence",
        Defect::NoFence,
        code(STATEMENT, "update_and_commit", "self.statement("),
    ),
    fault(
        "sofort/commit-not-flushed",
        ENGINE,
        "COMMIT does not flush the line of its slot",
        Defect::NoFlush,
        code(SESSION, "commit", "self.fence()"),
    ),
    fault(
        "sofort/commit-not-fenced",
        ENGINE,
        "COMMIT returns without its fence",
        Defect::NoFence,
        code(SESSION, "commit", "self.fence()"),
    ),
    fault(
        "sofort/commit-acknowledged-early",
        ENGINE,
        "a statement or a COMMIT returns before its fence",
        Defect::EarlyAcknowledgement,
        Where::Anywhere,
    ),
    fault(
        "sofort/commit-not-numbered",
        ENGINE,
        "COMMIT forgets its number",
        Defect::NoStore,
        code(SLOTS, "store_commit", "NUMBER_AT"),
    ),
    fault(
        "sofort/state-torn",
        ENGINE,
        "the state that commits is stored in two parts",
        Defect::TornStore,
        code(SLOTS, "store_commit", "STATE_AT"),
    ),
    fault(
        "sofort/stamped-early",
        ENGINE,
        "versions are stamped before the commit is durable",
        Defect::StoreBeforeFence,
        code(SESSION, "commit", "self.finish_commit("),
    ),
    fault(
        "sofort/not-stamped",
        ENGINE,
        "a commit stamps no versions, and its slot is used again",
        Defect::NoStore,
        code(SESSION, "commit", "self.finish_commit("),
    ),
    fault(
        "sofort/abort-not-fenced",
        ENGINE,
        "an abort of a named transaction is acknowledged before it is durable",
        Defect::NoFence,
        code(SESSION, "abort", "self.fence()"),
    ),
    fault(
        "sofort/name-not-written",
        ENGINE,
        "a transaction's name is not written",
        Defect::NoCopy,
        code(SLOTS, "store_name", "padded"),
    ),
    fault(
        "sofort/snapshot-not-kept",
        ENGINE,
        "a slot does not say what its transaction sees",
        Defect::NoStore,
        code(SLOTS, "store_begin", "SNAPSHOT_AT"),
    ),
    fault(
        "sofort/sequence-not-raised",
        ENGINE,
        "a slot keeps the sequence of its last transaction",
        Defect::NoStore,
        code(SLOTS, "store_begin", "SEQUENCE_AT"),
    ),
    fault(
        "sofort/marks-not-redone",
        ENGINE,
        "recovery does not mark again what the last statements have changed",
        Defect::NoStore,
        code("column/src/recover.rs", "repair", "shared.stamp("),
    ),
    fault(
        "sofort/recovery-not-fenced",
        ENGINE,
        "recovery relies on what a killed process may only have stored",
        Defect::NoFence,
        code("column/src/recover.rs", "run", "memory.fence()"),
    ),
    fault(
        "sofort/ids-not-reserved",
        ENGINE,
        "ids are handed out that are not reserved durably",
        Defect::NoFlush,
        code("column/src/ids.rs", "take", "memory.flush_word(self.at)"),
    ),
];
