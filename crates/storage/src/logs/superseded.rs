//! Slots that committed transactions have superseded, on their way out under an undo log.
//!
//! The contents of a slot that transaction `t` has superseded are asked for until `t` has
//! committed; its place in `t`'s log entries until `t + 1` has ended. So it goes in two steps:
//!
//! | when | step |
//! |---|---|
//! | `t` has committed | [`Superseded::add`] |
//! | the first operation of `t + 1` | [`Superseded::clear`]: its persisted bit, flushed with the lines of that operation |
//! | `t + 1` has ended | [`Superseded::release`]: the slot can be given out again |
//!
//! A crash in between frees it: recovery finds it in the entries of `t`, or its bit clear.
//!
//! If `t + 1` is a statement (a transaction of one entry that leaves the log's state word alone),
//! recovery can ask for the entries of `t` until `t + 2` has ended, so what `t` has superseded
//! waits for that, whatever `t` was: [`Superseded::pass`].

use heap::Lane;
use pm::{Bad, LineSet, Memory};

/// Slots on their way out; see the module's comment.
#[derive(Default, Debug)]
pub struct Superseded {
    /// The persisted bits to clear: of what the last committed transaction superseded.
    to_clear: Vec<u64>,
    /// Cleared since: to release after the next end of a transaction.
    to_release: Vec<u64>,
    /// Cleared before that, by a statement: to release after the end of the next transaction.
    held: Vec<u64>,
    /// Images of inlined columns that the entries of the last statement and of the one before it
    /// lead to.
    images: [Vec<u64>; 2],
    /// Lines of cleared bits, and of what else is to be flushed with the next log entry.
    pub lines: LineSet,
}

impl Superseded {
    /// A transaction has committed that superseded `slots`, which are taken; what came before has
    /// been released.
    #[inline]
    pub fn add(&mut self, slots: &mut Vec<u64>) {
        std::mem::swap(&mut self.to_clear, slots);
    }

    /// Clears the bits of what the last transaction superseded; their lines are to be flushed with
    /// those of the operation to come.
    ///
    /// # Errors
    /// A slot is none of the lane's: damage.
    #[inline]
    pub fn clear<M: Memory>(&mut self, lane: &mut Lane<M>) -> Result<(), Bad> {
        while let Some(slot) = self.to_clear.pop() {
            lane.clear_persisted(slot, &mut self.lines)?;
            self.to_release.push(slot);
        }
        Ok(())
    }

    /// Gives out again what was cleared before the end of the last transaction, and the images of
    /// the statements before it.
    #[inline]
    pub fn release<M: Memory>(&mut self, lane: &mut Lane<M>) {
        let [last, before] = &mut self.images;
        for slots in [&mut self.held, &mut self.to_release, before, last] {
            release_all(lane, slots);
        }
    }

    /// Slots that a part of the open transaction had allocated, which is undone: they are cleared,
    /// and wait for the end of the transaction as what it has cleared itself.
    pub fn hold(&mut self, slots: &mut Vec<u64>) {
        self.to_release.append(slots);
    }

    /// Replaces [`Self::release`] after the end of a statement: slots that the statement has
    /// cleared wait until the next transaction has ended. Otherwise their chunk could go to another
    /// lane, and recovery would look for the slot there. The images that its entry leads to, which
    /// are taken, wait until two more statements have ended, or one transaction that is not a
    /// statement.
    #[inline]
    pub fn pass<M: Memory>(&mut self, lane: &mut Lane<M>, images: &mut Vec<u64>) {
        release_all(lane, &mut self.held);
        std::mem::swap(&mut self.held, &mut self.to_release);
        let [last, before] = &mut self.images;
        release_all(lane, before);
        std::mem::swap(before, last);
        std::mem::swap(last, images);
    }

    /// Clears the bits of what the last transaction superseded, durably, between transactions.
    /// Where the log ends one more transaction, its entries do not count any more, and what was
    /// cleared can be released.
    ///
    /// # Errors
    /// As [`Self::clear`].
    #[track_caller]
    pub fn clear_all<M: Memory>(&mut self, lane: &mut Lane<M>, memory: &M) -> Result<(), Bad> {
        if self.to_clear.is_empty() && self.to_release.is_empty() && self.lines.is_empty() {
            return Ok(());
        }
        self.clear(lane)?;
        self.lines.flush(memory);
        memory.fence();
        Ok(())
    }

    /// Calls `visit` with every slot that is persisted still, though no committed transaction
    /// leads to it any more.
    pub fn for_each(&self, visit: impl FnMut(u64)) {
        self.to_clear.iter().copied().for_each(visit);
    }
}

#[inline]
fn release_all<M: Memory>(lane: &mut Lane<M>, slots: &mut Vec<u64>) {
    while let Some(slot) = slots.pop() {
        lane.release(slot);
    }
}
