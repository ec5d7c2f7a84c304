//! Reads without locks: of what is below a horizon, where no page was changed since.
//!
//! Such a read takes no lock and waits for none. What it sees is a state between two transactions,
//! and durable: see [`crate::recovery::Horizon`]. Where it meets a page with a later change, by
//! whichever transaction, it fails with [`PagedError::TooOld`], and its caller reads all of it anew
//! under locks.

use pm::Files;

use super::Store;
use super::scan::{RowScan, Rows};
use crate::flaw::Flaw;
use crate::ids::{Lsn, TreeNo};
use crate::latch::{Latched, Latching};
use crate::recovery::horizon;
use crate::tree::{BATCH_ROWS, Batch, Met, Permitted};
use crate::{PagedError, Result};

impl<F: Files, T: Latched> Store<F, T> {
    /// The place in the log below which all is committed and durable, for a reader that begins now.
    #[inline]
    pub fn horizon(&self) -> Lsn {
        if T::Latching::has(Flaw::HorizonPastOpen) {
            return self.upkeep.log.end();
        }
        if T::Latching::has(Flaw::HorizonPastDurable) {
            return horizon::unfinished(&*self.upkeep.log, &self.upkeep.transactions);
        }
        self.horizon.get(&*self.upkeep.log, &self.upkeep.transactions)
    }

    fn check_leaves(&self) -> Result<()> {
        // Where pages are damaged, what is missing has to be looked for.
        if self.leaves.get().is_some() { Err(PagedError::TooOld) } else { Ok(()) }
    }

    /// Copies the row of a key, as it is below a horizon, into `row`, which has nothing else then.
    /// Returns whether there is one.
    ///
    /// # Errors
    /// [`PagedError::TooOld`], or a page cannot be read.
    pub fn read_below(
        &self,
        horizon: Lsn,
        tree: TreeNo,
        key: &[u8],
        row: &mut Vec<u8>,
    ) -> Result<bool> {
        self.check_leaves()?;
        self.tree(tree)?.read_below(horizon, key, row)
    }

    /// Copies the next rows of a scan without locks, as they are below a horizon: `most` at most,
    /// if that is known, and otherwise one at first and more each time; none only where the scan is
    /// done.
    ///
    /// # Errors
    /// As [`Self::read_below`].
    pub fn next_rows_below(
        &self,
        horizon: Lsn,
        scan: &mut RowScan,
        most: Option<usize>,
    ) -> Result<Rows> {
        self.check_leaves()?;
        let RowScan { tree, keys, direction, at, shown, done, .. } = scan;
        let Some(keys) = keys.as_ref().filter(|_| !*done) else { return Ok(Rows::new()) };
        let most = most.unwrap_or(*shown).clamp(1, BATCH_ROWS);
        let mut batch = Batch::default();
        at.below(horizon);
        let (mut ended, mut ghosts) = (false, 0);
        let mut permit = |met: Met<'_>| {
            if met.key().is_none_or(|key| keys.ends_before(key, *direction)) {
                ended = true;
                return Permitted::from(met == Met::End);
            }
            if matches!(met, Met::Row(_)) {
                return Permitted::Yes;
            }
            ghosts += 1;
            if ghosts > BATCH_ROWS { Permitted::No } else { Permitted::Skipped }
        };
        self.tree(*tree)?.next(at, &mut batch, most, &mut permit)?;
        if ghosts > BATCH_ROWS {
            // A scan under locks removes those that are not needed.
            return Err(PagedError::TooOld);
        }
        *done = ended || at.is_done();
        *shown += batch.rows.len();
        Ok(batch.rows)
    }
}
