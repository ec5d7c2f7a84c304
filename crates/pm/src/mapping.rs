//! A reserved run of addresses of which a growing front part is mapped: the raw accesses that all
//! native memories share, each behind a bounds check.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

use crate::bulk;
use crate::error::Bad;
use crate::memory::{Pod, View, checked_range};
use crate::offset::{LINE_BYTES, Off, Range};

/// Invariant: `base` starts a reservation of `reserved` bytes that lives as long as `self`; its
/// first `len` bytes are mapped readable and writable, and `len` never shrinks.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: *mut u8,
    len: AtomicU64,
    reserved: u64,
    kernels: bulk::Kernels,
}

// SAFETY: the mapping is plain memory; all shared accesses go through atomics or are ordered by
// the lock of the structure that owns the bytes.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Reserves `reserved` bytes of addresses, of which none is usable.
    pub(crate) fn reserve(reserved: u64) -> io::Result<Self> {
        Self::map(reserved, libc::PROT_NONE)
    }

    /// Reserves `reserved` bytes of zero pages, all of which may be used; [`Self::set_len`] says
    /// how many are.
    pub(crate) fn anonymous(reserved: u64) -> io::Result<Self> {
        Self::map(reserved, libc::PROT_READ | libc::PROT_WRITE)
    }

    fn map(reserved: u64, protection: libc::c_int) -> io::Result<Self> {
        let size = usize::try_from(reserved).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: a fresh private mapping at an address that the kernel chooses.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size,
                protection,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { base: base.cast(), len: AtomicU64::new(0), reserved, kernels: bulk::kernels() })
    }

    pub(crate) fn base(&self) -> *mut u8 {
        self.base
    }

    pub(crate) fn reserved(&self) -> u64 {
        self.reserved
    }

    #[inline]
    pub(crate) fn len(&self) -> u64 {
        self.len.load(Ordering::Relaxed)
    }

    /// Declares the first `len` bytes usable. The caller has mapped them.
    pub(crate) fn set_len(&self, len: u64) {
        assert!(len <= self.reserved, "the mapping grows within its reservation");
        self.len.store(len, Ordering::Release);
    }

    /// The address of a range that lies within the usable bytes.
    #[inline]
    fn at(&self, range: Range) -> Result<*mut u8, Bad> {
        checked_range(range, self.len())?;
        // SAFETY: the range lies within the mapping.
        Ok(unsafe { self.base.add(range.start as usize) })
    }

    /// As [`Self::at`], for places that we chose ourselves.
    #[inline]
    fn own(&self, range: Range) -> *mut u8 {
        match self.at(range) {
            Ok(at) => at,
            Err(bad) => outside(bad),
        }
    }

    #[inline]
    pub(crate) fn read<T: Pod>(&self, at: Off<T>) -> Result<T, Bad> {
        let from = self.at(at.range())?;
        // SAFETY: the bytes are mapped, and T is valid for every bit pattern.
        Ok(unsafe { from.cast::<T>().read_unaligned() })
    }

    #[inline]
    pub(crate) fn read_into(&self, at: Off<u8>, out: &mut [u8]) -> Result<(), Bad> {
        let from = self.at(Range::new(at.get(), out.len() as u64))?;
        // SAFETY: the bytes are mapped, and `out` is a distinct buffer.
        unsafe { std::ptr::copy_nonoverlapping(from, out.as_mut_ptr(), out.len()) };
        Ok(())
    }

    #[inline]
    pub(crate) fn view(&self, range: Range) -> Result<NativeView<'_>, Bad> {
        Ok(NativeView { start: self.at(range)?, len: range.len as usize, memory: self })
    }

    #[inline]
    pub(crate) fn gather(&self, parts: &[Range], out: &mut [u8]) -> Result<(), Bad> {
        let len = self.len();
        let mut total = 0;
        for part in parts {
            checked_range(*part, len)?;
            total += part.len;
        }
        assert!(total == out.len() as u64, "the buffer has the length of the parts");
        // SAFETY: every part lies within the mapping; `out` has exactly their total length and is
        // a distinct buffer.
        unsafe { (self.kernels.gather)(self.base, parts, out.as_mut_ptr()) };
        Ok(())
    }

    #[inline]
    fn word(&self, at: Off<u64>) -> Result<&AtomicU64, Bad> {
        let address = self.at(at.range())?;
        if !at.get().is_multiple_of(8) {
            return Err(Bad::Misaligned { at: at.get(), align: 8 });
        }
        // SAFETY: mapped, aligned (the base is page-aligned), and only accessed atomically or
        // under the lock of its owner.
        Ok(unsafe { AtomicU64::from_ptr(address.cast()) })
    }

    #[inline]
    pub(crate) fn load(&self, at: Off<u64>, order: Ordering) -> Result<u64, Bad> {
        Ok(self.word(at)?.load(order))
    }

    #[inline]
    fn own_word(&self, at: Off<u64>) -> &AtomicU64 {
        match self.word(at) {
            Ok(word) => word,
            Err(bad) => outside(bad),
        }
    }

    #[inline]
    pub(crate) fn store(&self, at: Off<u64>, value: u64) {
        let word = self.own_word(at);
        compiler_fence(Ordering::SeqCst);
        word.store(value, Ordering::Release);
        compiler_fence(Ordering::SeqCst);
    }

    #[inline]
    pub(crate) fn cas(&self, at: Off<u64>, old: u64, new: u64) -> Result<u64, u64> {
        self.own_word(at).compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn copy(&self, at: Off<u8>, src: &[u8]) {
        let to = self.own(Range::new(at.get(), src.len() as u64));
        compiler_fence(Ordering::SeqCst);
        // SAFETY: the bytes are mapped, and `src` is a distinct buffer.
        unsafe { std::ptr::copy_nonoverlapping(src.as_ptr(), to, src.len()) };
        compiler_fence(Ordering::SeqCst);
    }

    #[inline]
    pub(crate) fn prefetch(&self, range: Range) {
        if checked_range(range, self.len()).is_ok() {
            let (first, end) = range.lines();
            for line in first..end {
                // SAFETY: within the mapping, rounded down to a line.
                bulk::prefetch(unsafe { self.base.add((line * LINE_BYTES) as usize) });
            }
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the reservation is ours, and no reference into it outlives `self`.
        unsafe { libc::munmap(self.base.cast(), self.reserved as usize) };
    }
}

#[cold]
#[inline(never)]
fn outside(bad: Bad) -> ! {
    panic!("a store outside of what was allocated: {bad}");
}

/// A range of a native memory, checked when it was made.
#[derive(Clone, Copy, Debug)]
pub struct NativeView<'a> {
    start: *const u8,
    len: usize,
    memory: &'a Mapping,
}

