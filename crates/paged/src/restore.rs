//! Restoring to a point in time: pages of a base backup, and what the archive of the log has until
//! then, become the pages of a new store.
//!
//! 1. The base's pages are written, with the stamp of the new file. They have the stamp of the
//!    archive, rising numbers that the file had, and there are as many as the base says.
//! 2. Analysis, redo and undo over the archive, cut off at the point in time: a transaction whose
//!    commit lies before it is there, any other is taken back. Compensations are logged nowhere:
//!    after a crash all of it is begun anew.
//! 3. The new store's log knows nothing of this: the pages lose their LSNs.
//!
//! An error leaves no files.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pm::{File, Files};

use crate::base::Base;
use crate::file::{self, NewFile, Noted};
use crate::ids::{Lsn, PageNo};
use crate::latch::Native;
use crate::log::archive::ArchiveReader;
use crate::log::{Chain, LogManager, Logged, Record, RoomWait, Visit};
use crate::page::Page;
use crate::pool::Pool;
use crate::recovery::{self, Restarted, Transactions};
use crate::threads::Waiter;
use crate::{PagedError, Result};

/// The next page of a base backup, with its number.
pub type NextPage<'a> = &'a mut dyn FnMut() -> Result<Option<(PageNo, Vec<u8>)>>;

/// The store that is made.
#[derive(Clone, Copy, Debug)]
pub struct Made<'a, F> {
    /// Its files, of which there is none yet but perhaps those of its log.
    pub files: &'a F,
    /// The beginning of the names of its files of pages.
    pub prefix: &'a str,
    /// Its pages.
    pub new: NewFile,
    /// Frames of the pool that it is restored with.
    pub frames: usize,
    /// The place where its log begins, which is empty.
    pub log_start: Lsn,
}

/// The archive as a log that ends at the point in time. What is appended is forgotten.
#[derive(Debug)]
struct Past<A: Files> {
    archive: ArchiveReader<A>,
    start: Lsn,
    until: Lsn,
    next: AtomicU64,
}

impl<A: Files> LogManager for Past<A> {
    fn reserve(&self, _: &mut Chain, _: u64) -> Result<()> {
        Ok(())
    }

    fn await_room(&self, _: &Arc<RoomWait>) {}

    fn forget_wait(&self, _: &Arc<RoomWait>) {}

    fn unreserve(&self, _: &mut Chain) {}

    fn append(&self, chain: &mut Chain, _: &Record<'_>) -> Result<Lsn> {
        let lsn = Lsn(self.next.fetch_add(1, Ordering::AcqRel));
        chain.last = lsn;
        if chain.first == Lsn::NONE {
            chain.first = lsn;
        }
        Ok(lsn)
    }

    fn commit(&self, chain: &mut Chain) -> Result<Lsn> {
        self.append(chain, &Record::bare(crate::log::Kind::Commit))
    }

    fn durable(&self) -> Lsn {
        Lsn(u64::MAX)
    }

    fn end(&self) -> Lsn {
        Lsn(self.next.load(Ordering::Acquire))
    }

    fn force(&self, _: Lsn) -> Result<()> {
        Ok(())
    }

    fn read(&self, at: Lsn) -> Result<Logged> {
        self.archive.read(at)
    }

    fn consumed(&self) -> u64 {
        0
    }

    fn largest(&self) -> usize {
        usize::MAX
    }

    fn attend(&self, _: Arc<Waiter>) {}

    fn is_due(&self) -> bool {
        false
    }

    fn start(&self) -> Lsn {
        self.start
    }

    fn truncate(&self, _: Lsn, _: Lsn) -> Result<()> {
        Ok(())
    }

    fn adopt(&self, _: &mut Chain) {}

    fn scan(&self, from: Lsn, visit: Visit<'_>) -> Result<()> {
        self.archive.scan(from, self.until, visit)
    }
}

