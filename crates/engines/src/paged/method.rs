//! Creates and opens partitions of a paged engine: chooses a log and joins the parts.

use std::sync::Arc;

use paged::lock::LockCounts;
use paged::log::{LogCounts, LogManager};
use paged::pool::PoolStats;
use paged::store::{Store, StoreOptions};
use pm::{Environment, Files};
use storage::Catalog;

use super::Paged;
use super::archive::{archived, restore_pages};
use super::tables::PagedTables;
use crate::base::Restoring;
use crate::contract::{Method, RecoveryReport, Resources};
use crate::counts::BufferStats;
use crate::error::EngineError;
use crate::kind::EngineKind;
use crate::options::{OwnOptions, Setup};
use crate::own::OwnStats;
use crate::traits::{Concurrency, DurableIn, EngineTraits, Isolation, Unfinished};

/// A log, which makes an engine of the partition.
pub trait PagedLog<E: Environment>: Send + Sync + Sized + 'static {
    /// The kind of the engine.
    const KIND: EngineKind;
    /// The place of what it makes durable.
    const DURABLE_IN: DurableIn;
    /// Commits can be grouped, so that several become durable at once.
    const GROUPS_COMMITS: bool;
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
    ) -> Result<Self, EngineError>;

    /// Opens the log.
    ///
    /// # Errors
    /// It is damaged or missing, or the medium refuses.
    fn open(
        resources: &Resources<E>,
        options: &Self::Options,
        page_bytes: usize,
    ) -> Result<Self, EngineError>;

    /// Opens what is sound of a log that cannot be opened, or makes an empty one in its place, in
    /// files that are not needed afterwards. The LSNs of an empty one are greater than all that
    /// pages have.
    ///
    /// # Errors
    /// There is no such way, or the medium refuses.
    fn replace(
        _: &Resources<E>,
        _: &Self::Options,
        _page_bytes: usize,
    ) -> Result<Self, EngineError> {
        Err(EngineError::Unsupported { what: "way to read pages without their log" })
    }

    /// The log's manager.
    fn manager(&self) -> Arc<dyn LogManager>;

    /// The partition is open: what is counted begins here.
    fn opened(&self) {}

    /// Ends the background work for the log, and gives back the space of the log that is not
    /// needed; all transactions are over, and a checkpoint was taken.
    ///
    /// # Errors
    /// The medium refuses.
    fn close(&self) -> Result<(), EngineError> {
        Ok(())
    }

    /// Calls `reachable` with the objects of the durable heap that it leads to.
    fn check(&self, _reachable: &mut dyn FnMut(u64)) {}

    /// The counters of the engine.
    fn stats(&self, counts: &PagedCounts) -> OwnStats;
}

/// The things that a partition has counted since it was opened.
#[derive(Clone, Copy, Default, Debug)]
pub struct PagedCounts {
    /// The counters of the buffer pool.
    pub pool: PoolStats,
    /// The counters of the lock table.
    pub locks: LockCounts,
    /// The counters of the log.
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
                failures: self.log.failures - log.failures,
            },
            page_bytes: self.page_bytes,
        }
    }
}

impl From<&PagedCounts> for BufferStats {
    fn from(counts: &PagedCounts) -> Self {
        let PagedCounts { pool, locks, page_bytes, .. } = counts;
        Self {
            hits: pool.hits,
            reads: pool.reads,
            read_ahead: pool.read_ahead,
            evictions: pool.evictions,
            page_batches: pool.batches,
            page_bytes: pool.writes * page_bytes,
            lock_requests: locks.requests,
            lock_waits: locks.waits,
            deadlocks: locks.victims,
        }
    }
}

/// Returns the prefix of the names of a partition's files.
pub(crate) fn prefix(partition: u32) -> String {
    format!("paged-{partition}-")
}

/// The traits of every paged engine.
const fn traits(durable_in: DurableIn) -> EngineTraits {
    EngineTraits {
        durable_in,
        concurrency: Concurrency::Shared,
        isolation: Isolation::Serializable,
        usual_isolation: Isolation::Serializable,
        snapshots: false,
        unfinished: Unfinished::Undone,
        larger_than_memory: true,
    }
}

/// Frames of a buffer pool at least.
const LEAST_FRAMES: u64 = 16;

/// The options of a store with pages of so many bytes, and so many for the buffer pool.
pub(crate) fn base_options(
    page_bytes: u32,
    buffer_bytes: u64,
    least_page_bytes: usize,
) -> StoreOptions {
    let page_bytes = (page_bytes.next_power_of_two() as usize).max(least_page_bytes);
    let frames = (buffer_bytes / page_bytes as u64).max(LEAST_FRAMES) as usize;
    StoreOptions { page_bytes, frames, ..StoreOptions::default() }
}

/// The options of a partition's store. Its background work is done by a thread where the database
/// has one for such work.
fn store_options<E: Environment, L: PagedLog<E>>(
    options: &L::Options,
    tables: &PagedTables,
    setup: &Setup,
) -> StoreOptions {
    let of = L::store_options(options, tables.least_page_bytes());
    StoreOptions { background: setup.helped, ..of }
}

/// The number that distinguishes the pages of a partition of this database from others.
fn stamp<F: Files>(files: &F, catalog: &Catalog, partition: u32) -> u64 {
    u64::from(catalog.fingerprint() ^ files.stamp()) << 32 | u64::from(partition)
}

impl<E: Environment, L: PagedLog<E>> Method<E> for Paged<E, L> {
    const KIND: EngineKind = L::KIND;
    const TRAITS: EngineTraits = traits(L::DURABLE_IN);
    const GROUPS_COMMITS: bool = L::GROUPS_COMMITS;
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
        let partition = resources.partition;
        let stamp = stamp(&files, catalog, partition);
        let (archive, own) = (setup.archive.as_deref(), (&files, &*prefix));
        let manager = archived(log.manager(), archive, (partition, stamp), own)?;
        if let Some(Restoring(from)) = &setup.restoring {
            restore_pages(&**from, partition, (&files, &*prefix, stamp), &of, &*manager)?;
            let store = Store::open(&files, &prefix, manager, of)?.0;
            log.opened();
            return Ok(Self::root(&resources, setup, tables, (files, prefix), store, log));
        }
        let store = Store::create(&files, &prefix, stamp, manager, of, &tables.trees())?;
        log.opened();
        Ok(Self::root(&resources, setup, tables, (files, prefix), store, log))
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
            let stamp = stamp(&files, catalog, resources.partition);
            let store = Store::open_past_damage(&files, &prefix, stamp, log.manager(), of)?;
            let root = Self::root(&resources, setup, tables, (files, prefix), store, log);
            return Ok((root, RecoveryReport::default()));
        }
        // Before the log is opened, which writes: a refused opening changes nothing.
        let partition = resources.partition;
        let stamp = stamp(&files, catalog, partition);
        Store::look(&files, &prefix, stamp)?;
        let log = L::open(&resources, options, of.page_bytes)?;
        let (archive, own) = (setup.archive.as_deref(), (&files, &*prefix));
        let manager = archived(log.manager(), archive, (partition, stamp), own)?;
        let (store, restarted) = Store::open(&files, &prefix, manager, of)?;
        log.opened();
        let (redone, undone) = (restarted.redone, restarted.undone);
        let report = RecoveryReport { redone, undone, ..RecoveryReport::default() };
        Ok((Self::root(&resources, setup, tables, (files, prefix), store, log), report))
    }
}
