//! The work that a tree puts off: writing a MemTable out, and merging runs. It is done in steps,
//! each a bounded number of bytes.
//!
//! 1. [`LsmTree::freeze`] sets a full MemTable aside; readers still see it.
//! 2. Steps write it to an SSTable. One edit of the manifest makes the run count and moves the
//!    start of the log; the MemTable is emptied, to be the next one.
//! 3. When a level has outgrown its limit, its runs and those of the level below are merged. The
//!    level can take new runs meanwhile, and merges of different levels go on at the same time. One
//!    edit puts the result in the place of the inputs; their files are removed.
//!
//! Steps are done by callers of [`LsmTree::work`], such as a thread in the background, and by
//! writers, in [`LsmTree::pace`], where that is not enough. For each byte that comes into the
//! MemTable, a flush advances by two bytes, and a merge into a level by the growth factor and two:
//! the merge of a level of `n` bytes reads at most `n` and the `k n` bytes of the level below, so
//! it ends before `n` more bytes have come down. That bounds runs and space for every load.
//!
//! A MemTable whose tuples are only changed in place does not grow, but its log does. So a MemTable
//! counts as at least a fourth of its log, and is full when that has become four times as long.
//!
//! A flush or merge that fails, for want of space, changes nothing; it is tried again later.

use std::ops::Bound;
use std::sync::Arc;

use index::Direction;
use pm::{Files, Memory};

use super::begun::{Flush, Merging, end_some};
use super::error::LsmError;
use super::levels::Merge as Due;
use super::manifest::Version;
use super::memtable::MemCursor;
use super::merge::Merge;
use super::record::{Encoder, KIND_TOMBSTONE};
use super::sstable::{Cursor, Sequence, SsTable, SsWriter};
use super::tree::{LEVELS, LsmTree, Run};
use crate::logs::wal::LogStart;

/// The factor by which a MemTable's log may become longer than the MemTable.
const LOG_FACTOR: u64 = 4;
/// Writers do steps of about so many bytes of the MemTable's growth, or a smaller part of it.
const PACE_BYTES: u64 = 16 << 10;

impl<F: Files, M: Memory> LsmTree<F, M> {
    /// Bytes that the MemTable counts for: its own, or a part of those of its log.
    pub fn load(&self) -> u64 {
        self.active.bytes().max(self.logged / LOG_FACTOR)
    }

    /// Returns whether the MemTable, or its log, is so large that it should be frozen.
    pub fn is_full(&self) -> bool {
        self.load() >= self.options.policy.memtable_bytes
    }

    /// The log of the MemTable has become longer by about so many bytes.
    pub fn logged(&mut self, bytes: u64) {
        self.logged += bytes;
    }

    /// Finishes what stands in the way of [`Self::freeze`], before it. The writer waits for it.
    ///
    /// # Errors
    /// It failed; the MemTable can grow on.
    pub fn make_way(&mut self) -> Result<(), LsmError> {
        if self.frozen.is_some() {
            self.stats.stalls += 1;
            self.flush_step(u64::MAX)?;
        }
        let most = self.most_level0_runs();
        while self.runs.iter().filter(|run| run.level == 0).count() >= most {
            self.stats.stalls += 1;
            let Some(at) = self.work.merges.iter().position(|merge| merge.due.from == 0) else {
                self.work.patience = 0;
                self.schedule();
                if !self.work.merges.iter().any(|merge| merge.due.from == 0) {
                    break;
                }
                continue;
            };
            match self.merge_step(at, u64::MAX) {
                // More runs are better than a log that cannot be trimmed.
                Err(error) if error.is_full() => match self.gather() {
                    Err(error) if error.is_full() => break,
                    done => return done,
                },
                done => done?,
            }
        }
        Ok(())
    }

    /// Runs of level 0 at which a writer waits for a merge.
    pub(super) fn most_level0_runs(&self) -> usize {
        3 * self.options.policy.level0_runs.max(1) as usize
    }

