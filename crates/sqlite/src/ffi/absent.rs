//! The journals that are known not to be there.
//!
//! SQLite asks for a journal's file, and a write-ahead log's, whenever it begins to read, and looking up a name that is
//! not there is most of what the kernel does in a transaction. A name that was not there is not there as long as its
//! folder is as it was: the time of the folder's last change says so.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use pm::{Folder, FolderTime, is_gone};

/// The ends of the names, behind that of the database.
pub(super) const ENDINGS: [&[u8]; 2] = [b"-journal", b"-wal"];

/// The knowledge of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Known {
    /// It is not there.
    Absent,
    /// It has to be looked for; if it is not there, [`AbsentJournals::note`] takes this.
    Ask(Option<FolderTime>),
}

/// The names beside one database, and when they were not there.
#[derive(Debug)]
pub(super) struct AbsentJournals {
    folder: Option<Folder>,
    since: [Option<FolderTime>; 2],
}

impl AbsentJournals {
    /// Those beside the database of a name, of none of which anything is known. Where its folder cannot be read that
    /// stays so.
    pub(super) fn of(database: &[u8]) -> Self {
        let folder = Path::new(OsStr::from_bytes(database)).parent().and_then(Folder::open);
        Self { folder, since: [None; 2] }
    }

    /// The knowledge of the name with an ending, by its place in [`ENDINGS`].
    pub(super) fn known(&self, ending: usize) -> Known {
        let Some(folder) = &self.folder else { return Known::Ask(None) };
        match folder.time() {
            Some(time) if self.since[ending] == Some(time) => Known::Absent,
            // The time before the look: what comes after it has another one.
            time => Known::Ask(time.filter(|_| folder.is_settled())),
        }
    }

    /// The name with this ending was not there behind the look at the folder.
    pub(super) fn note(&mut self, ending: usize, name: &[u8], looked: FolderTime) {
        // An empty file is none to SQLite, and can become one without a change of the folder.
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
