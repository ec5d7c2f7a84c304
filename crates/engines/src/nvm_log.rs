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
mod stats;

use std::ops::ControlFlow;
use std::sync::Arc;

use heap::Purpose;
use pm::{Bad, Component, Durable, Environment, Flushed, Memory, Range, fence_for, observe};
use storage::lsm::levels::LevelPolicy;
use storage::runs::{Found, Replacement, Runs, Update};
use storage::{
    Catalog, FIELDS_PER_ENTRY, MAX_COLUMNS, NewFields, Row, Superseded, UNDO_HEAD_BYTES, UndoEntry,
    UndoLog, UndoWork, Value, WorkDone, user_bytes,
};

use crate::contract::{Engine, Footprint, Method, Read, RecoveryReport, Resources, Scan, Write};
use crate::error::{EngineError, sound};
use crate::kind::EngineKind;
use crate::options::Setup;
use crate::savepoints::Savepoints;
use crate::state::State;
use crate::stats::EngineStats;
use crate::table2::{
    ADD_TO_MEMTABLE, COALESCE, FIND_ENTRIES, MARK_PERSISTED, MARK_TOMBSTONE, MODIFY, RECORD,
    SYNC_CHANGES, SYNC_LOG_ENTRY, SYNC_TUPLE,
};
use crate::traits::{DurableIn, EngineTraits};

pub use options::NvmLogOptions;
pub use stats::NvmLogStats;

/// A partition of NVM-Log; see the module's comment.
#[derive(Debug)]
pub struct NvmLog<E: Environment> {
    memory: E::Durable,
    runs: Runs<E::Durable>,
    log: UndoLog,
    /// The number of the last transaction that committed here or before. Those of the log are ahead:
    /// freezing takes some.
    last: u64,
    /// The log's head, the directory of runs, the root pointers of the secondary indexes.
    root: u64,
    superseded: Superseded,
    /// The open transaction's savepoints: entries of the log, slots superseded, the MemTable's
    /// size.
    savepoints: Savepoints<(u32, usize, (u64, u64))>,
    /// Bytes and entries of the MemTable after the last transaction.
    committed_use: (u64, u64),
    /// Somebody calls [`Engine::background`].
    helped: bool,
    user_bytes: u64,
    background: WorkDone,
    state: State,
}

fn root_name(partition: u32) -> String {
    format!("nvm-log/{partition}")
}

fn policy(options: &NvmLogOptions) -> LevelPolicy {
    LevelPolicy {
        memtable_bytes: options.memtable_bytes.max(1),
        growth: options.growth.max(2),
        level0_runs: options.level0_runs.max(1),
    }
}

impl<E: Environment> NvmLog<E> {
    /// Logs a replacement in the MemTable and makes it, with all that was written for it, durable.
    #[inline]
    fn record(&mut self, replacement: Replacement) -> Durable<Replacement> {
        let Replacement { table, witness, old, new, image } = replacement;
        let memory = &self.memory;
        let lines = &mut self.runs.tables.lines;
        self.log.append(memory, UndoEntry::replace(table, witness, old, new, image), lines);
        self.superseded.lines.flush(memory);
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
        self.superseded.lines.flush(memory);
        let fields = Flushed::lines(memory, &mut tables.lines, fields);
        fence_for(memory, fields)
    }