    /// Sets the MemTable aside to be written out. Everything in it is durable in the log before
    /// `log`; what comes now is logged from there on.
    ///
    /// # Panics
    /// The one before is still being written out: see [`Self::make_way`].
    pub fn freeze(&mut self, log: LogStart) {
        assert!(self.frozen.is_none(), "one MemTable is written out at a time");
        std::mem::swap(&mut self.active, &mut self.other);
        self.frozen = Some(log);
        self.logged = 0;
        self.work.flush_wanted = 0;
        self.work.paced = 0;
    }

    /// Does the writer's part, after a transaction has committed.
    ///
    /// # Errors
    /// [`LsmError::Poisoned`]. A step that failed otherwise is put off.
    pub fn pace(&mut self) -> Result<(), LsmError> {
        let grown = self.load().saturating_sub(self.work.paced);
        let policy = self.options.policy;
        if grown < PACE_BYTES.min(policy.memtable_bytes / 32) {
            return Ok(());
        }
        self.work.paced = self.load();
        if self.work.patience > 0 {
            self.work.patience = self.work.patience.saturating_sub(grown);
            self.schedule();
        }
        self.work.flush_wanted += grown * 2;
        if self.frozen.is_some() {
            let done = self.work.flush.as_ref().map_or(0, |flush| flush.done);
            let due = self.work.flush_wanted.saturating_sub(done);
            if due > 0 {
                let result = self.flush_step(due);
                self.put_off(result)?;
            }
        }
        let factor = u64::from(policy.growth) + 2;
        for merge in &mut self.work.merges {
            merge.wanted += grown * factor;
        }
        let mut at = 0;
        while let Some(merge) = self.work.merges.get(at) {
            let (due, before) = (merge.wanted.saturating_sub(merge.done), self.work.merges.len());
            if due > 0 {
                let result = self.merge_step(at, due);
                self.put_off(result)?;
            }
            if self.work.merges.len() >= before {
                at += 1;
            }
        }
        Ok(())
    }

    /// A failure in the background is no failure of the transaction that pays for the step.
    fn put_off(&self, result: Result<(), LsmError>) -> Result<(), LsmError> {
        match result {
            Err(error) if self.is_poisoned() => Err(error),
            _ if self.is_poisoned() => Err(LsmError::Poisoned),
            _ => Ok(()),
        }
    }

    /// Does about `budget` bytes of the work that waits. Returns about how many bytes still wait.
    ///
    /// # Errors
    /// A step failed; it can be tried again, unless [`Self::is_poisoned`].
    pub fn work(&mut self, budget: u64) -> Result<u64, LsmError> {
        let before = self.waiting();
        let mut left = budget;
        if self.frozen.is_some() {
            self.flush_step(left)?;
        }
        self.work.patience = 0;
        self.schedule();
        loop {
            let waiting = self.waiting();
            left = budget.saturating_sub(before.saturating_sub(waiting));
            // The one that frees the uppermost level first.
            let next = (0..self.work.merges.len())
                .min_by_key(|at| self.work.merges[*at].due.from)
                .filter(|_| left > 0 && self.frozen.is_none());
            let Some(at) = next else { return Ok(waiting) };
            self.merge_step(at, left)?;
            if self.waiting() >= waiting && !self.work.merges.is_empty() {
                // New work has come up: what it needs is not part of this budget.
                return Ok(self.waiting());
            }
        }
    }

