//! InP: in-place updates with a write-ahead log (P1 3.1), modelled on VoltDB.
//!
//! Tables and indexes live in volatile memory. A transaction's changes are logged to a file before
//! they are made, with before and after images; a group of transactions becomes durable by one
//! sync. Checkpoints, compressed with gzip, bound the log. Our Table 2 for it
//! (`docs/paper/table2.md`):
//!
//! | operation | steps |
//! |---|---|
//! | INSERT | log the tuple, write it, add it to the indexes |
//! | UPDATE | log the key, before and after images of the fields; write the fields |
//! | DELETE | log the key and the before image; remove the index entries; reclaim after the end |
//! | COMMIT | end the log record; sync with the group |
//!
//! A checkpoint is written in steps between transactions, at the pace of the log: it is done
//! before the log has grown by half of what made it due. So it holds some transactions that ended
//! while it was written, each tuple as it was when its turn came.
//!
//! Recovery loads the last checkpoint and does the logged transactions again; a transaction has
//! one record, which is whole or does not count, so there is nothing to undo. Indexes are rebuilt,
//! since the log says nothing of them (P1 3.1).
//!
//! Invariants:
//! - An operation is in the log's buffer before it changes a table.
//! - The checkpoint numbered `n` holds all that the segments before `n` have logged, and nothing
//!   of the transactions from its `end_txn` on. What it holds is durable in the log before it
//!   counts.

mod options;
mod redo;
mod saving;
mod stats;
mod steps;

use std::ops::ControlFlow;
use std::sync::Arc;

use heap::{Heap, HeapOptions, Purpose};
use index::Sorted;
use pm::{Environment, Flushed, Memory, Off, Range, fence_for};
use storage::checkpoint;
use storage::operation;
use storage::wal::{LogStart, Wal, WalOptions};
use storage::{Catalog, Image, Row, SlotLayout, Tables, UndoEntry, Value, WorkDone, user_bytes};

use crate::contract::{
    Early, Engine, Footprint, Method, Read, RecoveryReport, Resources, Scan, Syncer, Write,
};
use crate::error::EngineError;
use crate::kind::EngineKind;
use crate::options::Setup;
use crate::redo_log::{RedoLog, wal_options, wal_prefix};
use crate::state::State;
use crate::stats::EngineStats;
use crate::traits::{DurableIn, EngineTraits};

pub use options::InpOptions;
use redo::{Base, redo};
use saving::Saving;
pub use stats::InpStats;

/// A partition of InP; see the module's comment.
#[derive(Debug)]
pub struct Inp<E: Environment> {
    tables: Tables<E::Volatile, Sorted>,
    log: RedoLog<E::Files, E::Volatile>,
    files: E::Files,
    /// The pool, which holds only the description: asked whether it, and with it this process, is
    /// still good.
    pool: E::Durable,
    catalog: Arc<Catalog>,
    partition: u32,
    /// The least log that makes a checkpoint due.
    checkpoint_bytes: u64,
    /// Bytes of log that make the next one due.
    due_bytes: u64,
    /// Somebody calls [`Engine::background`].
    helped: bool,
    checkpoint_file_bytes: u64,
    /// Bytes of the last checkpoint's state, uncompressed.
    state_bytes: u64,
    /// The checkpoint that is being written, and what was logged since it began.
    saving: Option<Saving<E::Files>>,
    logged_since: u64,
    /// The entries that would undo the open transaction, oldest first.
    undo: Vec<UndoEntry>,
    before: Row,
    columns: Vec<u16>,
    state: State,
    user_bytes: u64,
    failures: u64,
    inline: WorkDone,
    background: WorkDone,
    stats: InpStats,
}

fn checkpoint_prefix(partition: u32) -> String {
    format!("checkpoint-{partition}-")
}

impl<E: Environment> Inp<E> {
    /// Empty tables in volatile memory, and the range of the log's buffer.
    fn volatile_tables(
        memory: E::Volatile,
        catalog: &Catalog,
        (setup, options): (&Setup, &InpOptions),
    ) -> Result<(Tables<E::Volatile, Sorted>, Range), EngineError> {
        let heap = Heap::format(memory, HeapOptions { chunk_bytes: 1 << 20, lanes: 1 })?;
        let mut lane = heap.lane(0);
        let cells = Tables::<E::Volatile, Sorted>::cell_bytes(catalog);
        let cells = lane.allocate(cells, Purpose::Log)?;
        let buffer = lane.allocate(options.wal_buffer_bytes, Purpose::Log)?;
        let layouts = SlotLayout::all(catalog);
        let tables = Tables::create(lane, layouts, setup.node_bytes, Off::new(cells))?;
        Ok((tables, Range::new(buffer, options.wal_buffer_bytes)))
    }

