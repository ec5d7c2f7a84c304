//! A directory of the host.
//!
//! Invariants:
//! - Files promise what their pool promises: a sync does what the domain asks for, no
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
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::fs::{AtFlags, OFlags};
use rustix::io::Errno;

use super::host_directory::{Directory, Method, check_poison, open_directory};
use super::host_file::HostFile;
use super::ownership::Ownership;
use super::{Files, check_name};
use crate::counters::{Counters, bump};
use crate::domain::Domain;
use crate::error::PoolError;
use crate::flush::store_fence;
use crate::place::{self, Named, Place, Whereabouts, parent_of};
use crate::registry::Registered;

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
        // A link may lead to it, if it was prepared elsewhere.
        let place = if made { place } else { place.resolve_links()? };
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
        let ownership = Ownership::of(&handle).inspect_err(take_back)?;
        let path = place.path().to_owned();
        let mut new = Directory::new(path, handle, method);
        (new.place, new.made, new.ownership) = (Some(place), made, ownership);
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
        let ownership = Ownership::of(&handle)?;
        let method = Method::of(domain, modelled)?;
        let mut new = Directory::new(place.path().to_owned(), handle, method);
        (new.place, new.ownership) = (Some(place), ownership);
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

    /// Keeps everybody else out, of this process and of others, whatever path leads them here,
    /// until the last clone and the last file are dropped.
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

    /// Removes the files, and the directory if [`HostFiles::create`] made it, to take a creation
    /// back that failed half-way. Something else that has got its name stays.
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

    /// Removes the files that a creation has left which was cut off: the one that says whose they
    /// are last. The directory stays, empty.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn clear(&self) -> io::Result<()> {
        place::remove_files(&self.0.handle)?;
        self.0.handle.sync_all()
    }

    /// The directory by its name; unlike a lock this keeps no other process out. `None` if it is
    /// only gone through.
    ///
    /// # Errors
    /// It has lost its name, or the kernel refuses.
    pub fn named(&self) -> io::Result<Option<Named>> {
        let place = self.0.place.as_ref();
        let named = |place| Ok(Named::of(place, &self.0.handle)?.prepared(!self.0.made));
        place.map(named).transpose()
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
        HostFile::new(self.0.clone(), file)
    }

    /// Explains the failure of a call about `name`.
    fn map_error<T>(&self, name: &str, done: io::Result<T>) -> io::Result<T> {
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
        let file = self.map_error(name, place::create_at(handle, OsStr::new(name)))?;
        if let Some(ownership) = self.0.ownership {
            let given = ownership.give(&file);
            given.inspect_err(|_| drop(place::remove_at(handle, OsStr::new(name), &file)))?;
        }
        Ok(self.host_file(file))
    }

    fn give_access(&self, file: &HostFile) -> io::Result<()> {
        self.0.ownership.map_or(Ok(()), |ownership| ownership.give(file.host()))
    }

    fn open(&self, name: &str) -> io::Result<HostFile> {
        check_name(name)?;
        let flags = if self.0.read_only { OFlags::RDONLY } else { OFlags::RDWR };
        let opened = place::open_at(&self.0.handle, OsStr::new(name), flags);
        let file = self.map_error(name, opened)?;
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
        self.map_error(".", listed)?;
        names.sort_unstable();
        Ok(names)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.is_ours()?;
        check_name(name)?;
        let removed = rustix::fs::unlinkat(&self.0.handle, name, AtFlags::empty());
        self.map_error(name, removed.map_err(io::Error::from))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.is_ours()?;
        check_name(from)?;
        check_name(to)?;
        let handle = &self.0.handle;
        let renamed = rustix::fs::renameat(handle, from, handle, to);
        self.map_error(from, renamed.map_err(io::Error::from))
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.is_ours()?;
        check_name(from)?;
        check_name(to)?;
        let renamed = place::rename_new_at(&self.0.handle, OsStr::new(from), OsStr::new(to));
        self.map_error(from, renamed)
    }

    fn leads_to(&self, name: &str, file: &HostFile) -> io::Result<bool> {
        place::leads_to(&self.0.handle, OsStr::new(name), file.host())
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
