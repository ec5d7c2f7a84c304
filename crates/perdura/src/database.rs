//! A database: a pool, its partitions, and who may use them when.

mod brought;
mod closing;
mod continued;
mod partition;
mod upkeep;

use std::cell::Cell;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use engines::below::{
    Access, Bad, Catalog, Counters, Description, Domain, Environment, Files, Heap, HeapError,
    HeapOptions, HostFiles, Memory, Named, Native, Pairing, Place, Pool, PoolError, PoolInfo, Row,
    Schema, Value, stamp_of,
};
use engines::{
    Concurrency, DurableIn, EngineKind, EngineOptions, EngineTraits, Maker, RecoveryReport,
    Resources, Setup, SnapshotSource,
};

use crate::any_engine::{AnyEngine, Hosted, Which};
use crate::background::Worker;
use crate::closer::Closer;
use crate::columns::ColumnRef;
use crate::error::Error;
use crate::host::{EndsOf, FILES, Host, Paired, files_of, mark_open, place_of, take_mark_back};
use crate::media::Media;
use crate::opening::{OpeningTimes, Stopwatch};
use crate::options::{Background, Commit, Options, WriteOptions};
use crate::sessions::{SessionPool, Still};
use crate::snapshot::Snapshot;
use crate::table::Table;
use crate::transaction::{Call, ReadTx, Ticket, Tx};
use crate::turns::{CopyGuard, Turns};

pub use partition::{Exclusive, Partition};

/// An open database. Shared between threads by reference or in an `Arc`; dropping it closes it.
///
/// ```
/// # use perdura::*;
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("words");
/// # let word = TableSchema::new("word")
/// #     .column("word", ColumnType::Text { max: 40 })
/// #     .column("count", ColumnType::U32)
/// #     .key(&["word"]);
/// # let schema = Schema::new().table(word);
/// let db: Database = Database::create(&path, &schema, &Options::new())?;
/// let word = db.table("word")?;
/// db.write(|tx| tx.insert(&word, &[Value::from("perdura"), Value::from(1)]))?;
/// assert!(db.get(&word, &[Value::from("perdura")])?.is_some());
/// db.close()?; // dropping it does so, too, but cannot tell of errors
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct Database<E: Environment = Native> {
    pub(crate) partitions: Arc<[Turns<AnyEngine<E>>]>,
    worker: Option<Worker>,
    closer: Option<Closer>,
    /// Takes snapshots of each partition without its lock, in engines that can do so.
    pub(crate) snapshots: Vec<Option<Arc<dyn SnapshotSource>>>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) heap: Heap<E::Durable>,
    files: Option<E::Files>,
    /// The sessions of each partition, in an engine that runs many transactions at the same time;
    /// else none.
    sessions: Vec<SessionPool<E>>,
    engine: Identity,
    retry_for: Duration,
    report: RecoveryReport,
    opening: Option<OpeningTimes>,
    /// `None` on other media.
    host: Option<Host>,
    closed: bool,
}

/// The engine of a database, and its traits.
#[derive(Debug)]
struct Identity {
    name: String,
    /// None if a test has brought it along.
    kind: Option<EngineKind>,
    traits: EngineTraits,
}

impl Identity {
    fn of<E: Environment>(which: Which<'_, E>) -> Self {
        Self { name: which.name(), kind: which.kind(), traits: which.traits() }
    }
}

/// A partition that somebody reads for long, with no transaction open in it.
#[derive(Debug)]
pub(crate) struct Copying<'a, E: Environment> {
    engine: CopyGuard<'a, AnyEngine<E>>,
    _still: Option<Still<'a, E>>,
}

impl<E: Environment> Deref for Copying<'_, E> {
    type Target = AnyEngine<E>;

    fn deref(&self) -> &AnyEngine<E> {
        &self.engine
    }
}

impl Database<Native> {
    /// Creates a database in a new pool file at `path`. An engine that keeps files has them in a
    /// directory beside it, `<path>.files`.
    ///
    /// # Errors
    /// The schema or the options make no sense, there is something at `path`, or no room. Nothing
    /// is left behind then.
    pub fn create(
        path: impl AsRef<Path>,
        schema: &Schema,
        options: &Options,
    ) -> Result<Self, Error> {
        Self::create_at(&place_of(path.as_ref())?, schema, options)
    }

