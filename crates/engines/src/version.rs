//! A version of a partition that was given out for a read.

use storage::shadow::Directory;

/// A version that a [`VersionSource`](crate::VersionSource) has given out, and keeps until it is
/// given back.
#[derive(Debug)]
pub struct Version(Kept);

#[derive(Debug)]
enum Kept {
    Directory(Directory),
    /// The state below this place of the log.
    Below(u64),
}

const FOREIGN: &str = "a version is read by the source that has given it out";

impl Version {
    pub(crate) fn of(directory: Directory) -> Self {
        Self(Kept::Directory(directory))
    }

    pub(crate) fn below(horizon: u64) -> Self {
        Self(Kept::Below(horizon))
    }

    #[inline]
    pub(crate) fn directory(&self) -> &Directory {
        match &self.0 {
            Kept::Directory(directory) => directory,
            Kept::Below(_) => panic!("{FOREIGN}"),
        }
    }

    pub(crate) fn into_directory(self) -> Directory {
        match self.0 {
            Kept::Directory(directory) => directory,
            Kept::Below(_) => panic!("{FOREIGN}"),
        }
    }

    #[inline]
    pub(crate) fn horizon(&self) -> u64 {
        match self.0 {
            Kept::Below(horizon) => horizon,
            Kept::Directory(_) => panic!("{FOREIGN}"),
        }
    }
}
