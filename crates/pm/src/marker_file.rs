//! A small file in the directory of a mapped one: [`MarkerFile`]. Its existence is the message to
//! other processes, so its name is made durable, and its bytes before the name.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;

use crate::file_access::FileAccess;
use crate::folder::sync_folder_of;
use crate::place::{open_directory, parent_of};

/// The first and the last bytes of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileEnds {
    /// The first byte, if there is one.
    pub first: Option<u8>,
    /// Its last bytes, as many as were asked for or there are.
    pub last: Vec<u8>,
    /// Its length in bytes.
    pub bytes: u64,
}

/// A file by its name, which need not be there.
///
/// ```
/// use pm::MarkerFile;
/// let path = std::env::temp_dir().join(format!("marker-{}", std::process::id()));
/// let file = MarkerFile::new(&path, true);
/// let own = pm::FileAccess::of(&std::fs::metadata("/proc/self").unwrap());
/// file.put(b"here", pm::FileAccess { mode: 0o600, ..own }).unwrap();
/// assert_eq!(file.ends(2).unwrap().unwrap().last, b"re");
/// file.remove().unwrap();
/// assert_eq!(file.ends(2).unwrap(), None);
/// ```
#[derive(Clone, Debug)]
pub struct MarkerFile {
    path: PathBuf,
    outlives: bool,
}

impl MarkerFile {
    /// The file of a name. It is synced only if its medium `outlives` the machine's memory.
    pub fn new(path: &Path, outlives: bool) -> Self {
        Self { path: path.to_owned(), outlives }
    }

    /// The file's name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the file durable with these bytes and this access, and replaces one that exists. If
    /// that fails, the file is removed, as far as the kernel allows it.
    ///
    /// # Errors
    /// The kernel refuses, or there is no room.
    pub fn put(&self, bytes: &[u8], access: FileAccess) -> io::Result<()> {
        let written = self.write(bytes, access).and_then(|()| self.sync_name());
        if written.is_err() {
            let _ = self.remove();
        }
        written
    }

    fn write(&self, bytes: &[u8], access: FileAccess) -> io::Result<()> {
        let mut opening = OpenOptions::new();
        opening.write(true).create(true).truncate(true).mode(access.mode);
        let mut file = opening.custom_flags(libc::O_CLOEXEC | libc::O_NOFOLLOW).open(&self.path)?;
        // Not what the process's mask leaves of the rights.
        access.give(&file)?;
        file.write_all(bytes)?;
        if self.outlives { file.sync_all() } else { Ok(()) }
    }

    /// Its ends, with at most `most` of its last bytes; `None` if it is not there.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn ends(&self, most: usize) -> io::Result<Option<FileEnds>> {
        let mut opening = OpenOptions::new();
        opening.read(true).custom_flags(libc::O_CLOEXEC | libc::O_NOFOLLOW | libc::O_NONBLOCK);
        let mut file = match opening.open(&self.path) {
            Err(error) if is_absent(&error) => return Ok(None),
            opened => opened?,
        };
        let bytes = file.metadata()?.len();
        let mut first = Vec::new();
        (&mut file).take(1).read_to_end(&mut first)?;
        file.seek(SeekFrom::Start(bytes.saturating_sub(most as u64)))?;
        let mut last = Vec::new();
        file.take(most as u64).read_to_end(&mut last)?;
        Ok(Some(FileEnds { first: first.first().copied(), last, bytes }))
    }

    /// Returns whether it is there, as SQLite takes it: an empty file is none.
    ///
    /// # Errors
    /// The kernel would not say.
    pub fn is_there(&self) -> io::Result<bool> {
        match std::fs::metadata(&self.path) {
            Ok(found) => Ok(!found.is_file() || found.len() > 0),
            Err(error) if is_absent(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// As [`Self::is_there`]; `None` if its folder is not there: it may be on a medium that is not mounted.
    ///
    /// # Errors
    /// The kernel would not say.
    pub fn is_there_in_folder(&self) -> io::Result<Option<bool>> {
        let Some(name) = self.path.file_name() else {
            return Err(io::Error::new(ErrorKind::InvalidInput, "is no name of a file"));
        };
        // Both answers are of one folder, whatever is mounted meanwhile.
        let folder = match open_directory(None, parent_of(&self.path)) {
            Err(error) if is_absent(&error) => return Ok(None),
            opened => opened?,
        };
        match rustix::fs::statat(&folder, name, AtFlags::empty()) {
            Ok(found) => {
                let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
                Ok(Some(!is_file || found.st_size > 0))
            }
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(Some(false)),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes it, durably, if it is there.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn remove(&self) -> io::Result<()> {
        match std::fs::remove_file(&self.path) {
            Err(error) if is_absent(&error) => Ok(()),
            removed => removed.and_then(|()| self.sync_name()),
        }
    }

    /// Makes durable whether there is a file of this name. If its folder may not be read, all file systems are
    /// synced, which takes longer.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn sync_name(&self) -> io::Result<()> {
        if self.outlives { sync_folder_of(&self.path) } else { Ok(()) }
    }
}

/// Returns whether an error says that there is no such file.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}
