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
//! | UPDATE of an inlined column | copy what is there into an image, log entry with the image's pointer and checksum | overwrite the column |
//! | COMMIT | fence; store the log's state word; fence | |
//! | one UPDATE as a transaction | write new fields, log entry with new words and a checksum of both | store into the tuple, mark persisted: opening does it again |
//!
//! Invariants:
//! - What an operation changes in place is in a durable log entry before. Of a statement, a
//!   transaction of one update, that entry is its commit, and what it changes in place becomes
//!   durable with the first fence of the next transaction.
//! - An image, of an inlined column, is never persisted: nothing is allocated before recovery has ended,
//!   and it is released when no recovery can ask for it.
//! - A slot is marked persisted only when a durable log entry, or the tuple that it belongs to,
//!   leads to it: a crash leaks nothing.
//! - What transaction `t` supersedes is cleared by the first operation after its commit and given
//!   out again after the next commit, when the log can no longer ask for its contents; if the next
//!   one is a statement, which leaves the state word alone, after the one behind it, whose entry
//!   lies where the first of `t` was.
//!
//! An update of one field with its commit costs 3 fences and at most 8 flushed lines; as a statement,
//! which P1 has not, one fence and 7 lines, of an inlined column 8. Deviations from the paper:
//! `docs/paper/deviations.md`.

mod options;
mod stats;

use std::ops::ControlFlow;
use std::sync::Arc;

use heap::Purpose;
use index::Append;
use pm::{Environment, Flushed, Memory, Off, Range, fence_for, observe};
use storage::{
    Catalog, FIELDS_PER_ENTRY, Image, MAX_COLUMNS, Row, SlotLayout, Superseded, Tables,
    UNDO_HEAD_BYTES, UndoEntry, UndoLog, UndoWork, Value, user_bytes,
};

use crate::contract::{Engine, Footprint, Method, Read, RecoveryReport, Resources, Scan, Write};
use crate::error::{EngineError, sound};
use crate::kind::EngineKind;
use crate::options::Setup;
use crate::savepoints::Savepoints;
use crate::state::State;
use crate::stats::EngineStats;
use crate::table2::{
    ADD_TO_INDEXES, DISCARD, FIND, MARK_PERSISTED, MODIFY, RECLAIM, RECORD, RETRIEVE, SYNC_CHANGES,
    SYNC_LOG_ENTRY, SYNC_TUPLE,
};
use crate::traits::{DurableIn, EngineTraits};

pub use options::NvmInpOptions;
pub use stats::NvmInpStats;

/// A partition of NVM-InP; see the module's comment.
#[derive(Debug)]
pub struct NvmInp<E: Environment> {
    memory: E::Durable,
    tables: Tables<E::Durable, Append>,
    log: UndoLog,
    /// The log's head and the root pointers of the indexes.
    root: u64,
    superseded: Superseded,
    /// The open transaction's savepoints: entries of the log, slots superseded.
    savepoints: Savepoints<(u32, usize)>,
    user_bytes: u64,
    /// The tuple that the last operation changed, until a fence has made that durable.
    unsettled: Option<u64>,
    state: State,
}

fn root_name(partition: u32) -> String {
    format!("nvm-inp/{partition}")
}

impl<E: Environment> NvmInp<E> {
    /// Settles the previous operation before a log entry about `tuple` is written: what that
    /// operation did to the same tuple must not persist after the entry, since undoing it makes
    /// index keys of logged and of stored fields.
    #[inline]
    fn settle(&mut self, tuple: u64) {
        if self.unsettled.replace(tuple) == Some(tuple) {
            self.memory.fence();
        }
    }

    /// Finishes the committed transaction and undoes the open one that opening the log found.
    fn recover(&mut self, work: &UndoWork) -> Result<RecoveryReport, EngineError> {
        let memory = &self.memory;
        self.tables.redo_statements(&work.statements)?;
        self.tables.lines.flush(memory);
        let mut freed = self.tables.superseded_by(&work.committed)?;
        freed.append(&mut self.tables.superseded_by(&work.statements)?);
        for slot in &freed {
            self.tables.lane.clear_persisted(*slot, &mut self.superseded.lines)?;
        }
        let reclaimed = freed.len() as u64;
        self.superseded.lines.flush(memory);
        memory.fence();
        let log = &mut self.log;
        let undone = self.tables.undo(&work.open, &mut freed, |first| {
            log.retract(memory, first as u32);
        })?;
        memory.healthy()?;
        self.log.finish_recovery(memory);
        memory.fence();
        for slot in freed {
            self.tables.lane.release(slot);
        }
        self.tables.forget();
        let redone = work.statements.len() as u64;
        Ok(RecoveryReport { undone, redone, reclaimed, ..RecoveryReport::default() })
    }
}

