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

use std::ops::ControlFlow;
use std::sync::Arc;

use heap::{Heap, HeapError, Lane};
use index::cow::{PoolPages, PoolSource, Records, TreeShape};
use pm::{Bad, Environment, Memory};
use storage::shadow::{
    Directory, ListEntry, Needs, ObjectBatch, PoolMaster, Shadow, SnapshotTrees, Snapshots,
    TreePlace, Trees,
};
use storage::{Catalog, Row, SlotTuple, StorageError, TableLayout, TupleCopies, Value};

use crate::contract::{
    Engine, EngineKind, EngineOptions, Footprint, Reader, RecoveryReport, Resources, Scan,
    SnapshotSource,
};
use crate::error::{EngineError, sound};
use crate::shadow_tables::{TreeMap, dangling, readable};
use crate::table2::{
    ADD_TO_SECONDARY, CHANGE_COPY, COPY_TUPLE, DISCARD_SECONDARY, FIND, MARK_PERSISTED,
    MOVE_MASTER, RECLAIM, REMOVE_POINTER, RETRIEVE, STORE_POINTER, SYNC_DIRECTORY, SYNC_TUPLE,
};

/// Pages that a commit looks at while a dead directory is being collected.
const COLLECT_PAGES: u64 = 32;

/// A partition of NVM-CoW; see the module's comment.
#[derive(Debug)]
pub struct NvmCow<E: Environment> {
    map: TreeMap,
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
    /// A part of an operation could not be done: the transaction can only abort.
    must_abort: bool,
    stopped: Option<String>,
}

fn root_name(partition: u32) -> String {
    format!("nvm-cow/{partition}")
}

/// The trees' shapes, and the sizes of pages among them: a node has room for seven keys at least.
fn places(map: &TreeMap, node_bytes: u32) -> Result<(Vec<TreePlace>, Vec<u32>), EngineError> {
    let mut sizes = Vec::new();
    let places: Result<Vec<_>, EngineError> = map
        .trees()
        .map(|(layout, table, index)| {
            let key_bytes = layout.key_bytes(index) as u16;
            let value_bytes = if index == 0 { 8 } else { 0 };
            let wanted = (16 + 7 * (u32::from(key_bytes) + 8)).next_power_of_two();
            let bytes = wanted.max(node_bytes);
            let records = Records::Packed { key_bytes, value_bytes };
            let shape = TreeShape::new(bytes, records, u32::from(key_bytes))?;
            let store = sizes.iter().position(|size| *size == bytes).unwrap_or_else(|| {
                sizes.push(bytes);
                sizes.len() - 1
            });
            Ok(TreePlace { shape, store, table })
        })
        .collect();
    Ok((places?, sizes))
}

impl<E: Environment> Core<E> {
    fn usable(&self) -> Result<(), EngineError> {
        match &self.stopped {
            Some(why) => Err(EngineError::Stopped { why: why.clone() }),
            None if self.must_abort => Err(EngineError::MustAbort),
            None => Ok(self.memory.healthy()?),
        }
    }

    fn stop<T>(&mut self, error: impl Into<EngineError>) -> Result<T, EngineError> {
        let error = error.into();
        self.shadow.stop(&error.to_string());
        self.stopped = Some(error.to_string());
        Err(error)
    }

    /// Makes room for a change: pages, and entries in the batch's list.
    #[inline]
    fn reserve(&mut self, needs: &Needs, entries: u64, spare: bool) -> Result<(), EngineError> {
        if let Err(error) = self.try_reserve(needs, entries, spare) {
            self.make_room(error)?;
            self.try_reserve(needs, entries, spare)?;
        }
        Ok(())
    }

    #[inline]
    fn try_reserve(&mut self, needs: &Needs, entries: u64, spare: bool) -> Result<(), EngineError> {
        self.shadow.reserve(needs, spare, &mut self.lane)?;
        let left = if spare { self.spare_entries } else { 0 };
        Ok(self.master.reserve(&mut self.lane, self.batch.entries() + entries + left)?)
    }