    pub(crate) fn create_at(
        place: &Place,
        schema: &Schema,
        options: &Options,
    ) -> Result<Self, Error> {
        options.check()?;
        let catalog = Catalog::new(schema)?;
        let partitions = options.partitions.unwrap_or(1);
        if partitions == 0 || partitions > 256 {
            return Err(Error::Options(format!("{partitions} partitions; choose 1 to 256")));
        }
        let mut pool_options = options.pool.clone();
        pool_options.initial_bytes =
            options.initial_bytes.unwrap_or(64 << 10).min(pool_options.limit_bytes);
        let pool = Pool::create_at(place, &pool_options)?;
        let made = Self::create_in(pool.clone(), &catalog.schema, options);
        made.inspect_err(|_| {
            // It was made by this call.
            let _ = pool.discard();
        })
    }

    fn create_in(pool: Pool, schema: &Schema, options: &Options) -> Result<Self, Error> {
        let natural = pool.info().medium.natural;
        let kind = options.kind().unwrap_or(match natural {
            Domain::Disk => EngineKind::Inp,
            Domain::Process | Domain::Adr | Domain::Eadr => EngineKind::NvmInp,
        });
        let engine = options.engine_options(kind)?;
        let header = pool.info().header;
        let files_at = pool.place().beside(FILES);
        let path = files_at.path().display().to_string();
        let files = kind
            .traits()
            .needs_files()
            .then(|| HostFiles::create_at(files_at, header.domain, header.modelled))
            .transpose()
            .map_err(|source| Error::Io { path: path.clone(), source })?;
        let mut pairing = None;
        let mut create = || {
            let mut media = Media::native(pool.clone());
            if let Some(files) = &files {
                files.lock()?;
                files.set_stamp(stamp_of(header.uuid));
                let marked = Pairing::create(files, header.uuid);
                let error = |source| Error::Io { path: path.clone(), source };
                pairing = Some(marked.map_err(error)?);
                media.attach(files.clone(), options.volatile_bytes);
            }
            Self::create_as(Which::Known(&engine), media, schema, options)
        };
        let mut database = create().inspect_err(|_| {
            // They were made by this call.
            if let Some(files) = &files {
                let _ = files.discard();
            }
        })?;
        database.host = Some(Host { pool, files, pairing });
        Ok(database)
    }

    /// Opens the database in the pool file at `path` and recovers it.
    ///
    /// # Errors
    /// There is none, it is damaged, in use, or contradicts the options; the error says what to
    /// do. The pool is unchanged then.
    pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<Self, Error> {
        let path = path.as_ref();
        let place = Place::find(path).map_err(|source| PoolError::Io {
            path: path.into(),
            doing: "find the pool",
            source,
        })?;
        Self::open_at(&place, options)
    }

    pub(crate) fn open_at(place: &Place, options: &Options) -> Result<Self, Error> {
        options.check()?;
        let mut watch = Stopwatch::start();
        let pool = Pool::open_at(place, &options.pool, Access::ReadWrite)?;
        let header = pool.info().header;
        let media = Media::native(pool.clone());
        let map = watch.lap();
        let (mut paired, marked) = (None, Cell::new(false));
        let begin = |media: &mut Media<Native>, engine: &Identity| {
            if engine.traits.needs_files() {
                let own = paired.insert(Paired::of(&pool, files_of(&pool, &engine.name)?)?);
                media.attach(own.files.clone(), options.volatile_bytes);
            }
            mark_open(&pool, paired.as_mut(), &options.pool, &marked)?;
            Ok(paired.as_ref().map(|paired| paired.ends.clone()))
        };
        let changed = Cell::new(false);
        let opened = Self::open_checked(None, media, options, header.clean, begin, &changed);
        if opened.is_err() && header.clean && marked.get() && !changed.get() {
            // A partition was refused, for a damaged file perhaps: what was closed stays closed.
            // Where that fails too the pool stays marked as open, which is safe.
            let _ = take_mark_back(&pool, paired.as_mut());
        }
        let mut database = opened?;
        database.opening = database.opening.map(|times| OpeningTimes { map, ..times });
        let (files, pairing) = paired.map(|paired| (paired.files, paired.pairing)).unzip();
        database.host = Some(Host { pool, files, pairing });
        Ok(database)
    }

