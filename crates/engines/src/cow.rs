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

mod options;
mod stats;

use std::ops::ControlFlow;
use std::sync::Arc;

use heap::HeapError;
use index::cow::{Records, TreeShape};
use index::pages::{FilePages, PageBackend};
use index::{IndexError, WIDE_KEY_BYTES};
use pm::{Bad, Bytes, Component, Environment, Files, Memory, observe};
use storage::shadow::{Directory, FileMaster, MasterError, Needs, Shadow, TreePlace};
use storage::{
    Catalog, InlineRow, Row, StoredRow, TableKey, TableLayout, Value, WorkDone, encode_row,
    user_bytes,
};

use crate::contract::{
    Early, Engine, Footprint, Method, Read, RecoveryReport, Resources, Scan, SnapshotSource, Write,
};
use crate::error::EngineError;
use crate::kind::EngineKind;
use crate::options::Setup;
use crate::shadow_tables::{TreeMap, collect_pages, dangling, stop, stop_after};
use crate::shadow_view::{ShadowSnapshots, TupleForm, View, check};
use crate::state::State;
use crate::stats::EngineStats;
use crate::traits::{DurableIn, EngineTraits};

pub use options::CowOptions;
pub use stats::CowStats;

type FileOf<E> = <<E as Environment>::Files as Files>::File;
type Pages<E> = FilePages<FileOf<E>, <E as Environment>::Volatile>;

/// A partition of CoW; see the module's comment.
#[derive(Debug)]
pub struct Cow<E: Environment> {
    shadow: Shadow<Pages<E>>,
    master: FileMaster,
    map: TreeMap<Arc<TableLayout>>,
    tuples: Inlined<E::Durable>,
    group: u32,
    /// The stored row that an operation is about, and what it will be.
    old: Vec<u8>,
    new: Vec<u8>,
    state: State,
    /// Pages that a commit looks at while a dead directory is being collected.
    collect_pages: u64,
    user_bytes: u64,
    failures: u64,
    background: WorkDone,
}

fn file_name(partition: u32) -> String {
    format!("cow-{partition}")
}

/// Tells the file of a partition of this database from others.
fn owner(files: &impl Files, catalog: &Catalog, partition: u32) -> u64 {
    u64::from(catalog.fingerprint() ^ files.stamp()) << 32 | u64::from(partition)
}

/// Bytes of the longest row of a table.
fn longest_row(layout: &TableLayout) -> usize {
    let columns = layout.schema.columns();
    columns.iter().map(|column| 8 + column.kind.max_bytes().unwrap_or(0) as usize).sum()
}

/// Bytes of a page: those of the options, or as many as four of the widest keys take if they are
/// long, so that the size that is the default does for any schema.
fn page_bytes(catalog: &Catalog, options: &CowOptions) -> u32 {
    let widths = catalog.tables.iter().flat_map(|table| {
        (0..table.index_count())
            .map(|index| table.key_bytes(index))
            .filter(|width| *width > WIDE_KEY_BYTES)
    });
    let needed = widths.max().map_or(0, |width| TreeShape::least_page_bytes(width as u32));
    options.page_bytes.max(needed)
}

