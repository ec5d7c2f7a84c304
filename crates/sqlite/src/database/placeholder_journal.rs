//! The placeholder journal: the file `NAME-journal` that exists while a part of a transaction over several databases
//! waits for the others.
//!
//! SQLite commits such a transaction by removing the super-journal. A database that rolls back removes it, too, if no
//! other journal names it. The journals of this VFS are in memory, so the placeholder names the super-journal in their
//! stead, durably, from before the journal does until the part is committed or rolled back. Otherwise another database
//! could roll back and remove the super-journal, and this one would take the missing file for a commit.
//!
//! A placeholder begins with zeros, so that SQLite does not roll it back, and ends like one of SQLite's journals.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pm::{FileEnds, MarkerFile, Memory as _, Off, Plain};

use crate::database::contract::{Failure, JournalEpoch, SuperJournalNotice};
use crate::store::error::{Result, StoreError};
use crate::store::layout::{CLEARED_AT, JOURNALS_AT, TAG_AT};
use crate::store::verdict::Verdict;

/// The first bytes of SQLite's journals, and the last bytes of one that names a super-journal.
pub(crate) const JOURNAL_MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
/// Bytes after the name: its length, a checksum, the magic.
const TRAILER_BYTES: usize = 16;
/// The shortest journal of SQLite's that is not empty.
const JOURNAL_BYTES_MIN: u64 = 512;
/// The zeros at the beginning of a placeholder.
const ZEROS: usize = 4;
/// The longest name that is searched for.
const NAME_MAX: usize = 4096;
/// The largest super-journal that is read.
const SUPER_MAX: usize = 1 << 20;

/// The name of the super-journal at the end of a journal, as SQLite reads it.
pub fn name_at_end(journal: &[u8]) -> Option<&[u8]> {
    let (rest, magic) = journal.split_last_chunk::<8>()?;
    let (rest, check) = rest.split_last_chunk::<4>()?;
    let (rest, bytes) = rest.split_last_chunk::<4>()?;
    let bytes = u32::from_be_bytes(*bytes) as usize;
    let name = &rest[rest.len().checked_sub(bytes)?..];
    let matches = *magic == JOURNAL_MAGIC && u32::from_be_bytes(*check) == check_of(name);
    (matches && !name.is_empty()).then_some(name)
}

/// The most bytes at the end of a journal that name a super-journal.
pub(crate) const NAMED_BYTES: usize = NAME_MAX + TRAILER_BYTES;

/// SQLite's checksum of a name, over signed bytes on most machines.
fn check_of(name: &[u8]) -> u32 {
    name.iter().fold(0, |sum, byte| sum.wrapping_add_signed((*byte as std::ffi::c_char).into()))
}

/// The bytes of a placeholder.
fn placeholder_of(name: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; ZEROS];
    bytes.extend_from_slice(name);
    bytes.extend((name.len() as u32).to_be_bytes());
    bytes.extend(check_of(name).to_be_bytes());
    bytes.extend(JOURNAL_MAGIC);
    bytes
}

/// The name in a placeholder; `None` for any other file.
fn name_of_placeholder(ends: &FileEnds) -> Option<&[u8]> {
    let name = name_at_end(&ends.last)?;
    let is_placeholder =
        ends.first == Some(0) && ends.bytes == (ZEROS + name.len() + TRAILER_BYTES) as u64;
    is_placeholder.then_some(name)
}

/// Returns whether a file is a placeholder or the beginning of one. A journal of SQLite's of that length is
/// empty.
fn is_begun(ends: &FileEnds) -> bool {
    let is_short = ends.first.is_none_or(|first| first == 0) && ends.bytes < JOURNAL_BYTES_MIN;
    is_short || name_of_placeholder(ends).is_some()
}

fn path_of(name: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(name))
}

/// Decides by whether a super-journal is gone.
///
/// SQLite takes one whose folder is missing for gone, too. Here that decides nothing, since a decision is final:
/// the folder may be on a medium that is not mounted, or be called otherwise where this process runs, and the
/// super-journal may be in it, by which the other databases roll back.
///
/// # Errors
/// The kernel does not answer, or there is no folder of that name.
pub(crate) fn decide(name: &[u8]) -> Result<Verdict> {
    let found = MarkerFile::new(path_of(name), true).is_there_in_folder();
    match found.map_err(|error| undecided(name, &error))? {
        Some(true) => Ok(Verdict::Discard),
        Some(false) => Ok(Verdict::Apply),
        None => Err(StoreError::FolderMissing(String::from_utf8_lossy(name).into_owned())),
    }
}

fn undecided(name: &[u8], error: &std::io::Error) -> StoreError {
    StoreError::Undecided(format!("{}`: `{error}", String::from_utf8_lossy(name)))
}

