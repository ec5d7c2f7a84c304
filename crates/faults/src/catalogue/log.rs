//! Faults of Log, and of its log, runs and manifest in files.

use perdura::EngineKind;

use super::{Fault, code, fault};
use crate::mutation::{Defect, Where};

const ENGINE: EngineKind = EngineKind::Log;

/// All of them.
pub(super) static FAULTS: &[Fault] = &[
    fault(
        "log/commit-not-synced",
        ENGINE,
        "COMMIT does not sync the log",
        Defect::NoSync,
        code("storage/src/logs/wal.rs", "flush", "sync"),
    ),
    fault(
        "log/commit-acknowledged-early",
        ENGINE,
        "COMMIT returns before its sync",
        Defect::EarlyAcknowledgement,
        Where::Anywhere,
    ),
    fault(
        "log/log-written-late",
        ENGINE,
        "the log is written after the sync",
        Defect::WriteAfterSync,
        code("storage/src/logs/wal.rs", "spill", "write_bytes"),
    ),
    fault(
        "log/run-not-synced",
        ENGINE,
        "the manifest names a run that is not durable",
        Defect::NoSync,
        code("storage/src/lsm/sstable/writer.rs", "sync", "sync"),
    ),
    fault(
        "log/run-late",
        ENGINE,
        "a run is written after its sync",
        Defect::WriteAfterSync,
        code("storage/src/lsm/sstable/writer.rs", "spill", "write_at"),
    ),
    fault(
        "log/run-name-not-synced",
        ENGINE,
        "the manifest names a run whose name is not durable",
        Defect::NoSync,
        code("storage/src/lsm/work.rs", "install", "sync_directory"),
    ),
    fault(
        "log/manifest-not-synced",
        ENGINE,
        "an edit of the manifest is not synced",
        Defect::NoSync,
        code("storage/src/lsm/manifest.rs", "edit", "sync"),
    ),
    fault(
        "log/manifest-edit-lost",
        ENGINE,
        "an edit of the manifest is not written",
        Defect::NoWrite,
        code("storage/src/lsm/manifest.rs", "edit", "write_at"),
    ),
    fault(
        "log/log-trimmed-early",
        ENGINE,
        "the log is removed before the run that replaces it is durable",
        Defect::EarlyRemove,
        code("storage/src/logs/wal.rs", "remove_before", "remove"),
    ),
    fault(
        "log/segment-not-synced",
        ENGINE,
        "the header of a new log segment is not synced",
        Defect::NoSync,
        code("storage/src/logs/wal.rs", "begin_segment", "tail.file.sync"),
    ),
    fault(
        "log/inputs-removed-early",
        ENGINE,
        "the inputs of a merge are removed before its result is durable",
        Defect::EarlyRemove,
        code("storage/src/lsm/work.rs", "install", "remove"),
    ),
];
