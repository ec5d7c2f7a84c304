//! B-link trees over the pages of a pool (Lehman and Yao 1981; the root stays where it is).
//!
//! A page has a range of keys, from its low fence on and before its high one, and a link to the
//! page on its right, whose range begins there. So a page that was split is found from the page on
//! its left before its parent knows of it.
//!
//! Latch protocol:
//! 1. A descent holds one latch at a time. A thread that arrives at a page checks its tree, level
//!    and range; right of its range it follows the link, and if the page is another one by now it
//!    begins again at the root.
//! 2. A thread that holds a latch takes another one only in this order: parent before child, left
//!    before right, leaf before the pages of its long rows, those in the order of the row, and a
//!    map last. At most three pages of a tree are held at once, and by a scan the leaves without
//!    entries that it passes.
//! 3. A split is a system transaction of one record. Another one posts the separator in the parent.
//!    A crash, or a thread, may come between: a change that has followed a link posts what is
//!    missing. The thread that posts holds the parent and looks whether the page is still there.
//! 4. Two neighbours of one parent are merged with all three latched: the separator goes first, so
//!    that there is no moment, and no crash, in which a parent leads to a free page.
//! 5. A scan to the right holds the last leaf until the first key of the next one is permitted. The
//!    lock of a key protects the gap before it, but what has come into the gap before it was locked
//!    would be missed.
//! 6. Rows are copied while their page is latched. No code of a caller runs under a latch but a
//!    [`Permit`] or a [`ScanPermit`], which must not wait.
//!
//! Row locks come before all of it: see [`Permit`].

mod bulk;
mod descend;
mod ghost;
mod insert;
mod merge;
mod peek;
mod rest;
mod scan;
mod split;
mod undo;
mod update;

use pm::Files;

pub use insert::Inserted;
pub(crate) use rest::Leaves;
pub use scan::{BATCH_ROWS, Batch, Bound, Direction, Met, Permitted, Scan, ScanPermit};

use crate::change::{Body, Change};
use crate::ids::{PageNo, TreeNo};
use crate::latch::{Latching, Native};
use crate::layout::{entry_bytes, limit_entry, limit_key};
use crate::pool::Pool;
use crate::{PagedError, Result};

/// A question under a latch: what has to be waited for before a row may come before the one with
/// this key; `None` is the end of the tree. It tries a lock and does not wait. The answer `None` is
/// a yes. With any other one the call ends without a change; the caller waits and calls again.
pub type Permit<'a, W> = &'a mut dyn FnMut(Option<&[u8]>) -> Result<Option<W>>;

/// A tree.
#[derive(Debug)]
pub struct Tree<'a, F: Files, T: Latching = Native> {
    pub(crate) pool: &'a Pool<F, T>,
    /// Its number.
    pub number: TreeNo,
    /// Its root, which stays where it is.
    pub root: PageNo,
    /// The leaves of all trees, where the pages above them may be damaged.
    leaves: Option<&'a Leaves>,
    /// The leaf in which a change looks for its key before it descends.
    near: Option<PageNo>,
}

impl<F: Files, T: Latching> Clone for Tree<'_, F, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F: Files, T: Latching> Copy for Tree<'_, F, T> {}

impl<'a, F: Files, T: Latching> Tree<'a, F, T> {
    /// The tree of a number with its root at a page.
    #[must_use]
    pub fn new(pool: &'a Pool<F, T>, number: TreeNo, root: PageNo) -> Self {
        Self { pool, number, root, leaves: None, near: None }
    }

    /// The same tree, for a change of a key that is likely in this leaf: if it is, the change does
    /// without a descent.
    #[must_use]
    pub fn near(self, leaf: Option<PageNo>) -> Self {
        Self { near: leaf, ..self }
    }

    pub(crate) fn body<'c>(&self, change: Change<'c>) -> Body<'c> {
        Body { tree: self.number, change }
    }

    fn check_key(&self, key: &[u8]) -> Result<()> {
        let most = limit_key(self.pool.page_bytes());
        if key.len() > most {
            return Err(PagedError::TooLarge { what: "a key", bytes: key.len(), most });
        }
        Ok(())
    }

    /// Returns whether a row has to lie in a chain.
    fn is_long(&self, key: &[u8], row: &[u8]) -> bool {
        entry_bytes(key.len(), row.len()) > limit_entry(self.pool.page_bytes())
    }

    /// Returns a row.
    ///
    /// # Errors
    /// A page is damaged, the medium refuses, or all frames are in use.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut row = Vec::new();
        Ok(self.read(key, &mut row)?.0.then_some(row))
    }
}
