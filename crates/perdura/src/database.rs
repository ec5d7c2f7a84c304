//! A database: a pool and its partitions, and when a thread may use which of them.

mod closing;
mod continued;
mod making;
mod native;
mod of_test;
mod partition;
mod upkeep;

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use engines::below::{Catalog, Environment, Heap, Native, Row, Schema, Value};
use engines::{
    Concurrency, EngineKind, EngineTraits, Isolation, RecoveryReport, SnapshotSource, VersionSource,
};

use crate::any_engine::{AnyEngine, EngineSource};
use crate::background::Worker;
use crate::closer::Closer;
use crate::columns::ColumnRef;
use crate::error::Error;
use crate::host::Host;
use crate::opening::OpeningTimes;
use crate::options::{Background, Commit, Options, WriteOptions};
use crate::partition_lock::{CopyGuard, PartitionLock};
use crate::sessions::{SessionPool, Still};
use crate::snapshot::Snapshot;
use crate::table::Table;
use crate::transaction::{Call, ReadTx, Ticket, Tx};

pub(crate) use making::{agreed_engine, describe, open_heap, resources, unless_failed};
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
/// db.close()?; // dropping it does so, too, but returns no error
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct Database<E: Environment = Native> {
    pub(crate) partitions: Arc<[PartitionLock<AnyEngine<E>>]>,
    worker: Option<Worker>,
    closer: Option<Closer>,
    /// Takes snapshots of each partition without its lock, in engines that can do so.
    pub(crate) snapshots: Vec<Option<Arc<dyn SnapshotSource>>>,
    /// For reads without locks, in engines with locks that have such reads.
    pub(crate) unlocked: Vec<Option<Arc<dyn VersionSource>>>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) heap: Heap<E::Durable>,
    files: Option<E::Files>,
    /// The sessions of each partition, in an engine that runs many transactions at the same time;
    /// else none.
    sessions: Vec<SessionPool<E>>,
    engine: Identity,
    retry_for: Duration,
    /// The isolation of a transaction that asks for none.
    isolation: Isolation,
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
    /// The kind of the engine; `None` for an engine of a test.
    kind: Option<EngineKind>,
    traits: EngineTraits,
}

impl Identity {
    fn of<E: Environment>(source: EngineSource<'_, E>) -> Self {
        Self { name: source.name(), kind: source.kind(), traits: source.traits() }
    }
}

/// A partition that is held for a long read, with no transaction open in it.
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

impl<E: Environment> Database<E> {
    fn assemble(
        engines: Vec<AnyEngine<E>>,
        catalog: Arc<Catalog>,
        heap: Heap<E::Durable>,
        files: Option<E::Files>,
        engine: Identity,
        options: &Options,
    ) -> Self {
        let Options { retry_for, isolation, resume_within, .. } = *options;
        let isolation = isolation.unwrap_or(engine.traits.usual_isolation);
        let snapshots = engines.iter().map(|engine| engine.snapshot_source()).collect();
        let unlocked = engines.iter().map(|engine| engine.unlocked_source()).collect();
        let sessions = match engine.traits.concurrency {
            Concurrency::Serial => Vec::new(),
            Concurrency::Shared => {
                let source =
                    |root: &AnyEngine<E>| root.sessions().expect("a shared engine has sessions");
                engines.iter().map(|root| SessionPool::new(source(root), resume_within)).collect()
            }
        };
        let locked = |engine: AnyEngine<E>| {
            let syncer = engine.syncer();
            PartitionLock::new(engine, retry_for, syncer)
        };
        let partitions = engines.into_iter().map(locked).collect();
        Self {
            partitions,
            worker: None,
            closer: None,
            snapshots,
            unlocked,
            catalog,
            heap,
            files,
            sessions,
            engine,
            retry_for,
            isolation,
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
        let wakeup = self.worker.as_ref().map(|worker| &*worker.wakeup);
        let alarms = self.closer.as_ref().map(|closer| &*closer.alarms);
        Some(Call { wakeup, alarms, partition_lock: &self.partitions[partition] })
    }

    /// Returns the error that the thread in the background ran into, if any.
    fn background_error(&self) -> Result<(), Error> {
        self.worker.as_ref().map_or(Ok(()), Worker::take_error)
    }

    /// The engine.
    ///
    /// # Panics
    /// The engine is one of a test.
    pub fn engine(&self) -> EngineKind {
        self.engine.kind.expect("one of the engines of this crate")
    }

    /// Returns the engine's properties, such as where its data is durable, its concurrency and its
    /// isolation.
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
    /// returns an error or panics, everything it did in the transaction is undone.
    ///
    /// In an engine that runs many transactions at the same time ([`EngineTraits::concurrency`])
    /// `work` may be run several times, until the transaction has no conflict or
    /// [`Options::retry_for`] has passed. Everything else that `work` does, outside the
    /// transaction, happens as often.
    ///
    /// # Errors
    /// The error that `work` returned, a failed commit, [`Error::Conflict`], or
    /// [`Error::PartitionNeeded`].
    #[inline]
    pub fn write<R>(
        &self,
        work: impl FnMut(&mut Tx<'_, E>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.only_partition()?.write(work)
    }

    /// Works as [`Database::write`], with an error type of the application's own: the closure's,
    /// which has to be named (`docs/decisions/0026-own-errors.md` says why). After a conflict the
    /// transaction is run again, whatever error the closure makes of it; when the time is over the
    /// conflict is returned, as this type.
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

    /// Runs `work` as a transaction that only reads; several times perhaps, as [`Database::write`].
    /// It sees every transaction that was committed before it began. In `cow` and `nvm-cow` it
    /// reads a snapshot, and neither waits for a writer nor keeps one waiting. In the paged engines
    /// it takes no locks at first, and is run again under locks where others are changing the pages
    /// that it reads. In the other engines it waits for the transaction that is open.
    ///
    /// # Errors
    /// The error that `work` returned, [`Error::Conflict`], or [`Error::PartitionNeeded`]; or the
    /// partition has stopped, or the medium has failed.
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

    /// Returns the tuple with this primary key, if there is one: a transaction that only reads, of
    /// one statement.
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

    /// Works as [`Database::begin`], but waits no longer than `wait` for a partition that is taken.
    ///
    /// # Errors
    /// [`Error::Busy`], which names the kind of holder; [`Error::PartitionNeeded`].
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
