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

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::fs::{AtFlags, OFlags};
use rustix::io::Errno;

use super::manner::Manner;
use super::window::Window;
use super::{File, Files, check_name};
use crate::bytes::Bytes;
use crate::counters::{Counters, Tally, bump};
use crate::domain::Domain;
use crate::error::PoolError;
use crate::flush::{FlushInstruction, store_fence};
use crate::limits::{check_file_size, largest_file};
use crate::offset::{LINE_BYTES, Range};
use crate::place::{self, Named, Place, Whereabouts, parent_of};
use crate::poison::fork_generation;
use crate::pool::file::reserve_space;
use crate::pool::registry::{Registered, unlock};

/// The way in which a file is made durable.
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
    /// The path that messages name.
    path: PathBuf,
    /// The place where it has its name; `None` if it is only gone through.
    place: Option<Place>,
    /// The open directory, through which everything is done to names in it.
    handle: fs::File,
    /// True if this handle created it.
    made: bool,
    /// True if nothing in it is changed.
    read_only: bool,
    /// The owner and mode that new files are given.
    manner: Option<Manner>,
    lock: OnceLock<Registered>,
    method: Method,
    poisoned: AtomicBool,
    forks: u32,
    counting: AtomicBool,
    tally: Tally,
    stamp: AtomicU32,
}

impl Directory {
    fn new(path: PathBuf, handle: fs::File, method: Method) -> Self {
        Self {
            path,
            place: None,
            handle,
            made: false,
            read_only: false,
            manner: None,
            lock: OnceLock::new(),
            method,
            poisoned: AtomicBool::new(false),
            forks: fork_generation(),
            counting: AtomicBool::new(false),
            tally: Tally::default(),
            stamp: AtomicU32::new(0),
        }
    }

    /// Refuses to change in a forked child what belongs to the parent.
    fn is_ours(&self) -> io::Result<()> {
        if self.forks != fork_generation() {
            let why = "the files belong to the parent process; close them before the fork";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        if self.read_only {
            return Err(Errno::ROFS.into());
        }
        Ok(())
    }

    fn counted(&self, count: impl FnOnce(&Tally)) {
        if self.counting.load(Ordering::Relaxed) {
            count(&self.tally);
        }
    }

    /// An error about `name` in the directory, with what the kernel does not tell.
    #[cold]
    fn explained(&self, name: &str, error: Errno) -> io::Error {
        let why = match error {
            Errno::NOENT if self.handle.metadata().is_ok_and(|meta| meta.nlink() == 0) => {
                format!("{}: was removed while it was open", self.path.display())
            }
            Errno::LOOP => format!("`{name}` is a link, not a regular file"),
            Errno::ACCESS => {
                let flags = AtFlags::SYMLINK_NOFOLLOW;
                let Ok(stat) = rustix::fs::statat(&self.handle, name, flags) else {
                    return error.into();
                };
                let why = place::no_right(stat.st_uid, stat.st_mode & 0o7777);
                format!("{} {why}", self.path.join(name).display())
            }
            other => return other.into(),
        };
        let kind = match error {
            Errno::LOOP => io::ErrorKind::InvalidInput,
            other => io::Error::from(other).kind(),
        };
        io::Error::new(kind, why)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if self.lock.get().is_some() {
            unlock(&self.handle, self.forks);
        }
        // Before the directory is closed: if it was removed meanwhile, another one may get its inode
        // then.
        drop(self.lock.take());
    }
}

/// Opens the directory at a place; an error says what the kernel does not.
fn open_directory(place: &Place) -> io::Result<fs::File> {
    place.open_directory().map_err(|error| {
        let why = match (error.kind(), place.kind()) {
            (io::ErrorKind::NotADirectory, Ok(kind)) => {
                format!("is {}, not a directory with the files of a database", place::what(kind))
            }
            (io::ErrorKind::PermissionDenied, Ok(_)) => match place.owner() {
                Ok((owner, mode)) => place::no_right(owner, mode),
                Err(_) => return error,
            },
            _ => return error,
        };
        io::Error::new(error.kind(), why)
    })
}

/// A directory of the host's file system. Clones share it.
#[derive(Clone, Debug)]
pub struct HostFiles(Arc<Directory>);

impl HostFiles {
    /// Says whose files they are, before any of them is read or made: see [`Files::stamp`].
    pub fn set_stamp(&self, stamp: u32) {
        self.0.stamp.store(stamp, Ordering::Relaxed);
    }

