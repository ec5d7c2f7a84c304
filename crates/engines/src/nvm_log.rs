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
//!   current MemTable alone: the log is settled before the MemTable is frozen.
//! - Freezing and merging happen between transactions, in bounded steps, each of which leaves
//!   directory, trees and allocator as a recovery wants them (`storage::runs`).
//! - Slots that a transaction supersedes in the MemTable are cleared by the first operation after
//!   its commit and given out again after the next one, as in NVM-InP.
//!
//! Opening reads the directory and what was in flight. Deviations from the paper:
//! `docs/paper/deviations.md`.

use std::ops::ControlFlow;
use std::sync::Arc;

use heap::Purpose;
use pm::{Durable, Environment, Flushed, LineSet, Memory, fence_for};
use storage::lsm::levels::LevelPolicy;
use storage::runs::{Found, Replacement, Runs, Update};
use storage::{
    Catalog, FIELDS_PER_ENTRY, NewFields, Row, UNDO_HEAD_BYTES, UndoEntry, UndoLog, Value,
};

use crate::contract::{
    Engine, EngineKind, EngineOptions, Footprint, RecoveryReport, Resources, Scan,
};
use crate::error::{EngineError, sound};
use crate::table2::{
    ADD_TO_MEMTABLE, COALESCE, FIND_ENTRIES, MARK_PERSISTED, MARK_TOMBSTONE, MODIFY, RECORD,
    SYNC_CHANGES, SYNC_LOG_ENTRY, SYNC_TUPLE,
};

/// Frozen MemTables that are merged together.
const LEVEL0_RUNS: u32 = 4;

/// A partition of NVM-Log; see the module's comment.
#[derive(Debug)]
pub struct NvmLog<E: Environment> {
    memory: E::Durable,
    runs: Runs<E::Durable>,
    log: UndoLog,
    /// The log's head, the directory of runs, the root pointers of the secondary indexes.
    root: u64,
    /// Superseded by the last committed transaction: persisted bits to clear.
    to_clear: Vec<u64>,
    /// Cleared since: to release after the next end of a transaction.
    to_release: Vec<u64>,
    /// Lines of cleared bits, to be flushed with the next log entry.
    cleared: LineSet,
    /// Bytes and entries of the MemTable after the last transaction.
    committed_use: (u64, u64),
    stopped: Option<String>,
}

fn root_name(partition: u32) -> String {
    format!("nvm-log/{partition}")
}

fn policy(options: &EngineOptions) -> LevelPolicy {
    LevelPolicy {
        memtable_bytes: options.memtable_bytes.max(1),
        growth: options.growth.max(2),
        level0_runs: LEVEL0_RUNS,
    }
}

impl<E: Environment> NvmLog<E> {
    fn usable(&self) -> Result<(), EngineError> {
        match &self.stopped {
            None => Ok(self.memory.healthy()?),
            Some(why) => Err(EngineError::Stopped { why: why.clone() }),
        }
    }

    fn stop<T>(&mut self, error: EngineError) -> Result<T, EngineError> {
        self.stopped = Some(error.to_string());
        Err(error)
    }

    /// Frees what the last transaction superseded, with the lines of the operation to come.
    #[inline]
    fn clear_superseded(&mut self) -> Result<(), EngineError> {
        while let Some(slot) = self.to_clear.pop() {
            self.runs.tables.lane.clear_persisted(slot, &mut self.cleared)?;
            self.to_release.push(slot);
        }
        Ok(())
    }

    fn release_cleared(&mut self) {
        while let Some(slot) = self.to_release.pop() {
            self.runs.tables.lane.release(slot);
        }
    }

    /// Finishes what the last transaction left to do: with the next fence no entry of the log counts
    /// any more, and what was cleared can be released.
    fn settle_log(&mut self) -> Result<(), EngineError> {
        if self.to_clear.is_empty() && self.to_release.is_empty() {
            return Ok(());
        }
        self.clear_superseded()?;
        let memory = &self.memory;
        self.cleared.flush(memory);
        memory.fence();
        self.log.abort(memory);
        Ok(())
    }

