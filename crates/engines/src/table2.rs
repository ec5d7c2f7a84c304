//! P1's Table 2 as constants: the steps of the NVM-aware engines, in the paper's order and close to
//! its words. Engines mark a step when it is done; a test compares the marks with these lists, and
//! checks in the recorded trace that what a step calls synced was flushed and fenced before.

use pm::Step;

/// "Sync tuple with NVM."
pub const SYNC_TUPLE: Step = Step("sync tuple");
/// "Record tuple pointer in WAL", or "Record tuple changes in WAL".
pub const RECORD: Step = Step("record in WAL");
/// "Sync log entry with NVM."
pub const SYNC_LOG_ENTRY: Step = Step("sync log entry");
/// "Mark tuple state as persisted."
pub const MARK_PERSISTED: Step = Step("mark persisted");
/// "Add tuple entry in indexes."
pub const ADD_TO_INDEXES: Step = Step("add to indexes");
/// "Perform modifications on the tuple."
pub const MODIFY: Step = Step("modify tuple");
/// "Sync tuple changes with NVM."
pub const SYNC_CHANGES: Step = Step("sync tuple changes");
/// "Discard entry from table and indexes."
pub const DISCARD: Step = Step("discard entries");
/// "Reclaim space at the end of transaction."
pub const RECLAIM: Step = Step("reclaim space");
/// "Find tuple pointer using index/table."
pub const FIND: Step = Step("find tuple");
/// "Retrieve tuple contents."
pub const RETRIEVE: Step = Step("retrieve contents");

/// INSERT of NVM-InP.
pub const NVM_INP_INSERT: &[Step] =
    &[SYNC_TUPLE, RECORD, SYNC_LOG_ENTRY, MARK_PERSISTED, ADD_TO_INDEXES];
/// UPDATE of NVM-InP.
pub const NVM_INP_UPDATE: &[Step] = &[RECORD, SYNC_LOG_ENTRY, MODIFY, SYNC_CHANGES];
/// DELETE of NVM-InP.
pub const NVM_INP_DELETE: &[Step] = &[RECORD, SYNC_LOG_ENTRY, DISCARD, RECLAIM];
/// SELECT of NVM-InP.
pub const NVM_INP_SELECT: &[Step] = &[FIND, RETRIEVE];
