//! Reasons why a database cannot be opened or a transaction committed.

use std::io::ErrorKind;

use pm::{Bad, Escaped, GrowError};

use crate::store::layout::{NAME_MAX, VERSION};

/// A reason why the store refuses a call.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no room.
    #[error("no room for the transaction: {0}")]
    Full(GrowError),
    /// The medium has failed, or the process was forked.
    #[error(transparent)]
    Bad(#[from] Bad),
    /// Out of memory for SQLite's writes.
    #[error("no memory for the transaction")]
    Memory,
    /// The marker is set, but there is no side file.
    #[error(
        "the database was not closed, and its side file, which holds the rest of it, is missing; put the file `-perdura` back next to it"
    )]
    SideMissing,
    /// The side file belongs to another database.
    #[error("the side file `-perdura` belongs to another database")]
    SideMismatch,
    /// A file of another program has the name of the side file.
    #[error(
        "the file `-perdura` next to the database is no side file; give it another name, or remove it"
    )]
    SideForeign,
    /// The side file cannot be read.
    #[error("the side file `-perdura` is damaged: {0}")]
    SideDamaged(&'static str),
    /// The side file has the format of another build.
    #[error(
        "the side file `-perdura` has the format {0}, and this build knows only {VERSION}; close the database with the build that made it"
    )]
    Version(u64),
    /// The file of a large transaction's pages fails.
    #[error("the file of the transaction's pages: {text}", text = Escaped(.0))]
    Scratch(std::io::Error),
    /// Page 1 is not in SQLite's form.
    #[error(
        "an extension of SQLite writes pages in a form of its own, as one that encrypts or makes checksums; make the database with SQLite's own VFS"
    )]
    Foreign,
    /// A commit is prepared and waits for other databases.
    #[error("a transaction over several databases has not ended")]
    Prepared,
    /// A commit is prepared, and its verdict is unknown.
    #[error(
        "a transaction over several databases was interrupted, and it is unknown whether `{text}` is there", text = Escaped(.0))]
    Undecided(String),
    /// The same, since the folder of the super-journal is missing.
    #[error(
        "a transaction over several databases was interrupted, and there is no folder in which `{text}` could be, which says whether it counts; mount the folder, or, if it is gone for good, make an empty one of that name: the transaction counts then", text = Escaped(.0))]
    FolderMissing(String),
    /// The name of a super-journal does not fit into the side file.
    #[error("the name of the super-journal has {0} bytes, {NAME_MAX} are possible")]
    LongName(usize),
    /// Pages have to move while SQLite reads some in place.
    #[error("a statement of this connection reads pages that have to move")]
    PagesInUse,
    /// The file is shorter than the committed database.
    #[error("the database file has been cut to {found} bytes; {wanted} are committed")]
    Cut {
        /// The bytes found.
        found: u64,
        /// The bytes expected.
        wanted: u64,
    },
}

impl StoreError {
    /// Returns whether a commit that fails with this before its mark has changed nothing.
    pub(crate) fn leaves_no_stores(&self) -> bool {
        matches!(self, Self::Full(_) | Self::Memory | Self::Scratch(_) | Self::PagesInUse)
    }
}

impl From<GrowError> for StoreError {
    fn from(error: GrowError) -> Self {
        match error {
            GrowError::Medium { source, .. } if source.kind() == ErrorKind::OutOfMemory => {
                Self::Memory
            }
            error => Self::Full(error),
        }
    }
}

/// From the file of a large transaction's pages.
impl From<std::io::Error> for StoreError {
    fn from(source: std::io::Error) -> Self {
        match source.kind() {
            ErrorKind::OutOfMemory => Self::Memory,
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                Self::Full(GrowError::Medium { wanted: 0, source })
            }
            _ => Self::Scratch(source),
        }
    }
}

/// The slot of an applied commit does not count.
pub(crate) const APPLIED_COMMIT_DAMAGED: StoreError = StoreError::SideDamaged(
    "a commit that was in place is missing from its slot, or some of its stores are missing",
);

/// A result of the store.
pub type Result<T> = std::result::Result<T, StoreError>;
