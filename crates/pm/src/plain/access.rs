//! The owner, the group and the mode of the file of a [`Plain`].

use std::io;
use std::os::unix::fs::MetadataExt;

use super::Plain;
use crate::file_access::FileAccess;

impl Plain {
    /// The owner, the group and the mode of the file.
    ///
    /// # Errors
    /// The kernel would not say.
    pub fn access(&self) -> io::Result<FileAccess> {
        Ok(FileAccess::of(&self.0.file.get().metadata()?))
    }

    /// Gives the file this access, as far as the kernel allows it. A file with another name besides stays as it is.
    ///
    /// # Errors
    /// The kernel does not say who may use it.
    pub fn give(&self, access: FileAccess) -> io::Result<()> {
        access.give(self.0.file.get())
    }

    /// The access rights of the file.
    ///
    /// # Errors
    /// The kernel would not say.
    pub fn mode(&self) -> io::Result<u32> {
        Ok(self.0.file.get().metadata()?.mode() & 0o777)
    }
}
