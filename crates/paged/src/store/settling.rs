//! Rows whose space is given up later, because another transaction had locked them, or the gap
//! before them, when it could have been.
//!
//! 1. A row that cannot be settled is noted here, and its name is watched in the lock table.
//! 2. The session that lets go of the last lock of the name puts it among those that are free.
//! 3. Each transaction settles some of these at its end: as many as it has noted itself, and some
//!    more, so that they do not pile up. The background work settles the rest.
//!
//! A row that is noted has a lock, or is among the free ones, so there are as many as locks at
//! most, but for those for which the log has had no room: of these some are kept. A crash forgets
//! all of them: scans that pass ghosts remove them ([`crate::tree::Scan::sweep`]), and so does a
//! leaf that needs the space.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use pm::Files;

use crate::ids::TreeNo;
use crate::latch::Latching;
use crate::lock::{LockTable, Name};
use crate::pool::Pool;
use crate::threads::Threads;
use crate::{PagedError, Result};

/// Rows that a transaction settles for others at its end, in addition to as many as it has changed
/// itself.
pub(super) const SETTLED_FOR_OTHERS: usize = 64;
/// Rows that are noted at most although they are not locked.
const MOST_FREE: usize = 1 << 16;

/// The rows that are settled later; see the module's comment.
#[derive(Debug)]
pub(super) struct Unsettled<T: Threads> {
    locks: Arc<LockTable<T>>,
    keys: Mutex<HashMap<Name, (TreeNo, Vec<u8>)>>,
}

impl<T: Threads> Unsettled<T> {
    pub(super) fn new(locks: Arc<LockTable<T>>) -> Self {
        Self { locks, keys: Mutex::default() }
    }

    /// Gives up what a row holds back, or notes the row.
    pub(super) fn settle<F: Files, L: Latching>(
        &self,
        pool: &Pool<F, L>,
        tree: TreeNo,
        key: &[u8],
    ) -> Result<()> {
        let name = Name::row(tree, key);
        loop {
            match Self::try_to(pool, tree, key) {
                Ok(true) => return Ok(()),
                Ok(false) => {
                    self.keys.lock().insert(name, (tree, key.to_vec()));
                    if self.locks.watch(name) {
                        return Ok(());
                    }
                    // Its lock has gone meanwhile.
                    self.keys.lock().remove(&name);
                }
                Err(error) => {
                    let mut keys = self.keys.lock();
                    if keys.len() < MOST_FREE {
                        keys.insert(name, (tree, key.to_vec()));
                        self.locks.put_back([name]);
                    }
                    return Err(error);
                }
            }
        }
    }

    fn try_to<F: Files, L: Latching>(pool: &Pool<F, L>, tree: TreeNo, key: &[u8]) -> Result<bool> {
        let number = tree;
        let tree = pool.tree(number)?.ok_or(PagedError::NoTree { tree: number })?;
        tree.settle(key)
    }

    /// Settles up to so many rows whose locks have gone. Returns how many there were. After an
    /// error the rest is left for later.
    pub(super) fn settle_some<F: Files, L: Latching>(
        &self,
        pool: &Pool<F, L>,
        most: usize,
    ) -> Result<usize> {
        let freed = self.locks.take_freed(most);
        for (place, name) in freed.iter().enumerate() {
            let noted = self.keys.lock().remove(name);
            let Some((tree, key)) = noted else { continue };
            if let Err(error) = self.settle(pool, tree, &key) {
                self.locks.put_back(freed[place + 1..].iter().copied());
                return Err(error);
            }
        }
        Ok(freed.len())
    }
}
