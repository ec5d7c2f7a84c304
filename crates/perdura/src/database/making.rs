//! Making a database on any medium: creating it, and opening it with recovery.

use std::cell::Cell;
use std::sync::Arc;

use engines::below::{
    Bad, Catalog, Description, Domain, Environment, Heap, HeapError, HeapOptions, Memory, Schema,
};
use engines::{DurableIn, EngineKind, EngineOptions, Maker, RecoveryReport, Resources, Setup};

use crate::any_engine::{AnyEngine, EngineSource};
use crate::error::Error;
use crate::host::EndsOf;
use crate::media::Media;
use crate::opening::{OpeningTimes, Stopwatch};
use crate::options::Options;
use crate::sessions::SessionPool;

use super::{Database, Identity};

impl<E: Environment> Database<E> {
    /// Creates a database on media that hold an empty pool.
    ///
    /// # Errors
    /// As [`Database::create`].
    pub fn create_on(media: Media<E>, schema: &Schema, options: &Options) -> Result<Self, Error> {
        options.check()?;
        // A medium that is given as it is stands for persistent memory.
        let engine = options.engine_options(options.kind_on(Domain::Adr))?;
        Self::create_as(EngineSource::Known(&engine, media.engines), media, schema, options)
    }

    /// [`Database::create_on`] with an engine that [`EngineKind`] does not have, for tests of the
    /// contract of engines. What the options say of the engine counts for nothing.
    ///
    /// # Errors
    /// As [`Database::create`].
    #[doc(hidden)]
    pub fn create_with(
        media: Media<E>,
        schema: &Schema,
        options: &Options,
        maker: &dyn Maker<E>,
    ) -> Result<Self, Error> {
        Self::create_as(EngineSource::OfTest(maker), media, schema, options)
    }

    pub(super) fn create_as(
        source: EngineSource<'_, E>,
        media: Media<E>,
        schema: &Schema,
        options: &Options,
    ) -> Result<Self, Error> {
        options.check_archive(source.traits())?;
        options.check_isolation(source.traits())?;
        let node_bytes = options.node_bytes(source);
        let catalog = Arc::new(Catalog::new(schema)?);
        let partitions = options.partitions.unwrap_or(1);
        // Where the data lie in files the pool holds only its description.
        let chunk_bytes = options.chunk_bytes.unwrap_or(match source.traits().durable_in {
            DurableIn::Files => 64 << 10,
            DurableIn::Pool | DurableIn::Both => 256 << 10,
        });
        let heap = Heap::format(
            media.durable.clone(),
            HeapOptions { chunk_bytes, lanes: partitions + 1 },
        )?;
        let setup = options.setup(partitions, node_bytes);
        let engines = (0..partitions)
            .map(|partition| {
                let resources = resources(&media, &heap, partition)?;
                Ok(AnyEngine::create(source, resources, &catalog, &setup)?)
            })
            .collect::<Result<Vec<_>, Error>>()?;
        let description =
            Description { engine: source.name(), node_bytes, partitions, schema: schema.clone() };
        description.write(&mut heap.lane(partitions))?;
        // A sync that failed meanwhile has no other way to say so.
        heap.memory().healthy()?;
        let mut database =
            Self::assemble(engines, catalog, heap, media.files, Identity::of(source), options);
        database.start_threads(options)?;
        Ok(database)
    }

    /// Opens the database that these media hold, and recovers it.
    ///
    /// # Errors
    /// As [`Database::open`].
    pub fn open_on(media: Media<E>, options: &Options) -> Result<Self, Error> {
        Self::open_checked(None, media, options, false, |_, _| Ok(None), &Cell::new(false))
    }

    /// [`Database::open_on`] of a database that [`Database::create_with`] has made with this
    /// engine.
    ///
    /// # Errors
    /// As [`Database::open`].
    #[doc(hidden)]
    pub fn open_with(
        media: Media<E>,
        options: &Options,
        maker: &dyn Maker<E>,
    ) -> Result<Self, Error> {
        Self::open_checked(Some(maker), media, options, false, |_, _| Ok(None), &Cell::new(false))
    }

    /// Opens the database, whether it was `closed` or not. `begin` is called when the options are
    /// known to fit, before any change that a clean pool would not need; it may add to the media
    /// what the engine needs, and returns where the partitions have to end. `changed` is set before
    /// anything is changed in files that had been closed.
    pub(super) fn open_checked(
        maker: Option<&dyn Maker<E>>,
        media: Media<E>,
        options: &Options,
        closed: bool,
        begin: impl FnOnce(&mut Media<E>, &Identity) -> Result<Option<EndsOf>, Error>,
        changed: &Cell<bool>,
    ) -> Result<Self, Error> {
        let memory = media.durable.clone();
        unless_failed(&memory, Self::recover(maker, media, options, closed, begin, changed))
    }