    /// Opens the database at `path`, or creates it with this schema if there is none.
    ///
    /// # Errors
    /// As [`Database::open`] and [`Database::create`]; [`Error::WrongSchema`] if there is one with
    /// another schema.
    pub fn open_or_create(
        path: impl AsRef<Path>,
        schema: &Schema,
        options: &Options,
    ) -> Result<Self, Error> {
        let path = path.as_ref();
        let place = place_of(path)?;
        let io = |source| Error::Io { path: path.display().to_string(), source };
        if !place.is_taken().map_err(io)? {
            return Self::create_at(&place, schema, options);
        }
        let database = Self::open(path, options)?;
        if let Some(differs) = database.catalog.schema.difference(&schema.normalized()) {
            return Err(Error::WrongSchema { differs });
        }
        Ok(database)
    }

    /// The pool and the files by their names.
    pub(crate) fn named(&self) -> Result<(Named, Option<Named>), Error> {
        let host = self.host.as_ref().expect("a native database has a pool");
        let io = |source| Error::Io { path: host.pool.info().path.display().to_string(), source };
        let files = host.files.as_ref().map(|files| files.named().map_err(io)).transpose()?;
        Ok((host.pool.named().map_err(io)?, files.flatten()))
    }

    /// Returns what is known of the pool.
    ///
    /// # Panics
    /// Never: a native database has a pool.
    pub fn pool_info(&self) -> &PoolInfo {
        self.host.as_ref().expect("a native database has a pool").pool.info()
    }

    /// Starts or stops counting flushes, fences, and file operations. While off, counting costs
    /// nothing.
    pub fn count(&self, on: bool) {
        if let Some(host) = &self.host {
            host.pool.count(on);
        }
        if let Some(files) = &self.files {
            files.count(on);
        }
    }

    /// Returns what was counted so far.
    pub fn counters(&self) -> Counters {
        let pool = self.host.as_ref().map(|host| host.pool.counters()).unwrap_or_default();
        pool + self.files.as_ref().map(Files::counters).unwrap_or_default()
    }

    /// Bytes that the pool and the files take on their medium.
    ///
    /// # Errors
    /// The kernel would not say.
    pub fn stored_bytes(&self) -> Result<u64, Error> {
        let error =
            |source| Error::Io { path: self.pool_info().path.display().to_string(), source };
        let pool = self.host.as_ref().map_or(Ok(0), |host| host.pool.stored_bytes());
        let pool = pool.map_err(error)?;
        let files = self.files.as_ref().map_or(Ok(0), HostFiles::stored_bytes).map_err(error)?;
        Ok(pool + files)
    }
}

impl<E: Hosted> Database<E> {
    /// Creates a database on media that hold an empty pool.
    ///
    /// # Errors
    /// As [`Database::create`].
    pub fn create_on(media: Media<E>, schema: &Schema, options: &Options) -> Result<Self, Error> {
        options.check()?;
        let engine = options.engine_options(options.kind().unwrap_or(EngineKind::NvmInp))?;
        Self::create_as(Which::Known(&engine), media, schema, options)
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
        Self::create_as(Which::Brought(maker), media, schema, options)
    }

    fn create_as(
        which: Which<'_, E>,
        media: Media<E>,
        schema: &Schema,
        options: &Options,
    ) -> Result<Self, Error> {
        let node_bytes = options.node_bytes(which);
        let catalog = Arc::new(Catalog::new(schema)?);
        let partitions = options.partitions.unwrap_or(1);
        // Where the data lie in files the pool holds only its description.
        let chunk_bytes = options.chunk_bytes.unwrap_or(match which.traits().durable_in {
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
                Ok(AnyEngine::create(which, resources, &catalog, &setup)?)
            })
            .collect::<Result<Vec<_>, Error>>()?;
        let description =
            Description { engine: which.name(), node_bytes, partitions, schema: schema.clone() };
        description.write(&mut heap.lane(partitions))?;
        // A sync that failed meanwhile has no other way to say so.
        heap.memory().healthy()?;
        let mut database = Self::assemble(
            engines,
            catalog,
            heap,
            media.files,
            Identity::of(which),
            options.retry_for,
        );
        database.start_threads(options)?;
        Ok(database)
    }

    /// Opens the database that media hold, and recovers it.
    ///
    /// # Errors
    /// As [`Database::open`].
    pub fn open_on(media: Media<E>, options: &Options) -> Result<Self, Error> {
        Self::open_checked(None, media, options, false, |_, _| Ok(None), &Cell::new(false))
    }

    /// [`Database::open_on`] of a database that [`Database::create_with`] has made with this engine.
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

