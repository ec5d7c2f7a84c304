//! Files and directories that are being made and have not got their names yet: databases that are
//! created or filled, copies that are written.
//!
//! Invariants:
//! - Until it is finished it is called `<name>.perdura-new`, and is locked. It goes when it is dropped,
//!   and when a signal ends the process ([`remove_unfinished`]). It is still locked then: of two that make
//!   something of one name, none removes what is the other one's.
//! - What a kill leaves is removed by the next attempt, if it is not locked: see [`sweep`]. Only a
//!   file is removed of which name and contents say that it is not finished: it has the mark of this
//!   name, which nothing else has. Anything else stays.
//! - The mark is the first thing that is written, and durable before the next one. So a file without it has
//!   no contents; or, where a power cut kept its length and lost its bytes, zeros that end within the mark's
//!   place. Such a file is removed as well. One with more zeros stays: it may be anything.
//! - A file that has its contents in place of its mark is called `<name>.perdura-whole` meanwhile.
//! - It gets its name in one step, as far as [`remove_unfinished`] is concerned: before it, or not at
//!   all.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::fs::OFlags;

use crate::error::{FOREIGN, PoolError};
use crate::escaped::Escaped;
use crate::place::{Named, Place};
use crate::poison::fork_generation;
use crate::registry::Registered;

/// Bytes of a mark.
pub(crate) const MARK_BYTES: usize = 32;
/// The place of the mark in a pool, between the copies of its header. Any other file begins with it.
pub(crate) const MARK_IN_POOL: u64 = 2048;
const MAGIC: &[u8; 24] = b"PERDURA, NOT FINISHED \r\n";
/// Bytes at the start of a file that say whether it is finished.
const START_BYTES: usize = 4096;
const _: () = assert!(MARK_IN_POOL as usize + MARK_BYTES <= START_BYTES);

/// Returns the mark of a file of this name until it is finished. Another name has another mark: what was
/// finished and given another name is not taken for what is not.
pub(crate) fn mark(name: &OsStr) -> [u8; MARK_BYTES] {
    let mut mark = [0; MARK_BYTES];
    mark[..MAGIC.len()].copy_from_slice(MAGIC);
    let sum = crc32c::crc32c(name.as_encoded_bytes());
    mark[MAGIC.len()..][..4].copy_from_slice(&sum.to_le_bytes());
    mark
}

/// A file and the directories that belong to it.
#[derive(Debug)]
struct Made {
    file: Option<Named>,
    directories: Vec<Named>,
    forks: u32,
}

