//! Journals that are known to be absent.
//!
//! SQLite asks for a database's journal and write-ahead log whenever it begins to read. Looking up an absent name is
//! most of the kernel's work in a transaction. A name that was absent stays so while its folder is unchanged, and the
//! folder's modification time shows that. Within a [`Tick`] not even that is asked, if words in memory show that the
//! marker keeps stock SQLite out, and that no connection of this VFS has announced such a file since.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use pm::{Folder, FolderTime, Tick, is_gone};

use crate::database::JournalEpoch;

/// The suffixes of a database's journals.
pub(super) const ENDINGS: [&[u8]; 2] = [b"-journal", b"-wal"];

/// What is known about a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Known {
    /// The file is absent.
    Absent,
    /// The file has to be looked up. If it is absent, [`AbsentJournals::note`] takes this.
    Ask(Since),
}

/// The moment from which on a name may be known to be absent.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Since {
    time: Option<FolderTime>,
    epoch: Option<(JournalEpoch, Tick)>,
}

/// The journals of one database, and since when each is absent.
#[derive(Debug)]
pub(super) struct AbsentJournals {
    folder: Option<Folder>,
    since: [Since; 2],
}

impl AbsentJournals {
    /// The journals of the database of a name, nothing known yet. If the folder cannot be read, one is known within a tick
    /// only.
    pub(super) fn of(database: &[u8]) -> Self {
        let folder = Path::new(OsStr::from_bytes(database)).parent().and_then(Folder::open);
        Self { folder, since: [Since::default(); 2] }
    }

    /// Returns whether the journal with a suffix, by its index in [`ENDINGS`], is known to be absent in an epoch.
    pub(super) fn known(&mut self, ending: usize, epoch: Option<JournalEpoch>) -> Known {
        let since = &mut self.since[ending];
        let epoch = epoch.map(|epoch| (epoch, Tick::now()));
        if epoch.is_some() && epoch == since.epoch {
            return Known::Absent;
        }
        let Some(folder) = &self.folder else { return Known::Ask(Since { time: None, epoch }) };
        match folder.time() {
            Some(time) if since.time == Some(time) => {
                since.epoch = epoch;
                Known::Absent
            }
            // The time before the lookup: a later change has another one.
            time => Known::Ask(Since { time: time.filter(|_| folder.is_settled()), epoch }),
        }
    }

    /// Notes that a journal was absent at a moment that [`Self::known`] returned.
    pub(super) fn note(&mut self, ending: usize, name: &[u8], looked: Since) {
        // SQLite ignores an empty file, which can be filled without changing the folder.
        if is_gone(Path::new(OsStr::from_bytes(name))) {
            self.since[ending] = looked;
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
        let nothing = Known::Ask(Since::default());
        assert_eq!(absent.known(0, None), nothing, "the folder has just been made");
        let now = || Since { time: Folder::open(directory.path()).unwrap().time(), epoch: None };
        absent.note(0, bytes(&name), now());
        assert_eq!((absent.known(0, None), absent.known(1, None)), (Known::Absent, nothing));
        std::os::unix::fs::symlink("nowhere", &name).unwrap();
        assert_eq!(absent.known(0, None), nothing, "another time");
        absent.note(0, bytes(&name), now());
        assert_eq!(absent.known(0, None), nothing, "something is there");
        assert_eq!(AbsentJournals::of(b"/there/is/none/db").known(0, None), nothing);
    }

    #[test]
    fn absence_lasts_for_a_tick_or_until_a_file_is_announced() {
        let directory = tempfile::tempdir().unwrap();
        let (database, name) = (directory.path().join("db"), directory.path().join("db-journal"));
        let mut absent = AbsentJournals::of(bytes(&database));
        let first = JournalEpoch { tag: 1, cleared: 2, announced: 3 };
        let others = [
            JournalEpoch { tag: 9, ..first },
            JournalEpoch { cleared: 9, ..first },
            JournalEpoch { announced: 9, ..first },
        ];
        // The folder's time is not asked for within the tick. Another one may begin at any moment.
        let is_absent = |absent: &mut AbsentJournals, epoch| {
            let epoch_now = |epoch: JournalEpoch| Some((epoch, Tick::now()));
            (0..100).any(|_| {
                absent.since[0] = Since { time: None, epoch: epoch_now(first) };
                absent.known(0, epoch) == Known::Absent
            })
        };
        assert!(is_absent(&mut absent, Some(first)));
        for epoch in others.map(Some).into_iter().chain([None]) {
            assert!(!is_absent(&mut absent, epoch), "{epoch:?}");
        }
        let then = Tick::now();
        absent.note(0, bytes(&name), Since { time: None, epoch: Some((first, then)) });
        then.wait_for_next();
        assert!(matches!(absent.known(0, Some(first)), Known::Ask(_)));
    }
}
