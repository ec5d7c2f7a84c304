//! How a partition of a paged engine comes to be: a log is chosen, and what it is made of put together.

use std::fmt::Debug;
use std::sync::Arc;

use paged::lock::LockCounts;
use paged::log::{LogCounts, LogManager};
use paged::pool::PoolStats;
use paged::store::{Store, StoreOptions};
use pm::{Environment, Files};
use storage::Catalog;

use super::Paged;
use super::tables::PagedTables;
use crate::contract::{Method, RecoveryReport, Resources};
use crate::error::EngineError;
use crate::kind::EngineKind;
use crate::options::{OwnOptions, Setup};
use crate::own::OwnStats;
use crate::traits::{Concurrency, DurableIn, EngineTraits, Isolation, Unfinished};

/// A choice of a log, which makes an engine of the partition.
pub trait PagedLog<E: Environment>: Debug + Send + Sync + 'static {
    /// The kind of the engine.
    const KIND: EngineKind;
    /// The place of what it makes durable.
    const DURABLE_IN: DurableIn;
    /// The engine's options.
    type Options: OwnOptions;

    /// The options of the store, whose pages have at least so many bytes.
    fn store_options(options: &Self::Options, least_page_bytes: usize) -> StoreOptions;

    /// Makes an empty log for pages of this size, durably.
    ///
    /// # Errors
    /// The medium refuses.
    fn create(
        resources: &Resources<E>,
        options: &Self::Options,
        page_bytes: usize,
    ) -> Result<Arc<dyn LogManager>, EngineError>;

    /// Opens the log.
    ///
    /// # Errors
    /// It is damaged or missing, or the medium refuses.
    fn open(
        resources: &Resources<E>,
        options: &Self::Options,
        page_bytes: usize,
    ) -> Result<Arc<dyn LogManager>, EngineError>;

    /// Makes an empty log in the place of one that cannot be read, in files that nobody needs
    /// afterwards. Its LSNs are greater than all that pages have.
    ///
    /// # Errors
    /// There is no such way, or the medium refuses.
    fn replace(
        _: &Resources<E>,
        _: &Self::Options,
        _page_bytes: usize,
    ) -> Result<Arc<dyn LogManager>, EngineError> {
        Err(EngineError::Unsupported { what: "way to read pages without their log" })
    }

    /// The counters of the engine.
    fn stats(counts: &PagedCounts) -> OwnStats;
}

/// The things that a partition has counted since it was opened.
#[derive(Clone, Copy, Default, Debug)]
pub struct PagedCounts {
    /// Those of the buffer pool.
    pub pool: PoolStats,
    /// Those of the lock table.
    pub locks: LockCounts,
    /// Those of the log.
    pub log: LogCounts,
    /// Bytes of a page.
    pub page_bytes: u64,
}

impl PagedCounts {
    /// The counts of a store so far.
    pub(super) fn of<F: Files>(store: &Store<F>) -> Self {
        Self {
            pool: store.pool_stats(),
            locks: store.lock_counts(),
            log: store.log().counts(),
            page_bytes: store.pool().page_bytes() as u64,
        }
    }

    /// The counts that have come since `before`.
    pub(super) fn since(&self, before: &Self) -> Self {
        let (pool, locks, log) = (&before.pool, &before.locks, &before.log);
        Self {
            pool: PoolStats {
                hits: self.pool.hits - pool.hits,
                reads: self.pool.reads - pool.reads,
                read_ahead: self.pool.read_ahead - pool.read_ahead,
                writes: self.pool.writes - pool.writes,
                batches: self.pool.batches - pool.batches,
                evictions: self.pool.evictions - pool.evictions,
                restored: self.pool.restored - pool.restored,
            },
            locks: LockCounts {
                requests: self.locks.requests - locks.requests,
                waits: self.locks.waits - locks.waits,
                victims: self.locks.victims - locks.victims,
                ..self.locks
            },
            log: LogCounts {
                appended: self.log.appended - log.appended,
                groups: self.log.groups - log.groups,
            },
            page_bytes: self.page_bytes,
        }
    }
}

/// What the names of a partition's files begin with.
pub(crate) fn prefix(partition: u32) -> String {
    format!("paged-{partition}-")
}

/// The traits of every paged engine.
const fn traits(durable_in: DurableIn) -> EngineTraits {
    EngineTraits {
        durable_in,
        concurrency: Concurrency::Shared,
        isolation: Isolation::Serializable,
        snapshots: false,
        unfinished: Unfinished::Undone,
        larger_than_memory: true,
    }
}

/// The options of a partition's store. Its work beside transactions is done by a thread where the
/// database has one for such work.
fn store_options<E: Environment, L: PagedLog<E>>(
    options: &L::Options,
    tables: &PagedTables,
    setup: &Setup,
) -> StoreOptions {
    let of = L::store_options(options, tables.least_page_bytes());
    StoreOptions { background: setup.helped, ..of }
}

/// Tells the pages of a partition of this database from others.
fn stamp<F: Files>(files: &F, catalog: &Catalog, partition: u32) -> u64 {
    u64::from(catalog.fingerprint() ^ files.stamp()) << 32 | u64::from(partition)
}

impl<E: Environment, L: PagedLog<E>> Method<E> for Paged<E, L> {
    const KIND: EngineKind = L::KIND;
    const TRAITS: EngineTraits = traits(L::DURABLE_IN);
    const GROUPS_COMMITS: bool = true;
    type Options = L::Options;

    fn create(
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        setup: &Setup,
        options: &Self::Options,
    ) -> Result<Self, EngineError> {
        let (files, prefix) = (resources.own_files()?, prefix(resources.partition));
        let tables = PagedTables::new(catalog);
        let of = store_options::<E, L>(options, &tables, setup);
        let log = L::create(&resources, options, of.page_bytes)?;
        let stamp = stamp(&files, catalog, resources.partition);
        let store = Store::create(&files, &prefix, stamp, log, of, &tables.trees())?;
        Ok(Self::root(&resources, setup, tables, (files, prefix), store))
    }

    fn open(
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        setup: &Setup,
        options: &Self::Options,
    ) -> Result<(Self, RecoveryReport), EngineError> {
        let (files, prefix) = (resources.own_files()?, prefix(resources.partition));
        let tables = PagedTables::new(catalog);
        let of = store_options::<E, L>(options, &tables, setup);
        if setup.salvage {
            let log = L::open(&resources, options, of.page_bytes);
            let log = log.or_else(|_| L::replace(&resources, options, of.page_bytes))?;
            let store = Store::open_past_damage(&files, &prefix, log, of)?;
            let root = Self::root(&resources, setup, tables, (files, prefix), store);
            return Ok((root, RecoveryReport::default()));
        }
        // Before the log is opened, which writes: a refused opening changes nothing.
        Store::look(&files, &prefix, stamp(&files, catalog, resources.partition))?;
        let log = L::open(&resources, options, of.page_bytes)?;
        let (store, restarted) = Store::open(&files, &prefix, log, of)?;
        let (redone, undone) = (restarted.redone, restarted.undone);
        let report = RecoveryReport { redone, undone, ..RecoveryReport::default() };
        Ok((Self::root(&resources, setup, tables, (files, prefix), store), report))
    }
}
