//! CoW: copy-on-write updates (P1 3.2), after System R's shadow paging with LMDB's trees.
//!
//! Tuples stand whole in the leaves of copy-on-write trees, whose pages lie in a file behind a
//! cache. Nothing that is committed is ever written over: the current directory stays as it is
//! while transactions build the dirty one, and the master record is moved to that for a group of
//! them. Our Table 2 for it (`docs/paper/table2.md`):
//!
//! | operation | steps |
//! |---|---|
//! | INSERT | copy the pages on the way to the tuple's place, the tuple in them; the same in each secondary index |
//! | UPDATE | make the changed tuple from a copy; the same, in those indexes that have a changed column |
//! | DELETE | the same, without the tuple |
//! | COMMIT | the dirty directory becomes the current one; for a group: write its pages, sync, move the master record, sync |
//! | ABORT | forget the dirty directory |
//!
//! There is nothing to recover. The pages of a dirty directory that a crash left behind are found
//! by walking the current one, a few pages with each commit, or by [`Engine::background`].
//!
//! Invariants: those of [`Shadow`] and [`FileMaster`].

use std::ops::ControlFlow;
use std::sync::Arc;

use heap::HeapError;
use index::IndexError;
use index::cow::{FilePages, PageBackend, PageSource, Records, TreeShape};
use pm::{Environment, Files, Memory};
use storage::shadow::{
    Directory, FileMaster, Needs, Shadow, SnapshotTrees, Snapshots, TreePlace, Trees,
};
use storage::{Catalog, InlineRow, Row, TableLayout, Value, encode_row};

use crate::contract::{
    Engine, EngineKind, EngineOptions, Footprint, Reader, RecoveryReport, Resources, Scan,
    SnapshotSource,
};
use crate::error::EngineError;
use crate::shadow_tables::{TreeMap, dangling, readable};

type FileOf<E> = <<E as Environment>::Files as Files>::File;
type Pages<E> = FilePages<FileOf<E>, <E as Environment>::Volatile>;

/// Pages that a commit looks at while a dead directory is being collected.
const COLLECT_PAGES: u64 = 32;

/// A partition of CoW; see the module's comment.
#[derive(Debug)]
pub struct Cow<E: Environment> {
    shadow: Shadow<Pages<E>>,
    master: FileMaster,
    map: TreeMap,
    /// The pool, which holds only the description: asked whether it, and with it this process, is
    /// still good.
    pool: E::Durable,
    group: u32,
    /// The stored row that an operation is about, and what it will be.
    old: Vec<u8>,
    new: Vec<u8>,
    /// A part of an operation could not be done: the transaction can only abort.
    must_abort: bool,
    stopped: Option<String>,
}

fn file_name(partition: u32) -> String {
    format!("cow-{partition}")
}

/// Tells the file of a partition of this database from others.
fn owner(catalog: &Catalog, partition: u32) -> u64 {
    u64::from(catalog.fingerprint()) << 32 | u64::from(partition)
}

/// Bytes of the longest row of a table.
fn longest_row(layout: &TableLayout) -> usize {
    let columns = layout.schema.columns();
    columns.iter().map(|column| 8 + column.kind.max_bytes().unwrap_or(0) as usize).sum()
}

fn files_of<E: Environment>(resources: &Resources<E>) -> Result<E::Files, EngineError> {
    let missing = || EngineError::Missing { what: "directory of files".into() };
    resources.files.clone().ok_or_else(missing)
}

impl<E: Environment> Cow<E> {
    fn usable(&self) -> Result<(), EngineError> {
        match &self.stopped {
            Some(why) => Err(EngineError::Stopped { why: why.clone() }),
            None if self.must_abort => Err(EngineError::MustAbort),
            None => Ok(self.pool.healthy()?),
        }
    }

    fn stop<T>(&mut self, error: impl Into<EngineError>) -> Result<T, EngineError> {
        let error = error.into();
        self.shadow.stop(&error.to_string());
        self.stopped = Some(error.to_string());
        Err(error)
    }

