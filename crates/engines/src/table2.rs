//! P1's Table 2 as constants: the steps of the NVM-aware engines, in the paper's order. Engines
//! mark a step when it is done; a test compares the marks with these lists, and checks in the
//! recorded trace that what a step calls synced was flushed and fenced before.

use pm::Step;

/// The tuple and its fields are durable.
pub const SYNC_TUPLE: Step = Step("sync tuple");
/// The log has an entry for the operation.
pub const RECORD: Step = Step("record in WAL");
/// The log entry is durable.
pub const SYNC_LOG_ENTRY: Step = Step("sync log entry");
/// The slots of the tuple count as persisted.
pub const MARK_PERSISTED: Step = Step("mark persisted");
/// The indexes lead to the tuple.
pub const ADD_TO_INDEXES: Step = Step("add to indexes");
/// The new values stand in the tuple.
pub const MODIFY: Step = Step("modify tuple");
/// The changes of the tuple are written back.
pub const SYNC_CHANGES: Step = Step("sync tuple changes");
/// No index leads to the tuple any more.
pub const DISCARD: Step = Step("discard entries");
/// The things that the transaction superseded are on their way to be reused.
pub const RECLAIM: Step = Step("reclaim space");
/// The index has said where the tuple lies.
pub const FIND: Step = Step("find tuple");
/// The tuple's contents are copied.
pub const RETRIEVE: Step = Step("retrieve contents");

/// The old tuple's words stand in a new slot.
pub const COPY_TUPLE: Step = Step("make a copy of the tuple");
/// The copy has the changes.
pub const CHANGE_COPY: Step = Step("apply changes on the copy");
/// The dirty directory leads to the tuple.
pub const STORE_POINTER: Step = Step("store pointer in dirty directory");
/// The dirty directory does not lead to the tuple any more.
pub const REMOVE_POINTER: Step = Step("remove pointer from dirty directory");
/// The secondary indexes of the dirty directory lead to the tuple.
pub const ADD_TO_SECONDARY: Step = Step("add to secondary indexes");
/// The secondary indexes of the dirty directory have no entry of the tuple any more.
pub const DISCARD_SECONDARY: Step = Step("discard from secondary indexes");
/// The dirty directory is durable.
pub const SYNC_DIRECTORY: Step = Step("sync dirty directory");
/// The master record leads to it, durably.
pub const MOVE_MASTER: Step = Step("update master record");

/// INSERT of NVM-CoW, and its commit: from [`SYNC_TUPLE`] on.
pub const NVM_COW_INSERT: &[Step] =
    &[STORE_POINTER, ADD_TO_SECONDARY, SYNC_TUPLE, SYNC_DIRECTORY, MOVE_MASTER, MARK_PERSISTED];
/// UPDATE of NVM-CoW, and its commit.
pub const NVM_COW_UPDATE: &[Step] = &[
    COPY_TUPLE,
    CHANGE_COPY,
    STORE_POINTER,
    ADD_TO_SECONDARY,
    SYNC_TUPLE,
    SYNC_DIRECTORY,
    MOVE_MASTER,
    MARK_PERSISTED,
    RECLAIM,
];
/// DELETE of NVM-CoW, and its commit.
pub const NVM_COW_DELETE: &[Step] =
    &[REMOVE_POINTER, DISCARD_SECONDARY, SYNC_DIRECTORY, MOVE_MASTER, RECLAIM];
/// SELECT of NVM-CoW.
pub const NVM_COW_SELECT: &[Step] = &[FIND, RETRIEVE];
/// The MemTable leads to the tuple.
pub const ADD_TO_MEMTABLE: Step = Step("add to MemTable");
/// The MemTable says that there is no such tuple.
pub const MARK_TOMBSTONE: Step = Step("mark tombstone");
/// The newest run with an entry of the tuple is known.
pub const FIND_ENTRIES: Step = Step("find tuple entries");
/// The tuple has been put together from its entries.
pub const COALESCE: Step = Step("coalesce entries");

/// INSERT of NVM-InP.
pub const NVM_INP_INSERT: &[Step] =
    &[SYNC_TUPLE, RECORD, SYNC_LOG_ENTRY, MARK_PERSISTED, ADD_TO_INDEXES];
/// UPDATE of NVM-InP.
pub const NVM_INP_UPDATE: &[Step] = &[RECORD, SYNC_LOG_ENTRY, MODIFY, SYNC_CHANGES];
/// DELETE of NVM-InP.
pub const NVM_INP_DELETE: &[Step] = &[RECORD, SYNC_LOG_ENTRY, DISCARD, RECLAIM];
/// SELECT of NVM-InP.
pub const NVM_INP_SELECT: &[Step] = &[FIND, RETRIEVE];
/// INSERT of NVM-Log.
pub const NVM_LOG_INSERT: &[Step] =
    &[SYNC_TUPLE, RECORD, SYNC_LOG_ENTRY, MARK_PERSISTED, ADD_TO_MEMTABLE];
/// UPDATE of NVM-Log.
pub const NVM_LOG_UPDATE: &[Step] = &[RECORD, SYNC_LOG_ENTRY, MODIFY, SYNC_CHANGES];
/// DELETE of NVM-Log; its last step, to reclaim space, is part of merging runs.
pub const NVM_LOG_DELETE: &[Step] = &[RECORD, SYNC_LOG_ENTRY, MARK_TOMBSTONE];
/// SELECT of NVM-Log.
pub const NVM_LOG_SELECT: &[Step] = &[FIND_ENTRIES, COALESCE];
