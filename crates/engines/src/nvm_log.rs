//! NVM-Log: NVM-aware log-structured updates (P1 4.3).
//!
//! All changes go into a MemTable that lives in the pool, with non-volatile B+trees. When it is
//! large enough it is marked immutable and stays where it is; immutable MemTables are merged into
//! larger ones by moving pointers. Nothing is ever rebuilt: the log only undoes. Table 2, in our
//! words:
//!
//! | operation | before the first fence | after it |
//! |---|---|---|
//! | INSERT | write tuple, log entry with its pointer, an invisible entry in the MemTable | mark persisted, make the entry count |
//! | UPDATE, the MemTable has these columns | write new fields, log entry with old and new | mark persisted, store into the entry |
//! | UPDATE, it has not | write fields and an entry of just these columns, log entry with its pointer | mark persisted, make the entry count |
//! | DELETE | log entry with the pointer of the tuple's entry | a tombstone in the MemTable; the space is reclaimed when runs are merged |
//! | SELECT | - | the newest entry of the tuple; older ones until no column is missing |
//! | COMMIT | fence; store the log's state word; fence | |
//!
//! Invariants:
//! - Only the MemTable changes, under a log entry that is durable before. Log entries speak of the
//!   current MemTable alone: freezing it ends them.
//! - Freezing and merging happen between transactions, in bounded steps, each of which leaves
//!   directory, trees and allocator as a recovery wants them (`storage::runs`).
//! - Slots that a transaction supersedes in the MemTable are cleared by the first operation after
//!   its commit and given out again after the next one, as in NVM-InP.
//!
//! Opening reads the directory and what was in flight. Deviations from the paper:
//! `docs/paper/deviations.md`.
//!
//! Longer than 600 lines: the steps of the paper's method stand in one file, in its order.

mod options;
mod room;
mod stats;

use index::Append;
use pm::{Durable, Environment, Flushed, Memory, fence_for, observe};
use storage::lsm::levels::LevelPolicy;
use storage::runs::{Replacement, Runs, Update};
use storage::{Catalog, NewFields, Tables, UndoEntry, UndoLog, UndoWork, Value, WorkDone};

use crate::contract::RecoveryReport;
use crate::error::EngineError;
use crate::kind::EngineKind;
use crate::stats::EngineStats;
use crate::table2::{
    ADD_TO_MEMTABLE, MARK_PERSISTED, MARK_TOMBSTONE, MODIFY, RECORD, SYNC_CHANGES, SYNC_LOG_ENTRY,
    SYNC_TUPLE,
};
use crate::undo::{LogHead, Rows, TableParts, Undo, UndoEngine, UndoTables};

pub use options::NvmLogOptions;
pub use stats::NvmLogStats;

/// A partition of NVM-Log; see the module's comment.
pub type NvmLog<E> = UndoEngine<E, InRuns<E>>;

/// Tables in a MemTable and runs.
#[derive(Debug)]
pub struct InRuns<E: Environment> {
    runs: Runs<E::Durable>,
    /// The number of the last transaction that committed here or before. Those of the log are
    /// ahead: freezing takes some.
    last: u64,
    /// Bytes and entries of the MemTable after the last transaction.
    committed_use: (u64, u64),
    /// [`crate::Engine::background`] is called.
    helped: bool,
    background: WorkDone,
}

fn policy(options: &NvmLogOptions) -> LevelPolicy {
    LevelPolicy {
        memtable_bytes: options.memtable_bytes.max(1),
        growth: options.growth.max(2),
        level0_runs: options.level0_runs.max(1),
    }
}

impl<E: Environment> NvmLog<E> {
    /// Returns how many frozen runs there are, by level.
    pub fn runs_by_level(&self) -> Vec<usize> {
        self.tables.runs.runs_by_level()
    }
}

impl<E: Environment> InRuns<E> {
    fn new(runs: Runs<E::Durable>, last: u64, helped: bool) -> Self {
        let committed_use = runs.memtable_use();
        Self { runs, last, committed_use, helped, background: WorkDone::default() }
    }

    /// Logs a replacement in the MemTable and makes it, with all that was written for it, durable.
    #[inline]
    fn record(
        &mut self,
        undo: &mut Undo<E::Durable>,
        replacement: Replacement,
    ) -> Durable<Replacement> {
        let Replacement { table, witness, old, new, checksums } = replacement;
        let memory = &undo.memory;
        let lines = &mut self.runs.tables.lines;
        undo.log.append(memory, UndoEntry::replace(table, witness, old, new, checksums), lines);
        undo.superseded.lines.flush(memory);
        let replacement = Flushed::lines(memory, lines, replacement);
        fence_for(memory, replacement)
    }

    #[inline]
    fn record_fields(
        &mut self,
        undo: &mut Undo<E::Durable>,
        fields: NewFields,
    ) -> Durable<NewFields> {
        let tables = &mut self.runs.tables;
        undo.append_fields(fields.table, fields.tuple, tables);
        undo.superseded.lines.flush(&undo.memory);
        let fields = Flushed::lines(&undo.memory, &mut tables.lines, fields);
        fence_for(&undo.memory, fields)
    }

