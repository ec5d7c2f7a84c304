//! A reserved run of addresses of which a growing front part is mapped: the raw accesses that all
//! native memories share, each after a bounds check.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, compiler_fence};

use crate::bulk;
use crate::bytes::Bytes;
use crate::error::Bad;
use crate::flush::LineStore;
use crate::limits::page_bytes;
use crate::memory::{Pod, View, checked_range};
use crate::offset::{LINE_BYTES, Line, Off, Range};

/// The ways to map the pages of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sharing {
    /// Stores stay in this process and never reach the file.
    Private,
    /// Stores are the file's contents.
    Shared,
    /// Shared, and on persistent memory the file system's metadata are durable when a page is
    /// first written (`MAP_SYNC`).
    Synchronous,
}

impl Sharing {
    fn flags(self) -> libc::c_int {
        match self {
            // The kernel may have less memory than the file has bytes: few of them are stored to.
            Self::Private => libc::MAP_PRIVATE | libc::MAP_NORESERVE,
            Self::Shared => libc::MAP_SHARED,
            Self::Synchronous => libc::MAP_SHARED_VALIDATE | libc::MAP_SYNC,
        }
    }
}

/// The protection and the flags with which addresses are reserved. Miri knows no pages without
/// access: there all are usable at once.
const RESERVED: (libc::c_int, libc::c_int) = if cfg!(miri) {
    (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS)
} else {
    (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE)
};

/// Bytes of a huge page: what one entry of the processor's tables of addresses can map, of x86-64 and
/// of aarch64 with pages of 4 KiB.
pub(crate) const HUGE_PAGE_BYTES: u64 = 2 << 20;

/// Invariant: `base` starts a reservation of `reserved` bytes that lives as long as `self`; its
/// first `len` bytes are mapped readable and writable, and `len` never shrinks. What is volatile may
/// be readable and writable up to the end of a huge page after that. Where `torn` is set, addresses
/// of the reservation after `len` may belong to another mapping.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: *mut u8,
    len: AtomicU64,
    reserved: u64,
    torn: AtomicBool,
    kernels: bulk::Kernels,
}