impl<E: Environment> NvmInp<E> {
    /// As [`Self::recover`], past what is damaged, of a memory of which only the tuples are wanted.
    #[cold]
    fn recover_what_can_be(&mut self, work: &UndoWork) -> u64 {
        for statement in &work.statements {
            let _ = self.tables.redo_statements(std::slice::from_ref(statement));
        }
        self.tables.undo_what_can_be(&work.open)
    }
}

impl<E: Environment> Method<E> for NvmInp<E> {
    const KIND: EngineKind = EngineKind::NvmInp;
    const TRAITS: EngineTraits = EngineTraits::serial(DurableIn::Pool, false, true);
    const GROUPS_COMMITS: bool = false;
    type Options = NvmInpOptions;

    fn create(
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        setup: &Setup,
        _: &NvmInpOptions,
    ) -> Result<Self, EngineError> {
        let mut lane = resources.durable.lane(resources.partition);
        lane.recovered();
        let bytes = UNDO_HEAD_BYTES + Tables::<E::Durable, Append>::cell_bytes(catalog);
        let root = lane.allocate(bytes.next_multiple_of(UNDO_HEAD_BYTES), Purpose::Log)?;
        let log = UndoLog::create(&mut lane, root)?;
        let (layouts, cells) = (SlotLayout::all_inlined(catalog), Off::new(root + UNDO_HEAD_BYTES));
        let tables = Tables::create(lane, layouts, setup.node_bytes, cells)?;
        let mut partition = Self {
            memory: resources.durable.memory().clone(),
            tables,
            log,
            root,
            superseded: Superseded::default(),
            savepoints: Savepoints::default(),
            user_bytes: 0,
            unsettled: None,
            state: State::default(),
        };
        let memory = &partition.memory;
        partition.tables.lane.mark_persisted(root, &mut partition.superseded.lines);
        partition.superseded.lines.flush(memory);
        memory.fence();
        resources.durable.set_root(&root_name(resources.partition), root)?;
        Ok(partition)
    }

    fn open(
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        setup: &Setup,
        _: &NvmInpOptions,
    ) -> Result<(Self, RecoveryReport), EngineError> {
        let name = root_name(resources.partition);
        let root = resources.durable.root(&name)?;
        let root = root.ok_or(EngineError::Missing { what: name })?;
        let memory = resources.durable.memory();
        // It comes from the medium: nothing is reckoned from it before.
        memory.view(Range::new(root, UNDO_HEAD_BYTES))?;
        let lane = resources.durable.lane(resources.partition);
        let (layouts, cells) = (SlotLayout::all_inlined(catalog), Off::new(root + UNDO_HEAD_BYTES));
        let tables = Tables::open(lane, layouts, setup.node_bytes, cells)?;
        let opened = UndoLog::open(memory, root, |statement| tables.is_complete(statement));
        let (log, work) = match opened {
            Err(_) if setup.salvage => (UndoLog::unreadable(root), UndoWork::default()),
            opened => opened?,
        };
        let mut partition = Self {
            memory: resources.durable.memory().clone(),
            tables,
            log,
            root,
            superseded: Superseded::default(),
            savepoints: Savepoints::default(),
            user_bytes: 0,
            unsettled: None,
            state: State::default(),
        };
        if setup.salvage {
            let undone = partition.recover_what_can_be(&work);
            return Ok((partition, RecoveryReport { undone, ..RecoveryReport::default() }));
        }
        let report = partition.recover(&work)?;
        partition.tables.lane.recovered();
        Ok((partition, report))
    }
}