    fn assemble(
        (partition, files, pool): (u32, E::Files, E::Durable),
        catalog: &Arc<Catalog>,
        (setup, options): (&Setup, &InpOptions),
        tables: Tables<E::Volatile, Sorted>,
        wal: Wal<E::Files, E::Volatile>,
    ) -> Self {
        Self {
            tables,
            log: RedoLog::new(wal),
            files,
            pool,
            catalog: catalog.clone(),
            partition,
            checkpoint_bytes: options.checkpoint_bytes,
            due_bytes: options.checkpoint_bytes,
            helped: setup.helped,
            checkpoint_file_bytes: 0,
            state_bytes: 0,
            saving: None,
            logged_since: 0,
            undo: Vec::new(),
            before: Row::new(),
            columns: Vec::new(),
            state: State::default(),
            user_bytes: 0,
            failures: 0,
            inline: WorkDone::default(),
            background: WorkDone::default(),
            stats: InpStats::default(),
        }
    }

    /// Logs the operation that the log has encoded.
    fn log_operation(&mut self) -> Result<(), EngineError> {
        self.logged_since += self.log.operation.len() as u64;
        self.log.put(&mut self.state)
    }

    fn after_commit(&mut self) -> Result<(), EngineError> {
        if let Err(error) = self.reclaim() {
            return self.state.stop(error);
        }
        // The transaction is committed whatever becomes of the checkpoint; without one the log
        // grows on, and a later commit tries again.
        match self.keep_pace() {
            Ok(()) => Ok(()),
            Err(error) if self.log.wal.is_poisoned() => self.state.stop(error),
            Err(_) => {
                self.put_checkpoint_off();
                Ok(())
            }
        }
    }

    /// Frees what the transaction has superseded.
    fn reclaim(&mut self) -> Result<(), EngineError> {
        self.undo.clear();
        let mut superseded = std::mem::take(&mut self.tables.superseded);
        for slot in superseded.drain(..) {
            self.tables.lane.release(slot);
        }
        self.tables.superseded = superseded;
        Ok(self.tables.tidy_indexes()?)
    }
}

impl<E: Environment> Method<E> for Inp<E> {
    const KIND: EngineKind = EngineKind::Inp;
    const TRAITS: EngineTraits = EngineTraits::serial(DurableIn::Files, false, false);
    const GROUPS_COMMITS: bool = true;
    type Options = InpOptions;

    fn create(
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        setup: &Setup,
        options: &InpOptions,
    ) -> Result<Self, EngineError> {
        let volatile = resources.volatile.clone();
        let (tables, buffer) = Self::volatile_tables(volatile, catalog, (setup, options))?;
        let files = resources.own_files()?;
        let wal = Wal::create(
            files.clone(),
            &wal_prefix(resources.partition),
            LogStart { sequence: 0, txn: 1 },
            resources.volatile.clone(),
            buffer,
            wal_options(setup, resources.partition, options.wal_reserve_bytes),
        )?;
        let parts = (resources.partition, files, resources.durable.memory().clone());
        Ok(Self::assemble(parts, catalog, (setup, options), tables, wal))
    }

    fn open(
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        setup: &Setup,
        options: &InpOptions,
    ) -> Result<(Self, RecoveryReport), EngineError> {
        let volatile = resources.volatile.clone();
        let (mut tables, buffer) = Self::volatile_tables(volatile, catalog, (setup, options))?;
        let files = resources.own_files()?;
        let mut start = LogStart { sequence: 0, txn: 1 };
        let (mut checkpoint_file_bytes, mut state_bytes, mut end_txn) = (0, 0, 0);
        let prefix = checkpoint_prefix(resources.partition);
        if let Some(mut reader) = checkpoint::open_latest(&files, &prefix)? {
            start = reader.log_start();
            checkpoint_file_bytes = reader.file_bytes();
            state_bytes = reader.plain_bytes();
            end_txn = reader.end_txn();
            saving::load(&mut tables, catalog, &mut reader)?;
            reader.finish()?;
        }
        let log_options = wal_options(setup, resources.partition, options.wal_reserve_bytes);
        let reaches = if setup.accept_short_log { 0 } else { end_txn };
        let (wal, report) = Wal::recover(
            files.clone(),
            &wal_prefix(resources.partition),
            start,
            resources.volatile.clone(),
            buffer,
            WalOptions { reaches, ..log_options },
            |txn, payload: &[u8]| {
                let base = if txn < end_txn { Base::Among } else { Base::Before };
                redo(&mut tables, catalog, payload, base)
            },
        )?;
        let parts = (resources.partition, files, resources.durable.memory().clone());
        let mut partition = Self::assemble(parts, catalog, (setup, options), tables, wal);
        partition.last_checkpoint(checkpoint_file_bytes, state_bytes);
        Ok((partition, RecoveryReport { redone: report.records, ..RecoveryReport::default() }))
    }
}

