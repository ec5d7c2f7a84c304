//! Faults of the engines with a log in persistent memory and pages in files. `crate::paged` has
//! more faults of their store.

use perdura::EngineKind;

use super::{Fault, code, fault};
use crate::mutation::{Defect, Where};

/// The faults of NV-Logging in either form.
pub(super) static FAULTS: &[Fault] = &[
    fault(
        "nv-logging-foi/object-not-flushed",
        EngineKind::NvLoggingFoi,
        "an object of the log is not flushed",
        Defect::NoFlush,
        code("paged/src/log/nv/insert.rs", "insert", "memory.flush"),
    ),
    fault(
        "nv-logging-foi/entry-not-flushed",
        EngineKind::NvLoggingFoi,
        "the entry that leads to an object is not flushed",
        Defect::NoFlush,
        code("paged/src/log/nv/insert.rs", "insert", "ring.set"),
    ),
    fault(
        "nv-logging-foi/object-without-fence",
        EngineKind::NvLoggingFoi,
        "an object is taken for durable before its fence",
        Defect::NoFence,
        code("paged/src/log/nv/insert.rs", "insert", "memory.fence"),
    ),
    fault(
        "nv-logging-foi/page-not-written",
        EngineKind::NvLoggingFoi,
        "a page is taken for clean that was not written",
        Defect::NoWrite,
        code("paged/src/pool/cleaner.rs", "write_batch", "self.file.write_at"),
    ),
    fault(
        "nv-logging-foi/pages-not-synced",
        EngineKind::NvLoggingFoi,
        "pages are taken for clean that are not durable",
        Defect::NoSync,
        code("paged/src/pool/cleaner.rs", "write_batch", "self.file.sync"),
    ),
    fault(
        "nv-logging-foi/head-not-flushed",
        EngineKind::NvLoggingFoi,
        "the log is used again before its head says where it begins",
        Defect::NoFlush,
        code("paged/src/log/nv/form.rs", "move_to", "memory.flush_word"),
    ),
    fault(
        "nv-logging-foi/commit-acknowledged-early",
        EngineKind::NvLoggingFoi,
        "COMMIT returns before its fence",
        Defect::EarlyAcknowledgement,
        Where::Anywhere,
    ),
    fault(
        "nv-logging-foc/object-not-flushed",
        EngineKind::NvLoggingFoc,
        "an object of the log is not flushed",
        Defect::NoFlush,
        code("paged/src/log/nv/commit.rs", "pass", "memory.flush"),
    ),
    fault(
        "nv-logging-foc/entry-not-flushed",
        EngineKind::NvLoggingFoc,
        "the entry that leads to an object is not flushed",
        Defect::NoFlush,
        code("paged/src/log/nv/commit.rs", "pass", "ring.set"),
    ),
    fault(
        "nv-logging-foc/object-without-fence",
        EngineKind::NvLoggingFoc,
        "an object is taken for durable before its fence",
        Defect::NoFence,
        code("paged/src/log/nv/commit.rs", "pass", "memory.fence"),
    ),
    fault(
        "nv-logging-foc/page-not-written",
        EngineKind::NvLoggingFoc,
        "a page is taken for clean that was not written",
        Defect::NoWrite,
        code("paged/src/pool/cleaner.rs", "write_batch", "self.file.write_at"),
    ),
    fault(
        "nv-logging-foc/pages-not-synced",
        EngineKind::NvLoggingFoc,
        "pages are taken for clean that are not durable",
        Defect::NoSync,
        code("paged/src/pool/cleaner.rs", "write_batch", "self.file.sync"),
    ),
    fault(
        "nv-logging-foc/head-not-flushed",
        EngineKind::NvLoggingFoc,
        "the log is used again before its head says where it begins",
        Defect::NoFlush,
        code("paged/src/log/nv/form.rs", "move_to", "memory.flush_word"),
    ),
    fault(
        "nv-logging-foc/commit-acknowledged-early",
        EngineKind::NvLoggingFoc,
        "COMMIT returns before its fence",
        Defect::EarlyAcknowledgement,
        Where::Anywhere,
    ),
    fault(
        "nv-logging-foc/unchanged-acknowledged-early",
        EngineKind::NvLoggingFoc,
        "in an open group a transaction that has changed nothing is durable, before those it follows",
        Defect::UnchangedAcknowledges,
        Where::Anywhere,
    ),
];
