//! Files and directories that are being made and have not got their names yet: copies that are
//! written, databases that are filled.
//!
//! Invariants:
//! - It goes when it is dropped, and when a signal ends the process ([`remove_unfinished`]).
//! - What a kill leaves is removed by the next attempt if nobody has it locked and it begins with the
//!   mark of this name, which nothing else has: see [`sweep`]. Anything else stays.
//! - It gets its name in one step, as far as [`remove_unfinished`] is concerned: before it, or not at
//!   all.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::fs::OFlags;

use crate::error::PoolError;
use crate::place::{Named, Place};
use crate::poison::fork_generation;
use crate::pool::registry::Registered;

/// Bytes of a mark.
pub(crate) const MARK_BYTES: usize = 32;
const MAGIC: &[u8; 24] = b"PERDURA, NOT FINISHED \r\n";

/// Returns the mark with which a file of this name begins until it is finished. Another name has
/// another mark: what was finished and given another name by somebody is not taken for what is not.
pub(crate) fn mark(name: &std::ffi::OsStr) -> [u8; MARK_BYTES] {
    let mut mark = [0; MARK_BYTES];
    mark[..MAGIC.len()].copy_from_slice(MAGIC);
    let sum = crc32c::crc32c(name.as_encoded_bytes());
    mark[MAGIC.len()..][..4].copy_from_slice(&sum.to_le_bytes());
    mark
}

/// A file and a directory, or one of them.
#[derive(Debug)]
struct Made {
    file: Option<Named>,
    directory: Option<Named>,
    forks: u32,
}

impl Made {
    /// Removes them; what cannot be removed stays under a name that means nothing.
    fn remove(&self) {
        // A forked child has what its parent is making.
        if self.forks != fork_generation() {
            return;
        }
        // The file last: its mark speaks for the directory, too.
        if let Some(directory) = &self.directory {
            // Another thread may be making files in it.
            for _ in 0..ATTEMPTS {
                match directory.remove_directory() {
                    Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                        std::thread::sleep(PAUSE);
                    }
                    _ => break,
                }
            }
        }
        if let Some(file) = &self.file {
            let _ = file.remove();
        }
    }
}

/// The number of times that the removal of a directory is tried; `PAUSE` passes in between.
const ATTEMPTS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(2);

static ALL: Mutex<BTreeMap<u64, Made>> = Mutex::new(BTreeMap::new());
static NEXT: AtomicU64 = AtomicU64::new(0);

fn all() -> MutexGuard<'static, BTreeMap<u64, Made>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Something that is not finished; it is removed when this is dropped.
#[derive(Debug)]
pub struct Unfinished(u64);

impl Unfinished {
    /// Makes a file, a directory with files, or both, and something to work on them with. Nobody ends
    /// the process with [`remove_unfinished`] before what is made here is known.
    ///
    /// # Errors
    /// The error of `make`, which has taken back what it had made.
    pub fn begin<R, E>(
        make: impl FnOnce() -> Result<(R, [Option<Named>; 2]), E>,
    ) -> Result<(Self, R), E> {
        let mut all = all();
        let (made, [file, directory]) = make()?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        all.insert(number, Made { file, directory, forks: fork_generation() });
        Ok((Self(number), made))
    }

    /// Finishes it with `work`, which gives both their names; nobody removes them meanwhile.
    ///
    /// # Errors
    /// The error of `work`; all is removed then.
    pub fn finish<R, E>(
        self,
        work: impl FnOnce(Option<&mut Named>, Option<&mut Named>) -> Result<R, E>,
    ) -> Result<R, E> {
        let mut all = all();
        let made = all.get_mut(&self.0).expect("it is there until this is dropped");
        let result = work(made.file.as_mut(), made.directory.as_mut())?;
        all.remove(&self.0);
        Ok(result)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let made = all().remove(&self.0);
        if let Some(made) = made {
            made.remove();
        }
    }
}

/// Keeps this process from beginning and finishing anything: see [`remove_unfinished`].
#[derive(Debug)]
#[must_use = "what is begun once this is dropped is left, and an error may end the process first"]
pub struct NothingMore {
    _all: MutexGuard<'static, BTreeMap<u64, Made>>,
}

/// Removes all that this process is making and has not finished: for a thread that is about to end
/// the process, for a signal perhaps. What is finished before stays. Threads that begin, finish or
/// give up something wait while the result lives, so keep it until the process has ended.
pub fn remove_unfinished() -> NothingMore {
    let all = all();
    all.values().for_each(Made::remove);
    NothingMore { _all: all }
}

/// Says why something that is in the way is not removed.
#[derive(Debug)]
pub enum Left {
    /// Somebody is making it: in words.
    InUse(String),
    /// The thing is not what an attempt that was cut off leaves.
    Foreign,
    /// The kernel refused.
    Io(io::Error),
}

impl From<io::Error> for Left {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Left {
    /// Returns it as an error of the kernel's kind about the file `name`.
    pub fn into_io(self, name: &str) -> io::Error {
        let taken = |what: String| io::Error::new(io::ErrorKind::AlreadyExists, what);
        match self {
            Self::InUse(who) => taken(format!("`{name}` is being written {who}; wait for that")),
            Self::Foreign => taken(format!("`{name}` {FOREIGN}")),
            Self::Io(error) => error,
        }
    }
}

/// The advice about something foreign that is in the way.
pub const FOREIGN: &str = "is in the way, and is not what an attempt that was cut off leaves; give it another name, or remove it";

/// Makes the name of `place` free, if an attempt that was cut off has left a file there, with its mark
/// at byte `at`, and a directory at `directory`.
///
/// # Errors
/// Why it is not free.
pub(crate) fn sweep(place: &Place, at: u64, directory: Option<&Place>) -> Result<(), Left> {
    if !place.is_taken()? {
        return Ok(());
    }
    if !place.kind()?.is_file() {
        return Err(Left::Foreign);
    }
    let file = place.open(OFlags::RDWR)?;
    // Held until it is gone.
    let _registered = match Registered::lock(place.path(), &file) {
        Ok(registered) => registered,
        Err(PoolError::InUse { holder, .. }) => return Err(Left::InUse(holder)),
        Err(PoolError::Io { source, .. }) => return Err(Left::Io(source)),
        Err(_) => return Err(Left::Foreign),
    };
    let mut found = [0; MARK_BYTES];
    let whole = file.read_exact_at(&mut found, at).is_ok();
    if !whole || found != mark(place.name()) {
        return Err(Left::Foreign);
    }
    if let Some(directory) = directory.filter(|directory| directory.is_taken().unwrap_or(true)) {
        let handle = directory.open_directory()?;
        directory.remove_directory(&handle)?;
    }
    place.remove(&file)?;
    Ok(())
}

/// Locks a file that is being made, for as long as it is open.
pub(crate) fn lock(place: &Place, file: &File) -> io::Result<Registered> {
    Registered::lock(place.path(), file).map_err(|error| match error {
        PoolError::Io { source, .. } => source,
        other => io::Error::other(other.to_string()),
    })
}
