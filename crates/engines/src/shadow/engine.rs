//! A partition of a copy-on-write engine.

use std::ops::ControlFlow;
use std::sync::Arc;

use index::pages::PageBackend;
use pm::Environment;
use storage::shadow::Shadow;
use storage::{Catalog, Row, Value, user_bytes};

use super::view::{ShadowSnapshots, View};
use super::{Directories, Layout, Made, ShadowParts, ShadowStore, TreeMap, TupleForm};
use crate::contract::{
    Early, Engine, Footprint, Method, Read, RecoveryReport, Resources, Scan, SnapshotSource, Write,
};
use crate::error::EngineError;
use crate::kind::EngineKind;
use crate::options::Setup;
use crate::stats::EngineStats;
use crate::traits::EngineTraits;

/// A partition of a copy-on-write engine; see the module's comment.
#[derive(Debug)]
pub struct ShadowEngine<E: Environment, S: ShadowStore<E>> {
    /// Separate from what changes, so that a table's layout can be held meanwhile. (A
    /// reference-counted pointer right after a fence would wait for it.)
    map: TreeMap<Layout<E, S>>,
    store: S,
    dirty: Directories<S::Pages>,
    user_bytes: u64,
}

impl<E: Environment, S: ShadowStore<E>> ShadowEngine<E, S> {
    fn assemble((store, parts): Made<E, S>, setup: &Setup, opened: bool) -> Self {
        let ShadowParts { map, stores, places, directory } = parts;
        let shadow = Shadow::new(stores, places, directory, opened);
        Self { map, store, dirty: Directories::new(shadow, setup), user_bytes: 0 }
    }

    /// Fails unless the partition can be used.
    #[inline]
    fn usable(&self) -> Result<(), EngineError> {
        self.dirty.state.usable(self.store.tuples().memory())
    }

    #[inline]
    fn view(&self) -> View<'_, <S::Pages as PageBackend>::Source, S::Tuples> {
        let tuples = self.store.tuples();
        View { map: &self.map, trees: self.dirty.shadow.trees(), tuples }
    }

    /// Returns whether all that has committed is durable.
    #[inline]
    fn is_settled(&self) -> bool {
        self.dirty.shadow.pending() == 0
    }
}

impl<E: Environment, S: ShadowStore<E>> Method<E> for ShadowEngine<E, S> {
    const KIND: EngineKind = S::KIND;
    const TRAITS: EngineTraits = EngineTraits::serial(S::DURABLE_IN, true, true);
    const GROUPS_COMMITS: bool = true;
    type Options = S::Options;

    fn create(
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        setup: &Setup,
        options: &S::Options,
    ) -> Result<Self, EngineError> {
        let made = S::create(&resources, catalog, options)?;
        Ok(Self::assemble(made, setup, false))
    }

    fn open(
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        setup: &Setup,
        options: &S::Options,
    ) -> Result<(Self, RecoveryReport), EngineError> {
        let (made, report) = S::open(&resources, catalog, options)?;
        Ok((Self::assemble(made, setup, true), report))
    }
}