impl<E: Environment> Write for Inp<E> {
    fn insert(&mut self, table: u16, values: &[Value<'_>]) -> Result<(), EngineError> {
        self.state.usable(&self.pool)?;
        let tuple = self.tables.write_tuple(table, values)?;
        operation::insert(&mut self.log.operation, table, values);
        self.user_bytes += user_bytes(values.iter());
        if let Err(error) = self.log_operation() {
            self.tables.give_back_tuple(tuple);
            return Err(error);
        }
        self.undo.push(UndoEntry::insert(table, tuple.offset, tuple.image));
        if let Err(error) = publish(&mut self.tables, tuple) {
            return self.state.stop(error);
        }
        Ok(())
    }

    fn update(
        &mut self,
        table: u16,
        key: &[Value<'_>],
        changes: &[(u16, Value<'_>)],
    ) -> Result<(), EngineError> {
        self.state.usable(&self.pool)?;
        let tuple = self.tables.find_or_fail(table, key)?;
        if changes.is_empty() {
            return Ok(());
        }
        let fields = self.tables.write_fields(table, tuple, changes, Image::Before)?;
        self.columns.clear();
        self.columns.extend(changes.iter().map(|(column, _)| *column));
        self.tables.read(table, tuple, Some(&self.columns), &mut self.before)?;
        let before = |index| self.before.get(index);
        let user = user_bytes(changes.iter().map(|(_, value)| value));
        let logged = changes.iter().enumerate();
        let logged = logged.map(|(index, (column, value))| (*column, before(index), *value));
        operation::update(&mut self.log.operation, table, key, logged);
        self.user_bytes += user;
        if let Err(error) = self.log_operation() {
            self.tables.give_back_fields(fields);
            return Err(error);
        }
        self.undo.extend(
            self.tables
                .fields
                .chunks(storage::FIELDS_PER_ENTRY)
                .enumerate()
                .map(|(index, part)| UndoEntry::update(table, tuple, part, index > 0)),
        );
        let fields = Flushed::lines(self.tables.lane.memory(), &mut self.tables.lines, fields);
        let fields = fence_for(self.tables.lane.memory(), fields);
        if let Err(error) = self.tables.replace_fields(fields, changes) {
            return self.state.stop(error);
        }
        self.tables.lines.clear();
        Ok(())
    }

    fn delete(&mut self, table: u16, key: &[Value<'_>]) -> Result<(), EngineError> {
        self.state.usable(&self.pool)?;
        let tuple = self.tables.find_or_fail(table, key)?;
        self.tables.read(table, tuple, None, &mut self.before)?;
        operation::delete(&mut self.log.operation, table, key, self.before.values());
        self.log_operation()?;
        self.undo.push(UndoEntry::delete(table, tuple));
        if let Err(error) = self.tables.unlink(table, tuple) {
            return self.state.stop(error);
        }
        self.tables.lines.clear();
        Ok(())
    }
}

impl<E: Environment> Read for Inp<E> {
    #[inline]
    fn get(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: Option<&[u16]>,
        row: &mut Row,
    ) -> Result<bool, EngineError> {
        self.state.usable(&self.pool)?;
        let Some(tuple) = self.tables.find(table, key)? else { return Ok(false) };
        self.tables.read(table, tuple, columns, row)?;
        Ok(true)
    }

    #[inline]
    fn get_bytes(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: &[u16],
        out: &mut [u8],
    ) -> Result<Option<usize>, EngineError> {
        self.state.usable(&self.pool)?;
        let Some(tuple) = self.tables.find(table, key)? else { return Ok(None) };
        Ok(Some(self.tables.read_bytes(table, tuple, columns, out)?))
    }

    fn scan(
        &self,
        table: u16,
        scan: &Scan<'_>,
        row: &mut Row,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<(), EngineError> {
        self.state.usable(&self.pool)?;
        let Scan { index, low, high, direction, columns } = *scan;
        Ok(self.tables.scan(table, index, low, high, direction, columns, row, visit)?)
    }
}

impl<E: Environment> Engine for Inp<E> {
    fn commit(&mut self) -> Result<(u64, bool), EngineError> {
        self.state.usable(&self.pool)?;
        if !self.log.is_open() {
            return Ok(self.log.last());
        }
        self.log.commit(&mut self.state)?;
        self.after_commit()?;
        Ok(self.log.last())
    }

    fn commit_early(&mut self) -> Result<Early, EngineError> {
        self.state.usable(&self.pool)?;
        if self.log.is_open() {
            self.log.commit_early(&mut self.state)?;
            self.after_commit()?;
        }
        Ok(self.log.early())
    }

    fn syncer(&self) -> Option<Arc<dyn Syncer>> {
        Some(self.log.syncer())
    }

    fn abort(&mut self) -> Result<(), EngineError> {
        self.state.abort();
        self.state.usable(&self.pool)?;
        let entries = std::mem::take(&mut self.undo);
        let mut freed = Vec::new();
        if let Err(error) = self.tables.undo(&entries, &mut freed, |_| {}) {
            return self.state.stop(error);
        }
        for slot in freed {
            self.tables.lane.release(slot);
        }
        self.tables.forget();
        self.undo = entries;
        self.undo.clear();
        self.log.discard(&mut self.state)
    }

    fn sync(&mut self) -> Result<(), EngineError> {
        self.state.usable(&self.pool)?;
        self.log.sync(&mut self.state)
    }

    fn durable(&self) -> u64 {
        self.log.durable()
    }

    fn checkpoint(&mut self) -> Result<(), EngineError> {
        self.state.usable(&self.pool)?;
        assert!(!self.log.is_open(), "a checkpoint is taken between transactions");
        // One that is under way would be of an earlier moment.
        self.begin_checkpoint()?;
        let done = self.save_some(u64::MAX)?;
        self.inline += done;
        Ok(())
    }

    fn background(&mut self, budget: u64) -> Result<u64, EngineError> {
        self.state.usable(&self.pool)?;
        if self.log.is_open() {
            return Ok(self.waiting_bytes());
        }
        match self.help(budget) {
            Ok(()) => Ok(self.waiting_bytes()),
            Err(error) if self.log.wal.is_poisoned() => self.state.stop(error),
            Err(error) => {
                self.put_checkpoint_off();
                Err(error)
            }
        }
    }

    fn has_backlog(&self) -> bool {
        self.saving.is_some() || self.log.wal.used_bytes() >= self.due_bytes.max(1)
    }

    fn is_stopped(&self) -> bool {
        self.state.is_stopped()
    }

    /// Checkpoints that a crash cuts off again and again would let the log grow without bound.
    fn catch_up(&mut self) -> Result<bool, EngineError> {
        if self.log.wal.used_bytes() <= self.due_bytes.saturating_mul(2) {
            return Ok(false);
        }
        match self.checkpoint() {
            Err(error) if self.log.wal.is_poisoned() => self.state.stop(error),
            // Without it the log grows on, and a commit tries again.
            _ => Ok(true),
        }
    }

    fn close(&mut self) -> Result<(), EngineError> {
        self.saving = None;
        self.abort()?;
        self.sync()?;
        Ok(self.log.wal.close()?)
    }

    fn footprint(&self) -> Result<Footprint, EngineError> {
        // The next checkpoint lies beside the last one until it counts.
        let next = self.saving.as_ref().map_or(0, |saving| saving.writer.file_bytes());
        let mut footprint = Footprint {
            log: self.log.wal.bytes(),
            checkpoint: self.checkpoint_file_bytes + next,
            ..Footprint::default()
        };
        let heap = self.tables.lane.heap();
        for chunk in heap.chunk_use()? {
            match chunk.purpose {
                Some(Purpose::Table) => footprint.table += heap.chunk_bytes(),
                Some(Purpose::Index) => footprint.index += heap.chunk_bytes(),
                _ => footprint.other += heap.chunk_bytes(),
            }
        }
        Ok(footprint)
    }

    fn stats(&self) -> EngineStats {
        EngineStats {
            user_bytes: self.user_bytes,
            logged_bytes: self.log.wal.logged_bytes(),
            failures: self.failures,
            waiting_bytes: self.waiting_bytes(),
            inline: self.inline,
            background: self.background,
            own: self.stats.into(),
        }
    }

    fn check(&self, _: &mut dyn FnMut(u64)) -> Result<u64, EngineError> {
        Ok(self.tables.check(|_| {})?)
    }
}

fn publish<M: Memory>(
    tables: &mut Tables<M, Sorted>,
    tuple: storage::NewTuple,
) -> Result<(), EngineError> {
    let tuple = Flushed::lines(tables.lane.memory(), &mut tables.lines, tuple);
    let tuple = fence_for(tables.lane.memory(), tuple);
    tables.mark_tuple(&tuple);
    tables.publish_tuple(tuple)?;
    tables.lines.clear();
    Ok(())
}
