//! Owner and mode of new files: a database that one user keeps is sometimes opened by root.

use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::{fs, io};

/// Owner and mode of the files in a directory, where they are not what the kernel gives them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ownership {
    uid: u32,
    gid: u32,
    mode: u32,
}

impl Ownership {
    /// Returns the ownership of new files in a directory: its owner and group, and the read and
    /// write bits of its mode. `None` if that is what the kernel gives them.
    pub(super) fn of(directory: &fs::File) -> io::Result<Option<Self>> {
        let meta = directory.metadata()?;
        let ownership = Self { uid: meta.uid(), gid: meta.gid(), mode: meta.mode() & 0o666 };
        let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let usual = (ownership.uid, ownership.gid) == own && ownership.mode == 0o600;
        Ok((!usual).then_some(ownership))
    }

    /// Gives a new file its owner, where this process may do so, and its mode.
    pub(super) fn give(self, file: &fs::File) -> io::Result<()> {
        // A user who is not root may give it a group of their own at most; and the root of a user
        // namespace cannot give it to a user who is not in there. It stays as the kernel made it.
        let _ = fchown(file, Some(self.uid), Some(self.gid))
            .or_else(|_| fchown(file, None, Some(self.gid)));
        file.set_permissions(fs::Permissions::from_mode(self.mode | 0o600))
    }
}