    /// Forgets the work that has been begun, whose files the next opening would remove.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn abandon_work(&mut self) -> Result<(), LsmError> {
        let work = std::mem::take(&mut self.work);
        let flush = work.flush.map(|flush| flush.writer);
        for writer in flush.into_iter().chain(work.merges.into_iter().filter_map(|one| one.writer))
        {
            let name = writer.name().to_owned();
            drop(writer);
            self.discard(&name)?;
        }
        self.runs.iter_mut().for_each(|run| run.busy = false);
        Ok(())
    }

    /// Returns whether there is work that has been found necessary.
    #[inline]
    pub fn has_work(&self) -> bool {
        self.frozen.is_some() || !self.work.merges.is_empty()
    }

    /// Bytes of the work that has been found necessary.
    pub fn waiting(&self) -> u64 {
        let flushing = if self.frozen.is_some() {
            let done = self.work.flush.as_ref().map_or(0, |flush| flush.done);
            self.other.bytes().saturating_sub(done).max(1)
        } else {
            0
        };
        let merging =
            self.work.merges.iter().map(|merge| merge.total - merge.done.min(merge.total));
        flushing + merging.map(|bytes| bytes.max(1)).sum::<u64>()
    }

    /// Goes on with writing out the frozen MemTable, by about `budget` bytes.
    fn flush_step(&mut self, budget: u64) -> Result<(), LsmError> {
        let result = self.try_flush_step(budget);
        if result.is_err() {
            self.stats.failures += 1;
            self.work.flush_wanted = 0;
            if let Some(flush) = self.work.flush.take() {
                // Where this fails too, the next opening removes it.
                let _ = self.discard(flush.writer.name());
            }
        }
        result
    }

    fn try_flush_step(&mut self, budget: u64) -> Result<(), LsmError> {
        let Some(log) = self.frozen else { return Ok(()) };
        self.stats.done.steps += 1;
        if self.work.flush.is_none() {
            let (number, keys) = (self.next_file, self.other.entries());
            let options = self.options.runs;
            let writer = if self.spare.file().is_some() {
                let spare = (&mut self.spare, u64::MAX);
                SsWriter::create_in(spare, self.partition, number, keys, options)?
            } else {
                SsWriter::create(&self.files, self.partition, number, keys, options)?
            };
            self.next_file += 1;
            self.work.flush = Some(Flush { writer, tree: 0, after: None, done: 0 });
        }
        // Under no older run a tombstone hides nothing.
        let bottom = self.runs.is_empty();
        let Some(flush) = &mut self.work.flush else { return Ok(()) };
        let until = flush.done.saturating_add(budget);
        while usize::from(flush.tree) < self.trees.len() {
            let low = flush.after.clone().map_or(Bound::Unbounded, Bound::Excluded);
            let range = (low, Bound::Unbounded);
            let mut cursor = MemCursor::new(&self.other, flush.tree, range, Direction::Forward)?;
            while let Some(key) = cursor.key() {
                let (kind, body) = cursor.entry();
                if !(bottom && kind == KIND_TOMBSTONE) {
                    flush.writer.add(kind, key, body)?;
                }
                let bytes = (key.len() + body.len()) as u64;
                flush.done += bytes;
                self.stats.done.bytes += bytes;
                flush.after = cursor.table_key();
                if flush.done >= until {
                    return Ok(());
                }
                cursor.advance()?;
            }
            flush.tree += 1;
            flush.after = None;
        }
        if !end_some(Some(&mut flush.writer), &mut flush.done, until)? {
            return Ok(());
        }
        self.finish_flush(log)
    }

    fn finish_flush(&mut self, log: LogStart) -> Result<(), LsmError> {
        let Some(flush) = self.work.flush.take() else { return Ok(()) };
        let name = flush.writer.name().to_owned();
        let result = self.install(Some(flush.writer), &[], 0, log);
        match result {
            Ok(bytes) => {
                self.stats.flushed_bytes += bytes;
                self.stats.flushes += 1;
            }
            Err(error) => {
                self.remove_unless_it_may_count(&name);
                return Err(error);
            }
        }
        self.log = log;
        self.frozen = None;
        self.broken = true;
        self.other.clear()?;
        self.broken = false;
        self.schedule();
        Ok(())
    }

    /// Completes a run, if it has entries, puts it in the place of `inputs` or before all others,
    /// and lets the manifest say so. Returns the bytes of its file.
    fn install(
        &mut self,
        writer: Option<SsWriter<F::File>>,
        inputs: &[u64],
        level: u32,
        log: LogStart,
    ) -> Result<u64, LsmError> {
        let mut bytes = 0;
        let mut made = None;
        match writer {
            Some(writer) if writer.entries() > 0 => {
                let info = writer.finish()?;
                let name = super::sstable::sstable_name(self.partition, info.file);
                let synced = self.files.sync_directory();
                synced.map_err(LsmError::io("sync the directory of", &name))?;
                bytes = info.bytes;
                made = Some(Arc::new(SsTable::open(&self.files, self.partition, info)?));
            }
            Some(writer) => {
                let name = writer.name().to_owned();
                drop(writer);
                self.discard(&name)?;
            }
            None => {}
        }
        let is_input = |run: &Run<F::File>| inputs.contains(&run.table.info().file);
        let place = self.runs.iter().position(is_input).unwrap_or(0);
        let mut runs: Vec<_> = self.runs.iter().map(|run| (run.level, run.table.info())).collect();
        runs.retain(|(_, info)| !inputs.contains(&info.file));
        if let Some(table) = &made {
            runs.insert(place, (level, table.info()));
        }
        self.edit(&Version { runs, log, next_file: self.next_file })?;
        let gone: Vec<String> = self
            .runs
            .iter()
            .filter(|run| is_input(run))
            .map(|run| run.table.name().into())
            .collect();
        self.runs.retain(|run| !is_input(run));
        if let Some(table) = made {
            self.runs.insert(place, Run { level, table, busy: false });
        }
        self.count_runs();
        for name in gone {
            // Nothing names it any more: where this fails, the next opening removes it.
            let _ = self.files.remove(&name);
        }
        Ok(bytes)
    }

    /// Begins the merges that are due.
    pub(super) fn schedule(&mut self) {
        while self.work.patience == 0 {
            let Some(due) = self.next_merge() else { return };
            if self.begin_merge(due).is_err() {
                self.fail_merge();
            }
        }
    }

    fn fail_merge(&mut self) {
        self.stats.failures += 1;
        self.work.patience = (self.options.policy.memtable_bytes / 8).max(1);
    }

    /// The merge that is due next. What takes part in one already is not asked again; a level
    /// whose runs are on their way down waits until they are.
    fn next_merge(&self) -> Option<Due> {
        let mut levels: Vec<Vec<u64>> = Vec::new();
        for run in &self.runs {
            let level = run.level as usize;
            if levels.len() <= level {
                levels.resize(level + 1, Vec::new());
            }
            let leaving = self.work.merges.iter().any(|merge| merge.due.from == level);
            if !run.busy && !leaving {
                levels[level].push(run.table.info().bytes);
            }
        }
        let levels: Vec<&[u64]> = levels.iter().map(Vec::as_slice).collect();
        self.options.policy.next_merge(&levels)
    }

    fn begin_merge(&mut self, due: Due) -> Result<(), LsmError> {
        let takes_part = |run: &Run<F::File>| {
            !run.busy && (run.level as usize == due.from || run.level as usize == due.into)
        };
        let places: Vec<usize> =
            (0..self.runs.len()).filter(|at| takes_part(&self.runs[*at])).collect();
        let (first, last) = (places[0], places[places.len() - 1]);
        assert_eq!(last - first + 1, places.len(), "what is merged lies together");
        if places.len() == 1 {
            return self.move_down(first, due.into as u32);
        }
        let keys = places.iter().map(|at| self.runs[*at].table.info().entries).sum();
        let writer =
            SsWriter::create(&self.files, self.partition, self.next_file, keys, self.options.runs)?;
        self.next_file += 1;
        // The runs below may be on their way down and not be listed by level.
        self.start_merge(&places, Due { to_bottom: last + 1 == self.runs.len(), ..due }, writer)
    }

    /// Begins to merge the runs at these places, which lie together.
    pub(super) fn start_merge(
        &mut self,
        places: &[usize],
        due: Due,
        writer: SsWriter<F::File>,
    ) -> Result<(), LsmError> {
        let sequences = places.iter().map(|at| Sequence::new(self.runs[*at].table.clone()));
        let merge = Merge::new(sequences.collect::<Result<_, _>>()?, Direction::Forward);
        let inputs: Vec<_> = places.iter().map(|at| self.runs[*at].table.info()).collect();
        places.iter().for_each(|at| self.runs[*at].busy = true);
        self.work.merges.push(Merging {
            inputs: inputs.iter().map(|info| info.file).collect(),
            due,
            merge,
            writer: Some(writer),
            encoder: Encoder::default(),
            total: inputs.iter().map(|info| info.bytes).sum(),
            done: 0,
            wanted: 0,
        });
        Ok(())
    }

    /// A single run with nothing to be merged with belongs to the next level from now on.
    fn move_down(&mut self, at: usize, level: u32) -> Result<(), LsmError> {
        let mut runs: Vec<_> = self.runs.iter().map(|run| (run.level, run.table.info())).collect();
        runs[at].0 = level;
        self.edit(&Version { runs, log: self.log, next_file: self.next_file })?;
        self.runs[at].level = level;
        Ok(())
    }

    /// Goes on with a merge, by about `budget` bytes of its inputs.
    pub(super) fn merge_step(&mut self, at: usize, budget: u64) -> Result<(), LsmError> {
        let merging = &mut self.work.merges[at];
        let before = merging.done;
        let stepped = merging.step(budget);
        self.stats.done.step(merging.done - before);
        match stepped {
            Ok(false) => Ok(()),
            Ok(true) => {
                let merging = self.work.merges.remove(at);
                self.finish_merge(merging)
            }
            Err(error) => {
                let merging = self.work.merges.remove(at);
                let made = merging.writer.as_ref().map(|made| (made.name(), made.has_space()));
                self.give_up(&merging.inputs, made);
                Err(error)
            }
        }
    }

    /// Gives up the merges that are under way.
    pub(super) fn abandon_merges(&mut self) {
        for merging in std::mem::take(&mut self.work.merges) {
            let made = merging.writer.as_ref().map(|made| (made.name(), made.has_space()));
            self.give_up(&merging.inputs, made);
        }
    }

    /// Gives a merge up. Its file goes, unless it had the space that is set aside.
    fn give_up(&mut self, inputs: &[u64], made: Option<(&str, bool)>) {
        for run in &mut self.runs {
            if inputs.contains(&run.table.info().file) {
                run.busy = false;
            }
        }
        match made {
            Some((name, true)) => self.remove_unless_it_may_count(name),
            // As there; what failed merges have taken is not kept for the next run.
            Some((name, false)) if !self.manifest.is_poisoned() => _ = self.files.remove(name),
            _ => {}
        }
        self.fail_merge();
    }

    /// Removes the file of a run that could not be installed. If it is unknown which version of the
    /// manifest counts, that version may name the file. Then the file stays until the next opening,
    /// which removes what the manifest does not name.
    fn remove_unless_it_may_count(&mut self, name: &str) {
        if !self.manifest.is_poisoned() {
            // Where this fails too, the next opening removes it.
            let _ = self.discard(name);
        }
    }

    fn finish_merge(&mut self, mut merging: Merging<F::File>) -> Result<(), LsmError> {
        let writer = merging.writer.take();
        let made = writer.as_ref().map(|made| (made.name().to_owned(), made.has_space()));
        let into = merging.due.into;
        match self.install(writer, &merging.inputs, into as u32, self.log) {
            Ok(bytes) => {
                self.stats.merged_bytes[into.min(LEVELS - 1)] += bytes;
                self.stats.merges += 1;
                self.schedule();
                Ok(())
            }
            Err(error) => {
                let made = made.as_ref().map(|(name, has_space)| (name.as_str(), *has_space));
                self.give_up(&merging.inputs, made);
                Err(error)
            }
        }
    }
}
