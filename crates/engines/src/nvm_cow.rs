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

use std::iter::once;
use std::sync::Arc;

use heap::{Heap, Lane};
use index::pages::PoolPages;
use pm::{Bad, Component, Environment, Memory, observe};
use storage::shadow::{Directory, ObjectBatch, PoolMaster};
use storage::{Catalog, SlotLayout, SlotTuple, TupleCopies, Value};

use crate::contract::{RecoveryReport, Resources};
use crate::counts::PageStats;
use crate::error::EngineError;
use crate::kind::EngineKind;
use crate::own::OwnStats;
use crate::shadow::{
    Directories, InSlots, Made, ShadowEngine, ShadowParts, ShadowStore, TreeMap, check,
    indexes_with, pointer,
};
use crate::table2::{
    ADD_TO_SECONDARY, CHANGE_COPY, COPY_TUPLE, DISCARD_SECONDARY, MARK_PERSISTED, MOVE_MASTER,
    RECLAIM, REMOVE_POINTER, STORE_POINTER, SYNC_DIRECTORY, SYNC_TUPLE,
};
use crate::traits::DurableIn;

pub use options::NvmCowOptions;
pub use stats::NvmCowStats;

/// A partition of NVM-CoW; see the module's comment.
pub type NvmCow<E> = ShadowEngine<E, InPool<E>>;

type Dirty<E> = Directories<PoolPages<<E as Environment>::Durable>>;
type Map = TreeMap<SlotLayout>;

/// Tuples in slots of the pool, and trees of small nodes there.
#[derive(Debug)]
pub struct InPool<E: Environment> {
    memory: E::Durable,
    tuples: InSlots<E::Durable>,
    lane: Lane<E::Durable>,
    master: PoolMaster,
    copies: TupleCopies,
    batch: ObjectBatch,
    /// Entries of the batch's list that only deletes may take.
    spare_entries: u64,
}

/// The bytes that looking at a node counts for in a budget.
const NODE_BYTES: u64 = 256;

fn root_name(partition: u32) -> String {
    format!("nvm-cow/{partition}")
}

impl<E: Environment> InPool<E> {
    fn assemble(
        (heap, lane): (&Heap<E::Durable>, Lane<E::Durable>),
        map: Map,
        node_bytes: u32,
        master: PoolMaster,
        directory: Directory,
    ) -> Result<Made<E, Self>, EngineError> {
        let (places, sizes) = room::places(&map, node_bytes)?;
        let stores: Result<Vec<_>, _> = sizes
            .iter()
            .enumerate()
            .map(|(at, bytes)| {
                PoolPages::open(heap, master.extents(at), *bytes, directory.marks[at])
            })
            .collect();
        let columns = map.layouts().iter().map(|table| table.schema.columns().len());
        let store = Self {
            memory: heap.memory().clone(),
            tuples: InSlots { memory: heap.memory().clone() },
            lane,
            master,
            copies: TupleCopies::default(),
            batch: ObjectBatch::default(),
            spare_entries: columns.max().unwrap_or(0) as u64 + 1,
        };
        Ok((store, ShadowParts { map, stores: stores?, places, directory }))
    }

    #[inline]
    fn find(
        &self,
        dirty: &Dirty<E>,
        map: &Map,
        table: u16,
        key: &[Value<'_>],
    ) -> Result<u64, EngineError> {
        observe!(E::Durable: self.memory.enter(Component::Index));
        dirty.find(map, table, key, pointer)
    }

    #[inline]
    fn tuple<'a>(&'a self, layout: &'a SlotLayout, offset: u64) -> SlotTuple<'a, E::Durable> {
        SlotTuple { memory: &self.memory, layout, offset }
    }
}

impl<E: Environment> ShadowStore<E> for InPool<E> {
    const KIND: EngineKind = EngineKind::NvmCow;
    const DURABLE_IN: DurableIn = DurableIn::Pool;
    const SHARES_BATCHES: bool = false;
    type Options = NvmCowOptions;
    type Pages = PoolPages<E::Durable>;
    type Tuples = InSlots<E::Durable>;

    fn create(
        resources: &Resources<E>,
        catalog: &Arc<Catalog>,
        options: &NvmCowOptions,
    ) -> Result<Made<E, Self>, EngineError> {
        let heap = &resources.durable;
        let map = TreeMap::new(SlotLayout::all(catalog));
        let node_bytes = options.tree_node_bytes;
        let (_, sizes) = room::places(&map, node_bytes)?;
        let mut lane = heap.lane(resources.partition);
        lane.recovered();
        let directory = map.directory(sizes.len());
        let master = PoolMaster::create(&mut lane, &directory, node_bytes.into())?;
        let root = master.root();
        let partition = Self::assemble((heap, lane), map, node_bytes, master, directory)?;
        heap.set_root(&root_name(resources.partition), root)?;
        Ok(partition)
    }