impl Made {
    /// Removes them; what cannot be removed stays under a name that means nothing.
    fn remove(&self) {
        // A forked child has what its parent is making.
        if self.forks != fork_generation() {
            return;
        }
        // A file that has lost its name keeps no other process from making something of that name.
        if self.file.as_ref().is_some_and(|file| !file.has_its_name().unwrap_or(false)) {
            return;
        }
        // The file last: its mark speaks for the directories, too.
        for directory in &self.directories {
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
    /// Makes a file and something to work on it with. No thread ends the process with
    /// [`remove_unfinished`] before what is made here is known.
    ///
    /// # Errors
    /// The error of `make`, which has taken back what it had made.
    pub fn begin<R, E>(
        make: impl FnOnce() -> Result<(R, Option<Named>), E>,
    ) -> Result<(Self, R), E> {
        let mut all = all();
        let (made, file) = make()?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let directories = Vec::new();
        all.insert(number, Made { file, directories, forks: fork_generation() });
        Ok((Self(number), made))
    }

    /// Makes a directory that belongs to the file and goes with it.
    ///
    /// # Errors
    /// The error of `make`, which has taken back what it had made.
    pub fn add_directory<R, E>(
        &self,
        make: impl FnOnce() -> Result<(R, Option<Named>), E>,
    ) -> Result<R, E> {
        let mut all = all();
        let made = all.get_mut(&self.0).expect("it is there until this is dropped");
        let (result, directory) = make()?;
        made.directories.extend(directory);
        Ok(result)
    }

    /// Gives the file another name, under which it is not finished, either.
    ///
    /// # Errors
    /// As [`Named::rename_new`].
    pub(crate) fn rename(&self, to: Place) -> io::Result<()> {
        let mut all = all();
        let made = all.get_mut(&self.0).expect("it is there until this is dropped");
        made.file.as_mut().map_or(Ok(()), |file| file.rename_new(to))
    }

    /// Finishes it with `work`, which gives the file its name; it is not removed meanwhile.
    ///
    /// # Errors
    /// The error of `work`; all is removed then.
    pub fn finish<R, E>(
        self,
        work: impl FnOnce(Option<&mut Named>) -> Result<R, E>,
    ) -> Result<R, E> {
        let mut all = all();
        let made = all.get_mut(&self.0).expect("it is there until this is dropped");
        let result = work(made.file.as_mut())?;
        all.remove(&self.0);
        Ok(result)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // Others wait: what is half removed does not stay when another thread ends the process.
        let mut all = all();
        if let Some(made) = all.remove(&self.0) {
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
    /// It is being made: by which process, in words.
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
    /// The advice about something foreign that is in the way.
    pub const FOREIGN: &str = FOREIGN;

    /// Returns it as an error of the kernel's kind about the file `name`.
    pub fn into_io(self, name: &str) -> io::Error {
        let taken = |what: String| io::Error::new(io::ErrorKind::AlreadyExists, what);
        let name = Escaped(name);
        match self {
            Self::InUse(who) => taken(format!("`{name}` is being written {who}; wait for that")),
            Self::Foreign => taken(format!("`{name}` {FOREIGN}")),
            Self::Io(error) => error,
        }
    }
}

/// Creates the file of this name, which ends with `.perdura-new`, and locks it; what an attempt has left
/// that was cut off is removed before, as [`sweep`] does.
///
/// # Errors
/// As [`sweep`]; the kernel refuses.
pub(crate) fn create(
    place: &Place,
    clear: &mut dyn FnMut(&File) -> io::Result<()>,
) -> Result<(File, Registered), Left> {
    loop {
        let file = match place.create_file() {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                sweep(place, None, clear)?;
                continue;
            }
            created => created?,
        };
        // Another attempt may have taken it for one that was cut off, before it was locked.
        match lock(place, &file) {
            Ok(registered) if place.leads_to(&file)? => return Ok((file, registered)),
            Ok(_) | Err(Left::InUse(_)) => {}
            Err(error) => {
                // There are no locks here, so no other attempt has one, either.
                let _ = place.remove(&file);
                return Err(error);
            }
        }
    }
}

/// Makes the name of `place`, which ends with `.perdura-new`, free, if an attempt that was cut off has
/// left a file there: it has its mark, or no contents yet. Of a name that ends with `.perdura-whole` the file
/// has that mark, or begins as it is `whole`. `clear` removes what belongs to it.
///
/// # Errors
/// The reason why it is not free.
pub(crate) fn sweep(
    place: &Place,
    whole: Option<(&Place, &[u8])>,
    clear: &mut dyn FnMut(&File) -> io::Result<()>,
) -> Result<(), Left> {
    let gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    match place.kind() {
        Err(error) if gone(&error) => return Ok(()),
        Err(error) => return Err(error.into()),
        Ok(kind) if kind.is_file() => {}
        Ok(_) => return Err(Left::Foreign),
    }
    let file = match place.open(OFlags::RDWR) {
        Err(error) if gone(&error) => return Ok(()),
        opened => opened?,
    };
    // Held until it is gone.
    let _registered = lock(place, &file)?;
    if !place.leads_to(&file)? {
        return Ok(());
    }
    let is_ours = match whole {
        None => is_unfinished(&file, place.name())?,
        Some((own, begins)) => is_whole(&file, own.name(), begins)?,
    };
    if !is_ours {
        return Err(Left::Foreign);
    }
    clear(&file)?;
    match place.remove(&file) {
        Err(error) if !gone(&error) => Err(error.into()),
        _ => Ok(()),
    }
}

/// Reads the start of a file; what it does not have stays zero. Returns the bytes that it has.
fn read_start(file: &File, start: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < start.len() {
        match file.read_at(&mut start[filled..], filled as u64) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Returns whether a file has the mark of this name, or begins so: see [`sweep`].
fn is_whole(file: &File, name: &OsStr, begins: &[u8]) -> io::Result<bool> {
    let mut start = [0; MARK_BYTES];
    let filled = read_start(file, &mut start)?;
    Ok(start == mark(name) || (!begins.is_empty() && start[..filled].starts_with(begins)))
}

/// Returns whether a file of this name is not finished: see [`sweep`].
fn is_unfinished(file: &File, name: &OsStr) -> io::Result<bool> {
    let mut start = [0; START_BYTES];
    let filled = read_start(file, &mut start)?;
    let mark = mark(name);
    Ok([0, MARK_IN_POOL as usize].into_iter().any(|at| {
        let (before, rest) = start.split_at(at);
        let (found, after) = rest.split_at(MARK_BYTES);
        // A mark that is stored to a mapping may be there in part.
        let in_part = |(found, mark): (&[u8], &[u8])| found == mark || is_zero(found);
        let begun = found.chunks(8).zip(mark.chunks(8)).all(in_part)
            && (!is_zero(found) || (at..=at + MARK_BYTES).contains(&filled));
        found == mark || (begun && is_zero(before) && is_zero(after))
    }))
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

/// Locks a file that is being made, for as long as it is open.
pub(crate) fn lock(place: &Place, file: &File) -> Result<Registered, Left> {
    Registered::lock(place.path(), file).map_err(|error| match error {
        PoolError::InUse { holder, .. } => Left::InUse(holder),
        PoolError::Io { source, .. } => Left::Io(source),
        other => Left::Io(io::Error::other(other.to_string())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // An interpreter has no files.
    #[cfg(not(miri))]
    #[test]
    fn only_marked_or_empty_files_are_unfinished() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new");
        let name = OsStr::new("new");
        let found = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            let file = File::open(&path).unwrap();
            let whole = is_whole(&file, name, b"a backup").unwrap();
            assert_eq!(whole, bytes.starts_with(b"a backup") || bytes.starts_with(&mark(name)));
            is_unfinished(&file, name).unwrap()
        };
        let pool = |mark: &[u8]| [&[0; MARK_IN_POOL as usize], mark, &[0; 5000]].concat();
        let own = mark(name);
        // They end where a mark stands; or it may be anything: a table of zeros, say.
        for zeros in [0, 1, 32, 2048, 2080] {
            assert!(found(&vec![0; zeros]), "{zeros}");
        }
        for zeros in [33, 2047, 2081, 4096, 5000] {
            assert!(!found(&vec![0; zeros]), "{zeros}");
        }
        for words in 0..=4 {
            let mut part = own;
            part[8 * words..].fill(0);
            assert!(found(&part), "{words}");
            assert_eq!(found(&pool(&part)), words > 0, "{words}");
        }
        let mut whole = pool(&own);
        whole[..128].fill(7);
        assert!(found(&whole), "its header is there");
        for others in [&b"a"[..], b"a back", b"a backup", &mark(OsStr::new("other"))] {
            assert!(!found(others) && !found(&pool(others)), "{others:?}");
        }
        whole[MARK_IN_POOL as usize..][..8].fill(0);
        assert!(!found(&whole), "its mark is gone");
    }
}
