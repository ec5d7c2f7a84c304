//! Faults of NV-Disk: the central log and pages in files.

use perdura::EngineKind;

use super::{Fault, code, fault};
use crate::mutation::{Defect, Where};

const ENGINE: EngineKind = EngineKind::NvDisk;

/// All of them.
pub(super) static FAULTS: &[Fault] = &[
    fault(
        "nv-disk/commit-not-synced",
        ENGINE,
        "COMMIT does not sync the log",
        Defect::NoSync,
        code("paged/src/log/central/flush.rs", "write_out", "file.sync"),
    ),
    fault(
        "nv-disk/log-written-late",
        ENGINE,
        "a group of the log is written after its sync",
        Defect::WriteAfterSync,
        code("paged/src/log/central/flush.rs", "write_out", "file.write_at"),
    ),
    fault(
        "nv-disk/log-not-written",
        ENGINE,
        "a group of the log is not written",
        Defect::NoWrite,
        code("paged/src/log/central/flush.rs", "write_out", "file.write_at"),
    ),
    fault(
        "nv-disk/page-not-written",
        ENGINE,
        "a page is taken for clean that was not written",
        Defect::NoWrite,
        code("paged/src/pool/cleaner.rs", "write_batch", "self.file.write_at"),
    ),
    fault(
        "nv-disk/pages-not-synced",
        ENGINE,
        "pages are taken for clean that are not durable",
        Defect::NoSync,
        code("paged/src/pool/cleaner.rs", "write_batch", "self.file.sync"),
    ),
    fault(
        "nv-disk/head-not-synced",
        ENGINE,
        "the log is used again before its head says where it begins",
        Defect::NoSync,
        code("paged/src/log/central/open.rs", "write_head", "file.sync"),
    ),
    fault(
        "nv-disk/head-not-written",
        ENGINE,
        "the log's head does not follow its begin",
        Defect::NoWrite,
        code("paged/src/log/central/open.rs", "write_head", "file.write_at"),
    ),
    fault(
        "nv-disk/checkpoint-not-noted",
        ENGINE,
        "the pages do not know of a checkpoint that the log begins with",
        Defect::NoWrite,
        code("paged/src/file.rs", "note", "file.write_at"),
    ),
    fault(
        "nv-disk/checkpoint-noted-late",
        ENGINE,
        "the log begins with a checkpoint of which the pages do not know durably",
        Defect::NoSync,
        code("paged/src/file.rs", "note", "file.sync"),
    ),
    fault(
        "nv-disk/commit-acknowledged-early",
        ENGINE,
        "COMMIT returns before its sync",
        Defect::EarlyAcknowledgement,
        Where::Anywhere,
    ),
    fault(
        "nv-disk/unchanged-acknowledged-early",
        ENGINE,
        "in an open group a transaction that has changed nothing is durable, before those it follows",
        Defect::UnchangedAcknowledges,
        Where::Anywhere,
    ),
];