    fn open(
        resources: &Resources<E>,
        catalog: &Arc<Catalog>,
        _: &NvmCowOptions,
    ) -> Result<(Made<E, Self>, RecoveryReport), EngineError> {
        let (heap, name) = (&resources.durable, root_name(resources.partition));
        let root = heap.root(&name)?;
        let root = root.ok_or(EngineError::Missing { what: name })?;
        let map = TreeMap::new(SlotLayout::all(catalog));
        let node_bytes = PoolMaster::parameter(heap.memory(), root)?;
        let node_bytes = u32::try_from(node_bytes)
            .map_err(|_| Bad::Damaged { what: "master record", at: root })?;
        let (_, sizes) = room::places(&map, node_bytes)?;
        let mut directory = map.directory(sizes.len());
        let (master, list) = PoolMaster::open(heap, root, &mut directory)?;
        let lane = heap.lane(resources.partition);
        let (mut store, parts) = Self::assemble((heap, lane), map, node_bytes, master, directory)?;
        // Repeats the changes on the last batch's list.
        let (reclaimed, unfinished) = store.batch.redo(&mut store.lane, &list)?;
        store.batch.lines.flush(&store.memory);
        store.memory.fence();
        store.lane.recovered();
        let redone = u64::from(unfinished);
        let report = RecoveryReport { redone, reclaimed, ..RecoveryReport::default() };
        Ok(((store, parts), report))
    }

    #[inline]
    fn tuples(&self) -> &InSlots<E::Durable> {
        &self.tuples
    }

