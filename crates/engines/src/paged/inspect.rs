//! The figures of a paged partition, from its files alone.

use paged::log::central;
use pm::Files;

use super::method::prefix;
use crate::error::EngineError;

/// The figures of a paged partition that is not open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PagedFigures {
    /// Bytes of a page.
    pub page_bytes: usize,
    /// Pages for which the file of pages has space.
    pub pages: u64,
    /// The figures of the log, if it lies in files.
    pub log: Option<LogFigures>,
}

/// The figures of a log in files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogFigures {
    /// The number of its partitions.
    pub partitions: u32,
    /// Bytes that all of them have together.
    pub capacity_bytes: u64,
    /// Bytes that were kept at the last checkpoint.
    pub kept_bytes: u64,
    /// The LSN from which recovery begins.
    pub checkpoint_lsn: u64,
}

/// Looks at the files of a partition, without a change; `None` if it is not that of a paged engine.
///
/// # Errors
/// They are damaged, or the medium refuses.
pub fn inspect_paged<F: Files>(
    files: &F,
    partition: u32,
) -> Result<Option<PagedFigures>, EngineError> {
    let (prefix, names) = (prefix(partition), files.list()?);
    let has = |name: &str| names.iter().any(|found| found.strip_prefix(&*prefix) == Some(name));
    if !has("pages") {
        return Ok(None);
    }
    let found = paged::file::inspect(files, &prefix)?;
    let log = has("log-head").then(|| central::inspect(files, &format!("{prefix}log-")));
    let log = log.transpose()?.map(|log| LogFigures {
        partitions: log.partitions,
        capacity_bytes: u64::from(log.partitions) * log.partition_bytes,
        kept_bytes: log.kept_bytes,
        checkpoint_lsn: log.checkpoint.0,
    });
    Ok(Some(PagedFigures { page_bytes: found.page_bytes, pages: found.pages, log }))
}
