//! Faults of NVM-Log, and of the MemTables and runs under it.

use perdura::EngineKind;

use super::{Fault, code, fault};
use crate::mutation::{Defect, Where};

const ENGINE: EngineKind = EngineKind::NvmLog;

/// All of them.
pub(super) static FAULTS: &[Fault] = &[
    fault(
        "nvm-log/entry-not-flushed",
        ENGINE,
        "an entry of the MemTable and its log entry are not flushed",
        Defect::NoFlush,
        code("engines/src/nvm_log.rs", "record", "Flushed::lines"),
    ),
    fault(
        "nvm-log/entry-not-fenced",
        ENGINE,
        "an entry of the MemTable counts before its log entry is durable",
        Defect::NoFence,
        code("engines/src/nvm_log.rs", "record", "fence_for"),
    ),
    fault(
        "nvm-log/entry-not-logged",
        ENGINE,
        "an entry of the MemTable is not logged",
        Defect::NoCopy,
        code("engines/src/nvm_log.rs", "record", "log.append"),
    ),
    fault(
        "nvm-log/fields-not-flushed",
        ENGINE,
        "new fields and their log entry are not flushed",
        Defect::NoFlush,
        code("engines/src/nvm_log.rs", "record_fields", "Flushed::lines"),
    ),
    fault(
        "nvm-log/fields-before-fence",
        ENGINE,
        "new words are stored into an entry before the fence",
        Defect::StoreBeforeFence,
        code("engines/src/nvm_log.rs", "try_update", "replace_fields"),
    ),
    fault(
        "nvm-log/tombstone-before-fence",
        ENGINE,
        "a tombstone counts before its log entry is durable",
        Defect::StoreBeforeFence,
        code("engines/src/nvm_log.rs", "try_delete", "publish"),
    ),
    fault(
        "nvm-log/commit-not-flushed",
        ENGINE,
        "COMMIT does not flush the state word",
        Defect::NoFlush,
        code("engines/src/undo/engine.rs", "commit", "log.commit"),
    ),
    fault(
        "nvm-log/commit-state-early",
        ENGINE,
        "COMMIT stores the state word before the changes are durable",
        Defect::StoreBeforeFence,
        code("engines/src/undo/engine.rs", "commit", "log.commit"),
    ),
    fault(
        "nvm-log/commit-acknowledged-early",
        ENGINE,
        "COMMIT returns before its last fence",
        Defect::EarlyAcknowledgement,
        Where::Anywhere,
    ),
    fault(
        "nvm-log/abort-not-flushed",
        ENGINE,
        "ABORT does not flush what it has undone",
        Defect::NoFlush,
        code("engines/src/nvm_log.rs", "undo", "runs.undo"),
    ),
    fault(
        "nvm-log/freeze-not-flushed",
        ENGINE,
        "freezing does not flush its mini-transaction",
        Defect::NoFlush,
        code("storage/src/runs/freeze.rs", "freeze", "mini_commit"),
    ),
    fault(
        "nvm-log/freeze-not-fenced",
        ENGINE,
        "freezing does not fence its mini-transaction",
        Defect::NoFence,
        code("storage/src/runs/freeze.rs", "freeze", "mini_commit"),
    ),
    fault(
        "nvm-log/freeze-unsettled",
        ENGINE,
        "freezing does not flush the bits of what the last transaction superseded",
        Defect::NoFlush,
        code("engines/src/nvm_log/room.rs", "put_off_work", "superseded.clear_all"),
    ),
    fault(
        "nvm-log/new-run-not-written",
        ENGINE,
        "the descriptor of a new run is not written",
        Defect::NoCopy,
        code("storage/src/runs/mod.rs", "write_run", "copy"),
    ),
    fault(
        "nvm-log/merged-leaf-not-flushed",
        ENGINE,
        "a leaf of a merged run is not flushed",
        Defect::NoFlush,
        code("storage/src/runs/merge.rs", "merge_leaf", "append_leaf"),
    ),
    fault(
        "nvm-log/filter-not-flushed",
        ENGINE,
        "a Bloom filter is attached without a flush",
        Defect::NoFlush,
        code("storage/src/runs/filter.rs", "finish_filter", "mini_commit"),
    ),
    fault(
        "nvm-log/filter-bits-not-flushed",
        ENGINE,
        "the bits of a Bloom filter are not flushed",
        Defect::NoFlush,
        code("storage/src/runs/filter.rs", "copy_some", "flush"),
    ),
];