impl<E: Environment> Cow<E> {
    fn assemble(
        resources: &Resources<E>,
        catalog: &Arc<Catalog>,
        (setup, options): (&Setup, &CowOptions),
        (master, file): (FileMaster, FileOf<E>),
        directory: Directory,
        opened: bool,
    ) -> Result<Self, EngineError> {
        let (map, page_bytes) = (TreeMap::new(catalog.tables.iter().cloned()), master.page_bytes());
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
        );
        let pages = pages.map_err(|error| match error {
            IndexError::Bad(Bad::Damaged { what, .. }) => {
                MasterError::Damaged { name: file_name(resources.partition), what }.into()
            }
            other => EngineError::from(other),
        })?;
        Ok(Self {
            shadow: Shadow::new(vec![pages], places?, directory, opened),
            master,
            map,
            tuples: Inlined { pool: resources.durable.memory().clone() },
            group: setup.group.max(1),
            old: Vec::new(),
            new: Vec::new(),
            state: State::default(),
            collect_pages: collect_pages(setup),
            user_bytes: 0,
            failures: 0,
            background: WorkDone::default(),
        })
    }

    fn view(&self) -> View<'_, <Pages<E> as PageBackend>::Source, Inlined<E::Durable>> {
        View { map: &self.map, trees: self.shadow.trees(), tuples: &self.tuples }
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

    /// Returns what a change of the indexes among `indexes` and of the tuple may take.
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
        if done.is_err() {
            self.state.must_abort();
        }
        done
    }

    /// Puts the stored row of a key into `self.old`.
    fn load(&mut self, table: u16, key: &[Value<'_>]) -> Result<(), EngineError> {
        observe!(E::Durable: self.tuples.pool.enter(Component::Index));
        let mut old = std::mem::take(&mut self.old);
        let found = self.map.find(self.shadow.trees(), table, key, |row| {
            old.clear();
            row.append_to(&mut old);
        });
        self.old = old;
        found?.ok_or_else(|| self.map.missing(table))
    }

    /// Makes all committed transactions durable.
    fn end_batch(&mut self) -> Result<(), EngineError> {
        if self.shadow.pending() == 0 {
            return Ok(());
        }
        observe!(E::Durable: self.tuples.pool.enter(Component::Recovery));
        if let Err(error) = self.write_batch() {
            return stop(&mut self.state, &self.shadow, error);
        }
        self.shadow.settle();
        if let Err(error) = self.shadow.look_ahead(&mut ()) {
            // The batch is durable; what failed is housekeeping.
            self.failures += 1;
            stop_after(&mut self.state, &self.shadow, &error);
        }
        Ok(())
    }

    /// Looks for pages that a crash has left, after a commit.
    fn collect(&mut self) {
        if let Err(error) = self.shadow.collect_after_commit(self.collect_pages) {
            // The transaction is committed; what failed is housekeeping on a damaged file.
            self.failures += 1;
            stop_after(&mut self.state, &self.shadow, &error);
        }
    }

    fn write_batch(&mut self) -> Result<(), EngineError> {
        self.shadow.write_back()?;
        let store = self.shadow.stores().next().ok_or_else(dangling)?;
        let file = store.backend().file();
        self.master.sync_pages(file)?;
        Ok(self.master.move_to(file, self.shadow.current())?)
    }
}

impl<E: Environment> Method<E> for Cow<E> {
    const KIND: EngineKind = EngineKind::Cow;
    const TRAITS: EngineTraits = EngineTraits::serial(DurableIn::Files, true, true);
    const GROUPS_COMMITS: bool = true;
    type Options = CowOptions;

    fn create(
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        setup: &Setup,
        options: &CowOptions,
    ) -> Result<Self, EngineError> {
        let files = resources.own_files()?;
        let directory = TreeMap::new(catalog.tables.iter().cloned()).directory(1);
        let owner = owner(&files, catalog, resources.partition);
        let name = file_name(resources.partition);
        let page_bytes = page_bytes(catalog, options);
        let master = FileMaster::create(&files, &name, page_bytes, owner, &directory)?;
        Self::assemble(&resources, catalog, (setup, options), master, directory, false)
    }

    fn open(
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        setup: &Setup,
        options: &CowOptions,
    ) -> Result<(Self, RecoveryReport), EngineError> {
        let files = resources.own_files()?;
        let mut directory = TreeMap::new(catalog.tables.iter().cloned()).directory(1);
        let owner = owner(&files, catalog, resources.partition);
        let name = file_name(resources.partition);
        let master = FileMaster::open(&files, &name, owner, &mut directory)?;
        let second_copies = u64::from(master.0.is_second_copy());
        let partition =
            Self::assemble(&resources, catalog, (setup, options), master, directory, true)?;
        Ok((partition, RecoveryReport { second_copies, ..RecoveryReport::default() }))
    }
}

