//! A partition of an engine that redoes from a log in files.

use std::ops::ControlFlow;
use std::sync::Arc;

use pm::Environment;
use storage::{Catalog, Row, Value, user_bytes};

use super::{Redo, RedoTables};
use crate::contract::{
    Early, Engine, Footprint, Method, Read, RecoveryReport, Resources, Scan, Syncer, Write,
};
use crate::error::EngineError;
use crate::kind::EngineKind;
use crate::options::Setup;
use crate::stats::EngineStats;
use crate::traits::{DurableIn, EngineTraits};

/// A partition of an engine that does its log again; see the module's comment.
#[derive(Debug)]
pub struct RedoEngine<E: Environment, T> {
    tables: T,
    redo: Redo<E>,
    user_bytes: u64,
}

impl<E: Environment, T: RedoTables<E>> Method<E> for RedoEngine<E, T> {
    const KIND: EngineKind = T::KIND;
    const TRAITS: EngineTraits =
        EngineTraits::serial(DurableIn::Files, false, T::LARGER_THAN_MEMORY);
    const GROUPS_COMMITS: bool = true;
    type Options = T::Options;

    fn create(
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        setup: &Setup,
        options: &T::Options,
    ) -> Result<Self, EngineError> {
        let (tables, log) = T::create(&resources, catalog, (setup, options))?;
        let redo = Redo::new(log, resources.durable.memory().clone());
        Ok(Self { tables, redo, user_bytes: 0 })
    }

    fn open(
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        setup: &Setup,
        options: &T::Options,
    ) -> Result<(Self, RecoveryReport), EngineError> {
        let (tables, log, report) = T::open(&resources, catalog, (setup, options))?;
        let redo = Redo::new(log, resources.durable.memory().clone());
        Ok((Self { tables, redo, user_bytes: 0 }, report))
    }
}

impl<E: Environment, T: RedoTables<E>> Write for RedoEngine<E, T> {
    fn insert(&mut self, table: u16, values: &[Value<'_>]) -> Result<(), EngineError> {
        self.redo.usable()?;
        self.tables.insert(&mut self.redo, table, values)?;
        self.user_bytes += user_bytes(values.iter());
        Ok(())
    }

    fn update(
        &mut self,
        table: u16,
        key: &[Value<'_>],
        changes: &[(u16, Value<'_>)],
    ) -> Result<(), EngineError> {
        self.redo.usable()?;
        self.tables.update(&mut self.redo, (table, key), changes)?;
        self.user_bytes += user_bytes(changes.iter().map(|(_, value)| value));
        Ok(())
    }

    fn delete(&mut self, table: u16, key: &[Value<'_>]) -> Result<(), EngineError> {
        self.redo.usable()?;
        self.tables.delete(&mut self.redo, (table, key))
    }
}

impl<E: Environment, T: RedoTables<E>> Read for RedoEngine<E, T> {
    #[inline]
    fn get(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: Option<&[u16]>,
        row: &mut Row,
    ) -> Result<bool, EngineError> {
        self.redo.usable()?;
        self.tables.rows().get(table, key, columns, row)
    }

    #[inline]
    fn get_bytes(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: &[u16],
        out: &mut [u8],
    ) -> Result<Option<usize>, EngineError> {
        self.redo.usable()?;
        self.tables.rows().get_bytes(table, key, columns, out)
    }

    fn scan(
        &self,
        table: u16,
        scan: &Scan<'_>,
        row: &mut Row,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<(), EngineError> {
        self.redo.usable()?;
        self.tables.rows().scan(table, scan, row, visit)
    }
}

impl<E: Environment, T: RedoTables<E>> Engine for RedoEngine<E, T> {
    fn commit(&mut self) -> Result<(u64, bool), EngineError> {
        let Self { redo, tables, .. } = self;
        redo.usable()?;
        if redo.log.is_open() {
            redo.log.commit(&mut redo.state)?;
            tables.committed(redo)?;
        }
        Ok(redo.log.last())
    }

    fn commit_early(&mut self) -> Result<Early, EngineError> {
        let Self { redo, tables, .. } = self;
        redo.usable()?;
        if redo.log.is_open() {
            redo.log.commit_early(&mut redo.state)?;
            tables.committed(redo)?;
        }
        Ok(redo.log.early())
    }

    fn syncer(&self) -> Option<Arc<dyn Syncer>> {
        Some(self.redo.log.syncer())
    }

    fn abort(&mut self) -> Result<(), EngineError> {
        let Self { redo, tables, .. } = self;
        redo.state.abort();
        redo.usable()?;
        if let Err(error) = tables.undo() {
            return redo.state.stop(error);
        }
        redo.log.discard(&mut redo.state)
    }

    fn sync(&mut self) -> Result<(), EngineError> {
        self.redo.usable()?;
        self.redo.log.sync(&mut self.redo.state)
    }

    fn durable(&self) -> u64 {
        self.redo.log.durable()
    }

    fn checkpoint(&mut self) -> Result<(), EngineError> {
        self.redo.usable()?;
        assert!(!self.redo.log.is_open(), "a checkpoint is taken between transactions");
        self.tables.checkpoint(&mut self.redo)
    }

    fn background(&mut self, budget: u64) -> Result<u64, EngineError> {
        self.redo.usable()?;
        self.tables.background(&mut self.redo, budget)
    }

    fn has_backlog(&self) -> bool {
        self.tables.has_work(&self.redo)
    }

    fn is_stopped(&self) -> bool {
        self.redo.state.is_stopped()
    }

    /// Steps that a crash cuts off again and again would let the log grow without bound.
    fn catch_up(&mut self) -> Result<bool, EngineError> {
        if !self.tables.is_overdue(&self.redo) {
            return Ok(false);
        }
        match self.checkpoint() {
            Err(error) if self.is_stopped() => Err(error),
            Err(error) if self.redo.log.wal.is_poisoned() => self.redo.state.stop(error),
            // Without it the log grows on, and a commit tries again.
            _ => Ok(true),
        }
    }

    fn close(&mut self) -> Result<(), EngineError> {
        self.abort()?;
        self.sync()?;
        self.redo.log.wal.close()?;
        self.tables.give_up_work()
    }

    fn footprint(&self) -> Result<Footprint, EngineError> {
        Ok(Footprint { log: self.redo.log.wal.bytes(), ..self.tables.footprint()? })
    }

    fn stats(&self) -> EngineStats {
        let (user_bytes, logged_bytes) = (self.user_bytes, self.redo.log.wal.logged_bytes());
        EngineStats { user_bytes, logged_bytes, ..self.tables.stats(&self.redo) }
    }

    fn check(&self, _: &mut dyn FnMut(u64)) -> Result<u64, EngineError> {
        self.tables.check()
    }
}
