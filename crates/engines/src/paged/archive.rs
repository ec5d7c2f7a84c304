//! The archive of a partition's log: a directory of the host, whatever the database lies on.

use std::path::Path;
use std::sync::Arc;

use paged::PagedError;
use paged::base::Base;
use paged::file::NewFile;
use paged::ids::{Lsn, PageNo};
use paged::log::archive::{Archive, ArchiveReader, Joint, Note};
use paged::log::{Archived, LogManager, wall_clock};
use paged::restore::{Made, restore};
use paged::store::{Store, StoreOptions};
use pm::{AroundPath, Files};
use storage::text::format_timestamp;

use crate::base::{BasePart, BaseSource, LogUntil, VisitPage};
use crate::error::EngineError;

/// The names of all segments begin so.
const NAMES: &str = "log-";

/// The names of a partition's segments begin so.
fn prefix(partition: u32) -> String {
    format!("{NAMES}{partition}-")
}

/// An error about an archive, with its name.
fn about(directory: &Path, error: PagedError) -> EngineError {
    let shown = directory.display();
    EngineError::Paged(match error {
        PagedError::Archive { what } => PagedError::Archive { what: format!("{shown}: {what}") },
        PagedError::Io { doing, source } => {
            PagedError::Archive { what: format!("{shown}: {doing}: {source}") }
        }
        other => other,
    })
}

fn files_of(directory: &Path) -> Result<AroundPath, EngineError> {
    let opened = AroundPath::of(&directory.join(NAMES));
    let missing = |source| {
        let what = format!("{source}; make the directory, or name another one");
        about(directory, PagedError::Archive { what })
    };
    Ok(opened.map_err(missing)?.0)
}

/// A log with its archive, if it has one or is to have one. Its own files are `files`, with names
/// that begin with `names`.
pub(super) fn archived<F: Files>(
    log: Arc<dyn LogManager>,
    directory: Option<&Path>,
    (partition, stamp): (u32, u64),
    (files, names): (&F, &str),
) -> Result<Arc<dyn LogManager>, EngineError> {
    let Some(directory) = directory else {
        return Ok(match Note::open(files, names, stamp)? {
            Some(note) => Arc::new(Archived::<AroundPath, F>::without(log, note, wall_clock())),
            None => log,
        });
    };
    let error = |error| about(directory, error);
    let name = directory.display().to_string();
    let archive = Archive::open(files_of(directory)?, &prefix(partition), stamp).map_err(error)?;
    let archived = Archived::new(log, archive.called(name), (files, names), wall_clock());
    Ok(Arc::new(archived.map_err(error)?))
}

fn base_of(part: &BasePart) -> Base {
    let BasePart { keep, start, end, pages, count, segment: (number, id), archived, .. } = *part;
    let joint = Joint { number, id, to: Lsn(archived) };
    Base { keep: Lsn(keep), start: Lsn(start), end: Lsn(end), pages, count, joint }
}

/// Copies the pages of a store for a base backup.
pub(super) fn copy_base<F: Files>(
    store: &Store<F>,
    archives: bool,
    visit: VisitPage<'_>,
) -> Result<BasePart, EngineError> {
    if !archives {
        let what = "base backup without an archive of the log";
        return Err(EngineError::Unsupported { what });
    }
    let mut visit = |number: PageNo, bytes: &[u8]| {
        let io = |source| PagedError::Io { doing: "writing a base backup", source };
        visit(number.0, bytes).map_err(io)
    };
    let Base { keep, start, end, pages, count, joint } = store.copy_base(&mut visit)?;
    let (page_bytes, stamp) = (store.pool().page_bytes() as u32, store.pool().stamp());
    let (keep, start, end) = (keep.0, start.0, end.0);
    let (segment, archived) = ((joint.number, joint.id), joint.to.0);
    Ok(BasePart { page_bytes, stamp, keep, start, end, pages, count, segment, archived })
}

/// The error of an archive that ends before a time, and says so with its last mark.
fn ends_before(latest: u64) -> PagedError {
    let shown = i64::try_from(latest).ok().and_then(format_timestamp).unwrap_or_default();
    let what = format!(
        "it goes up to {shown}, before the moment that is asked for; ask for an earlier one, or for the end, or bring the archive up to date with `perdura pool archive`"
    );
    PagedError::Archive { what }
}

/// Finds the LSN to which a partition is restored, and reads all of the archive up to there.
///
/// # Errors
/// The archive is not that of the base backup, has a gap or damage, or ends too early; or the base
/// backup is younger than what is asked for.
pub fn find_until(
    directory: &Path,
    partition: u32,
    part: &BasePart,
    until: LogUntil,
) -> Result<u64, EngineError> {
    let error = |error| about(directory, error);
    let reader = ArchiveReader::open(files_of(directory)?, &prefix(partition), part.stamp);
    let reader = reader.map_err(error)?;
    let base = base_of(part);
    let end = reader.stored().to;
    let lsn = match until {
        LogUntil::End => end,
        LogUntil::Commit(number) => Lsn(number.saturating_add(1)),
        LogUntil::Micros(time) => {
            let found = reader.end_at(base.end.min(end), time).map_err(error)?;
            found.map_err(|latest| error(ends_before(latest)))?
        }
    };
    base.check(&reader, lsn).map_err(error)?;
    reader.scan(base.keep, lsn, &mut |_| Ok(())).map_err(error)?;
    Ok(lsn.0)
}

/// Makes the pages of a partition from a base backup.
pub(super) fn restore_pages<F: Files>(
    from: &dyn BaseSource,
    partition: u32,
    (files, names, stamp): (&F, &str, u64),
    of: &StoreOptions,
    log: &dyn LogManager,
) -> Result<(), EngineError> {
    let (part, directory) = (from.part(partition), from.archive());
    if part.page_bytes as usize != of.page_bytes {
        return Err(EngineError::Unsupported { what: "way to restore pages of another size" });
    }
    let reader = ArchiveReader::open(files_of(directory)?, &prefix(partition), part.stamp);
    let made = Made {
        files,
        prefix: names,
        new: NewFile { page_bytes: of.page_bytes, stamp },
        frames: of.frames,
        log_start: log.start(),
    };
    let mut next = || {
        let page = from.next_page(partition);
        let page =
            page.map_err(|source| PagedError::Io { doing: "reading the base backup", source })?;
        Ok(page.map(|(number, bytes)| (PageNo(number), bytes)))
    };
    let until = Lsn(from.until(partition));
    reader
        .and_then(|reader| restore(&made, &base_of(&part), &mut next, reader, until))
        .map_err(|error| about(directory, error))?;
    Ok(files.sync_directory()?)
}
