//! Does the deferred work, and decides when: filters, merges, taking apart, each in steps that are
//! bounded by a leaf.
//!
//! Writers pay for it: what a transaction adds to the MemTable buys steps, so that a merge is done
//! well before level 0 is full again. No call waits longer than a few steps, and the number of runs
//! stays bounded without a thread in the background.

use heap::HeapError;
use pm::Memory;

use crate::error::StorageError;
use crate::lsm::tree::LEVELS;
use crate::runs::Runs;
use crate::runs::layout::{MAX_LEVEL, MAX_RUNS};
use crate::work_done::WorkDone;

/// Bytes that moving an entry from run to run counts for.
const ENTRY_BYTES: u64 = 64;
/// Commits for which nothing is tried after there was no room.
const PAUSE: u32 = 64;
/// Commits after opening for which nothing is done.
const FIRST_COMMITS: u32 = 4;

/// Reports what has been done since the tables were opened, and what waits.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct RunsStats {
    /// MemTables frozen.
    pub freezes: u64,
    /// Merges that have replaced their inputs.
    pub merges: u64,
    /// Bytes of leaves and entries that merges into each level have written; of filters, too.
    pub merged_bytes: [u64; LEVELS],
    /// Runs at each level now.
    pub runs: [u32; LEVELS],
    /// Their bytes, fields that entries lead to included.
    pub run_bytes: [u64; LEVELS],
    /// Steps for which there was no room.
    pub failures: u64,
    /// Work that waits, in the bytes of a budget.
    pub waiting_bytes: u64,
    /// Entries that steps have looked at, in such bytes.
    pub done: WorkDone,
}

/// The amount of work that is due.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// True if there may be something to do.
    awake: bool,
    /// Entries that the transactions have paid for.
    credit: u64,
    /// Entries that the work at hand has to look at, about.
    due: u64,
    /// Commits to let pass.
    pause: u32,
}

impl Pace {
    pub(crate) fn wake(&mut self) {
        self.awake = true;
    }

    /// Rests until it is woken: there is nothing to do.
    pub(crate) fn rest_until_woken(&mut self) {
        self.awake = false;
    }

    /// Rests after opening: the first commits do no work, since a caller waits for them and each
    /// step touches pages for the first time.
    pub(crate) fn rest(&mut self) {
        self.pause = FIRST_COMMITS;
    }
}

impl<M: Memory> Runs<M> {
    /// Does the work that `grown` bytes pay for, after a commit that added them to the MemTable. It
    /// leaves no mini-transaction without a fence, of its own steps or of those before.
    ///
    /// # Errors
    /// Damage. A lack of room is none: the work waits.
    #[inline]
    pub fn work_for(&mut self, grown: u64) -> Result<(), StorageError> {
        if self.pace.awake && grown > 0 {
            self.work_off(grown)?;
        }
        self.tables.lane.fence_flushed();
        Ok(())
    }

    #[cold]
    fn work_off(&mut self, grown: u64) -> Result<(), StorageError> {
        if self.pace.pause > 0 {
            self.pace.pause -= 1;
            return Ok(());
        }
        if self.pace.due == 0 {
            self.pace.due = self.entries_due();
        }
        // Twice as fast as level 0 fills; where the directory fills, four times.
        let haste = if self.is_crowded() { 8 } else { 2 };
        let round = self.policy.limit(0).max(1);
        let due = u128::from(self.pace.due.min(1 << 40));
        let paid = u128::from(grown) * due * haste / u128::from(round);
        let paid = u64::try_from(paid).unwrap_or(u64::MAX).max(1);
        self.pace.credit = self.pace.credit.saturating_add(paid);
        while self.pace.awake && self.pace.credit > 0 {
            let done = self.work_step()?;
            if done == 0 {
                self.pace.credit = 0;
            }
            self.pace.credit = self.pace.credit.saturating_sub(done);
        }
        Ok(())
    }

    /// Returns whether the directory has little room for more runs.
    pub(crate) fn is_crowded(&self) -> bool {
        self.runs.len() + self.policy.level0_runs as usize > MAX_RUNS
    }

