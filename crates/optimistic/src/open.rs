//! An open transaction.

use std::collections::{HashMap, HashSet};

use engines::{Isolation, Savepoints};

use crate::value::{Change, Name, Scanned};

/// An open transaction.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) isolation: Isolation,
    /// The version of each key at the first look at it.
    pub(crate) reads: HashMap<Name, u64>,
    pub(crate) scans: Vec<Scanned>,
    pub(crate) writes: Vec<Change>,
    /// The keys of each write, concatenated.
    pub(crate) names: Vec<Name>,
    /// The keys that are written.
    pub(crate) written: HashSet<Name>,
    /// The number of writes at each savepoint.
    pub(crate) savepoints: Savepoints<usize>,
    /// All that was read was still so at this time.
    pub(crate) valid_at: u64,
    /// The transaction has seen that another tuple, whose key is unknown, has a value that must be
    /// unique: nothing may change any more.
    pub(crate) saw_another: bool,
    /// The transaction is one of the root, and there are no others meanwhile: its reads are not
    /// noted.
    pub(crate) is_alone: bool,
}

impl Open {
    pub(crate) fn new(isolation: Isolation, is_alone: bool) -> Self {
        let (reads, scans, writes) = (HashMap::new(), Vec::new(), Vec::new());
        let (names, written) = (Vec::new(), HashSet::new());
        let savepoints = Savepoints::default();
        let (valid_at, saw_another) = (0, false);
        Self {
            isolation,
            reads,
            scans,
            writes,
            names,
            written,
            savepoints,
            valid_at,
            saw_another,
            is_alone,
        }
    }
}
