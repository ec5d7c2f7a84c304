//! A database that another process has open is copied while that process stands still.
//!
//! What a process leaves that is stopped between two instructions is what it would leave if it were
//! killed there, and from that every engine recovers: with each transaction that was acknowledged,
//! whole, in all partitions (`docs/guarantees.md`). So pool and files are copied as they are, and the
//! copy is opened as after a kill. The process has nothing to do for it and pays nothing until then.
//!
//! Invariant: whatever ends this command, SIGKILL too, the other process goes on.
//!
//! How:
//! 1. `/proc` says who has the pool's lock.
//! 2. A second process of this binary, the waker, holds the reading end of a pipe whose other end
//!    only this command has. It lets the process go on when the pipe ends without a last word.
//! 3. SIGSTOP; it is waited for until all threads have stopped.
//! 4. Pool and files are copied to a scratch directory, whose removal is certain.
//! 5. SIGCONT, and the last word to the waker.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::failure::Failure;
use crate::scratch::Scratch;

/// First argument of the waker.
pub(crate) const WAKER: &str = "__waker";
/// What the waker says when it is ready, and what it hears when it is not needed any more.
const WORD: &[u8] = b".\n";
/// How long a process may take to stop: one that waits for a disk does not stop before.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often it is looked whether it has stopped.
const GLANCE: Duration = Duration::from_micros(200);

/// A copy of a database as it was at one moment.
pub(super) struct Taken {
    /// The pool. Files lie beside it.
    pub(super) pool: PathBuf,
    /// Who has the database.
    pub(super) process: i32,
    /// How long it stood still; zero if somebody had stopped it before.
    pub(super) stopped: Duration,
    /// Goes with everything in it.
    _scratch: Scratch,
}

/// Copies the database at `file`, which another process has open; `None` if none has it any more.
/// The copy lies in `directory`, by default that of the pool: there it has the pool's medium.
///
/// # Errors
/// The process may not be stopped, or does not stop; there is no room.
pub(super) fn take(file: &Path, directory: Option<&Path>) -> Result<Option<Taken>, Failure> {
    let about = |error: io::Error| Failure::about(file.display(), error);
    let file = &fs::canonicalize(file).map_err(about)?;
    let Some(holder) = Holder::of(file)? else { return Ok(None) };
    let own = file.parent().unwrap_or(Path::new("/"));
    let scratch = Scratch::new(Some(directory.unwrap_or(own)), false)?;
    let files = files_beside(file);
    // What may still grow until it stands still; all of it is looked at again by the copy.
    let bytes = bytes_of(file).map_err(about)? + bytes_of(&files).map_err(about)?;
    scratch.require(bytes + bytes / 8, None)?;
    let name = file.file_name().unwrap_or_default();
    let pool = scratch.directory("copy")?.join(name);
    let still = holder.stop(file)?;
    let copied = fs::copy(file, &pool).and_then(|_| copy_directory(&files, &files_beside(&pool)));
    let (process, stopped) = (still.holder.number, still.go_on());
    copied.map_err(about)?;
    Ok(Some(Taken { pool, process, stopped, _scratch: scratch }))
}

