//! Journals that are known to be absent.
//!
//! SQLite asks for a database's journal and write-ahead log whenever it begins to read. Looking up an absent name is
//! most of the kernel's work in a transaction. A name that was absent stays so while its folder is unchanged, and the
//! folder's modification time shows that.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use pm::{Folder, FolderTime, is_gone};

/// The suffixes of a database's journals.
pub(super) const ENDINGS: [&[u8]; 2] = [b"-journal", b"-wal"];

/// What is known about a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Known {
    /// The file is absent.
    Absent,
    /// The file has to be looked up. If it is absent, [`AbsentJournals::note`] takes this time.
    Ask(Option<FolderTime>),
}

/// The journals of one database and the folder's time when each was absent.
#[derive(Debug)]
pub(super) struct AbsentJournals {
    folder: Option<Folder>,
    since: [Option<FolderTime>; 2],
}

impl AbsentJournals {
    /// The journals of the database of a name, nothing known yet. If the folder cannot be read, nothing ever is.
    pub(super) fn of(database: &[u8]) -> Self {
        let folder = Path::new(OsStr::from_bytes(database)).parent().and_then(Folder::open);
        Self { folder, since: [None; 2] }
    }

    /// What is known about the journal with a suffix, by its index in [`ENDINGS`].
    pub(super) fn known(&self, ending: usize) -> Known {
        let Some(folder) = &self.folder else { return Known::Ask(None) };
        match folder.time() {
            Some(time) if self.since[ending] == Some(time) => Known::Absent,
            // The time before the lookup: a later change has another one.
            time => Known::Ask(time.filter(|_| folder.is_settled())),
        }
    }

    /// Notes that a journal was absent when its folder had this time.
    pub(super) fn note(&mut self, ending: usize, name: &[u8], looked: FolderTime) {
        // SQLite ignores an empty file, which can be filled without changing the folder.
        if is_gone(Path::new(OsStr::from_bytes(name))) {
            self.since[ending] = Some(looked);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(path: &Path) -> &[u8] {
        path.as_os_str().as_bytes()
    }

    #[test]
    fn absence_is_forgotten_when_the_folder_changes() {
        let directory = tempfile::tempdir().unwrap();
        let (database, name) = (directory.path().join("db"), directory.path().join("db-journal"));
        let mut absent = AbsentJournals::of(bytes(&database));
        assert_eq!(absent.known(0), Known::Ask(None), "the folder has just been made");
        let time = || Folder::open(directory.path()).unwrap().time().unwrap();
        absent.note(0, bytes(&name), time());
        assert_eq!((absent.known(0), absent.known(1)), (Known::Absent, Known::Ask(None)));
        std::os::unix::fs::symlink("nowhere", &name).unwrap();
        assert_eq!(absent.known(0), Known::Ask(None), "another time");
        absent.note(0, bytes(&name), time());
        assert_eq!(absent.known(0), Known::Ask(None), "something is there");
        assert_eq!(AbsentJournals::of(b"/there/is/none/db").known(0), Known::Ask(None));
    }
}
