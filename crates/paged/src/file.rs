//! The file of pages: its header, and what it begins with. docs/format/paged-pages.md draws it.
//!
//! A file of another moment can be distinguished from the one that belongs to the log. A checkpoint
//! notes in the header where the log begins from then on, before the log does; and each batch of
//! pages comes with the newest LSN of any, which the log has. All that changes lies in the header's
//! first sector, which a medium writes whole.

use std::io;

use pm::{File, Files};

use crate::ids::{Lsn, PageNo, TreeNo};
use crate::layout::{DEFAULT_PAGE_BYTES, HEADER_BYTES, LEAST_PAGE_BYTES, is_page_size};
use crate::maps::FIRST_MAP;
use crate::page::{Format, Page, PageKind};
use crate::{PagedError, Result};

/// The root of the catalog's tree. A root stays where it is.
pub const CATALOG_ROOT: PageNo = PageNo(2);
/// The catalog's tree.
pub const CATALOG: TreeNo = TreeNo(0);

pub(crate) const NAME: &str = "pages";
const MAGIC: &[u8; 8] = b"PDPAGES\x02";
/// The places in the header, from its contents' begin.
const START: usize = 16;
const PAGES: usize = 24;
const NEWEST: usize = 32;
const SECTOR_BYTES: usize = 512;
const _: () =
    assert!(HEADER_BYTES + NEWEST + 8 <= SECTOR_BYTES && SECTOR_BYTES <= LEAST_PAGE_BYTES);
/// The pages with which a file begins.
const FIRST_PAGES: u64 = 3;

/// The things that are decided when a file of pages is created.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewFile {
    /// Bytes of a page: a power of two from 512 to 32768.
    pub page_bytes: usize,
    /// A number that no other file has: every page carries it.
    pub stamp: u64,
}

impl NewFile {
    /// Pages of the default size.
    #[must_use]
    pub fn new(stamp: u64) -> Self {
        Self { page_bytes: DEFAULT_PAGE_BYTES, stamp }
    }
}

/// The things that checkpoints and batches of pages note in the header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Noted {
    /// The place where the log begins.
    pub(crate) start: Lsn,
    /// The pages for which the file is surely long enough.
    pub(crate) pages: u64,
    /// The newest LSN that a page was written with, but for those of the last batch if it was torn.
    pub(crate) newest: Lsn,
}

fn blank_of(new: &NewFile, number: PageNo, kind: PageKind) -> Page {
    let mut page = Page::blank(new.page_bytes);
    page.format(&Format {
        number,
        stamp: new.stamp,
        kind,
        level: 0,
        tree: CATALOG,
        right: None,
        low: &[],
        high: None,
    });
    page
}

/// The header, with its checksum.
fn header_of(new: &NewFile, noted: &Noted) -> Page {
    let mut header = blank_of(new, PageNo(0), PageKind::Header);
    let mut put = |at: usize, bytes: &[u8]| header.set(HEADER_BYTES + at, bytes);
    put(0, MAGIC);
    put(MAGIC.len(), &(new.page_bytes as u32).to_le_bytes());
    put(START, &noted.start.0.to_le_bytes());
    put(PAGES, &noted.pages.to_le_bytes());
    put(NEWEST, &noted.newest.0.to_le_bytes());
    header.seal();
    header
}

/// Creates the file, durably but for its name.
pub(crate) fn create<F: Files>(files: &F, prefix: &str, new: &NewFile) -> io::Result<F::File> {
    if !is_page_size(new.page_bytes) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the size of a page is a power of two from 512 to 32768 bytes",
        ));
    }
    let file = files.create(&format!("{prefix}{NAME}"))?;
    let noted = Noted { start: Lsn::NONE, pages: FIRST_PAGES, newest: Lsn::NONE };
    let header = header_of(new, &noted);
    let mut map = blank_of(new, FIRST_MAP, PageKind::Map);
    for used in [FIRST_MAP, CATALOG_ROOT] {
        map.set_bit((used.0 - FIRST_MAP.0) as usize, true);
    }
    let root = blank_of(new, CATALOG_ROOT, PageKind::Leaf);
    let mut bytes = Vec::with_capacity(FIRST_PAGES as usize * new.page_bytes);
    for page in [header, map, root] {
        let from = bytes.len();
        bytes.extend_from_slice(page.bytes());
        Page::seal_bytes(&mut bytes[from..]);
    }
    file.reserve(bytes.len() as u64)?;
    file.write_at(0, &bytes)?;
    file.sync()?;
    Ok(file)
}

/// Notes in the header what a checkpoint has to say, durably.
pub(crate) fn note<R: File>(file: &R, new: &NewFile, noted: &Noted) -> io::Result<()> {
    file.write_at(0, &header_of(new, noted).bytes()[..SECTOR_BYTES])?;
    file.sync()
}

/// Notes in the header what comes with a batch of pages: durable with the file's next sync.
pub(crate) fn note_newest<R: File>(file: &R, new: &NewFile, noted: &Noted) -> io::Result<()> {
    file.write_at(0, &header_of(new, noted).bytes()[..SECTOR_BYTES])
}

/// Opens a file whose name begins with `prefix`; one that is missing is named.
pub(crate) fn open_named<F: Files>(files: &F, prefix: &str, name: &str) -> Result<F::File> {
    let name = format!("{prefix}{name}");
    files.open(&name).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => PagedError::WrongPages { name, what: "it is missing".into() },
        _ => PagedError::Io { doing: "opening the file of pages", source },
    })
}

