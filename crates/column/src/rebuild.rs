//! Rebuilding of the indexes in ordinary memory (P4 4.3, 4.4) while transactions go on: in steps, the newest rows
//! first. Rows that are not indexed yet are found by scans. An index in persistent memory needs no building, but
//! free rows are looked for all the same.

// Hints about damage and remaining work: tests of interleavings do not schedule them.
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};

use pm::{LineSet, Memory, Off};

use crate::Result;
use crate::collect::DeadVersion;
use crate::epoch::EpochGuard;
use crate::latch::{Latch, Waiting};
use crate::placement::{Part, Structure};
use crate::secondary::Room;
use crate::stamps::is_mark;
use crate::store::{Shared, Store};
use crate::table::Table;
use crate::unbuilt::IndexBacklog;

/// Rows or values that are indexed with the latch held once, for which readers wait.
const TOGETHER: u64 = 512;
/// The most rows and values that one call of [`Store::build_pending`] indexes, so that no caller waits long after
/// a scan of a large table. The rest stays pending.
pub const MOST_BUILT_TOGETHER: u64 = 32 * TOGETHER;

/// Notes whether there is a structure to be built that is not known to be damaged, since readers ask often and
/// should not walk over all structures. An odd number means that there is none. A thread that finds damage gone
/// makes it the next even number, which cancels the result of walks that began before.
#[derive(Debug, Default)]
pub(crate) struct BuildableHint(AtomicU64);

impl BuildableHint {
    fn is_over(&self) -> bool {
        self.0.load(Relaxed) & 1 == 1
    }

    /// The number before a walk.
    fn before(&self) -> u64 {
        self.0.load(Acquire)
    }

    /// Notes that a walk has found none.
    fn end(&self, before: u64) {
        // If the number has changed, there may be one again.
        let _ = self.0.compare_exchange(before, before | 1, Relaxed, Relaxed);
    }

    /// Notes that there may be one again, whose damage is gone.
    fn again(&self) {
        // It never fails.
        let _ = self.0.fetch_update(Release, Relaxed, |number| Some((number | 1) + 1));
    }
}

/// A structure that had to be built when the store was opened.
#[derive(Debug)]
pub(crate) struct IndexBuild {
    pub(crate) structure: Structure,
    /// The latch of the thread that builds it: two would do the same work.
    pub(crate) alone: Latch<()>,
    /// The last attempt to build it found damage.
    is_damaged: AtomicBool,
}

impl IndexBuild {
    pub(crate) fn new(structure: Structure, waiting: &Waiting) -> Self {
        Self { structure, alone: Latch::new((), waiting), is_damaged: AtomicBool::new(false) }
    }
}

/// The result of looking for a structure to build.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// A part of one is built.
    Built,
    /// Other threads build all that are left.
    Taken,
    /// None is left except damaged ones.
    Over,
}

/// The part of the indexes that is built.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Built {
    /// Rows and values that were there when the store was opened and are not in an index yet.
    pub waiting: u64,
    /// Keys and values in indexes in ordinary memory.
    pub built: u64,
    /// Rows that were there when the store was opened and are not yet checked for use, of tables whose first index
    /// lies in persistent memory.
    pub unswept: u64,
    /// Rows and values that searches have looked at because an index lacked them.
    pub looked: u64,
}

impl<M: Memory> Shared<M> {
    /// The rows or values that are not in a structure yet.
    pub(crate) fn waiting(&self, Structure { table, part }: Structure) -> u64 {
        let table = &self.tables[table];
        match part {
            Part::Dictionary(column) => table.columns[column].index.read().unbuilt - 1,
            Part::Keys(index) => table.indexes[index].read().unbuilt - 1,
        }
    }

    /// As [`Store::built`].
    pub(crate) fn built(&self) -> Built {
        let mut all = Built::default();
        for table in &self.tables {
            all.unswept += *table.unswept.read() - 1;
            for index in &table.indexes {
                let keys = index.read();
                all.waiting += keys.unbuilt - 1;
                all.looked += keys.backlog.looked();
                all.built += keys.len() as u64;
            }
            for column in &table.columns {
                let index = column.index.read();
                all.waiting += index.unbuilt - 1;
                all.looked += index.backlog.looked();
                all.built += index.len() as u64;
            }
        }
        all
    }

    pub(crate) fn backlog<R>(
        &self,
        Structure { table, part }: Structure,
        of: impl FnOnce(&IndexBacklog) -> R,
    ) -> R {
        let table = &self.tables[table];
        match part {
            Part::Dictionary(column) => of(&table.columns[column].index.read().backlog),
            Part::Keys(index) => of(&table.indexes[index].read().backlog),
        }
    }

    /// Builds a structure with up to `many` rows or values; returns whether there are more.
    pub(crate) fn build(&self, Structure { table, part }: Structure, many: u64) -> Result<bool> {
        let table = &self.tables[table];
        match part {
            Part::Dictionary(column) => table.columns[column].build(many),
            Part::Keys(index) => self.build_keys(table, index, many),
        }
    }

