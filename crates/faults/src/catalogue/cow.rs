//! Faults of CoW, and of the file of its pages.

use perdura::EngineKind;

use super::{Fault, code, fault};
use crate::mutation::{Defect, Where};

const ENGINE: EngineKind = EngineKind::Cow;

/// All of them.
pub(super) static FAULTS: &[Fault] = &[
    fault(
        "cow/pages-not-synced",
        ENGINE,
        "a batch does not sync its pages before the master record",
        Defect::NoSync,
        code("engines/src/cow.rs", "write_batch", "sync_pages"),
    ),
    fault(
        "cow/master-not-synced",
        ENGINE,
        "the master record is not synced",
        Defect::NoSync,
        code("engines/src/cow.rs", "write_batch", "move_to"),
    ),
    fault(
        "cow/page-lost",
        ENGINE,
        "a page of the dirty directory is not written",
        Defect::NoWrite,
        code("index/src/pages/file.rs", "clean", "write_out"),
    ),
    fault(
        "cow/page-late",
        ENGINE,
        "a page of the dirty directory is written after the sync",
        Defect::WriteAfterSync,
        code("index/src/pages/file.rs", "clean", "write_out"),
    ),
    fault(
        "cow/master-lost",
        ENGINE,
        "the master record is not written",
        Defect::NoWrite,
        code("engines/src/cow.rs", "write_batch", "move_to"),
    ),
    fault(
        "cow/acknowledged-early",
        ENGINE,
        "a commit returns before its last sync",
        Defect::EarlyAcknowledgement,
        Where::Anywhere,
    ),
];
