//! Collection: rows of versions that nobody sees any more are used again. It is done in steps, beside
//! transactions.
//!
//! A version is garbage when a commit has replaced or deleted it, or when the transaction that made it
//! has aborted.
//!
//! 1. Every snapshot is behind that commit.
//! 2. With the stripe of its key the version is taken out of the indexes, of those in persistent memory
//!    durably. An index that leads elsewhere already may do so by what a killed process had stored: of versions
//!    that were there when the store was opened that is flushed, too. One that others are reached
//!    through stays: its turn comes when a version in front of it is committed, or is garbage itself.
//!    Versions that never counted come first: those that they lead to would be others' rows.
//! 3. Whoever had begun before that has ended.
//! 4. No slot names it any more: those that nobody has forget their last transaction; **fence**. One that
//!    somebody has taken forgets it with the first statement, which is waited for. Its begin
//!    becomes zero: flush, **fence**. Then its end does: flush, **fence**. The row is as one that nobody
//!    has had.
//!
//! After a crash the rows that are not in use are found while indexes are built. Nothing else says
//! which they are: a row whose begin is zero, or the mark of a transaction that is over, is not there.

use std::collections::VecDeque;

use pm::{LineSet, Memory};

use crate::Result;
use crate::epoch::Epochs;
use crate::store::{Shared, Store};
use crate::stripes::Stripes;
use crate::table::Table;

/// A version that is garbage once every snapshot is at least `until`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Dead {
    pub(crate) table: usize,
    pub(crate) row: u64,
    pub(crate) until: u64,
}

/// Versions on their way to be used again.
#[derive(Debug, Default)]
pub(crate) struct Pile {
    /// Those that never counted.
    never: VecDeque<Dead>,
    ended: VecDeque<Dead>,
    /// Those that are in no index, and the epoch in which they were last.
    retired: VecDeque<(u64, Dead)>,
}

impl Pile {
    pub(crate) fn add(&mut self, dead: impl IntoIterator<Item = Dead>) {
        for dead in dead {
            (if dead.until == 0 { &mut self.never } else { &mut self.ended }).push_back(dead);
        }
    }

    /// Adds rows that nothing leads to.
    pub(crate) fn retire(&mut self, epoch: u64, dead: impl IntoIterator<Item = Dead>) {
        self.retired.extend(dead.into_iter().map(|dead| (epoch, dead)));
    }

    fn len(&self) -> usize {
        self.never.len() + self.ended.len() + self.retired.len()
    }

    /// Takes up to `many` versions from the front that never counted.
    fn take_never(&mut self, many: usize) -> Vec<Dead> {
        let many = many.min(self.never.len());
        self.never.drain(..many).collect()
    }

    /// Takes up to `many` versions from the front that no snapshot needs, if there are only such as have counted.
    fn take_ended(&mut self, many: usize, horizon: u64) -> Vec<Dead> {
        if !self.never.is_empty() {
            return Vec::new();
        }
        let ready = self.ended.iter().take(many).take_while(|dead| dead.until <= horizon).count();
        self.ended.drain(..ready).collect()
    }

    fn take_retired(&mut self, many: usize, epochs: &Epochs) -> Vec<(u64, Dead)> {
        let all = self.retired.iter().take(many);
        let ready = all.take_while(|(epoch, _)| epochs.is_over(*epoch)).count();
        self.retired.drain(..ready).collect()
    }

    /// Puts back what was taken.
    fn put_back(&mut self, taken: Vec<(u64, Dead)>) {
        taken.into_iter().rev().for_each(|one| self.retired.push_front(one));
    }
}

impl<M: Memory> Shared<M> {
    /// Steps 1 and 2.
    #[track_caller]
    fn unlink_some(&self, many: usize) -> Result<()> {
        // First: then whatever was given up over a version that no snapshot needs is in the pile.
        let horizon = self.epochs.horizon(&self.clock);
        let (mut unlinked, mut lines) = (Vec::new(), LineSet::new());
        let taken = self.pile.write().take_never(many);
        let left = many - taken.len();
        self.unlink_all(taken, horizon, (&mut unlinked, &mut lines))?;
        let taken = self.pile.write().take_ended(left, horizon);
        self.unlink_all(taken, horizon, (&mut unlinked, &mut lines))?;
        if !lines.is_empty() {
            // Before the rows are others': an index in persistent memory leads to none of them.
            lines.flush(&self.memory);
            self.memory.fence();
        }
        if !unlinked.is_empty() {
            self.pile.write().retire(self.epochs.next(), unlinked);
        }
        Ok(())
    }

