//! What can go wrong in an engine.

use index::IndexError;
use pm::Memory;
use storage::StorageError;
use storage::checkpoint::CheckpointError;
use storage::lsm::LsmError;
use storage::shadow::MasterError;
use storage::wal::WalError;

/// An operation of an engine failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The operation changed nothing; the transaction can go on or abort.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The write-ahead log failed.
    #[error(transparent)]
    Wal(#[from] WalError),
    /// A checkpoint could not be written or read.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The master record of a file of pages could not be written or read.
    #[error(transparent)]
    Master(#[from] MasterError),
    /// Runs or their manifest could not be read or written.
    #[error(transparent)]
    Lsm(LsmError),
    /// Files of the database could not be reached.
    #[error("the files of the database: {0}")]
    Files(#[from] std::io::Error),
    /// The pool belongs to a partition layout or engine that this one does not know.
    #[error("the pool has no `{what}`; it was not created by this engine, or is damaged")]
    Missing {
        /// What was looked for.
        what: String,
    },
    /// A part of the transaction could not be logged.
    #[error("the transaction could not be logged and can only be aborted")]
    MustAbort,
    /// An abort or a commit failed half-way: nothing more is acknowledged.
    #[error(
        "the partition stopped after a failure ({why}); close the database and open it again: recovery will bring it back to its last committed state"
    )]
    Stopped {
        /// What had failed.
        why: String,
    },
}

impl From<pm::Bad> for EngineError {
    fn from(bad: pm::Bad) -> Self {
        Self::Storage(bad.into())
    }
}

impl From<IndexError> for EngineError {
    fn from(error: IndexError) -> Self {
        match error {
            IndexError::Io(error) => Self::Files(error),
            other => Self::Storage(other.into()),
        }
    }
}

impl From<heap::HeapError> for EngineError {
    fn from(error: heap::HeapError) -> Self {
        Self::Storage(error.into())
    }
}

impl From<LsmError> for EngineError {
    fn from(error: LsmError) -> Self {
        match error {
            LsmError::Storage(error) => Self::Storage(error),
            other => Self::Lsm(other),
        }
    }
}

/// What `read` has found, unless the medium has failed by then: what it read may be anything, also
/// that there is nothing.
#[inline]
pub(crate) fn sound<M: Memory, T>(
    memory: &M,
    read: impl FnOnce() -> Result<T, EngineError>,
) -> Result<T, EngineError> {
    let found = read();
    memory.healthy()?;
    found
}
