//! Transactions over several databases: a commit that is durable, and that counts once a file is gone.
//!
//! SQLite writes the names of all journals into a *super-journal*, lets each database make its part durable, and
//! removes that file: this commits. A part of ours is *prepared*:
//!
//! 1. Settle: no slot counts. The number that the commit will have, and the name of the super-journal, are stored
//!    in the side file. Flush; **fence**.
//! 2. Log the commit, as step 2 of any other one ([`crate::store::connection`]). *Prepared.* It is not put in its
//!    place; another one has begun, so nobody else takes the database as it is.
//! 3. With the super-journal gone: step 3, and settle. The slot does not count any more: a file that has the same
//!    name some day says nothing about it.
//! 4. If it is given up instead: its number is settled, and nothing of it is stored. **Fence.**
//!
//! In each mode ([`crate::store::mode`]) a part is logged and put in its place in this way.
//!
//! Recovery finds a slot that counts and has the number of 1. While the super-journal is there it is as if the slot
//! did not count, and its number is settled, so that no other commit has it. Without the file the slot counts.

use pm::Memory;

use crate::store::connection::{Lines, Store};
use crate::store::deferred_flush::Unflushed;
use crate::store::error::{Result, StoreError};
use crate::store::plan::{PreparedCommit, Work};
use crate::store::slot::Logged;

impl<M: Memory> Store<M> {
    /// Makes durable what is staged, without committing it: that is for [`Self::commit_prepared`], once the super-journal of
    /// this name is gone. Until then it stays staged. The caller has the database to himself.
    ///
    /// # Errors
    /// There is no room, the name is too long, or the medium fails. Nothing is prepared then.
    pub fn prepare_for(&mut self, name: &[u8]) -> Result<()> {
        if self.prepared.is_some() {
            return Err(StoreError::Prepared);
        }
        if self.stage.is_empty() {
            return Ok(());
        }
        self.side.check_name(name)?;
        let (size, work) = self.begin(false)?;
        let number = self.last + 1;
        if !matches!(work, Work::Counters(_)) {
            self.checkpoint_slots()?;
            let mut lines = Lines::default();
            self.side.set_prepared(number, name, &mut lines.side);
            self.fence(&mut lines);
            self.healthy()?;
        }
        // All that was stored is settled: nothing is left to be flushed behind these.
        match &work {
            Work::Counters(_) => {}
            Work::Pages(plan) => drop(self.record_pages(size, plan)?),
            Work::Bytes(frames, _) => drop(self.record_bytes(size, frames)?),
        }
        let name = name.to_vec();
        self.prepared = Some(PreparedCommit { number, size, work, name, touched: false });
        Ok(())
    }

    /// Returns whether a commit is prepared.
    pub fn is_prepared(&self) -> bool {
        self.prepared.is_some()
    }

    /// The name of the super-journal of the commit that is prepared.
    pub fn prepared_for(&self) -> Option<&[u8]> {
        self.prepared.as_ref().map(|prepared| &prepared.name[..])
    }

    /// Returns whether something was written since a commit was prepared.
    pub fn is_touched(&self) -> bool {
        self.prepared.as_ref().is_some_and(|prepared| prepared.touched)
    }

    /// Something is written.
    pub(super) fn touch(&mut self) {
        if let Some(prepared) = &mut self.prepared {
            prepared.touched = true;
        }
    }

    /// Commits what is prepared: the super-journal is gone. What SQLite has cut off since stays staged.
    ///
    /// # Errors
    /// The medium fails. Whoever locks the database next commits it.
    pub fn commit_prepared(&mut self) -> Result<()> {
        let Some(PreparedCommit { number, size, work, .. }) = self.prepared.take() else {
            return Ok(());
        };
        self.healthy()?;
        let then = self.stage.size;
        self.stage.clear();
        match &work {
            Work::Counters(counters) => self.put_counters(counters)?,
            Work::Pages(plan) => self.place_pages(number, size, plan, Lines::default())?,
            Work::Bytes(frames, counters) => {
                self.place_bytes(number, size, frames, counters, Lines::default())?;
            }
        }
        if !matches!(work, Work::Counters(_)) {
            self.stats.commits += 1;
            // Only then all that was begun is in place.
            self.checkpoint_slots()?;
        }
        self.side.set_begun(self.last);
        if let Some(cut) = then.filter(|then| *then < self.size) {
            self.truncate(cut);
        }
        self.healthy()
    }

    /// Gives up what is prepared: the super-journal is there. It stays staged.
    ///
    /// # Errors
    /// The medium fails. Whoever locks the database next decides.
    pub fn roll_back_prepared(&mut self) -> Result<()> {
        let Some(PreparedCommit { number, work, .. }) = self.prepared.take() else { return Ok(()) };
        self.healthy()?;
        if !matches!(work, Work::Counters(_)) {
            let mut lines = Lines::default();
            self.side.set_checkpointed(number, &mut lines.side);
            self.fence(&mut lines);
            self.healthy()?;
            self.side.set_applied(number);
            (self.last, self.known_checkpointed, self.last_by_pages) = (number, number, None);
            (self.stored, self.unflushed) = (Lines::default(), Unflushed::new());
        }
        self.side.set_begun(self.last);
        Ok(())
    }

    /// Forgets, without a store, that a commit is prepared: whoever locks the database next decides.
    pub fn forget_prepared(&mut self) {
        self.prepared = None;
    }

    /// The super-journal's name, if the newest of the commits that count is one that is prepared.
    pub(super) fn undecided_name(&self, newest: Option<&Logged>) -> Result<Option<Vec<u8>>> {
        match newest {
            Some(newest) if newest.number == self.side.prepared()? => {
                self.side.prepared_for(newest.number).map(Some)
            }
            _ => Ok(None),
        }
    }
}