    fn find_or_fail(&self, table: u16, key: &[Value<'_>]) -> Result<Found, EngineError> {
        match self.runs.find(table, key)? {
            Some(found) => Ok(found),
            None => Err(self.runs.missing(table).into()),
        }
    }

    /// Freezes a MemTable that is large enough, after a commit, and does the work that the
    /// transaction pays for.
    #[inline]
    fn put_off_work(&mut self) -> Result<(), EngineError> {
        self.runs.tables.tidy_indexes()?;
        let grown = self.runs.memtable_use().0.saturating_sub(self.committed_use.0);
        if self.runs.is_full() && grown > 0 {
            self.superseded.settle(&mut self.runs.tables.lane, &self.memory)?;
            if self.runs.freeze(&self.log.end([0, 0]))? {
                self.log.ended();
                self.superseded.release(&mut self.runs.tables.lane);
            }
        }
        self.committed_use = self.runs.memtable_use();
        if self.runs.is_tight() {
            return self.relieve();
        }
        // Whoever helps takes the work off, as long as it comes along.
        if self.helped && !self.runs.is_behind() {
            return Ok(());
        }
        observe!(E::Durable: self.memory.hold(Some(Component::Storage)));
        let worked = self.runs.work_for(grown);
        observe!(E::Durable: self.memory.hold(None));
        Ok(worked?)
    }

    /// Takes away what a transaction has deleted on a full pool, once it is over.
    #[cold]
    fn relieve(&mut self) -> Result<(), EngineError> {
        let relieved = self.runs.relieve_after_commit();
        self.committed_use = self.runs.memtable_use();
        Ok(relieved?)
    }

    /// An operation has found no room. Before the first of a transaction some is made, and it is
    /// tried once more.
    #[cold]
    fn try_again(
        &mut self,
        full: EngineError,
        act: impl FnOnce(&mut Self) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        self.runs.tighten();
        if !self.log.is_empty() {
            return Err(full);
        }
        if let Err(error) = self.runs.relieve_now() {
            return self.state.stop(error);
        }
        self.committed_use = self.runs.memtable_use();
        act(self)
    }

    /// A delete has found no room: nodes are kept back for it.
    #[cold]
    fn delete_with_kept(
        &mut self,
        full: EngineError,
        table: u16,
        key: &[Value<'_>],
    ) -> Result<(), EngineError> {
        let without = |this: &mut Self| {
            this.runs.tables.lane.use_kept(true);
            let done = this.try_delete(table, key);
            this.runs.tables.lane.use_kept(false);
            done
        };
        if !self.log.is_empty() {
            self.runs.tighten();
            return without(self);
        }
        self.try_again(full, without)
    }

    /// Returns how many frozen runs there are, by level.
    pub fn runs_by_level(&self) -> Vec<usize> {
        self.runs.runs_by_level()
    }

    /// Finishes the committed transaction and undoes the open one that opening the log found.
    fn recover(&mut self, work: &UndoWork) -> Result<RecoveryReport, EngineError> {
        self.runs.settle_step()?;
        let memory = &self.memory;
        let mut freed = Vec::new();
        let undone = self.runs.undo(&work.open, &mut freed)?;
        let superseded = self.runs.superseded_by(&work.committed)?;
        let reclaimed = superseded.len() as u64;
        for slot in superseded {
            self.runs.tables.lane.clear_persisted(slot, &mut self.superseded.lines)?;
            freed.push(slot);
        }
        self.superseded.lines.flush(memory);
        memory.fence();
        self.log.finish_recovery(memory);
        memory.fence();
        for slot in freed {
            self.runs.tables.lane.release(slot);
        }
        self.runs.forget(self.committed_use);
        Ok(RecoveryReport { undone, reclaimed, ..RecoveryReport::default() })
    }

    fn assemble(
        memory: E::Durable,
        runs: Runs<E::Durable>,
        log: UndoLog,
        root: u64,
        helped: bool,
    ) -> Self {
        let committed_use = runs.memtable_use();
        Self {
            memory,
            runs,
            last: log.transaction() - 1,
            log,
            root,
            superseded: Superseded::default(),
            savepoints: Savepoints::default(),
            committed_use,
            helped,
            user_bytes: 0,
            background: WorkDone::default(),
            state: State::default(),
        }
    }
}

impl<E: Environment> Method<E> for NvmLog<E> {
    const KIND: EngineKind = EngineKind::NvmLog;
    const TRAITS: EngineTraits = EngineTraits::serial(DurableIn::Pool, false, true);
    const GROUPS_COMMITS: bool = false;
    type Options = NvmLogOptions;

    fn create(
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        setup: &Setup,
        options: &NvmLogOptions,
    ) -> Result<Self, EngineError> {
        let mut lane = resources.durable.lane(resources.partition);
        lane.recovered();
        let bytes = UNDO_HEAD_BYTES + Runs::<E::Durable>::root_bytes(catalog);
        let root = lane.allocate(bytes.next_multiple_of(UNDO_HEAD_BYTES), Purpose::Log)?;
        let log = UndoLog::create(&mut lane, root)?;
        let (nodes, directory) = (setup.node_bytes, root + UNDO_HEAD_BYTES);
        let runs = Runs::create(lane, catalog, nodes, policy(options), directory)?;
        let memory = resources.durable.memory().clone();
        let mut partition = Self::assemble(memory, runs, log, root, setup.helped);
        let memory = &partition.memory;
        partition.runs.tables.lane.mark_persisted(root, &mut partition.superseded.lines);
        partition.superseded.lines.flush(memory);
        memory.fence();
        resources.durable.set_root(&root_name(resources.partition), root)?;
        Ok(partition)
    }

    fn open(
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        setup: &Setup,
        options: &NvmLogOptions,
    ) -> Result<(Self, RecoveryReport), EngineError> {
        let name = root_name(resources.partition);
        let root = resources.durable.root(&name)?;
        let root = root.ok_or(EngineError::Missing { what: name })?;
        let memory = resources.durable.memory().clone();
        // It comes from the medium: nothing is reckoned from it before.
        memory.view(Range::new(root, UNDO_HEAD_BYTES))?;
        // It writes no statements: one would be damage.
        let damaged = |_: &_| Err(Bad::Damaged { what: "undo log", at: root });
        let (log, work) = match UndoLog::open(&memory, root, damaged) {
            Err(_) if setup.salvage => (UndoLog::unreadable(root), UndoWork::default()),
            opened => opened?,
        };
        let memtable_use = (log.noted(&memory, 0)?, log.noted(&memory, 1)?);
        let lane = resources.durable.lane(resources.partition);
        let (nodes, directory) = (setup.node_bytes, root + UNDO_HEAD_BYTES);
        let runs = Runs::open(lane, catalog, nodes, policy(options), directory, memtable_use)?;
        let mut partition = Self::assemble(memory, runs, log, root, setup.helped);
        if setup.salvage {
            let undone = partition.runs.undo_what_can_be(&work.open);
            return Ok((partition, RecoveryReport { undone, ..RecoveryReport::default() }));
        }
        let report = partition.recover(&work)?;
        partition.runs.tables.lane.recovered();
        partition.runs.keep_nodes_when_nearly_full(false)?;
        Ok((partition, report))
    }
}

impl<E: Environment> NvmLog<E> {
    #[inline]
    fn try_insert(&mut self, table: u16, values: &[Value<'_>]) -> Result<(), EngineError> {
        self.state.usable(&self.memory)?;
        self.superseded.clear(&mut self.runs.tables.lane)?;
        self.log.reserve(&mut self.runs.tables.lane, 1)?;
        let tuple = self.runs.write_insert(table, values)?;
        self.user_bytes += user_bytes(values.iter());
        let tuple = self.record(tuple);
        observe!(E::Durable: self.memory.mark(SYNC_TUPLE));
        observe!(E::Durable: self.memory.mark(RECORD));
        observe!(E::Durable: self.memory.mark(SYNC_LOG_ENTRY));
        self.runs.mark(&tuple);
        observe!(E::Durable: self.memory.mark(MARK_PERSISTED));
        if let Err(bad) = self.runs.publish(tuple) {
            return self.state.stop(bad);
        }
        observe!(E::Durable: self.memory.mark(ADD_TO_MEMTABLE));
        self.runs.tables.lines.flush(&self.memory);
        Ok(())
    }

    #[inline]
    fn try_update(
        &mut self,
        table: u16,
        key: &[Value<'_>],
        changes: &[(u16, Value<'_>)],
    ) -> Result<(), EngineError> {
        self.state.usable(&self.memory)?;
        let found = self.find_or_fail(table, key)?;
        if changes.is_empty() {
            return Ok(());
        }
        self.superseded.clear(&mut self.runs.tables.lane)?;
        // More are refused before they are logged.
        let entries = changes.len().min(MAX_COLUMNS).div_ceil(FIELDS_PER_ENTRY);
        self.log.reserve(&mut self.runs.tables.lane, entries)?;
        let update = self.runs.write_update(table, key, found, changes)?;
        self.user_bytes += user_bytes(changes.iter().map(|(_, value)| value));
        match update {
            Update::Fields(fields) => {
                let fields = self.record_fields(fields);
                observe!(E::Durable: self.memory.mark(RECORD));
                observe!(E::Durable: self.memory.mark(SYNC_LOG_ENTRY));
                self.runs.mark(&fields);
                self.runs.replace_fields(fields);
            }
            Update::Entry(entry) => {
                let entry = self.record(entry);
                observe!(E::Durable: self.memory.mark(RECORD));
                observe!(E::Durable: self.memory.mark(SYNC_LOG_ENTRY));
                self.runs.mark(&entry);
                if let Err(bad) = self.runs.publish(entry) {
                    return self.state.stop(bad);
                }
            }
        }
        observe!(E::Durable: self.memory.mark(MODIFY));
        self.runs.tables.lines.flush(&self.memory);
        observe!(E::Durable: self.memory.mark(SYNC_CHANGES));
        Ok(())
    }

    fn try_delete(&mut self, table: u16, key: &[Value<'_>]) -> Result<(), EngineError> {
        self.state.usable(&self.memory)?;
        let found = self.find_or_fail(table, key)?;
        self.superseded.clear(&mut self.runs.tables.lane)?;
        self.log.reserve(&mut self.runs.tables.lane, 1)?;
        let tombstone = self.runs.write_delete(table, key, found)?;
        let tombstone = self.record(tombstone);
        observe!(E::Durable: self.memory.mark(RECORD));
        observe!(E::Durable: self.memory.mark(SYNC_LOG_ENTRY));
        self.runs.mark(&tombstone);
        if let Err(bad) = self.runs.publish(tombstone) {
            return self.state.stop(bad);
        }
        observe!(E::Durable: self.memory.mark(MARK_TOMBSTONE));
        self.runs.tables.lines.flush(&self.memory);
        Ok(())
    }
}

impl<E: Environment> Write for NvmLog<E> {
    #[inline]
    fn insert(&mut self, table: u16, values: &[Value<'_>]) -> Result<(), EngineError> {
        match self.try_insert(table, values) {
            Err(full) if full.is_full() => {
                self.try_again(full, |this| this.try_insert(table, values))
            }
            done => done,
        }
    }

    #[inline]
    fn update(
        &mut self,
        table: u16,
        key: &[Value<'_>],
        changes: &[(u16, Value<'_>)],
    ) -> Result<(), EngineError> {
        match self.try_update(table, key, changes) {
            Err(full) if full.is_full() => {
                self.try_again(full, |this| this.try_update(table, key, changes))
            }
            done => done,
        }
    }

    fn delete(&mut self, table: u16, key: &[Value<'_>]) -> Result<(), EngineError> {
        match self.try_delete(table, key) {
            Err(full) if full.is_full() => self.delete_with_kept(full, table, key),
            done => done,
        }
    }
}

impl<E: Environment> Read for NvmLog<E> {
    #[inline]
    fn get(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: Option<&[u16]>,
        row: &mut Row,
    ) -> Result<bool, EngineError> {
        self.state.usable(&self.memory)?;
        sound(&self.memory, || {
            let Some(found) = self.runs.find(table, key)? else { return Ok(false) };
            observe!(E::Durable: self.memory.mark(FIND_ENTRIES));
            self.runs.read(table, key, found, columns, row)?;
            observe!(E::Durable: self.memory.mark(COALESCE));
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
        self.state.usable(&self.memory)?;
        sound(&self.memory, || {
            let Some(found) = self.runs.find(table, key)? else { return Ok(None) };
            observe!(E::Durable: self.memory.mark(FIND_ENTRIES));
            let bytes = self.runs.read_bytes(table, key, found, columns, out)?;
            observe!(E::Durable: self.memory.mark(COALESCE));
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
        self.state.usable(&self.memory)?;
        let Scan { index, low, high, direction, columns } = *scan;
        sound(&self.memory, || {
            Ok(self.runs.scan(table, index, low, high, direction, columns, row, visit)?)
        })
    }
}

impl<E: Environment> Engine for NvmLog<E> {
    #[inline]
    fn commit(&mut self) -> Result<(u64, bool), EngineError> {
        self.state.usable(&self.memory)?;
        if self.log.is_empty() {
            // An operation that failed may have split a leaf.
            self.runs.tables.lane.settle();
            self.savepoints.forget();
            return Ok((self.last, true));
        }
        let memory = &self.memory;
        memory.fence();
        let (bytes, entries) = self.runs.memtable_use();
        self.log.note(memory, 0, bytes);
        self.log.note(memory, 1, entries);
        self.log.commit(memory);
        memory.fence();
        self.runs.tables.lane.fenced();
        if let Err(bad) = memory.healthy() {
            return self.state.stop(bad);
        }
        self.last += 1;
        self.superseded.release(&mut self.runs.tables.lane);
        self.superseded.add(&mut self.runs.tables.superseded);
        if let Err(error) = self.put_off_work() {
            // The transaction is durable; what failed is housekeeping on damaged runs.
            self.state.stop_after(&error);
        }
        Ok((self.last, true))
    }

    fn abort(&mut self) -> Result<(), EngineError> {
        self.state.usable(&self.memory)?;
        if self.log.is_empty() {
            self.runs.tables.lane.settle();
            self.savepoints.forget();
            self.runs.forget(self.committed_use);
            return Ok(());
        }
        let memory = &self.memory;
        let mut freed = Vec::new();
        let undone = self.log.open_entries(memory).map_err(EngineError::from);
        let undone = undone.and_then(|entries| Ok(self.runs.undo(&entries, &mut freed)?));
        if let Err(error) = undone {
            return self.state.stop(error);
        }
        memory.fence();
        self.log.abort(memory);
        memory.fence();
        self.runs.tables.lane.fenced();
        self.superseded.release(&mut self.runs.tables.lane);
        for slot in freed {
            self.runs.tables.lane.release(slot);
        }
        self.runs.forget(self.committed_use);
        if self.runs.is_tight()
            && let Err(error) = self.relieve()
        {
            return self.state.stop(error);
        }
        Ok(())
    }

    fn savepoint(&mut self) -> Result<u64, EngineError> {
        self.state.usable(&self.memory)?;
        let superseded = self.runs.tables.superseded.len();
        let place = (self.log.len(), superseded, self.runs.memtable_use());
        Ok(self.savepoints.mark(self.log.transaction(), place))
    }

    fn rollback_to(&mut self, savepoint: u64) -> Result<(), EngineError> {
        self.state.usable(&self.memory)?;
        let place = self.savepoints.back_to(self.log.transaction(), savepoint)?;
        let (kept, superseded, memtable_use) = place;
        let memory = &self.memory;
        let mut freed = Vec::new();
        let undone = self.log.open_entries(memory).map_err(EngineError::from);
        let undone =
            undone.and_then(|entries| Ok(self.runs.undo(&entries[kept as usize..], &mut freed)?));
        if let Err(error) = undone {
            return self.state.stop(error);
        }
        memory.fence();
        self.log.retract_each(memory, kept, self.log.len());
        self.runs.forget_part(memtable_use, superseded);
        self.superseded.hold(&mut freed);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), EngineError> {
        self.state.usable(&self.memory)
    }

    fn durable(&self) -> u64 {
        self.last
    }

    fn checkpoint(&mut self) -> Result<(), EngineError> {
        self.state.usable(&self.memory)
    }

    fn background(&mut self, budget: u64) -> Result<u64, EngineError> {
        self.state.usable(&self.memory)?;
        if !self.log.is_empty() {
            return Ok(self.runs.stats().waiting_bytes);
        }
        let before = self.runs.stats().done;
        let worked = self.runs.work(budget);
        self.background += self.runs.stats().done - before;
        match worked {
            Ok(waiting) => Ok(waiting),
            Err(error) => self.state.stop(error),
        }
    }

    fn has_backlog(&self) -> bool {
        self.runs.has_work()
    }

    fn is_stopped(&self) -> bool {
        self.state.is_stopped()
    }

    fn close(&mut self) -> Result<(), EngineError> {
        self.abort()?;
        Ok(self.superseded.settle(&mut self.runs.tables.lane, &self.memory)?)
    }

    fn footprint(&self) -> Result<Footprint, EngineError> {
        Ok(Footprint::default())
    }

    fn stats(&self) -> EngineStats {
        let stats = self.runs.stats();
        EngineStats {
            user_bytes: self.user_bytes,
            logged_bytes: self.log.logged_bytes(),
            failures: stats.failures,
            waiting_bytes: stats.waiting_bytes,
            inline: stats.done - self.background,
            background: self.background,
            own: NvmLogStats::from(&stats).into(),
        }
    }

    fn check(&self, reachable: &mut dyn FnMut(u64)) -> Result<u64, EngineError> {
        reachable(self.root);
        self.log.segments(&mut *reachable);
        self.superseded.for_each(&mut *reachable);
        Ok(self.runs.check(reachable)?)
    }
}
