//! The figures of a paged partition, from its files alone.

use heap::Heap;
use paged::log::{central, nv};
use pm::{Files, Memory};

use super::method::prefix;
use crate::error::EngineError;
use crate::kind::EngineKind;

/// The figures of a paged partition that is not open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PagedFigures {
    /// Bytes of a page.
    pub page_bytes: usize,
    /// Pages for which the file of pages has space.
    pub pages: u64,
    /// The figures of the log, if it is there.
    pub log: Option<LogFigures>,
}

/// The figures of a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogFigures {
    /// The number of its partitions; 1 in persistent memory.
    pub partitions: u32,
    /// Bytes that all of them have together.
    pub capacity_bytes: u64,
    /// Bytes that were kept at the last checkpoint, if it lies in files.
    pub kept_bytes: Option<u64>,
    /// Entries of the ring, and those that lead to records, if it lies in persistent memory.
    pub entries: Option<(u64, u64)>,
    /// The LSN from which recovery begins.
    pub checkpoint_lsn: u64,
}

/// Returns the name of the heap's root that leads to a partition's log in persistent memory.
pub(crate) fn root_name(kind: EngineKind, partition: u32) -> String {
    format!("{kind}/{partition}")
}

/// Looks at the files of a partition and at its log in the pool, without a change; `None` if it is
/// not that of a paged engine.
///
/// # Errors
/// They are damaged, or the medium refuses.
pub fn inspect_paged<F: Files, M: Memory>(
    files: &F,
    heap: &Heap<M>,
    kind: EngineKind,
    partition: u32,
) -> Result<Option<PagedFigures>, EngineError> {
    let (prefix, names) = (prefix(partition), files.list()?);
    let has = |name: &str| names.iter().any(|found| found.strip_prefix(&*prefix) == Some(name));
    if !has("pages") {
        return Ok(None);
    }
    let found = paged::file::inspect(files, &prefix)?;
    let log = if has("log-head") {
        let log = central::inspect(files, &format!("{prefix}log-"))?;
        Some(LogFigures {
            partitions: log.partitions,
            capacity_bytes: u64::from(log.partitions) * log.partition_bytes,
            kept_bytes: Some(log.kept_bytes),
            entries: None,
            checkpoint_lsn: log.checkpoint.0,
        })
    } else if let Some(at) = heap.root(&root_name(kind, partition))? {
        heap.has_room(at, nv::NvForm::HEAD_BYTES)?;
        let log = nv::inspect(heap.memory(), at)?;
        Some(LogFigures {
            partitions: 1,
            capacity_bytes: log.form.segments * log.form.segment_bytes,
            kept_bytes: None,
            entries: Some((log.form.entries, log.kept_entries)),
            checkpoint_lsn: log.checkpoint.0,
        })
    } else {
        None
    };
    Ok(Some(PagedFigures { page_bytes: found.page_bytes, pages: found.pages, log }))
}
