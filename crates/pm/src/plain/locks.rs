//! Locks on ranges of bytes of a file, and closing it without taking the locks of others away.
//!
//! The locks belong to the open file (`F_OFD_SETLK`): they go when its last descriptor does, as when the
//! process dies and no forked child of it has a copy, they keep out other opens of the same process, and
//! closing another descriptor of the file does not touch them. They conflict with locks that belong to processes (`F_SETLK`).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use crate::forks::{forked, hold_over_forks};
use crate::offset::Range;
use crate::poison::fork_generation;

/// The kinds of locks on a range of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lock {
    /// Several may have it.
    Shared,
    /// One may have it, and none the other.
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

/// Returns whether any open file has a lock on a byte of the range. It needs no right to write, and this process should
/// have no locks of its own (`F_SETLK`) on the file.
///
/// # Errors
/// The file cannot be read.
pub fn is_locked(path: &Path, range: Range) -> io::Result<bool> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_CLOEXEC | libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)?;
    Ok(!is_free(&file, range, Lock::Exclusive)?)
}

/// A file whose closing would take locks of this process away.
#[derive(Debug)]
struct Kept {
    file: File,
    foreign: Range,
    /// Its own locks could not be given up.
    owns: bool,
    /// How often this process had forked before it was opened: see [`forked`].
    forked: u32,
}

impl Kept {
    /// Returns whether no child can have a copy of it.
    fn is_ours_alone(&self) -> bool {
        self.forked == forked()
    }

    /// Returns whether it is the file with this device and number.
    fn is(&self, identity: (u64, u64)) -> bool {
        self.file.metadata().is_ok_and(|found| (found.dev(), found.ino()) == identity)
    }

    /// Gives up its own locks, which it does not need any more, and would keep on if it stayed open, here or in a child
    /// that lives on.
    fn give_up(&mut self) {
        self.owns = unlock(&self.file, Range::new(0, i64::MAX.cast_unsigned())).is_err();
    }

    /// Closes the file if no one else has locks on the foreign range. Returns what has to be kept otherwise.
    ///
    /// A file of its own, opened afresh, has all of the range meanwhile, so that no one gets a lock that the close
    /// would take away. A lock of this file would not do: a child that was forked earlier has this file, too, and the
    /// lock with it for as long as it lives. Then the fresh one is closed. The kernel takes the locks of this process
    /// away first, of which there are none, and gives the range up after that, with the last copy of the file; and no
    /// child has a copy, since none is forked while [`KEPT`] is locked.
    ///
    /// Where it cannot be opened afresh, a lock of this file does if it is no child's.
    fn close(self) -> Vec<Self> {
        let foreign = self.foreign;
        if self.owns || !matches!(is_free(&self.file, foreign, Lock::Exclusive), Ok(true)) {
            return vec![self];
        }
        let Ok(afresh) = opened_afresh(&self.file) else {
            let closes = self.is_ours_alone()
                && matches!(try_lock(&self.file, foreign, Lock::Exclusive), Ok(true));
            return if closes { Vec::new() } else { vec![self] };
        };
        if matches!(try_lock(&afresh, foreign, Lock::Exclusive), Ok(true)) {
            drop(self.file);
            drop(afresh);
            return Vec::new();
        }
        // Another was faster, and closing either would take that lock away.
        let forked = forked();
        vec![self, Self { file: afresh, foreign, owns: false, forked }]
    }
}

/// Opens the same file once more, whatever became of its name. The files of a thread may differ from the process's.
fn opened_afresh(file: &File) -> io::Result<File> {
    #[cfg(test)]
    if REFUSES.get() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let path = format!("/proc/thread-self/fd/{}", file.as_raw_fd());
    File::options().read(true).write(true).custom_flags(libc::O_CLOEXEC).open(path)
}

#[cfg(test)]
thread_local! {
    /// For a test: nothing is opened afresh by this thread, as where there is no `/proc`.
    pub(super) static REFUSES: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

static KEPT: Mutex<Vec<Kept>> = Mutex::new(Vec::new());
/// One of those has locks of its own: others would wait for it for ever.
static OWNS: AtomicBool = AtomicBool::new(false);

fn kept() -> MutexGuard<'static, Vec<Kept>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets no child be forked while another thread closes a file: it would have that thread's lock on the foreign range,
/// and would find [`KEPT`] locked for ever.
fn fork_between_closes() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| hold_over_forks(&KEPT));
}

/// Gives up locks that the kernel did not let go when their file was no longer needed. Each lock or opening of a file in
/// this process tries.
pub(super) fn give_up_kept() {
    if OWNS.load(Ordering::Relaxed) {
        close_kept(&mut kept());
    }
}

/// Closes those that take no locks away.
fn close_kept(all: &mut Vec<Kept>) {
    all.iter_mut().filter(|one| one.owns).for_each(Kept::give_up);
    *all = std::mem::take(all).into_iter().flat_map(Kept::close).collect();
    OWNS.store(all.iter().any(|one| one.owns), Ordering::Relaxed);
}

/// Takes the file at a path out of those that are kept open, unless a child may have a copy: it would have the locks, too.
fn take_kept(path: &Path, foreign: Range, forked: u32) -> Option<File> {
    let mut all = kept();
    if all.is_empty() {
        return None;
    }
    let found = std::fs::symlink_metadata(path).ok()?;
    let identity = (found.dev(), found.ino());
    let fits = |one: &Kept| {
        !one.owns && one.foreign == foreign && one.forked == forked && one.is_ours_alone()
    };
    let at = all.iter().position(|one| fits(one) && one.is(identity))?;
    Some(all.swap_remove(at).file)
}

/// An open file that is closed when no code in this process can have locks of processes on a range.
#[derive(Debug)]
pub(super) struct Held {
    file: Option<File>,
    foreign: Option<Range>,
    forks: u32,
    forked: u32,
}

impl Held {
    /// Opens the file at a path, or takes it from those that are kept open: as many are, at most, as were needed at once.
    pub(super) fn open(
        path: &Path,
        options: &OpenOptions,
        foreign: Option<Range>,
    ) -> io::Result<Self> {
        let forks = fork_generation();
        let Some(range) = foreign else {
            return Ok(Self { file: Some(options.open(path)?), foreign, forks, forked: 0 });
        };
        fork_between_closes();
        give_up_kept();
        // Before the file is there: a child that is forked then has a copy.
        let forked = forked();
        let file = match take_kept(path, range, forked) {
            Some(file) => file,
            None => options.open(path)?,
        };
        Ok(Self { file: Some(file), foreign, forks, forked })
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
        kept.push(Kept { file, foreign, owns: true, forked: self.forked });
        close_kept(&mut kept);
    }
}