/// Makes the pages of a store as they were at an LSN: all whose commit lies before `until` is
/// there. The files count when this has returned and their directory is synced.
///
/// # Errors
/// `until` lies before the base's end, the archive does not reach so far, is damaged or has another
/// history, a page of the base is damaged or missing, there is a store already, or the medium
/// refuses. No files are left then.
pub fn restore<F: Files, A: Files>(
    made: &Made<'_, F>,
    base: &Base,
    pages: NextPage<'_>,
    archive: ArchiveReader<A>,
    until: Lsn,
) -> Result<Restarted> {
    base.check(&archive, until)?;
    let names =
        [file::NAME, crate::pool::staging::NAME].map(|name| format!("{}{name}", made.prefix));
    for name in &names {
        if made.files.is_taken(name).map_err(io)? {
            let what = "it is there already".into();
            return Err(PagedError::WrongPages { name: name.clone(), what });
        }
    }
    restore_into(made, base, pages, archive, until).inspect_err(|_| {
        // A file that cannot be removed has no header that counts, and the error could not go to
        // any caller.
        for name in &names {
            let _ = made.files.remove(name);
        }
    })
}

fn restore_into<F: Files, A: Files>(
    made: &Made<'_, F>,
    base: &Base,
    pages: NextPage<'_>,
    archive: ArchiveReader<A>,
    until: Lsn,
) -> Result<Restarted> {
    let (stamp, next) = (archive.stamp(), AtomicU64::new(until.0.max(archive.stored().to.0) + 1));
    let past: Arc<dyn LogManager> = Arc::new(Past { archive, start: base.start, until, next });
    let Made { files, prefix, new, frames, log_start } = *made;
    drop(Pool::<F, Native>::create(files, prefix, &new, frames, Arc::clone(&past))?);
    let file = files.open(&format!("{prefix}{}", file::NAME)).map_err(io)?;
    write_base(&file, &new, pages, base, stamp)?;
    let pool = Pool::<F, Native>::open(files, prefix, frames, Arc::clone(&past))?;
    let restarted = recovery::restart(&*past, &Transactions::new(), &pool)?;
    pool.clean_all()?;
    pool.forget_batch_durably()?;
    drop(pool);
    forget_lsns(&file, &new)?;
    let pages = file.len().map_err(io)? / new.page_bytes as u64;
    let noted = Noted { start: log_start, pages, newest: Lsn::NONE };
    file::note(&file, &new, &noted).map_err(io)?;
    Ok(restarted)
}

fn io(source: std::io::Error) -> PagedError {
    PagedError::Io { doing: "restoring pages", source }
}

/// Writes the pages of a base backup, as pages of the new file. Those of the base have this stamp.
fn write_base<R: File>(
    file: &R,
    new: &NewFile,
    pages: NextPage<'_>,
    base: &Base,
    stamp: u64,
) -> Result<()> {
    let mut page = Page::blank(new.page_bytes);
    let (mut before, mut written) = (PageNo(0), 0);
    while let Some((number, bytes)) = pages()? {
        let damaged = |what| PagedError::DamagedPage { page: number, what };
        if bytes.len() != new.page_bytes {
            return Err(damaged("the base backup has it in another size"));
        }
        if number <= before {
            return Err(damaged("the base backup has it after a later one, or twice"));
        }
        if number.0 >= base.count {
            return Err(damaged("the base backup has it, and its file ended before"));
        }
        page.set(0, &bytes);
        page.check(number, stamp)?;
        page.set_stamp(new.stamp);
        page.seal();
        let at = number.0 * new.page_bytes as u64;
        file.reserve(at + bytes.len() as u64).map_err(io)?;
        file.write_at(at, page.bytes()).map_err(io)?;
        (before, written) = (number, written + 1);
    }
    if written != base.pages {
        let what = format!("the base backup has {written} pages, and had {}", base.pages);
        return Err(PagedError::Archive { what });
    }
    file.sync().map_err(io)
}

/// Takes the LSNs away that pages have of another log.
fn forget_lsns<R: File>(file: &R, new: &NewFile) -> Result<()> {
    let pages = file.len().map_err(io)? / new.page_bytes as u64;
    let mut page = Page::blank(new.page_bytes);
    for number in 1..pages {
        page.read_from(file, PageNo(number)).map_err(io)?;
        page.check(PageNo(number), new.stamp)?;
        if page.lsn() != Lsn::NONE {
            page.set_lsn(Lsn::NONE);
            page.seal();
            file.write_at(number * new.page_bytes as u64, page.bytes()).map_err(io)?;
        }
    }
    file.sync().map_err(io)
}
