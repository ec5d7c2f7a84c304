//! NVM-CoW: NVM-aware copy-on-write updates (P1 4.2).
//!
//! Tuples lie in slots of the pool and are never changed in place; copy-on-write trees of small
//! nodes, in the pool too, lead from keys to tuples. Table 2, in our words:
//!
//! | operation | steps |
//! |---|---|
//! | INSERT | write the tuple; put its place into the dirty directory, and its keys into the secondary indexes |
//! | UPDATE | copy the tuple, with the changes; then the same, in those indexes that have a changed column |
//! | DELETE | take the tuple's place out of the dirty directory, and its keys out of the secondary indexes |
//! | COMMIT | for a group: write back the tuples, the new nodes, the directory and the list of objects; fence; store the master record; fence; persisted bits follow |
//! | ABORT | forget the dirty directory; release what was written |
//!
//! Invariants:
//! - Nothing that the durable directory leads to is changed or given out again.
//! - The persisted bits of a batch's objects change after the master record has moved, and are
//!   durable before it moves again. In between the batch's list has them ([`PoolMaster`]).
//! - A superseded slot is given out again when the master record has moved once more, and no
//!   snapshot can read it.
//!
//! A batch costs 2 fences. Opening reads the master record and its list, nothing else; deviations
//! from the paper: `docs/paper/deviations.md`.

mod options;
mod room;
mod stats;

use std::ops::ControlFlow;
use std::sync::Arc;

use heap::{Heap, Lane};
use index::pages::{PoolPages, PoolSource};
use pm::{Bad, Bytes, Component, Environment, Memory, observe};
use storage::shadow::{Directory, ListEntry, ObjectBatch, PoolMaster, Shadow, TreePlace};
use storage::{
    Catalog, Row, SlotLayout, SlotTuple, TableKey, TupleCopies, Value, WorkDone, user_bytes,
};

use crate::contract::{
    Engine, Footprint, Method, Read, RecoveryReport, Resources, Scan, SnapshotSource, Write,
};
use crate::error::EngineError;
use crate::kind::EngineKind;
use crate::options::Setup;
use crate::shadow_tables::{TreeMap, collect_pages, stop, stop_after};
use crate::shadow_view::{ShadowSnapshots, TupleForm, View, check};
use crate::state::State;
use crate::stats::EngineStats;
use crate::table2::{
    ADD_TO_SECONDARY, CHANGE_COPY, COPY_TUPLE, DISCARD_SECONDARY, MARK_PERSISTED, MOVE_MASTER,
    RECLAIM, REMOVE_POINTER, STORE_POINTER, SYNC_DIRECTORY, SYNC_TUPLE,
};
use crate::traits::{DurableIn, EngineTraits};

pub use options::NvmCowOptions;
pub use stats::NvmCowStats;

/// A partition of NVM-CoW; see the module's comment.
#[derive(Debug)]
pub struct NvmCow<E: Environment> {
    map: TreeMap<SlotLayout>,
    tuples: InSlots<E::Durable>,
    core: Core<E>,
}

/// All that changes: apart from the map, so that a table's layout can be held meanwhile. (A
/// reference-counted pointer right behind a fence would wait for it.)
#[derive(Debug)]
struct Core<E: Environment> {
    memory: E::Durable,
    lane: Lane<E::Durable>,
    shadow: Shadow<PoolPages<E::Durable>>,
    master: PoolMaster,
    copies: TupleCopies,
    batch: ObjectBatch,
    group: u32,
    /// Entries of the batch's list that only deletes may take.
    spare_entries: u64,
    state: State,
    /// Pages that a commit looks at while a dead directory is being collected.
    collect_pages: u64,
    user_bytes: u64,
    failures: u64,
    background: WorkDone,
}

/// The bytes that looking at a node counts for in a budget.
const NODE_BYTES: u64 = 256;

fn root_name(partition: u32) -> String {
    format!("nvm-cow/{partition}")
}

