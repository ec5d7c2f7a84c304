//! The one place where an engine is chosen at run time, and where the engines are compiled.
//!
//! Everything below is generic in the memories. Instantiated wherever it is used, every program,
//! test and example would compile all engines anew. So each environment's engines are compiled in
//! one place, which [`Engines`] leads to; those of the environment that ships in this crate.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use engines::below::{Catalog, Environment, Native};
use engines::{
    Begin, Engine, EngineError, EngineKind, EngineOptions, EngineTraits, Maker, RecoveryReport,
    Resources, Setup, TxId,
};

use crate::sharing::Syncs;
use crate::sticky_conflict::StickyConflict;

type Chosen = Box<dyn Engine>;
type Result<T> = std::result::Result<T, EngineError>;

/// The engines, compiled for the memories of an environment. A [`Media`](crate::Media) has those of
/// its environment, so that a database can be created and opened in any.
///
/// ```
/// # use perdura::*;
/// // Those of `Native` are compiled in this crate. A program with an environment of its own has
/// // `Engines::compiled_here` for it.
/// let engines: Engines<Native> = Engines::native();
/// # let _ = engines;
/// ```
pub struct Engines<E: Environment> {
    create: Create<E>,
    open: Open<E>,
}

type Create<E> = fn(&EngineOptions, Resources<E>, &Arc<Catalog>, &Setup) -> Result<Chosen>;
type Open<E> =
    fn(&EngineOptions, Resources<E>, &Arc<Catalog>, &Setup) -> Result<(Chosen, RecoveryReport)>;

impl<E: Environment> Engines<E> {
    /// All engines, which the compiler makes for `E` in the crate that calls this. That takes it a
    /// minute, so there is one call for an environment, in a function that is not inlined.
    pub fn compiled_here() -> Self {
        Self { create: engines::create, open: engines::open }
    }
}

impl Engines<Native> {
    /// The engines for the environment that ships, which this crate has.
    #[inline(never)]
    pub fn native() -> Self {
        Self::compiled_here()
    }
}

impl<E: Environment> Clone for Engines<E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E: Environment> Copy for Engines<E> {}

impl<E: Environment> fmt::Debug for Engines<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engines").finish_non_exhaustive()
    }
}

/// A partition under one of the engines.
pub(crate) struct AnyEngine<E> {
    engine: Chosen,
    /// A transaction has begun and not ended.
    open: bool,
    environment: PhantomData<fn() -> E>,
}

/// The source of the engine that a database is created or opened with.
pub(crate) enum EngineSource<'a, E: Environment> {
    /// An engine that this crate knows, what was chosen about it, and the engines of the environment.
    Known(&'a EngineOptions, Engines<E>),
    /// An engine of a test.
    OfTest(&'a dyn Maker<E>),
}

impl<E: Environment> Clone for EngineSource<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E: Environment> Copy for EngineSource<'_, E> {}

impl<E: Environment> EngineSource<'_, E> {
    /// The engine's name in the description of a database.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Known(options, _) => options.kind().name().into(),
            Self::OfTest(maker) => maker.name().into(),
        }
    }

    pub(crate) fn kind(self) -> Option<EngineKind> {
        match self {
            Self::Known(options, _) => Some(options.kind()),
            Self::OfTest(_) => None,
        }
    }

    pub(crate) fn traits(self) -> EngineTraits {
        match self {
            Self::Known(options, _) => options.kind().traits(),
            Self::OfTest(maker) => maker.traits(),
        }
    }
}

impl<E: Environment> AnyEngine<E> {
    pub(crate) fn create(
        source: EngineSource<'_, E>,
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        setup: &Setup,
    ) -> Result<Self> {
        let engine = match source {
            EngineSource::Known(options, engines) => {
                (engines.create)(options, resources, catalog, setup)?
            }
            EngineSource::OfTest(maker) => maker.create(resources, catalog, setup)?,
        };
        Ok(Self { engine, open: false, environment: PhantomData })
    }

    pub(crate) fn open(
        source: EngineSource<'_, E>,
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        setup: &Setup,
    ) -> Result<(Self, RecoveryReport)> {
        let (engine, report) = match source {
            EngineSource::Known(options, engines) => {
                (engines.open)(options, resources, catalog, setup)?
            }
            EngineSource::OfTest(maker) => maker.open(resources, catalog, setup)?,
        };
        Ok((Self { engine, open: false, environment: PhantomData }, report))
    }
}

impl<E> AnyEngine<E> {
    /// A session of an engine that runs many transactions at the same time.
    pub(crate) fn session(engine: Chosen) -> Self {
        let engine = Box::new(StickyConflict::new(engine));
        Self { engine, open: false, environment: PhantomData }
    }

    /// A session with a transaction open that a crash had cut off.
    pub(crate) fn resumed(engine: Chosen) -> Self {
        Self { open: true, ..Self::session(engine) }
    }

    /// A transaction begins in a session; it goes on after a crash if it has a name.
    pub(crate) fn begin_as(&mut self, how: &Begin, name: Option<&[u8]>) -> Result<()> {
        self.abort_open();
        // Whatever comes of it: an abort is never too much.
        self.open = true;
        match name {
            None => self.engine.begin(how),
            Some(name) => self.engine.begin_named(how, name),
        }
    }

    /// Detaches the open transaction, so that it can be continued.
    pub(crate) fn detach(&mut self) -> Result<TxId> {
        let id = self.engine.detach()?;
        self.open = false;
        Ok(id)
    }

    /// A transaction begins. One that was never dropped ([`std::mem::forget`]) is undone first.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.abort_open();
        self.open = true;
    }

    /// Marks the transaction as ended, or as about to end.
    #[inline]
    pub(crate) fn end(&mut self) {
        self.open = false;
    }

    /// Undoes the transaction that is open, if there is one.
    #[inline]
    pub(crate) fn abort_open(&mut self) {
        if self.open {
            self.undo_open();
        }
    }

    #[cold]
    fn undo_open(&mut self) {
        self.open = false;
        // An abort that fails stops the partition, which then refuses everything.
        let _ = self.engine.abort();
    }
}

impl<E> Syncs for AnyEngine<E> {
    fn sync(&mut self) -> Result<()> {
        self.engine.sync()
    }

    fn durable(&self) -> u64 {
        self.engine.durable()
    }
}

impl<E> Deref for AnyEngine<E> {
    type Target = dyn Engine;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &*self.engine
    }
}

impl<E> DerefMut for AnyEngine<E> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut *self.engine
    }
}

impl<E> fmt::Debug for AnyEngine<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyEngine").finish_non_exhaustive()
    }
}
