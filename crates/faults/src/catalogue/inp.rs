//! Faults of InP, and of its log and checkpoints in files.

use perdura::EngineKind;

use super::{Fault, code, fault};
use crate::mutation::{Defect, Where};

const ENGINE: EngineKind = EngineKind::Inp;

/// All of them.
pub(super) static FAULTS: &[Fault] = &[
    fault(
        "inp/commit-not-synced",
        ENGINE,
        "COMMIT does not sync the log",
        Defect::NoSync,
        code("storage/src/logs/wal.rs", "flush", "sync"),
    ),
    fault(
        "inp/commit-acknowledged-early",
        ENGINE,
        "COMMIT returns before its sync",
        Defect::EarlyAcknowledgement,
        Where::Anywhere,
    ),
    fault(
        "inp/log-written-late",
        ENGINE,
        "the log is written after the sync",
        Defect::WriteAfterSync,
        code("storage/src/logs/wal.rs", "spill", "write_bytes"),
    ),
    fault(
        "inp/log-record-lost",
        ENGINE,
        "a piece of the log is not written",
        Defect::NoWrite,
        code("storage/src/logs/wal.rs", "spill", "write_bytes"),
    ),
    fault(
        "inp/segment-not-synced",
        ENGINE,
        "the header of a new log segment is not synced",
        Defect::NoSync,
        code("storage/src/logs/wal.rs", "begin_segment", "tail.file.sync"),
    ),
    fault(
        "inp/segment-name-not-synced",
        ENGINE,
        "the name of a new log segment is not synced",
        Defect::NoSync,
        code("storage/src/logs/wal.rs", "begin_segment", "sync_directory"),
    ),
    fault(
        "inp/checkpoint-not-synced",
        ENGINE,
        "a checkpoint gets its name before it is durable",
        Defect::NoSync,
        code("storage/src/logs/checkpoint.rs", "complete", "sync"),
    ),
    fault(
        "inp/checkpoint-renamed-early",
        ENGINE,
        "a checkpoint is renamed before it is synced",
        Defect::EarlyRename,
        code("storage/src/logs/checkpoint.rs", "finish", "rename"),
    ),
    fault(
        "inp/log-trimmed-early",
        ENGINE,
        "the log is removed before the checkpoint that replaces it is durable",
        Defect::EarlyRemove,
        code("storage/src/logs/wal.rs", "remove_before", "remove"),
    ),
];
