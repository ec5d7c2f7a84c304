//! Pages in a file, with a cache (P1 3.2).
//!
//! Page `n` lies at `data_at + (n - 1) * page_bytes`; there is no page 0. The high-water mark is
//! the number of the last page that was ever used. Every page has a checksum, made when it is
//! written out and looked at when it is read in.
//!
//! Pages of the open batch stay in the cache until [`PageBackend::write_back`], or until they fill
//! half of it.

use std::io;

use heap::HeapError;
use pm::{Bad, File, GrowError, Memory};

use super::backend::{PageBackend, PageSource};
use super::cache::Cache;
use crate::error::IndexError;

/// Reads pages of a file through the cache.
#[derive(Debug)]
pub struct FileSource<F, V>(std::sync::Arc<Cache<F, V>>);

impl<F, V> Clone for FileSource<F, V> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<F: File, V: Memory> PageSource for FileSource<F, V> {
    type View<'a> = V::View<'a>;

    fn with<'s, R>(
        &'s self,
        page: u64,
        read: impl FnOnce(&Self::View<'s>) -> R,
    ) -> Result<R, IndexError> {
        self.0.with(page, read)
    }
}

/// Pages in a file.
#[derive(Debug)]
pub struct FilePages<F, V> {
    source: FileSource<F, V>,
    /// The last page that was ever used.
    last: u64,
    /// Pages that the file has room for.
    room: u64,
    /// The mark that the pages were opened with.
    opened: u64,
    /// Pages that may be dirty in the cache.
    dirty: Vec<u64>,
    /// Pages written out.
    written: u64,
    /// A page on its way out.
    buffer: Vec<u8>,
}

/// Bytes by which a file grows at least, but for a small one, and the part of a large one that it
/// grows by: so that it grows seldom, and the space reserved ahead stays small.
const GROWTH_BYTES: u64 = 1 << 20;
const GROWTH_PART: u64 = 64;

impl<F: File, V: Memory> FilePages<F, V> {
    /// Pages of `page_bytes` bytes in a file from byte `data_at` on, `mark` of which are used, by
    /// the directory of transaction `opened`. The cache takes up to `cache_bytes` of `memory`.
    ///
    /// # Errors
    /// The file cannot be reached, or is shorter than the pages in use.
    pub fn open(
        file: F,
        data_at: u64,
        page_bytes: u32,
        (mark, opened): (u64, u64),
        memory: V,
        cache_bytes: u64,
    ) -> Result<Self, IndexError> {
        let room = file.len()?.saturating_sub(data_at) / u64::from(page_bytes);
        if mark > room {
            let at = mark.saturating_sub(1).saturating_mul(u64::from(page_bytes));
            let at = at.saturating_add(data_at);
            return Err(
                Bad::Damaged { what: "length of the file: it ends before the page", at }.into()
            );
        }
        let cache = Cache::new(file, data_at, page_bytes, opened, memory, cache_bytes);
        let source = FileSource(std::sync::Arc::new(cache));
        Ok(Self {
            source,
            last: mark,
            room,
            opened: mark,
            dirty: Vec::new(),
            written: 0,
            buffer: Vec::new(),
        })
    }

    /// The file.
    pub fn file(&self) -> &F {
        &self.source.0.file
    }

    /// Bytes of volatile memory that the cache has taken.
    pub fn cached_bytes(&self) -> u64 {
        self.source.0.taken_bytes()
    }

    fn reserve(&mut self, pages: u64) -> io::Result<()> {
        let cache = &self.source.0;
        self.file().reserve(cache.data_at + pages * u64::from(cache.page_bytes))?;
        self.room = pages;
        Ok(())
    }

    fn clean(&mut self, pages: usize) -> Result<(), IndexError> {
        let pages = pages.min(self.dirty.len());
        self.dirty[..pages].sort_unstable();
        for page in &self.dirty[..pages] {
            self.written += u64::from(self.source.0.write_out(*page, &mut self.buffer)?);
        }
        self.dirty.drain(..pages);
        Ok(())
    }
}

impl<F: File, V: Memory> PageBackend for FilePages<F, V> {
    type Source = FileSource<F, V>;
    type Room = ();

    fn source(&self) -> &FileSource<F, V> {
        &self.source
    }

    fn page_bytes(&self) -> u32 {
        self.source.0.page_bytes
    }

    fn take_fresh(&mut self) -> Result<Option<u64>, IndexError> {
        if self.last == self.room {
            return Ok(None);
        }
        self.last += 1;
        Ok(Some(self.last))
    }

    fn fresh(&self) -> u64 {
        self.room - self.last
    }

    #[track_caller]
    fn extend(&mut self, (): &mut (), pages: u64) -> Result<(), IndexError> {
        let page_bytes = u64::from(self.page_bytes());
        let needed = self.room + pages;
        let step = (GROWTH_BYTES / page_bytes).max(self.room / GROWTH_PART);
        let ahead = needed.max(self.room + step.min(self.room / 4 + 16));
        let full = |source| {
            let wanted = needed.saturating_mul(page_bytes);
            IndexError::from(HeapError::Full(GrowError::Medium { wanted, source }))
        };
        // Where there is no room to reserve ahead there may be some for what is needed.
        self.reserve(ahead).or_else(|_| self.reserve(needed)).map_err(full)
    }

    fn allocated(&mut self, _: u64) {}

    fn write(&mut self, page: u64, image: &[u8]) -> Result<(), IndexError> {
        if self.dirty.len() as u64 >= self.source.0.frames() / 2 {
            self.clean(self.dirty.len().div_ceil(2))?;
        }
        if self.source.0.replace(page, image)? {
            self.dirty.push(page);
        }
        Ok(())
    }

    fn patch(&mut self, page: u64, at: usize, bytes: [u8; 8]) -> Result<(), IndexError> {
        if self.source.0.patch(page, at, bytes)? {
            self.dirty.push(page);
        }
        Ok(())
    }

    fn forget(&mut self, page: u64) {
        self.source.0.forget(page);
    }

    #[track_caller]
    fn write_back(&mut self) -> Result<(), IndexError> {
        self.clean(self.dirty.len())
    }

    fn mark(&self) -> u64 {
        self.last
    }

    fn used_pages(&self) -> Result<u64, IndexError> {
        Ok(self.last)
    }

    fn bytes(&self) -> u64 {
        self.room * u64::from(self.page_bytes())
    }

    fn written_bytes(&self) -> u64 {
        self.written * u64::from(self.page_bytes())
    }

    fn enumerate(&mut self, _: u64) -> Result<(u64, bool), IndexError> {
        Ok((0, true))
    }

    fn below_mark(&self) -> u64 {
        self.opened
    }

    fn is_below(&self, dense: u64) -> bool {
        dense < self.opened
    }

    fn dense(&self, page: u64) -> Option<u64> {
        page.checked_sub(1).filter(|place| *place < self.opened)
    }

    fn page_at(&self, dense: u64) -> u64 {
        dense + 1
    }
}
