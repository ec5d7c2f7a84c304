//! Errors of the allocator.

use pm::Escaped;
use pm::{Bad, GrowError};

/// An allocation, a name or the opening of a heap failed. Nothing has changed then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeapError {
    /// The memory cannot grow.
    #[error(transparent)]
    Full(#[from] GrowError),
    /// The object is larger than any slot.
    #[error("an object of {bytes} bytes is too large: at most {max}")]
    TooLarge {
        /// Bytes asked for.
        bytes: u64,
        /// Bytes of the largest slot.
        max: u64,
    },
    /// The medium holds something impossible.
    #[error(transparent)]
    Bad(#[from] Bad),
    /// All lanes that there can be have been handed out.
    #[error(
        "{max} sessions allocate in the pool already, the most that it can have: end some of them"
    )]
    NoLaneLeft {
        /// The most lanes that there can be, the fixed ones among them.
        max: u32,
    },
    /// All entries of the root directory are taken.
    #[error("the root directory is full: at most {max} names")]
    NamesFull {
        /// The most names that there can be.
        max: usize,
    },
    /// A name is empty or too long.
    #[error("`{name}` is no name for a root: 1 to {max} bytes", name = Escaped(.name))]
    BadName {
        /// The name.
        name: String,
        /// Longest possible name in bytes.
        max: usize,
    },
    /// The memory was never made a heap, or making it one was cut off.
    #[error("there is no heap in it")]
    Unformatted,
    /// The heap was asked for with impossible parameters.
    #[error("a heap cannot have {what}")]
    Options {
        /// The thing that is impossible.
        what: String,
    },
}
