//! NVM-InP: NVM-aware in-place updates (P1 4.1).
//!
//! Tuples and fields lie in slots of the pool, indexes are non-volatile B+trees, and the log holds
//! only what is needed to undo: pointers, and before images of what fits a word. There is no redo:
//! a transaction's changes are durable before it commits. Table 2, in our words:
//!
//! | operation | before the first fence | after it |
//! |---|---|---|
//! | INSERT | write tuple, log entry with its pointer, invisible index entries | mark persisted, make index entries count |
//! | UPDATE | write new fields, log entry with old and new | store into the tuple, mark persisted, mend indexes |
//! | DELETE | log entry with the tuple's pointer | remove index entries; the space is reclaimed after the end |
//! | COMMIT | fence; store the log's state word; fence | |
//!
//! Invariants:
//! - What an operation changes in place is in a durable log entry before.
//! - A slot is marked persisted only when a durable log entry, or the tuple that it belongs to,
//!   leads to it: a crash leaks nothing.
//! - What transaction `t` supersedes is cleared by the first operation after its commit and given
//!   out again after the next commit, when the log can no longer ask for its contents.
//!
//! An update of one field with its commit costs 3 fences and at most 8 flushed lines. Deviations
//! from the paper: `docs/paper/deviations.md`.

use std::ops::ControlFlow;
use std::sync::Arc;

use heap::Purpose;
use index::Append;
use pm::{Environment, Flushed, LineSet, Memory, Off, fence_for};
use storage::{Catalog, FIELDS_PER_ENTRY, Row, Tables, UNDO_HEAD_BYTES, UndoEntry, UndoLog, Value};

use crate::contract::{
    Engine, EngineKind, EngineOptions, Footprint, RecoveryReport, Resources, Scan,
};
use crate::error::{EngineError, sound};
use crate::table2::{
    ADD_TO_INDEXES, DISCARD, FIND, MARK_PERSISTED, MODIFY, RECLAIM, RECORD, RETRIEVE, SYNC_CHANGES,
    SYNC_LOG_ENTRY, SYNC_TUPLE,
};

/// A partition of NVM-InP; see the module's comment.
#[derive(Debug)]
pub struct NvmInp<E: Environment> {
    memory: E::Durable,
    tables: Tables<E::Durable, Append>,
    log: UndoLog,
    /// The log's head and the root pointers of the indexes.
    root: u64,
    /// Superseded by the last committed transaction: persisted bits to clear.
    to_clear: Vec<u64>,
    /// Cleared since: to release after the next end of a transaction.
    to_release: Vec<u64>,
    /// The tuple that the last operation changed, until a fence has made that durable.
    unsettled: Option<u64>,
    /// Lines of cleared bits, to be flushed with the next log entry.
    cleared: LineSet,
    stopped: Option<String>,
}

fn root_name(partition: u32) -> String {
    format!("nvm-inp/{partition}")
}

impl<E: Environment> NvmInp<E> {
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
            self.tables.lane.clear_persisted(slot, &mut self.cleared)?;
            self.to_release.push(slot);
        }
        Ok(())
    }

    /// Before a log entry about `tuple` is written: what the operation before did to the same
    /// tuple must not persist after the entry, since undoing it makes index keys of logged and of
    /// stored fields.
    #[inline]
    fn settle(&mut self, tuple: u64) {
        if self.unsettled.replace(tuple) == Some(tuple) {
            self.memory.fence();
        }
    }

    fn release_cleared(&mut self) {
        while let Some(slot) = self.to_release.pop() {
            self.tables.lane.release(slot);
        }
    }

    /// Finishes the committed transaction and undoes the open one that opening the log found.
    fn recover(&mut self, work: &storage::UndoWork) -> Result<RecoveryReport, EngineError> {
        let memory = &self.memory;
        let mut freed = self.tables.superseded_by(&work.committed)?;
        for slot in &freed {
            self.tables.lane.clear_persisted(*slot, &mut self.cleared)?;
        }
        let reclaimed = freed.len() as u64;
        self.cleared.flush(memory);
        memory.fence();
        let log = &mut self.log;
        let undone = self.tables.undo(&work.open, &mut freed, |first| {
            log.retract(memory, first as u32);
        })?;
        self.log.finish_recovery(memory);
        memory.fence();
        for slot in freed {
            self.tables.lane.release(slot);
        }
        self.tables.forget();
        Ok(RecoveryReport { undone, reclaimed, ..RecoveryReport::default() })
    }
}

