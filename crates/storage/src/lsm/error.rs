//! Errors of the runs of a log-structured engine.

use pm::Escaped;
use std::io;

use pm::Bad;

use crate::error::StorageError;
use crate::logs::segments::is_full;

/// Runs or their manifest could not be read or written. Whatever a transaction had committed is
/// as durable as before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LsmError {
    /// The kernel refused.
    #[error("cannot {doing} {name}: {source}", name = Escaped(.name), source = Escaped(.source))]
    Io {
        /// The thing that was tried.
        doing: &'static str,
        /// The file.
        name: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The file's bytes are not what they must be.
    #[error("{name} is damaged at byte {at}: {what}; restore a backup", name = Escaped(.name))]
    Damaged {
        /// The file.
        name: String,
        /// The place, in bytes.
        at: u64,
        /// The fault.
        what: &'static str,
    },
    /// A file that the manifest names is not there.
    #[error(
        "{name} is missing: the manifest names it, and the tuples in it are lost; restore a backup", name = Escaped(.name))]
    Missing {
        /// The file.
        name: String,
    },
    /// A file is there, but it is another than the one that the manifest names.
    #[error("{name} is not the file that the manifest names ({what}); restore a backup", name = Escaped(.name))]
    Foreign {
        /// The file.
        name: String,
        /// The way in which that shows.
        what: &'static str,
    },
    /// The directory has no manifest: nothing says which runs count.
    #[error("{name} is missing: nothing says which runs belong to the database; restore a backup", name = Escaped(.name))]
    NoManifest {
        /// The manifest's file.
        name: String,
    },
    /// The file is of another version of the format.
    #[error("{name} has format version {found}; this build reads version {supported}", name = Escaped(.name))]
    Version {
        /// The file.
        name: String,
        /// Its version.
        found: u32,
        /// The version that this build reads.
        supported: u32,
    },
    /// Entries of a tuple that cannot follow upon each other.
    #[error("the runs are damaged: they have {0}; restore a backup")]
    Entries(#[from] super::change::NoWhole),
    /// A sync of the manifest failed.
    #[error("a sync of the manifest failed earlier; which runs count is unknown")]
    Poisoned,
    /// Volatile memory is full or damaged, or values are wrong.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl LsmError {
    pub(crate) fn io(doing: &'static str, name: &str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, name: name.into(), source }
    }

    /// Returns whether a medium has no room.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Io { source, .. } if is_full(source))
    }

    pub(crate) fn damaged(name: &str, at: u64, what: &'static str) -> Self {
        Self::Damaged { name: name.into(), at, what }
    }
}

impl From<Bad> for LsmError {
    fn from(bad: Bad) -> Self {
        Self::Storage(bad.into())
    }
}

impl From<heap::HeapError> for LsmError {
    fn from(error: heap::HeapError) -> Self {
        Self::Storage(error.into())
    }
}

impl From<index::IndexError> for LsmError {
    fn from(error: index::IndexError) -> Self {
        Self::Storage(error.into())
    }
}
