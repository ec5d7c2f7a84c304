//! A partition of an engine that undoes.

use std::ops::ControlFlow;
use std::sync::Arc;

use heap::Purpose;
use pm::{Environment, Memory, Range, observe};
use storage::{Catalog, Row, UNDO_HEAD_BYTES, UndoLog, Value, user_bytes};

use super::{LogHead, Rows, TableParts, Undo, UndoTables, roots};
use crate::contract::{Engine, Footprint, Method, Read, RecoveryReport, Resources, Scan, Write};
use crate::error::{EngineError, sound};
use crate::kind::EngineKind;
use crate::options::Setup;
use crate::savepoints::Savepoints;
use crate::stats::EngineStats;
use crate::traits::{DurableIn, EngineTraits};

/// A partition of an engine that undoes; see the module's comment.
#[derive(Debug)]
pub struct UndoEngine<E: Environment, T: UndoTables<E>> {
    undo: Undo<E::Durable>,
    pub(crate) tables: T,
    /// The open transaction's savepoints: entries of the log, and where the tables were.
    savepoints: Savepoints<(u32, T::Mark)>,
    user_bytes: u64,
}

impl<E: Environment, T: UndoTables<E>> UndoEngine<E, T> {
    fn root_name(partition: u32) -> String {
        format!("{}/{partition}", T::ROOT)
    }

    fn assemble(memory: E::Durable, tables: T, log: UndoLog, root: u64) -> Self {
        let undo = Undo::new(memory, log, root);
        Self { undo, tables, savepoints: Savepoints::default(), user_bytes: 0 }
    }
}

impl<E: Environment, T: UndoTables<E>> Method<E> for UndoEngine<E, T> {
    const KIND: EngineKind = T::KIND;
    const TRAITS: EngineTraits = EngineTraits::serial(DurableIn::Pool, false, true);
    const GROUPS_COMMITS: bool = false;
    type Options = T::Options;

    fn create(
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        setup: &Setup,
        options: &T::Options,
    ) -> Result<Self, EngineError> {
        let mut lane = resources.durable.lane(resources.partition);
        lane.recovered();
        let bytes = UNDO_HEAD_BYTES + T::root_bytes(catalog);
        let root = lane.allocate(bytes.next_multiple_of(UNDO_HEAD_BYTES), Purpose::Log)?;
        let log = UndoLog::create(&mut lane, root)?;
        let parts = TableParts { lane, catalog, setup, roots: roots(root) };
        let tables = T::create(parts, options)?;
        let memory = resources.durable.memory().clone();
        let mut partition = Self::assemble(memory, tables, log, root);
        let Self { undo, tables, .. } = &mut partition;
        tables.common().lane.mark_persisted(root, &mut undo.superseded.lines);
        undo.superseded.lines.flush(&undo.memory);
        undo.memory.fence();
        resources.durable.set_root(&Self::root_name(resources.partition), root)?;
        Ok(partition)
    }

    fn open(
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        setup: &Setup,
        options: &T::Options,
    ) -> Result<(Self, RecoveryReport), EngineError> {
        let name = Self::root_name(resources.partition);
        let root = resources.durable.root(&name)?;
        let root = root.ok_or(EngineError::Missing { what: name })?;
        let memory = resources.durable.memory();
        // It comes from the medium: nothing is reckoned from it before.
        memory.view(Range::new(root, UNDO_HEAD_BYTES))?;
        let lane = resources.durable.lane(resources.partition);
        let parts = TableParts { lane, catalog, setup, roots: roots(root) };
        let head = LogHead { memory, root, salvage: setup.salvage };
        let (tables, log, work) = T::open(parts, &head, options)?;
        let mut partition = Self::assemble(memory.clone(), tables, log, root);
        if setup.salvage {
            let undone = partition.tables.recover_what_can_be(&work);
            return Ok((partition, RecoveryReport { undone, ..RecoveryReport::default() }));
        }
        let report = partition.tables.recover(&mut partition.undo, &work)?;
        Ok((partition, report))
    }
}