    /// If the pool or the batch's list is full, frees what only waits for a batch to end, for
    /// somebody to notice that snapshots have gone, or for the collection.
    #[cold]
    fn make_room(&mut self, error: EngineError) -> Result<(), EngineError> {
        let full = matches!(error, EngineError::Storage(StorageError::Heap(HeapError::Full(_))));
        let too_long =
            matches!(error, EngineError::Storage(StorageError::TransactionTooLarge { .. }));
        if !full && !too_long {
            return Err(error);
        }
        self.shadow.release_unpinned();
        // What a batch has superseded can be used when the master record has moved once more.
        for _ in 0..2 {
            self.end_batch()?;
        }
        while full && !self.shadow.collect(u64::MAX)? {}
        self.forget_snapshots();
        Ok(())
    }

    fn forget_snapshots(&mut self) {
        if self.shadow.snapshots_gone() {
            self.batch.unpin(&mut self.lane, self.shadow.pins());
        }
    }

    /// What a change of these trees may take.
    #[inline]
    fn needs(&self, trees: impl Iterator<Item = usize>) -> Needs {
        let mut needs = Needs::default();
        trees.for_each(|tree| self.shadow.need(&mut needs, tree, 0));
        needs
    }

    /// Reserves what a change may take and writes a tuple, or a copy of one, for it.
    #[inline]
    fn write(
        &mut self,
        needs: &Needs,
        entries: u64,
        mut act: impl FnMut(&mut TupleCopies, &mut Lane<E::Durable>) -> Result<u64, StorageError>,
    ) -> Result<u64, EngineError> {
        self.reserve(needs, entries, true)?;
        let tuple = match act(&mut self.copies, &mut self.lane) {
            Ok(tuple) => tuple,
            Err(error) => {
                self.make_room(error.into())?;
                self.reserve(needs, entries, true)?;
                act(&mut self.copies, &mut self.lane)?
            }
        };
        self.batch.made(&self.copies.made, self.shadow.open());
        self.copies.replaced.iter().for_each(|slot| self.batch.replaced(*slot));
        Ok(tuple)
    }

    /// Runs the part of an operation that changes trees. If it fails, half of it may be done.
    #[inline]
    fn change<T>(
        &mut self,
        act: impl FnOnce(&mut Self) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let done = act(self);
        self.must_abort |= done.is_err();
        done
    }

    /// Makes all committed transactions durable.
    fn end_batch(&mut self) -> Result<(), EngineError> {
        let open = self.shadow.open();
        // By the thread that makes the fence: the transactions of a batch may have been run by
        // others.
        if !self.copies.lines.is_empty() {
            self.copies.lines.flush(&self.memory);
            self.memory.mark(SYNC_TUPLE);
        }
        if let Err(error) = self.shadow.write_back() {
            return self.stop(error);
        }
        self.batch.lines.flush(&self.memory);
        self.master.write(&self.memory, self.shadow.current(), self.batch.list(open));
        self.memory.fence();
        self.memory.mark(SYNC_DIRECTORY);
        self.master.publish(&self.memory, self.shadow.current());
        self.memory.fence();
        self.memory.mark(MOVE_MASTER);
        if let Err(bad) = self.memory.healthy() {
            return self.stop(bad);
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
                    self.memory.mark(MARK_PERSISTED);
                }
                if superseded > 0 {
                    self.memory.mark(RECLAIM);
                }
                Ok(())
            }
            // The batch is durable; what failed is housekeeping on a damaged pool.
            Err(error) => {
                self.stopped = Some(error.to_string());
                Ok(())
            }
        }
    }

    fn tuple<'a>(&'a self, layout: &'a TableLayout, offset: u64) -> SlotTuple<'a, E::Durable> {
        SlotTuple { memory: &self.memory, layout, offset }
    }

    /// Does once more what the last batch's list says.
    fn redo(&mut self, list: &[ListEntry]) -> Result<u64, EngineError> {
        let reclaimed = self.batch.redo(&mut self.lane, list)?;
        self.batch.lines.flush(&self.memory);
        self.memory.fence();
        Ok(reclaimed)
    }
}
impl<E: Environment> NvmCow<E> {
    fn assemble(
        (heap, lane): (&Heap<E::Durable>, Lane<E::Durable>),
        (map, places, sizes): (TreeMap, Vec<TreePlace>, Vec<u32>),
        master: PoolMaster,
        directory: Directory,
        options: &EngineOptions,
        opened: bool,
    ) -> Result<Self, EngineError> {
        let stores: Result<Vec<_>, _> = sizes
            .iter()
            .enumerate()
            .map(|(at, bytes)| {
                PoolPages::open(heap, master.extents(at), *bytes, directory.marks[at])
            })
            .collect();
        let columns = map.catalog.tables.iter().map(|table| table.schema.columns().len());
        let spare_entries = columns.max().unwrap_or(0) as u64 + 1;
        let core = Core {
            memory: heap.memory().clone(),
            lane,
            shadow: Shadow::new(stores?, places, directory, opened),
            master,
            spare_entries,
            copies: TupleCopies::default(),
            batch: ObjectBatch::default(),
            group: options.group.max(1),
            must_abort: false,
            stopped: None,
        };
        Ok(Self { map, core })
    }