impl<E: Environment> Write for Cow<E> {
    fn insert(&mut self, table: u16, values: &[Value<'_>]) -> Result<(), EngineError> {
        self.state.usable(&self.tuples.pool)?;
        let layout = self.map.layout(table).clone();
        encode_row(&layout, values, &mut self.new)?;
        let key = layout.primary_key_of(values)?;
        let (tree, mut narrow) = (self.map.tree(table, 0), [0; 8]);
        let key = key.bytes(&mut narrow);
        observe!(E::Durable: self.tuples.pool.enter(Component::Index));
        if self.shadow.trees().get(tree, key, |_| ())?.is_some() {
            return Err(self.map.duplicate(table));
        }
        let needs = self.needs(table, 1..layout.index_count(), self.new.len());
        self.reserve(&needs, true)?;
        self.user_bytes += user_bytes(values.iter());
        self.change(|this| {
            // The trees' pages hold the tuples.
            observe!(E::Durable: this.tuples.pool.enter(Component::Storage));
            this.shadow.insert(tree, key, &this.new)?;
            let row = InlineRow::new(&layout, Bytes::from(&this.new))?;
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
        self.state.usable(&self.tuples.pool)?;
        self.load(table, key)?;
        if changes.is_empty() {
            return Ok(());
        }
        let layout = self.map.layout(table).clone();
        layout.check_changes(changes)?;
        InlineRow::new(&layout, Bytes::from(&self.old))?.with_changes(changes, &mut self.new)?;
        let indexes = || (1..layout.index_count()).filter(|at| layout.index_has(*at, changes));
        let needs = self.needs(table, indexes().chain(indexes()), self.new.len());
        self.reserve(&needs, true)?;
        self.user_bytes += user_bytes(changes.iter().map(|(_, value)| value));
        let (tree, key) = (self.map.tree(table, 0), layout.primary_key(key)?);
        self.change(|this| {
            // The trees' pages hold the tuples.
            observe!(E::Durable: this.tuples.pool.enter(Component::Storage));
            this.shadow.replace(tree, key.bytes(&mut [0; 8]), &this.new)?;
            for index in indexes() {
                let before = InlineRow::new(&layout, Bytes::from(&this.old))?.key(index)?;
                let after = InlineRow::new(&layout, Bytes::from(&this.new))?.key(index)?;
                if before != after {
                    this.shadow.remove(tree + index, before.bytes(&mut [0; 8]))?;
                    this.shadow.insert(tree + index, after.bytes(&mut [0; 8]), &[])?;
                }
            }
            Ok(())
        })
    }

    fn delete(&mut self, table: u16, key: &[Value<'_>]) -> Result<(), EngineError> {
        self.state.usable(&self.tuples.pool)?;
        self.load(table, key)?;
        let layout = self.map.layout(table).clone();
        let needs = self.needs(table, 1..layout.index_count(), 0);
        self.reserve(&needs, false)?;
        let (tree, key) = (self.map.tree(table, 0), layout.primary_key(key)?);
        self.change(|this| {
            // The trees' pages hold the tuples.
            observe!(E::Durable: this.tuples.pool.enter(Component::Storage));
            this.shadow.remove(tree, key.bytes(&mut [0; 8]))?;
            let row = InlineRow::new(&layout, Bytes::from(&this.old))?;
            for index in 1..layout.index_count() {
                this.shadow.remove(tree + index, row.key(index)?.bytes(&mut [0; 8]))?;
            }
            *this.shadow.tuples(table) -= 1;
            Ok(())
        })
    }
}

impl<E: Environment> Read for Cow<E> {
    fn get(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: Option<&[u16]>,
        row: &mut Row,
    ) -> Result<bool, EngineError> {
        self.state.usable(&self.tuples.pool)?;
        self.view().get(table, key, columns, row)
    }

    fn get_bytes(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: &[u16],
        out: &mut [u8],
    ) -> Result<Option<usize>, EngineError> {
        self.state.usable(&self.tuples.pool)?;
        self.view().get_bytes(table, key, columns, out)
    }

    fn scan(
        &self,
        table: u16,
        what: &Scan<'_>,
        row: &mut Row,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<(), EngineError> {
        self.state.usable(&self.tuples.pool)?;
        self.view().scan(table, what, row, visit)
    }
}

impl<E: Environment> Engine for Cow<E> {
    fn commit(&mut self) -> Result<(u64, bool), EngineError> {
        self.state.usable(&self.tuples.pool)?;
        if !self.shadow.is_changed() {
            return Ok((self.shadow.committed(), self.shadow.pending() == 0));
        }
        let number = self.shadow.commit(self.group == 1);
        if self.shadow.pending() >= self.group {
            self.end_batch()?;
        }
        self.collect();
        Ok((number, self.shadow.pending() == 0))
    }

    /// The batch stays open for the transactions that wait, if each would have been one by itself. A
    /// group of the user's is not to become larger.
    fn commit_early(&mut self) -> Result<Early, EngineError> {
        if self.group > 1 {
            let (number, durable) = self.commit()?;
            return Ok(Early { number, durable, due: false });
        }
        self.state.usable(&self.tuples.pool)?;
        if self.shadow.is_changed() {
            self.shadow.commit(true);
            self.collect();
        }
        let durable = self.shadow.pending() == 0;
        Ok(Early { number: self.shadow.committed(), durable, due: !durable })
    }

    fn abort(&mut self) -> Result<(), EngineError> {
        self.state.abort();
        self.state.usable(&self.tuples.pool)?;
        self.shadow.abort();
        Ok(())
    }

    fn sync(&mut self) -> Result<(), EngineError> {
        self.state.usable(&self.tuples.pool)?;
        self.end_batch()
    }

    fn durable(&self) -> u64 {
        self.shadow.durable()
    }

    fn checkpoint(&mut self) -> Result<(), EngineError> {
        self.state.usable(&self.tuples.pool)
    }

    fn is_stopped(&self) -> bool {
        self.state.is_stopped()
    }

    fn close(&mut self) -> Result<(), EngineError> {
        self.abort()?;
        self.end_batch()?;
        // Both copies of the master record are the same then: either may be damaged.
        let store = self.shadow.stores().next().ok_or_else(dangling)?;
        match self.master.finish(store.backend().file()) {
            Ok(()) => Ok(()),
            Err(error) => stop(&mut self.state, &self.shadow, error),
        }
    }

    fn snapshot_source(&self) -> Option<Arc<dyn SnapshotSource>> {
        Some(ShadowSnapshots::of(&self.shadow, &self.map, &self.tuples))
    }

    fn background(&mut self, budget: u64) -> Result<u64, EngineError> {
        self.state.usable(&self.tuples.pool)?;
        self.shadow.release_unpinned();
        let pages = (budget / u64::from(self.master.page_bytes())).max(1);
        let before = self.shadow.collected();
        let collected = self.shadow.collect(pages);
        self.background += self.shadow.collected() - before;
        match collected {
            Ok(_) => Ok(self.shadow.stats().uncollected_bytes),
            Err(error) => {
                self.failures += 1;
                stop_after(&mut self.state, &self.shadow, &error);
                Err(error.into())
            }
        }
    }

    fn has_backlog(&self) -> bool {
        self.shadow.is_collecting()
    }

    fn footprint(&self) -> Result<Footprint, EngineError> {
        let pages = self.shadow.page_use(0, |tree| self.map.owner(tree).1 == 0)?;
        let page_bytes = u64::from(self.master.page_bytes());
        let cached: u64 = self.shadow.stores().map(|store| store.backend().cached_bytes()).sum();
        Ok(Footprint {
            table: pages.table * page_bytes,
            index: pages.index * page_bytes,
            other: pages.unused * page_bytes + self.master.data_at() + cached,
            ..Footprint::default()
        })
    }

    fn stats(&self) -> EngineStats {
        let shadow = self.shadow.stats();
        EngineStats {
            user_bytes: self.user_bytes,
            logged_bytes: 0,
            failures: self.failures,
            waiting_bytes: shadow.uncollected_bytes,
            inline: shadow.collected - self.background,
            background: self.background,
            own: CowStats { pages: (&shadow).into() }.into(),
        }
    }

    fn check(&self, _: &mut dyn FnMut(u64)) -> Result<u64, EngineError> {
        check(&self.map, &self.shadow, &self.tuples, |_, _| Ok(()))
    }
}

/// Tuples that stand in the leaves. The pool holds only the description: asked whether it, and
/// with it this process, is still good.
#[derive(Clone, Debug)]
struct Inlined<M> {
    pool: M,
}

impl<M: Memory> TupleForm for Inlined<M> {
    type Memory = M;
    type Layout = Arc<TableLayout>;

    #[inline]
    fn memory(&self) -> &M {
        &self.pool
    }

    #[inline]
    fn read(
        &self,
        layout: &Arc<TableLayout>,
        stored: Bytes<'_>,
        columns: Option<&[u16]>,
        row: &mut Row,
    ) -> Result<(), EngineError> {
        Ok(InlineRow::new(layout, stored)?.read(columns, row)?)
    }

    #[inline]
    fn read_bytes(
        &self,
        layout: &Arc<TableLayout>,
        stored: Bytes<'_>,
        columns: &[u16],
        out: &mut [u8],
    ) -> Result<usize, EngineError> {
        Ok(InlineRow::new(layout, stored)?.read_bytes(columns, out)?)
    }

    fn key(
        &self,
        layout: &Arc<TableLayout>,
        stored: Bytes<'_>,
        index: usize,
    ) -> Result<TableKey, EngineError> {
        Ok(InlineRow::new(layout, stored)?.key(index)?)
    }
}
