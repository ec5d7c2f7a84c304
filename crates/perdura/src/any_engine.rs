//! The one place where an engine is chosen at run time.

use std::ops::ControlFlow;
use std::sync::Arc;

use engines::below::{Catalog, Environment, Row, Value};
use engines::{
    Cow, Engine, EngineError, EngineKind, EngineOptions, EngineStats, Footprint, Inp, Log, NvmCow,
    NvmInp, NvmLog, RecoveryReport, Resources, Scan, SnapshotSource,
};

/// A partition under one of the engines.
#[derive(Debug)]
pub(crate) enum AnyEngine<E: Environment> {
    Inp(Box<Inp<E>>),
    Cow(Box<Cow<E>>),
    Log(Box<Log<E>>),
    NvmInp(Box<NvmInp<E>>),
    NvmCow(Box<NvmCow<E>>),
    NvmLog(Box<NvmLog<E>>),
}

macro_rules! dispatch {
    ($engine:expr, $inner:ident => $body:expr) => {
        match $engine {
            AnyEngine::Inp($inner) => $body,
            AnyEngine::Cow($inner) => $body,
            AnyEngine::Log($inner) => $body,
            AnyEngine::NvmInp($inner) => $body,
            AnyEngine::NvmCow($inner) => $body,
            AnyEngine::NvmLog($inner) => $body,
        }
    };
}

type Result<T> = std::result::Result<T, EngineError>;

impl<E: Environment> AnyEngine<E> {
    pub(crate) fn create(
        kind: EngineKind,
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        options: &EngineOptions,
    ) -> Result<Self> {
        Ok(match kind {
            EngineKind::Inp => Self::Inp(Box::new(Inp::create(resources, catalog, options)?)),
            EngineKind::Cow => Self::Cow(Box::new(Cow::create(resources, catalog, options)?)),
            EngineKind::NvmCow => {
                Self::NvmCow(Box::new(NvmCow::create(resources, catalog, options)?))
            }
            EngineKind::Log => Self::Log(Box::new(Log::create(resources, catalog, options)?)),
            EngineKind::NvmLog => {
                Self::NvmLog(Box::new(NvmLog::create(resources, catalog, options)?))
            }
            _ => Self::NvmInp(Box::new(NvmInp::create(resources, catalog, options)?)),
        })
    }

    pub(crate) fn open(
        kind: EngineKind,
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        options: &EngineOptions,
    ) -> Result<(Self, RecoveryReport)> {
        Ok(match kind {
            EngineKind::Inp => {
                let (engine, report) = Inp::open(resources, catalog, options)?;
                (Self::Inp(Box::new(engine)), report)
            }
            EngineKind::Cow => {
                let (engine, report) = Cow::open(resources, catalog, options)?;
                (Self::Cow(Box::new(engine)), report)
            }
            EngineKind::NvmCow => {
                let (engine, report) = NvmCow::open(resources, catalog, options)?;
                (Self::NvmCow(Box::new(engine)), report)
            }
            EngineKind::Log => {
                let (engine, report) = Log::open(resources, catalog, options)?;
                (Self::Log(Box::new(engine)), report)
            }
            EngineKind::NvmLog => {
                let (engine, report) = NvmLog::open(resources, catalog, options)?;
                (Self::NvmLog(Box::new(engine)), report)
            }
            _ => {
                let (engine, report) = NvmInp::open(resources, catalog, options)?;
                (Self::NvmInp(Box::new(engine)), report)
            }
        })
    }

    #[inline]
    pub(crate) fn insert(&mut self, table: u16, values: &[Value<'_>]) -> Result<()> {
        dispatch!(self, engine => engine.insert(table, values))
    }

    #[inline]
    pub(crate) fn update(
        &mut self,
        table: u16,
        key: &[Value<'_>],
        changes: &[(u16, Value<'_>)],
    ) -> Result<()> {
        dispatch!(self, engine => engine.update(table, key, changes))
    }

    #[inline]
    pub(crate) fn delete(&mut self, table: u16, key: &[Value<'_>]) -> Result<()> {
        dispatch!(self, engine => engine.delete(table, key))
    }

    #[inline]
    pub(crate) fn get(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: Option<&[u16]>,
        row: &mut Row,
    ) -> Result<bool> {
        dispatch!(self, engine => engine.get(table, key, columns, row))
    }

    #[inline]
    pub(crate) fn get_bytes(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: &[u16],
        out: &mut [u8],
    ) -> Result<Option<usize>> {
        dispatch!(self, engine => engine.get_bytes(table, key, columns, out))
    }

    pub(crate) fn scan(
        &self,
        table: u16,
        scan: &Scan<'_>,
        row: &mut Row,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<()> {
        dispatch!(self, engine => engine.scan(table, scan, row, visit))
    }

    #[inline]
    pub(crate) fn commit(&mut self) -> Result<(u64, bool)> {
        dispatch!(self, engine => engine.commit())
    }

    pub(crate) fn abort(&mut self) -> Result<()> {
        dispatch!(self, engine => engine.abort())
    }

    pub(crate) fn sync(&mut self) -> Result<()> {
        dispatch!(self, engine => engine.sync())
    }

    pub(crate) fn durable(&self) -> u64 {
        dispatch!(self, engine => engine.durable())
    }

    pub(crate) fn checkpoint(&mut self) -> Result<()> {
        dispatch!(self, engine => engine.checkpoint())
    }

    pub(crate) fn background(&mut self, budget: u64) -> Result<u64> {
        dispatch!(self, engine => engine.background(budget))
    }

    pub(crate) fn stats(&self) -> EngineStats {
        dispatch!(self, engine => engine.stats())
    }

    pub(crate) fn close(&mut self) -> Result<()> {
        dispatch!(self, engine => engine.close())
    }

    pub(crate) fn snapshot_source(&self) -> Option<Arc<dyn SnapshotSource>> {
        dispatch!(self, engine => engine.snapshot_source())
    }

    pub(crate) fn footprint(&self) -> Result<Footprint> {
        dispatch!(self, engine => engine.footprint())
    }

    pub(crate) fn check(&self, reachable: &mut dyn FnMut(u64)) -> Result<u64> {
        dispatch!(self, engine => engine.check(reachable))
    }
}
