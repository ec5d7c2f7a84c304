//! A scan, as engines take it.

use std::ops::Bound;

use index::Direction;
use storage::Value;

/// A scan: over which index, from where to where, which way.
#[derive(Clone, Copy, Debug)]
pub struct Scan<'a> {
    /// A secondary index, or the primary key.
    pub index: Option<usize>,
    /// The lower bound; it may give only the first columns of the key.
    pub low: Bound<&'a [Value<'a>]>,
    /// The upper bound, likewise.
    pub high: Bound<&'a [Value<'a>]>,
    /// The direction of the scan.
    pub direction: Direction,
    /// The columns to copy; all if `None`.
    pub columns: Option<&'a [u16]>,
    /// The number of tuples behind which the visitor breaks at the latest, if that is known: what comes
    /// behind them need not be looked at.
    pub limit: Option<usize>,
    /// The locks that it takes.
    pub locks: ScanLocks,
}

/// The locks of a scan in a transaction. Where one transaction at a time runs in a partition, all of them
/// are the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ScanLocks {
    /// What is shown is read.
    #[default]
    Read,
    /// What is shown is going to be changed: as [`crate::Write::get_for_update`].
    Update,
    /// The same of tuples that no other open transaction has changed, or read to change them. Those are
    /// passed over, and not waited for. So what is shown is committed and stays as it is, but there may be
    /// more than what is shown.
    UpdateOrSkip,
}

impl Scan<'_> {
    /// All tuples in the order of the primary key.
    pub const ALL: Self = Self {
        index: None,
        low: Bound::Unbounded,
        high: Bound::Unbounded,
        direction: Direction::Forward,
        columns: None,
        limit: None,
        locks: ScanLocks::Read,
    };
}
