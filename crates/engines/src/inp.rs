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

mod checkpoints;
mod options;
mod redo;
mod room;
mod saving;
mod stats;

use std::sync::Arc;

use heap::{Heap, HeapOptions, Purpose};
use index::Sorted;
use pm::{Environment, Flushed, Memory, Off, Range, fence_for};
use storage::operation::{self, value_bytes};
use storage::wal::{LogStart, Need};
use storage::{Catalog, FIELDS_PER_ENTRY, Image, SlotLayout, Tables, UndoEntry, Value};

use crate::contract::{Footprint, RecoveryReport, Resources};
use crate::error::EngineError;
use crate::kind::EngineKind;
use crate::options::Setup;
use crate::redo::{LogOf, LogParts, Redo, RedoEngine, RedoTables};
use crate::stats::EngineStats;

use checkpoints::Checkpoints;
pub use options::InpOptions;
use redo::{Base, redo};
use room::Change;
pub use stats::InpStats;

/// A partition of InP; see the module's comment.
pub type Inp<E> = RedoEngine<E, InMemory<E>>;

/// Tables in volatile memory, which checkpoints save.
#[derive(Debug)]
pub struct InMemory<E: Environment> {
    tables: Tables<E::Volatile, Sorted>,
    catalog: Arc<Catalog>,
    /// The entries that would undo the open transaction, oldest first.
    undo: Vec<UndoEntry>,
    checkpoints: Checkpoints<E>,
}

/// Empty tables in volatile memory, and the range of the log's buffer.
fn volatile_tables<E: Environment>(
    resources: &Resources<E>,
    catalog: &Catalog,
    (setup, options): (&Setup, &InpOptions),
) -> Result<(Tables<E::Volatile, Sorted>, Range), EngineError> {
    let heap_options = HeapOptions { chunk_bytes: 1 << 20, lanes: 1 };
    let heap = Heap::format(resources.volatile.clone(), heap_options)?;
    let mut lane = heap.lane(0);
    let cells = Tables::<E::Volatile, Sorted>::cell_bytes(catalog);
    let cells = lane.allocate(cells, Purpose::Log)?;
    let buffer = lane.allocate(options.wal_buffer_bytes, Purpose::Log)?;
    let layouts = SlotLayout::all(catalog);
    let tables = Tables::create(lane, layouts, setup.node_bytes, Off::new(cells))?;
    Ok((tables, Range::new(buffer, options.wal_buffer_bytes)))
}

