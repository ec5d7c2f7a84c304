//! The skeleton of the copy-on-write engines, CoW and NVM-CoW (P1 3.2, 4.2).
//!
//! Committed data is not written over: the current directory stays as it is while transactions
//! build the dirty one, and for a group of them, a batch, the master record is moved to that. The
//! engines differ in their [`ShadowStore`]: where tuples and pages lie, and how a batch becomes
//! durable there. The rest is [`ShadowEngine`]:
//!
//! | operation | steps |
//! |---|---|
//! | SELECT | find the tuple in the dirty directory, or in that of a snapshot; retrieve its contents |
//! | COMMIT | the dirty directory becomes the current one; for a group: make it durable, move the master record |
//! | ABORT | forget the dirty directory |
//!
//! There is nothing to recover. The pages of a dirty directory that a crash leaked are found by
//! walking the current one, a few pages with each commit, or by [`crate::Engine::background`].
//!
//! Invariants: those of [`Shadow`].

mod engine;
mod tables;
mod tuples;
mod view;

use std::fmt::Display;
use std::ops::Deref;
use std::sync::Arc;

use index::pages::PageBackend;
use pm::{Bytes, Environment};
use storage::shadow::{Directory, Needs, Shadow, TreePlace};
use storage::{Catalog, TableKey, TableLayout, Value, WorkDone};

use crate::contract::{Footprint, RecoveryReport, Resources};
use crate::counts::PageStats;
use crate::error::EngineError;
use crate::kind::EngineKind;
use crate::options::{OwnOptions, Setup};
use crate::own::OwnStats;
use crate::state::State;
use crate::traits::DurableIn;

pub(crate) use engine::ShadowEngine;
pub(crate) use tables::{TreeMap, dangling};
pub(crate) use tuples::{InLeaves, InSlots, pointer};
pub(crate) use view::{TupleForm, check};

/// The layout of a table, as the tuples of a store have it.
pub(crate) type Layout<E, S> = <<S as ShadowStore<E>>::Tuples as TupleForm>::Layout;

/// The directories of a partition, and the batch of transactions that is not durable yet.
#[derive(Debug)]
pub struct Directories<B: PageBackend> {
    pub(crate) shadow: Shadow<B>,
    state: State,
    group: u32,
    /// Pages that a commit looks at while a dead directory is being collected.
    collect_pages: u64,
    failures: u64,
    background: WorkDone,
}

impl<B: PageBackend> Directories<B> {
    fn new(shadow: Shadow<B>, setup: &Setup) -> Self {
        Self {
            shadow,
            state: State::default(),
            group: setup.group.max(1),
            // If the background helps, only as many as the pages that the commit takes call for.
            collect_pages: if setup.helped { 0 } else { 32 },
            failures: 0,
            background: WorkDone::default(),
        }
    }

