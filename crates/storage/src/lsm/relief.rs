//! Merging on a full medium: all runs into one, if what is left of them finds space.
//!
//! A merge of two levels needs as much space as its result, and what is deleted in one of them may
//! stand in another. On a full medium such merges fail one after the other. If many entries are
//! tombstones, most of what they hide goes when all runs are merged; the result then is small.

use pm::{Files, Memory};

use super::error::LsmError;
use super::levels::Merge as Due;
use super::sstable::SsWriter;
use super::tree::LsmTree;

/// The share of the entries that are tombstones when it is worth it.
const TOMBSTONE_SHARE: u64 = 8;

impl<F: Files, M: Memory> LsmTree<F, M> {
    /// Merges all runs into one if many entries are deleted, and about as much space as the result needs
    /// can be had. Returns whether it has. Merges
    /// that are under way are given up for it.
    ///
    /// # Errors
    /// It failed, also for want of space; it can be tried again, unless [`Self::is_poisoned`].
    pub fn relieve(&mut self) -> Result<bool, LsmError> {
        if self.frozen.is_some() || self.runs.len() < 2 {
            return Ok(false);
        }
        let infos = || self.runs.iter().map(|run| run.table.info());
        let entries: u64 = infos().map(|info| info.entries).sum();
        let tombstones: u64 = infos().map(|info| info.tombstones).sum();
        if tombstones < entries / TOMBSTONE_SHARE || tombstones < self.work.relief_at {
            return Ok(false);
        }
        let bytes: u64 = infos().map(|info| info.bytes).sum();
        // A tombstone goes, and what it hides.
        let left = entries.saturating_sub(2 * tombstones);
        let share = u128::from(bytes) * u128::from(left) / u128::from(entries.max(1));
        // Tombstones are small. The filter is made for all entries.
        let needed = share as u64 + share as u64 / 8 + 2 * entries;
        self.abandon_merges();
        if self.spare.reserve(needed, needed).is_err() {
            return Ok(false);
        }
        // Again when an eighth of them have gone.
        self.work.relief_at = tombstones + left / 16 + 1;
        let into = self.runs.iter().map(|run| run.level as usize).max().unwrap_or(0).max(1);
        let (number, options) = (self.next_file, self.options.runs);
        let writer =
            SsWriter::create_in(&mut self.spare, self.partition, number, entries, options)?;
        self.next_file += 1;
        let all: Vec<usize> = (0..self.runs.len()).collect();
        self.start_merge(&all, Due { from: 0, into, to_bottom: true }, writer)?;
        self.merge_step(self.work.merges.len() - 1, u64::MAX)?;
        self.work.relief_at = 0;
        Ok(true)
    }
}
