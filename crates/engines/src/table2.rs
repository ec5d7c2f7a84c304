//! P1's Table 2 as constants: the steps of the NVM-aware engines, in the paper's order. Engines mark a step when it is done; a test compares the marks with these lists, and
//! checks in the recorded trace that what a step calls synced was flushed and fenced before.

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
/// What the transaction superseded is on its way to be reused.
pub const RECLAIM: Step = Step("reclaim space");
/// The index has said where the tuple lies.
pub const FIND: Step = Step("find tuple");
/// The tuple's contents are copied.
pub const RETRIEVE: Step = Step("retrieve contents");

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
