//! Files mapped into memory, shared with the page cache so that stores survive the process.
//!
//! Invariants:
//! - A [`Mapping`] is `bytes` bytes of readable and writable memory from `base` on, as long as it
//!   lives.
//! - A [`MappedFile`] holds the exclusive lock of its file: no other process changes the memory, so
//!   a shared borrow of it may give out slices.
//! - Every access is checked against the length.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;

use workloads::StoreError;

use crate::flush::{Flush, LINE_BYTES};

/// Memory that is a file.
pub(crate) struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread.
unsafe impl Send for Mapping {}
// SAFETY: through a shared reference only atomic counters and, in `MappedFile`, unchanging bytes
// are reached.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `bytes` bytes of `file`, which must be that long.
    pub(crate) fn new(file: &File, path: &Path, bytes: usize) -> Result<Self, StoreError> {
        use std::os::fd::AsRawFd;
        // SAFETY: a new mapping at an address that the kernel chooses overlaps nothing of ours.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(StoreError::io(path, std::io::Error::last_os_error()));
        }
        let base = NonNull::new(base.cast()).expect("the kernel maps nothing at address zero");
        Ok(Self { base, bytes })
    }

    /// Writes back the line that byte `at` is in.
    #[inline]
    pub(crate) fn write_back(&self, flush: Flush, at: usize) {
        assert!(at < self.bytes, "a line outside its file");
        // SAFETY: in bounds, and `flush` was detected.
        unsafe { flush.line(self.base.as_ptr().add(at)) }
    }

    /// The counter at byte `at`.
    #[inline]
    pub(crate) fn counter(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at + 8 <= self.bytes, "counter outside its file");
        // SAFETY: in bounds and aligned (a mapping starts at a page); every access to the memory of
        // a mapping that is used in this way is atomic.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(at).cast()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly what `mmap` returned, and nothing borrows from it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// A locked file in memory, with flush and fence.
pub(crate) struct MappedFile {
    mapping: Mapping,
    flush: Flush,
    path: PathBuf,
    /// Holds the lock.
    _file: File,
}

impl MappedFile {
    /// Creates a file of `bytes` zeroes.
    ///
    /// # Errors
    /// If it exists, or cannot be created or mapped.
    pub(crate) fn create(path: &Path, bytes: usize) -> Result<Self, StoreError> {
        let io = |error| StoreError::io(path, error);
        let file =
            OpenOptions::new().read(true).write(true).create_new(true).open(path).map_err(io)?;
        file.set_len(bytes as u64).map_err(io)?;
        Self::map(file, path, bytes)
    }

    /// Opens an existing file whole.
    ///
    /// # Errors
    /// If it does not exist, is locked, or cannot be mapped.
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        let io = |error| StoreError::io(path, error);
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(io)?;
        let bytes = file.metadata().map_err(io)?.len() as usize;
        if bytes == 0 {
            return Err(StoreError::Damaged { path: path.to_owned(), what: "it is empty".into() });
        }
        Self::map(file, path, bytes)
    }

    fn map(file: File, path: &Path, bytes: usize) -> Result<Self, StoreError> {
        let flush = Flush::detect()?;
        file.try_lock().map_err(|error| match error {
            TryLockError::Error(error) => StoreError::io(path, error),
            TryLockError::WouldBlock => {
                let what = format!("{}: another process has it open", path.display());
                StoreError::Unsupported(what)
            }
        })?;
        let mapping = Mapping::new(&file, path, bytes)?;
        Ok(Self { mapping, flush, path: path.to_owned(), _file: file })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn len(&self) -> usize {
        self.mapping.bytes
    }

    /// The address of `bytes` bytes from `at` on.
    #[inline]
    fn address(&self, at: usize, bytes: usize) -> *mut u8 {
        let end = at.checked_add(bytes);
        assert!(end.is_some_and(|end| end <= self.len()), "access outside the file");
        // SAFETY: `at` was found to be within the mapping.
        unsafe { self.mapping.base.as_ptr().add(at) }
    }

    /// The bytes from `at` on.
    #[inline]
    pub(crate) fn slice(&self, at: usize, bytes: usize) -> &[u8] {
        // SAFETY: in bounds; the file is locked, and changing it takes `&mut self`.
        unsafe { std::slice::from_raw_parts(self.address(at, bytes), bytes) }
    }

    /// The word at `at`.
    #[inline]
    pub(crate) fn word(&self, at: usize) -> u64 {
        u64::from_le_bytes(*self.slice(at, 8).first_chunk().expect("eight bytes"))
    }

    /// Stores bytes.
    #[inline]
    pub(crate) fn store(&mut self, at: usize, bytes: &[u8]) {
        let target = self.address(at, bytes.len());
        // SAFETY: in bounds; `bytes` is not in the mapping, which is borrowed mutably.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len()) };
    }

    /// Stores an aligned word in one piece.
    #[inline]
    pub(crate) fn store_word(&mut self, at: usize, word: u64) {
        assert!(at.is_multiple_of(8), "a word must be aligned to be stored in one piece");
        let target = self.address(at, 8).cast::<u64>();
        // SAFETY: in bounds and aligned; volatile so that it stays one store.
        unsafe { target.write_volatile(word.to_le()) };
    }

    /// Copies bytes inside the file; the two ranges may not overlap.
    #[inline]
    pub(crate) fn copy(&mut self, from: usize, to: usize, bytes: usize) {
        assert!(from.abs_diff(to) >= bytes, "overlapping copy");
        let (source, target) = (self.address(from, bytes), self.address(to, bytes));
        // SAFETY: both in bounds, and apart.
        unsafe { ptr::copy_nonoverlapping(source, target, bytes) };
    }

    /// Writes back every line that has a byte in the range; durable after [`MappedFile::fence`].
    #[inline]
    pub(crate) fn flush(&self, at: usize, bytes: usize) {
        let start = self.address(at, bytes);
        // The range's first line may begin before it: rounding down keeps the last line from being
        // missed. The mapping starts at a page, so this stays inside.
        let first = at & !(LINE_BYTES - 1);
        let lines = (at + bytes).div_ceil(LINE_BYTES) - first / LINE_BYTES;
        for line in 0..lines {
            let address = start.wrapping_sub(at - first).wrapping_add(line * LINE_BYTES);
            // SAFETY: the line has a byte inside the mapping; the instruction was detected.
            unsafe { self.flush.line(address) };
        }
    }

    /// Waits for everything flushed.
    #[inline]
    pub(crate) fn fence(&self) {
        self.flush.fence();
    }
}