impl<E: Environment> Write for NvmInp<E> {
    #[inline]
    fn insert(&mut self, table: u16, values: &[Value<'_>]) -> Result<(), EngineError> {
        self.state.usable(&self.memory)?;
        self.superseded.clear(&mut self.tables.lane)?;
        self.log.reserve(&mut self.tables.lane, 1)?;
        let tuple = self.tables.write_tuple(table, values)?;
        let memory = &self.memory;
        self.user_bytes += user_bytes(values.iter());
        let entry = UndoEntry::insert(table, tuple.offset, tuple.image);
        self.log.append(memory, entry, &mut self.tables.lines);
        self.superseded.lines.flush(memory);
        let tuple = Flushed::lines(memory, &mut self.tables.lines, tuple);
        let tuple = fence_for(memory, tuple);
        self.unsettled = None;
        observe!(E::Durable: memory.mark(SYNC_TUPLE));
        observe!(E::Durable: memory.mark(RECORD));
        observe!(E::Durable: memory.mark(SYNC_LOG_ENTRY));
        self.tables.mark_tuple(&tuple);
        observe!(E::Durable: memory.mark(MARK_PERSISTED));
        if let Err(bad) = self.tables.publish_tuple(tuple) {
            return self.state.stop(bad);
        }
        observe!(E::Durable: memory.mark(ADD_TO_INDEXES));
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
        self.state.usable(&self.memory)?;
        let tuple = self.tables.find_or_fail(table, key)?;
        if changes.is_empty() {
            return Ok(());
        }
        self.superseded.clear(&mut self.tables.lane)?;
        // More are refused before they are logged.
        let entries = changes.len().min(MAX_COLUMNS).div_ceil(FIELDS_PER_ENTRY);
        self.log.reserve(&mut self.tables.lane, entries)?;
        let fields = self.tables.write_fields(table, tuple, changes, Image::Before)?;
        self.user_bytes += user_bytes(changes.iter().map(|(_, value)| value));
        self.settle(tuple);
        let memory = &self.memory;
        for (index, part) in self.tables.fields.chunks(FIELDS_PER_ENTRY).enumerate() {
            let entry = UndoEntry::update(table, tuple, part, index > 0);
            self.log.append(memory, entry, &mut self.tables.lines);
        }
        self.superseded.lines.flush(memory);
        let fields = Flushed::lines(memory, &mut self.tables.lines, fields);
        let fields = fence_for(memory, fields);
        observe!(E::Durable: memory.mark(RECORD));
        observe!(E::Durable: memory.mark(SYNC_LOG_ENTRY));
        if let Err(bad) = self.tables.replace_fields(fields, changes) {
            return self.state.stop(bad);
        }
        observe!(E::Durable: memory.mark(MODIFY));
        self.tables.lines.flush(memory);
        observe!(E::Durable: memory.mark(SYNC_CHANGES));
        Ok(())
    }

    fn delete(&mut self, table: u16, key: &[Value<'_>]) -> Result<(), EngineError> {
        self.state.usable(&self.memory)?;
        let tuple = self.tables.find_or_fail(table, key)?;
        self.superseded.clear(&mut self.tables.lane)?;
        self.log.reserve(&mut self.tables.lane, 1)?;
        self.settle(tuple);
        let memory = &self.memory;
        self.log.append(memory, UndoEntry::delete(table, tuple), &mut self.tables.lines);
        self.superseded.lines.flush(memory);
        self.tables.lines.flush(memory);
        memory.fence();
        observe!(E::Durable: memory.mark(RECORD));
        observe!(E::Durable: memory.mark(SYNC_LOG_ENTRY));
        if let Err(bad) = self.tables.unlink(table, tuple) {
            return self.state.stop(bad);
        }
        observe!(E::Durable: memory.mark(DISCARD));
        self.tables.lines.flush(memory);
        Ok(())
    }
}

impl<E: Environment> Read for NvmInp<E> {
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
            let Some(tuple) = self.tables.find(table, key)? else { return Ok(false) };
            observe!(E::Durable: self.memory.mark(FIND));
            self.tables.read(table, tuple, columns, row)?;
            observe!(E::Durable: self.memory.mark(RETRIEVE));
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
            let Some(tuple) = self.tables.find(table, key)? else { return Ok(None) };
            observe!(E::Durable: self.memory.mark(FIND));
            let bytes = self.tables.read_bytes(table, tuple, columns, out)?;
            observe!(E::Durable: self.memory.mark(RETRIEVE));
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
            Ok(self.tables.scan(table, index, low, high, direction, columns, row, visit)?)
        })
    }
}