/// Decides for a recovery, whose decision is final: the removal is made durable first. The process that
/// removed the file may have died before that, and after a power cut it would be there again for another
/// part.
///
/// # Errors
/// As [`decide`], or the removal cannot be made durable.
pub(crate) fn decide_durably(name: &[u8]) -> Result<Verdict> {
    let verdict = decide(name)?;
    if verdict == Verdict::Apply {
        let synced = MarkerFile::new(path_of(name), true).sync_name();
        synced.map_err(|error| undecided(name, &error))?;
    }
    Ok(verdict)
}

/// The placeholder journal of one connection's database.
#[derive(Debug)]
pub(crate) struct PlaceholderJournal {
    file: MarkerFile,
    data: Plain,
    side: Plain,
    /// One more than the word that is raised before the marker is cleared, when the marker was last seen; 0 if it was not
    /// set.
    marked: AtomicU64,
    /// The super-journal in the placeholder that this connection created and has not removed.
    made: Mutex<Option<Vec<u8>>>,
    /// The transaction's journal names a super-journal.
    named: AtomicBool,
}

impl PlaceholderJournal {
    /// The placeholder of the database at a path.
    pub(crate) fn new(data: &Plain, side: &Plain, database: &Path) -> Self {
        let mut path = database.as_os_str().to_owned();
        path.push("-journal");
        let file = data.marker_file(&PathBuf::from(path));
        let (data, side) = (data.clone(), side.clone());
        Self {
            file,
            data,
            side,
            marked: AtomicU64::new(0),
            made: Mutex::new(None),
            named: AtomicBool::new(false),
        }
    }

    /// Notes that the marker is set, with the word that is raised before it is cleared; or that it is not set.
    pub(crate) fn note_marker(&self, cleared: Option<u64>) {
        self.marked.store(cleared.map_or(0, |cleared| cleared.wrapping_add(1)), Ordering::Relaxed);
    }

    /// A word of the side file.
    fn word(&self, at: u64) -> Option<u64> {
        self.side.load(Off::new(at), Ordering::Acquire).ok()
    }

    /// Returns whether the transaction's journal names a super-journal.
    pub(crate) fn is_named(&self) -> bool {
        self.named.load(Ordering::Relaxed)
    }

    fn ends(&self) -> std::result::Result<Option<FileEnds>, Failure> {
        Ok(self.file.ends(NAME_MAX + TRAILER_BYTES)?)
    }

    /// Returns whether there is a placeholder, whole or not, from any connection.
    pub(crate) fn is_there(&self) -> bool {
        self.ends().is_ok_and(|ends| ends.is_some_and(|ends| is_begun(&ends)))
    }

    fn made(&self) -> MutexGuard<'_, Option<Vec<u8>>> {
        // One assignment changes it.
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether this connection has created one and not removed it.
    pub(crate) fn is_made(&self) -> bool {
        self.made().is_some()
    }

    /// Removes this connection's placeholder: the transaction has ended. One that cannot be removed decides
    /// nothing any more; the next one replaces it, or the last close removes it. The caller holds the
    /// reserved lock, so that no other connection of this VFS creates its own, and keeps stock SQLite from
    /// beginning a journal.
    pub(crate) fn remove(&self) {
        self.named.store(false, Ordering::Relaxed);
        let mut made = self.made();
        let Some(name) = made.as_deref() else { return };
        let gone = match self.ends() {
            Ok(Some(ends)) if is_begun(&ends) => {
                let is_own = name_of_placeholder(&ends).is_none_or(|found| found == name);
                !is_own || self.file.remove().is_ok()
            }
            // One that stayed earlier may be gone, and another journal or placeholder may be in its place.
            ends => ends.is_ok(),
        };
        if gone {
            *made = None;
        }
    }

    /// Removes a placeholder that a dead process left, whole or not, and the super-journal, if that exists
    /// and no other journal names it. All parts are decided, so a failed removal does no harm. The caller
    /// keeps stock SQLite from beginning a journal there.
    pub(crate) fn remove_any(&self) {
        let Some(ends) = self.ends().ok().flatten().filter(is_begun) else { return };
        if self.file.remove().is_err() {
            return;
        }
        *self.made() = None;
        if let Some(name) = name_of_placeholder(&ends)
            && self.is_unnamed(name).unwrap_or(false)
        {
            let _ = self.data.marker_file(path_of(name)).remove();
        }
    }