    #[inline]
    fn find(&self, table: u16, key: &[Value<'_>]) -> Result<Option<u64>, EngineError> {
        find(&self.map, self.core.shadow.trees(), table, key)
    }

    #[inline]
    fn find_or_fail(&self, table: u16, key: &[Value<'_>]) -> Result<u64, EngineError> {
        self.find(table, key)?.ok_or_else(|| self.map.missing(table))
    }
}

impl<E: Environment> Engine<E> for NvmCow<E> {
    const KIND: EngineKind = EngineKind::NvmCow;

    fn create(
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        options: &EngineOptions,
    ) -> Result<Self, EngineError> {
        let heap = &resources.durable;
        let map = TreeMap::new(catalog);
        let (places, sizes) = places(&map, options.tree_node_bytes)?;
        let mut lane = heap.lane(resources.partition);
        let directory = map.directory(sizes.len());
        let parameter = u64::from(options.tree_node_bytes);
        let master = PoolMaster::create(&mut lane, &directory, parameter)?;
        let root = master.root();
        let parts = (map, places, sizes);
        let partition = Self::assemble((heap, lane), parts, master, directory, options, false)?;
        heap.set_root(&root_name(resources.partition), root)?;
        Ok(partition)
    }

    fn open(
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        options: &EngineOptions,
    ) -> Result<(Self, RecoveryReport), EngineError> {
        let (heap, name) = (&resources.durable, root_name(resources.partition));
        let root = heap.root(&name)?;
        let root = root.ok_or(EngineError::Missing { what: name })?;
        let map = TreeMap::new(catalog);
        let node_bytes = PoolMaster::parameter(heap.memory(), root)?;
        let node_bytes = u32::try_from(node_bytes)
            .map_err(|_| Bad::Damaged { what: "master record", at: root })?;
        let (places, sizes) = places(&map, node_bytes)?;
        let mut directory = map.directory(sizes.len());
        let (master, list) = PoolMaster::open(heap, root, &mut directory)?;
        let lane = heap.lane(resources.partition);
        let parts = (map, places, sizes);
        let mut partition = Self::assemble((heap, lane), parts, master, directory, options, true)?;
        let reclaimed = partition.core.redo(&list)?;
        Ok((partition, RecoveryReport { reclaimed, ..RecoveryReport::default() }))
    }

    #[inline]
    fn insert(&mut self, table: u16, values: &[Value<'_>]) -> Result<(), EngineError> {
        let Self { map, core } = self;
        core.usable()?;
        let layout = &**map.layout(table);
        layout.check_tuple(values)?;
        let key = layout.primary_key_of(values)?;
        let (tree, mut narrow) = (map.tree(table, 0), [0; 8]);
        let key = key.bytes(&mut narrow);
        if core.shadow.trees().get(tree, key, |_| ())?.is_some() {
            return Err(map.duplicate(table));
        }
        let needs = core.needs(tree..tree + layout.index_count());
        let tuple = core.write(&needs, values.len() as u64 + 1, |copies, lane| {
            copies.write(lane, layout, values)
        })?;
        core.change(|core| {
            core.shadow.insert(tree, key, &tuple.to_le_bytes())?;
            core.memory.mark(STORE_POINTER);
            for index in 1..layout.index_count() {
                let key = core.tuple(layout, tuple).key(index)?;
                core.shadow.insert(tree + index, key.bytes(&mut [0; 8]), &[])?;
            }
            core.memory.mark(ADD_TO_SECONDARY);
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
        self.core.usable()?;
        let old = self.find_or_fail(table, key)?;
        if changes.is_empty() {
            return Ok(());
        }
        let Self { map, core } = self;
        let layout = &**map.layout(table);
        layout.check_changes(changes)?;
        let tree = map.tree(table, 0);
        let indexes = || (1..layout.index_count()).filter(|at| layout.index_has(*at, changes));
        let trees = || indexes().map(|index| tree + index);
        let needs = core.needs(std::iter::once(tree).chain(trees()).chain(trees()));
        let new = core.write(&needs, 2 * (changes.len() as u64 + 1), |copies, lane| {
            copies.copy(lane, layout, old, changes)
        })?;
        core.memory.mark(COPY_TUPLE);
        core.memory.mark(CHANGE_COPY);
        let key = layout.primary_key(key)?;
        core.change(|core| {
            core.shadow.replace(tree, key.bytes(&mut [0; 8]), &new.to_le_bytes())?;
            core.memory.mark(STORE_POINTER);
            for index in indexes() {
                let before = core.tuple(layout, old).key(index)?;
                let after = core.tuple(layout, new).key(index)?;
                if before != after {
                    core.shadow.remove(tree + index, before.bytes(&mut [0; 8]))?;
                    core.shadow.insert(tree + index, after.bytes(&mut [0; 8]), &[])?;
                }
            }
            core.memory.mark(ADD_TO_SECONDARY);
            Ok(())
        })
    }

    fn delete(&mut self, table: u16, key: &[Value<'_>]) -> Result<(), EngineError> {
        self.core.usable()?;
        let tuple = self.find_or_fail(table, key)?;
        let Self { map, core } = self;
        let (layout, tree) = (&**map.layout(table), map.tree(table, 0));
        let needs = core.needs(tree..tree + layout.index_count());
        core.reserve(&needs, layout.schema.columns().len() as u64 + 1, false)?;
        let key = layout.primary_key(key)?;
        core.change(|core| {
            let Core { memory, batch, shadow, .. } = core;
            let stored = SlotTuple { memory: &*memory, layout, offset: tuple };
            stored.slots(|slot| batch.replaced(slot))?;
            shadow.remove(tree, key.bytes(&mut [0; 8]))?;
            memory.mark(REMOVE_POINTER);
            for index in 1..layout.index_count() {
                shadow.remove(tree + index, stored.key(index)?.bytes(&mut [0; 8]))?;
            }
            memory.mark(DISCARD_SECONDARY);
            *shadow.tuples(table) -= 1;
            Ok(())
        })
    }

    #[inline]
    fn get(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: Option<&[u16]>,
        row: &mut Row,
    ) -> Result<bool, EngineError> {
        self.core.usable()?;
        sound(&self.core.memory, || {
            let Some(tuple) = self.find(table, key)? else { return Ok(false) };
            self.core.memory.mark(FIND);
            self.core.tuple(self.map.layout(table), tuple).read(columns, row)?;
            self.core.memory.mark(RETRIEVE);
            Ok(true)
        })
    }

    #[inline]
    fn get_bytes(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: &[u16],
        out: &mut [u8],
    ) -> Result<Option<usize>, EngineError> {
        self.core.usable()?;
        sound(&self.core.memory, || {
            let Some(tuple) = self.find(table, key)? else { return Ok(None) };
            self.core.memory.mark(FIND);
            let bytes = self.core.tuple(self.map.layout(table), tuple).read_bytes(columns, out)?;
            self.core.memory.mark(RETRIEVE);
            Ok(Some(bytes))
        })
    }

    fn scan(
        &self,
        table: u16,
        what: &Scan<'_>,
        row: &mut Row,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<(), EngineError> {
        self.core.usable()?;
        scan(&self.map, self.core.shadow.trees(), &self.core.memory, table, what, row, visit)
    }

    #[inline]
    fn commit(&mut self) -> Result<(u64, bool), EngineError> {
        self.core.usable()?;
        if !self.core.shadow.is_changed() {
            return Ok((self.core.shadow.committed(), self.core.shadow.pending() == 0));
        }
        let alone = self.core.group == 1 && self.core.shadow.pending() == 0;
        let number = self.core.shadow.commit(alone);
        self.core.batch.commit(&mut self.core.lane, number, self.core.shadow.pins());
        if self.core.shadow.pending() >= self.core.group {
            self.core.end_batch()?;
        }
        if let Err(error) = self.core.shadow.collect(COLLECT_PAGES) {
            // The transaction is committed; what failed is housekeeping on a damaged pool.
            self.core.stopped = Some(error.to_string());
        }
        self.core.forget_snapshots();
        Ok((number, self.core.shadow.pending() == 0))
    }

    fn abort(&mut self) -> Result<(), EngineError> {
        self.core.must_abort = false;
        self.core.usable()?;
        self.core.shadow.abort();
        self.core.batch.abort(&mut self.core.lane);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), EngineError> {
        self.core.usable()?;
        if self.core.shadow.pending() > 0 { self.core.end_batch() } else { Ok(()) }
    }

    fn durable(&self) -> u64 {
        self.core.shadow.durable()
    }

    fn checkpoint(&mut self) -> Result<(), EngineError> {
        self.core.usable()
    }

    fn close(&mut self) -> Result<(), EngineError> {
        self.abort()?;
        self.sync()?;
        self.core.batch.lines.flush(&self.core.memory);
        self.core.memory.fence();
        Ok(())
    }

    fn snapshot_source(&self) -> Option<Arc<dyn SnapshotSource>> {
        let (snapshots, map) = (self.core.shadow.snapshots().clone(), self.map.clone());
        Some(Arc::new(NvmCowSnapshots { snapshots, map, memory: self.core.memory.clone() }))
    }

    fn background(&mut self, budget: u64) -> Result<u64, EngineError> {
        self.core.usable()?;
        self.core.shadow.release_unpinned();
        self.core.shadow.collect((budget / 256).max(1))?;
        self.core.forget_snapshots();
        Ok(self.core.shadow.uncollected() * 256)
    }

    fn footprint(&self) -> Result<Footprint, EngineError> {
        // Everything lies in the heap, whose chunks say what they are for.
        Ok(Footprint::default())
    }

    fn check(&self, reachable: &mut dyn FnMut(u64)) -> Result<u64, EngineError> {
        self.core.master.objects(&self.core.memory, &mut *reachable)?;
        for store in self.core.shadow.stores() {
            store.backend().for_each_extent(&mut *reachable)?;
        }
        self.core.batch.superseded(&mut *reachable);
        let trees = self.core.shadow.trees();
        let mut counts = vec![0; self.map.catalog.index_count()];
        let mut failed = None;
        let mut check = |tree: usize, key: &[u8], value: &[u8]| -> Result<(), EngineError> {
            counts[tree] += 1;
            let (table, index) = self.map.owner(tree);
            if index > 0 {
                return Ok(());
            }
            let tuple = self.core.tuple(self.map.layout(table), pointer(value));
            tuple.read(None, &mut Row::new())?;
            tuple.slots(|slot| {
                if !self.core.batch.is_new(slot) {
                    reachable(slot);
                }
            })?;
            for index in 0..self.map.layout(table).index_count() {
                let (owned, mut narrow) = (tuple.key(index)?, [0; 8]);
                let stored = owned.bytes(&mut narrow);
                let found = match index {
                    0 => stored == key,
                    _ => trees.get(tree + index, stored, |_| ())?.is_some(),
                };
                if !found {
                    return Err(dangling());
                }
            }
            Ok(())
        };
        self.core.shadow.check(|tree, key, value| {
            if failed.is_none() {
                failed = check(tree, key, value).err();
            }
            Ok(())
        })?;
        failed.map_or(Ok(()), Err)?;
        self.map.check_counts(self.core.shadow.current(), &counts)
    }
}

/// The tuple's place, as a leaf has it.
#[inline]
fn pointer(value: &[u8]) -> u64 {
    value.try_into().map_or(u64::MAX, u64::from_le_bytes)
}

#[inline]
fn find<M: Memory>(
    map: &TreeMap,
    trees: Trees<'_, PoolSource<M>>,
    table: u16,
    key: &[Value<'_>],
) -> Result<Option<u64>, EngineError> {
    map.find(trees, table, key, pointer)
}

fn scan<M: Memory>(
    map: &TreeMap,
    trees: Trees<'_, PoolSource<M>>,
    memory: &M,
    table: u16,
    what: &Scan<'_>,
    row: &mut Row,
    visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
) -> Result<(), EngineError> {
    let layout = map.layout(table);
    sound(memory, || {
        map.scan(trees, table, what, |value| {
            SlotTuple { memory, layout, offset: pointer(value) }.read(what.columns, row)?;
            Ok(visit(row))
        })
    })
}

/// Takes snapshots of a partition.
#[derive(Debug)]
struct NvmCowSnapshots<M> {
    snapshots: Snapshots<PoolSource<M>>,
    map: TreeMap,
    memory: M,
}

impl<M: Memory> SnapshotSource for NvmCowSnapshots<M> {
    fn snapshot(&self) -> Result<Box<dyn Reader>, EngineError> {
        readable(&self.memory, self.snapshots.stopped())?;
        let (trees, map) = (self.snapshots.take(), self.map.clone());
        Ok(Box::new(NvmCowSnapshot { trees, map, memory: self.memory.clone() }))
    }
}

/// A version of a partition.
#[derive(Debug)]
struct NvmCowSnapshot<M> {
    trees: SnapshotTrees<PoolSource<M>>,
    map: TreeMap,
    memory: M,
}

impl<M: Memory> Reader for NvmCowSnapshot<M> {
    fn get(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: Option<&[u16]>,
        row: &mut Row,
    ) -> Result<bool, EngineError> {
        readable(&self.memory, self.trees.stopped())?;
        sound(&self.memory, || {
            let found = find(&self.map, self.trees.trees(), table, key)?;
            let Some(offset) = found else { return Ok(false) };
            let layout = self.map.layout(table);
            SlotTuple { memory: &self.memory, layout, offset }.read(columns, row)?;
            Ok(true)
        })
    }

    fn get_bytes(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: &[u16],
        out: &mut [u8],
    ) -> Result<Option<usize>, EngineError> {
        readable(&self.memory, self.trees.stopped())?;
        sound(&self.memory, || {
            let found = find(&self.map, self.trees.trees(), table, key)?;
            let Some(offset) = found else { return Ok(None) };
            let layout = self.map.layout(table);
            let tuple = SlotTuple { memory: &self.memory, layout, offset };
            Ok(Some(tuple.read_bytes(columns, out)?))
        })
    }

    fn scan(
        &self,
        table: u16,
        what: &Scan<'_>,
        row: &mut Row,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<(), EngineError> {
        readable(&self.memory, self.trees.stopped())?;
        scan(&self.map, self.trees.trees(), &self.memory, table, what, row, visit)
    }
}