    /// Takes versions out of the indexes; those that others are reached through go back into the pile.
    #[track_caller]
    fn unlink_all(
        &self,
        taken: Vec<Dead>,
        horizon: u64,
        (unlinked, lines): (&mut Vec<Dead>, &mut LineSet),
    ) -> Result<()> {
        let mut kept = Vec::new();
        for dead in taken {
            let gone = self.unlink(dead, horizon, lines)?;
            (if gone { &mut *unlinked } else { &mut kept }).push(dead);
        }
        self.pile.write().add(kept);
        Ok(())
    }

    /// Takes a version out of the indexes; returns false if others are reached through it.
    #[track_caller]
    fn unlink(&self, dead: Dead, horizon: u64, lines: &mut LineSet) -> Result<bool> {
        let (table, row) = (self.table(dead.table)?, dead.row);
        let primary = table.key(row, 0)?.bytes;
        let _stripe = self.stripes.take(vec![Stripes::of(table.number, 0, &primary)]);
        let head = table.indexes[0].read().peek(&primary)?.unwrap_or(0);
        let mut reached = self.reached(table, head, horizon)?;
        let was_there = row < table.ids.opened;
        match reached.iter().position(|one| *one == row) {
            None if was_there => table.indexes[0].read().add_line(&primary, lines)?,
            None => {}
            Some(0) => {
                reached.remove(0);
                let mut keys = table.indexes[0].write();
                match reached.first() {
                    Some(newest) => keys.replace(&primary, *newest, lines)?,
                    None => keys.remove(&primary, &self.lane)?,
                }
            }
            Some(_) => return Ok(false),
        }
        for index in 1..table.indexes.len() {
            let key = table.key(row, index)?;
            if table.indexes[index].read().peek(&key.bytes)? != Some(row) {
                if was_there {
                    table.indexes[index].read().add_line(&key.bytes, lines)?;
                }
                continue;
            }
            let mut other = None;
            for one in &reached {
                if other.is_none() && table.key(*one, index)? == key {
                    other = Some(*one);
                }
            }
            let mut keys = table.indexes[index].write();
            match other {
                Some(other) => keys.replace(&key.bytes, other, lines)?,
                None => keys.remove(&key.bytes, &self.lane)?,
            }
        }
        Ok(true)
    }

    /// The versions that somebody may come to, from the newest one on: down to the one that every
    /// snapshot is behind the begin of.
    fn reached(&self, table: &Table<M>, head: u64, horizon: u64) -> Result<Vec<u64>> {
        let (mut reached, mut row, mut passed) = (Vec::new(), head, 0);
        while row != 0 {
            reached.push(row);
            if self.has_begun(table, row, horizon)? {
                break;
            }
            row = table.prev(row, &mut passed)?;
        }
        Ok(reached)
    }

    /// Steps 3 and 4; returns how many rows can be used again.
    #[track_caller]
    fn free_some(&self, many: usize) -> Result<u64> {
        let taken = self.pile.write().take_retired(many, &self.epochs);
        if taken.is_empty() {
            return Ok(0);
        }
        let mut lines = LineSet::new();
        if !self.slots.forget_committed(&mut lines) {
            // Its transaction begins, or gives the slot back.
            self.pile.write().put_back(taken);
            return Ok(0);
        }
        self.memory.fence();
        let mut taken: Vec<_> = taken.into_iter().map(|(_, dead)| dead).collect();
        // Neighbours share lines.
        taken.sort_by_key(|dead| (dead.table, dead.row));
        for dead in &taken {
            let begin = self.table(dead.table)?.place(dead.row)?.begin();
            self.memory.store(begin, 0);
            lines.add(begin.range());
        }
        lines.flush(&self.memory);
        self.memory.fence();
        for dead in &taken {
            let end = self.table(dead.table)?.place(dead.row)?.end();
            self.memory.store(end, 0);
            lines.add(end.range());
        }
        lines.flush(&self.memory);
        self.memory.fence();
        for dead in &taken {
            self.table(dead.table)?.free.write().push(dead.row);
        }
        Ok(taken.len() as u64)
    }
}

impl<M: Memory> Store<M> {
    /// Collects up to `many` versions that nobody sees any more; returns how many rows can be used again.
    /// Does nothing while indexes are built, or somebody else collects.
    ///
    /// # Errors
    /// Damage.
    pub fn collect(&self, many: usize) -> Result<u64> {
        // One at a time: a slot that another one lets forget its transaction may not be fenced.
        let Some(_alone) = self.0.collecting.try_write().filter(|_| !self.has_unbuilt()) else {
            return Ok(0);
        };
        self.0.settle_lags();
        self.0.unlink_some(many)?;
        self.0.free_some(many)
    }

    /// The number of versions that are garbage or will be.
    pub fn garbage(&self) -> usize {
        self.0.pile.read().len()
    }
}
