//! A mapping through which the lines of a file are written back.

use std::os::fd::AsRawFd;
use std::{fs, io};

use crate::flush::FlushInstruction;
use crate::offset::Range;

/// A shared mapping of a file, to write its lines back. It may be longer than the file; nothing
/// beyond the file's end is touched.
#[derive(Debug)]
pub(super) struct Window {
    base: *mut u8,
    len: usize,
}

// SAFETY: the mapping belongs to no thread; nothing is read or written through it.
unsafe impl Send for Window {}

impl Window {
    /// The window in `slot`, mapped anew where it does not reach over `bytes` bytes.
    pub(super) fn covering<'a>(
        slot: &'a mut Option<Self>,
        file: &fs::File,
        bytes: u64,
    ) -> io::Result<&'a mut Self> {
        let wanted = usize::try_from(bytes).map_err(|_| io::ErrorKind::FileTooLarge)?;
        if slot.as_ref().is_none_or(|window| window.len < wanted) {
            // Doubled, so that a growing log is rarely mapped again.
            let len = wanted.next_power_of_two().max(1 << 20);
            // SAFETY: a fresh mapping at an address that the kernel chooses.
            let base = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    len,
                    libc::PROT_READ,
                    libc::MAP_SHARED,
                    file.as_raw_fd(),
                    0,
                )
            };
            if base == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            *slot = Some(Self { base: base.cast(), len });
        }
        slot.as_mut().ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    /// Writes back the lines of `part`, which lies within the file's `bytes` bytes.
    pub(super) fn write_back(&self, instruction: FlushInstruction, part: Range, bytes: u64) {
        assert!(part.end() <= bytes && bytes <= self.len as u64, "within the file");
        let (first, end) = part.lines();
        // SAFETY: the lines touch only pages of which the file has at least one byte, and these
        // are mapped; the instruction was detected.
        unsafe { instruction.write_back(self.base, first, end) };
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing refers into it.
        unsafe { libc::munmap(self.base.cast(), self.len) };
    }
}