impl<E: Environment> Engine<E> for NvmInp<E> {
    const KIND: EngineKind = EngineKind::NvmInp;

    fn create(
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        _: &EngineOptions,
    ) -> Result<Self, EngineError> {
        let mut lane = resources.durable.lane(resources.partition);
        let bytes = UNDO_HEAD_BYTES + Tables::<E::Durable, Append>::cell_bytes(catalog);
        let root = lane.allocate(bytes.next_multiple_of(UNDO_HEAD_BYTES), Purpose::Log)?;
        let log = UndoLog::create(&mut lane, root)?;
        let tables = Tables::create(lane, catalog, Off::new(root + UNDO_HEAD_BYTES))?;
        let mut partition = Self {
            memory: resources.durable.memory().clone(),
            tables,
            log,
            root,
            to_clear: Vec::new(),
            to_release: Vec::new(),
            unsettled: None,
            cleared: LineSet::new(),
            stopped: None,
        };
        let memory = &partition.memory;
        partition.tables.lane.mark_persisted(root, &mut partition.cleared);
        partition.cleared.flush(memory);
        memory.fence();
        resources.durable.set_root(&root_name(resources.partition), root)?;
        Ok(partition)
    }

    fn open(
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        _: &EngineOptions,
    ) -> Result<(Self, RecoveryReport), EngineError> {
        let name = root_name(resources.partition);
        let root = resources.durable.root(&name)?;
        let root = root.ok_or(EngineError::Missing { what: name })?;
        let (log, work) = UndoLog::open(resources.durable.memory(), root)?;
        let lane = resources.durable.lane(resources.partition);
        let tables = Tables::open(lane, catalog, Off::new(root + UNDO_HEAD_BYTES));
        let mut partition = Self {
            memory: resources.durable.memory().clone(),
            tables,
            log,
            root,
            to_clear: Vec::new(),
            to_release: Vec::new(),
            unsettled: None,
            cleared: LineSet::new(),
            stopped: None,
        };
        let report = partition.recover(&work)?;
        Ok((partition, report))
    }

