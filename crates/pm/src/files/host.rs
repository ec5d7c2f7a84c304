//! A directory of the host.
//!
//! Invariants:
//! - Files promise what the pool beside them promises: a sync does what the domain asks for, no
//!   less and no more.
//! - After a failed sync a handle acknowledges nothing: the kernel may have dropped the pages that
//!   it could not write, and a second sync would succeed over the loss.
//! - A forked child changes nothing: what it inherits is the parent's, which goes on writing.
//! - No byte beyond the end of the file is touched through a mapping.
//!
//! What a sync does:
//!
//! 1. `process`: nothing. The kernel keeps the pages when the process is killed.
//! 2. `disk`, and `adr` and `eadr` on real persistent memory: fdatasync. A DAX file system writes
//!    the dirty lines back itself.
//! 3. modelled `adr`: fdatasync does nothing on tmpfs, so the handle remembers which ranges were
//!    written, maps the file and writes their lines back, then fences once: what a file system for
//!    persistent memory would do.
//! 4. modelled `eadr`: one fence.
//!
//! Reads and writes are always system calls: the traditional engines of P1 use the filesystem
//! interface.

use std::ffi::CString;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Read, Seek};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{File, Files, check_name};
use crate::counters::{Counters, Tally, bump};
use crate::domain::Domain;
use crate::flush::{FlushInstruction, store_fence};
use crate::offset::{LINE_BYTES, Range};
use crate::poison::fork_generation;
use crate::pool::file::reserve_space;

/// What makes a file durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Method {
    Nothing,
    Kernel,
    WriteBack(FlushInstruction),
    Fence,
}

impl Method {
    fn of(domain: Domain, modelled: bool) -> io::Result<Self> {
        Ok(match (domain, modelled) {
            (Domain::Process, _) => Self::Nothing,
            (Domain::Disk, _) | (Domain::Adr | Domain::Eadr, false) => Self::Kernel,
            (Domain::Adr, true) => Self::WriteBack(
                FlushInstruction::detect()
                    .map_err(|why| io::Error::new(io::ErrorKind::Unsupported, why))?,
            ),
            (Domain::Eadr, true) => Self::Fence,
        })
    }
}

#[derive(Debug)]
struct Directory {
    path: PathBuf,
    /// Kept open to sync it.
    handle: fs::File,
    method: Method,
    poisoned: AtomicBool,
    forks: u32,
    counting: AtomicBool,
    tally: Tally,
}

impl Directory {
    /// Refuses to change in a forked child what belongs to the parent.
    fn is_ours(&self) -> io::Result<()> {
        if self.forks == fork_generation() {
            return Ok(());
        }
        let why = "the files belong to the parent process; close them before the fork";
        Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
    }

    fn counted(&self, count: impl FnOnce(&Tally)) {
        if self.counting.load(Ordering::Relaxed) {
            count(&self.tally);
        }
    }
}

/// A directory of the host's file system. Clones share it.
#[derive(Clone, Debug)]
pub struct HostFiles(Arc<Directory>);