    fn assemble(
        resources: &Resources<E>,
        catalog: &Arc<Catalog>,
        options: &EngineOptions,
        (master, file): (FileMaster, FileOf<E>),
        directory: Directory,
        opened: bool,
    ) -> Result<Self, EngineError> {
        let (map, page_bytes) = (TreeMap::new(catalog), master.page_bytes());
        let places: Result<Vec<_>, EngineError> = map
            .trees()
            .map(|(layout, table, index)| {
                let key_bytes = layout.key_bytes(index);
                // Tuples differ in length; what leads to them does not.
                let records = match index {
                    0 => Records::Slotted,
                    _ => Records::Packed { key_bytes: key_bytes as u16, value_bytes: 0 },
                };
                let shape = TreeShape::new(page_bytes, records, key_bytes as u32)?
                    .with_longest_value(key_bytes, longest_row(layout));
                Ok(TreePlace { shape, store: 0, table })
            })
            .collect();
        let pages = FilePages::open(
            file,
            master.data_at(),
            page_bytes,
            (directory.marks[0], directory.transaction),
            resources.volatile.clone(),
            options.cache_bytes,
        )?;
        Ok(Self {
            shadow: Shadow::new(vec![pages], places?, directory, opened),
            master,
            map,
            pool: resources.durable.memory().clone(),
            group: options.group.max(1),
            old: Vec::new(),
            new: Vec::new(),
            must_abort: false,
            stopped: None,
        })
    }

    /// Makes room for a change. If there is none, what only waits for a batch to end or for the
    /// collection is freed first.
    fn reserve(&mut self, needs: &Needs, spare: bool) -> Result<(), EngineError> {
        match self.shadow.reserve(needs, spare, &mut ()) {
            Err(IndexError::Heap(HeapError::Full(_))) => {}
            done => return Ok(done?),
        }
        self.shadow.release_unpinned();
        self.end_batch()?;
        while !self.shadow.collect(u64::MAX)? {}
        Ok(self.shadow.reserve(needs, spare, &mut ())?)
    }

    /// What a change of the indexes among `indexes` and of the tuple may take.
    fn needs(&self, table: u16, indexes: impl Iterator<Item = usize>, row_bytes: usize) -> Needs {
        let mut needs = Needs::default();
        let (tree, key_bytes) = (self.map.tree(table, 0), self.map.layout(table).key_bytes(0));
        let overflow = self.shadow.overflow_pages(tree, key_bytes, row_bytes);
        self.shadow.need(&mut needs, tree, overflow);
        indexes.for_each(|index| self.shadow.need(&mut needs, self.map.tree(table, index), 0));
        needs
    }

    /// Runs the part of an operation that changes trees. If it fails, half of it may be done.
    fn change<T>(
        &mut self,
        act: impl FnOnce(&mut Self) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let done = act(self);
        self.must_abort |= done.is_err();
        done
    }

    /// Puts the stored row of a key into `self.old`.
    fn load(&mut self, table: u16, key: &[Value<'_>]) -> Result<(), EngineError> {
        let mut old = std::mem::take(&mut self.old);
        let found = self.map.find(self.shadow.trees(), table, key, |row| {
            old.clear();
            old.extend_from_slice(row);
        });
        self.old = old;
        found?.ok_or_else(|| self.map.missing(table))
    }

    /// Makes all committed transactions durable.
    fn end_batch(&mut self) -> Result<(), EngineError> {
        if self.shadow.pending() == 0 {
            return Ok(());
        }
        if let Err(error) = self.write_batch() {
            return self.stop(error);
        }
        self.shadow.settle();
        if let Err(error) = self.shadow.look_ahead(&mut ()) {
            // The batch is durable; what failed is housekeeping.
            self.stopped = Some(error.to_string());
        }
        Ok(())
    }

    fn write_batch(&mut self) -> Result<(), EngineError> {
        self.shadow.write_back()?;
        let store = self.shadow.stores().next().ok_or_else(dangling)?;
        let file = store.backend().file();
        self.master.sync_pages(file)?;
        Ok(self.master.move_to(file, self.shadow.current())?)
    }
}

impl<E: Environment> Engine<E> for Cow<E> {
    const KIND: EngineKind = EngineKind::Cow;