    /// Builds a structure, whose latch the caller has, and notes whether that finds damage.
    fn build_and_note(&self, building: &IndexBuild, many: u64) -> Result<bool> {
        let built = self.build(building.structure, many);
        if building.is_damaged.swap(built.is_err(), Relaxed) && built.is_ok() {
            self.buildable.again();
        }
        built
    }

    /// Builds up to `many` rows or values of the first structure that no other thread builds and that is not known
    /// to be damaged. Damage in one structure does not stop the others.
    fn step(&self, many: u64) -> (Step, Result<()>) {
        let (mut step, mut damage, before) = (Step::Over, Ok(()), self.buildable.before());
        for building in &self.building {
            if building.is_damaged.load(Relaxed) || self.waiting(building.structure) == 0 {
                continue;
            }
            let Some(_alone) = building.alone.try_write() else {
                step = Step::Taken;
                continue;
            };
            match self.build_and_note(building, many) {
                Ok(_) => return (Step::Built, damage),
                Err(error) => damage = damage.and(Err(error)),
            }
        }
        if step == Step::Over {
            self.buildable.end(before);
        }
        (step, damage)
    }

    /// Tries to build damaged structures once more, so that the caller can report the damage. If another thread is
    /// reporting it, this returns while rows or values are still waiting. Returns whether a part was built, since
    /// the damage is gone.
    fn report_damage(&self, many: u64) -> Result<bool> {
        let mut is_built = false;
        let damaged = self.building.iter().filter(|building| building.is_damaged.load(Relaxed));
        for building in damaged {
            if let Some(_alone) = building.alone.try_write() {
                self.build_and_note(building, many)?;
                is_built = true;
            }
        }
        Ok(is_built)
    }

    /// Builds the backlog of searches. Damage in one structure does not stop the others; structures that are known
    /// to be damaged are skipped, or tried again if `tries_damaged`. Returns how many rows and values were
    /// indexed.
    fn build_backlog(&self, tries_damaged: bool) -> (u64, Result<()>) {
        let (mut guard, mut indexed, mut damage) = (None, 0, Ok(()));
        for building in &self.building {
            let IndexBuild { structure, alone, is_damaged } = building;
            if indexed == MOST_BUILT_TOGETHER {
                break;
            }
            let is_passed = is_damaged.load(Relaxed) && !tries_damaged;
            if is_passed || !self.backlog(*structure, IndexBacklog::has_pending) {
                continue;
            }
            // The backlog stays if another thread builds the structure.
            let Some(_alone) = alone.try_write() else { continue };
            let mut pending =
                self.backlog(*structure, |backlog| backlog.take(MOST_BUILT_TOGETHER - indexed));
            while pending > 0 {
                // As in `rebuild`.
                guard.get_or_insert_with(|| EpochGuard::new(&self.epochs, &self.clock));
                let many = pending.min(TOGETHER);
                match self.build_and_note(building, many) {
                    Ok(more) => {
                        indexed += many;
                        pending -= many;
                        if !more {
                            // Several searches have lacked what is there by now.
                            self.backlog(*structure, |backlog| backlog.take(u64::MAX));
                            break;
                        }
                    }
                    Err(error) => {
                        damage = damage.and(Err(error));
                        break;
                    }
                }
            }
        }
        (indexed, damage)
    }

    /// Builds an index of a table with up to `many` rows; returns whether there are more.
    fn build_keys(&self, table: &Table<M>, index: usize, many: u64) -> Result<bool> {
        let end = table.indexes[index].read().unbuilt;
        let start = end.saturating_sub(many).max(1);
        let (mut found, mut unused) = (Vec::new(), Unused::default());
        let horizon = self.epochs.horizon(&self.clock).min(self.opened);
        for row in (start..end).rev() {
            // Dead versions stay out of the index, so that scans do not pass them.
            if self.counts(table, row)? && !self.is_dead(table, row, horizon)? {
                found.push((table.key(row, index)?.bytes, row));
            }
            self.classify(table, row, &mut unused)?;
        }
        let mut keys = table.indexes[index].write();
        // Another thread may have built some of them.
        if keys.unbuilt == end {
            self.forget_cut_off(&unused);
            for (key, row) in found {
                let newer = match keys.peek(&key)? {
                    Some(there) if there >= table.ids.opened => false,
                    Some(there) => self.is_newer(table, row, there)?,
                    None => true,
                };
                if newer {
                    keys.set(&key, Room::Ordinary, row, &mut LineSet::new());
                }
            }
            keys.unbuilt = start;
            if index == 0 {
                self.queue_unused(unused);
            }
        }
        Ok(keys.unbuilt > 1)
    }

    /// Checks up to `many` rows of a table whose first index needs no building for use.
    fn sweep(&self, table: &Table<M>, many: u64) -> Result<()> {
        let end = *table.unswept.read();
        let start = end.saturating_sub(many).max(1);
        let mut unused = Unused::default();
        for row in (start..end).rev() {
            self.classify(table, row, &mut unused)?;
        }
        let mut unswept = table.unswept.write();
        if *unswept == end {
            self.forget_cut_off(&unused);
            self.queue_unused(unused);
            *unswept = start;
        }
        Ok(())
    }