    /// Logs a replacement in the MemTable and makes it, with all that was written for it, durable.
    #[inline]
    fn record(&mut self, replacement: Replacement) -> Durable<Replacement> {
        let Replacement { table, witness, old, new, image } = replacement;
        let memory = &self.memory;
        let lines = &mut self.runs.tables.lines;
        self.log.append(memory, UndoEntry::replace(table, witness, old, new, image), lines);
        self.cleared.flush(memory);
        let replacement = Flushed::lines(memory, lines, replacement);
        fence_for(memory, replacement)
    }

    #[inline]
    fn record_fields(&mut self, fields: NewFields) -> Durable<NewFields> {
        let memory = &self.memory;
        let tables = &mut self.runs.tables;
        for (index, part) in tables.fields.chunks(FIELDS_PER_ENTRY).enumerate() {
            let entry = UndoEntry::update(fields.table, fields.tuple, part, index > 0);
            self.log.append(memory, entry, &mut tables.lines);
        }
        self.cleared.flush(memory);
        let fields = Flushed::lines(memory, &mut tables.lines, fields);
        fence_for(memory, fields)
    }

    fn find_or_fail(&self, table: u16, key: &[Value<'_>]) -> Result<Found, EngineError> {
        match self.runs.find(table, key)? {
            Some(found) => Ok(found),
            None => Err(self.runs.missing(table).into()),
        }
    }

    /// After a commit: freezes a MemTable that is large enough, and does the work that the
    /// transaction pays for.
    #[inline]
    fn put_off_work(&mut self) -> Result<(), EngineError> {
        self.runs.tables.tidy_indexes()?;
        let grown = self.runs.memtable_use().0.saturating_sub(self.committed_use.0);
        if self.runs.is_full() && grown > 0 {
            self.settle_log()?;
            if !self.runs.freeze()? {
                self.memory.fence();
            }
            self.release_cleared();
        }
        self.committed_use = self.runs.memtable_use();
        Ok(self.runs.work_for(grown)?)
    }

    /// How many frozen runs there are, by level.
    pub fn runs_by_level(&self) -> Vec<usize> {
        self.runs.runs_by_level()
    }

    /// Finishes the committed transaction and undoes the open one that opening the log found.
    fn recover(&mut self, work: &storage::UndoWork) -> Result<RecoveryReport, EngineError> {
        self.runs.settle_step()?;
        let memory = &self.memory;
        let mut freed = Vec::new();
        let undone = self.runs.undo(&work.open, &mut freed)?;
        let superseded = self.runs.superseded_by(&work.committed)?;
        let reclaimed = superseded.len() as u64;
        for slot in superseded {
            self.runs.tables.lane.clear_persisted(slot, &mut self.cleared)?;
            freed.push(slot);
        }
        self.cleared.flush(memory);
        memory.fence();
        self.log.finish_recovery(memory);
        memory.fence();
        for slot in freed {
            self.runs.tables.lane.release(slot);
        }
        self.runs.forget(self.committed_use);
        Ok(RecoveryReport { undone, reclaimed, ..RecoveryReport::default() })
    }

    fn assemble(memory: E::Durable, runs: Runs<E::Durable>, log: UndoLog, root: u64) -> Self {
        let committed_use = runs.memtable_use();
        Self {
            memory,
            runs,
            log,
            root,
            to_clear: Vec::new(),
            to_release: Vec::new(),
            cleared: LineSet::new(),
            committed_use,
            stopped: None,
        }
    }
}

impl<E: Environment> Engine<E> for NvmLog<E> {
    const KIND: EngineKind = EngineKind::NvmLog;

    fn create(
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        options: &EngineOptions,
    ) -> Result<Self, EngineError> {
        let mut lane = resources.durable.lane(resources.partition);
        let bytes = UNDO_HEAD_BYTES + Runs::<E::Durable>::root_bytes(catalog);
        let root = lane.allocate(bytes.next_multiple_of(UNDO_HEAD_BYTES), Purpose::Log)?;
        let log = UndoLog::create(&mut lane, root)?;
        let runs = Runs::create(lane, catalog, policy(options), root + UNDO_HEAD_BYTES)?;
        let memory = resources.durable.memory().clone();
        let mut partition = Self::assemble(memory, runs, log, root);
        let memory = &partition.memory;
        partition.runs.tables.lane.mark_persisted(root, &mut partition.cleared);
        partition.cleared.flush(memory);
        memory.fence();
        resources.durable.set_root(&root_name(resources.partition), root)?;
        Ok(partition)
    }

