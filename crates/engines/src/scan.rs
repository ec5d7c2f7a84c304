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
    /// The number of tuples after which the visitor breaks at the latest, if that is known: later
    /// tuples need not be looked at.
    pub limit: Option<usize>,
    /// The locks that it takes.
    pub locks: ScanLocks,
}

/// The locks of a scan in a transaction. Where one transaction at a time runs in a partition, all
/// of them are the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ScanLocks {
    /// The tuples shown are read.
    #[default]
    Read,
    /// The tuples shown are going to be changed: as [`crate::Write::get_for_update`].
    Update,
    /// The same, except that tuples which another open transaction has changed, or read to change
    /// them, are skipped and not waited for. So the tuples shown are committed and stay as they
    /// are, but there may be others.
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
