//! Locks on ranges of bytes of a file, and closing it without taking the locks of others away.
//!
//! The locks belong to the open file (`F_OFD_SETLK`): they go when its last descriptor does, as when the
//! process dies, they keep out other opens of the same process, and closing another descriptor of the file
//! does not touch them. They conflict with locks that belong to processes (`F_SETLK`).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::offset::Range;
use crate::poison::fork_generation;

/// The kinds of locks on a range of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lock {
    /// Several may have it.
    Shared,
    /// One may have it, and nobody the other.
    Exclusive,
}

impl Lock {
    fn kind(self) -> libc::c_int {
        match self {
            Self::Shared => libc::F_RDLCK,
            Self::Exclusive => libc::F_WRLCK,
        }
    }
}

fn call(file: &File, command: libc::c_int, kind: libc::c_int, range: Range) -> io::Result<i16> {
    // SAFETY: a plain struct; what is not filled in below is zero, as the kernel wants it.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as i16;
    lock.l_whence = libc::SEEK_SET as i16;
    let out_of_range = |_| io::Error::from(io::ErrorKind::InvalidInput);
    lock.l_start = libc::off_t::try_from(range.start).map_err(out_of_range)?;
    lock.l_len = libc::off_t::try_from(range.len).map_err(out_of_range)?;
    loop {
        // SAFETY: the descriptor is open, the struct is ours.
        if unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut lock) } == 0 {
            return Ok(lock.l_type);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

pub(super) fn try_lock(file: &File, range: Range, lock: Lock) -> io::Result<bool> {
    match call(file, libc::F_OFD_SETLK, lock.kind(), range) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

pub(super) fn wait(file: &File, range: Range, lock: Lock) -> io::Result<()> {
    call(file, libc::F_OFD_SETLKW, lock.kind(), range).map(|_| ())
}

pub(super) fn unlock(file: &File, range: Range) -> io::Result<()> {
    call(file, libc::F_OFD_SETLK, libc::F_UNLCK, range).map(|_| ())
}

pub(super) fn is_free(file: &File, range: Range, lock: Lock) -> io::Result<bool> {
    let found = call(file, libc::F_OFD_GETLK, lock.kind(), range)?;
    Ok(found == libc::F_UNLCK as i16)
}

/// A file whose closing would take locks of this process away.
#[derive(Debug)]
struct Kept {
    file: File,
    foreign: Range,
    /// Its own locks could not be given up.
    owns: bool,
    forks: u32,
}

impl Kept {
    /// Gives up its own locks, which it does not need any more, and would keep on if it stayed open, here or in a child
    /// that lives on.
    fn give_up(&mut self) {
        self.owns = unlock(&self.file, Range::new(0, i64::MAX.cast_unsigned())).is_err();
    }

    /// Returns whether nobody else has locks on the foreign range: whoever has all of it has it until the file is closed.
    fn is_alone(&self) -> bool {
        // The lock of a file that a forked child has from its parent would stay with the parent's.
        let is_own = self.forks == fork_generation();
        is_own
            && !self.owns
            && matches!(try_lock(&self.file, self.foreign, Lock::Exclusive), Ok(true))
    }
}

static KEPT: Mutex<Vec<Kept>> = Mutex::new(Vec::new());
/// One of those has locks of its own: others would wait for it for ever.
static OWNS: AtomicBool = AtomicBool::new(false);

fn kept() -> MutexGuard<'static, Vec<Kept>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives up locks that the kernel did not let go when their file was no longer needed. Whoever locks or opens a file of
/// this process tries.
pub(super) fn give_up_kept() {
    if OWNS.load(Ordering::Relaxed) {
        close_kept(&mut kept());
    }
}

/// Closes those that take no locks away.
fn close_kept(all: &mut Vec<Kept>) {
    all.iter_mut().filter(|one| one.owns).for_each(Kept::give_up);
    all.retain(|one| !one.is_alone());
    OWNS.store(all.iter().any(|one| one.owns), Ordering::Relaxed);
}

/// An open file that is closed when nobody in this process can have locks of processes on a range.
#[derive(Debug)]
pub(super) struct Held {
    file: Option<File>,
    foreign: Option<Range>,
    forks: u32,
}

impl Held {
    pub(super) fn new(file: File, foreign: Option<Range>) -> Self {
        give_up_kept();
        Self { file: Some(file), foreign, forks: fork_generation() }
    }

    pub(super) fn get(&self) -> &File {
        self.file.as_ref().expect("it is there until it is dropped")
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some(file) = self.file.take() else { return };
        // A forked child shares its locks with the parent, and has none of its own to lose.
        if self.forks != fork_generation() {
            return;
        }
        let Some(foreign) = self.foreign else {
            // One that the kernel does not let go goes with the file, unless a child has that.
            let _ = unlock(&file, Range::new(0, i64::MAX.cast_unsigned()));
            return;
        };
        let mut kept = kept();
        kept.push(Kept { file, foreign, owns: true, forks: self.forks });
        close_kept(&mut kept);
    }
}
