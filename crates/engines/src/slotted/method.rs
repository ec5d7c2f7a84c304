//! Creates and opens partitions on slotted pages: chooses a scheme, and makes or opens a store.

use std::sync::Arc;

use heap::Heap;
use pm::{Bad, Environment, Memory};
use slotted::layout::{SEGMENT_HEADER, most_inline};
use slotted::{Commits, Options, Recovered, Scheme, Store};
use storage::Catalog;

use super::Slotted;
use crate::contract::{Engine, Method, RecoveredLog, RecoveryReport, Resources};
use crate::error::EngineError;
use crate::kind::EngineKind;
use crate::options::{OwnOptions, Setup};
use crate::own::OwnStats;
use crate::packed_tables::PackedTables;
use crate::traits::{DurableIn, EngineTraits};

/// Bytes of the largest page.
pub(crate) const MOST_PAGE_BYTES: u32 = 32 << 10;

/// The least number of pages in the unit in which the heap gives room.
const LEAST_SEGMENT_PAGES: u64 = 14;

/// Bytes at the beginning of an object that takes whole chunks which are not its own, at most.
const SPAN_START: u64 = 1024;

/// A scheme that makes an engine of the partition.
pub trait SlottedScheme<E: Environment>: Scheme<E::Durable> + Sync {
    /// The kind of the engine.
    const KIND: EngineKind;
    /// True if the pages are copied to volatile memory when they are read.
    const CACHES_PAGES: bool;
    /// The engine's options.
    type Options: OwnOptions;
    /// The engine's form with checksums and fewer fences; itself where there is no other.
    type Checksummed: SlottedScheme<E, Options = Self::Options>;

    /// The size of a page that was chosen.
    fn page_bytes(options: &Self::Options) -> u32;

    /// The number of frames from which on a checkpoint is made, of a log that grows.
    fn checkpoint_frames(_options: &Self::Options) -> Option<u32> {
        None
    }

    /// Returns whether the form with checksums was chosen.
    fn is_checksummed(_options: &Self::Options) -> bool {
        false
    }

    /// The counters of the engine.
    fn own_stats(commits: &Commits) -> OwnStats;
}

/// The size from which on a page may become twice as large for the sake of rows.
const ROOMY_PAGE_BYTES: u32 = 4096;

/// The parameters of a store for these tables. Pages are at least so large that the widest key
/// fits, so that the size that is the default does for any schema; and not so small that a row of a
/// kilobyte takes a page of its own.
fn store_options<M: Memory>(page_bytes: u32, tables: &PackedTables, heap: &Heap<M>) -> Options {
    let larger = |bytes: &u32| (*bytes < MOST_PAGE_BYTES).then_some(bytes * 2);
    let mut sizes = std::iter::successors(Some(page_bytes.next_power_of_two()), larger);
    let widest = tables.widest_key();
    let page_bytes = sizes.find(|bytes| most_inline(*bytes as usize) >= widest);
    let mut page_bytes = page_bytes.unwrap_or(MOST_PAGE_BYTES);
    let inline = |bytes: u32| most_inline(bytes as usize) as u64;
    if (ROOMY_PAGE_BYTES..MOST_PAGE_BYTES).contains(&page_bytes)
        && tables.row_bytes().any(|row| inline(page_bytes) < row && row < inline(2 * page_bytes))
    {
        page_bytes *= 2;
    }
    // The size that leaves least of the heap's chunks unused: as much of one as an object can
    // have, or several chunks.
    let least = SEGMENT_HEADER + LEAST_SEGMENT_PAGES * u64::from(page_bytes);
    let (whole, chunk) = (heap.max_slot_bytes() / 64 * 64, heap.chunk_bytes());
    let segment_bytes = if whole >= least {
        whole
    } else {
        (least + SPAN_START).next_multiple_of(chunk) - SPAN_START
    };
    Options { page_bytes, segment_bytes, trees: tables.trees().max(1), ..Options::default() }
}