impl<E: Environment, T: UndoTables<E>> Write for UndoEngine<E, T> {
    #[inline]
    fn insert(&mut self, table: u16, values: &[Value<'_>]) -> Result<(), EngineError> {
        self.undo.usable()?;
        self.tables.insert(&mut self.undo, table, values)?;
        self.user_bytes += user_bytes(values.iter());
        Ok(())
    }

    #[inline]
    fn update(
        &mut self,
        table: u16,
        key: &[Value<'_>],
        changes: &[(u16, Value<'_>)],
    ) -> Result<(), EngineError> {
        self.undo.usable()?;
        if changes.is_empty() {
            self.tables.rows().find_or_fail(table, key)?;
            return Ok(());
        }
        self.tables.update(&mut self.undo, table, key, changes)?;
        self.user_bytes += user_bytes(changes.iter().map(|(_, value)| value));
        Ok(())
    }

    fn delete(&mut self, table: u16, key: &[Value<'_>]) -> Result<(), EngineError> {
        self.undo.usable()?;
        self.tables.delete(&mut self.undo, table, key)
    }
}

impl<E: Environment, T: UndoTables<E>> Read for UndoEngine<E, T> {
    #[inline]
    fn get(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: Option<&[u16]>,
        row: &mut Row,
    ) -> Result<bool, EngineError> {
        self.undo.usable()?;
        sound(&self.undo.memory, || {
            let Some(found) = self.tables.rows().find(table, key)? else { return Ok(false) };
            observe!(E::Durable: self.undo.memory.mark(T::Rows::SELECT[0]));
            self.tables.rows().read(table, key, found, columns, row)?;
            observe!(E::Durable: self.undo.memory.mark(T::Rows::SELECT[1]));
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
        self.undo.usable()?;
        sound(&self.undo.memory, || {
            let Some(found) = self.tables.rows().find(table, key)? else { return Ok(None) };
            observe!(E::Durable: self.undo.memory.mark(T::Rows::SELECT[0]));
            let bytes = self.tables.rows().read_bytes(table, key, found, columns, out)?;
            observe!(E::Durable: self.undo.memory.mark(T::Rows::SELECT[1]));
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
        self.undo.usable()?;
        sound(&self.undo.memory, || self.tables.rows().scan(table, scan, row, visit))
    }
}

impl<E: Environment, T: UndoTables<E>> Engine for UndoEngine<E, T> {
    #[inline]
    fn update_and_commit(
        &mut self,
        table: u16,
        key: &[Value<'_>],
        changes: &[(u16, Value<'_>)],
    ) -> Result<(u64, bool), EngineError> {
        if changes.is_empty() || !self.tables.can_be_statement(table, changes) {
            self.update(table, key, changes)?;
            return self.commit();
        }
        self.undo.usable()?;
        self.tables.statement(&mut self.undo, table, key, changes)?;
        self.user_bytes += user_bytes(changes.iter().map(|(_, value)| value));
        Ok((self.durable(), true))
    }

    #[inline]
    fn commit(&mut self) -> Result<(u64, bool), EngineError> {
        let Self { undo, tables, .. } = self;
        undo.usable()?;
        if undo.log.is_empty() {
            // An operation that failed may have split a leaf.
            tables.common().lane.fence_flushed();
            self.savepoints.forget();
            return Ok((self.durable(), true));
        }
        let memory = &undo.memory;
        memory.fence();
        tables.note(undo);
        undo.log.commit(memory);
        memory.fence();
        tables.common().lane.fenced();
        if let Err(bad) = memory.healthy() {
            return undo.state.stop(bad);
        }
        undo.superseded.release(&mut tables.common().lane);
        tables.ended();
        undo.superseded.add(&mut tables.common().superseded);
        if let Err(error) = tables.committed(undo) {
            // The transaction is durable; what failed is housekeeping on damaged tables.
            undo.state.stop_after(&error);
        }
        Ok((self.durable(), true))
    }

    fn abort(&mut self) -> Result<(), EngineError> {
        let Self { undo, tables, .. } = self;
        undo.usable()?;
        if undo.log.is_empty() {
            tables.common().lane.fence_flushed();
            self.savepoints.forget();
            tables.forget();
            return Ok(());
        }
        let mut freed = Vec::new();
        let entries = undo.log.open_entries(&undo.memory).map_err(EngineError::from);
        let undone = entries.and_then(|entries| tables.undo(undo, &entries, None, &mut freed));
        if let Err(error) = undone {
            return undo.state.stop(error);
        }
        undo.log.abort(&undo.memory);
        undo.memory.fence();
        let lane = &mut tables.common().lane;
        lane.fenced();
        undo.superseded.release(lane);
        tables.ended();
        for slot in freed {
            tables.common().lane.release(slot);
        }
        tables.forget();
        tables.aborted().or_else(|error| undo.state.stop(error))
    }

    fn savepoint(&mut self) -> Result<u64, EngineError> {
        self.undo.usable()?;
        let place = (self.undo.log.len(), self.tables.mark());
        Ok(self.savepoints.mark(self.undo.log.transaction(), place))
    }

    fn rollback_to(&mut self, savepoint: u64) -> Result<(), EngineError> {
        let Self { undo, tables, .. } = self;
        undo.usable()?;
        let (kept, mark) = self.savepoints.back_to(undo.log.transaction(), savepoint)?;
        let mut freed = Vec::new();
        let entries = undo.log.open_entries(&undo.memory).map_err(EngineError::from);
        let undone = entries
            .and_then(|entries| tables.undo(undo, &entries, Some(kept as usize), &mut freed));
        if let Err(error) = undone {
            return undo.state.stop(error);
        }
        tables.back_to(mark);
        undo.superseded.hold(&mut freed);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), EngineError> {
        self.undo.usable()
    }

    fn durable(&self) -> u64 {
        self.tables.last(&self.undo.log)
    }

    fn checkpoint(&mut self) -> Result<(), EngineError> {
        self.undo.usable()
    }

    fn puts_off_work(&self) -> bool {
        T::PUTS_OFF_WORK
    }

    fn background(&mut self, budget: u64) -> Result<u64, EngineError> {
        self.undo.usable()?;
        if !self.undo.log.is_empty() {
            return Ok(self.tables.waiting_bytes());
        }
        self.tables.work(budget).or_else(|error| self.undo.state.stop(error))
    }

    fn has_backlog(&self) -> bool {
        self.tables.has_work()
    }

    fn is_stopped(&self) -> bool {
        self.undo.state.is_stopped()
    }

    fn close(&mut self) -> Result<(), EngineError> {
        self.abort()?;
        let Self { undo, tables, .. } = self;
        undo.superseded.clear_all(&mut tables.common().lane, &undo.memory)?;
        tables.close(undo)
    }

    fn footprint(&self) -> Result<Footprint, EngineError> {
        // Everything lies in the heap, whose chunks say what they are for.
        Ok(Footprint::default())
    }

    fn stats(&self) -> EngineStats {
        let (user_bytes, logged_bytes) = (self.user_bytes, self.undo.log.logged_bytes());
        EngineStats { user_bytes, logged_bytes, ..self.tables.stats() }
    }

    fn check(&self, reachable: &mut dyn FnMut(u64)) -> Result<u64, EngineError> {
        reachable(self.undo.root);
        self.undo.log.segments(&mut *reachable);
        self.undo.superseded.for_each(&mut *reachable);
        self.tables.check(reachable)
    }
}