    pub(super) fn recover(
        maker: Option<&dyn Maker<E>>,
        mut media: Media<E>,
        options: &Options,
        closed: bool,
        begin: impl FnOnce(&mut Media<E>, &Identity) -> Result<Option<EndsOf>, Error>,
        changed: &Cell<bool>,
    ) -> Result<Self, Error> {
        let mut watch = Stopwatch::start();
        let (heap, description) = describe(&media)?;
        let known;
        let source = match maker {
            Some(maker) if maker.name() == description.engine => EngineSource::OfTest(maker),
            _ => {
                known = agreed_engine(&description, options, &media.name)?;
                EngineSource::Known(&known, media.engines)
            }
        };
        if let Some(wanted) = options.partitions
            && wanted != description.partitions
        {
            return Err(Error::WrongPartitions { found: description.partitions, wanted });
        }
        options.check_archive(source.traits())?;
        options.check_isolation(source.traits())?;
        let catalog = Arc::new(Catalog::new(&description.schema)?);
        let describe = watch.lap();
        let identity = Identity::of(source);
        let ends = begin(&mut media, &identity)?;
        let mark = watch.lap();
        let mut report = RecoveryReport::default();
        let mut engines = Vec::new();
        let setup = options.setup(description.partitions, description.node_bytes);
        let of_logs = ends.as_ref().map(EndsOf::of_logs).unwrap_or_default();
        let setup = Setup { closed, ends: of_logs, ..setup };
        for partition in 0..description.partitions {
            let resources = resources(&media, &heap, partition)?;
            let opened = AnyEngine::open(source, resources, &catalog, &setup);
            if let (Some(ends), Err(error)) = (&ends, &opened) {
                ends.check_failure(partition, error)?;
            }
            let (engine, done) = opened?;
            if let Some(ends) = &ends {
                ends.check(partition, engine.durable())?;
            }
            report += done;
            engines.push(engine);
        }
        heap.memory().healthy()?;
        for engine in &mut engines {
            let before = changed.replace(true);
            if !engine.catch_up()? {
                changed.set(before);
            }
        }
        heap.memory().healthy()?;
        // A failure from here on drops the database, which closes its partitions.
        changed.set(true);
        let times = OpeningTimes { describe, mark, recovery: watch.lap(), ..Default::default() };
        let mut database = Self::assemble(engines, catalog, heap, media.files, identity, options);
        database.report = report;
        database.opening = Some(times);
        database.sessions.iter().for_each(SessionPool::end_overdue);
        database.start_threads(options)?;
        Ok(database)
    }
}

impl<E: Environment> Database<E> {
    /// Returns the pool's description of the database.
    pub(crate) fn description(&self) -> Result<Description, Error> {
        let gone = Bad::Damaged { what: "database description", at: 0 };
        let read = || Ok(Description::read(&self.heap)?.ok_or(gone)?.0);
        unless_failed(self.heap.memory(), read())
    }
}

/// Returns what came of memory, unless the medium has failed: then zeroes were read of it, and what
/// was made of them is nonsense.
pub(crate) fn unless_failed<T>(memory: &impl Memory, done: Result<T, Error>) -> Result<T, Error> {
    match (done, memory.healthy()) {
        (Err(_), Err(failed)) => Err(failed.into()),
        (done, _) => done,
    }
}

/// The heap in a pool called `name`.
pub(crate) fn open_heap<M: Memory>(memory: M, name: &str) -> Result<Heap<M>, Error> {
    match Heap::open(memory) {
        Err(HeapError::Unformatted) => Err(Error::Unfinished { path: name.into() }),
        opened => Ok(opened?),
    }
}

/// The heap on media, and what it says of the database in it.
pub(crate) fn describe<E: Environment>(
    media: &Media<E>,
) -> Result<(Heap<E::Durable>, Description), Error> {
    unless_failed(&media.durable, described(media))
}

pub(super) fn described<E: Environment>(
    media: &Media<E>,
) -> Result<(Heap<E::Durable>, Description), Error> {
    let heap = open_heap(media.durable.clone(), &media.name)?;
    let Some((description, at)) = Description::read(&heap)? else {
        return Err(Error::Unfinished { path: media.name.clone() });
    };
    // One lane is that of the description itself.
    if description.partitions == 0 || description.partitions >= heap.lanes() {
        return Err(Error::Damaged(Bad::Damaged { what: "database description", at }));
    }
    Ok((heap, description))
}

pub(crate) fn resources<E: Environment>(
    media: &Media<E>,
    heap: &Heap<E::Durable>,
    partition: u32,
) -> Result<Resources<E>, Error> {
    let partitions = heap.lanes() - 1;
    let volatile = (media.volatile)(partition, partitions)
        .map_err(|source| Error::Io { path: "volatile memory".into(), source })?;
    Ok(Resources { partition, volatile, durable: heap.clone(), files: media.files.clone() })
}

/// The engine of a database that is there and what was chosen about it, if the options allow it.
pub(crate) fn agreed_engine(
    description: &Description,
    options: &Options,
    name: &str,
) -> Result<EngineOptions, Error> {
    let found = description.engine.parse::<EngineKind>().ok();
    match (found, &options.engine) {
        (Some(found), None) => options.engine_options(found),
        (Some(found), Some(wanted)) if wanted.allows(found) => options.engine_options(found),
        (_, wanted) => Err(Error::WrongEngine {
            path: name.into(),
            found: description.engine.clone(),
            wanted: wanted.as_ref().map_or("one that this build has".into(), ToString::to_string),
        }),
    }
}
