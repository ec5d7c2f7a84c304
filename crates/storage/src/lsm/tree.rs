//! The log-structured merge tree of a partition (P1 3.3): a MemTable, one that is being written
//! out, and runs in files, of which each level below the first has one.
//!
//! Invariants:
//! - The runs are in the order of their age, and so are levels: an entry of a newer run hides those
//!   of older ones.
//! - A run that is an input of a merge stays readable until the edit that replaces it is durable.
//! - What the log holds from [`LsmTree::log_start`] on is in the MemTables, all else in runs.
//!
//! [`super::levels`] chooses the runs to merge; `work.rs` cuts the work into steps.

use std::collections::HashSet;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use heap::{Heap, Purpose};
use index::Direction;
use index::bloom::hash;
use pm::{File, Files, Memory};

use super::begun::Work;
use super::cache::{BlockCache, Found};
use super::change::NoWhole;
use super::entry::{Assembly, Entry};
use super::error::LsmError;
use super::levels::LevelPolicy;
use super::manifest::{self, Manifest, Version};
use super::memtable::{MemCursor, MemTable};
use super::merge::Merge;
use super::record::Record;
use super::sstable::{Cursor, Sequence, SsCursor, SsInfo, SsOptions, SsTable, sstable_prefix};
use super::trees::{TreeKey, Trees};
use crate::logs::segments::Spare;
use crate::logs::wal::{LogStart, number_in};
use crate::rows::key::TableKey;
use crate::rows::row::Row;
use crate::work_done::WorkDone;

/// Levels that statistics tell apart.
pub const LEVELS: usize = 8;
/// Levels that there can be.
const MAX_LEVEL: u32 = 63;
/// Lanes of the volatile heap that a tree takes: two MemTables and the cache.
pub const TREE_LANES: u32 = 3;

/// The shape of a tree.
#[derive(Clone, Copy, Debug)]
pub struct LsmOptions {
    /// The policy that says when the MemTable is written out and how levels grow.
    pub policy: LevelPolicy,
    /// The options with which runs are written.
    pub runs: SsOptions,
    /// Bytes of the cache of blocks.
    pub cache_bytes: u64,
}

/// Reports what a tree has done, in bytes of files.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct LsmStats {
    /// Bytes that were written by flushing MemTables.
    pub flushed_bytes: u64,
    /// Bytes that were written by merges into each level.
    pub merged_bytes: [u64; LEVELS],
    /// Runs at each level now.
    pub runs: [u32; LEVELS],
    /// Their bytes.
    pub run_bytes: [u64; LEVELS],
    /// MemTables flushed.
    pub flushes: u64,
    /// Merges done.
    pub merges: u64,
    /// Counts how often a writer had to wait for a flush or a merge.
    pub stalls: u64,
    /// Flushes and merges that failed and will be tried again.
    pub failures: u64,
    /// Bytes that wait to be flushed or merged.
    pub waiting_bytes: u64,
    /// Bytes of MemTables and of inputs of merges that steps have gone through.
    pub done: WorkDone,
}

/// A run and the level that it belongs to.
#[derive(Debug)]
pub(super) struct Run<R: pm::File> {
    pub(super) level: u32,
    pub(super) table: Arc<SsTable<R>>,
    /// True if it is an input of a merge.
    pub(super) busy: bool,
}

/// A log-structured merge tree; see the module's comment.
#[derive(Debug)]
pub struct LsmTree<F: Files, M: Memory> {
    pub(super) files: F,
    pub(super) partition: u32,
    pub(super) options: LsmOptions,
    pub(super) trees: Arc<Trees>,
    pub(super) manifest: Manifest<F>,
    /// The file of the next run that a MemTable becomes, and one with what is kept for deletions.
    pub(super) spare: Spare<F>,
    pub(super) kept: Spare<F>,
    /// Entries of the runs that are no tombstones, and bytes of the runs.
    pub(super) in_runs: (u64, u64),
    /// Newest first.
    pub(super) runs: Vec<Run<F::File>>,
    pub(super) log: LogStart,
    pub(super) next_file: u64,
    pub(super) active: MemTable<M>,
    /// The MemTable that is being written out, or the empty one that comes next.
    pub(super) other: MemTable<M>,
    /// The place where the log of the active MemTable begins, while the other one is being written
    /// out.
    pub(super) frozen: Option<LogStart>,
    /// Bytes of the active MemTable's log, about.
    pub(super) logged: u64,
    pub(super) cache: BlockCache<M>,
    pub(super) work: Work<F::File>,
    pub(super) stats: LsmStats,
    /// The MemTable that comes next could not be emptied.
    pub(super) broken: bool,
}