    #[inline]
    fn insert(
        &mut self,
        dirty: &mut Dirty<E>,
        map: &Map,
        table: u16,
        values: &[Value<'_>],
    ) -> Result<(), EngineError> {
        let layout = map.layout(table);
        layout.check_tuple(values)?;
        let key = layout.primary_key_of(values)?;
        let (tree, mut narrow) = (map.tree(table, 0), [0; 8]);
        let key = key.bytes(&mut narrow);
        observe!(E::Durable: self.memory.enter(Component::Index));
        dirty.is_free(map, table, key)?;
        let needs = dirty.needs(tree..tree + layout.index_count());
        let tuple = self.write(dirty, &needs, values.len() as u64 + 1, |copies, lane| {
            copies.write(lane, layout, values)
        })?;
        dirty.change(|dirty| {
            observe!(E::Durable: self.memory.enter(Component::Index));
            dirty.shadow.insert(tree, key, &tuple.to_le_bytes())?;
            observe!(E::Durable: self.memory.mark(STORE_POINTER));
            let stored = self.tuple(layout, tuple);
            dirty.add_keys(tree, 1..layout.index_count(), |index| stored.key(index))?;
            observe!(E::Durable: self.memory.mark(ADD_TO_SECONDARY));
            *dirty.shadow.tuples(table) += 1;
            Ok(())
        })
    }

    #[inline]
    fn update(
        &mut self,
        dirty: &mut Dirty<E>,
        map: &Map,
        (table, key): (u16, &[Value<'_>]),
        changes: &[(u16, Value<'_>)],
    ) -> Result<(), EngineError> {
        let old = self.find(dirty, map, table, key)?;
        let layout = map.layout(table);
        layout.check_changes(changes)?;
        let (tree, indexes) = (map.tree(table, 0), indexes_with(layout, changes));
        let trees = indexes.clone().map(|index| tree + index);
        let needs = dirty.needs(once(tree).chain(trees.clone()).chain(trees));
        let new = self.write(dirty, &needs, 2 * (changes.len() as u64 + 1), |copies, lane| {
            copies.copy(lane, layout, old, changes)
        })?;
        observe!(E::Durable: self.memory.mark(COPY_TUPLE));
        observe!(E::Durable: self.memory.mark(CHANGE_COPY));
        let key = layout.primary_key(key)?;
        dirty.change(|dirty| {
            observe!(E::Durable: self.memory.enter(Component::Index));
            dirty.shadow.replace(tree, key.bytes(&mut [0; 8]), &new.to_le_bytes())?;
            observe!(E::Durable: self.memory.mark(STORE_POINTER));
            let (before, after) = (self.tuple(layout, old), self.tuple(layout, new));
            dirty.replace_keys(tree, indexes, |at| before.key(at), |at| after.key(at))?;
            observe!(E::Durable: self.memory.mark(ADD_TO_SECONDARY));
            Ok(())
        })
    }

    fn delete(
        &mut self,
        dirty: &mut Dirty<E>,
        map: &Map,
        (table, key): (u16, &[Value<'_>]),
    ) -> Result<(), EngineError> {
        let tuple = self.find(dirty, map, table, key)?;
        let (layout, tree) = (map.layout(table), map.tree(table, 0));
        let needs = dirty.needs(tree..tree + layout.index_count());
        self.reserve(dirty, &needs, layout.schema.columns().len() as u64 + 1, false)?;
        let key = layout.primary_key(key)?;
        dirty.change(|dirty| {
            observe!(E::Durable: self.memory.enter(Component::Index));
            let stored = SlotTuple { memory: &self.memory, layout, offset: tuple };
            stored.slots(|slot| self.batch.replaced(slot))?;
            dirty.shadow.remove(tree, key.bytes(&mut [0; 8]))?;
            observe!(E::Durable: self.memory.mark(REMOVE_POINTER));
            dirty.remove_keys(tree, 1..layout.index_count(), |index| stored.key(index))?;
            observe!(E::Durable: self.memory.mark(DISCARD_SECONDARY));
            *dirty.shadow.tuples(table) -= 1;
            Ok(())
        })
    }

    #[inline]
    fn committed(&mut self, dirty: &Dirty<E>, number: u64) {
        self.batch.commit(&mut self.lane, number, dirty.shadow.pins());
    }

    fn write_batch(&mut self, dirty: &mut Dirty<E>) -> Result<(), EngineError> {
        observe!(E::Durable: self.memory.enter(Component::Recovery));
        // By the thread that makes the fence: the transactions of a batch may have been run by
        // others.
        if !self.copies.lines.is_empty() {
            self.copies.lines.flush(&self.memory);
            observe!(E::Durable: self.memory.mark(SYNC_TUPLE));
        }
        dirty.shadow.write_back()?;
        self.batch.lines.flush(&self.memory);
        let (current, list) = (dirty.shadow.current(), self.batch.list(dirty.shadow.open()));
        self.master.write(&self.memory, current, list);
        self.memory.fence();
        observe!(E::Durable: self.memory.mark(SYNC_DIRECTORY));
        self.master.publish(&self.memory, current);
        self.memory.fence();
        observe!(E::Durable: self.memory.mark(MOVE_MASTER));
        Ok(self.memory.healthy()?)
    }

    fn settle_batch(&mut self, dirty: &mut Dirty<E>) -> Result<(), EngineError> {
        let (open, pins) = (dirty.shadow.open(), dirty.shadow.pins());
        let (made, superseded) = self.batch.change_bits(&mut self.lane, open, pins)?;
        self.master.trim(&mut self.lane)?;
        dirty.shadow.look_ahead(&mut self.lane)?;
        if made > 0 {
            observe!(E::Durable: self.memory.mark(MARK_PERSISTED));
        }
        if superseded > 0 {
            observe!(E::Durable: self.memory.mark(RECLAIM));
        }
        Ok(())
    }

    fn aborted(&mut self, dirty: &Dirty<E>) {
        self.batch.abort(&mut self.lane);
        if dirty.shadow.pending() == 0 {
            // Lines of nothing but this transaction's tuples, to which nothing leads.
            self.copies.lines.clear();
        }
    }

    #[inline]
    fn forget_snapshots(&mut self, dirty: &mut Dirty<E>) {
        if dirty.shadow.snapshots_gone() {
            self.batch.unpin(&mut self.lane, dirty.shadow.pins());
        }
    }

    fn close(&mut self, _: &Dirty<E>) -> Result<(), EngineError> {
        self.batch.lines.flush(&self.memory);
        self.memory.fence();
        Ok(())
    }

    fn page_bytes(&self) -> u64 {
        NODE_BYTES
    }

    fn logged_bytes(&self) -> u64 {
        self.master.listed_bytes()
    }

    fn own_stats(pages: PageStats) -> OwnStats {
        NvmCowStats { pages }.into()
    }

    fn check(
        &self,
        current: &Dirty<E>,
        map: &Map,
        reachable: &mut dyn FnMut(u64),
    ) -> Result<u64, EngineError> {
        self.master.objects(&self.memory, &mut *reachable)?;
        for store in current.shadow.stores() {
            store.backend().for_each_extent(&mut *reachable)?;
        }
        self.batch.superseded(&mut *reachable);
        check(map, &current.shadow, &self.tuples, |layout, stored| {
            let reach = |slot| {
                if !self.batch.is_new(slot) {
                    reachable(slot);
                }
            };
            let tuple = self.tuples.tuple(layout, stored);
            tuple.check_room(self.lane.heap())?;
            Ok(tuple.slots(reach)?)
        })
    }
}
