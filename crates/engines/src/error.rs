//! Errors of an engine.

use pm::Escaped;
use std::fmt;

use column::ColumnError;
use heap::HeapError;
use index::IndexError;
use paged::PagedError;
use pm::Memory;
use slotted::SlottedError;
use storage::StorageError;
use storage::checkpoint::CheckpointError;
use storage::lsm::LsmError;
use storage::shadow::MasterError;
use storage::wal::WalError;

use crate::transaction::TxId;

/// The ways in which two transactions came into each other's way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConflictReason {
    /// Each waited for the other.
    Deadlock,
    /// Both transactions changed the same tuple, or one would have overwritten what the other has
    /// changed.
    WriteWrite,
    /// Something that it had read was no longer so when it committed.
    Validation,
    /// The transaction had waited for a lock, for room in the log, or for another of the open ones to
    /// end, for as long as it was allowed to.
    Timeout,
}

impl fmt::Display for ConflictReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Deadlock => "each waited for the other",
            Self::WriteWrite => "both changed the same tuple",
            Self::Validation => "it had read what the other one changed",
            Self::Timeout => "it waited too long for the others to end: for a lock, for room in the log, or for its turn among the open transactions",
        })
    }
}

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
    /// Pages, locks or the log of a paged engine could not do it; the transaction can go on or abort.
    #[error("{0}{advice}", advice = advice(.0))]
    Paged(#[source] PagedError),
    /// A store of slotted pages cannot be as it was asked for.
    #[error(transparent)]
    Slotted(SlottedError),
    /// A column store could not do it; the transaction can go on or abort.
    #[error(transparent)]
    Column(ColumnError),
    /// Runs or their manifest could not be read or written.
    #[error(transparent)]
    Lsm(LsmError),
    /// Files of the database could not be reached.
    #[error("the files of the database: {text}", text = Escaped(.0))]
    Files(#[from] std::io::Error),
    /// A thread of the engine's own could not be started.
    #[error("a thread of the engine could not be started: {text}", text = Escaped(.0))]
    Thread(#[source] std::io::Error),
    /// The pool belongs to a partition layout or engine that this one does not know.
    #[error("the pool has no `{what}`; it was not created by this engine, or is damaged", what = Escaped(.what))]
    Missing {
        /// The thing that was looked for.
        what: String,
    },
    /// A part of the transaction could not be logged.
    #[error("the transaction could not be logged and can only be aborted")]
    MustAbort,
    /// The transaction came into the way of another one, and can only be aborted. A rerun may
    /// succeed.
    #[error("the transaction was in conflict with another one ({reason}); run it again")]
    Conflict {
        /// The way in which they conflicted.
        reason: ConflictReason,
    },
    /// No transaction of this number waits to be continued.
    #[error("no transaction {id} waits to be continued")]
    NotInFlight {
        /// The number.
        id: TxId,
    },
    /// Another open transaction has the name that this one was to have.
    #[error("an open transaction has this name")]
    NameTaken,
    /// A transaction that is run again from its start did something else the first time. It is open
    /// still: an abort leaves it to be continued.
    #[error("the transaction did something else before it was cut off; it waits to be continued")]
    Diverged,
    /// The engine does not have this.
    #[error("the engine has no {what}")]
    Unsupported {
        /// The thing that was asked for.
        what: &'static str,
    },
    /// A structure was to be placed that there is not.
    #[error("there is no structure `{name}` to be placed, only {known}{near}", name = Escaped(.name), known = Escaped(.known), near = Escaped(.near))]
    NoStructure {
        /// The name.
        name: String,
        /// The nearest name.
        near: String,
        /// The names that there are.
        known: String,
    },
    /// A savepoint is of another transaction, or later than one that was rolled back to.
    #[error("the savepoint is none of this transaction, or set after one that was rolled back to")]
    NoSavepoint,
    /// An abort or a commit failed half-way: nothing more is acknowledged.
    #[error(
        "the partition stopped after a failure ({why}); close the database and open it again: recovery will bring it back to its last committed state", why = Escaped(.why))]
    Stopped {
        /// The reason of the failure.
        why: String,
    },
}

/// The options that make a limit larger which was reached.
fn advice(error: &PagedError) -> &'static str {
    match error {
        PagedError::NoFrame { .. } => " (option `buffer_bytes`, at any opening)",
        PagedError::LogFull { medium: false, .. } => " (option `log_bytes`)",
        PagedError::TransactionTooLarge { .. } => {
            ", or have a larger log: option `log_bytes`, and with NV-Logging `log_entries`, when the database is created"
        }
        _ => "",
    }
}

impl EngineError {
    /// Returns whether there is no room in the pool.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, Self::Storage(StorageError::Heap(HeapError::Full(_))))
    }
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

/// Returns what `read` has found, unless the medium has failed by then: what it read may be
/// anything, also that there is nothing.
#[inline]
pub(crate) fn sound<M: Memory, T>(
    memory: &M,
    read: impl FnOnce() -> Result<T, EngineError>,
) -> Result<T, EngineError> {
    let found = read();
    memory.healthy()?;
    found
}
