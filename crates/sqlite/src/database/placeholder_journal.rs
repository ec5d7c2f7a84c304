//! The stub of a database: the file `-journal` beside it while a part of a transaction over several databases waits for
//! the others.
//!
//! SQLite commits such a transaction by removing the super-journal, and each database that rolls back removes it, too,
//! if no other one's journal names it. The journals of ours are in memory, so a stub names it to the others: from
//! before the journal does until the part is committed or given up, durably. Otherwise another database could remove
//! the super-journal and be rolled back, and this one, which finds it gone, be committed.
//!
//! A stub begins with zeros, so that SQLite takes it for no journal that is to be rolled back, and ends as one.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pm::{Beside, FileEnds, Memory as _, Plain};

use crate::database::contract::{Failure, SuperJournalNotice};
use crate::store::error::{Result, StoreError};
use crate::store::verdict::Verdict;

/// The first bytes of a journal of SQLite's, and the last ones of one that names a super-journal.
const JOURNAL_MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
/// Bytes behind the name: how long it is, a checksum, and the magic.
const TRAILER_BYTES: usize = 16;
/// The least bytes of a journal of SQLite's that is not empty.
const JOURNAL_BYTES_MIN: u64 = 512;
/// The zeros that a stub begins with.
const ZEROS: usize = 4;
/// The most bytes of a name that is looked for.
const NAME_MAX: usize = 4096;
/// The most bytes of a super-journal that is looked at.
const SUPER_MAX: usize = 1 << 20;

/// The name of the super-journal with which a journal ends, as SQLite reads it.
pub fn name_at_end(journal: &[u8]) -> Option<&[u8]> {
    let (rest, magic) = journal.split_last_chunk::<8>()?;
    let (rest, check) = rest.split_last_chunk::<4>()?;
    let (rest, bytes) = rest.split_last_chunk::<4>()?;
    let bytes = u32::from_be_bytes(*bytes) as usize;
    let name = &rest[rest.len().checked_sub(bytes)?..];
    let matches = *magic == JOURNAL_MAGIC && u32::from_be_bytes(*check) == check_of(name);
    (matches && !name.is_empty()).then_some(name)
}

/// SQLite's sum over a name, whose bytes have signs on most machines.
fn check_of(name: &[u8]) -> u32 {
    name.iter().fold(0, |sum, byte| sum.wrapping_add_signed((*byte as std::ffi::c_char).into()))
}

/// The bytes of a stub.
fn placeholder_of(name: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; ZEROS];
    bytes.extend_from_slice(name);
    bytes.extend((name.len() as u32).to_be_bytes());
    bytes.extend(check_of(name).to_be_bytes());
    bytes.extend(JOURNAL_MAGIC);
    bytes
}

/// Returns the name of a stub; `None` of another file.
fn name_of_placeholder(ends: &FileEnds) -> Option<&[u8]> {
    let name = name_at_end(&ends.last)?;
    let is_stub =
        ends.first == Some(0) && ends.bytes == (ZEROS + name.len() + TRAILER_BYTES) as u64;
    is_stub.then_some(name)
}

/// Returns whether a file is a stub, or the beginning of one. A journal of SQLite's that is as short has nothing in it.
fn is_begun(ends: &FileEnds) -> bool {
    let is_short = ends.first.is_none_or(|first| first == 0) && ends.bytes < JOURNAL_BYTES_MIN;
    is_short || name_of_placeholder(ends).is_some()
}

fn path_of(name: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(name))
}

/// Says whether a super-journal is gone.
///
/// # Errors
/// The kernel would not say.
pub(crate) fn decide(name: &[u8]) -> Result<Verdict> {
    let found = Beside::new(path_of(name), true).is_there();
    let there = found.map_err(|error| {
        StoreError::Undecided(format!("{}`: `{error}", String::from_utf8_lossy(name)))
    })?;
    Ok(if there { Verdict::Discard } else { Verdict::Apply })
}

/// The same for a recovery, which nobody decides anew: that it is gone is durable first. Whoever has removed it may have
/// died before that, and after a power cut it would be there again for another part of the transaction.
///
/// # Errors
/// As [`decide`], or the kernel does not make it durable.
pub(crate) fn decide_durably(name: &[u8]) -> Result<Verdict> {
    let verdict = decide(name)?;
    if verdict == Verdict::Apply {
        match Beside::new(path_of(name), true).sync_name() {
            // Its folder is gone with it.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            synced => synced.map_err(|error| {
                StoreError::Undecided(format!("{}`: `{error}", String::from_utf8_lossy(name)))
            })?,
        }
    }
    Ok(verdict)
}

/// The stub of one connection's database.
#[derive(Debug)]
pub(crate) struct PlaceholderJournal {
    file: Beside,
    data: Plain,
    /// The super-journal of the one that this connection has made, and not removed since.
    made: Mutex<Option<Vec<u8>>>,
    /// The transaction's journal names a super-journal.
    named: AtomicBool,
}

impl PlaceholderJournal {
    /// That of the database at a path.
    pub(crate) fn new(data: &Plain, database: &Path) -> Self {
        let mut path = database.as_os_str().to_owned();
        path.push("-journal");
        let file = data.beside(&PathBuf::from(path));
        Self { file, data: data.clone(), made: Mutex::new(None), named: AtomicBool::new(false) }
    }

    /// Returns whether the transaction's journal names a super-journal.
    pub(crate) fn is_named(&self) -> bool {
        self.named.load(Ordering::Relaxed)
    }