impl<E: Environment> Core<E> {
    /// Makes all committed transactions durable.
    fn end_batch(&mut self) -> Result<(), EngineError> {
        let open = self.shadow.open();
        observe!(E::Durable: self.memory.enter(Component::Recovery));
        // By the thread that makes the fence: the transactions of a batch may have been run by
        // others.
        if !self.copies.lines.is_empty() {
            self.copies.lines.flush(&self.memory);
            observe!(E::Durable: self.memory.mark(SYNC_TUPLE));
        }
        if let Err(error) = self.shadow.write_back() {
            return stop(&mut self.state, &self.shadow, error);
        }
        self.batch.lines.flush(&self.memory);
        self.master.write(&self.memory, self.shadow.current(), self.batch.list(open));
        self.memory.fence();
        observe!(E::Durable: self.memory.mark(SYNC_DIRECTORY));
        self.master.publish(&self.memory, self.shadow.current());
        self.memory.fence();
        observe!(E::Durable: self.memory.mark(MOVE_MASTER));
        if let Err(bad) = self.memory.healthy() {
            return stop(&mut self.state, &self.shadow, bad);
        }
        self.shadow.settle();
        let settled = self.batch.settle(&mut self.lane, open, self.shadow.pins());
        let settled = settled.map_err(EngineError::from).and_then(|done| {
            self.master.trim(&mut self.lane)?;
            self.shadow.look_ahead(&mut self.lane)?;
            Ok(done)
        });
        match settled {
            Ok((made, superseded)) => {
                if made > 0 {
                    observe!(E::Durable: self.memory.mark(MARK_PERSISTED));
                }
                if superseded > 0 {
                    observe!(E::Durable: self.memory.mark(RECLAIM));
                }
                Ok(())
            }
            // The batch is durable; what failed is housekeeping on a damaged pool.
            Err(error) => {
                self.failures += 1;
                stop_after(&mut self.state, &self.shadow, &error);
                Ok(())
            }
        }
    }

    fn tuple<'a>(&'a self, layout: &'a SlotLayout, offset: u64) -> SlotTuple<'a, E::Durable> {
        SlotTuple { memory: &self.memory, layout, offset }
    }

    /// Does once more what the last batch's list says.
    fn redo(&mut self, list: &[ListEntry]) -> Result<(u64, bool), EngineError> {
        let done = self.batch.redo(&mut self.lane, list)?;
        self.batch.lines.flush(&self.memory);
        self.memory.fence();
        Ok(done)
    }
}

impl<E: Environment> NvmCow<E> {
    fn assemble(
        (heap, lane): (&Heap<E::Durable>, Lane<E::Durable>),
        (map, places, sizes): (TreeMap<SlotLayout>, Vec<TreePlace>, Vec<u32>),
        master: PoolMaster,
        directory: Directory,
        setup: &Setup,
        opened: bool,
    ) -> Result<Self, EngineError> {
        let stores: Result<Vec<_>, _> = sizes
            .iter()
            .enumerate()
            .map(|(at, bytes)| {
                PoolPages::open(heap, master.extents(at), *bytes, directory.marks[at])
            })
            .collect();
        let columns = map.layouts().iter().map(|table| table.schema.columns().len());
        let spare_entries = columns.max().unwrap_or(0) as u64 + 1;
        let core = Core {
            memory: heap.memory().clone(),
            lane,
            shadow: Shadow::new(stores?, places, directory, opened),
            master,
            spare_entries,
            copies: TupleCopies::default(),
            batch: ObjectBatch::default(),
            group: setup.group.max(1),
            state: State::default(),
            collect_pages: collect_pages(setup),
            user_bytes: 0,
            failures: 0,
            background: WorkDone::default(),
        };
        let tuples = InSlots { memory: heap.memory().clone() };
        Ok(Self { map, tuples, core })
    }

