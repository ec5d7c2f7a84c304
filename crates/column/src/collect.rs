//! Collection of garbage: rows of versions that no snapshot sees are made free, in steps, while transactions go
//! on.
//!
//! A version is garbage when a commit has replaced or deleted it, or when the transaction that made it has
//! aborted.
//!
//! 1. Wait until every snapshot is at least the commit that ended the version.
//! 2. Take the version out of the indexes, with the stripe of its key held; out of indexes in persistent memory
//!    durably. An index may already lead elsewhere through stores of a killed process that are not durable, so for
//!    versions that were there when the store was opened those lines are flushed, too. A version through which
//!    others are reached stays in the queue until the version in front of it is committed, or is garbage itself.
//!    Versions of aborted transactions come first: an index that leads to one of them would otherwise lead,
//!    through it, to a row that has been used again. A transaction that is just aborting has not queued its
//!    versions yet, so a reader does not go on from a rolled-back version that a secondary index leads to.
//! 3. Wait until all transactions that had begun before step 2 have ended.
//! 4. Let no slot name the version: free slots forget their last transaction; **fence**. A slot that is taken
//!    forgets it with the first statement of its next transaction, for which this step waits. Then the row's begin
//!    becomes zero: flush, **fence**. Then its end does: flush, **fence**. The row is as if it had never been
//!    used.
//!
//! After a crash, free rows are found while indexes are built. No other record of them exists: a row is free if
//! its begin is zero, or the mark of a transaction that is over.

use std::collections::VecDeque;

use pm::{LineSet, Memory};

use crate::Result;
use crate::epoch::Epochs;
use crate::store::{Shared, Store};
use crate::stripes::Stripes;
use crate::table::Table;

/// Versions that a reader takes out of the indexes in one step, after which another thread can collect.
const UNLINKED_TOGETHER: usize = 128;

/// A version that is garbage once every snapshot is at least `until`; zero if its transaction has aborted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DeadVersion {
    pub(crate) table: usize,
    pub(crate) row: u64,
    pub(crate) until: u64,
}

/// The queue of versions that are, or will be, garbage.
#[derive(Debug, Default)]
pub(crate) struct GarbageQueue {
    /// Versions of aborted transactions.
    never: VecDeque<DeadVersion>,
    ended: VecDeque<DeadVersion>,
    /// Versions that have left the indexes, each with the last epoch in which an index had it.
    retired: VecDeque<(u64, DeadVersion)>,
}

impl GarbageQueue {
    pub(crate) fn add(&mut self, dead: impl IntoIterator<Item = DeadVersion>) {
        for dead in dead {
            (if dead.until == 0 { &mut self.never } else { &mut self.ended }).push_back(dead);
        }
    }

    /// Adds rows that no index leads to.
    pub(crate) fn retire(&mut self, epoch: u64, dead: impl IntoIterator<Item = DeadVersion>) {
        self.retired.extend(dead.into_iter().map(|dead| (epoch, dead)));
    }

    fn len(&self) -> usize {
        self.never.len() + self.ended.len() + self.retired.len()
    }

    /// Takes up to `many` versions of aborted transactions.
    fn take_never(&mut self, many: usize) -> Vec<DeadVersion> {
        let many = many.min(self.never.len());
        self.never.drain(..many).collect()
    }

    /// Takes up to `many` ended versions that no snapshot needs; none while versions of aborted transactions are
    /// queued.
    fn take_ended(&mut self, many: usize, horizon: u64) -> Vec<DeadVersion> {
        if !self.never.is_empty() {
            return Vec::new();
        }
        let ready = self.ended.iter().take(many).take_while(|dead| dead.until <= horizon).count();
        self.ended.drain(..ready).collect()
    }

    fn take_retired(&mut self, many: usize, epochs: &Epochs) -> Vec<(u64, DeadVersion)> {
        let all = self.retired.iter().take(many);
        let ready = all.take_while(|(epoch, _)| epochs.is_over(*epoch)).count();
        self.retired.drain(..ready).collect()
    }