impl View for NativeView<'_> {
    #[inline]
    fn word(&self, at: usize) -> u64 {
        assert!(at + 8 <= self.len, "within the view");
        // SAFETY: within the view, which is mapped as long as its memory lives.
        u64::from_le(unsafe { self.start.add(at).cast::<u64>().read_unaligned() })
    }

    #[inline]
    fn bytes(&self, at: usize, len: usize) -> &[u8] {
        assert!(at <= self.len && len <= self.len - at, "within the view");
        // SAFETY: within the view; the owner of the bytes does not store to them while the caller
        // holds the slice, which lives no longer than this short-lived view.
        unsafe { std::slice::from_raw_parts(self.start.add(at), len) }
    }

    #[inline]
    fn rank(&self, at: usize, count: usize, key: u64) -> usize {
        assert!(at <= self.len && count <= (self.len - at) / 8, "within the view");
        // SAFETY: `count` words lie within the view.
        unsafe { (self.memory.kernels.rank)(self.start.add(at).cast(), count, key) }
    }

    #[inline]
    fn matches(&self, at: usize, count: usize, key: u64) -> u64 {
        assert!(count <= 64 && at <= self.len && count <= (self.len - at) / 16, "within the view");
        // SAFETY: `count` pairs lie within the view.
        unsafe { (self.memory.kernels.matches)(self.start.add(at).cast(), count, key) }
    }
}