impl<E: Environment> InMemory<E> {
    /// Logs the operation that the log has encoded, which changes a checkpoint so.
    fn log_operation(&mut self, redo: &mut Redo<E>, change: Change) -> Result<(), EngineError> {
        let need = if change.needs_space() { Need::Ordinary } else { Need::Freeing };
        let before = self.checkpoints.open_change();
        self.checkpoints.logged(redo.log.operation.len() as u64);
        let done = self.checkpoints.change(change).and_then(|()| redo.put(need));
        done.inspect_err(|_| self.checkpoints.refused(before))
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

impl<E: Environment> RedoTables<E> for InMemory<E> {
    const KIND: EngineKind = EngineKind::Inp;
    const LARGER_THAN_MEMORY: bool = false;
    type Options = InpOptions;
    type Rows = Tables<E::Volatile, Sorted>;

    fn create(
        resources: &Resources<E>,
        catalog: &Arc<Catalog>,
        (setup, options): (&Setup, &InpOptions),
    ) -> Result<(Self, LogOf<E>), EngineError> {
        let (tables, buffer) = volatile_tables(resources, catalog, (setup, options))?;
        let checkpoints = Checkpoints::new(resources, (setup, options))?;
        let reserve_bytes = options.wal_reserve_bytes;
        let log = LogParts { resources, setup, catalog, reserve_bytes, buffer };
        let wal = log.create(LogStart { sequence: 0, txn: 1 })?;
        let catalog = catalog.clone();
        Ok((Self { tables, catalog, undo: Vec::new(), checkpoints }, wal))
    }

    fn open(
        resources: &Resources<E>,
        catalog: &Arc<Catalog>,
        (setup, options): (&Setup, &InpOptions),
    ) -> Result<(Self, LogOf<E>, RecoveryReport), EngineError> {
        let (mut tables, buffer) = volatile_tables(resources, catalog, (setup, options))?;
        let mut start = LogStart { sequence: 0, txn: 1 };
        let mut end_txn = 0;
        let mut checkpoints = Checkpoints::new(resources, (setup, options))?;
        if let Some(mut reader) = checkpoints.open_latest()? {
            start = reader.log_start();
            end_txn = reader.end_txn();
            saving::load(&mut tables, catalog, &mut reader)?;
            checkpoints.last(reader.file_bytes(), reader.plain_bytes());
            reader.finish()?;
        }
        let reserve_bytes = options.wal_reserve_bytes;
        let log = LogParts { resources, setup, catalog, reserve_bytes, buffer };
        let reaches = if setup.accept_short_log { 0 } else { end_txn };
        let (wal, report) = log.recover(start, reaches, |txn, payload| {
            let base = if txn < end_txn { Base::Among } else { Base::Before };
            checkpoints.redone(redo(&mut tables, catalog, payload, base)?);
            Ok(())
        })?;
        checkpoints.opened(start.sequence);
        let partition = Self { tables, catalog: catalog.clone(), undo: Vec::new(), checkpoints };
        let report = RecoveryReport { redone: report.records, ..RecoveryReport::default() };
        Ok((partition, wal, report))
    }

    #[inline]
    fn rows(&self) -> &Self::Rows {
        &self.tables
    }

    fn insert(
        &mut self,
        redo: &mut Redo<E>,
        table: u16,
        values: &[Value<'_>],
    ) -> Result<(), EngineError> {
        let tuple = self.tables.write_tuple(table, values)?;
        operation::insert(&mut redo.log.operation, table, values);
        let change = Change::inserted(saving::tuple_bytes(values.iter().copied()));
        if let Err(error) = self.log_operation(redo, change) {
            self.tables.give_back_tuple(tuple);
            return Err(error);
        }
        self.undo.push(UndoEntry::insert(table, tuple.offset, tuple.checksum));
        publish(&mut self.tables, tuple).or_else(|error| redo.state.stop(error))
    }

    fn update(
        &mut self,
        redo: &mut Redo<E>,
        (table, key): (u16, &[Value<'_>]),
        changes: &[(u16, Value<'_>)],
    ) -> Result<(), EngineError> {
        let tuple = self.tables.find_or_fail(table, key)?;
        if changes.is_empty() {
            return Ok(());
        }
        let fields = self.tables.write_fields(table, tuple, changes, Image::Before)?;
        let Redo { log, before, columns, .. } = redo;
        columns.clear();
        columns.extend(changes.iter().map(|(column, _)| *column));
        self.tables.read(table, tuple, Some(&columns[..]), before)?;
        let logged = changes.iter().enumerate();
        let logged = logged.map(|(index, (column, value))| (*column, before.get(index), *value));
        operation::update(&mut log.operation, table, key, logged);
        let old = before.values().map(|value| value_bytes(&value)).sum();
        let new = changes.iter().map(|(_, value)| value_bytes(value)).sum();
        if let Err(error) = self.log_operation(redo, Change::replaced(old, new)) {
            self.tables.give_back_fields(fields);
            return Err(error);
        }
        let parts = self.tables.fields.chunks(FIELDS_PER_ENTRY).enumerate();
        self.undo
            .extend(parts.map(|(index, part)| UndoEntry::update(table, tuple, part, index > 0)));
        let fields = Flushed::lines(self.tables.lane.memory(), &mut self.tables.lines, fields);
        let fields = fence_for(self.tables.lane.memory(), fields);
        if let Err(error) = self.tables.replace_fields(fields, changes) {
            return redo.state.stop(error);
        }
        self.tables.lines.clear();
        Ok(())
    }

    fn delete(
        &mut self,
        redo: &mut Redo<E>,
        (table, key): (u16, &[Value<'_>]),
    ) -> Result<(), EngineError> {
        let tuple = self.tables.find_or_fail(table, key)?;
        self.tables.read(table, tuple, None, &mut redo.before)?;
        operation::delete(&mut redo.log.operation, table, key, redo.before.values());
        let change = Change::deleted(saving::tuple_bytes(redo.before.values()));
        self.log_operation(redo, change)?;
        self.undo.push(UndoEntry::delete(table, tuple));
        if let Err(error) = self.tables.unlink(table, tuple) {
            return redo.state.stop(error);
        }
        self.tables.lines.clear();
        Ok(())
    }

    fn committed(&mut self, redo: &mut Redo<E>) -> Result<(), EngineError> {
        if let Err(error) = self.reclaim() {
            return redo.state.stop(error);
        }
        self.checkpoints.committed();
        // Without a checkpoint the log grows on, and a later commit tries again.
        match self.checkpoints.keep_pace(redo, (&self.tables, &self.catalog)) {
            Ok(()) => Ok(()),
            Err(error) if redo.log.wal.is_poisoned() => redo.state.stop(error),
            Err(_) => {
                self.checkpoints.put_off(&redo.log.wal);
                Ok(())
            }
        }
    }

    fn undo(&mut self) -> Result<(), EngineError> {
        self.checkpoints.aborted();
        let entries = std::mem::take(&mut self.undo);
        let mut freed = Vec::new();
        self.tables.undo(&entries, &mut freed, |_| {})?;
        for slot in freed {
            self.tables.lane.release(slot);
        }
        self.tables.forget();
        self.undo = entries;
        self.undo.clear();
        Ok(self.tables.tidy_indexes()?)
    }

    fn checkpoint(&mut self, redo: &mut Redo<E>) -> Result<(), EngineError> {
        self.checkpoints.take(&mut redo.log.wal, (&self.tables, &self.catalog))
    }

    fn background(&mut self, redo: &mut Redo<E>, budget: u64) -> Result<u64, EngineError> {
        if redo.log.is_open() {
            return Ok(self.checkpoints.waiting_bytes(&redo.log.wal));
        }
        let wal = &mut redo.log.wal;
        match self.checkpoints.help(wal, (&self.tables, &self.catalog), budget) {
            Ok(()) => Ok(self.checkpoints.waiting_bytes(wal)),
            Err(error) if wal.is_poisoned() => redo.state.stop(error),
            Err(error) => {
                self.checkpoints.put_off(wal);
                Err(error)
            }
        }
    }

    fn has_work(&self, redo: &Redo<E>) -> bool {
        self.checkpoints.has_work(&redo.log.wal)
    }

    fn is_overdue(&self, redo: &Redo<E>) -> bool {
        self.checkpoints.is_overdue(&redo.log.wal)
    }

    fn give_up_work(&mut self) -> Result<(), EngineError> {
        self.checkpoints.give_up();
        Ok(())
    }

    fn footprint(&self) -> Result<Footprint, EngineError> {
        let checkpoint = self.checkpoints.file_bytes();
        let other = self.checkpoints.spare_bytes();
        let mut footprint = Footprint { checkpoint, other, ..Footprint::default() };
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

    fn stats(&self, redo: &Redo<E>) -> EngineStats {
        self.checkpoints.stats(&redo.log.wal)
    }

    fn check(&self) -> Result<u64, EngineError> {
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