    /// Creates the directory, for its owner only, or takes an empty one. `modelled` says that the
    /// medium does not really give `domain`.
    ///
    /// # Errors
    /// [`io::ErrorKind::DirectoryNotEmpty`]; what the kernel says; or
    /// [`io::ErrorKind::Unsupported`] where `adr` is to be modelled on a processor that cannot
    /// write a line back.
    pub fn create(path: &Path, domain: Domain, modelled: bool) -> io::Result<Self> {
        Self::create_at(Place::of(path)?, domain, modelled)
    }

    /// As [`HostFiles::create`], at a place.
    ///
    /// # Errors
    /// As [`HostFiles::create`].
    pub fn create_at(place: Place, domain: Domain, modelled: bool) -> io::Result<Self> {
        let made = match place.create_directory() {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(error),
        };
        // A link may lead to it, if somebody has prepared it elsewhere.
        let place = if made { place } else { place.behind_links()? };
        let handle = open_directory(&place).inspect_err(|_| {
            if made {
                let _ = place.remove_empty_directory();
            }
        })?;
        let take_back = |_: &io::Error| {
            if made {
                let _ = place.remove_directory(&handle);
            }
        };
        if !place::is_empty(&handle).inspect_err(take_back)? {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        let method = Method::of(domain, modelled).inspect_err(take_back)?;
        // Its own name must survive, too.
        if method == Method::Kernel {
            place.sync_directory().inspect_err(take_back)?;
        }
        let manner = Manner::of(&handle).inspect_err(take_back)?;
        let path = place.path().to_owned();
        let mut new = Directory::new(path, handle, method);
        (new.place, new.made, new.manner) = (Some(place), made, manner);
        Ok(Self(Arc::new(new)))
    }

    /// Opens a directory that is there.
    ///
    /// # Errors
    /// As [`Self::create`], or there is no such directory.
    pub fn open(path: &Path, domain: Domain, modelled: bool) -> io::Result<Self> {
        Self::open_at(Place::find(path)?, domain, modelled)
    }

    /// As [`HostFiles::open`], at a place.
    ///
    /// # Errors
    /// As [`HostFiles::open`].
    pub fn open_at(place: Place, domain: Domain, modelled: bool) -> io::Result<Self> {
        let handle = open_directory(&place)?;
        let manner = Manner::of(&handle)?;
        let method = Method::of(domain, modelled)?;
        let mut new = Directory::new(place.path().to_owned(), handle, method);
        (new.place, new.manner) = (Some(place), manner);
        Ok(Self(Arc::new(new)))
    }

    /// Opens a directory that is there, to read the files in it.
    ///
    /// # Errors
    /// There is no such directory, or the kernel refuses.
    pub fn look_at(place: Place) -> io::Result<Self> {
        let handle = open_directory(&place)?;
        let mut new = Directory::new(place.path().to_owned(), handle, Method::Nothing);
        (new.place, new.read_only) = (Some(place), true);
        Ok(Self(Arc::new(new)))
    }

    /// The directory that `path` lies in. A sync there is one of the kernel's, whatever the medium.
    ///
    /// # Errors
    /// There is no such directory.
    pub(crate) fn directory_of(path: &Path) -> io::Result<Self> {
        let parent = parent_of(path);
        let handle = Place::of(&parent.join("."))?.open_directory()?;
        Ok(Self(Arc::new(Directory::new(parent.to_owned(), handle, Method::Kernel))))
    }

    /// Keeps everybody else out, of this process and of others, whatever path leads them here, until
    /// the last clone and the last file are dropped.
    ///
    /// # Errors
    /// [`PoolError::InUse`]: files belong to one database that is open. The kernel refuses.
    pub fn lock(&self) -> Result<(), PoolError> {
        let directory = &*self.0;
        let registered = Registered::lock(&directory.path, &directory.handle)?;
        let again = directory.lock.set(registered);
        assert!(again.is_ok(), "locked once");
        Ok(())
    }

    /// Removes the files, and the directory if [`HostFiles::create`] made it, to take a creation back
    /// that failed half-way. Something else that has got its name stays.
    ///
    /// # Errors
    /// The kernel refuses, or the directory has lost its name.
    pub fn discard(&self) -> io::Result<()> {
        self.0.is_ours()?;
        match &self.0.place {
            Some(place) if self.0.made => place.remove_directory(&self.0.handle),
            _ => place::remove_files(&self.0.handle),
        }
    }

    /// The directory by its name; unlike a lock this keeps nobody out. `None` if it is only gone
    /// through.
    ///
    /// # Errors
    /// It has lost its name, or the kernel refuses.
    pub fn named(&self) -> io::Result<Option<Named>> {
        let place = self.0.place.as_ref();
        place.map(|place| Named::of(place, &self.0.handle)).transpose()
    }

    /// Returns where the directory is by now. It says nothing of the path that led to it.
    pub fn whereabouts(&self) -> Whereabouts {
        let place = self.0.place.as_ref();
        place.map_or(Whereabouts::There, |place| place.whereabouts_here(&self.0.handle))
    }

    /// The directory's path.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Bytes that the files take on their medium.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn stored_bytes(&self) -> io::Result<u64> {
        let mut bytes = 0;
        place::for_each_file(&self.0.handle, |name| {
            // A file that is removed meanwhile takes nothing.
            match rustix::fs::statat(&self.0.handle, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => bytes += u64::try_from(stat.st_blocks).unwrap_or(0) * 512,
                Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
            Ok(())
        })?;
        Ok(bytes)
    }

    /// An open file of the directory.
    pub(crate) fn host_file(&self, file: fs::File) -> HostFile {
        HostFile {
            directory: self.0.clone(),
            file,
            poisoned: AtomicBool::new(false),
            unsynced_bytes: AtomicU64::new(0),
            unsynced: Mutex::default(),
            largest: AtomicU64::new(largest_file()),
        }
    }

    /// Explains the failure of a call about `name`.
    fn told<T>(&self, name: &str, done: io::Result<T>) -> io::Result<T> {
        done.map_err(|error| match Errno::from_io_error(&error) {
            Some(errno) => self.0.explained(name, errno),
            None => error,
        })
    }
}

impl Files for HostFiles {
    type File = HostFile;

