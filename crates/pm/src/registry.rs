//! The registry of who has a pool open: `flock` works against other processes, a table by device
//! and inode against this one.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Mutex;

use crate::error::PoolError;
use crate::error::io_error;
use crate::holder::holder_text;
use crate::poison::fork_generation;

// A hashed set would ask the kernel for random numbers, on the way of every opening.
static OPEN: Mutex<BTreeSet<(u64, u64)>> = Mutex::new(BTreeSet::new());

/// Keeps other handles out, of this process and of others.
#[derive(Debug)]
pub(crate) struct Registered {
    device_and_inode: (u64, u64),
}

impl Registered {
    pub(crate) fn lock(path: &Path, file: &File) -> Result<Self, PoolError> {
        let meta = file.metadata().map_err(io_error(path, "look at the file"))?;
        let device_and_inode = (meta.dev(), meta.ino());
        let mut open = OPEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let in_use = |holder| PoolError::InUse { path: path.into(), holder };
        if !open.insert(device_and_inode) {
            return Err(in_use("by this process".into()));
        }
        let registered = Self { device_and_inode };
        drop(open);
        // SAFETY: the descriptor is open. The lock goes with the last descriptor of this open file.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
            let error = io::Error::last_os_error();
            return Err(if error.kind() == io::ErrorKind::WouldBlock {
                in_use(holder_text(&meta))
            } else {
                io_error(path, "lock the pool")(error)
            });
        }
        Ok(registered)
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut open = OPEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        open.remove(&self.device_and_inode);
    }
}

/// An open file that is locked until the last owner drops it: the handles of a pool that is being made
/// and what makes it share one lock, so that there is no moment without it.
#[derive(Debug)]
pub(crate) struct LockedFile {
    registered: Option<Registered>,
    forks: u32,
    file: File,
}

impl LockedFile {
    /// The file that was locked as `registered`.
    pub(crate) fn new(file: File, registered: Registered) -> Self {
        Self { registered: Some(registered), forks: fork_generation(), file }
    }
}

impl Deref for LockedFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // First the lock against other processes: a handle of this one that finds the file in the table
        // no more finds no lock, either.
        unlock(&self.file, self.forks);
        self.registered = None;
    }
}

/// Gives up the lock on a file that was opened after so many forks. In a forked child this does
/// nothing: it shares the open file, and the lock is the parent's.
pub(crate) fn unlock(file: &File, forks: u32) {
    if forks == fork_generation() {
        // SAFETY: unlocks our own open file; errors change nothing.
        unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_UN) };
    }
}