    /// Opens the database, which was `closed` or not; `begin` is called when it is clear that the
    /// options fit, before anything is changed that a clean pool would not need changed, and may add
    /// to the media what the engine needs. `changed` is
    /// set before anything is changed in files that had been closed. What `begin` returns says where the
    /// partitions have to end.
    fn open_checked(
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

    fn recover(
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
        let which = match maker {
            Some(maker) if maker.name() == description.engine => Which::Brought(maker),
            _ => {
                known = agreed_engine(&description, options, &media.name)?;
                Which::Known(&known)
            }
        };
        if let Some(wanted) = options.partitions
            && wanted != description.partitions
        {
            return Err(Error::WrongPartitions { found: description.partitions, wanted });
        }
        let catalog = Arc::new(Catalog::new(&description.schema)?);
        let describe = watch.lap();
        let identity = Identity::of(which);
        let ends = begin(&mut media, &identity)?;
        let mark = watch.lap();
        let mut report = RecoveryReport::default();
        let mut engines = Vec::new();
        let setup = options.setup(description.partitions, description.node_bytes);
        let of_logs = ends.as_ref().map(EndsOf::of_logs).unwrap_or_default();
        let setup = Setup { closed, ends: of_logs, ..setup };
        for partition in 0..description.partitions {
            let resources = resources(&media, &heap, partition)?;
            let opened = AnyEngine::open(which, resources, &catalog, &setup);
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
        // Whoever fails from here on has closed partitions already.
        changed.set(true);
        let times = OpeningTimes { describe, mark, recovery: watch.lap(), ..Default::default() };
        let mut database =
            Self::assemble(engines, catalog, heap, media.files, identity, options.retry_for);
        database.report = report;
        database.opening = Some(times);
        database.start_threads(options)?;
        Ok(database)
    }
}

impl<E: Environment> Database<E> {
    fn assemble(
        engines: Vec<AnyEngine<E>>,
        catalog: Arc<Catalog>,
        heap: Heap<E::Durable>,
        files: Option<E::Files>,
        engine: Identity,
        retry_for: Duration,
    ) -> Self {
        let snapshots = engines.iter().map(|engine| engine.snapshot_source()).collect();
        let sessions = match engine.traits.concurrency {
            Concurrency::Serial => Vec::new(),
            Concurrency::Shared => {
                let source =
                    |root: &AnyEngine<E>| root.sessions().expect("a shared engine has sessions");
                engines.iter().map(|root| SessionPool::new(source(root))).collect()
            }
        };
        let turns = |engine: AnyEngine<E>| {
            let syncer = engine.syncer();
            Turns::new(engine, retry_for, syncer)
        };
        let partitions = engines.into_iter().map(turns).collect();
        Self {
            partitions,
            worker: None,
            closer: None,
            snapshots,
            catalog,
            heap,
            files,
            sessions,
            engine,
            retry_for,
            report: RecoveryReport::default(),
            opening: None,
            host: None,
            closed: false,
        }
    }

    fn start_threads(&mut self, options: &Options) -> Result<(), Error> {
        let mut puts_off = false;
        for number in 0..self.partitions.len() {
            puts_off |= self.partition(number).read_lock()?.puts_off_work();
        }
        if options.background == Background::Thread && puts_off {
            self.worker = Some(Worker::start(&self.partitions)?);
        }
        if let Commit::Grouped { within: Some(within), .. } = options.commit
            && self.engine.kind.is_none_or(EngineKind::groups_commits)
        {
            self.closer = Some(Closer::start(&self.partitions, within)?);
        }
        Ok(())
    }

    #[inline]
    fn call(&self, partition: usize) -> Option<Call<'_, E>> {
        if self.worker.is_none() && self.closer.is_none() {
            return None;
        }
        let bell = self.worker.as_ref().map(|worker| &*worker.bell);
        let alarms = self.closer.as_ref().map(|closer| &*closer.alarms);
        Some(Call { bell, alarms, turns: &self.partitions[partition] })
    }

    /// Returns the error that the thread in the background ran into, if any.
    fn background_error(&self) -> Result<(), Error> {
        self.worker.as_ref().map_or(Ok(()), Worker::take_error)
    }

    /// The engine.
    ///
    /// # Panics
    /// A test has brought an engine of its own along.
    pub fn engine(&self) -> EngineKind {
        self.engine.kind.expect("one of the engines of this crate")
    }

    /// The engine's properties: where its data is durable, its concurrency and isolation, and the
    /// like.
    pub fn traits(&self) -> EngineTraits {
        self.engine.traits
    }

    /// The schema.
    pub fn schema(&self) -> &Schema {
        &self.catalog.schema
    }

    /// Returns what opening had to recover.
    pub fn recovery_report(&self) -> RecoveryReport {
        self.report
    }

    /// Returns how long each part of opening took; `None` for a database that this handle created.
    pub fn opening_times(&self) -> Option<OpeningTimes> {
        self.opening
    }

    /// The table `name`.
    ///
    /// # Errors
    /// [`Error::NoTable`].
    pub fn table(&self, name: &str) -> Result<Table, Error> {
        Table::find(&self.catalog, name)
    }

    /// Returns the number of partitions.
    pub fn partition_count(&self) -> usize {
        self.partitions.len()
    }

    /// Partition `number`.
    ///
    /// # Errors
    /// [`Error::NoPartition`].
    #[inline]
    pub fn try_partition(&self, number: usize) -> Result<Partition<'_, E>, Error> {
        if number >= self.partitions.len() {
            return Err(Error::NoPartition { number, partitions: self.partitions.len() });
        }
        Ok(Partition { database: self, number })
    }

