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

/// Versions that a reader takes out of the indexes before another thread can collect.
const UNLINKED_TOGETHER: usize = 128;

/// A version that is garbage once every snapshot is at least `until`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DeadVersion {
    pub(crate) table: usize,
    pub(crate) row: u64,
    pub(crate) until: u64,
}

/// Versions on their way to be used again.
#[derive(Debug, Default)]
pub(crate) struct GarbageQueue {
    /// Those that never counted.
    never: VecDeque<DeadVersion>,
    ended: VecDeque<DeadVersion>,
    /// Those that are in no index, and the epoch in which they were last.
    retired: VecDeque<(u64, DeadVersion)>,
}

impl GarbageQueue {
    pub(crate) fn add(&mut self, dead: impl IntoIterator<Item = DeadVersion>) {
        for dead in dead {
            (if dead.until == 0 { &mut self.never } else { &mut self.ended }).push_back(dead);
        }
    }

    /// Adds rows that nothing leads to.
    pub(crate) fn retire(&mut self, epoch: u64, dead: impl IntoIterator<Item = DeadVersion>) {
        self.retired.extend(dead.into_iter().map(|dead| (epoch, dead)));
    }

    fn len(&self) -> usize {
        self.never.len() + self.ended.len() + self.retired.len()
    }

    /// Takes up to `many` versions from the front that never counted.
    fn take_never(&mut self, many: usize) -> Vec<DeadVersion> {
        let many = many.min(self.never.len());
        self.never.drain(..many).collect()
    }

    /// Takes up to `many` versions from the front that no snapshot needs, if there are only such as have counted.
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

    /// Puts back what was taken.
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
    /// Returns whether the step did anything. Without anything else that happens, the next one does nothing, either.
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// The thread that collects, which decides what it may wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Collector {
    /// A writer waits for statements on the same keys, and for the medium.
    Writer,
    /// A reader leaves both to writers.
    Reader,
}

impl<M: Memory> Shared<M> {
    /// Steps 1 and 2; returns how many versions left the indexes.
    #[track_caller]
    fn unlink_some(&self, many: usize, collector: Collector) -> Result<u64> {
        // First: then all versions that aborted transactions have put in front of one that no snapshot needs are in
        // the pile.
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

    /// Takes versions out of the indexes. Those that others are reached through go back into the pile. A version
    /// whose row is damaged is left where it is by a writer, who returns the error, and put back by a reader.
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

    /// Takes a version out of the indexes; returns false if others are reached through it, or a reader would wait.
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
            // Together: a transaction may have left any number of versions of one row.
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
        let taken = self.garbage.write().take_retired(many, &self.epochs);
        if taken.is_empty() {
            return Ok(0);
        }
        let mut lines = LineSet::new();
        if !self.slots.forget_committed(&mut lines) {
            // Its transaction begins, or gives the slot back.
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
    /// Does a step for the thread that collects.
    fn collect_step(&self, many: usize) -> Result<Collected> {
        let built = self.built();
        if built.waiting > 0 {
            // A version that is taken out now would come into an index that is built later.
            return Ok(Collected::default());
        }
        self.fence_commits();
        let unlinked = self.unlink_some(many, Collector::Writer);
        // A row that is used again must not be looked at as one that was there when the store was opened.
        let freed = if built.unswept == 0 { self.free_some(many)? } else { 0 };
        Ok(Collected { unlinked: unlinked?, freed })
    }

    /// Takes up to `many` dead versions out of the indexes, for a scan that has passed over as many. Their rows stay
    /// for [`Store::collect`]. Does nothing if an index of keys lies in persistent memory: a read flushes nothing.
    /// Damage is left for writers to report.
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
        // One at a time: a slot that another one lets forget its transaction may not be fenced.
        match self.0.collecting.try_write() {
            Some(_alone) => self.0.collect_step(many),
            None => Ok(Collected::default()),
        }
    }

    /// Does a step as [`Self::collect`], and waits for another thread's.
    ///
    /// # Errors
    /// As [`Self::collect`].
    pub fn collect_in_turn(&self, many: usize) -> Result<Collected> {
        let _alone = self.0.collecting.write();
        self.0.collect_step(many)
    }

    /// The number of versions that are garbage or will be.
    pub fn garbage(&self) -> usize {
        self.0.garbage.read().len()
    }
}