    /// Puts back versions that could not be freed.
    fn put_back(&mut self, taken: Vec<(u64, DeadVersion)>) {
        taken.into_iter().rev().for_each(|one| self.retired.push_front(one));
    }
}

/// The outcome of a step of the collection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Collected {
    /// Versions that left the indexes.
    pub unlinked: u64,
    /// Rows that can be used again.
    pub freed: u64,
}

impl Collected {
    /// Returns whether the step did nothing. A next one does nothing, either, unless something else happens.
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// The thread that collects, which decides what it may wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Collector {
    /// A writer may wait for statements on the same keys, and for the medium.
    Writer,
    /// A reader does not wait for either.
    Reader,
}

impl<M: Memory> Shared<M> {
    /// Steps 1 and 2; returns how many versions left the indexes.
    #[track_caller]
    fn unlink_some(&self, many: usize, collector: Collector) -> Result<u64> {
        // First, so that the queue has every version that an aborted transaction has put in front of one that no
        // snapshot needs.
        let horizon = self.epochs.horizon(&self.clock);
        let mut unlinked = Unlinked { horizon, collector, dead: Vec::new(), lines: LineSet::new() };
        let taken = self.garbage.write().take_never(many);
        let left = many - taken.len();
        let done = self.unlink_all(taken, &mut unlinked);
        let taken = self.garbage.write().take_ended(left, horizon);
        let done = self.unlink_all(taken, &mut unlinked).and(done);
        let Unlinked { dead, mut lines, .. } = unlinked;
        if !lines.is_empty() {
            // Before the rows are others': an index in persistent memory leads to none of them.
            lines.flush(&self.memory);
            self.memory.fence();
        }
        let many = dead.len() as u64;
        if many > 0 {
            self.garbage.write().retire(self.epochs.next(), dead);
        }
        done.map(|()| many)
    }

    /// Takes versions out of the indexes. Versions through which others are reached go back into the queue. A
    /// writer skips a version whose row is damaged and returns the error; a reader puts it back.
    #[track_caller]
    fn unlink_all(&self, taken: Vec<DeadVersion>, unlinked: &mut Unlinked) -> Result<()> {
        let (mut kept, mut done) = (Vec::new(), Ok(()));
        for dead in taken {
            match self.unlink(dead, unlinked) {
                Ok(true) => unlinked.dead.push(dead),
                Ok(false) => kept.push(dead),
                Err(error) => {
                    kept.extend((unlinked.collector == Collector::Reader).then_some(dead));
                    done = Err(error);
                }
            }
        }
        self.garbage.write().add(kept);
        done
    }