/// Opens the file and reads its header.
pub(crate) fn open<F: Files>(files: &F, prefix: &str) -> Result<(F::File, NewFile, Noted)> {
    let file = open_named(files, prefix, NAME)?;
    let wrong = |what: String| PagedError::WrongPages { name: format!("{prefix}{NAME}"), what };
    let io = |source| PagedError::Io { doing: "opening the file of pages", source };
    let mut first = Page::blank(LEAST_PAGE_BYTES);
    let read = first.read_from(&file, PageNo(0)).map_err(io)?;
    let contents = &first.bytes()[HEADER_BYTES..];
    if read < LEAST_PAGE_BYTES || contents[..7] != MAGIC[..7] {
        return Err(wrong("it has no header of a file of pages".into()));
    }
    if contents[7] != MAGIC[7] {
        let (found, own) = (contents[7], MAGIC[7]);
        let what = format!("it has format version {found}; this build reads version {own}");
        return Err(wrong(what));
    }
    let mut page_bytes = [0; 4];
    page_bytes.copy_from_slice(&contents[8..12]);
    let page_bytes = u32::from_le_bytes(page_bytes) as usize;
    if !is_page_size(page_bytes) {
        return Err(wrong("its header is damaged: its pages have an impossible size".into()));
    }
    let mut header = Page::blank(page_bytes);
    let read = header.read_from(&file, PageNo(0)).map_err(io)?;
    if read < page_bytes {
        return Err(wrong("it is cut off".into()));
    }
    if header.check(PageNo(0), header.stamp()).is_err() || header.kind() != PageKind::Header {
        return Err(wrong("its header is damaged".into()));
    }
    let word = |at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&header.bytes()[HEADER_BYTES + at..HEADER_BYTES + at + 8]);
        u64::from_le_bytes(word)
    };
    let noted = Noted { start: Lsn(word(START)), pages: word(PAGES), newest: Lsn(word(NEWEST)) };
    let (bytes, least) = (file.len().map_err(io)?, noted.pages.saturating_mul(page_bytes as u64));
    if bytes < least {
        return Err(wrong(format!(
            "it is cut off: it has {bytes} bytes, and had at least {least}"
        )));
    }
    Ok((file, NewFile { page_bytes, stamp: header.stamp() }, noted))
}

/// Returns whether the header is a sound one of another version.
pub(crate) fn is_of_another_version<R: File>(file: &R) -> io::Result<bool> {
    let sizes = (0..usize::BITS).map(|bits| 1 << bits).filter(|bytes| is_page_size(*bytes));
    for page_bytes in sizes {
        let mut header = Page::blank(page_bytes);
        let read = header.read_from(file, PageNo(0))?;
        let contents = &header.bytes()[HEADER_BYTES..];
        let (is_ours, is_this) =
            (contents[..7] == MAGIC[..7], contents[..MAGIC.len()] == MAGIC[..]);
        let is_sound = read == page_bytes && header.check(PageNo(0), header.stamp()).is_ok();
        if is_ours && !is_this && is_sound {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Finds the size of the pages of a file whose header is damaged: one with which its first page
/// after the header, or the one after that, is sound.
pub(crate) fn find_page_bytes<R: File>(file: &R, stamp: u64) -> io::Result<Option<usize>> {
    let sizes = (0..usize::BITS).map(|bits| 1 << bits).filter(|bytes| is_page_size(*bytes));
    for page_bytes in sizes {
        let mut page = Page::blank(page_bytes);
        for number in [FIRST_MAP, CATALOG_ROOT] {
            let read = page.read_from(file, number)?;
            if read == page_bytes && page.check(number, stamp).is_ok() {
                return Ok(Some(page_bytes));
            }
        }
    }
    Ok(None)
}

/// Refuses a log that begins elsewhere than the file says, or ends before it.
pub(crate) fn check_noted(prefix: &str, noted: &Noted, start: Lsn, end: Lsn) -> Result<()> {
    if (start..=end).contains(&noted.start) {
        return Ok(());
    }
    let what = format!(
        "it is of another moment than the log: it was noted at {}, and the log goes from {start} to {end}",
        noted.start
    );
    Err(PagedError::WrongPages { name: format!("{prefix}{NAME}"), what })
}

/// Looks whether the files are there and belong together, without a change.
pub(crate) fn look<F: Files>(files: &F, prefix: &str, stamp: u64, others: &[&str]) -> Result<()> {
    let (_, new, _) = open(files, prefix)?;
    if new.stamp != stamp {
        let what = "it belongs to another database".into();
        return Err(PagedError::WrongPages { name: format!("{prefix}{NAME}"), what });
    }
    others.iter().try_for_each(|name| open_named(files, prefix, name).map(drop))
}

/// The things that a file of pages says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inspected {
    /// Bytes of a page.
    pub page_bytes: usize,
    /// Pages for which the file has space.
    pub pages: u64,
}

/// Looks at the file of pages whose name begins with `prefix`, without a change.
///
/// # Errors
/// It is missing, damaged or cut off, or the medium refuses.
pub fn inspect<F: Files>(files: &F, prefix: &str) -> Result<Inspected> {
    let (file, NewFile { page_bytes, .. }, _) = open(files, prefix)?;
    let io = |source| PagedError::Io { doing: "looking at the file of pages", source };
    Ok(Inspected { page_bytes, pages: file.len().map_err(io)? / page_bytes as u64 })
}
