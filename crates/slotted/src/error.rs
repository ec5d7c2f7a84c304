//! Errors of the store.

use heap::HeapError;
use pm::Bad;

/// An operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SlottedError {
    /// A key or a value has more bytes than fit.
    #[error("a {what} of {bytes} bytes is too large: at most {most}")]
    TooLarge {
        /// The thing that is too large.
        what: &'static str,
        /// Its bytes.
        bytes: u64,
        /// The largest possible.
        most: u64,
    },
    /// The store was asked for with impossible parameters.
    #[error("a store of slotted pages cannot have {what}")]
    Options {
        /// The thing that is impossible.
        what: String,
    },
    /// An operation of the transaction has failed halfway: it can only be aborted.
    #[error("an operation of this transaction failed halfway; it can only be aborted")]
    Failed,
    /// A savepoint that was asked for is void, or of another transaction.
    #[error("there is no such savepoint in this transaction")]
    NoSavepoint,
    /// The memory is full, or holds something impossible.
    #[error(transparent)]
    Heap(#[from] HeapError),
}

impl From<Bad> for SlottedError {
    fn from(bad: Bad) -> Self {
        Self::Heap(HeapError::Bad(bad))
    }
}
