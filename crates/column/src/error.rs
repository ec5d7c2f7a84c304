//! Errors of the store.

use heap::HeapError;
use pm::Bad;
use pm::Escaped;

/// An operation failed. The transaction is as it was before it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ColumnError {
    /// Another transaction has changed the row, and is open or has committed after this one began.
    #[error("another transaction has changed the row; run this one again")]
    Conflict,
    /// Another transaction has changed what this serializable one has read, and has committed first.
    #[error("another transaction has changed what this one has read; run this one again")]
    Outdated,
    /// A crash has cut off a serializable transaction, and what it has read is not known any more.
    #[error(
        "what the serializable transaction has read is not known any more: run it from its start, or roll it back"
    )]
    Forgotten,
    /// There is a row with this key.
    #[error("there is a row with this key")]
    DuplicateKey,
    /// There is no row with this key.
    #[error("there is no row with this key")]
    MissingKey,
    /// There are as many transactions as there are slots.
    #[error(
        "{slots} transactions are open, as many as the store was created for: end one, or create it with more"
    )]
    Busy {
        /// The number of slots.
        slots: u32,
    },
    /// An open transaction has this name.
    #[error("an open transaction has this name")]
    NameTaken,
    /// No transaction in flight has this number.
    #[error("no transaction in flight has this number")]
    NotInFlight,
    /// A transaction that is replayed did something else the first time.
    #[error("the transaction did something else before it was cut off")]
    Diverged,
    /// The session has, or does not have, a transaction.
    #[error("{what}")]
    State {
        /// The thing that is not as it has to be.
        what: &'static str,
    },
    /// A value, a row or a name does not fit.
    #[error("{what} does not fit")]
    Unfit {
        /// The thing that does not fit.
        what: &'static str,
    },
    /// The store was asked for with impossible parameters.
    #[error("a column store cannot have {what}", what = Escaped(.what))]
    Options {
        /// The thing that is impossible.
        what: String,
    },
    /// The store was written by another version of the format.
    #[error(
        "the column store has format version {found}; this build reads version {supported}; {}",
        if found > supported {
            "use a newer build"
        } else {
            "carry it over: `perdura pool dump` with the build that wrote it, `perdura pool load` with this one"
        }
    )]
    Version {
        /// The version in the master.
        found: u32,
        /// The version that this build reads.
        supported: u32,
    },
    /// The memory is full, or holds something impossible.
    #[error(transparent)]
    Heap(#[from] HeapError),
}

impl From<Bad> for ColumnError {
    fn from(bad: Bad) -> Self {
        Self::Heap(HeapError::Bad(bad))
    }
}
