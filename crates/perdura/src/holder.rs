//! The holder of a partition, for messages.

use std::fmt;

/// The holder of a partition that somebody has waited for in vain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Holder {
    /// A transaction that writes.
    Writer,
    /// Transactions that read.
    Readers,
    /// A call that copies or checks it, such as a backup.
    Copy,
    /// An owner: see [`crate::Partition::exclusive`].
    Owner,
    /// A step in the background.
    Background,
    /// Open transactions, in an engine that runs many at the same time: as many as there can be, or
    /// any where the whole partition was wanted.
    Transactions,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Writer => "a transaction that writes",
            Self::Readers => "transactions that read",
            Self::Copy => "a backup, a dump or a check",
            Self::Owner => "a thread that owns it",
            Self::Background => "a step in the background",
            Self::Transactions => "transactions that are open",
        })
    }
}