    fn open(
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        options: &EngineOptions,
    ) -> Result<(Self, RecoveryReport), EngineError> {
        let name = root_name(resources.partition);
        let root = resources.durable.root(&name)?;
        let root = root.ok_or(EngineError::Missing { what: name })?;
        let memory = resources.durable.memory().clone();
        let (log, work) = UndoLog::open(&memory, root)?;
        let memtable_use = (log.noted(&memory, 0)?, log.noted(&memory, 1)?);
        let lane = resources.durable.lane(resources.partition);
        let directory = root + UNDO_HEAD_BYTES;
        let runs = Runs::open(lane, catalog, policy(options), directory, memtable_use)?;
        let mut partition = Self::assemble(memory, runs, log, root);
        let report = partition.recover(&work)?;
        Ok((partition, report))
    }

    #[inline]
    fn insert(&mut self, table: u16, values: &[Value<'_>]) -> Result<(), EngineError> {
        self.usable()?;
        self.clear_superseded()?;
        self.log.reserve(&mut self.runs.tables.lane, 1)?;
        let tuple = self.runs.write_insert(table, values)?;
        let tuple = self.record(tuple);
        self.memory.mark(SYNC_TUPLE);
        self.memory.mark(RECORD);
        self.memory.mark(SYNC_LOG_ENTRY);
        self.runs.mark(&tuple);
        self.memory.mark(MARK_PERSISTED);
        if let Err(bad) = self.runs.publish(tuple) {
            return self.stop(bad.into());
        }
        self.memory.mark(ADD_TO_MEMTABLE);
        self.runs.tables.lines.flush(&self.memory);
        Ok(())
    }

    #[inline]
    fn update(
        &mut self,
        table: u16,
        key: &[Value<'_>],
        changes: &[(u16, Value<'_>)],
    ) -> Result<(), EngineError> {
        self.usable()?;
        let found = self.find_or_fail(table, key)?;
        if changes.is_empty() {
            return Ok(());
        }
        self.clear_superseded()?;
        let entries = changes.len().div_ceil(FIELDS_PER_ENTRY);
        self.log.reserve(&mut self.runs.tables.lane, entries)?;
        match self.runs.write_update(table, key, found, changes)? {
            Update::Fields(fields) => {
                let fields = self.record_fields(fields);
                self.memory.mark(RECORD);
                self.memory.mark(SYNC_LOG_ENTRY);
                self.runs.mark(&fields);
                self.runs.replace_fields(fields);
            }
            Update::Entry(entry) => {
                let entry = self.record(entry);
                self.memory.mark(RECORD);
                self.memory.mark(SYNC_LOG_ENTRY);
                self.runs.mark(&entry);
                if let Err(bad) = self.runs.publish(entry) {
                    return self.stop(bad.into());
                }
            }
        }
        self.memory.mark(MODIFY);
        self.runs.tables.lines.flush(&self.memory);
        self.memory.mark(SYNC_CHANGES);
        Ok(())
    }

    fn delete(&mut self, table: u16, key: &[Value<'_>]) -> Result<(), EngineError> {
        self.usable()?;
        let found = self.find_or_fail(table, key)?;
        self.clear_superseded()?;
        self.log.reserve(&mut self.runs.tables.lane, 1)?;
        let tombstone = self.runs.write_delete(table, key, found)?;
        let tombstone = self.record(tombstone);
        self.memory.mark(RECORD);
        self.memory.mark(SYNC_LOG_ENTRY);
        self.runs.mark(&tombstone);
        if let Err(bad) = self.runs.publish(tombstone) {
            return self.stop(bad.into());
        }
        self.memory.mark(MARK_TOMBSTONE);
        self.runs.tables.lines.flush(&self.memory);
        Ok(())
    }

    #[inline]
    fn get(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: Option<&[u16]>,
        row: &mut Row,
    ) -> Result<bool, EngineError> {
        self.usable()?;
        sound(&self.memory, || {
            let Some(found) = self.runs.find(table, key)? else { return Ok(false) };
            self.memory.mark(FIND_ENTRIES);
            self.runs.read(table, key, found, columns, row)?;
            self.memory.mark(COALESCE);
            Ok(true)
        })
    }

    #[inline]
    fn get_bytes(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: &[u16],
        out: &mut [u8],
    ) -> Result<Option<usize>, EngineError> {
        self.usable()?;
        sound(&self.memory, || {
            let Some(found) = self.runs.find(table, key)? else { return Ok(None) };
            self.memory.mark(FIND_ENTRIES);
            let bytes = self.runs.read_bytes(table, key, found, columns, out)?;
            self.memory.mark(COALESCE);
            Ok(Some(bytes))
        })
    }

    fn scan(
        &self,
        table: u16,
        scan: &Scan<'_>,
        row: &mut Row,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<(), EngineError> {
        self.usable()?;
        let Scan { index, low, high, direction, columns } = *scan;
        sound(&self.memory, || {
            Ok(self.runs.scan(table, index, low, high, direction, columns, row, visit)?)
        })
    }

    #[inline]
    fn commit(&mut self) -> Result<(u64, bool), EngineError> {
        self.usable()?;
        if self.log.is_empty() {
            return Ok((self.durable(), true));
        }
        let memory = &self.memory;
        memory.fence();
        let (bytes, entries) = self.runs.memtable_use();
        self.log.note(memory, 0, bytes);
        self.log.note(memory, 1, entries);
        self.log.commit(memory);
        memory.fence();
        if let Err(bad) = memory.healthy() {
            return self.stop(bad.into());
        }
        let number = self.durable();
        self.release_cleared();
        std::mem::swap(&mut self.to_clear, &mut self.runs.tables.superseded);
        if let Err(error) = self.put_off_work() {
            // The transaction is durable; what failed is housekeeping on damaged runs.
            self.stopped = Some(error.to_string());
        }
        Ok((number, true))
    }

    fn abort(&mut self) -> Result<(), EngineError> {
        self.usable()?;
        if self.log.is_empty() {
            self.runs.forget(self.committed_use);
            return Ok(());
        }
        let memory = &self.memory;
        let mut freed = Vec::new();
        let undone = self.log.open_entries(memory).map_err(EngineError::from);
        let undone = undone.and_then(|entries| Ok(self.runs.undo(&entries, &mut freed)?));
        if let Err(error) = undone {
            return self.stop(error);
        }
        memory.fence();
        self.log.abort(memory);
        memory.fence();
        self.release_cleared();
        for slot in freed {
            self.runs.tables.lane.release(slot);
        }
        self.runs.forget(self.committed_use);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), EngineError> {
        self.usable()
    }

    fn durable(&self) -> u64 {
        self.log.transaction() - 1
    }

    fn checkpoint(&mut self) -> Result<(), EngineError> {
        self.usable()
    }

    fn background(&mut self, budget: u64) -> Result<u64, EngineError> {
        self.usable()?;
        if !self.log.is_empty() {
            return Ok(0);
        }
        match self.runs.work(budget) {
            Ok(waiting) => Ok(waiting),
            Err(error) => self.stop(error.into()),
        }
    }

    fn close(&mut self) -> Result<(), EngineError> {
        self.abort()?;
        self.settle_log()?;
        self.memory.fence();
        self.release_cleared();
        Ok(())
    }

    fn footprint(&self) -> Result<Footprint, EngineError> {
        Ok(Footprint::default())
    }

    fn check(&self, reachable: &mut dyn FnMut(u64)) -> Result<u64, EngineError> {
        reachable(self.root);
        self.log.segments(&mut *reachable);
        self.to_clear.iter().copied().for_each(&mut *reachable);
        Ok(self.runs.check(reachable)?)
    }
}