    fn create(&self, name: &str) -> io::Result<HostFile> {
        self.0.is_ours()?;
        check_name(name)?;
        let handle = &self.0.handle;
        let file = self.told(name, place::create_at(handle, OsStr::new(name)))?;
        if let Some(manner) = self.0.manner {
            let given = manner.give(&file);
            given.inspect_err(|_| drop(place::remove_at(handle, OsStr::new(name), &file)))?;
        }
        Ok(self.host_file(file))
    }

    fn open(&self, name: &str) -> io::Result<HostFile> {
        check_name(name)?;
        let flags = if self.0.read_only { OFlags::RDONLY } else { OFlags::RDWR };
        let opened = place::open_at(&self.0.handle, OsStr::new(name), flags);
        let file = self.told(name, opened)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        Ok(self.host_file(file))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        let listed = place::for_each_file(&self.0.handle, |name| {
            names.extend(name.to_str().map(str::to_owned));
            Ok(())
        });
        self.told(".", listed)?;
        names.sort_unstable();
        Ok(names)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.is_ours()?;
        check_name(name)?;
        let removed = rustix::fs::unlinkat(&self.0.handle, name, AtFlags::empty());
        self.told(name, removed.map_err(io::Error::from))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.is_ours()?;
        check_name(from)?;
        check_name(to)?;
        let handle = &self.0.handle;
        let renamed = rustix::fs::renameat(handle, from, handle, to);
        self.told(from, renamed.map_err(io::Error::from))
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.is_ours()?;
        check_name(from)?;
        check_name(to)?;
        let renamed = place::rename_new_at(&self.0.handle, OsStr::new(from), OsStr::new(to));
        self.told(from, renamed)
    }

    fn leads_to(&self, name: &str, file: &HostFile) -> io::Result<bool> {
        place::leads_to(&self.0.handle, OsStr::new(name), &file.file)
    }

    fn stamp(&self) -> u32 {
        self.0.stamp.load(Ordering::Relaxed)
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
            place::open_at(&self.0.handle, OsStr::new(&name), OFlags::RDONLY)?.sync_all()?;
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
        // sync is a system call too, so this flatters nobody.
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

fn check_poison(poisoned: &AtomicBool) -> io::Result<()> {
    if poisoned.load(Ordering::Relaxed) {
        return Err(super::poisoned());
    }
    Ok(())
}

// An interpreter opens no directories.
#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::AroundPath;

    #[test]
    fn what_has_the_name_stays_when_a_rename_must_not_replace_it() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let files = HostFiles::directory_of(&at("new")).unwrap();
        let by_name =
            |from: &str, to: &str| files.rename_new(from, to).map_err(|error| error.kind());
        let in_two = |from: &str, to: &str| {
            place::rename_in_two(&files.0.handle, OsStr::new(from), OsStr::new(to))
                .map_err(|error| error.kind())
        };
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
        for wrong in ["/", "", "a/..", "a/", "/tmp/"].map(Path::new) {
            assert!(AroundPath::of(wrong).is_err(), "{}", wrong.display());
        }
    }
}
