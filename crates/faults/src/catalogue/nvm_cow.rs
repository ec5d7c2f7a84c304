//! Faults of NVM-CoW, and of the directories and pages under it.

use perdura::EngineKind;

use super::{Fault, code, fault};
use crate::mutation::{Defect, Where};

const ENGINE: EngineKind = EngineKind::NvmCow;

/// All of them.
pub(super) static FAULTS: &[Fault] = &[
    fault(
        "nvm-cow/copies-not-flushed",
        ENGINE,
        "a batch does not flush its tuple copies",
        Defect::NoFlush,
        code("engines/src/nvm_cow.rs", "write_batch", "copies.lines.flush"),
    ),
    fault(
        "nvm-cow/pages-not-flushed",
        ENGINE,
        "a batch does not flush the pages of its dirty directory",
        Defect::NoFlush,
        code("engines/src/nvm_cow.rs", "write_batch", "write_back"),
    ),
    fault(
        "nvm-cow/pages-end-of-line",
        ENGINE,
        "a batch does not round the end of what it flushes of a page up to its line",
        Defect::NoLastLine,
        code("engines/src/nvm_cow.rs", "write_batch", "write_back"),
    ),
    fault(
        "nvm-cow/bits-not-flushed",
        ENGINE,
        "persisted bits of the last batch are not flushed",
        Defect::NoFlush,
        code("engines/src/nvm_cow.rs", "write_batch", "batch.lines.flush"),
    ),
    fault(
        "nvm-cow/batch-not-fenced",
        ENGINE,
        "a batch has no fence",
        Defect::NoFence,
        code("engines/src/nvm_cow.rs", "write_batch", "memory.fence"),
    ),
    fault(
        "nvm-cow/list-not-flushed",
        ENGINE,
        "the list of new and superseded objects is not flushed",
        Defect::NoFlush,
        code("storage/src/shadow/pool_master.rs", "write", "part.len"),
    ),
    fault(
        "nvm-cow/directory-not-flushed",
        ENGINE,
        "the directory in the master record is not flushed",
        Defect::NoFlush,
        code("storage/src/shadow/pool_master.rs", "write", "Range::new(at"),
    ),
    fault(
        "nvm-cow/directory-not-written",
        ENGINE,
        "the master record leads to a directory that is not written",
        Defect::NoCopy,
        code("storage/src/shadow/pool_master.rs", "write", "image[..bytes]"),
    ),
    fault(
        "nvm-cow/master-not-flushed",
        ENGINE,
        "the master record is not flushed",
        Defect::NoFlush,
        code("storage/src/shadow/pool_master.rs", "publish", "flush_word"),
    ),
    fault(
        "nvm-cow/master-early",
        ENGINE,
        "the master record is moved before the dirty directory is durable",
        Defect::StoreBeforeFence,
        code("storage/src/shadow/pool_master.rs", "publish", "store"),
    ),
    fault(
        "nvm-cow/bit-not-set",
        ENGINE,
        "the persisted bit of a new object is not set",
        Defect::NoStore,
        code("storage/src/shadow/batch.rs", "change_bits", "mark_persisted"),
    ),
    fault(
        "nvm-cow/bit-not-cleared",
        ENGINE,
        "the persisted bit of a superseded object is not cleared",
        Defect::NoStore,
        code("engines/src/nvm_cow.rs", "settle_batch", "batch.change_bits"),
    ),
    fault(
        "nvm-cow/extent-not-flushed",
        ENGINE,
        "the pool of pages grows by an extent whose header is not flushed",
        Defect::NoFlush,
        code("index/src/pages/pool.rs", "extend", "mini_commit"),
    ),
    fault(
        "nvm-cow/page-not-written",
        ENGINE,
        "a page of the dirty directory is not written",
        Defect::NoCopy,
        code("index/src/cow/store.rs", "write", "backend.write"),
    ),
    fault(
        "nvm-cow/page-patched-in-part",
        ENGINE,
        "changes of a page in the cache of the batch are left out",
        Defect::NoCopy,
        code("index/src/cow/store.rs", "patch", "backend.patch"),
    ),
    fault(
        "nvm-cow/acknowledged-early",
        ENGINE,
        "a commit returns before its last fence",
        Defect::EarlyAcknowledgement,
        Where::Anywhere,
    ),
];