    #[inline]
    fn try_insert(
        &mut self,
        undo: &mut Undo<E::Durable>,
        table: u16,
        values: &[Value<'_>],
    ) -> Result<(), EngineError> {
        undo.prepare(&mut self.runs.tables.lane, 1)?;
        let tuple = self.runs.write_insert(table, values)?;
        let tuple = self.record(undo, tuple);
        observe!(E::Durable: undo.memory.mark(SYNC_TUPLE));
        observe!(E::Durable: undo.memory.mark(RECORD));
        observe!(E::Durable: undo.memory.mark(SYNC_LOG_ENTRY));
        self.runs.mark(&tuple);
        observe!(E::Durable: undo.memory.mark(MARK_PERSISTED));
        undo.in_place(self.runs.publish(tuple))?;
        observe!(E::Durable: undo.memory.mark(ADD_TO_MEMTABLE));
        self.runs.tables.lines.flush(&undo.memory);
        Ok(())
    }

    #[inline]
    fn try_update(
        &mut self,
        undo: &mut Undo<E::Durable>,
        table: u16,
        key: &[Value<'_>],
        changes: &[(u16, Value<'_>)],
    ) -> Result<(), EngineError> {
        let found = self.runs.find_or_fail(table, key)?;
        undo.prepare_update(&mut self.runs.tables.lane, changes)?;
        match self.runs.write_update(table, key, found, changes)? {
            Update::Fields(fields) => {
                let fields = self.record_fields(undo, fields);
                observe!(E::Durable: undo.memory.mark(RECORD));
                observe!(E::Durable: undo.memory.mark(SYNC_LOG_ENTRY));
                self.runs.mark(&fields);
                self.runs.replace_fields(fields);
            }
            Update::Entry(entry) => {
                let entry = self.record(undo, entry);
                observe!(E::Durable: undo.memory.mark(RECORD));
                observe!(E::Durable: undo.memory.mark(SYNC_LOG_ENTRY));
                self.runs.mark(&entry);
                undo.in_place(self.runs.publish(entry))?;
            }
        }
        observe!(E::Durable: undo.memory.mark(MODIFY));
        self.runs.tables.lines.flush(&undo.memory);
        observe!(E::Durable: undo.memory.mark(SYNC_CHANGES));
        Ok(())
    }

    fn try_delete(
        &mut self,
        undo: &mut Undo<E::Durable>,
        table: u16,
        key: &[Value<'_>],
    ) -> Result<(), EngineError> {
        let found = self.runs.find_or_fail(table, key)?;
        undo.prepare(&mut self.runs.tables.lane, 1)?;
        let tombstone = self.runs.write_delete(table, key, found)?;
        let tombstone = self.record(undo, tombstone);
        observe!(E::Durable: undo.memory.mark(RECORD));
        observe!(E::Durable: undo.memory.mark(SYNC_LOG_ENTRY));
        self.runs.mark(&tombstone);
        undo.in_place(self.runs.publish(tombstone))?;
        observe!(E::Durable: undo.memory.mark(MARK_TOMBSTONE));
        self.runs.tables.lines.flush(&undo.memory);
        Ok(())
    }
}

impl<E: Environment> UndoTables<E> for InRuns<E> {
    const KIND: EngineKind = EngineKind::NvmLog;
    const ROOT: &'static str = "nvm-log";
    const PUTS_OFF_WORK: bool = true;
    type Options = NvmLogOptions;
    type Rows = Runs<E::Durable>;
    /// Slots superseded, the MemTable's size.
    type Mark = (usize, (u64, u64));

    fn root_bytes(catalog: &Catalog) -> u64 {
        Runs::<E::Durable>::root_bytes(catalog)
    }

    fn create(parts: TableParts<'_, E>, options: &NvmLogOptions) -> Result<Self, EngineError> {
        let (nodes, directory) = (parts.setup.node_bytes, parts.roots.get());
        let runs = Runs::create(parts.lane, parts.catalog, nodes, policy(options), directory)?;
        Ok(Self::new(runs, 0, parts.setup.helped))
    }

    fn open(
        parts: TableParts<'_, E>,
        log: &LogHead<'_, E::Durable>,
        options: &NvmLogOptions,
    ) -> Result<(Self, UndoLog, UndoWork), EngineError> {
        let TableParts { lane, catalog, setup, roots } = parts;
        let (read, work) = log.open_without_statements()?;
        let noted = (log.noted(&read, 0)?, log.noted(&read, 1)?);
        let (nodes, directory) = (setup.node_bytes, roots.get());
        let runs = Runs::open(lane, catalog, nodes, policy(options), directory, noted)?;
        Ok((Self::new(runs, read.transaction() - 1, setup.helped), read, work))
    }

    #[inline]
    fn common(&mut self) -> &mut Tables<E::Durable, Append> {
        &mut self.runs.tables
    }

    #[inline]
    fn rows(&self) -> &Self::Rows {
        &self.runs
    }

    #[inline]
    fn insert(
        &mut self,
        undo: &mut Undo<E::Durable>,
        table: u16,
        values: &[Value<'_>],
    ) -> Result<(), EngineError> {
        match self.try_insert(undo, table, values) {
            Err(full) if full.is_full() => {
                self.try_again(undo, full, |this, undo| this.try_insert(undo, table, values))
            }
            done => done,
        }
    }

    #[inline]
    fn update(
        &mut self,
        undo: &mut Undo<E::Durable>,
        table: u16,
        key: &[Value<'_>],
        changes: &[(u16, Value<'_>)],
    ) -> Result<(), EngineError> {
        match self.try_update(undo, table, key, changes) {
            Err(full) if full.is_full() => {
                self.try_again(undo, full, |this, undo| this.try_update(undo, table, key, changes))
            }
            done => done,
        }
    }

    fn delete(
        &mut self,
        undo: &mut Undo<E::Durable>,
        table: u16,
        key: &[Value<'_>],
    ) -> Result<(), EngineError> {
        match self.try_delete(undo, table, key) {
            Err(full) if full.is_full() => self.delete_with_kept(undo, full, table, key),
            done => done,
        }
    }

    #[inline]
    fn note(&self, undo: &Undo<E::Durable>) {
        let (bytes, entries) = self.runs.memtable_use();
        undo.log.note(&undo.memory, 0, bytes);
        undo.log.note(&undo.memory, 1, entries);
    }

    #[inline]
    fn committed(&mut self, undo: &mut Undo<E::Durable>) -> Result<(), EngineError> {
        self.last += 1;
        self.put_off_work(undo)
    }

    fn undo(
        &mut self,
        undo: &mut Undo<E::Durable>,
        entries: &[UndoEntry],
        kept: Option<usize>,
        freed: &mut Vec<u64>,
    ) -> Result<u64, EngineError> {
        let undone = self.runs.undo(&entries[kept.unwrap_or(0)..], freed)?;
        undo.memory.fence();
        if let Some(kept) = kept {
            undo.log.retract_each(&undo.memory, kept as u32, undo.log.len());
        }
        Ok(undone)
    }

    fn forget(&mut self) {
        self.runs.forget(self.committed_use);
    }

    fn aborted(&mut self) -> Result<(), EngineError> {
        self.runs.tables.tidy_indexes()?;
        if self.runs.is_tight() { self.relieve() } else { Ok(()) }
    }

    fn mark(&self) -> (usize, (u64, u64)) {
        (self.runs.tables.superseded.len(), self.runs.memtable_use())
    }

    fn back_to(&mut self, (superseded, memtable_use): (usize, (u64, u64))) {
        self.runs.forget_part(memtable_use, superseded);
    }

    #[inline]
    fn last(&self, _: &UndoLog) -> u64 {
        self.last
    }

    fn work(&mut self, budget: u64) -> Result<u64, EngineError> {
        let before = self.runs.stats().done;
        let worked = self.runs.work(budget);
        self.background += self.runs.stats().done - before;
        Ok(worked?)
    }

    fn waiting_bytes(&self) -> u64 {
        self.runs.stats().waiting_bytes
    }

    fn has_work(&self) -> bool {
        self.runs.has_work()
    }

    fn recover(
        &mut self,
        undo: &mut Undo<E::Durable>,
        work: &UndoWork,
    ) -> Result<RecoveryReport, EngineError> {
        self.runs.finish_dismantle_step()?;
        let mut freed = Vec::new();
        let undone = self.runs.undo(&work.open, &mut freed)?;
        let mut superseded = self.runs.superseded_by(&work.committed)?;
        let reclaimed = superseded.len() as u64;
        let lane = &mut self.runs.tables.lane;
        undo.clear(lane, &superseded)?;
        undo.memory.fence();
        freed.append(&mut superseded);
        undo.recovered(lane, freed);
        self.runs.forget(self.committed_use);
        self.runs.tables.lane.recovered();
        self.runs.keep_nodes_when_nearly_full(false)?;
        Ok(RecoveryReport { undone, reclaimed, ..RecoveryReport::default() })
    }

    fn recover_what_can_be(&mut self, work: &UndoWork) -> u64 {
        self.runs.undo_what_can_be(&work.open)
    }

    fn stats(&self) -> EngineStats {
        let stats = self.runs.stats();
        EngineStats {
            failures: stats.failures,
            waiting_bytes: stats.waiting_bytes,
            inline: stats.done - self.background,
            background: self.background,
            own: NvmLogStats::from(&stats).into(),
            ..EngineKind::NvmLog.into()
        }
    }

    fn check(&self, reachable: &mut dyn FnMut(u64)) -> Result<u64, EngineError> {
        Ok(self.runs.check(reachable)?)
    }
}
