//! Transactions over several databases: commits that are durable, and count once a file is gone.
//!
//! SQLite writes the names of all journals into a *super-journal*, lets each database make its part durable, and
//! commits by removing that file. A part in this store is *prepared*:
//!
//! 1. Checkpoint, so that no slot counts. Store the number of the coming commit and the super-journal's name in the
//!    side file; flush; **fence**.
//! 2. Log the commit, as step 2 of any other ([`crate::store::connection`]). *Prepared.* It is not applied, and the
//!    next commit counts as begun, so no other connection uses the database as it is.
//! 3. Once the super-journal is gone: step 3, and a checkpoint. The slot does not count any more, so a later file of
//!    the same name has no effect.
//! 4. To roll back instead: mark its number as checkpointed, and store nothing of it. **Fence.**
//!
//! Parts are logged and applied in this way in each mode ([`crate::store::mode`]).
//!
//! Recovery finds a slot that counts with the number of step 1. While the super-journal exists the slot is treated as
//! if it did not count, and its number is marked as checkpointed, so that no other commit gets it. Without the file
//! it counts.

use pm::Memory;

use crate::store::commit::Way;
use crate::store::connection::Store;
use crate::store::error::{Result, StoreError};
use crate::store::last_commit::Lines;
use crate::store::plan::{PreparedCommit, Work};
use crate::store::slot::Logged;

impl<M: Memory> Store<M> {
    /// Makes the staged bytes durable without committing them; [`Self::commit_prepared`] does, once the
    /// super-journal of this name is gone. Until then they stay staged. The caller has exclusive access.
    ///
    /// # Errors
    /// There is no room, the name is too long, or the medium fails. Nothing is prepared.
    pub fn prepare_for(&mut self, name: &[u8]) -> Result<()> {
        if self.prepared.is_some() {
            return Err(StoreError::Prepared);
        }
        if self.stage.is_empty() {
            return Ok(());
        }
        self.side.check_name(name)?;
        let (size, work) = self.begin(Way::Plan)?;
        let number = self.last.next();
        if !matches!(work, Work::Counters(_)) {
            self.checkpoint_slots()?;
            let mut lines = Lines::default();
            self.side.set_prepared(number, name, &mut lines.side);
            self.fence(&mut lines);
            self.healthy()?;
        }
        // All earlier stores are checkpointed, so nothing else is left to flush.
        match &work {
            Work::Counters(_) => {}
            Work::Pages(plan) => drop(self.record_pages(size, plan)?),
            Work::Bytes(frames, _) => drop(self.record_bytes(size, frames)?),
            Work::Stream(streamed) => drop(self.record_stream(size, streamed)?),
            Work::Lean(_) => unreachable!("a prepared commit has a plan"),
        }
        let name = name.to_vec();
        self.prepared = Some(PreparedCommit { number, size, work, name, touched: false });
        Ok(())
    }

    /// Returns whether a commit is prepared.
    pub fn is_prepared(&self) -> bool {
        self.prepared.is_some()
    }

    /// The name of the prepared commit's super-journal.
    pub fn prepared_for(&self) -> Option<&[u8]> {
        self.prepared.as_ref().map(|prepared| &prepared.name[..])
    }

    /// Returns whether something was written after the commit was prepared.
    pub fn is_touched(&self) -> bool {
        self.prepared.as_ref().is_some_and(|prepared| prepared.touched)
    }

    /// Notes a write.
    pub(super) fn touch(&mut self) {
        if let Some(prepared) = &mut self.prepared {
            prepared.touched = true;
        }
    }

    /// Commits what is prepared: the super-journal is gone. A truncation since then stays staged.
    ///
    /// # Errors
    /// The medium fails. The next connection that locks the database commits.
    pub fn commit_prepared(&mut self) -> Result<()> {
        let Some(PreparedCommit { number, size, mut work, .. }) = self.prepared.take() else {
            return Ok(());
        };
        self.healthy()?;
        let then = self.stage.size();
        self.stage.clear();
        match &mut work {
            Work::Counters(counters) => self.put_counters(counters)?,
            Work::Pages(plan) => self.place_pages(number, size, plan, Lines::default())?,
            Work::Bytes(frames, counters) => {
                self.place_bytes(number, size, frames, counters, Lines::default())?;
            }
            Work::Stream(streamed) => {
                self.place_stream(number, size, streamed, Lines::default())?;
            }
            Work::Lean(_) => unreachable!("a prepared commit has a plan"),
        }
        if !matches!(work, Work::Counters(_)) {
            self.stats.commits += 1;
            // Only now every begun commit is applied.
            self.checkpoint_slots()?;
        }
        self.side.set_begun(self.last.number());
        if let Some(cut) = then.filter(|then| *then < self.view.size()) {
            self.truncate(cut)?;
        }
        self.healthy()
    }

    /// Rolls back what is prepared: the super-journal exists. The bytes stay staged.
    ///
    /// # Errors
    /// The medium fails. The next connection that locks the database decides.
    pub fn roll_back_prepared(&mut self) -> Result<()> {
        let Some(PreparedCommit { number, work, .. }) = self.prepared.take() else { return Ok(()) };
        self.healthy()?;
        if !matches!(work, Work::Counters(_)) {
            let mut lines = Lines::default();
            self.side.set_checkpointed(number, &mut lines.side);
            self.fence(&mut lines);
            self.healthy()?;
            self.side.set_applied(number);
            self.last.note_emptied(number);
        }
        self.side.set_begun(self.last.number());
        Ok(())
    }

    /// Forgets the prepared commit without a store: the next connection that locks the database decides.
    pub fn forget_prepared(&mut self) {
        self.prepared = None;
    }

    /// The super-journal's name, if the newest commit that counts is a prepared one.
    pub(super) fn undecided_name(&self, newest: Option<&Logged>) -> Result<Option<Vec<u8>>> {
        match newest {
            Some(newest) if newest.number == self.side.prepared()? => {
                self.side.prepared_for(newest.number).map(Some)
            }
            _ => Ok(None),
        }
    }
}