    fn ends(&self) -> std::result::Result<Option<FileEnds>, Failure> {
        Ok(self.file.ends(NAME_MAX + TRAILER_BYTES)?)
    }

    /// Returns whether there is one, whole or not, whoever has made it.
    pub(crate) fn is_there(&self) -> bool {
        self.ends().is_ok_and(|ends| ends.is_some_and(|ends| is_begun(&ends)))
    }

    fn made(&self) -> MutexGuard<'_, Option<Vec<u8>>> {
        // One assignment changes it.
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether this connection has made one, and not removed it since.
    pub(crate) fn is_made(&self) -> bool {
        self.made().is_some()
    }

    /// The transaction has ended: removes what this connection has made. One that the kernel does not let go decides
    /// nothing any more: the next one takes its place, or the last close removes it. The caller keeps others of ours from
    /// naming a super-journal between the look and the removal, by the reserved lock, and stock SQLite from beginning a
    /// journal there.
    pub(crate) fn remove(&self) {
        self.named.store(false, Ordering::Relaxed);
        let mut made = self.made();
        let Some(name) = made.as_deref() else { return };
        let gone = match self.ends() {
            Ok(Some(ends)) if is_begun(&ends) => {
                let is_own = name_of_placeholder(&ends).is_none_or(|found| found == name);
                !is_own || self.file.remove().is_ok()
            }
            // One that stayed may be gone since, and stock SQLite or another connection may have its own there.
            ends => ends.is_ok(),
        };
        if gone {
            *made = None;
        }
    }

    /// Removes one that somebody has left, or begun, and with it the super-journal, if that is there and no other
    /// journal names it. All has been decided: what the kernel does not let go stays. The caller keeps stock SQLite from
    /// beginning a journal there.
    pub(crate) fn remove_any(&self) {
        let Some(ends) = self.ends().ok().flatten().filter(is_begun) else { return };
        if self.file.remove().is_err() {
            return;
        }
        *self.made() = None;
        if let Some(name) = name_of_placeholder(&ends)
            && self.is_unnamed(name).unwrap_or(false)
        {
            let _ = self.data.beside(path_of(name)).remove();
        }
    }

    /// Returns whether a super-journal is there, and no journal that it lists names it.
    fn is_unnamed(&self, name: &[u8]) -> std::io::Result<bool> {
        let found = self.data.beside(path_of(name)).ends(SUPER_MAX)?;
        let Some(found) = found.filter(|found| found.bytes <= SUPER_MAX as u64) else {
            return Ok(false);
        };
        for journal in found.last.split(|byte| *byte == 0).filter(|journal| !journal.is_empty()) {
            let ends = self.data.beside(path_of(journal)).ends(NAME_MAX + TRAILER_BYTES)?;
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
            // Its VFS has files that are none here.
            return Err(Failure::Io("the super-journal of a transaction is no file".into()));
        }
        if let Some(ends) = self.ends()? {
            if name_at_end(&ends.last) == Some(super_journal) {
                // That of a VFS above has the journal itself.
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
        // Before it is there: what fails may leave something.
        *self.made() = Some(super_journal.to_vec());
        self.file.put(&placeholder_of(super_journal), self.data.mode()?)?;
        self.named.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn clear(&self) {
        self.named.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholder_names_super_journal_as_sqlites_journal_does() {
        let name = "/somewhere/päth/db-mj0123".as_bytes();
        let stub = placeholder_of(name);
        assert_eq!(name_at_end(&stub), Some(name));
        let ends = |bytes: &[u8]| FileEnds {
            first: bytes.first().copied(),
            last: bytes.to_vec(),
            bytes: bytes.len() as u64,
        };
        assert_eq!(name_of_placeholder(&ends(&stub)), Some(name));
        let journal = [&JOURNAL_MAGIC[..], &[0; 504], &stub].concat();
        assert_eq!(name_at_end(&journal), Some(name));
        assert_eq!(name_of_placeholder(&ends(&journal)), None);
        for at in 0..stub.len() {
            let mut damaged = stub.clone();
            damaged[at] ^= 1;
            let same = name_of_placeholder(&ends(&damaged)) == Some(name);
            assert_eq!(same, (1..ZEROS).contains(&at), "{at}");
            assert!(name_at_end(&stub[..at]).is_none());
        }
    }

    /// One that the kernel did not let go is tried again, when stock SQLite may have its journal in that place, or another
    /// connection its stub.
    #[test]
    fn only_own_placeholder_is_removed() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = folder.path().join("db");
        let options = pm::PlainOptions { create: true, ..pm::PlainOptions::default() };
        let stub = PlaceholderJournal::new(&Plain::open(&path, &options).unwrap(), &path);
        let name = b"/dev/shm/db-mj01";
        for (bytes, stays) in [
            ([&JOURNAL_MAGIC[..], &[0; 504]].concat(), true),
            (vec![0; 512], true),
            (placeholder_of(b"/dev/shm/db-mj02"), true),
            (placeholder_of(name), false),
            (placeholder_of(name)[..9].to_vec(), false),
        ] {
            stub.file.put(&bytes, 0o600).unwrap();
            stub.remove();
            assert!(stub.file.is_there().unwrap(), "it has made none");
            *stub.made() = Some(name.to_vec());
            stub.remove();
            assert_eq!((stub.file.is_there().unwrap(), stub.is_made()), (stays, false));
        }
    }
}
