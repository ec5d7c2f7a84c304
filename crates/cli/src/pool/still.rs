//! A database that another process has open is copied while that process stands still.
//!
//! What a process leaves that is stopped between two instructions is what it would leave if it were
//! killed there, and from that every engine recovers: with each transaction that was acknowledged,
//! whole, in all partitions (`docs/guarantees.md`). So pool and files are copied as they are, and the
//! copy is opened as after a kill. The process has nothing to do for it and pays nothing until then.
//!
//! How:
//! 1. `/proc` says who has the pool's lock.
//! 2. SIGSTOP; it is waited for until all threads have stopped. From here to the end the
//!    [waker](super::waker) sees to it that the process goes on, whatever becomes of this command.
//! 3. `/proc` is asked again: the process may have closed the database before it stopped, and another
//!    one may have opened it.
//! 4. Pool and files are copied to a scratch directory, whose removal is certain.
//! 5. A check that the process was stopped all the while. Another program may have let it go on, as
//!    may another command that copies the same database.
//! 6. SIGCONT, and the last word to the waker. If 3 or 5 found something, start again at 1.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use command::cleanup_process::CleanupProcess;
use command::failure::Failure;
use command::scratch::Scratch;
use pm::{has_open, lock_holders};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::threads::Threads;
use super::waker::WAKER;

/// The time that a process may take to stop: one that waits for a disk does not stop before.
const PATIENCE: Duration = Duration::from_secs(30);
/// The time between two looks whether it has stopped.
const GLANCE: Duration = Duration::from_micros(200);
/// Polls after which the stop signal is sent again: another program may have let the process go on.
const AGAIN: u32 = 100;
/// The number of attempts, at most: of several commands at a time each may disturb each other one
/// once.
const ATTEMPTS: u32 = 10;

/// A copy of a database as it was at one moment.
pub(super) struct ConsistentCopy {
    /// The pool. Its other files lie in the same directory.
    pub(super) pool: PathBuf,
    /// The process that has the database.
    pub(super) process: i32,
    /// The time for which the process was stopped; `None` if it had been stopped before.
    pub(super) stopped: Option<Duration>,
    /// Goes with everything in it.
    _scratch: Scratch,
}

/// Copies the database at `file`, which another process has open; `None` if none has it any more.
/// The copy lies in `directory`, by default that of the pool: there it has the pool's medium.
///
/// # Errors
/// The process may not be stopped, does not stop, or is let go on again and again; there is no room.
pub(super) fn take(
    file: &Path,
    directory: Option<&Path>,
) -> Result<Option<ConsistentCopy>, Failure> {
    let about = |error: io::Error| Failure::about(file.display(), error);
    let file = &fs::canonicalize(file).map_err(about)?;
    let own = file.parent().unwrap_or(Path::new("/"));
    for _ in 0..ATTEMPTS {
        let Some(holder) = Holder::of(file)? else { return Ok(None) };
        let scratch = Scratch::new(Some(directory.unwrap_or(own)), false)?;
        let files = files_beside(file);
        // What may still grow until it stands still; all of it is looked at again by the copy.
        let bytes = bytes_of(file).map_err(about)? + bytes_of(&files).map_err(about)?;
        scratch.require(bytes + bytes / 8, None)?;
        let pool = scratch.directory("copy")?.join(file.file_name().unwrap_or_default());
        let Some(still) = holder.stop(file)? else { continue };
        let process = still.holder.number;
        if Holder::of(file)?.is_none_or(|holder| holder.number != process) {
            continue;
        }
        let copied =
            fs::copy(file, &pool).and_then(|_| copy_directory(&files, &files_beside(&pool)));
        let stood_still = still.stands();
        let stopped = still.go_on();
        // One that went on may have removed a file, too.
        if stood_still {
            copied.map_err(about)?;
            return Ok(Some(ConsistentCopy { pool, process, stopped, _scratch: scratch }));
        }
    }
    let why = "another process lets the one that has it open go on while it is copied, each time";
    Err(Failure::about(file.display(), why))
}

/// Returns the place of the files of a database.
fn files_beside(pool: &Path) -> PathBuf {
    let mut name = pool.as_os_str().to_owned();
    name.push(".files");
    name.into()
}

/// Bytes of a file, of the files of a directory, or of nothing.
fn bytes_of(path: &Path) -> io::Result<u64> {
    let meta = match path.metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        meta => meta?,
    };
    if !meta.is_dir() {
        return Ok(meta.len());
    }
    let mut bytes = 0;
    for entry in fs::read_dir(path)? {
        // What was removed meanwhile needs no room.
        bytes += entry?.metadata().map_or(0, |meta| meta.len());
    }
    Ok(bytes)
}

