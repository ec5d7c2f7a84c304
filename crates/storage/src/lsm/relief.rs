//! Space for deletions on a full medium, in a file of its own.
//!
//! A deletion writes tombstones, and nothing leaves a run before that is merged into another, for which
//! there has to be space. So it is set aside before anything is inserted or changed.
//!
//! Invariants, where a tuple has been inserted or changed:
//! - One file has space for the run of all that the MemTables have and what deletions can add.
//! - Another has space for a tombstone of each entry; and for merging as many tombstones, or for a fourth
//!   of what the runs have, whichever is more.
//!
//! So all can be deleted, and when three fourths have been, the rest finds space in one run.
//!
//! 1. A MemTable becomes a run in the first file.
//! 2. If level 0 has many runs and there is no space to merge them down, the newest, of tombstones, are
//!    merged into one in the second: [`LsmTree::gather`].
//! 3. When what is left of all runs finds space there, they are merged into one: [`LsmTree::relieve`].
//! 4. After each of these the files get what they lack from what has become free, the first one from the
//!    second if the medium has nothing: [`LsmTree::replenish`].

use pm::{Files, Memory};

use super::error::LsmError;
use super::levels::Merge as Due;
use super::manifest::Version;
use super::memtable::MemTable;
use super::sstable::SsWriter;
use super::tree::LsmTree;
use super::trees::TREE_BYTES;

/// The share of the entries that are tombstones when merging all is worth it.
const TOMBSTONE_SHARE: u64 = 8;
/// The part of the runs' bytes for whose merge there is space.
const MERGED_SHARE: u64 = 4;
/// Bytes of an edit of the manifest, or of a new one, at most: of any, and of each run.
const EDIT_BYTES: u64 = 256;
const RUN_OF_EDIT_BYTES: u64 = 40;
/// Bytes that a deletion in the log has at least.
const LEAST_DELETION_BYTES: u64 = 32;

impl<F: Files, M: Memory> LsmTree<F, M> {
    /// Sees to it that all in the MemTables, and about so many bytes of log more, can be written out, and
    /// deleted, on a full medium. Takes some more, if the medium has it.
    ///
    /// # Errors
    /// The medium has no room.
    pub fn make_room(&mut self, more: u64) -> Result<(), LsmError> {
        let (next, kept) = self.needed(more);
        let ahead = self.options.policy.memtable_bytes / 8;
        for (spare, needed) in [(&mut self.spare, next), (&mut self.kept, kept)] {
            if spare.reserved() < needed {
                let reserved = spare.reserve(needed, needed + ahead);
                reserved.map_err(LsmError::io("reserve space for", spare.name()))?;
            }
        }
        Ok(())
    }

    /// After space has been freed: takes what [`Self::make_room`] would, as far as there is, and no more.
    /// Returns whether there is space for the next run, with so many bytes of log more.
    ///
    /// # Errors
    /// The medium failed.
    pub fn replenish(&mut self, more: u64) -> Result<bool, LsmError> {
        let (next, kept) = self.needed(more);
        self.spare.cut(next).map_err(LsmError::io("cut", self.spare.name()))?;
        self.spare.grow(next);
        let lacking = next - self.spare.reserved();
        let left = self.kept.reserved().saturating_sub(lacking);
        self.kept.cut(left.min(kept)).map_err(LsmError::io("cut", self.kept.name()))?;
        self.spare.grow(next);
        self.kept.grow(kept);
        Ok(self.spare.reserved() >= next)
    }

    /// Returns whether the medium is about full: it refuses what [`Self::make_room`] would take, and some
    /// more.
    pub fn is_tight(&mut self, more: u64) -> bool {
        let ahead = self.options.policy.memtable_bytes / 8;
        let (next, kept) = self.needed(more);
        self.kept.reserve(kept, kept).is_err()
            || self.spare.reserve(next + ahead, next + ahead).is_err()
    }

    /// Bytes of the run that the MemTables become which have no file yet, with so many bytes of log more;
    /// and those that are kept for deletions.
    fn needed(&self, more: u64) -> (u64, u64) {
        let mut next = self.run_bytes_of(&self.active, more);
        let (mut entries, mut bytes) = self.in_runs;
        (entries, bytes) = (entries + self.active.entries(), bytes + next);
        if self.frozen.is_some() {
            let other = self.run_bytes_of(&self.other, 0);
            (entries, bytes) = (entries + self.other.entries(), bytes + other);
            if self.work.flush.is_none() {
                next += other;
            }
        }
        let (options, longest) = (self.options.runs, self.trees.longest_key());
        let tombstones =
            options.most_bytes(entries, entries * longest, (longest, longest)).min(bytes);
        // They come in runs of a few, each with its own ends.
        let runs = entries.min(2 * self.most_level0_runs() as u64);
        let ends = runs * (options.most_bytes(1, longest, (longest, longest)) + RUN_OF_EDIT_BYTES);
        (next, ends + tombstones + tombstones.max(bytes / MERGED_SHARE))
    }

