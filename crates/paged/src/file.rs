//! The file of pages: its header, and what it begins with. docs/format/paged-pages.md draws it.

use std::io;

use pm::{File, Files};

use crate::ids::{PageNo, TreeNo};
use crate::layout::{DEFAULT_PAGE_BYTES, HEADER_BYTES, LEAST_PAGE_BYTES, is_page_size};
use crate::page::{Format, Page, PageKind};
use crate::space::FIRST_MAP;
use crate::{PagedError, Result};

/// The root of the catalog's tree. A root stays where it is.
pub const CATALOG_ROOT: PageNo = PageNo(2);
/// The catalog's tree.
pub const CATALOG: TreeNo = TreeNo(0);

const NAME: &str = "pages";
const MAGIC: &[u8; 8] = b"PDPAGES\x01";

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

/// Creates the file, durably but for its name.
pub(crate) fn create<F: Files>(files: &F, prefix: &str, new: &NewFile) -> io::Result<F::File> {
    if !is_page_size(new.page_bytes) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the size of a page is a power of two from 512 to 32768 bytes",
        ));
    }
    let file = files.create(&format!("{prefix}{NAME}"))?;
    let page = |number, kind| {
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
    };
    let mut header = page(PageNo(0), PageKind::Header);
    let contents = &mut header.bytes_mut()[HEADER_BYTES..];
    contents[..8].copy_from_slice(MAGIC);
    contents[8..12].copy_from_slice(&(new.page_bytes as u32).to_le_bytes());
    let mut map = page(FIRST_MAP, PageKind::Map);
    for used in [FIRST_MAP, CATALOG_ROOT] {
        map.set_bit((used.0 - FIRST_MAP.0) as usize, true);
    }
    let root = page(CATALOG_ROOT, PageKind::Leaf);
    let mut bytes = Vec::with_capacity(3 * new.page_bytes);
    for page in [header, map, root] {
        let from = bytes.len();
        bytes.extend_from_slice(page.bytes());
        Page::seal(&mut bytes[from..]);
    }
    file.reserve(bytes.len() as u64)?;
    file.write_at(0, &bytes)?;
    file.sync()?;
    Ok(file)
}

/// Opens the file and reads its header.
pub(crate) fn open<F: Files>(files: &F, prefix: &str) -> Result<(F::File, NewFile)> {
    let io = |source| PagedError::Io { doing: "opening the file of pages", source };
    let damaged = |what| PagedError::DamagedPage { page: PageNo(0), what };
    let file = files.open(&format!("{prefix}{NAME}")).map_err(io)?;
    let mut first = Page::blank(LEAST_PAGE_BYTES);
    let read = file.read_at(0, first.bytes_mut()).map_err(io)?;
    let contents = &first.bytes()[HEADER_BYTES..];
    if read < LEAST_PAGE_BYTES || &contents[..8] != MAGIC {
        return Err(damaged("the file has no header of a file of pages"));
    }
    let mut page_bytes = [0; 4];
    page_bytes.copy_from_slice(&contents[8..12]);
    let page_bytes = u32::from_le_bytes(page_bytes) as usize;
    if !is_page_size(page_bytes) {
        return Err(damaged("its pages have an impossible size"));
    }
    let mut header = Page::blank(page_bytes);
    let read = file.read_at(0, header.bytes_mut()).map_err(io)?;
    if read < page_bytes {
        return Err(damaged("it is cut off"));
    }
    header.check(PageNo(0), header.stamp())?;
    Ok((file, NewFile { page_bytes, stamp: header.stamp() }))
}
