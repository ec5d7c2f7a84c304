//! The one place where an engine is chosen at run time, and where the engines are compiled.
//!
//! Everything below is generic in the memories. Instantiated wherever it is used, every program,
//! test and example would compile all engines anew; so this crate does it once, behind the one
//! virtual call that choosing an engine costs anyway.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use engines::below::{Catalog, Emulation, Environment, Native, Recorded, Tracing};
use engines::{
    Begin, Engine, EngineError, EngineKind, EngineOptions, EngineTraits, Maker, RecoveryReport,
    Resources, Setup, TxId,
};

use crate::doomed::Doomable;
use crate::sharing::Syncs;

type Chosen = Box<dyn Engine>;
type Result<T> = std::result::Result<T, EngineError>;

mod sealed {
    pub trait Sealed {}
}

/// An environment that databases can be created and opened in.
///
/// ```
/// # use perdura::*;
/// fn create<E: Hosted>(media: Media<E>, schema: &Schema) -> Result<Database<E>, Error> {
///     Database::create_on(media, schema, &Options::new())
/// }
/// let memory = recording::Recording::pool(1 << 20, 1 << 26).map_err(Error::user)?;
/// let media = Media::recorded(memory, recording::RecordingFiles::new());
/// let table = TableSchema::new("t").column("id", ColumnType::U64).key(&["id"]);
/// assert_eq!(create(media, &Schema::new().table(table))?.check()?.tuples, 0);
/// # Ok::<(), Error>(())
/// ```
pub trait Hosted: Environment + sealed::Sealed {
    /// Creates an empty partition.
    ///
    /// # Errors
    /// As [`engines::Method::create`].
    #[doc(hidden)]
    fn create(
        options: &EngineOptions,
        resources: Resources<Self>,
        catalog: &Arc<Catalog>,
        setup: &Setup,
    ) -> Result<Chosen>;

    /// Opens a partition.
    ///
    /// # Errors
    /// As [`engines::Method::open`].
    #[doc(hidden)]
    fn open(
        options: &EngineOptions,
        resources: Resources<Self>,
        catalog: &Arc<Catalog>,
        setup: &Setup,
    ) -> Result<(Chosen, RecoveryReport)>;
}

macro_rules! hosted {
    ($environment:ty $(, #[$($inline:tt)*])?) => {
        impl sealed::Sealed for $environment {}
        impl Hosted for $environment {
            $(#[$($inline)*])?
            fn create(
                options: &EngineOptions,
                resources: Resources<Self>,
                catalog: &Arc<Catalog>,
                setup: &Setup,
            ) -> Result<Chosen> {
                engines::create(options, resources, catalog, setup)
            }

            $(#[$($inline)*])?
            fn open(
                options: &EngineOptions,
                resources: Resources<Self>,
                catalog: &Arc<Catalog>,
                setup: &Setup,
            ) -> Result<(Chosen, RecoveryReport)> {
                engines::open(options, resources, catalog, setup)
            }
        }
    };
}

hosted!(Native);
// Tests, the examiner and the laboratory use these. What `#[inline]` marks is compiled where it is
// used, so that applications do without; the feature is for programs that would do that often.
hosted!(Recorded, #[cfg_attr(any(test, not(feature = "instruments")), inline)]);
hosted!(Emulation, #[cfg_attr(any(test, not(feature = "instruments")), inline)]);
hosted!(Tracing, #[inline]);

/// A partition under one of the engines.
pub(crate) struct AnyEngine<E> {
    engine: Chosen,
    /// A transaction has begun and not ended.
    open: bool,
    environment: PhantomData<fn() -> E>,
}

/// An engine as a database is created or opened with it.
pub(crate) enum Which<'a, E: Environment> {
    /// One that this crate knows, and what was chosen about it.
    Known(&'a EngineOptions),
    /// One that a test brings along.
    Brought(&'a dyn Maker<E>),
}

impl<E: Environment> Clone for Which<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E: Environment> Copy for Which<'_, E> {}

impl<E: Environment> Which<'_, E> {
    /// The engine's name in the description of a database.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Known(options) => options.kind().name().into(),
            Self::Brought(maker) => maker.name().into(),
        }
    }

    pub(crate) fn kind(self) -> Option<EngineKind> {
        match self {
            Self::Known(options) => Some(options.kind()),
            Self::Brought(_) => None,
        }
    }

    pub(crate) fn traits(self) -> EngineTraits {
        match self {
            Self::Known(options) => options.kind().traits(),
            Self::Brought(maker) => maker.traits(),
        }
    }
}

impl<E: Hosted> AnyEngine<E> {
    pub(crate) fn create(
        which: Which<'_, E>,
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        setup: &Setup,
    ) -> Result<Self> {
        let engine = match which {
            Which::Known(options) => <E as Hosted>::create(options, resources, catalog, setup)?,
            Which::Brought(maker) => maker.create(resources, catalog, setup)?,
        };
        Ok(Self { engine, open: false, environment: PhantomData })
    }

    pub(crate) fn open(
        which: Which<'_, E>,
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        setup: &Setup,
    ) -> Result<(Self, RecoveryReport)> {
        let (engine, report) = match which {
            Which::Known(options) => <E as Hosted>::open(options, resources, catalog, setup)?,
            Which::Brought(maker) => maker.open(resources, catalog, setup)?,
        };
        Ok((Self { engine, open: false, environment: PhantomData }, report))
    }
}

impl<E> AnyEngine<E> {
    /// A session of an engine that runs many transactions at the same time.
    pub(crate) fn session(engine: Chosen) -> Self {
        let engine = Box::new(Doomable::new(engine));
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

    /// Leaves the transaction that is open to whoever continues it.
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
