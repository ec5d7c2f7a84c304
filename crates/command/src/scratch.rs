//! The directory in which a command makes its pools, and its certain removal.
//!
//! Invariants:
//! - Whatever ends the command (its end, an error, Ctrl-C, SIGKILL), the directory goes, unless it
//!   is to be kept.
//! - One that is kept is named on standard error at the end, whatever the end.
//! - Only a directory that [`Scratch::new`] made itself is ever removed.
//!
//! How:
//! 1. A second process of this binary, the janitor, is a [cleanup process](crate::cleanup_process) of the
//!    command: when that ends, however, it removes the directory.
//! 2. An orderly end removes the directory itself and then waits for the janitor.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pm::Escaped;

use perdura::{Domain, Medium, free_bytes, medium_of};
use workloads::Room;

use crate::cleanup_process::{CleanupProcess, wait_for_end};
use crate::failure::{Failure, say};
use crate::host::Memory;
use crate::units;

/// First argument of the janitor.
pub const JANITOR: &str = "__janitor";
/// The beginning of the name of a scratch directory; the janitor touches no other.
const PREFIX: &str = "perdura-scratch-";
/// Memory as a file system, on every Linux.
const SHARED_MEMORY: &str = "/dev/shm";

/// A directory of this command's own.
pub struct Scratch {
    path: PathBuf,
    medium: Medium,
    /// `None` if the directory is to be kept.
    janitor: Option<CleanupProcess>,
}

impl Scratch {
    /// Makes a directory below `parent`, or on the best medium there is.
    ///
    /// # Errors
    /// The directory cannot be made or looked at.
    pub fn new(parent: Option<&Path>, keep: bool) -> Result<Self, Failure> {
        let parent = parent.map_or_else(best_directory, Path::to_owned);
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let name = format!("{PREFIX}{}-{}", std::process::id(), time.as_nanos());
        let path = parent.join(name);
        // Before there is something to remove.
        let janitor = if keep { None } else { Some(start_janitor(&path)?) };
        if let Err(error) = fs::create_dir(&path) {
            janitor.into_iter().for_each(CleanupProcess::dismiss);
            let hint = "choose another directory with --path";
            let why = format!("cannot make a directory: {error}; {hint}");
            return Err(Failure::about(parent.display(), why));
        }
        let medium = Medium::of_no_file("");
        let mut scratch = Self { path, medium, janitor };
        scratch.medium =
            probe(&scratch.path).map_err(|error| Failure::about(scratch.path.display(), error))?;
        Ok(scratch)
    }