impl<F: Files, M: Memory> LsmTree<F, M> {
    fn assemble(
        files: F,
        partition: u32,
        heap: &Heap<M>,
        trees: Arc<Trees>,
        options: LsmOptions,
        (manifest, version): (Manifest<F>, &Version),
    ) -> Result<Self, LsmError> {
        let frame_bytes = u64::from(options.runs.block_bytes);
        let spare = |kind| {
            let name = format!("spare-{kind}-{partition}");
            Spare::open(files.clone(), name.clone()).map_err(LsmError::io("open", &name))
        };
        Ok(Self {
            spare: spare("sstable")?,
            kept: spare("merge")?,
            in_runs: (0, 0),
            files,
            partition,
            options,
            manifest,
            runs: Vec::new(),
            log: version.log,
            next_file: version.next_file,
            active: MemTable::new(heap.lane(0), trees.clone())?,
            other: MemTable::new(heap.lane(1), trees.clone())?,
            frozen: None,
            logged: 0,
            cache: BlockCache::new(heap.lane(2), options.cache_bytes, frame_bytes),
            work: Work::default(),
            stats: LsmStats::default(),
            broken: false,
            trees,
        })
    }

    /// Creates an empty tree, durably. It takes the first [`TREE_LANES`] lanes of the heap.
    ///
    /// # Errors
    /// [`LsmError::Io`], or no memory.
    pub fn create(
        files: F,
        partition: u32,
        heap: &Heap<M>,
        trees: Arc<Trees>,
        options: LsmOptions,
        log: LogStart,
    ) -> Result<Self, LsmError> {
        let version = Version { runs: Vec::new(), log, next_file: 0 };
        let manifest = Manifest::create(files.clone(), partition, &version)?;
        Self::assemble(files, partition, heap, trees, options, (manifest, &version))
    }

    /// Opens the runs that the manifest names. The caller replays the log from
    /// [`Self::log_start`] on, and then calls [`Self::finish_open`].
    ///
    /// # Errors
    /// A file that the manifest names is missing, damaged or foreign; [`LsmError::Io`].
    pub fn open(
        files: F,
        partition: u32,
        heap: &Heap<M>,
        trees: Arc<Trees>,
        options: LsmOptions,
    ) -> Result<Self, LsmError> {
        let (manifest, version) = Manifest::open(files.clone(), partition)?;
        let mut tree =
            Self::assemble(files, partition, heap, trees, options, (manifest, &version))?;
        let mut seen = HashSet::new();
        let mut above = 0;
        for (level, info) in &version.runs {
            if !seen.insert(info.file)
                || info.file >= version.next_file
                || *level < above
                || *level > MAX_LEVEL
            {
                let name = format!("manifest-{partition}");
                return Err(LsmError::damaged(&name, 0, "its runs do not make sense"));
            }
            above = *level;
            let table = Arc::new(SsTable::open(&tree.files, partition, *info)?);
            tree.runs.push(Run { level: *level, table, busy: false });
        }
        tree.count_runs();
        Ok(tree)
    }

    /// Removes files that a crash left and that nothing names, after the log has been recovered,
    /// which syncs the directory. The space of one is kept for the next run.
    ///
    /// # Errors
    /// [`LsmError::Io`].
    pub fn finish_open(&mut self) -> Result<(), LsmError> {
        let prefix = sstable_prefix(self.partition);
        for name in self.files.list().map_err(LsmError::io("list the directory of", &prefix))? {
            if let Some(file) = number_in(&name, &prefix)
                && !self.runs.iter().any(|run| run.table.info().file == file)
            {
                self.discard(&name)?;
            }
        }
        manifest::remove_leftovers(&self.files, self.partition)?;
        self.schedule();
        Ok(())
    }