// SAFETY: the mapping is plain memory; all shared accesses go through atomics or are ordered by
// the lock of the structure that owns the bytes.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Reserves `reserved` bytes of addresses, of which none is usable. None at all is possible.
    pub(crate) fn reserve(reserved: u64) -> io::Result<Self> {
        Self::reserve_aligned(reserved, HUGE_PAGE_BYTES)
    }

    /// The same, at a multiple of `alignment`, a power of two, if as much is reserved: pages of that
    /// size fit into the addresses as they do into the file.
    pub(crate) fn reserve_aligned(reserved: u64, alignment: u64) -> io::Result<Self> {
        let size = reserved
            .checked_next_multiple_of(page_bytes())
            .and_then(|size| usize::try_from(size).ok())
            .ok_or(io::ErrorKind::OutOfMemory)?;
        let alignment = usize::try_from(alignment).map_err(|_| io::ErrorKind::InvalidInput)?;
        let base = match size {
            0 => std::ptr::dangling_mut::<u8>(),
            // Miri cannot give back a part of a mapping.
            _ if cfg!(miri) || size < alignment => addresses(size)?,
            _ => addresses_at(size, alignment)?,
        };
        Ok(Self {
            base,
            len: AtomicU64::new(0),
            reserved,
            torn: AtomicBool::new(false),
            kernels: bulk::kernels(),
        })
    }

    /// Lets the kernel put what comes after `from` into huge pages, which it has to zero when
    /// they are touched first: not worth it for what is small.
    pub(crate) fn prefer_huge_pages(&self, from: u64) {
        if from >= self.reserved || cfg!(miri) {
            return;
        }
        // SAFETY: our own reservation. The kernel may refuse, and nothing is different then.
        unsafe {
            libc::madvise(
                self.base.add(from as usize).cast(),
                (self.reserved - from) as usize,
                libc::MADV_HUGEPAGE,
            );
        }
    }

    /// Makes the first `to` bytes usable, as zero pages of this process. The kernel counts them
    /// against its limits only now.
    ///
    /// # Errors
    /// The kernel has no room for them.
    pub(crate) fn extend(&self, to: u64) -> io::Result<()> {
        assert!(to <= self.reserved, "the mapping grows within its reservation");
        if cfg!(miri) {
            self.set_len(to);
            return Ok(());
        }
        let from = self.len() / page_bytes() * page_bytes();
        // Up to the end of a huge page, so that the kernel can give one.
        let end = to.next_multiple_of(HUGE_PAGE_BYTES).min(self.reserved);
        // SAFETY: pages of our own reservation; those that were usable stay so.
        let result = unsafe {
            libc::mprotect(
                self.base.add(from as usize).cast(),
                (end.next_multiple_of(page_bytes()) - from) as usize,
                libc::PROT_READ | libc::PROT_WRITE,
            )
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        self.set_len(to);
        Ok(())
    }

    /// Asks the kernel for huge pages in the place of the small ones of `part`, which starts and ends
    /// at multiples of [`HUGE_PAGE_BYTES`]. What is in them stays. The kernel may have none to give.
    pub(crate) fn collapse(&self, part: Range) {
        assert!(part.end() <= self.len(), "it is usable");
        // SAFETY: our own pages, whose contents stay.
        unsafe {
            libc::madvise(
                self.base.add(part.start as usize).cast(),
                part.len as usize,
                libc::MADV_COLLAPSE,
            );
        }
    }

    /// Maps a part of `file` at the same place of the reservation, after what is usable.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn map_file(&self, file: &File, part: Range, sharing: Sharing) -> io::Result<()> {
        assert!(
            part.start >= self.len() && part.end() <= self.reserved,
            "grows in its reservation"
        );
        if self.torn.load(Ordering::Relaxed) {
            return Err(io::Error::other("an earlier growth lost its addresses; open it again"));
        }
        let map = |at: *mut libc::c_void, flags| {
            // SAFETY: with no address the kernel chooses a free one; otherwise the part lies
            // within our reservation and replaces pages that nothing uses yet.
            unsafe {
                libc::mmap(
                    at,
                    part.len as usize,
                    libc::PROT_READ | libc::PROT_WRITE,
                    flags,
                    file.as_raw_fd(),
                    part.start as libc::off_t,
                )
            }
        };
        // A file system may refuse after the kernel has unmapped what was at a fixed address, and
        // another thread's memory may fall into the hole. So it is asked elsewhere first. (Not
        // while nothing is usable: then the reservation is given up with the error, and the time
        // of opening counts.)
        if self.len() > 0 {
            let probe = map(std::ptr::null_mut(), sharing.flags());
            if probe == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            // SAFETY: the mapping above, which is not in use.
            unsafe { libc::munmap(probe, part.len as usize) };
        }
        // SAFETY: the part lies within the reservation.
        let at = unsafe { self.base.add(part.start as usize) };
        if map(at.cast(), sharing.flags() | libc::MAP_FIXED) == libc::MAP_FAILED {
            let error = io::Error::last_os_error();
            self.torn.store(true, Ordering::Relaxed);
            return Err(error);
        }
        Ok(())
    }

    /// Puts zero pages of this process in the place of a part of a private mapping, which is not in
    /// use yet and which reads as zero: touching it asks the file's medium for nothing. The kernel may
    /// refuse; then the part stays as it is.
    pub(crate) fn cover(&self, part: Range) {
        assert!(self.len() == 0 && part.end() <= self.reserved, "it is not in use");
        // SAFETY: pages of our reservation that nothing uses yet.
        unsafe {
            libc::mmap(
                self.base.add(part.start as usize).cast(),
                part.len as usize,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE,
                -1,
                0,
            );
        }
    }

    pub(crate) fn base(&self) -> *mut u8 {
        self.base
    }

    /// The addresses that are reserved.
    pub(crate) fn addresses(&self) -> std::ops::Range<usize> {
        let start = self.base.addr();
        start..start + self.reserved as usize
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

    /// The address of a range, after a look at each page of it: one that the medium has lost is noticed now.
    pub(crate) fn touched(&self, range: Range) -> Result<*const u8, Bad> {
        let start = self.at(range)?.cast_const();
        for at in (0..range.len).step_by(page_bytes() as usize) {
            // SAFETY: within the range, which is mapped.
            unsafe { start.add(at as usize).read_volatile() };
        }
        Ok(start)
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

    /// Stores a word and returns the former value, in one total order with all other such calls and fences.
    #[inline]
    pub(crate) fn exchange(&self, at: Off<u64>, value: u64) -> u64 {
        self.own_word(at).swap(value, Ordering::SeqCst)
    }

    /// The same where the former value is `old`; otherwise nothing is stored.
    ///
    /// # Errors
    /// The value found.
    #[inline]
    pub(crate) fn exchange_if(&self, at: Off<u64>, old: u64, value: u64) -> Result<u64, u64> {
        self.own_word(at).compare_exchange(old, value, Ordering::SeqCst, Ordering::SeqCst)
    }

    /// The low half of a word, for the kernel alone: it compares that half with a value, and threads wait by its address.
    ///
    /// # Panics
    /// The word does not lie within the mapping, or is not aligned.
    pub(crate) fn low_half(&self, at: Off<u64>) -> &AtomicU32 {
        let word = std::ptr::from_ref(self.own_word(at)).cast_mut().cast::<AtomicU32>();
        let half = if cfg!(target_endian = "little") { 0 } else { 1 };
        // SAFETY: a half of a word that is mapped and aligned, for as long as the mapping is borrowed. This code loads
        // and stores whole words only.
        unsafe { &*word.add(half) }
    }

    #[inline]
    pub(crate) fn copy(&self, at: Off<u8>, src: &[u8]) {
        let to = self.own(Range::new(at.get(), src.len() as u64));
        compiler_fence(Ordering::SeqCst);
        // SAFETY: the bytes are mapped, and `src` is a distinct buffer.
        unsafe { std::ptr::copy_nonoverlapping(src.as_ptr(), to, src.len()) };
        compiler_fence(Ordering::SeqCst);
    }

    /// Copies a line, which a kill may cut: for memories that are not shared.
    #[inline]
    pub(crate) fn copy_line(&self, line: Line, bytes: &[u8; LINE_BYTES as usize]) {
        self.copy(Off::new(line.range().start), bytes);
    }

    /// Stores a line by the processor's instruction.
    #[inline]
    pub(crate) fn store_line(&self, by: LineStore, line: Line, bytes: &[u8; LINE_BYTES as usize]) {
        let to = self.own(line.range());
        compiler_fence(Ordering::SeqCst);
        // SAFETY: the line is mapped, and starts on one, since the base is aligned to pages.
        unsafe { by.store(to, bytes) };
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

/// Addresses of which none is usable.
fn addresses(size: usize) -> io::Result<*mut u8> {
    let (access, flags) = RESERVED;
    // SAFETY: a fresh private mapping at an address that the kernel chooses.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), size, access, flags, -1, 0) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(base.cast())
}

/// The same at a multiple of `alignment`: more is asked for, and what is too much given back.
fn addresses_at(size: usize, alignment: usize) -> io::Result<*mut u8> {
    let base = addresses(size.checked_add(alignment).ok_or(io::ErrorKind::OutOfMemory)?)?;
    let before = base.align_offset(alignment);
    // SAFETY: within what has just been reserved.
    let start = unsafe { base.add(before) };
    // SAFETY: as above.
    let after = unsafe { start.add(size) };
    for (at, len) in [(base, before), (after, alignment - before)] {
        if len > 0 {
            // SAFETY: whole pages of what has just been reserved; they are not in use.
            unsafe { libc::munmap(at.cast(), len) };
        }
    }
    Ok(start)
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // What is usable is ours in any case; a torn reservation after it is left alone.
        let ours = if *self.torn.get_mut() { *self.len.get_mut() } else { self.reserved };
        if ours > 0 {
            // SAFETY: these addresses are ours, and no reference into them outlives `self`.
            unsafe { libc::munmap(self.base.cast(), ours as usize) };
        }
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
        // SAFETY: within the view, which is mapped as long as its memory lives. Words in slotted pages
        // are not aligned, so this is no atomic load.
        u64::from_le(unsafe { self.start.add(at).cast::<u64>().read_unaligned() })
    }

    #[inline]
    fn bytes(&self, at: usize, len: usize) -> Bytes<'_> {
        assert!(at <= self.len && len <= self.len - at, "within the view");
        // SAFETY: within the view, which is mapped as long as its memory lives.
        unsafe { Bytes::new(self.start.add(at), len) }
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