    /// Partition `number`.
    ///
    /// # Panics
    /// There is no such partition.
    #[inline]
    pub fn partition(&self, number: usize) -> Partition<'_, E> {
        assert!(number < self.partitions.len(), "there is no partition {number}");
        Partition { database: self, number }
    }

    fn only_partition(&self) -> Result<Partition<'_, E>, Error> {
        match self.partitions.len() {
            1 => Ok(Partition { database: self, number: 0 }),
            partitions => Err(Error::PartitionNeeded { partitions }),
        }
    }

    /// Runs `work` as a transaction and commits it, durably unless commits are grouped. If `work`
    /// returns an error or panics, nothing of it is left.
    ///
    /// In an engine that runs many transactions at the same time ([`EngineTraits::concurrency`]) it
    /// may be run several times, until it comes into nobody's way or [`Options::retry_for`] has
    /// passed: what `work` does beside the transaction happens as often.
    ///
    /// # Errors
    /// What `work` returned, a failed commit, [`Error::Conflict`], or [`Error::PartitionNeeded`].
    #[inline]
    pub fn write<R>(
        &self,
        work: impl FnMut(&mut Tx<'_, E>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.only_partition()?.write(work)
    }

    /// Works as [`Database::write`], with an error type of the application's own: the closure's,
    /// which has to be named (`docs/decisions/0026-own-errors.md` says why). A conflict is
    /// recognised and the transaction run again whatever the closure makes of it; when the time is
    /// over the conflict is returned, as this type.
    ///
    /// ```
    /// # use perdura::*;
    /// #[derive(Debug)]
    /// enum Refused {
    ///     TooLittle { left: i64 },
    ///     Database(Error),
    /// }
    ///
    /// impl From<Error> for Refused {
    ///     fn from(error: Error) -> Self {
    ///         Self::Database(error)
    ///     }
    /// }
    ///
    /// fn draw(db: &Database, account: &Table, id: u64, cents: i64) -> Result<i64, Refused> {
    ///     db.write_or(|tx| -> Result<i64, Refused> {
    ///         let key = [Value::from(id)];
    ///         let row = tx.get(account, &key)?;
    ///         let balance = row.map_or(0, |row| row.i64(2));
    ///         if balance < cents {
    ///             return Err(Refused::TooLittle { left: balance });
    ///         }
    ///         tx.update(account, &key, &[("balance", Value::from(balance - cents))])?;
    ///         Ok(balance - cents)
    ///     })
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`Database::write`].
    #[inline]
    pub fn write_or<R, X: From<Error>>(
        &self,
        work: impl FnMut(&mut Tx<'_, E>) -> Result<R, X>,
    ) -> Result<R, X> {
        self.only_partition()?.write_or(work)
    }

    /// Works as [`Database::write_or`], with options of its own.
    ///
    /// # Errors
    /// As [`Database::write`]; [`Error::Busy`], [`Error::Unsupported`].
    pub fn write_with<R, X: From<Error>>(
        &self,
        options: WriteOptions,
        work: impl FnMut(&mut Tx<'_, E>) -> Result<R, X>,
    ) -> Result<R, X> {
        self.only_partition()?.write_with(options, work)
    }

    /// Updates columns, by number or name, of the tuple with this primary key: a transaction of one
    /// statement, as [`Tx::update_and_commit`]; durable unless commits are grouped.
    ///
    /// # Errors
    /// As [`Tx::update`] and [`Tx::commit`]; [`Error::PartitionNeeded`].
    #[inline]
    pub fn update<C: ColumnRef>(
        &self,
        table: &Table,
        key: &[Value<'_>],
        changes: &[(C, Value<'_>)],
    ) -> Result<(), Error> {
        self.only_partition()?.update(table, key, changes)
    }

    /// Runs `work` as a transaction that only reads; several times perhaps, as [`Database::write`]. It
    /// sees every transaction that was committed before it began. In `cow` and `nvm-cow` it reads a
    /// snapshot, and neither waits for a writer nor keeps one waiting; in the other engines it waits
    /// for the transaction that is open.
    ///
    /// # Errors
    /// What `work` returned, [`Error::Conflict`], or [`Error::PartitionNeeded`]; the partition has
    /// stopped, or the medium has failed.
    #[inline]
    pub fn read<R>(
        &self,
        work: impl FnMut(&ReadTx<'_, E>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.only_partition()?.read(work)
    }

    /// Works as [`Database::read`], with an error type of the application's own, as
    /// [`Database::write_or`] does.
    ///
    /// # Errors
    /// As [`Database::read`].
    #[inline]
    pub fn read_or<R, X: From<Error>>(
        &self,
        work: impl FnMut(&ReadTx<'_, E>) -> Result<R, X>,
    ) -> Result<R, X> {
        self.only_partition()?.read_or(work)
    }

    /// Returns the tuple with this primary key, if there is one: a transaction that only reads, of one
    /// statement.
    ///
    /// # Errors
    /// As [`Tx::get`] and [`Database::read`].
    pub fn get(&self, table: &Table, key: &[Value<'_>]) -> Result<Option<Row>, Error> {
        self.only_partition()?.get(table, key)
    }

    /// Takes a snapshot of what is committed, in the engines with copy-on-write (`cow`,
    /// `nvm-cow`). Neither taking nor reading it waits for a transaction.
    ///
    /// # Errors
    /// [`Error::NoSnapshots`], [`Error::PartitionNeeded`].
    pub fn snapshot(&self) -> Result<Snapshot, Error> {
        self.only_partition()?.snapshot()
    }

    /// Begins a transaction.
    ///
    /// # Errors
    /// [`Error::PartitionNeeded`].
    pub fn begin(&self) -> Result<Tx<'_, E>, Error> {
        self.only_partition()?.begin()
    }

    /// Works as [`Database::begin`], but waits for a partition that is taken no longer than `wait`.
    ///
    /// # Errors
    /// [`Error::Busy`], which says by whom; [`Error::PartitionNeeded`].
    pub fn try_begin(&self, wait: Duration) -> Result<Tx<'_, E>, Error> {
        self.only_partition()?.try_begin(wait)
    }

    /// Returns when the ticket's transaction is durable.
    ///
    /// # Errors
    /// The medium failed; or, if it is not durable yet, [`Error::Nested`].
    pub fn wait(&self, ticket: Ticket) -> Result<(), Error> {
        if self.durable(ticket)? {
            return Ok(());
        }
        Ok(self.try_partition(ticket.partition)?.write_lock()?.sync()?)
    }

    /// Returns true if the ticket's transaction is durable.
    ///
    /// # Errors
    /// [`Error::Nested`], in a transaction of the ticket's partition.
    pub fn durable(&self, ticket: Ticket) -> Result<bool, Error> {
        let partition = self.try_partition(ticket.partition)?;
        Ok(ticket.durable || partition.read_lock()?.is_durable(ticket.number))
    }

    /// Returns true if the engine runs many transactions at the same time.
    #[inline]
    fn is_shared(&self) -> bool {
        !self.sessions.is_empty()
    }

    pub(crate) fn heap(&self) -> &Heap<E::Durable> {
        &self.heap
    }

    pub(crate) fn catalog(&self) -> &Catalog {
        &self.catalog
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

fn described<E: Environment>(media: &Media<E>) -> Result<(Heap<E::Durable>, Description), Error> {
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
    match (found, options.kind()) {
        (Some(found), None) => options.engine_options(found),
        (Some(found), Some(wanted)) if found == wanted => options.engine_options(found),
        (_, wanted) => Err(Error::WrongEngine {
            path: name.into(),
            found: description.engine.clone(),
            wanted: wanted.map_or("one that this build has".into(), |kind| kind.to_string()),
        }),
    }
}