    fn create(
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        options: &EngineOptions,
    ) -> Result<Self, EngineError> {
        let files = files_of(&resources)?;
        let directory = TreeMap::new(catalog).directory(1);
        let owner = owner(catalog, resources.partition);
        let name = file_name(resources.partition);
        let master = FileMaster::create(&files, &name, options.page_bytes, owner, &directory)?;
        Self::assemble(&resources, catalog, options, master, directory, false)
    }

    fn open(
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        options: &EngineOptions,
    ) -> Result<(Self, RecoveryReport), EngineError> {
        let files = files_of(&resources)?;
        let mut directory = TreeMap::new(catalog).directory(1);
        let owner = owner(catalog, resources.partition);
        let name = file_name(resources.partition);
        let master = FileMaster::open(&files, &name, owner, &mut directory)?;
        let second_copies = u64::from(master.0.is_second_copy());
        let partition = Self::assemble(&resources, catalog, options, master, directory, true)?;
        Ok((partition, RecoveryReport { second_copies, ..RecoveryReport::default() }))
    }

    fn insert(&mut self, table: u16, values: &[Value<'_>]) -> Result<(), EngineError> {
        self.usable()?;
        let layout = self.map.layout(table).clone();
        encode_row(&layout, values, &mut self.new)?;
        let key = layout.primary_key_of(values)?;
        let (tree, mut narrow) = (self.map.tree(table, 0), [0; 8]);
        let key = key.bytes(&mut narrow);
        if self.shadow.trees().get(tree, key, |_| ())?.is_some() {
            return Err(self.map.duplicate(table));
        }
        let needs = self.needs(table, 1..layout.index_count(), self.new.len());
        self.reserve(&needs, true)?;
        self.change(|this| {
            this.shadow.insert(tree, key, &this.new)?;
            let row = InlineRow::new(&layout, &this.new)?;
            for index in 1..layout.index_count() {
                this.shadow.insert(tree + index, row.key(index)?.bytes(&mut [0; 8]), &[])?;
            }
            *this.shadow.tuples(table) += 1;
            Ok(())
        })
    }

    fn update(
        &mut self,
        table: u16,
        key: &[Value<'_>],
        changes: &[(u16, Value<'_>)],
    ) -> Result<(), EngineError> {
        self.usable()?;
        self.load(table, key)?;
        if changes.is_empty() {
            return Ok(());
        }
        let layout = self.map.layout(table).clone();
        layout.check_changes(changes)?;
        InlineRow::new(&layout, &self.old)?.with_changes(changes, &mut self.new)?;
        let indexes = || (1..layout.index_count()).filter(|at| layout.index_has(*at, changes));
        let needs = self.needs(table, indexes().chain(indexes()), self.new.len());
        self.reserve(&needs, true)?;
        let (tree, key) = (self.map.tree(table, 0), layout.primary_key(key)?);
        self.change(|this| {
            this.shadow.replace(tree, key.bytes(&mut [0; 8]), &this.new)?;
            for index in indexes() {
                let before = InlineRow::new(&layout, &this.old)?.key(index)?;
                let after = InlineRow::new(&layout, &this.new)?.key(index)?;
                if before != after {
                    this.shadow.remove(tree + index, before.bytes(&mut [0; 8]))?;
                    this.shadow.insert(tree + index, after.bytes(&mut [0; 8]), &[])?;
                }
            }
            Ok(())
        })
    }

    fn delete(&mut self, table: u16, key: &[Value<'_>]) -> Result<(), EngineError> {
        self.usable()?;
        self.load(table, key)?;
        let layout = self.map.layout(table).clone();
        let needs = self.needs(table, 1..layout.index_count(), 0);
        self.reserve(&needs, false)?;
        let (tree, key) = (self.map.tree(table, 0), layout.primary_key(key)?);
        self.change(|this| {
            this.shadow.remove(tree, key.bytes(&mut [0; 8]))?;
            let row = InlineRow::new(&layout, &this.old)?;
            for index in 1..layout.index_count() {
                this.shadow.remove(tree + index, row.key(index)?.bytes(&mut [0; 8]))?;
            }
            *this.shadow.tuples(table) -= 1;
            Ok(())
        })
    }

    fn get(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: Option<&[u16]>,
        row: &mut Row,
    ) -> Result<bool, EngineError> {
        self.usable()?;
        get(&self.map, self.shadow.trees(), table, key, columns, row)
    }

    fn get_bytes(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: &[u16],
        out: &mut [u8],
    ) -> Result<Option<usize>, EngineError> {
        self.usable()?;
        get_bytes(&self.map, self.shadow.trees(), table, key, columns, out)
    }

    fn scan(
        &self,
        table: u16,
        what: &Scan<'_>,
        row: &mut Row,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<(), EngineError> {
        self.usable()?;
        scan(&self.map, self.shadow.trees(), table, what, row, visit)
    }

    fn commit(&mut self) -> Result<(u64, bool), EngineError> {
        self.usable()?;
        if !self.shadow.is_changed() {
            return Ok((self.shadow.committed(), self.shadow.pending() == 0));
        }
        let alone = self.group == 1 && self.shadow.pending() == 0;
        let number = self.shadow.commit(alone);
        if self.shadow.pending() >= self.group {
            self.end_batch()?;
        }
        if let Err(error) = self.shadow.collect(COLLECT_PAGES) {
            // The transaction is committed; what failed is housekeeping on a damaged file.
            self.stopped = Some(error.to_string());
        }
        Ok((number, self.shadow.pending() == 0))
    }

    fn abort(&mut self) -> Result<(), EngineError> {
        self.must_abort = false;
        self.usable()?;
        self.shadow.abort();
        Ok(())
    }

    fn sync(&mut self) -> Result<(), EngineError> {
        self.usable()?;
        self.end_batch()
    }

    fn durable(&self) -> u64 {
        self.shadow.durable()
    }

    fn checkpoint(&mut self) -> Result<(), EngineError> {
        self.usable()
    }

    fn close(&mut self) -> Result<(), EngineError> {
        self.abort()?;
        self.end_batch()?;
        // Both copies of the master record are the same then: either may be damaged.
        let store = self.shadow.stores().next().ok_or_else(dangling)?;
        match self.master.finish(store.backend().file()) {
            Ok(()) => Ok(()),
            Err(error) => self.stop(error),
        }
    }

    fn snapshot_source(&self) -> Option<Arc<dyn SnapshotSource>> {
        let snapshots = self.shadow.snapshots().clone();
        Some(Arc::new(CowSnapshots { snapshots, map: self.map.clone(), pool: self.pool.clone() }))
    }

    fn background(&mut self, budget: u64) -> Result<u64, EngineError> {
        self.usable()?;
        self.shadow.release_unpinned();
        let page_bytes = u64::from(self.master.page_bytes());
        self.shadow.collect((budget / page_bytes).max(1))?;
        Ok(self.shadow.uncollected() * page_bytes)
    }

    fn footprint(&self) -> Result<Footprint, EngineError> {
        // Tuples stand in the trees' leaves: table and index are one file.
        let pages = self.shadow.stores().map(|store| store.backend().bytes()).sum::<u64>();
        Ok(Footprint { table: pages, other: self.master.data_at(), ..Footprint::default() })
    }

    fn check(&self, _: &mut dyn FnMut(u64)) -> Result<u64, EngineError> {
        let trees = self.shadow.trees();
        let mut counts = vec![0; self.map.catalog.index_count()];
        let mut failed = None;
        let mut check = |tree: usize, key: &[u8], value: &[u8]| -> Result<(), EngineError> {
            counts[tree] += 1;
            let (table, index) = self.map.owner(tree);
            let layout = self.map.layout(table);
            if index > 0 {
                return Ok(());
            }
            let row = InlineRow::new(layout, value)?;
            row.read(None, &mut Row::new())?;
            for index in 0..layout.index_count() {
                let (owned, mut narrow) = (row.key(index)?, [0; 8]);
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
        self.shadow.check(|tree, key, value| {
            if failed.is_none() {
                failed = check(tree, key, value).err();
            }
            Ok(())
        })?;
        failed.map_or(Ok(()), Err)?;
        self.map.check_counts(self.shadow.current(), &counts)
    }
}

fn get<S: PageSource>(
    map: &TreeMap,
    trees: Trees<'_, S>,
    table: u16,
    key: &[Value<'_>],
    columns: Option<&[u16]>,
    row: &mut Row,
) -> Result<bool, EngineError> {
    let layout = map.layout(table);
    let found =
        map.find(trees, table, key, |stored| InlineRow::new(layout, stored)?.read(columns, row))?;
    Ok(found.transpose()?.is_some())
}

fn get_bytes<S: PageSource>(
    map: &TreeMap,
    trees: Trees<'_, S>,
    table: u16,
    key: &[Value<'_>],
    columns: &[u16],
    out: &mut [u8],
) -> Result<Option<usize>, EngineError> {
    let layout = map.layout(table);
    let found = map.find(trees, table, key, |stored| {
        InlineRow::new(layout, stored)?.read_bytes(columns, out)
    })?;
    Ok(found.transpose()?)
}

fn scan<S: PageSource>(
    map: &TreeMap,
    trees: Trees<'_, S>,
    table: u16,
    what: &Scan<'_>,
    row: &mut Row,
    visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
) -> Result<(), EngineError> {
    let layout = map.layout(table);
    map.scan(trees, table, what, |stored| {
        InlineRow::new(layout, stored)?.read(what.columns, row)?;
        Ok(visit(row))
    })
}

/// Takes snapshots of a partition.
#[derive(Debug)]
struct CowSnapshots<S, M> {
    snapshots: Snapshots<S>,
    map: TreeMap,
    pool: M,
}

impl<S: PageSource, M: Memory> SnapshotSource for CowSnapshots<S, M> {
    fn snapshot(&self) -> Result<Box<dyn Reader>, EngineError> {
        let Self { snapshots, map, pool } = self;
        readable(pool, snapshots.stopped())?;
        let (trees, map, pool) = (snapshots.take(), map.clone(), pool.clone());
        Ok(Box::new(CowSnapshot { trees, map, pool }))
    }
}

/// A version of a partition.
#[derive(Debug)]
struct CowSnapshot<S, M> {
    trees: SnapshotTrees<S>,
    map: TreeMap,
    /// Keeps the database's lock, and others out of the file.
    pool: M,
}

impl<S: PageSource, M: Memory> Reader for CowSnapshot<S, M> {
    fn get(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: Option<&[u16]>,
        row: &mut Row,
    ) -> Result<bool, EngineError> {
        readable(&self.pool, self.trees.stopped())?;
        get(&self.map, self.trees.trees(), table, key, columns, row)
    }

    fn get_bytes(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: &[u16],
        out: &mut [u8],
    ) -> Result<Option<usize>, EngineError> {
        readable(&self.pool, self.trees.stopped())?;
        get_bytes(&self.map, self.trees.trees(), table, key, columns, out)
    }

    fn scan(
        &self,
        table: u16,
        what: &Scan<'_>,
        row: &mut Row,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<(), EngineError> {
        readable(&self.pool, self.trees.stopped())?;
        scan(&self.map, self.trees.trees(), table, what, row, visit)
    }
}