    /// Does at most about `budget` bytes of the work that waits; returns about how many bytes
    /// still do. Leaves no mini-transaction without a fence.
    ///
    /// # Errors
    /// Damage. A lack of room is none: the work waits.
    pub fn work(&mut self, budget: u64) -> Result<u64, StorageError> {
        let mut done = 0;
        while self.pace.awake && done < budget {
            let entries = self.work_step()?;
            if entries == 0 {
                break;
            }
            done += entries * ENTRY_BYTES;
        }
        self.tables.lane.fence_flushed();
        Ok(self.waiting_bytes())
    }

    /// Returns whether there may be work.
    #[inline]
    pub fn has_work(&self) -> bool {
        self.pace.awake
    }

    /// Returns whether as much work waits as level 0 can take, so that the background does not do
    /// it in time.
    pub fn is_behind(&self) -> bool {
        self.runs.iter().filter(|run| run.level == 0).count()
            >= 2 * self.policy.level0_runs as usize
    }

    /// Returns what has been done, and what waits.
    pub fn stats(&self) -> RunsStats {
        let mut stats = self.stats;
        for run in &self.runs {
            let level = run.level.min(LEVELS - 1);
            stats.runs[level] += 1;
            stats.run_bytes[level] += run.size();
        }
        stats.waiting_bytes = self.waiting_bytes();
        stats
    }

    fn waiting_bytes(&self) -> u64 {
        if self.pace.awake { self.entries_due().max(1).saturating_mul(ENTRY_BYTES) } else { 0 }
    }

    /// Does a step; returns how many entries it looked at, 0 if it could do nothing.
    fn work_step(&mut self) -> Result<u64, StorageError> {
        match self.try_step() {
            Err(StorageError::Heap(HeapError::Full(_))) => {
                self.stats.failures += 1;
                self.pace.pause = PAUSE;
                Ok(0)
            }
            Ok(0) => Ok(0),
            Ok(entries) => {
                self.count_step(entries);
                Ok(entries)
            }
            failed => failed,
        }
    }

    pub(crate) fn count_step(&mut self, entries: u64) {
        self.stats.done.step(entries * ENTRY_BYTES);
    }

    fn try_step(&mut self) -> Result<u64, StorageError> {
        if self.relief.tight {
            return self.relief_step();
        }
        if let Some(result) = self.dismantling()? {
            return self.dismantle_step(result);
        }
        if !self.no_filters
            && let Some(run) = self.bare_run()
        {
            return self.fill(run);
        }
        if self.merging.is_some() {
            return self.merge_step();
        }
        if let Some(result) = self.building()? {
            self.resume_merge(result)?;
            return Ok(1);
        }
        let levels = self.bytes_by_level();
        let levels: Vec<&[u64]> = levels.iter().map(Vec::as_slice).collect();
        self.pace.due = 0;
        let merge = self.policy.next_merge(&levels).filter(|merge| merge.into <= MAX_LEVEL);
        if let Some(merge) = merge {
            self.start_merge(merge)?;
            return Ok(1);
        }
        self.pace.awake = false;
        Ok(0)
    }

    fn bytes_by_level(&self) -> Vec<Vec<u64>> {
        let mut levels = vec![Vec::new(); self.runs.last().map_or(0, |oldest| oldest.level + 1)];
        self.runs.iter().for_each(|run| levels[run.level].push(run.size()));
        levels
    }

    /// Returns about how many entries the work that waits has to look at: those of the runs that
    /// are merged or will be, once for the filter, once for the merge, once for taking apart.
    fn entries_due(&self) -> u64 {
        let levels = self.bytes_by_level();
        let levels: Vec<&[u64]> = levels.iter().map(Vec::as_slice).collect();
        let deepest = match (self.policy.next_merge(&levels), &self.merging) {
            (_, Some(merging)) => merging.result.level,
            (Some(merge), None) => merge.into,
            (None, None) => 0,
        };
        let runs = self.runs.iter().filter(|run| run.level <= deepest);
        runs.fold(0u64, |sum, run| sum.saturating_add(run.keys.saturating_mul(3)))
    }

    /// Finishes at once the step of taking a run apart that a crash may have cut off: before
    /// anything is allocated. Bounded by a leaf.
    ///
    /// # Errors
    /// Damage.
    pub fn finish_dismantle_step(&mut self) -> Result<(), StorageError> {
        if let Some(result) = self.dismantling()? {
            self.dismantle_step(result)?;
        }
        Ok(())
    }
}