    /// Takes a version out of the indexes. Returns false if others are reached through it, or a reader would wait.
    #[track_caller]
    fn unlink(&self, dead: DeadVersion, unlinked: &mut Unlinked) -> Result<bool> {
        let (table, row) = (self.table(dead.table)?, dead.row);
        let primary = table.key(row, 0)?.bytes;
        let stripe = Stripes::of(table.number, 0, &primary);
        let _stripe = match unlinked.collector {
            Collector::Writer => self.stripes.take(vec![stripe]),
            Collector::Reader => match self.stripes.try_take(stripe) {
                Some(stripe) => vec![stripe],
                None => return Ok(false),
            },
        };
        let lines = &mut unlinked.lines;
        let head = table.indexes[0].read().peek(&primary)?.unwrap_or(0);
        let newest = self.newest_counting(table, head)?;
        if newest != head {
            // All at once: an aborted transaction may have left any number of versions of one row.
            self.lead_primary(table, &primary, newest, lines)?;
        }
        let reached = self.reached(table, newest, unlinked.horizon)?;
        let (others, was_there) = match reached.iter().position(|one| *one == row) {
            None => (&reached[..], row < table.ids.opened),
            Some(0) => {
                self.lead_primary(table, &primary, reached.get(1).copied().unwrap_or(0), lines)?;
                (&reached[1..], false)
            }
            Some(_) => return Ok(false),
        };
        if was_there {
            table.indexes[0].read().add_line(&primary, lines)?;
        }
        for index in 1..table.indexes.len() {
            let key = table.key(row, index)?;
            if table.indexes[index].read().peek(&key.bytes)? != Some(row) {
                if row < table.ids.opened {
                    table.indexes[index].read().add_line(&key.bytes, lines)?;
                }
                continue;
            }
            let mut other = None;
            for one in others {
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

    /// Leads a primary key to another version of it, or, if that is zero, takes the key out.
    #[track_caller]
    fn lead_primary(
        &self,
        table: &Table<M>,
        primary: &[u8],
        row: u64,
        lines: &mut LineSet,
    ) -> Result<()> {
        let mut keys = table.indexes[0].write();
        match row {
            0 => keys.remove(primary, &self.lane),
            row => keys.replace(primary, row, lines),
        }
    }

    /// The versions that a snapshot may need, newest first: down to the first one that had begun at the horizon.
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

    /// Does steps 3 and 4; returns how many rows became free.
    #[track_caller]
    fn free_some(&self, many: usize) -> Result<u64> {
        let taken = self.garbage.write().take_retired(many, &self.epochs);
        if taken.is_empty() {
            return Ok(0);
        }
        let mut lines = LineSet::new();
        if !self.slots.forget_committed(&mut lines) {
            // A slot's next transaction is about to begin, or to give the slot back.
            self.garbage.write().put_back(taken);
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

/// What a step takes out of the indexes.
struct Unlinked {
    /// Every snapshot is at least this one.
    horizon: u64,
    collector: Collector,
    dead: Vec<DeadVersion>,
    /// The changed lines of indexes in persistent memory.
    lines: LineSet,
}

impl<M: Memory> Shared<M> {
    /// Does a step for the thread that holds the latch of the collection.
    fn collect_step(&self, many: usize) -> Result<Collected> {
        let built = self.built();
        if built.waiting > 0 {
            // A version that is unlinked now could still come into an index that is built later.
            return Ok(Collected::default());
        }
        self.fence_commits();
        let unlinked = self.unlink_some(many, Collector::Writer);
        // Rows are not used again before all of them were classified as used or free.
        let freed = if built.unswept == 0 { self.free_some(many)? } else { 0 };
        Ok(Collected { unlinked: unlinked?, freed })
    }

    /// Takes up to `many` dead versions out of the indexes, for a scan that has passed that many. Their rows stay
    /// for [`Store::collect`]. Does nothing if an index of keys lies in persistent memory: a read flushes nothing.
    /// Writers report damage.
    pub(crate) fn unlink_for_reader(&self, many: u64) {
        for _ in 0..many.div_ceil(UNLINKED_TOGETHER as u64) {
            let Some(_alone) = self.collecting.try_write() else { return };
            if self.tables.iter().any(Table::has_durable_index) || self.built().waiting > 0 {
                return;
            }
            let unlinked = self.unlink_some(UNLINKED_TOGETHER, Collector::Reader);
            if !unlinked.is_ok_and(|unlinked| unlinked > 0) {
                return;
            }
        }
    }
}

impl<M: Memory> Store<M> {
    /// Does a step of the collection, with up to `many` versions. Does nothing while indexes are built, or another
    /// thread collects; frees no row before [`Self::rebuild`] has looked at all of them.
    ///
    /// # Errors
    /// Damage of a version, which is left as it is. The step is done for all others.
    pub fn collect(&self, many: usize) -> Result<Collected> {
        // One thread at a time: a slot that another thread lets forget its transaction may not be fenced yet.
        match self.0.collecting.try_write() {
            Some(_alone) => self.0.collect_step(many),
            None => Ok(Collected::default()),
        }
    }

    /// Does a step as [`Self::collect`], but waits while another thread collects.
    ///
    /// # Errors
    /// As [`Self::collect`].
    pub fn collect_in_turn(&self, many: usize) -> Result<Collected> {
        let _alone = self.0.collecting.write();
        self.0.collect_step(many)
    }

    /// The number of versions that are, or will be, garbage.
    pub fn garbage(&self) -> usize {
        self.0.garbage.read().len()
    }
}