    /// Bytes that the run of a MemTable has at most, with so many bytes of log more, and the edit that
    /// lets it count.
    pub(super) fn run_bytes_of(&self, table: &MemTable<M>, more: u64) -> u64 {
        let entries = table.entries() + more / LEAST_DELETION_BYTES;
        // A number has eight bytes here and up to ten in a run.
        let bytes = (table.bytes() + more) / 4 * 5 + TREE_BYTES as u64 * entries;
        let run =
            self.options.runs.most_bytes(entries, bytes, (self.trees.longest_key(), u64::MAX));
        run + self.edit_bytes()
    }

    fn edit_bytes(&self) -> u64 {
        EDIT_BYTES + RUN_OF_EDIT_BYTES * self.runs.len() as u64
    }

    /// Lets a version count. On a full medium the edit takes what it needs from what is set aside.
    pub(super) fn edit(&mut self, version: &Version) -> Result<(), LsmError> {
        match self.manifest.edit(version) {
            Err(error) if error.is_full() && !self.manifest.is_poisoned() => {
                let left = self.kept.reserved().saturating_sub(self.edit_bytes());
                self.kept.cut(left).map_err(LsmError::io("cut", self.kept.name()))?;
                self.manifest.edit(version)
            }
            done => done,
        }
    }

    /// The runs have changed.
    pub(super) fn count_runs(&mut self) {
        let infos = || self.runs.iter().map(|run| run.table.info());
        let entries = infos().map(|info| info.entries.saturating_sub(info.tombstones)).sum();
        self.in_runs = (entries, infos().map(|info| info.bytes).sum());
    }

    /// Merges the newest runs of level 0 into one of level 0, if they have tombstones for the most part:
    /// each is at most twice as large as all newer ones, so none is merged often.
    ///
    /// # Errors
    /// It failed, also for want of space; it can be tried again, unless [`Self::is_poisoned`].
    pub(super) fn gather(&mut self) -> Result<(), LsmError> {
        let (mut places, mut bytes, mut entries) = (Vec::new(), 0, 0);
        for (at, run) in self.runs.iter().enumerate() {
            let info = run.table.info();
            let is_small = at == 0 || info.bytes <= 2 * bytes;
            if run.level > 0 || run.busy || 2 * info.tombstones < info.entries || !is_small {
                break;
            }
            places.push(at);
            (bytes, entries) = (bytes + info.bytes, entries + info.entries);
        }
        if places.len() < 2 {
            return Ok(());
        }
        self.merge_in_kept(&places, bytes, entries, Due { from: 0, into: 0, to_bottom: false })
    }

    /// Merges all runs into one if many entries are deleted, and about as much space as the result needs
    /// can be had. Merges that are under way are given up for it.
    ///
    /// # Errors
    /// It failed, also for want of space; it can be tried again, unless [`Self::is_poisoned`].
    pub fn relieve(&mut self) -> Result<(), LsmError> {
        if self.frozen.is_some() || self.runs.len() < 2 {
            return Ok(());
        }
        let (entries, bytes) = self.in_runs;
        let tombstones: u64 = self.runs.iter().map(|run| run.table.info().tombstones).sum();
        if tombstones < entries / TOMBSTONE_SHARE || tombstones < self.work.relief_at {
            return Ok(());
        }
        // Each tombstone goes, and what it hides.
        let left = entries.saturating_sub(tombstones);
        let share = u128::from(bytes) * u128::from(left) / u128::from(entries.max(1));
        let needed = share as u64 + self.edit_bytes();
        if self.kept.reserve(needed, needed).is_err() {
            return Ok(());
        }
        self.abandon_merges();
        // Again when an eighth of them have gone.
        self.work.relief_at = tombstones + left / 8 + 1;
        let into = self.runs.iter().map(|run| run.level as usize).max().unwrap_or(0).max(1);
        let all: Vec<usize> = (0..self.runs.len()).collect();
        self.merge_in_kept(&all, u64::MAX, entries, Due { from: 0, into, to_bottom: true })?;
        self.work.relief_at = 0;
        Ok(())
    }

    /// Merges the runs at these places, which lie together, in so many bytes of what is kept.
    fn merge_in_kept(
        &mut self,
        places: &[usize],
        bytes: u64,
        entries: u64,
        due: Due,
    ) -> Result<(), LsmError> {
        self.kept.reserve(1, 1).map_err(LsmError::io("reserve space for", self.kept.name()))?;
        let (number, options) = (self.next_file, self.options.runs);
        let kept = (&mut self.kept, bytes);
        let writer = SsWriter::create_in(kept, self.partition, number, entries, options)?;
        self.next_file += 1;
        self.start_merge(places, due, writer)?;
        self.merge_step(self.work.merges.len() - 1, u64::MAX)
    }
}
