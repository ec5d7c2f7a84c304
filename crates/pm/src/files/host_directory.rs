//! An open directory of the host, and how what is in it is made durable.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use rustix::fs::AtFlags;
use rustix::io::Errno;

use super::ownership::Ownership;
use crate::counters::Tally;
use crate::domain::Domain;
use crate::escaped::Escaped;
use crate::flush::FlushInstruction;
use crate::place::{self, Place};
use crate::poison::fork_generation;
use crate::registry::{Registered, unlock};

/// The way in which a file is made durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Method {
    Nothing,
    Kernel,
    WriteBack(FlushInstruction),
    Fence,
}

impl Method {
    pub(super) fn of(domain: Domain, modelled: bool) -> io::Result<Self> {
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

/// An open directory, as its handle and the files in it share it.
#[derive(Debug)]
pub(super) struct Directory {
    /// The path that messages name.
    pub(super) path: PathBuf,
    /// The place where it has its name; `None` if it is only gone through.
    pub(super) place: Option<Place>,
    /// The open directory, through which everything is done to names in it.
    pub(super) handle: fs::File,
    /// True if this handle created it.
    pub(super) made: bool,
    /// True if nothing in it is changed.
    pub(super) read_only: bool,
    /// The owner and mode that new files are given.
    pub(super) ownership: Option<Ownership>,
    pub(super) lock: OnceLock<Registered>,
    pub(super) method: Method,
    pub(super) poisoned: AtomicBool,
    pub(super) forks: u32,
    pub(super) counting: AtomicBool,
    pub(super) tally: Tally,
    pub(super) stamp: AtomicU32,
}

impl Directory {
    pub(super) fn new(path: PathBuf, handle: fs::File, method: Method) -> Self {
        Self {
            path,
            place: None,
            handle,
            made: false,
            read_only: false,
            ownership: None,
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
    pub(super) fn is_ours(&self) -> io::Result<()> {
        if self.forks != fork_generation() {
            let why = "the files belong to the parent process; close them before the fork";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        if self.read_only {
            return Err(Errno::ROFS.into());
        }
        Ok(())
    }

    pub(super) fn counted(&self, count: impl FnOnce(&Tally)) {
        if self.counting.load(Ordering::Relaxed) {
            count(&self.tally);
        }
    }

    /// An error about `name` in the directory, with what the kernel does not tell.
    #[cold]
    pub(super) fn explained(&self, name: &str, error: Errno) -> io::Error {
        let why = match error {
            Errno::NOENT if self.handle.metadata().is_ok_and(|meta| meta.nlink() == 0) => {
                format!("{}: was removed while it was open", Escaped(self.path.display()))
            }
            Errno::LOOP => format!("`{}` is a link, not a regular file", Escaped(name)),
            Errno::ACCESS => {
                let flags = AtFlags::SYMLINK_NOFOLLOW;
                let Ok(stat) = rustix::fs::statat(&self.handle, name, flags) else {
                    return error.into();
                };
                let why = place::no_right(stat.st_uid, stat.st_mode & 0o7777);
                format!("{} {why}", Escaped(self.path.join(name).display()))
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
pub(super) fn open_directory(place: &Place) -> io::Result<fs::File> {
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

/// Refuses after a sync that failed.
pub(super) fn check_poison(poisoned: &AtomicBool) -> io::Result<()> {
    if poisoned.load(Ordering::Relaxed) {
        return Err(super::failed_sync());
    }
    Ok(())
}
