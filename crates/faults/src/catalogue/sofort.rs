//! Faults of the column store.

const STATEMENT: &str = "column/src/statement.rs";
const SESSION: &str = "column/src/session.rs";
const SLOTS: &str = "column/src/slots.rs";

faults! {
    Sofort "sofort/insert-not-flushed":
        "INSERT fences without having flushed row and entry",
        NoFlush at STATEMENT, "insert", "self.statement(";
    Sofort "sofort/update-not-flushed":
        "UPDATE fences without having flushed the new version and its entry",
        NoFlush at STATEMENT, "update", "self.statement(";
    Sofort "sofort/delete-not-flushed":
        "DELETE fences without having flushed its entry",
        NoFlush at STATEMENT, "delete", "self.statement(";
    Sofort "sofort/update-start-of-lines":
        "UPDATE does not flush the first of its lines",
        NoFirstLine at STATEMENT, "update", "self.statement(";
    Sofort "sofort/insert-end-of-lines":
        "INSERT does not flush the last of its lines",
        NoLastLine at STATEMENT, "insert", "self.statement(";
    Sofort "sofort/insert-not-fenced":
        "INSERT is acknowledged before it is durable",
        NoFence at STATEMENT, "insert", "self.statement(";
    Sofort "sofort/update-fenced-by-another-thread":
        "UPDATE relies on a fence of another thread",
        FenceOfAnotherThread at STATEMENT, "update", "self.statement(";
    Sofort "sofort/delete-not-fenced":
        "DELETE is acknowledged before it is durable",
        NoFence at STATEMENT, "delete", "self.statement(";
    Sofort "sofort/entry-not-written":
        "DELETE writes no entry",
        NoCopy at STATEMENT, "delete", "self.statement(";
    Sofort "sofort/end-marked-early":
        "the old version's end is marked before the statement is durable",
        StoreBeforeFence at STATEMENT, "publish", "memory.store(end, own)";
    Sofort "sofort/statement-commit-not-fenced":
        "an update that commits returns without its fence",
        NoFence at STATEMENT, "update_and_commit", "self.statement(";
    Sofort "sofort/commit-not-flushed":
        "COMMIT does not flush the line of its slot",
        NoFlush at SESSION, "commit", "self.fence()";
    Sofort "sofort/commit-not-fenced":
        "COMMIT returns without its fence",
        NoFence at SESSION, "commit", "self.fence()";
    Sofort "sofort/commit-acknowledged-early":
        "a statement or a COMMIT returns before its fence",
        EarlyAcknowledgement;
    Sofort "sofort/commit-not-numbered":
        "COMMIT forgets its number",
        NoStore at SLOTS, "store_commit", "NUMBER_AT";
    Sofort "sofort/state-torn":
        "the state that commits is stored in two parts",
        TornStore at SLOTS, "store_commit", "STATE_AT";
    Sofort "sofort/stamped-early":
        "versions are stamped before the commit is durable",
        StoreBeforeFence at SESSION, "commit", "self.finish_commit(";
    Sofort "sofort/not-stamped":
        "a commit stamps no versions, and its slot is used again",
        NoStore at SESSION, "commit", "self.finish_commit(";
    Sofort "sofort/abort-not-fenced":
        "an abort of a named transaction is acknowledged before it is durable",
        NoFence at SESSION, "abort", "self.fence()";
    Sofort "sofort/name-not-written":
        "a transaction's name is not written",
        NoCopy at SLOTS, "store_name", "padded";
    Sofort "sofort/snapshot-not-kept":
        "a slot does not say what its transaction sees",
        NoStore at SLOTS, "store_begin", "SNAPSHOT_AT";
    Sofort "sofort/sequence-not-raised":
        "a slot keeps the sequence of its last transaction",
        NoStore at SLOTS, "store_begin", "SEQUENCE_AT";
    Sofort "sofort/marks-not-redone":
        "recovery does not mark again what the last statements have changed",
        NoStore at "column/src/recover.rs", "repair", "shared.stamp(";
    Sofort "sofort/recovery-not-fenced":
        "recovery relies on what a killed process may only have stored",
        NoFence at "column/src/recover.rs", "run", "memory.fence()";
    Sofort "sofort/ids-not-reserved":
        "ids are handed out that are not reserved durably",
        NoFlush at "column/src/ids.rs", "take", "memory.flush_word(self.at)";
}