    /// Notes a row that was there when the store was opened, if it is free or will be.
    fn classify(&self, table: &Table<M>, row: u64, unused: &mut Unused) -> Result<()> {
        let dead = |until| DeadVersion { table: table.number, row, until };
        if self.counts(table, row)? {
            // The transaction that has ended a version since then has queued it.
            let until = self.ended(table, row)?.filter(|until| *until <= self.opened);
            unused.ended.extend(until.map(dead));
            return Ok(());
        }
        let begin = table.place(row)?.begin();
        let stamp = self.memory.load(begin, Acquire)?;
        if is_mark(stamp) && self.recovered.contains_key(&stamp) {
            unused.cut_off.push(begin);
            unused.gone.push(dead(0));
        } else if stamp != 0 && table.has_durable_index() && table.has_keys(row)? {
            // The version of a transaction that is over; an index may lead to it.
            unused.ended.push(dead(0));
        } else {
            unused.gone.push(dead(0));
        }
        Ok(())
    }

    /// Clears the marks of rows whose statement was cut off by a crash. Their transaction may go on with the same
    /// mark, and must not take them for its own. The rows are not used again before everything is built.
    fn forget_cut_off(&self, unused: &Unused) {
        for begin in &unused.cut_off {
            self.memory.store(*begin, 0);
        }
    }

    fn queue_unused(&self, unused: Unused) {
        let mut garbage = self.garbage.write();
        garbage.add(unused.ended);
        garbage.retire(self.epochs.next(), unused.gone);
    }
}

/// Rows that are free, or will be.
#[derive(Default)]
struct Unused {
    /// Rows whose versions have ended, or were rolled back, and to which an index may lead.
    ended: Vec<DeadVersion>,
    /// Rows to which nothing leads.
    gone: Vec<DeadVersion>,
    /// The begin stamps of rows that a transaction in flight has made in a statement that was cut off.
    cut_off: Vec<Off<u64>>,
}

impl<M: Memory> Store<M> {
    /// Indexes up to `many` rows or values that were there when the store was opened: first those of tables of
    /// transactions in flight, and of structures the most used ones. Then it checks rows for use, an eighth as
    /// many. Returns whether there is more: false only if nothing is left in any structure.
    ///
    /// # Errors
    /// Damage. That of a structure is reported on every call, unless another thread is reporting it; other
    /// structures are built all the same.
    pub fn rebuild(&self, many: u64) -> Result<bool> {
        // Rows that are looked at are not used again meanwhile, even if another thread finishes the build.
        let _guard = EpochGuard::new(&self.0.epochs, &self.0.clock);
        let (step, damage) = self.0.step(many);
        let is_built = damage.and_then(|()| self.0.report_damage(many))?;
        if is_built || step == Step::Built {
            return Ok(true);
        }
        if step == Step::Taken {
            self.0.collecting.pause();
            return Ok(true);
        }
        // No read waits for this.
        if let Some(table) = self.0.tables.iter().find(|table| *table.unswept.read() > 1) {
            return self.0.sweep(table, many.div_ceil(8)).map(|()| true);
        }
        // Another thread is reporting damage, or has found it.
        let has_more = self.0.building.iter().any(|one| self.0.waiting(one.structure) > 0);
        if has_more {
            self.0.collecting.pause();
        }
        Ok(has_more)
    }

    /// Indexes up to `many` rows or values of a structure that is not known to be damaged, for readers. Damage
    /// stops the building of its own structure only; reads of that structure and [`Self::rebuild`] report it.
    /// Returns whether a part was built. If nothing is left, this costs one load.
    pub fn rebuild_sound(&self, many: u64) -> bool {
        if self.0.buildable.is_over() {
            return false;
        }
        // As in `rebuild`.
        let _guard = EpochGuard::new(&self.0.epochs, &self.0.clock);
        self.0.step(many).0 == Step::Built
    }

    /// Indexes the backlog of searches since the last call, each row and value in the index that lacked it.
    /// However many searches there are, together they look at a fixed number of bytes for each row, as long as no
    /// more than [`MOST_BUILT_TOGETHER`] become pending between two calls. A call indexes at most that many.
    /// Returns how many it has indexed.
    ///
    /// # Errors
    /// Damage, as in [`Self::rebuild`].
    pub fn build_pending(&self) -> Result<u64> {
        let (indexed, damage) = self.0.build_backlog(true);
        damage.map(|()| indexed)
    }

    /// The same for readers, as [`Self::rebuild_sound`]: the backlog of damaged structures stays.
    pub fn build_pending_sound(&self) -> u64 {
        if self.0.buildable.is_over() { 0 } else { self.0.build_backlog(false).0 }
    }

    /// Returns whether [`Self::rebuild`] has anything to do.
    pub fn has_unbuilt(&self) -> bool {
        let built = self.built();
        built.waiting > 0 || built.unswept > 0
    }

    /// Returns how much of the indexes is built.
    pub fn built(&self) -> Built {
        self.0.built()
    }
}
