//! How a partition of a paged engine comes to be: a log is chosen, and what it is made of put together.

use std::fmt::Debug;
use std::sync::Arc;

use paged::log::LogManager;
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

    /// Makes an empty log, durably.
    ///
    /// # Errors
    /// The medium refuses.
    fn create(
        resources: &Resources<E>,
        options: &Self::Options,
    ) -> Result<Arc<dyn LogManager>, EngineError>;

    /// Opens the log.
    ///
    /// # Errors
    /// It is damaged or missing, or the medium refuses.
    fn open(
        resources: &Resources<E>,
        options: &Self::Options,
    ) -> Result<Arc<dyn LogManager>, EngineError>;

    /// The counters of the engine.
    fn stats(store: &Store<E::Files>) -> OwnStats;
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
        let log = L::create(&resources, options)?;
        let tables = PagedTables::new(catalog);
        let stamp = stamp(&files, catalog, resources.partition);
        let (trees, of) = (tables.trees(), store_options::<E, L>(options, &tables, setup));
        let store = Store::create(&files, &prefix, stamp, log, of, &trees)?;
        Ok(Self::root(&resources, setup, tables, (files, prefix), store))
    }

    fn open(
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        setup: &Setup,
        options: &Self::Options,
    ) -> Result<(Self, RecoveryReport), EngineError> {
        let (files, prefix) = (resources.own_files()?, prefix(resources.partition));
        let log = L::open(&resources, options)?;
        let tables = PagedTables::new(catalog);
        let stamp = stamp(&files, catalog, resources.partition);
        let of = store_options::<E, L>(options, &tables, setup);
        let (store, restarted) = Store::open(&files, &prefix, log, of)?;
        if store.pool().stamp() != stamp {
            return Err(EngineError::Missing { what: "file of pages of this database".into() });
        }
        let (redone, undone) = (restarted.redone, restarted.undone);
        let report = RecoveryReport { redone, undone, ..RecoveryReport::default() };
        Ok((Self::root(&resources, setup, tables, (files, prefix), store), report))
    }
}