    /// Calls `read` with what the primary tree has for the key with these values.
    #[inline]
    pub(crate) fn find<L: Deref<Target = TableLayout>, R>(
        &self,
        map: &TreeMap<L>,
        table: u16,
        key: &[Value<'_>],
        read: impl FnOnce(Bytes<'_>) -> R,
    ) -> Result<R, EngineError> {
        match map.find(self.shadow.trees(), table, key, read)? {
            Some(found) => Ok(found),
            None => Err(map.missing(table)),
        }
    }

    /// Fails if there is a tuple with this key.
    #[inline]
    pub(crate) fn is_free<L: Deref<Target = TableLayout>>(
        &self,
        map: &TreeMap<L>,
        table: u16,
        key: &[u8],
    ) -> Result<(), EngineError> {
        match self.shadow.trees().get(map.tree(table, 0), key, |_| ())? {
            Some(()) => Err(map.duplicate(table)),
            None => Ok(()),
        }
    }

    /// Returns what a change of these trees may take.
    #[inline]
    pub(crate) fn needs(&self, trees: impl Iterator<Item = usize>) -> Needs {
        let mut needs = Needs::default();
        trees.for_each(|tree| self.shadow.need(&mut needs, tree, 0));
        needs
    }

    /// Runs the part of an operation that changes trees. If it fails, half of it may be done.
    #[inline]
    pub(crate) fn change<T>(
        &mut self,
        act: impl FnOnce(&mut Self) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let done = act(self);
        if done.is_err() {
            self.state.must_abort();
        }
        done
    }

    /// Puts a tuple's keys into these secondary indexes of the table whose primary tree is `tree`.
    #[inline]
    pub(crate) fn add_keys<F: Into<EngineError>>(
        &mut self,
        tree: usize,
        indexes: impl Iterator<Item = usize>,
        key: impl Fn(usize) -> Result<TableKey, F>,
    ) -> Result<(), EngineError> {
        for index in indexes {
            let key = key(index).map_err(F::into)?;
            self.shadow.insert(tree + index, key.bytes(&mut [0; 8]), &[])?;
        }
        Ok(())
    }

    /// Replaces a tuple's keys in these secondary indexes, where they have changed.
    #[inline]
    pub(crate) fn replace_keys<F: Into<EngineError>>(
        &mut self,
        tree: usize,
        indexes: impl Iterator<Item = usize>,
        before: impl Fn(usize) -> Result<TableKey, F>,
        after: impl Fn(usize) -> Result<TableKey, F>,
    ) -> Result<(), EngineError> {
        for index in indexes {
            let before = before(index).map_err(F::into)?;
            let after = after(index).map_err(F::into)?;
            if before != after {
                self.shadow.remove(tree + index, before.bytes(&mut [0; 8]))?;
                self.shadow.insert(tree + index, after.bytes(&mut [0; 8]), &[])?;
            }
        }
        Ok(())
    }

    /// Takes a tuple's keys out of these secondary indexes.
    #[inline]
    pub(crate) fn remove_keys<F: Into<EngineError>>(
        &mut self,
        tree: usize,
        indexes: impl Iterator<Item = usize>,
        key: impl Fn(usize) -> Result<TableKey, F>,
    ) -> Result<(), EngineError> {
        for index in indexes {
            let key = key(index).map_err(F::into)?;
            self.shadow.remove(tree + index, key.bytes(&mut [0; 8]))?;
        }
        Ok(())
    }

    /// Makes all committed transactions durable.
    pub(crate) fn end_batch<E: Environment, S: ShadowStore<E, Pages = B>>(
        &mut self,
        store: &mut S,
    ) -> Result<(), EngineError> {
        if let Err(error) = store.write_batch(self) {
            return self.stop(error);
        }
        self.shadow.reclaim();
        if let Err(error) = store.settle_batch(self) {
            // The batch is durable; what failed is housekeeping on a damaged medium.
            self.stop_after(&error);
        }
        Ok(())
    }

    /// Looks for pages that a crash has left, after a commit.
    #[inline]
    fn collect(&mut self) {
        if let Err(error) = self.shadow.collect_after_commit(self.collect_pages) {
            // The transaction is committed; what failed is housekeeping on a damaged medium.
            self.stop_after(&error);
        }
    }

    /// Stops a partition whose batch could not be made durable, and with it the snapshots: what
    /// they show may never become so.
    #[cold]
    fn stop<T>(&mut self, error: EngineError) -> Result<T, EngineError> {
        self.shadow.stop(&error.to_string());
        self.state.stop(error)
    }

    /// Stops a partition whose housekeeping has failed. Snapshots show what is durable still,
    /// unless they may show a group that will never be.
    #[cold]
    fn stop_after(&mut self, error: &impl Display) {
        self.failures += 1;
        if self.shadow.pending() > 0 {
            self.shadow.stop(&error.to_string());
        }
        self.state.stop_after(error);
    }
}

/// The secondary indexes of a table that have one of the changed columns.
#[inline]
pub(crate) fn indexes_with<'a>(
    layout: &'a TableLayout,
    changes: &'a [(u16, Value<'_>)],
) -> impl Iterator<Item = usize> + Clone + 'a {
    (1..layout.index_count()).filter(|index| layout.index_has(*index, changes))
}

/// The things of which a partition is made.
#[derive(Debug)]
pub struct ShadowParts<B, L> {
    pub(crate) map: TreeMap<L>,
    pub(crate) stores: Vec<B>,
    pub(crate) places: Vec<TreePlace>,
    pub(crate) directory: Directory,
}

