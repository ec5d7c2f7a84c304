//! Locks on ranges of bytes of a file, and closing it without taking the locks of others away.
//!
//! The locks belong to the open file (`F_OFD_SETLK`): they go when its last descriptor does, as when the
//! process dies, they keep out other opens of the same process, and closing another descriptor of the file does not
//! touch them. They conflict with locks that belong to processes (`F_SETLK`).
//!
//! A forked child gives up its copies of the descriptors and of the mappings at once: the kernel counts both as copies of
//! the open file, and a dead parent's locks would stay. The child could not use the files in any case.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError, TryLockError};

use crate::forks::{first_in_children, forked, hold_over_forks};
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

/// A file that is in use.
struct InUse {
    descriptor: RawFd,
    /// The addresses at which it is mapped: the first one, and how many.
    addresses: (usize, usize),
}

/// The files of this process that may have locks.
struct Files {
    held: Vec<InUse>,
    kept: Vec<Kept>,
}

static FILES: Mutex<Files> = Mutex::new(Files { held: Vec::new(), kept: Vec::new() });
/// One of those that are kept has locks of its own: others would wait for it for ever.
static OWNS: AtomicBool = AtomicBool::new(false);

fn files() -> MutexGuard<'static, Files> {
    FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets no child be forked while another thread opens or closes a file: it would have a descriptor, or that thread's lock
/// on the foreign range, and would find [`FILES`] locked for ever.
fn fork_between_closes() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        hold_over_forks(&FILES);
        first_in_children(give_up_copies);
    });
}

/// Puts a file without locks in the place of each descriptor that a forked child has from its parent, and zeros in the
/// place of each mapping. The numbers and the addresses stay in use, since the child may give them up.
fn give_up_copies() {
    let mut files = match FILES.try_lock() {
        Ok(files) => files,
        Err(TryLockError::Poisoned(error)) => error.into_inner(),
        // The parent forked in a thread that was ending, without it: another thread had it.
        Err(TryLockError::WouldBlock) => return,
    };
    let Files { held, kept } = &mut *files;
    // SAFETY: the name is a C string. The descriptors are open, and the addresses are those of mappings: each is the
    // child's copy of one in the parent's list. Such a mapping is accessed only by stores and loads that find other bytes
    // now, which another process might have stored as well.
    unsafe {
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        let all = held.iter().map(|one| one.descriptor);
        for copy in all.chain(kept.iter().map(|one| one.file.as_raw_fd())).filter(|_| null >= 0) {
            libc::dup3(null, copy, libc::O_CLOEXEC);
        }
        libc::close(null);
        for (start, len) in held.drain(..).map(|one| one.addresses).filter(|(_, len)| *len > 0) {
            let kind =
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
            let access = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::without_provenance_mut(start), len, access, kind, -1, 0);
        }
    }
}

/// Gives up locks that the kernel did not let go when their file was no longer needed. Each lock or opening of a file in
/// this process tries.
pub(super) fn give_up_kept() {
    if OWNS.load(Ordering::Relaxed) {
        close_kept(&mut files().kept);
    }
}

/// Closes those that take no locks away.
fn close_kept(all: &mut Vec<Kept>) {
    all.iter_mut().filter(|one| one.owns).for_each(Kept::give_up);
    *all = std::mem::take(all).into_iter().flat_map(Kept::close).collect();
    OWNS.store(all.iter().any(|one| one.owns), Ordering::Relaxed);
}

/// Takes the file at a path out of those that are kept open, unless a child may have a copy: it would have the locks, too.
fn take_kept(all: &mut Vec<Kept>, path: &Path, foreign: Range, forked: u32) -> Option<File> {
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
        fork_between_closes();
        give_up_kept();
        let mut files = files();
        // Before the file is there: a child that is forked then has a copy.
        let forked = forked();
        let kept = foreign.and_then(|range| take_kept(&mut files.kept, path, range, forked));
        let file = match kept {
            Some(file) => file,
            None => options.open(path)?,
        };
        files.held.push(InUse { descriptor: file.as_raw_fd(), addresses: (0, 0) });
        Ok(Self { file: Some(file), foreign, forks, forked })
    }

    /// Notes the addresses at which the file is about to be mapped, or none before they are given up.
    pub(super) fn set_addresses(&self, start: usize, len: usize) {
        let descriptor = self.get().as_raw_fd();
        if let Some(one) = files().held.iter_mut().find(|one| one.descriptor == descriptor) {
            one.addresses = (start, len);
        }
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
        let mut files = files();
        files.held.retain(|one| one.descriptor != file.as_raw_fd());
        let Some(foreign) = self.foreign else {
            // One that the kernel does not let go goes with the file.
            let _ = unlock(&file, Range::new(0, i64::MAX.cast_unsigned()));
            drop(file);
            return;
        };
        files.kept.push(Kept { file, foreign, owns: true, forked: self.forked });
        close_kept(&mut files.kept);
    }
}