    #[inline]
    fn insert(&mut self, table: u16, values: &[Value<'_>]) -> Result<(), EngineError> {
        self.usable()?;
        self.clear_superseded()?;
        self.log.reserve(&mut self.tables.lane, 1)?;
        let tuple = self.tables.write_tuple(table, values)?;
        let memory = &self.memory;
        let entry = UndoEntry::insert(table, tuple.offset, tuple.image);
        self.log.append(memory, entry, &mut self.tables.lines);
        self.cleared.flush(memory);
        let tuple = Flushed::lines(memory, &mut self.tables.lines, tuple);
        let tuple = fence_for(memory, tuple);
        self.unsettled = None;
        memory.mark(SYNC_TUPLE);
        memory.mark(RECORD);
        memory.mark(SYNC_LOG_ENTRY);
        self.tables.mark_tuple(&tuple);
        memory.mark(MARK_PERSISTED);
        if let Err(bad) = self.tables.publish_tuple(tuple) {
            return self.stop(bad.into());
        }
        memory.mark(ADD_TO_INDEXES);
        self.tables.lines.flush(memory);
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
        let tuple = self.tables.find_or_fail(table, key)?;
        if changes.is_empty() {
            return Ok(());
        }
        self.clear_superseded()?;
        self.log.reserve(&mut self.tables.lane, changes.len().div_ceil(FIELDS_PER_ENTRY))?;
        let fields = self.tables.write_fields(table, tuple, changes)?;
        self.settle(tuple);
        let memory = &self.memory;
        for (index, part) in self.tables.fields.chunks(FIELDS_PER_ENTRY).enumerate() {
            let entry = UndoEntry::update(table, tuple, part, index > 0);
            self.log.append(memory, entry, &mut self.tables.lines);
        }
        self.cleared.flush(memory);
        let fields = Flushed::lines(memory, &mut self.tables.lines, fields);
        let fields = fence_for(memory, fields);
        memory.mark(RECORD);
        memory.mark(SYNC_LOG_ENTRY);
        if let Err(bad) = self.tables.replace_fields(fields) {
            return self.stop(bad.into());
        }
        memory.mark(MODIFY);
        self.tables.lines.flush(memory);
        memory.mark(SYNC_CHANGES);
        Ok(())
    }

    fn delete(&mut self, table: u16, key: &[Value<'_>]) -> Result<(), EngineError> {
        self.usable()?;
        let tuple = self.tables.find_or_fail(table, key)?;
        self.clear_superseded()?;
        self.log.reserve(&mut self.tables.lane, 1)?;
        self.settle(tuple);
        let memory = &self.memory;
        self.log.append(memory, UndoEntry::delete(table, tuple), &mut self.tables.lines);
        self.cleared.flush(memory);
        self.tables.lines.flush(memory);
        memory.fence();
        memory.mark(RECORD);
        memory.mark(SYNC_LOG_ENTRY);
        if let Err(bad) = self.tables.unlink(table, tuple) {
            return self.stop(bad.into());
        }
        memory.mark(DISCARD);
        self.tables.lines.flush(memory);
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
            let Some(tuple) = self.tables.find(table, key)? else { return Ok(false) };
            self.memory.mark(FIND);
            self.tables.read(table, tuple, columns, row)?;
            self.memory.mark(RETRIEVE);
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
            let Some(tuple) = self.tables.find(table, key)? else { return Ok(None) };
            self.memory.mark(FIND);
            let bytes = self.tables.read_bytes(table, tuple, columns, out)?;
            self.memory.mark(RETRIEVE);
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
            Ok(self.tables.scan(table, index, low, high, direction, columns, row, visit)?)
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
        self.log.commit(memory);
        memory.fence();
        if let Err(bad) = memory.healthy() {
            return self.stop(bad.into());
        }
        self.unsettled = None;
        self.release_cleared();
        std::mem::swap(&mut self.to_clear, &mut self.tables.superseded);
        self.memory.mark(RECLAIM);
        if let Err(error) = self.tables.tidy_indexes() {
            // The transaction is durable; what failed is housekeeping on a damaged index.
            self.stopped = Some(error.to_string());
        }
        Ok((self.durable(), true))
    }

    fn abort(&mut self) -> Result<(), EngineError> {
        self.usable()?;
        if self.log.is_empty() {
            self.tables.forget();
            return Ok(());
        }
        let memory = &self.memory;
        let mut freed = Vec::new();
        let undone = self.log.open_entries(memory).map_err(EngineError::from).and_then(|entries| {
            let log = &mut self.log;
            Ok(self.tables.undo(&entries, &mut freed, |first| {
                log.retract(memory, first as u32);
            })?)
        });
        if let Err(error) = undone {
            return self.stop(error);
        }
        self.log.abort(memory);
        memory.fence();
        self.unsettled = None;
        self.release_cleared();
        for slot in freed {
            self.tables.lane.release(slot);
        }
        self.tables.forget();
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

    fn close(&mut self) -> Result<(), EngineError> {
        self.abort()?;
        if self.to_clear.is_empty() && self.to_release.is_empty() {
            return Ok(());
        }
        self.clear_superseded()?;
        let memory = &self.memory;
        self.cleared.flush(memory);
        memory.fence();
        self.log.abort(memory);
        memory.fence();
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
        Ok(self.tables.check(reachable)?)
    }
}