/// Copies the files of a directory, if it is there.
fn copy_directory(from: &Path, to: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(from) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    fs::create_dir(to)?;
    for entry in entries {
        let name = entry?.file_name();
        fs::copy(from.join(&name), to.join(&name))?;
    }
    Ok(())
}

/// The process that has a database open.
struct Holder {
    number: i32,
    process: OwnedFd,
}

impl Holder {
    /// Returns the process that holds the lock on a file; `None` if there is none.
    fn of(file: &Path) -> Result<Option<Self>, Failure> {
        let about = |error: io::Error| Failure::about(file.display(), error);
        let inode = file.metadata().map_err(about)?;
        let holders = lock_holders(&inode).map_err(|error| {
            Failure::about("/proc/locks", format!("cannot tell who has the database: {error}"))
        })?;
        let mut seen = false;
        for number in holders {
            seen = true;
            let Some(pid) = Pid::from_raw(number) else { continue };
            let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
            // Another file system may have a file of the same number, and the process may be gone
            // and its number have been given out again.
            if has_open(number, &inode).unwrap_or(false) {
                return Ok(Some(Self { number, process }));
            }
        }
        if !seen {
            return Ok(None);
        }
        let why = "cannot tell which process has it open, or may not look at it; run this as its \
                   user, where its processes can be seen";
        Err(Failure::about(file.display(), why))
    }

    /// Stops it, with all of its threads; `None` if it has ended.
    fn stop(self, file: &Path) -> Result<Option<StoppedProcess>, Failure> {
        let about = |why: String| Failure::about(file.display(), why);
        let number = self.number;
        let unknown = |error| about(format!("cannot look at process {number}: {error}"));
        let look = || Threads::of(number).map_err(unknown);
        let since = Instant::now();
        let threads = look()?;
        if threads.all_stopped() {
            return Ok(Some(StoppedProcess { holder: self, since, threads, waker: None }));
        }
        let waker = match CleanupProcess::start(WAKER, number.to_string().as_ref()) {
            Ok(waker) => waker,
            Err(_) if look()?.have_ended() => return Ok(None),
            Err(error) => {
                return Err(Failure::about("the process that lets the other one go on", error));
            }
        };
        let mut still = StoppedProcess { holder: self, since, threads, waker: Some(waker) };
        for glance in 0.. {
            let before = std::mem::replace(&mut still.threads, look()?);
            if still.threads.have_ended() {
                return Ok(None);
            }
            // The last switch of one that stops is counted after it is called stopped.
            if still.threads.all_stopped() && still.threads == before {
                break;
            }
            if since.elapsed() > PATIENCE {
                let seconds = PATIENCE.as_secs();
                let hint = match number {
                    1 => "; the first process of a container is stopped from outside of it only",
                    _ => "",
                };
                return Err(about(format!(
                    "process {number}, which has it open, does not stop within {seconds} s{hint}"
                )));
            }
            if glance % AGAIN == 0 {
                match still.signal(Signal::STOP) {
                    Err(error) if error.raw_os_error() != Some(Errno::SRCH.raw_os_error()) => {
                        return Err(about(format!(
                            "is open in process {number}, which cannot be stopped: {error}"
                        )));
                    }
                    // If it is gone, the next look says so.
                    _ => {}
                }
            }
            thread::sleep(GLANCE);
        }
        Ok(Some(still))
    }
}

/// A process that stands still; it goes on when this is dropped.
struct StoppedProcess {
    holder: Holder,
    since: Instant,
    /// The threads as they are while it does.
    threads: Threads,
    /// `None` if the process was stopped before this command: then it stays stopped.
    waker: Option<CleanupProcess>,
}

impl StoppedProcess {
    fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(pidfd_send_signal(&self.holder.process, signal)?)
    }

    /// Returns true if it did so from the beginning until now, and lives. So it has what it had:
    /// its lock.
    fn stands(&self) -> bool {
        Threads::of(self.holder.number).is_ok_and(|threads| threads == self.threads)
    }

    /// Lets it go on; how long it stood still because of this command.
    fn go_on(self) -> Option<Duration> {
        let since = self.waker.is_some().then_some(self.since);
        drop(self);
        since.map(|since| since.elapsed())
    }
}

impl Drop for StoppedProcess {
    fn drop(&mut self) {
        let Some(waker) = self.waker.take() else { return };
        // If this fails, it is gone, or the waker tries.
        if self.signal(Signal::CONT).is_ok() {
            waker.dismiss();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_without_a_lock_has_no_holder() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        assert!(Holder::of(file.path()).expect("readable").is_none());
        let held = file.reopen().expect("open");
        held.lock().expect("a lock");
        let holder = Holder::of(file.path()).expect("readable").expect("held");
        assert_eq!(holder.number as u32, std::process::id());
    }
}
