//! The owner, the group and the mode of a file: [`FileAccess`].

use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};

/// The owner, the group and the mode of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileAccess {
    /// The number of its owner.
    pub owner: u32,
    /// The number of its group.
    pub group: u32,
    /// The access rights.
    pub mode: u32,
}

impl FileAccess {
    /// That of the file with this metadata.
    pub fn of(found: &Metadata) -> Self {
        Self { owner: found.uid(), group: found.gid(), mode: found.mode() & 0o777 }
    }

    /// Gives a file this access, as far as the kernel allows it: root gives files away, and their owners to other
    /// groups of theirs. A file with another name besides may be someone else's, and stays as it is.
    pub(crate) fn give(self, file: &File) -> io::Result<()> {
        let found = file.metadata()?;
        let old = Self::of(&found);
        if found.nlink() > 1 || old == self {
            return Ok(());
        }
        if (old.owner, old.group) != (self.owner, self.group)
            && fchown(file, Some(self.owner), Some(self.group)).is_err()
        {
            let _ = fchown(file, None, Some(self.group));
        }
        if old.mode != self.mode {
            let _ = file.set_permissions(Permissions::from_mode(self.mode));
        }
        Ok(())
    }
}
