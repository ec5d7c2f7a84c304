//! A file without a name, which goes when it is dropped: [`ScratchFile`].

use std::fs::{File, OpenOptions, remove_file};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use crate::random::random_uuid;

/// A file without a name.
///
/// ```
/// let file = pm::ScratchFile::create(&std::env::temp_dir()).unwrap();
/// file.write(4096, b"for a moment").unwrap();
/// let mut found = [7; 6];
/// file.read(4092, &mut found).unwrap();
/// assert_eq!(&found, b"\0\0\0\0fo");
/// ```
#[derive(Debug)]
pub struct ScratchFile(File);

impl ScratchFile {
    /// Makes an empty file in a folder.
    ///
    /// # Errors
    /// The folder may not be written to, or has no room.
    pub fn create(folder: &Path) -> io::Result<Self> {
        let mut opening = OpenOptions::new();
        opening.read(true).write(true).mode(0o600);
        match opening.custom_flags(libc::O_CLOEXEC | libc::O_TMPFILE).open(folder) {
            // Not every file system can.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR)) => {
                let name: String = random_uuid().iter().map(|byte| format!("{byte:02x}")).collect();
                let path = folder.join(format!(".perdura-{name}"));
                opening.custom_flags(libc::O_CLOEXEC | libc::O_NOFOLLOW).create_new(true);
                let file = opening.open(&path)?;
                remove_file(&path)?;
                Ok(Self(file))
            }
            opened => opened.map(Self),
        }
    }

    /// Writes bytes at `at`.
    ///
    /// # Errors
    /// There is no room.
    pub fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, at)
    }

    /// Reads bytes from `at` on.
    ///
    /// # Errors
    /// The file has not so many, or cannot be read.
    pub fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(out, at)
    }

    /// Truncates the file.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn cut(&self, to: u64) -> io::Result<()> {
        self.0.set_len(to)
    }
}