    #[inline]
    fn view(&self) -> View<'_, PoolSource<E::Durable>, InSlots<E::Durable>> {
        View { map: &self.map, trees: self.core.shadow.trees(), tuples: &self.tuples }
    }

    #[inline]
    fn find(&self, table: u16, key: &[Value<'_>]) -> Result<Option<u64>, EngineError> {
        observe!(E::Durable: self.core.memory.enter(Component::Index));
        self.map.find(self.core.shadow.trees(), table, key, pointer)
    }

    #[inline]
    fn find_or_fail(&self, table: u16, key: &[Value<'_>]) -> Result<u64, EngineError> {
        self.find(table, key)?.ok_or_else(|| self.map.missing(table))
    }
}

impl<E: Environment> Method<E> for NvmCow<E> {
    const KIND: EngineKind = EngineKind::NvmCow;
    const TRAITS: EngineTraits = EngineTraits::serial(DurableIn::Pool, true, true);
    const GROUPS_COMMITS: bool = true;
    type Options = NvmCowOptions;

    fn create(
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        setup: &Setup,
        options: &NvmCowOptions,
    ) -> Result<Self, EngineError> {
        let heap = &resources.durable;
        let map = TreeMap::new(SlotLayout::all(catalog));
        let (places, sizes) = room::places(&map, options.tree_node_bytes)?;
        let mut lane = heap.lane(resources.partition);
        lane.recovered();
        let directory = map.directory(sizes.len());
        let parameter = u64::from(options.tree_node_bytes);
        let master = PoolMaster::create(&mut lane, &directory, parameter)?;
        let root = master.root();
        let parts = (map, places, sizes);
        let partition = Self::assemble((heap, lane), parts, master, directory, setup, false)?;
        heap.set_root(&root_name(resources.partition), root)?;
        Ok(partition)
    }

    fn open(
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        setup: &Setup,
        _: &NvmCowOptions,
    ) -> Result<(Self, RecoveryReport), EngineError> {
        let (heap, name) = (&resources.durable, root_name(resources.partition));
        let root = heap.root(&name)?;
        let root = root.ok_or(EngineError::Missing { what: name })?;
        let map = TreeMap::new(SlotLayout::all(catalog));
        let node_bytes = PoolMaster::parameter(heap.memory(), root)?;
        let node_bytes = u32::try_from(node_bytes)
            .map_err(|_| Bad::Damaged { what: "master record", at: root })?;
        let (places, sizes) = room::places(&map, node_bytes)?;
        let mut directory = map.directory(sizes.len());
        let (master, list) = PoolMaster::open(heap, root, &mut directory)?;
        let lane = heap.lane(resources.partition);
        let parts = (map, places, sizes);
        let mut partition = Self::assemble((heap, lane), parts, master, directory, setup, true)?;
        let (reclaimed, unfinished) = partition.core.redo(&list)?;
        partition.core.lane.recovered();
        let redone = u64::from(unfinished);
        Ok((partition, RecoveryReport { redone, reclaimed, ..RecoveryReport::default() }))
    }
}

impl<E: Environment> Write for NvmCow<E> {
    #[inline]
    fn insert(&mut self, table: u16, values: &[Value<'_>]) -> Result<(), EngineError> {
        let Self { map, core, .. } = self;
        core.state.usable(&core.memory)?;
        let layout = map.layout(table);
        layout.check_tuple(values)?;
        let key = layout.primary_key_of(values)?;
        let (tree, mut narrow) = (map.tree(table, 0), [0; 8]);
        let key = key.bytes(&mut narrow);
        observe!(E::Durable: core.memory.enter(Component::Index));
        if core.shadow.trees().get(tree, key, |_| ())?.is_some() {
            return Err(map.duplicate(table));
        }
        let needs = core.needs(tree..tree + layout.index_count());
        let tuple = core.write(&needs, values.len() as u64 + 1, |copies, lane| {
            copies.write(lane, layout, values)
        })?;
        core.user_bytes += user_bytes(values.iter());
        core.change(|core| {
            observe!(E::Durable: core.memory.enter(Component::Index));
            core.shadow.insert(tree, key, &tuple.to_le_bytes())?;
            observe!(E::Durable: core.memory.mark(STORE_POINTER));
            for index in 1..layout.index_count() {
                let key = core.tuple(layout, tuple).key(index)?;
                core.shadow.insert(tree + index, key.bytes(&mut [0; 8]), &[])?;
            }
            observe!(E::Durable: core.memory.mark(ADD_TO_SECONDARY));
            *core.shadow.tuples(table) += 1;
            Ok(())
        })
    }

    #[inline]
    fn update(
        &mut self,
        table: u16,
        key: &[Value<'_>],
        changes: &[(u16, Value<'_>)],
    ) -> Result<(), EngineError> {
        self.core.state.usable(&self.core.memory)?;
        let old = self.find_or_fail(table, key)?;
        if changes.is_empty() {
            return Ok(());
        }
        let Self { map, core, .. } = self;
        let layout = map.layout(table);
        layout.check_changes(changes)?;
        let tree = map.tree(table, 0);
        let indexes = || (1..layout.index_count()).filter(|at| layout.index_has(*at, changes));
        let trees = || indexes().map(|index| tree + index);
        let needs = core.needs(std::iter::once(tree).chain(trees()).chain(trees()));
        let new = core.write(&needs, 2 * (changes.len() as u64 + 1), |copies, lane| {
            copies.copy(lane, layout, old, changes)
        })?;
        core.user_bytes += user_bytes(changes.iter().map(|(_, value)| value));
        observe!(E::Durable: core.memory.mark(COPY_TUPLE));
        observe!(E::Durable: core.memory.mark(CHANGE_COPY));
        let key = layout.primary_key(key)?;
        core.change(|core| {
            observe!(E::Durable: core.memory.enter(Component::Index));
            core.shadow.replace(tree, key.bytes(&mut [0; 8]), &new.to_le_bytes())?;
            observe!(E::Durable: core.memory.mark(STORE_POINTER));
            for index in indexes() {
                let before = core.tuple(layout, old).key(index)?;
                let after = core.tuple(layout, new).key(index)?;
                if before != after {
                    core.shadow.remove(tree + index, before.bytes(&mut [0; 8]))?;
                    core.shadow.insert(tree + index, after.bytes(&mut [0; 8]), &[])?;
                }
            }
            observe!(E::Durable: core.memory.mark(ADD_TO_SECONDARY));
            Ok(())
        })
    }

    fn delete(&mut self, table: u16, key: &[Value<'_>]) -> Result<(), EngineError> {
        self.core.state.usable(&self.core.memory)?;
        let tuple = self.find_or_fail(table, key)?;
        let Self { map, core, .. } = self;
        let (layout, tree) = (map.layout(table), map.tree(table, 0));
        let needs = core.needs(tree..tree + layout.index_count());
        core.reserve(&needs, layout.schema.columns().len() as u64 + 1, false)?;
        let key = layout.primary_key(key)?;
        core.change(|core| {
            observe!(E::Durable: core.memory.enter(Component::Index));
            let Core { memory, batch, shadow, .. } = core;
            let stored = SlotTuple { memory: &*memory, layout, offset: tuple };
            stored.slots(|slot| batch.replaced(slot))?;
            shadow.remove(tree, key.bytes(&mut [0; 8]))?;
            observe!(E::Durable: memory.mark(REMOVE_POINTER));
            for index in 1..layout.index_count() {
                shadow.remove(tree + index, stored.key(index)?.bytes(&mut [0; 8]))?;
            }
            observe!(E::Durable: memory.mark(DISCARD_SECONDARY));
            *shadow.tuples(table) -= 1;
            Ok(())
        })
    }
}

impl<E: Environment> Read for NvmCow<E> {
    #[inline]
    fn get(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: Option<&[u16]>,
        row: &mut Row,
    ) -> Result<bool, EngineError> {
        self.core.state.usable(&self.core.memory)?;
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
        self.core.state.usable(&self.core.memory)?;
        self.view().get_bytes(table, key, columns, out)
    }

    fn scan(
        &self,
        table: u16,
        what: &Scan<'_>,
        row: &mut Row,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<(), EngineError> {
        self.core.state.usable(&self.core.memory)?;
        self.view().scan(table, what, row, visit)
    }
}

impl<E: Environment> Engine for NvmCow<E> {
    #[inline]
    fn commit(&mut self) -> Result<(u64, bool), EngineError> {
        self.core.state.usable(&self.core.memory)?;
        if !self.core.shadow.is_changed() {
            return Ok((self.core.shadow.committed(), self.core.shadow.pending() == 0));
        }
        let alone = self.core.group == 1 && self.core.shadow.pending() == 0;
        let number = self.core.shadow.commit(alone);
        self.core.batch.commit(&mut self.core.lane, number, self.core.shadow.pins());
        if self.core.shadow.pending() >= self.core.group {
            self.core.end_batch()?;
        }
        if let Err(error) = self.core.shadow.collect_after_commit(self.core.collect_pages) {
            // The transaction is committed; what failed is housekeeping on a damaged pool.
            self.core.failures += 1;
            stop_after(&mut self.core.state, &self.core.shadow, &error);
        }
        self.core.forget_snapshots();
        Ok((number, self.core.shadow.pending() == 0))
    }

    fn abort(&mut self) -> Result<(), EngineError> {
        self.core.state.abort();
        self.core.state.usable(&self.core.memory)?;
        self.core.shadow.abort();
        self.core.batch.abort(&mut self.core.lane);
        if self.core.shadow.pending() == 0 {
            // Lines of nothing but this transaction's tuples, to which nothing leads.
            self.core.copies.lines.clear();
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), EngineError> {
        self.core.state.usable(&self.core.memory)?;
        if self.core.shadow.pending() > 0 { self.core.end_batch() } else { Ok(()) }
    }

    fn durable(&self) -> u64 {
        self.core.shadow.durable()
    }

    fn checkpoint(&mut self) -> Result<(), EngineError> {
        self.core.state.usable(&self.core.memory)
    }

    fn is_stopped(&self) -> bool {
        self.core.state.is_stopped()
    }

    fn close(&mut self) -> Result<(), EngineError> {
        self.abort()?;
        self.sync()?;
        self.core.batch.lines.flush(&self.core.memory);
        self.core.memory.fence();
        Ok(())
    }

    fn snapshot_source(&self) -> Option<Arc<dyn SnapshotSource>> {
        Some(ShadowSnapshots::of(&self.core.shadow, &self.map, &self.tuples))
    }

    fn background(&mut self, budget: u64) -> Result<u64, EngineError> {
        self.core.state.usable(&self.core.memory)?;
        let core = &mut self.core;
        core.shadow.release_unpinned();
        let before = core.shadow.collected();
        let collected = core.shadow.collect((budget / NODE_BYTES).max(1));
        core.background += core.shadow.collected() - before;
        if let Err(error) = collected {
            core.failures += 1;
            stop_after(&mut core.state, &core.shadow, &error);
            return Err(error.into());
        }
        core.forget_snapshots();
        Ok(core.shadow.stats().uncollected_bytes)
    }

    fn has_backlog(&self) -> bool {
        self.core.shadow.is_collecting()
    }

    fn footprint(&self) -> Result<Footprint, EngineError> {
        // Everything lies in the heap, whose chunks say what they are for.
        Ok(Footprint::default())
    }

    fn stats(&self) -> EngineStats {
        let core = &self.core;
        let shadow = core.shadow.stats();
        EngineStats {
            user_bytes: core.user_bytes,
            logged_bytes: core.master.listed_bytes(),
            failures: core.failures,
            waiting_bytes: shadow.uncollected_bytes,
            inline: shadow.collected - core.background,
            background: core.background,
            own: NvmCowStats { pages: (&shadow).into() }.into(),
        }
    }

    fn check(&self, reachable: &mut dyn FnMut(u64)) -> Result<u64, EngineError> {
        self.core.master.objects(&self.core.memory, &mut *reachable)?;
        for store in self.core.shadow.stores() {
            store.backend().for_each_extent(&mut *reachable)?;
        }
        self.core.batch.superseded(&mut *reachable);
        check(&self.map, &self.core.shadow, &self.tuples, |layout, stored| {
            let reach = |slot| {
                if !self.core.batch.is_new(slot) {
                    reachable(slot);
                }
            };
            let tuple = self.tuples.tuple(layout, stored);
            tuple.check_room(self.core.lane.heap())?;
            Ok(tuple.slots(reach)?)
        })
    }
}

/// The tuple's place, as a leaf has it.
#[inline]
fn pointer(stored: Bytes<'_>) -> u64 {
    stored.whole().map_or(u64::MAX, u64::from_le_bytes)
}

/// Tuples in slots of the pool, to which leaves lead.
#[derive(Clone, Debug)]
struct InSlots<M> {
    memory: M,
}

impl<M: Memory> InSlots<M> {
    #[inline]
    fn tuple<'a>(&'a self, layout: &'a SlotLayout, stored: Bytes<'_>) -> SlotTuple<'a, M> {
        SlotTuple { memory: &self.memory, layout, offset: pointer(stored) }
    }
}

impl<M: Memory> TupleForm for InSlots<M> {
    type Memory = M;
    type Layout = SlotLayout;

    #[inline]
    fn memory(&self) -> &M {
        &self.memory
    }

    #[inline]
    fn read(
        &self,
        layout: &SlotLayout,
        stored: Bytes<'_>,
        columns: Option<&[u16]>,
        row: &mut Row,
    ) -> Result<(), EngineError> {
        Ok(self.tuple(layout, stored).read(columns, row)?)
    }

    #[inline]
    fn read_bytes(
        &self,
        layout: &SlotLayout,
        stored: Bytes<'_>,
        columns: &[u16],
        out: &mut [u8],
    ) -> Result<usize, EngineError> {
        Ok(self.tuple(layout, stored).read_bytes(columns, out)?)
    }

    fn key(
        &self,
        layout: &SlotLayout,
        stored: Bytes<'_>,
        index: usize,
    ) -> Result<TableKey, EngineError> {
        Ok(self.tuple(layout, stored).key(index)?)
    }
}