impl<E: Environment, S: ShadowStore<E>> Write for ShadowEngine<E, S> {
    #[inline]
    fn insert(&mut self, table: u16, values: &[Value<'_>]) -> Result<(), EngineError> {
        self.usable()?;
        self.store.insert(&mut self.dirty, &self.map, table, values)?;
        self.user_bytes += user_bytes(values.iter());
        Ok(())
    }

    #[inline]
    fn update(
        &mut self,
        table: u16,
        key: &[Value<'_>],
        changes: &[(u16, Value<'_>)],
    ) -> Result<(), EngineError> {
        self.usable()?;
        if changes.is_empty() {
            return self.dirty.find(&self.map, table, key, |_| ());
        }
        self.store.update(&mut self.dirty, &self.map, (table, key), changes)?;
        self.user_bytes += user_bytes(changes.iter().map(|(_, value)| value));
        Ok(())
    }

    fn delete(&mut self, table: u16, key: &[Value<'_>]) -> Result<(), EngineError> {
        self.usable()?;
        self.store.delete(&mut self.dirty, &self.map, (table, key))
    }
}

impl<E: Environment, S: ShadowStore<E>> Read for ShadowEngine<E, S> {
    #[inline]
    fn get(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: Option<&[u16]>,
        row: &mut Row,
    ) -> Result<bool, EngineError> {
        self.usable()?;
        self.view().get(table, key, columns, row)
    }

    #[inline]
    fn get_bytes(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: &[u16],
        out: &mut [u8],
    ) -> Result<Option<usize>, EngineError> {
        self.usable()?;
        self.view().get_bytes(table, key, columns, out)
    }

    fn scan(
        &self,
        table: u16,
        what: &Scan<'_>,
        row: &mut Row,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<(), EngineError> {
        self.usable()?;
        self.view().scan(table, what, row, visit)
    }
}

impl<E: Environment, S: ShadowStore<E>> Engine for ShadowEngine<E, S> {
    #[inline]
    fn commit(&mut self) -> Result<(u64, bool), EngineError> {
        self.usable()?;
        let Self { dirty, store, .. } = self;
        if !dirty.shadow.is_changed() {
            return Ok((dirty.shadow.committed(), self.is_settled()));
        }
        let number = dirty.shadow.commit(dirty.group == 1);
        store.committed(dirty, number);
        if dirty.shadow.pending() >= dirty.group {
            dirty.end_batch(store)?;
        }
        dirty.collect();
        store.forget_snapshots(dirty);
        Ok((number, self.is_settled()))
    }

    /// The batch stays open for the transactions that wait, if each would have been one by itself.
    /// A group of the user's is not to become larger.
    fn commit_early(&mut self) -> Result<Early, EngineError> {
        if !S::SHARES_BATCHES || self.dirty.group > 1 {
            let (number, durable) = self.commit()?;
            return Ok(Early { number, durable, due: false });
        }
        self.usable()?;
        let Self { dirty, store, .. } = self;
        if dirty.shadow.is_changed() {
            let number = dirty.shadow.commit(true);
            store.committed(dirty, number);
            dirty.collect();
            store.forget_snapshots(dirty);
        }
        let (number, durable) = (self.dirty.shadow.committed(), self.is_settled());
        Ok(Early { number, durable, due: !durable })
    }

    fn abort(&mut self) -> Result<(), EngineError> {
        self.dirty.state.abort();
        self.usable()?;
        self.dirty.shadow.abort();
        self.store.aborted(&self.dirty);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), EngineError> {
        self.usable()?;
        if self.is_settled() { Ok(()) } else { self.dirty.end_batch(&mut self.store) }
    }

    fn durable(&self) -> u64 {
        self.dirty.shadow.durable()
    }

    fn checkpoint(&mut self) -> Result<(), EngineError> {
        self.usable()
    }

    fn is_stopped(&self) -> bool {
        self.dirty.state.is_stopped()
    }

    fn close(&mut self) -> Result<(), EngineError> {
        self.abort()?;
        self.sync()?;
        self.store.close(&self.dirty).or_else(|error| self.dirty.stop(error))
    }

    fn snapshot_source(&self) -> Option<Arc<dyn SnapshotSource>> {
        Some(ShadowSnapshots::of(&self.dirty.shadow, &self.map, self.store.tuples()))
    }

    fn background(&mut self, budget: u64) -> Result<u64, EngineError> {
        self.usable()?;
        let Self { dirty, store, .. } = self;
        dirty.shadow.release_unpinned();
        let before = dirty.shadow.collected();
        let collected = dirty.shadow.collect((budget / store.page_bytes()).max(1));
        dirty.background += dirty.shadow.collected() - before;
        if let Err(error) = collected {
            dirty.stop_after(&error);
            return Err(error.into());
        }
        store.forget_snapshots(dirty);
        Ok(dirty.shadow.stats().uncollected_bytes)
    }

    fn has_backlog(&self) -> bool {
        self.dirty.shadow.is_collecting()
    }

    fn footprint(&self) -> Result<Footprint, EngineError> {
        self.store.footprint(&self.dirty, &self.map)
    }

    fn stats(&self) -> EngineStats {
        let (dirty, shadow) = (&self.dirty, self.dirty.shadow.stats());
        EngineStats {
            user_bytes: self.user_bytes,
            logged_bytes: self.store.logged_bytes(),
            failures: dirty.failures,
            waiting_bytes: shadow.uncollected_bytes,
            inline: shadow.collected - dirty.background,
            background: dirty.background,
            own: S::own_stats((&shadow).into()),
        }
    }

    fn check(&self, reachable: &mut dyn FnMut(u64)) -> Result<u64, EngineError> {
        self.store.check(&self.dirty, &self.map, reachable)
    }
}