impl HostFiles {
    /// Removes the directory at `path` with everything in it, to take a creation back that failed
    /// half-way.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn remove(path: &Path) -> io::Result<()> {
        fs::remove_dir_all(path)
    }

    /// Creates the directory, for its owner only, or takes an empty one. `modelled` says that the
    /// medium does not really give `domain`.
    ///
    /// # Errors
    /// [`io::ErrorKind::DirectoryNotEmpty`]; what the kernel says; or
    /// [`io::ErrorKind::Unsupported`] where `adr` is to be modelled on a processor that cannot
    /// write a line back.
    pub fn create(path: &Path, domain: Domain, modelled: bool) -> io::Result<Self> {
        match DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => Self::name_durably(path, domain, modelled)
                .inspect_err(|_| drop(fs::remove_dir(path))),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                match fs::read_dir(path)?.next().transpose()? {
                    Some(_) => Err(io::ErrorKind::DirectoryNotEmpty.into()),
                    None => Self::name_durably(path, domain, modelled),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Opens the directory, whose own name must survive too.
    fn name_durably(path: &Path, domain: Domain, modelled: bool) -> io::Result<Self> {
        let files = Self::open(path, domain, modelled)?;
        if files.0.method == Method::Kernel {
            fs::File::open(parent_of(path))?.sync_all()?;
        }
        Ok(files)
    }

    /// Opens a directory that is there.
    ///
    /// # Errors
    /// As [`Self::create`], or there is no such directory.
    pub fn open(path: &Path, domain: Domain, modelled: bool) -> io::Result<Self> {
        let handle = OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY).open(path)?;
        Ok(Self(Arc::new(Directory {
            path: path.into(),
            handle,
            method: Method::of(domain, modelled)?,
            poisoned: AtomicBool::new(false),
            forks: fork_generation(),
            counting: AtomicBool::new(false),
            tally: Tally::default(),
        })))
    }

    /// The directory that `path` lies in, and the path's last part in it. A sync there is one of the
    /// kernel's, whatever the medium.
    ///
    /// # Errors
    /// The path ends with no name, or with one that is not UTF-8; or there is no such directory.
    pub fn around(path: &Path) -> io::Result<(Self, String)> {
        let no_name = || io::Error::new(io::ErrorKind::InvalidInput, "is no name for a file");
        let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(no_name)?;
        Ok((Self::open(parent_of(path), Domain::Disk, false)?, name.into()))
    }

    /// Bytes that the files take on their medium.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn stored_bytes(&self) -> io::Result<u64> {
        let mut bytes = 0;
        for entry in fs::read_dir(&self.0.path)? {
            // A file that is removed meanwhile takes nothing.
            match entry?.metadata() {
                Ok(meta) if meta.is_file() => bytes += meta.blocks() * 512,
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(bytes)
    }

    fn place(&self, name: &str) -> io::Result<PathBuf> {
        check_name(name)?;
        Ok(self.0.path.join(name))
    }

    fn file(&self, file: fs::File) -> HostFile {
        HostFile {
            directory: self.0.clone(),
            file,
            poisoned: AtomicBool::new(false),
            unsynced_bytes: AtomicU64::new(0),
            unsynced: Mutex::default(),
        }
    }
}

impl Files for HostFiles {
    type File = HostFile;

    fn create(&self, name: &str) -> io::Result<HostFile> {
        self.0.is_ours()?;
        let path = self.place(name)?;
        let mut options = OpenOptions::new();
        // Nothing more is asked that could fail and leave the file behind.
        Ok(self.file(options.read(true).write(true).create_new(true).mode(0o600).open(path)?))
    }

    fn open(&self, name: &str) -> io::Result<HostFile> {
        let path = self.place(name)?;
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        Ok(self.file(file))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.0.path)? {
            let entry = entry?;
            // Anything else was not made by us.
            if entry.file_type()?.is_file()
                && let Ok(name) = entry.file_name().into_string()
            {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.is_ours()?;
        fs::remove_file(self.place(name)?)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.is_ours()?;
        fs::rename(self.place(from)?, self.place(to)?)
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.is_ours()?;
        let (from, to) = (self.place(from)?, self.place(to)?);
        let (old, new) =
            (CString::new(from.as_os_str().as_bytes())?, CString::new(to.as_os_str().as_bytes())?);
        let (here, keep) = (libc::AT_FDCWD, libc::RENAME_NOREPLACE);
        // SAFETY: both names end with a zero byte and live through the call.
        let done = unsafe { libc::renameat2(here, old.as_ptr(), here, new.as_ptr(), keep) };
        if done == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            // A file system that cannot, such as NFS.
            Some(libc::EINVAL | libc::ENOSYS) => rename_in_two(&from, &to),
            _ => Err(error),
        }
    }

    fn sync_directory(&self) -> io::Result<()> {
        let directory = &*self.0;
        directory.is_ours()?;
        check_poison(&directory.poisoned)?;
        match directory.method {
            Method::Nothing => return Ok(()),
            Method::Kernel => directory
                .handle
                .sync_all()
                .inspect_err(|_| directory.poisoned.store(true, Ordering::SeqCst))?,
            Method::WriteBack(_) | Method::Fence => {
                // The kernel's own stores: there is nothing that we could write back.
                store_fence();
                directory.counted(|tally| bump(&tally.fences, 1));
            }
        }
        directory.counted(|tally| bump(&tally.syncs, 1));
        Ok(())
    }

    fn sync_all(&self) -> io::Result<()> {
        for name in self.list()? {
            fs::File::open(self.place(&name)?)?.sync_all()?;
        }
        self.0.handle.sync_all()
    }

    fn counters(&self) -> Counters {
        self.0.tally.snapshot()
    }

    fn count(&self, on: bool) {
        self.0.counting.store(on, Ordering::Relaxed);
    }
}

fn parent_of(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// [`Files::rename_new`] in two steps, each of which fails where there is something called `to`. A
/// crash in between leaves a file with both names, or an empty directory `to`.
fn rename_in_two(from: &Path, to: &Path) -> io::Result<()> {
    if fs::symlink_metadata(from)?.is_dir() {
        fs::create_dir(to)?;
        return fs::rename(from, to).inspect_err(|_| drop(fs::remove_dir(to)));
    }
    fs::hard_link(from, to)?;
    fs::remove_file(from).inspect_err(|_| drop(fs::remove_file(to)))
}

/// A file that is only read, from front to back.
#[derive(Debug)]
pub struct Source {
    file: fs::File,
    bytes: u64,
}

impl Source {
    /// Opens a regular file.
    ///
    /// # Errors
    /// There is none, it is something else, or the kernel refuses.
    pub fn open(path: &Path) -> io::Result<Self> {
        // Not only afterwards: opening a FIFO would wait for its other end.
        let regular = |meta: &fs::Metadata| {
            let error = || io::Error::new(io::ErrorKind::InvalidInput, "is not a regular file");
            if meta.is_file() { Ok(()) } else { Err(error()) }
        };
        regular(&fs::metadata(path)?)?;
        let file = fs::File::open(path)?;
        let meta = file.metadata()?;
        regular(&meta)?;
        Ok(Self { file, bytes: meta.len() })
    }

    /// Bytes in the file when it was opened.
    pub fn total_bytes(&self) -> u64 {
        self.bytes
    }

    /// Goes back to the front.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn rewind(&mut self) -> io::Result<()> {
        self.file.rewind()
    }
}

impl Read for Source {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.file.read(out)
    }
}

