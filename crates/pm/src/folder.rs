//! A folder whose changes are noticed: by the time of the last one, which the kernel keeps.

use std::fs::{File, Metadata, symlink_metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::place::parent_of;

/// A folder that was changed so long ago is not changed again at the same time: the time that the kernel gives a
/// change is at most some milliseconds old, and a part of it is read in whole seconds here.
const SETTLED: Duration = Duration::from_secs(2);

/// The time of a folder's last change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FolderTime([i64; 4]);

/// A folder, open.
///
/// ```
/// let directory = std::env::temp_dir().join(format!("folder-{}", std::process::id()));
/// std::fs::create_dir(&directory).unwrap();
/// let folder = pm::Folder::open(&directory).unwrap();
/// let before = folder.time().unwrap();
/// assert!(!folder.is_settled(), "it has just been made");
/// assert_eq!(folder.time(), Some(before));
/// # std::fs::remove_dir(&directory).unwrap();
/// ```
#[derive(Debug)]
pub struct Folder(File);

impl Folder {
    /// Opens a folder; `None` if it cannot be read.
    pub fn open(path: &Path) -> Option<Self> {
        File::open(path)
            .ok()
            .filter(|file| file.metadata().is_ok_and(|found| found.is_dir()))
            .map(Self)
    }

    /// The time of its last change: of a name that was made, removed or given to another file.
    pub fn time(&self) -> Option<FolderTime> {
        self.0.metadata().ok().map(|found| {
            FolderTime([found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()])
        })
    }

    /// Returns whether the next change will have another time than the last one.
    pub fn is_settled(&self) -> bool {
        self.0.metadata().is_ok_and(|found| is_settled(&found))
    }
}

fn is_settled(folder: &Metadata) -> bool {
    [folder.mtime(), folder.ctime()].into_iter().all(|seconds| {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.max(0).cast_unsigned());
        SystemTime::now().duration_since(time).is_ok_and(|since| since > SETTLED)
    })
}

/// Makes durable the names in the folder that a path's last name is in. A folder that this process may use but
/// not read cannot be synced alone: all file systems are synced, which takes longer, and whose failures the
/// kernel does not report.
///
/// # Errors
/// The kernel could not, or there is no such folder.
pub(crate) fn sync_folder_of(path: &Path) -> io::Result<()> {
    match File::open(parent_of(path)) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            // SAFETY: a call without arguments, which always succeeds.
            unsafe { libc::sync() };
            Ok(())
        }
        opened => opened?.sync_all(),
    }
}

/// Returns whether there is no file of this name, not even a link that leads nowhere.
pub fn is_gone(path: &Path) -> bool {
    symlink_metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

#[cfg(test)]
mod tests {
    use std::fs::FileTimes;

    use super::*;

    #[test]
    fn each_change_gives_a_folder_another_time() {
        let directory = tempfile::tempdir().unwrap();
        let folder = Folder::open(directory.path()).unwrap();
        assert!(!folder.is_settled());
        let first = folder.time();
        let then = SystemTime::now() - Duration::from_secs(3600);
        File::open(directory.path())
            .unwrap()
            .set_times(FileTimes::new().set_modified(then))
            .unwrap();
        assert_ne!(folder.time(), first);
        assert!(!folder.is_settled(), "its times were changed now, whatever they say");
        let second = folder.time();
        std::fs::write(directory.path().join("file"), "").unwrap();
        assert_ne!(folder.time(), second);
        assert!(Folder::open(Path::new("/proc")).unwrap().time().is_some());
        assert!(Folder::open(&directory.path().join("file")).is_none(), "no folder");
        assert!(Folder::open(&directory.path().join("none")).is_none());
    }

    #[test]
    fn an_empty_file_and_a_link_to_nothing_are_not_gone() {
        let directory = tempfile::tempdir().unwrap();
        let name = directory.path().join("name");
        assert!(is_gone(&name));
        std::os::unix::fs::symlink("nowhere", &name).unwrap();
        assert!(!is_gone(&name));
        std::fs::remove_file(&name).unwrap();
        std::fs::write(&name, "").unwrap();
        assert!(!is_gone(&name));
    }
}