impl<E: Environment> Engine for NvmInp<E> {
    #[inline]
    fn update_and_commit(
        &mut self,
        table: u16,
        key: &[Value<'_>],
        changes: &[(u16, Value<'_>)],
    ) -> Result<(u64, bool), EngineError> {
        self.state.usable(&self.memory)?;
        if !self.tables.can_be_statement(table, changes) {
            self.update(table, key, changes)?;
            return self.commit();
        }
        let tuple = self.tables.find_or_fail(table, key)?;
        if changes.is_empty() {
            return self.commit();
        }
        self.superseded.clear(&mut self.tables.lane)?;
        self.log.reserve(&mut self.tables.lane, 1)?;
        let fields = self.tables.write_fields(table, tuple, changes, Image::After)?;
        self.user_bytes += user_bytes(changes.iter().map(|(_, value)| value));
        let memory = &self.memory;
        let image = self.tables.image_of_changes(table, changes);
        let entry = UndoEntry::statement(table, tuple, &self.tables.fields, image);
        self.log.append_statement(memory, entry, &mut self.tables.lines);
        self.superseded.lines.flush(memory);
        let fields = Flushed::lines(memory, &mut self.tables.lines, fields);
        let fields = fence_for(memory, fields);
        self.tables.lane.fenced();
        observe!(E::Durable: memory.mark(RECORD));
        observe!(E::Durable: memory.mark(SYNC_LOG_ENTRY));
        let replaced = memory.healthy().and_then(|()| self.tables.replace_fields(fields, changes));
        if let Err(bad) = replaced {
            return self.state.stop(bad);
        }
        self.log.statement_committed();
        observe!(E::Durable: memory.mark(MODIFY));
        // Flushed by the next operation, in whatever thread: a fence does not cover what another
        // thread has flushed.
        self.superseded.lines.take(&mut self.tables.lines);
        self.unsettled = None;
        self.superseded.pass(&mut self.tables.lane, &mut self.tables.images);
        self.superseded.add(&mut self.tables.superseded);
        observe!(E::Durable: self.memory.mark(RECLAIM));
        Ok((self.durable(), true))
    }

    #[inline]
    fn commit(&mut self) -> Result<(u64, bool), EngineError> {
        self.state.usable(&self.memory)?;
        if self.log.is_empty() {
            // An operation that failed may have split a leaf.
            self.tables.lane.settle();
            self.savepoints.forget();
            return Ok((self.durable(), true));
        }
        let memory = &self.memory;
        memory.fence();
        self.log.commit(memory);
        memory.fence();
        self.tables.lane.fenced();
        if let Err(bad) = memory.healthy() {
            return self.state.stop(bad);
        }
        self.unsettled = None;
        self.superseded.release(&mut self.tables.lane);
        self.tables.release_images();
        self.superseded.add(&mut self.tables.superseded);
        observe!(E::Durable: self.memory.mark(RECLAIM));
        if let Err(error) = self.tables.tidy_indexes() {
            // The transaction is durable; what failed is housekeeping on a damaged index.
            self.state.stop_after(&error);
        }
        Ok((self.durable(), true))
    }

    fn abort(&mut self) -> Result<(), EngineError> {
        self.state.usable(&self.memory)?;
        if self.log.is_empty() {
            self.tables.lane.settle();
            self.savepoints.forget();
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
            return self.state.stop(error);
        }
        self.log.abort(memory);
        memory.fence();
        self.tables.lane.fenced();
        self.unsettled = None;
        self.superseded.release(&mut self.tables.lane);
        self.tables.release_images();
        for slot in freed {
            self.tables.lane.release(slot);
        }
        self.tables.forget();
        Ok(())
    }

    fn savepoint(&mut self) -> Result<u64, EngineError> {
        self.state.usable(&self.memory)?;
        let place = (self.log.len(), self.tables.superseded.len());
        Ok(self.savepoints.mark(self.log.transaction(), place))
    }

    fn rollback_to(&mut self, savepoint: u64) -> Result<(), EngineError> {
        self.state.usable(&self.memory)?;
        let (kept, superseded) = self.savepoints.back_to(self.log.transaction(), savepoint)?;
        let memory = &self.memory;
        let mut freed = Vec::new();
        let undone = self.log.open_entries(memory).map_err(EngineError::from).and_then(|entries| {
            let (log, mut end) = (&mut self.log, entries.len() as u32);
            Ok(self.tables.undo(&entries[kept as usize..], &mut freed, |first| {
                let first = kept + first as u32;
                log.retract_each(memory, first, end);
                end = first;
            })?)
        });
        if let Err(error) = undone {
            return self.state.stop(error);
        }
        self.unsettled = None;
        self.tables.forget_superseded(superseded);
        self.superseded.hold(&mut freed);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), EngineError> {
        self.state.usable(&self.memory)
    }

    fn durable(&self) -> u64 {
        self.log.transaction() - 1
    }

    fn checkpoint(&mut self) -> Result<(), EngineError> {
        self.state.usable(&self.memory)
    }

    fn is_stopped(&self) -> bool {
        self.state.is_stopped()
    }

    fn close(&mut self) -> Result<(), EngineError> {
        self.abort()?;
        self.superseded.settle(&mut self.tables.lane, &self.memory)?;
        // What its fence has made durable is not said before it has.
        self.memory.healthy()?;
        // Nothing is left to do: opening need not do statements again.
        self.log.nothing_left(&self.memory, &mut self.superseded.lines);
        self.superseded.lines.flush(&self.memory);
        self.memory.fence();
        Ok(())
    }

    fn puts_off_work(&self) -> bool {
        false
    }

    fn footprint(&self) -> Result<Footprint, EngineError> {
        Ok(Footprint::default())
    }

    fn stats(&self) -> EngineStats {
        EngineStats {
            user_bytes: self.user_bytes,
            logged_bytes: self.log.logged_bytes(),
            ..EngineStats::from(EngineKind::NvmInp)
        }
    }

    fn check(&self, reachable: &mut dyn FnMut(u64)) -> Result<u64, EngineError> {
        reachable(self.root);
        self.log.segments(&mut *reachable);
        self.superseded.for_each(&mut *reachable);
        Ok(self.tables.check(reachable)?)
    }
}