/// An open file of [`HostFiles`].
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
}

/// What modelled `adr` has to write back.
#[derive(Default, Debug)]
struct Unsynced {
    /// Written since the last sync, in order; neighbours are merged.
    ranges: Vec<Range>,
    window: Option<Window>,
}

impl HostFile {
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
        // sync is a system call too, so this flatters nobody.
        let bytes = self.file.metadata()?.len();
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

    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.usable()?;
        let result = self.file.write_all_at(bytes, at);
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

fn check_poison(poisoned: &AtomicBool) -> io::Result<()> {
    if poisoned.load(Ordering::Relaxed) {
        return Err(super::poisoned());
    }
    Ok(())
}

/// A shared mapping of a file, to write its lines back. It may be longer than the file; nothing
/// beyond the file's end is touched.
#[derive(Debug)]
struct Window {
    base: *mut u8,
    len: usize,
}

// SAFETY: the mapping belongs to no thread; nothing is read or written through it.
unsafe impl Send for Window {}

impl Window {
    /// The window in `slot`, mapped anew where it does not reach over `bytes` bytes.
    fn covering<'a>(
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
    fn write_back(&self, instruction: FlushInstruction, part: Range, bytes: u64) {
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

// An interpreter opens no directories.
#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn what_has_the_name_stays_when_a_rename_must_not_replace_it() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let (files, name) = HostFiles::around(&at("new")).unwrap();
        assert_eq!(name, "new");
        let by_name =
            |from: &str, to: &str| files.rename_new(from, to).map_err(|error| error.kind());
        let in_two =
            |from: &str, to: &str| rename_in_two(&at(from), &at(to)).map_err(|error| error.kind());
        for rename in [&by_name as &dyn Fn(&str, &str) -> Result<(), io::ErrorKind>, &in_two] {
            fs::write(at("file"), "file").unwrap();
            fs::create_dir(at("directory")).unwrap();
            fs::write(at("directory/inside"), "inside").unwrap();
            fs::write(at("taken"), "taken").unwrap();
            for from in ["file", "directory"] {
                assert_eq!(rename(from, "taken"), Err(io::ErrorKind::AlreadyExists), "{from}");
                assert_eq!(fs::read(at("taken")).unwrap(), b"taken");
                assert_eq!(rename("missing", "new"), Err(io::ErrorKind::NotFound));
                rename(from, "new").unwrap();
                assert!(!at(from).exists());
                fs::rename(at("new"), at(&format!("{from}-moved"))).unwrap();
            }
            assert_eq!(fs::read(at("file-moved")).unwrap(), b"file");
            assert_eq!(fs::read(at("directory-moved/inside")).unwrap(), b"inside");
            fs::remove_file(at("file-moved")).unwrap();
            fs::remove_dir_all(at("directory-moved")).unwrap();
        }
        for wrong in [Path::new("/"), Path::new(""), Path::new("a/..")] {
            assert!(HostFiles::around(wrong).is_err(), "{}", wrong.display());
        }
    }

    #[test]
    fn a_source_is_a_regular_file() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        fs::write(&path, "contents").unwrap();
        let mut source = Source::open(&path).unwrap();
        assert_eq!(source.total_bytes(), 8);
        for _ in 0..2 {
            let mut read = String::new();
            source.read_to_string(&mut read).unwrap();
            assert_eq!(read, "contents");
            source.rewind().unwrap();
        }
        for wrong in [place.path(), Path::new("/dev/zero"), &place.path().join("missing")] {
            assert!(Source::open(wrong).is_err(), "{}", wrong.display());
        }
    }
}
