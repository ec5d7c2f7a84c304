//! An open file of a directory of the host. `host.rs` says what a sync of it does.

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::File;
use super::host_directory::{Directory, Method, check_poison};
use super::window::Window;
use crate::bytes::Bytes;
use crate::counters::bump;
use crate::flush::{FlushInstruction, store_fence};
use crate::frame::FrameBytes;
use crate::limits::{check_file_size, largest_file};
use crate::offset::{LINE_BYTES, Range};
use crate::space::reserve_space;

/// An open file of [`HostFiles`](super::HostFiles).
///
/// In modelled `adr` a sync writes back what was written through this handle; a file that is
/// written has one handle at a time.
#[derive(Debug)]
pub struct HostFile {
    directory: Arc<Directory>,
    file: fs::File,
    poisoned: AtomicBool,
    /// Bytes written since the last sync, while they are counted.
    unsynced_bytes: AtomicU64,
    unsynced: Mutex<Unsynced>,
    /// Bytes that the file may have, when that was last asked for.
    largest: AtomicU64,
}

/// The writes that modelled `adr` has to write back.
#[derive(Default, Debug)]
struct Unsynced {
    /// Written since the last sync, in order; neighbours are merged.
    ranges: Vec<Range>,
    window: Option<Window>,
}

impl HostFile {
    /// An open file of a directory.
    pub(super) fn new(directory: Arc<Directory>, file: fs::File) -> Self {
        Self {
            directory,
            file,
            poisoned: AtomicBool::new(false),
            unsynced_bytes: AtomicU64::new(0),
            unsynced: Mutex::default(),
            largest: AtomicU64::new(largest_file()),
        }
    }

    pub(crate) fn host(&self) -> &fs::File {
        &self.file
    }

    /// Refuses in a forked child, and after a sync that failed.
    fn usable(&self) -> io::Result<()> {
        self.directory.is_ours()?;
        check_poison(&self.poisoned)
    }

    fn unsynced(&self) -> MutexGuard<'_, Unsynced> {
        self.unsynced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_back(&self, instruction: FlushInstruction) -> io::Result<()> {
        let mut unsynced = self.unsynced();
        // Asked from the kernel and not remembered: another handle may have cut the file. A real
        // sync is a system call too, so this makes neither look faster.
        let bytes = rustix::fs::fstat(&self.file)?.st_size.cast_unsigned();
        let Unsynced { ranges, window } = &mut *unsynced;
        if !ranges.is_empty() && bytes > 0 {
            let window = Window::covering(window, &self.file, bytes)?;
            let mut lines = 0;
            for range in &*ranges {
                let end = range.end().min(bytes);
                if range.start < end {
                    let part = Range::new(range.start, end - range.start);
                    window.write_back(instruction, part, bytes);
                    lines += part.line_count();
                }
            }
            self.directory.counted(|tally| {
                bump(&tally.flushed_lines, lines);
                bump(&tally.bytes_persisted, lines * LINE_BYTES);
            });
        }
        ranges.clear();
        drop(unsynced);
        self.fence();
        Ok(())
    }

    fn fence(&self) {
        store_fence();
        self.directory.counted(|tally| bump(&tally.fences, 1));
    }
}

impl File for HostFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn sync_anew(&self, bytes: u64) -> io::Result<()> {
        if matches!(self.directory.method, Method::Nothing) {
            // The kernel's pages are what counts.
            return self.usable();
        }
        super::write_anew(self, bytes)?;
        self.sync()
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.usable()?;
        let largest = largest_file();
        if bytes > largest && bytes > self.file.metadata()?.len() {
            check_file_size(bytes, largest)?;
        }
        let mut unsynced = self.unsynced();
        self.file.set_len(bytes)?;
        unsynced.ranges.retain_mut(|range| {
            range.len = range.len.min(bytes.saturating_sub(range.start));
            range.len > 0
        });
        Ok(())
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        self.usable()?;
        self.largest.store(largest_file(), Ordering::Relaxed);
        let before = self.file.metadata()?.len();
        if bytes <= before {
            return Ok(());
        }
        reserve_space(&self.file, before, bytes - before).inspect_err(|_| {
            // The part that there was room for.
            let _ = self.file.set_len(before);
        })
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < out.len() {
            match self.file.read_at(&mut out[done..], at + done as u64) {
                Ok(0) => break,
                Ok(bytes) => done += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn read_frame(&self, at: u64, frame: &mut FrameBytes) -> io::Result<usize> {
        let at = i64::try_from(at).map_err(io::Error::other)?;
        let read = |to: *mut u8, len: usize| {
            let mut done = 0;
            while done < len {
                let from = at.saturating_add(done as i64);
                // SAFETY: the kernel stores at most `len - done` bytes from `done` on, within the
                // `len` bytes at `to`.
                let read = unsafe {
                    libc::pread(self.file.as_raw_fd(), to.add(done).cast(), len - done, from)
                };
                match usize::try_from(read) {
                    Ok(0) => break,
                    Ok(bytes) => done += bytes,
                    Err(_) => {
                        let error = io::Error::last_os_error();
                        if error.kind() != io::ErrorKind::Interrupted {
                            return Err(error);
                        }
                    }
                }
            }
            Ok(done)
        };
        // SAFETY: the kernel stores, within the page.
        unsafe { frame.read_with(read) }
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_bytes(at, Bytes::from(bytes))
    }

    fn write_bytes(&self, at: u64, bytes: Bytes<'_>) -> io::Result<()> {
        self.usable()?;
        check_file_size(
            at.saturating_add(bytes.len() as u64),
            self.largest.load(Ordering::Relaxed),
        )?;
        let result = write_all(&self.file, at, bytes);
        let written = Range::new(at, bytes.len() as u64);
        if matches!(self.directory.method, Method::WriteBack(_)) {
            // Where the write failed too: any part of it may be there.
            let mut unsynced = self.unsynced();
            match unsynced.ranges.last_mut() {
                Some(last) if last.end() == at => last.len += written.len,
                _ => unsynced.ranges.push(written),
            }
        }
        self.directory.counted(|tally| {
            bump(&tally.file_bytes, written.len);
            bump(&self.unsynced_bytes, written.len);
        });
        result
    }

    fn sync(&self) -> io::Result<()> {
        self.usable()?;
        let method = self.directory.method;
        if method == Method::Nothing {
            return Ok(());
        }
        let bytes = self.unsynced_bytes.swap(0, Ordering::Relaxed);
        let result = match method {
            Method::Nothing => Ok(()),
            Method::Kernel => self.file.sync_data(),
            Method::WriteBack(instruction) => self.write_back(instruction),
            Method::Fence => {
                self.fence();
                Ok(())
            }
        };
        if result.is_err() {
            self.poisoned.store(true, Ordering::SeqCst);
            return result;
        }
        self.directory.counted(|tally| {
            bump(&tally.syncs, 1);
            if !matches!(method, Method::WriteBack(_)) {
                bump(&tally.bytes_persisted, bytes);
            }
        });
        Ok(())
    }
}

/// Writes all of `bytes`. The kernel reads them where they lie: another thread may store to them.
fn write_all(file: &fs::File, at: u64, bytes: Bytes<'_>) -> io::Result<()> {
    let mut done = 0;
    while let Some(rest) = bytes.get(done, bytes.len() - done).filter(|rest| !rest.is_empty()) {
        let place = libc::off_t::try_from(at + done as u64)
            .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        // SAFETY: so many bytes can be read from there on.
        let written =
            unsafe { libc::pwrite(file.as_raw_fd(), rest.start().cast(), rest.len(), place) };
        match usize::try_from(written) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => done += written,
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}