    /// Removes the file of a run that does not count, or keeps its space for the next run, if there is
    /// less for that.
    pub(super) fn discard(&mut self, name: &str) -> Result<(), LsmError> {
        let file = self.files.open(name).map_err(LsmError::io("open", name))?;
        let bytes = file.len().map_err(LsmError::io("read", name))?;
        if self.spare.file().is_some() && bytes <= self.spare.reserved() {
            return self.files.remove(name).map_err(LsmError::io("remove", name));
        }
        self.files.rename(name, self.spare.name()).map_err(LsmError::io("rename", name))?;
        self.spare.reopen().map_err(LsmError::io("open", name))
    }

    /// Bytes of files that are set aside.
    pub fn spare_bytes(&self) -> u64 {
        self.spare.reserved() + self.kept.reserved()
    }

    /// The log from here on is not in the runs.
    pub fn log_start(&self) -> LogStart {
        self.log
    }

    /// The MemTable that takes changes.
    pub fn memtable(&mut self) -> &mut MemTable<M> {
        &mut self.active
    }

    /// The trees.
    pub fn trees(&self) -> &Arc<Trees> {
        &self.trees
    }

    /// Returns whether it has become unknown which runs count; the partition must be opened again.
    pub fn is_poisoned(&self) -> bool {
        self.manifest.is_poisoned() || self.broken
    }

    /// Calls `visit` with the entries of a key, newest first, until it breaks.
    ///
    /// # Errors
    /// Damage, or a file cannot be read.
    #[inline]
    pub fn find<B>(
        &self,
        tree: u16,
        key: &TableKey,
        mut visit: impl FnMut(&Entry<'_, M>) -> ControlFlow<B>,
    ) -> Result<Option<B>, LsmError> {
        let frozen = self.frozen.is_some().then_some(&self.other);
        for table in std::iter::once(&self.active).chain(frozen) {
            if let Some(entry) = table.get(tree, key)?
                && let ControlFlow::Break(found) = visit(&Entry::Memory(entry))
            {
                return Ok(Some(found));
            }
        }
        self.find_in_runs(tree, key, visit)
    }

    fn find_in_runs<B>(
        &self,
        tree: u16,
        key: &TableKey,
        mut visit: impl FnMut(&Entry<'_, M>) -> ControlFlow<B>,
    ) -> Result<Option<B>, LsmError> {
        if self.runs.is_empty() {
            return Ok(None);
        }
        let key = TreeKey::new(tree, key);
        let hash = hash(key.as_bytes());
        for run in &self.runs {
            if run.table.may_contain(&self.cache, hash)? {
                let read = |record: Record<Found<'_, M>>| visit(&Entry::Stored(record));
                if let Some(ControlFlow::Break(found)) =
                    run.table.get(&self.cache, key.as_bytes(), read)?
                {
                    return Ok(Some(found));
                }
            }
        }
        Ok(None)
    }

    /// Returns whether the key's newest entry is no tombstone.
    ///
    /// # Errors
    /// As [`Self::find`].
    #[inline]
    pub fn contains(&self, tree: u16, key: &TableKey) -> Result<bool, LsmError> {
        let newest = self.find(tree, key, |entry| ControlFlow::Break(!entry.is_tombstone()))?;
        Ok(newest == Some(true))
    }

    /// Copies columns of the tuple with this primary key into `row`, all of them if none are
    /// named; returns whether there is one.
    ///
    /// # Errors
    /// As [`Self::find`].
    #[inline]
    pub fn read(
        &self,
        tree: u16,
        key: &TableKey,
        columns: Option<&[u16]>,
        row: &mut Row,
    ) -> Result<bool, LsmError> {
        let mut tuple = Assembly::new(self.trees.table(tree), columns, row);
        let failed = self.find(tree, key, |entry| match tuple.add(entry) {
            Ok(false) => ControlFlow::Continue(()),
            Ok(true) => ControlFlow::Break(Ok(())),
            Err(error) => ControlFlow::Break(Err(error)),
        })?;
        failed.unwrap_or(Ok(()))?;
        tuple.finish()
    }

    /// A range of a tree over all runs, each key's entries together.
    ///
    /// # Errors
    /// As [`Self::find`].
    #[expect(clippy::needless_pass_by_value, reason = "the bounds of a scan are used up")]
    pub fn range(
        &self,
        tree: u16,
        low: Bound<TableKey>,
        high: Bound<TableKey>,
        direction: Direction,
    ) -> Result<Merge<Box<dyn Cursor + '_>>, LsmError> {
        let mut cursors: Vec<Box<dyn Cursor + '_>> = Vec::new();
        let frozen = self.frozen.is_some().then_some(&self.other);
        for table in std::iter::once(&self.active).chain(frozen) {
            cursors.push(Box::new(MemCursor::new(
                table,
                tree,
                (low.clone(), high.clone()),
                direction,
            )?));
        }
        let (low, high) = TreeKey::range(tree, &low, &high);
        let bounds = (low.as_ref().map(TreeKey::as_bytes), high.as_ref().map(TreeKey::as_bytes));
        for run in &self.runs {
            let cursor = SsCursor::new(&run.table, &self.cache, bounds, direction)?;
            cursors.push(Box::new(cursor));
        }
        Ok(Merge::new(cursors, direction))
    }

    /// Checks every byte of every run: checksums, order, that index and filter lead to each entry,
    /// and that what the runs say together makes sense.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), LsmError> {
        for run in &self.runs {
            let mut sequence = Sequence::new(run.table.clone())?;
            let mut block = None;
            while let Some(key) = sequence.key() {
                let wrong =
                    |what| LsmError::damaged(run.table.name(), sequence.block_at().at, what);
                if !run.table.may_contain(&self.cache, hash(key))? {
                    return Err(wrong("the filter denies an entry"));
                }
                if block.replace(sequence.block_at()) != Some(sequence.block_at())
                    && run.table.get(&self.cache, key, |_| ())?.is_none()
                {
                    return Err(wrong("the index does not lead to an entry"));
                }
                sequence.advance()?;
            }
        }
        let sequences = self.runs.iter().map(|run| Sequence::new(run.table.clone()));
        let sequences = sequences.collect::<Result<Vec<_>, _>>()?;
        let mut all = Merge::new(sequences, Direction::Forward);
        let mut out = super::record::Encoder::default();
        while let Some(key) = all.key() {
            let tree = key.first_chunk().map(|tree| u16::from_be_bytes(*tree));
            if tree.is_none_or(|tree| usize::from(tree) >= self.trees.len()) {
                return Err(NoWhole.into());
            }
            all.combine(true, &mut out)?;
            all.advance()?;
        }
        Ok(())
    }