    /// Returns whether a super-journal exists and none of the journals it lists names it. A journal whose folder is
    /// missing may name it.
    fn is_unnamed(&self, name: &[u8]) -> std::io::Result<bool> {
        let found = self.data.marker_file(path_of(name)).ends(SUPER_MAX)?;
        let Some(found) = found.filter(|found| found.bytes <= SUPER_MAX as u64) else {
            return Ok(false);
        };
        for journal in found.last.split(|byte| *byte == 0).filter(|journal| !journal.is_empty()) {
            let journal = self.data.marker_file(path_of(journal));
            if journal.is_there_in_folder()?.is_none() {
                return Ok(false);
            }
            let ends = journal.ends(NAME_MAX + TRAILER_BYTES)?;
            if ends.is_some_and(|ends| name_at_end(&ends.last) == Some(name)) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl SuperJournalNotice for PlaceholderJournal {
    fn publish(&self, super_journal: &[u8]) -> std::result::Result<(), Failure> {
        self.data.healthy().map_err(StoreError::from)?;
        if super_journal.len() > NAME_MAX {
            return Err(StoreError::LongName(super_journal.len()).into());
        }
        if decide(super_journal)? == Verdict::Apply {
            // Another VFS may keep its files elsewhere.
            return Err(Failure::Io("the super-journal of a transaction is no file".into()));
        }
        if let Some(ends) = self.ends()? {
            if name_at_end(&ends.last) == Some(super_journal) {
                // A VFS above has a journal file of its own.
                if name_of_placeholder(&ends).is_some() {
                    *self.made() = Some(super_journal.to_vec());
                }
                self.named.store(true, Ordering::Relaxed);
                return Ok(());
            }
            if ends.first.is_some_and(|first| first != 0) {
                return Err(Failure::Io("a journal of SQLite's is there".into()));
            }
        }
        // Set first: a failed write may leave a file.
        *self.made() = Some(super_journal.to_vec());
        self.announce_file(false);
        self.file.put(&placeholder_of(super_journal), self.data.access()?)?;
        self.announce_file(true);
        self.named.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn clear(&self) {
        self.named.store(false, Ordering::Relaxed);
    }

    fn announce_file(&self, is_created: bool) {
        let mut announced = self.word(JOURNALS_AT).unwrap_or(0);
        loop {
            // The next even number, or the next odd one. It is odd already after a process that died in between.
            let more = if announced.is_multiple_of(2) == is_created { 2 } else { 1 };
            let next = announced.wrapping_add(more);
            match self.side.cas(Off::new(JOURNALS_AT), announced, next) {
                Ok(_) => return,
                Err(found) => announced = found,
            }
        }
    }

    fn epoch(&self) -> Option<JournalEpoch> {
        let (tag, cleared) = (self.word(TAG_AT)?, self.word(CLEARED_AT)?);
        let announced = self.word(JOURNALS_AT)?;
        announced.is_multiple_of(2).then_some(JournalEpoch { tag, cleared, announced })
    }

    fn has_seen_marker(&self, cleared: u64) -> bool {
        self.marked.load(Ordering::Relaxed) == cleared.wrapping_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholder_names_super_journal_as_sqlites_journal_does() {
        let name = "/somewhere/päth/db-mj0123".as_bytes();
        let placeholder = placeholder_of(name);
        assert_eq!(name_at_end(&placeholder), Some(name));
        let ends = |bytes: &[u8]| FileEnds {
            first: bytes.first().copied(),
            last: bytes.to_vec(),
            bytes: bytes.len() as u64,
        };
        assert_eq!(name_of_placeholder(&ends(&placeholder)), Some(name));
        let journal = [&JOURNAL_MAGIC[..], &[0; 504], &placeholder].concat();
        assert_eq!(name_at_end(&journal), Some(name));
        assert_eq!(name_of_placeholder(&ends(&journal)), None);
        for at in 0..placeholder.len() {
            let mut damaged = placeholder.clone();
            damaged[at] ^= 1;
            let same = name_of_placeholder(&ends(&damaged)) == Some(name);
            assert_eq!(same, (1..ZEROS).contains(&at), "{at}");
            assert!(name_at_end(&placeholder[..at]).is_none());
        }
    }

    /// Removal is retried later, when stock SQLite may have its journal there, or another connection its
    /// placeholder.
    #[test]
    fn only_own_placeholder_is_removed() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = folder.path().join("db");
        let options = pm::PlainOptions {
            create: true,
            reserved_bytes: 1 << 20,
            ..pm::PlainOptions::default()
        };
        let [data, side] = ["db", "db-perdura"]
            .map(|name| Plain::open(&folder.path().join(name), &options).unwrap());
        side.grow(8192).unwrap();
        let placeholder = PlaceholderJournal::new(&data, &side, &path);
        let name = b"/dev/shm/db-mj01";
        for (bytes, stays) in [
            ([&JOURNAL_MAGIC[..], &[0; 504]].concat(), true),
            (vec![0; 512], true),
            (placeholder_of(b"/dev/shm/db-mj02"), true),
            (placeholder_of(name), false),
            (placeholder_of(name)[..9].to_vec(), false),
        ] {
            placeholder.file.put(&bytes, placeholder.data.access().unwrap()).unwrap();
            placeholder.remove();
            assert!(placeholder.file.is_there().unwrap(), "it has made none");
            *placeholder.made() = Some(name.to_vec());
            placeholder.remove();
            assert_eq!(
                (placeholder.file.is_there().unwrap(), placeholder.is_made()),
                (stays, false)
            );
        }
    }
}