/// Gives a store the options of this opening, and the number of trees a row is in.
fn tune<E: Environment, S: SlottedScheme<E>>(
    store: &mut Store<E::Durable, S>,
    options: &S::Options,
    tables: &PackedTables,
) {
    store.keep_room_for(tables.most_indexes());
    if let Some(frames) = S::checkpoint_frames(options) {
        store.checkpoint_after(frames as usize);
    }
}

/// The work of the log when a partition was opened.
fn report_of<E: Environment, S: SlottedScheme<E>>(recovered: &Recovered) -> RecoveryReport {
    let Recovered { transactions, frames, frame_bytes, read_ns, applied_ns } = *recovered;
    let (undone, redone) = if S::ROLLS_BACK { (transactions, 0) } else { (0, transactions) };
    let log = RecoveredLog { frames, frame_bytes, read_ns, applied_ns };
    RecoveryReport { undone, redone, log, ..RecoveryReport::default() }
}

fn root_name<E: Environment, S: SlottedScheme<E>>(partition: u32) -> String {
    format!("{}/{partition}", S::NAME)
}

impl<E: Environment, S: SlottedScheme<E>> Method<E> for Slotted<E, S> {
    const KIND: EngineKind = S::KIND;
    const TRAITS: EngineTraits = EngineTraits::serial(DurableIn::Pool, false, !S::CACHES_PAGES);
    const GROUPS_COMMITS: bool = false;
    type Options = S::Options;

    fn create(
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        _: &Setup,
        options: &S::Options,
    ) -> Result<Self, EngineError> {
        let (heap, tables) = (&resources.durable, PackedTables::new(catalog));
        let mut lane = heap.lane(resources.partition);
        lane.recovered();
        let mut store = Store::create(lane, store_options(S::page_bytes(options), &tables, heap))?;
        heap.set_root(&root_name::<E, S>(resources.partition), store.at())?;
        tune::<E, S>(&mut store, options, &tables);
        Ok(Self::over(store, heap.memory().clone(), tables))
    }

    fn open(
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        _: &Setup,
        options: &S::Options,
    ) -> Result<(Self, RecoveryReport), EngineError> {
        let (heap, tables) = (&resources.durable, PackedTables::new(catalog));
        let name = root_name::<E, S>(resources.partition);
        let at = heap.root(&name)?.ok_or(EngineError::Missing { what: name })?;
        let mut store = Store::open(heap.lane(resources.partition), at)?;
        tune::<E, S>(&mut store, options, &tables);
        let Options { page_bytes, trees, .. } = store.options();
        if trees != tables.trees().max(1) || most_inline(page_bytes as usize) < tables.widest_key()
        {
            return Err(Bad::Damaged { what: "master of slotted pages", at }.into());
        }
        let report = report_of::<E, S>(&store.recovered());
        Ok((Self::over(store, heap.memory().clone(), tables), report))
    }

    fn create_form(
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        setup: &Setup,
        options: &S::Options,
    ) -> Result<Box<dyn Engine>, EngineError> {
        if S::is_checksummed(options) {
            let engine = Slotted::<E, S::Checksummed>::create(resources, catalog, setup, options)?;
            return Ok(Box::new(engine));
        }
        Ok(Box::new(Self::create(resources, catalog, setup, options)?))
    }

    /// The form that was created: roots have the name of their scheme.
    fn open_form(
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        setup: &Setup,
        options: &S::Options,
    ) -> Result<(Box<dyn Engine>, RecoveryReport), EngineError> {
        let checksummed = root_name::<E, S::Checksummed>(resources.partition);
        if resources.durable.root(&checksummed)?.is_some() {
            let (engine, report) =
                Slotted::<E, S::Checksummed>::open(resources, catalog, setup, options)?;
            return Ok((Box::new(engine), report));
        }
        let (engine, report) = Self::open(resources, catalog, setup, options)?;
        Ok((Box::new(engine), report))
    }
}
