//! The ends of ranges, as the scans of a transaction have first seen them.
//!
//! Rows that come at the end of a range faster than a scan shows them would keep it from ever
//! getting there. So a scan that is longer than a batch notes the last key of its range. When it
//! passes that key, after which rows have then come, it locks the gap at the end of the range: from
//! then on transactions that insert there wait, and what is left is as much as came meanwhile. It
//! would have locked that gap as its last one; up to then it keeps no other transaction waiting
//! there.
//!
//! The ends are the transaction's, since an application may go through one range with many scans.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::Result;
use crate::ids::TreeNo;
use crate::tree::Direction;

/// A range, as far as its end goes: the tree, the way, and the bound there.
pub(super) type EndOf = (TreeNo, Direction, Option<Vec<u8>>);

/// The end of a range.
#[derive(Debug)]
pub(super) struct End {
    /// The last key; `None` if there was none.
    pub(super) last: Option<Vec<u8>>,
    /// The gap after it is locked.
    pub(super) is_locked: bool,
}

/// The ends that are known; see the module's comment.
#[derive(Debug, Default)]
pub(super) struct Ends(BTreeMap<EndOf, End>);

impl Ends {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// The end of a range, which is looked for if it is to be known from now on.
    pub(super) fn of(
        &mut self,
        range: EndOf,
        is_long: bool,
        last_key: impl FnOnce() -> Result<Option<Vec<u8>>>,
    ) -> Result<Option<&mut End>> {
        Ok(match self.0.entry(range) {
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(place) if is_long => {
                Some(place.insert(End { last: last_key()?, is_locked: false }))
            }
            Entry::Vacant(_) => None,
        })
    }
}