    /// Bytes of the files: entries, and what serves finding them.
    pub fn run_bytes(&self) -> (u64, u64) {
        let sums = self.runs.iter().map(|run| (run.table.info().bytes, run.table.index_bytes()));
        let (all, index) = sums.fold((0, 0), |sum, run| (sum.0 + run.0, sum.1 + run.1));
        (all - index, index)
    }

    /// Bytes of the manifest.
    pub fn manifest_bytes(&self) -> u64 {
        self.manifest.bytes()
    }

    /// Returns what the tree has done.
    pub fn stats(&self) -> LsmStats {
        let mut stats = self.stats;
        for run in &self.runs {
            let level = (run.level as usize).min(LEVELS - 1);
            stats.runs[level] += 1;
            stats.run_bytes[level] += run.table.info().bytes;
        }
        stats.waiting_bytes = self.waiting();
        stats
    }

    /// The runs with their levels, newest first.
    pub fn runs(&self) -> Vec<(u32, SsInfo)> {
        self.runs.iter().map(|run| (run.level, run.table.info())).collect()
    }
}

/// Returns what the chunks of a volatile heap are used for: bytes of entries, of trees, of all
/// else.
///
/// # Errors
/// Damaged memory.
pub fn volatile_bytes<M: Memory>(heap: &Heap<M>) -> Result<(u64, u64, u64), LsmError> {
    let mut bytes = (0, 0, 0);
    for chunk in heap.chunk_use()? {
        let sum = match chunk.purpose {
            Some(Purpose::Table) => &mut bytes.0,
            Some(Purpose::Index) => &mut bytes.1,
            _ => &mut bytes.2,
        };
        *sum += heap.chunk_bytes();
    }
    Ok(bytes)
}