/// Where the files of a database lie.
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
    /// Who has the lock on a file; `None` if nobody has.
    fn of(file: &Path) -> Result<Option<Self>, Failure> {
        let about = |error: io::Error| Failure::about(file.display(), error);
        let inode = file.metadata().map_err(about)?;
        let locks = fs::read_to_string("/proc/locks").map_err(|error| {
            Failure::about("/proc/locks", format!("cannot tell who has the database: {error}"))
        })?;
        let mut seen = false;
        for number in holders(&locks, inode.ino()) {
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

    /// Stops it, with all of its threads.
    fn stop(self, file: &Path) -> Result<Still, Failure> {
        let about = |why: String| Failure::about(file.display(), why);
        let number = self.number;
        let unknown = |error| about(format!("cannot look at process {number}: {error}"));
        if all_stopped(number).map_err(unknown)? {
            return Ok(Still { holder: self, since: Instant::now(), waker: None });
        }
        let waker = Waker::hire(number)?;
        let still = Still { holder: self, since: Instant::now(), waker: Some(waker) };
        still.signal(Signal::STOP).map_err(|error| {
            about(format!("is open in process {number}, which cannot be stopped: {error}"))
        })?;
        while !all_stopped(number).map_err(unknown)? {
            if still.since.elapsed() > PATIENCE {
                let why = format!("process {number}, which has it open, does not stop");
                return Err(about(format!("{why} within {} s", PATIENCE.as_secs())));
            }
            thread::sleep(GLANCE);
        }
        Ok(still)
    }
}

/// The processes that have a lock (`flock`) on a file of this number.
fn holders(locks: &str, inode: u64) -> impl Iterator<Item = i32> {
    locks.lines().filter_map(move |line| {
        // "3: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF"; who waits has "->" in the second place.
        let words: Vec<&str> = line.split_whitespace().collect();
        let &[_, "FLOCK", _, _, process, place, ..] = words.as_slice() else { return None };
        let own: u64 = place.rsplit(':').next()?.parse().ok()?;
        (own == inode).then(|| process.parse().ok()).flatten()
    })
}

/// Whether a process has this file open.
fn has_open(process: i32, file: &fs::Metadata) -> io::Result<bool> {
    for entry in fs::read_dir(format!("/proc/{process}/fd"))? {
        // Follows the link. What was closed meanwhile is not it.
        let Ok(meta) = fs::metadata(entry?.path()) else { continue };
        if (meta.dev(), meta.ino()) == (file.dev(), file.ino()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether no thread of a process runs.
fn all_stopped(process: i32) -> io::Result<bool> {
    for entry in fs::read_dir(format!("/proc/{process}/task"))? {
        // A thread that has ended meanwhile does not run either.
        let Ok(stat) = fs::read_to_string(entry?.path().join("stat")) else { continue };
        // The name comes before, in brackets, and may hold anything.
        let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
        if !matches!(state, Some('T' | 't' | 'Z' | 'X')) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A process that stands still; it goes on when this is dropped.
struct Still {
    holder: Holder,
    since: Instant,
    /// `None` if somebody else has stopped it: then it stays as it is.
    waker: Option<Waker>,
}

impl Still {
    fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(pidfd_send_signal(&self.holder.process, signal)?)
    }

    /// Lets it go on; how long it stood still.
    fn go_on(self) -> Duration {
        let stopped = self.waker.is_some();
        let since = self.since;
        drop(self);
        if stopped { since.elapsed() } else { Duration::ZERO }
    }
}

impl Drop for Still {
    fn drop(&mut self) {
        let Some(waker) = self.waker.take() else { return };
        // If this fails, it is gone, or the waker tries.
        if self.signal(Signal::CONT).is_ok() {
            waker.dismiss();
        }
    }
}

/// The process that lets another one go on if this one cannot.
struct Waker(Child);

impl Waker {
    /// Starts it, and waits until it is ready.
    fn hire(process: i32) -> Result<Self, Failure> {
        let failed =
            |error: io::Error| Failure::about("the process that lets the other one go on", error);
        let binary = std::env::current_exe().map_err(failed)?;
        let child = Command::new(binary)
            .arg(WAKER)
            .arg(process.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // Ctrl-C does not reach it.
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let mut waker = Self(child);
        let mut said = Vec::new();
        if let Some(out) = waker.0.stdout.take() {
            BufReader::new(out).read_until(b'\n', &mut said).map_err(failed)?;
        }
        if said != WORD {
            return Err(failed(io::ErrorKind::BrokenPipe.into()));
        }
        Ok(waker)
    }

    /// It is not needed any more.
    fn dismiss(mut self) {
        if let Some(mut pipe) = self.0.stdin.take() {
            // One that is gone needs no word.
            let _ = pipe.write_all(WORD);
        }
        let _ = self.0.wait();
    }
}

/// The waker: waits for its last word, and lets the process go on if there is none.
pub(crate) fn waker(process: &str) -> ExitCode {
    let found = process.parse().ok().and_then(Pid::from_raw);
    let opened = found.map(|pid| pidfd_open(pid, PidfdFlags::empty()));
    let Some(Ok(process)) = opened else { return ExitCode::from(2) };
    if io::stdout().write_all(WORD).and_then(|()| io::stdout().flush()).is_err() {
        return ExitCode::from(1);
    }
    let mut heard = Vec::new();
    // An error means as much as the end: there is nobody at the other end.
    let _ = io::stdin().lock().read_to_end(&mut heard);
    if heard != WORD && pidfd_send_signal(process, Signal::CONT).is_err() {
        return ExitCode::from(1);
    }
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_read_as_the_kernel_writes_them() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 fe:00:77 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 12 fe:00:78 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 13 fe:00:78 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 14 00:1b:78 0 EOF\n\
                     nonsense\n";
        assert_eq!(holders(locks, 78).collect::<Vec<_>>(), [12, 14]);
        assert_eq!(holders(locks, 77).count(), 0);
    }

    #[test]
    fn nobody_has_a_file_without_a_lock() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        assert!(Holder::of(file.path()).expect("readable").is_none());
        let held = file.reopen().expect("open");
        held.lock().expect("a lock");
        let holder = Holder::of(file.path()).expect("readable").expect("held");
        assert_eq!(holder.number as u32, std::process::id());
    }
}