    /// Makes a directory below `parent`, or on the best medium that has room for as many bytes as
    /// `takes` says of it.
    ///
    /// # Errors
    /// The directory cannot be made or looked at, or nowhere is so much room.
    pub fn with_room(
        parent: Option<&Path>,
        takes: impl Fn(&Medium) -> u64,
    ) -> Result<Self, Failure> {
        let mut parents = match parent {
            Some(parent) => vec![parent.to_owned()],
            None => vec![best_directory(), std::env::temp_dir()],
        };
        parents.dedup();
        let (mut free, mut least) = (Vec::new(), u64::MAX);
        for parent in parents {
            let scratch = Self::new(Some(&parent), false)?;
            let (here, bytes) = (scratch.free()?, takes(scratch.medium()));
            if bytes <= here {
                return Ok(scratch);
            }
            least = least.min(bytes);
            free.push(format!("{} in {}", units::bytes(here), Escaped(parent.display())));
        }
        Err(Failure::Failed(format!(
            "this takes about {}, and free are {}; choose another directory with --path",
            units::bytes(least),
            free.join(" and "),
        )))
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the medium that it lies on.
    pub fn medium(&self) -> &Medium {
        &self.medium
    }

    /// Makes a directory inside.
    ///
    /// # Errors
    /// It exists or cannot be made.
    pub fn directory(&self, name: &str) -> Result<PathBuf, Failure> {
        let path = self.path.join(name);
        fs::create_dir(&path).map_err(|error| Failure::about(path.display(), error))?;
        Ok(path)
    }

    /// Removes a directory inside before its time, unless all is to be kept.
    pub fn discard(&self, directory: &Path) {
        if self.janitor.is_some() {
            // What cannot be removed now is removed with all else.
            let _ = fs::remove_dir_all(directory);
        }
    }

    /// Refuses work that would fill the medium: finding that out half-way would cost the time, and
    /// where the medium is memory, the machine.
    ///
    /// # Errors
    /// There is less room than `bytes`; `instead` says what else to ask for.
    pub fn require(&self, bytes: u64, instead: Option<&str>) -> Result<(), Failure> {
        let free = self.free()?;
        if bytes <= free {
            return Ok(());
        }
        let (bytes, free) = (units::bytes(bytes), units::bytes(free));
        let instead = instead.map_or_else(String::new, |what| format!("ask for {what}, or "));
        let why = format!(
            "this takes about {bytes}, and {free} are free; {instead}choose another directory with --path"
        );
        Err(Failure::about(self.path.display(), why))
    }

    /// Bytes that can be written.
    fn free(&self) -> Result<u64, Failure> {
        let room = self.room()?;
        Ok(match room.medium_is_memory {
            // Memory as a file system gives no more than there is.
            true => room.medium_bytes.min(room.memory_bytes),
            false => room.medium_bytes,
        })
    }

    /// Keeps the directory after all, so that its contents can be examined.
    pub fn preserve(&mut self) {
        if let Some(janitor) = self.janitor.take() {
            janitor.dismiss();
        }
    }

    /// Returns the room that there is.
    ///
    /// # Errors
    /// The medium cannot be looked at.
    pub fn room(&self) -> Result<Room, Failure> {
        let failed = |error| Failure::about(self.path.display(), error);
        let file = File::open(&self.path).map_err(failed)?;
        Ok(Room {
            medium_bytes: free_bytes(&file).map_err(failed)?,
            memory_bytes: Memory::of_this_process().map_or(u64::MAX, |memory| memory.available),
            medium_is_memory: self.medium.natural == Domain::Process,
        })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let Some(janitor) = self.janitor.take() else {
            return say(format_args!("kept: {}", Escaped(self.path.display())));
        };
        // The janitor tries again; a failure here can no longer be reported.
        let _ = fs::remove_dir_all(&self.path);
        janitor.work();
    }
}

/// `/dev/shm` if it is a tmpfs that can be written to, else the directory for temporary files.
fn best_directory() -> PathBuf {
    let shared = Path::new(SHARED_MEMORY);
    match probe(shared) {
        Ok(medium) if medium.natural == Domain::Process => shared.to_owned(),
        _ => std::env::temp_dir(),
    }
}

/// Returns the medium that a directory lies on. It is asked of a file: whether a medium is
/// persistent memory shows only when a file is mapped.
fn probe(directory: &Path) -> io::Result<Medium> {
    let path = directory.join(format!("{PREFIX}{}.probe", std::process::id()));
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    let medium = file.set_len(4096).and_then(|()| medium_of(&file));
    fs::remove_file(&path)?;
    medium
}

/// Starts the janitor.
fn start_janitor(path: &Path) -> Result<CleanupProcess, Failure> {
    CleanupProcess::start(JANITOR, path.as_ref())
        .map_err(|error| Failure::about("the process that cleans up", error))
}

/// The janitor: waits until the command has ended and removes its directory.
pub fn janitor(arguments: &[OsString]) -> ExitCode {
    let path = arguments.first().map_or(Path::new(""), Path::new);
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if !name.starts_with(PREFIX) {
        return ExitCode::from(2);
    }
    // Whose command is gone before it is ready has as much to do.
    if matches!(wait_for_end(Duration::MAX, || {}), Ok(false)) {
        return ExitCode::SUCCESS;
    }
    // A child of the command may still be writing for a moment: it ends when its own pipe closes.
    for _ in 0..50 {
        match fs::remove_dir_all(path) {
            Ok(()) => return ExitCode::SUCCESS,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return ExitCode::SUCCESS,
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
    ExitCode::from(1)
}