/// A store that was created or opened, and what else its partition is made of.
pub(crate) type Made<E, S> = (S, ShadowParts<<S as ShadowStore<E>>::Pages, Layout<E, S>>);

/// The place of a copy-on-write engine's pages and tuples: what is particular about it.
///
/// An operation reserves room first and fails without a trace if there is none; then it changes the
/// dirty directory, in [`Directories::change`].
pub trait ShadowStore<E: Environment>: Send + Sync + Sized + 'static {
    /// The kind of the engine.
    const KIND: EngineKind;
    /// The place of what it makes durable.
    const DURABLE_IN: DurableIn;
    /// True if a commit can leave its batch to the ones that wait for the partition.
    const SHARES_BATCHES: bool;
    /// Its options.
    type Options: OwnOptions;
    /// The pages.
    type Pages: PageBackend;
    /// The tuples.
    type Tuples: TupleForm;

    /// Creates an empty directory.
    fn create(
        resources: &Resources<E>,
        catalog: &Arc<Catalog>,
        options: &Self::Options,
    ) -> Result<Made<E, Self>, EngineError>;

    /// Opens the directory that the master record leads to.
    fn open(
        resources: &Resources<E>,
        catalog: &Arc<Catalog>,
        options: &Self::Options,
    ) -> Result<(Made<E, Self>, RecoveryReport), EngineError>;

    /// The tuples, to be read.
    fn tuples(&self) -> &Self::Tuples;

    /// Inserts a tuple.
    fn insert(
        &mut self,
        dirty: &mut Directories<Self::Pages>,
        map: &TreeMap<Layout<E, Self>>,
        table: u16,
        values: &[Value<'_>],
    ) -> Result<(), EngineError>;

    /// Updates columns, one at least, of the tuple of a table with a key.
    fn update(
        &mut self,
        dirty: &mut Directories<Self::Pages>,
        map: &TreeMap<Layout<E, Self>>,
        at: (u16, &[Value<'_>]),
        changes: &[(u16, Value<'_>)],
    ) -> Result<(), EngineError>;

    /// Deletes the tuple of a table with a key.
    fn delete(
        &mut self,
        dirty: &mut Directories<Self::Pages>,
        map: &TreeMap<Layout<E, Self>>,
        at: (u16, &[Value<'_>]),
    ) -> Result<(), EngineError>;

    /// Transaction `number` has committed, of a batch that is not durable yet.
    fn committed(&mut self, _dirty: &Directories<Self::Pages>, _number: u64) {}

    /// Makes the current directory durable and moves the master record to it.
    fn write_batch(&mut self, dirty: &mut Directories<Self::Pages>) -> Result<(), EngineError>;

    /// Keeps house after a batch.
    fn settle_batch(&mut self, dirty: &mut Directories<Self::Pages>) -> Result<(), EngineError>;

    /// The open transaction is undone.
    fn aborted(&mut self, _dirty: &Directories<Self::Pages>) {}

    /// Releases what only snapshots have kept that have gone.
    fn forget_snapshots(&mut self, _dirty: &mut Directories<Self::Pages>) {}

    /// Records, at the end, that no work is left.
    fn close(&mut self, dirty: &Directories<Self::Pages>) -> Result<(), EngineError>;

    /// Bytes that looking at a page counts for.
    fn page_bytes(&self) -> u64;

    /// See [`crate::Engine::footprint`].
    fn footprint(
        &self,
        _current: &Directories<Self::Pages>,
        _map: &TreeMap<Layout<E, Self>>,
    ) -> Result<Footprint, EngineError> {
        // Everything lies in the heap, whose chunks say what they are for.
        Ok(Footprint::default())
    }

    /// Bytes of a log.
    fn logged_bytes(&self) -> u64 {
        0
    }

    /// The counters of the engine that others do not have.
    fn own_stats(pages: PageStats) -> OwnStats;

    /// Checks the current directory; see [`crate::Engine::check`].
    fn check(
        &self,
        current: &Directories<Self::Pages>,
        map: &TreeMap<Layout<E, Self>>,
        reachable: &mut dyn FnMut(u64),
    ) -> Result<u64, EngineError>;
}
