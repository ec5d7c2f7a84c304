//! CoW: copy-on-write updates (P1 3.2), after System R's shadow paging with LMDB's trees.
//!
//! Tuples stand whole in the leaves of copy-on-write trees, whose pages lie in a file and are read
//! through a cache. Committed data is never written over: the current directory stays as it is
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
//! There is nothing to recover. Invariants: those of [`storage::shadow::Shadow`] and
//! [`FileMaster`].

mod options;
mod stats;

use std::sync::Arc;

use heap::HeapError;
use index::cow::{Records, TreeShape};
use index::pages::FilePages;
use index::{IndexError, WIDE_KEY_BYTES};
use pm::{Bad, Bytes, Component, Environment, Files, Memory, observe};
use storage::shadow::{Directory, FileMaster, MasterError, Needs, TreePlace};
use storage::{Catalog, InlineRow, StoredRow, TableLayout, Value, encode_row};

use crate::contract::{Footprint, RecoveryReport, Resources};
use crate::counts::PageStats;
use crate::error::EngineError;
use crate::kind::EngineKind;
use crate::own::OwnStats;
use crate::shadow::{
    Directories, InLeaves, Made, ShadowEngine, ShadowParts, ShadowStore, TreeMap, check, dangling,
    indexes_with,
};
use crate::traits::DurableIn;

pub use options::CowOptions;
pub use stats::CowStats;

/// A partition of CoW; see the module's comment.
pub type Cow<E> = ShadowEngine<E, InFile<E>>;

type FileOf<E> = <<E as Environment>::Files as Files>::File;
type Pages<E> = FilePages<FileOf<E>, <E as Environment>::Volatile>;
type Map = TreeMap<Arc<TableLayout>>;

/// Tuples in the leaves of trees, whose pages lie in a file.
#[derive(Debug)]
pub struct InFile<E: Environment> {
    master: FileMaster,
    tuples: InLeaves<E::Durable>,
    /// The stored row that an operation is about, and what it will be.
    old: Vec<u8>,
    new: Vec<u8>,
}

fn file_name(partition: u32) -> String {
    format!("cow-{partition}")
}

/// Returns a number that distinguishes the file of a partition of this database from others.
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

impl<E: Environment> InFile<E> {
    fn assemble(
        resources: &Resources<E>,
        options: &CowOptions,
        map: Map,
        (master, file): (FileMaster, FileOf<E>),
        directory: Directory,
    ) -> Result<Made<E, Self>, EngineError> {
        let page_bytes = master.page_bytes();
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
        let tuples = InLeaves { pool: resources.durable.memory().clone() };
        let store = Self { master, tuples, old: Vec::new(), new: Vec::new() };
        Ok((store, ShadowParts { map, stores: vec![pages], places: places?, directory }))
    }

    /// Makes room for a change. If there is none, what only waits for a batch to end or for the
    /// collection is freed first.
    fn reserve(
        &mut self,
        dirty: &mut Directories<Pages<E>>,
        needs: &Needs,
        spare: bool,
    ) -> Result<(), EngineError> {
        match dirty.shadow.reserve(needs, spare, &mut ()) {
            Err(IndexError::Heap(HeapError::Full(_))) => {}
            done => return Ok(done?),
        }
        dirty.shadow.release_unpinned();
        if dirty.shadow.pending() > 0 {
            dirty.end_batch(self)?;
        }
        while !dirty.shadow.collect(u64::MAX)? {}
        Ok(dirty.shadow.reserve(needs, spare, &mut ())?)
    }

    /// Returns what a change of the indexes among `indexes` and of the tuple may take.
    fn needs(
        dirty: &Directories<Pages<E>>,
        map: &Map,
        table: u16,
        indexes: impl Iterator<Item = usize>,
        row_bytes: usize,
    ) -> Needs {
        let (tree, key_bytes) = (map.tree(table, 0), map.layout(table).key_bytes(0));
        let mut needs = dirty.needs(indexes.map(|index| tree + index));
        let overflow = dirty.shadow.overflow_pages(tree, key_bytes, row_bytes);
        dirty.shadow.need(&mut needs, tree, overflow);
        needs
    }

    /// Puts the stored row of a key into `self.old`.
    fn load(
        &mut self,
        dirty: &Directories<Pages<E>>,
        map: &Map,
        table: u16,
        key: &[Value<'_>],
    ) -> Result<(), EngineError> {
        observe!(E::Durable: self.tuples.pool.enter(Component::Index));
        let old = &mut self.old;
        dirty.find(map, table, key, |row| {
            old.clear();
            row.append_to(old);
        })
    }
}

impl<E: Environment> ShadowStore<E> for InFile<E> {
    const KIND: EngineKind = EngineKind::Cow;
    const DURABLE_IN: DurableIn = DurableIn::Files;
    const SHARES_BATCHES: bool = true;
    type Options = CowOptions;
    type Pages = Pages<E>;
    type Tuples = InLeaves<E::Durable>;

    fn create(
        resources: &Resources<E>,
        catalog: &Arc<Catalog>,
        options: &CowOptions,
    ) -> Result<Made<E, Self>, EngineError> {
        let files = resources.own_files()?;
        let map = TreeMap::new(catalog.tables.iter().cloned());
        let directory = map.directory(1);
        let owner = owner(&files, catalog, resources.partition);
        let name = file_name(resources.partition);
        let page_bytes = page_bytes(catalog, options);
        let master = FileMaster::create(&files, &name, page_bytes, owner, &directory)?;
        Self::assemble(resources, options, map, master, directory)
    }

    fn open(
        resources: &Resources<E>,
        catalog: &Arc<Catalog>,
        options: &CowOptions,
    ) -> Result<(Made<E, Self>, RecoveryReport), EngineError> {
        let files = resources.own_files()?;
        let map = TreeMap::new(catalog.tables.iter().cloned());
        let mut directory = map.directory(1);
        let owner = owner(&files, catalog, resources.partition);
        let name = file_name(resources.partition);
        let master = FileMaster::open(&files, &name, owner, &mut directory)?;
        let second_copies = u64::from(master.0.is_second_copy());
        let made = Self::assemble(resources, options, map, master, directory)?;
        Ok((made, RecoveryReport { second_copies, ..RecoveryReport::default() }))
    }

    #[inline]
    fn tuples(&self) -> &InLeaves<E::Durable> {
        &self.tuples
    }

    fn insert(
        &mut self,
        dirty: &mut Directories<Pages<E>>,
        map: &Map,
        table: u16,
        values: &[Value<'_>],
    ) -> Result<(), EngineError> {
        let layout = map.layout(table);
        encode_row(layout, values, &mut self.new)?;
        let key = layout.primary_key_of(values)?;
        let (tree, mut narrow) = (map.tree(table, 0), [0; 8]);
        let key = key.bytes(&mut narrow);
        observe!(E::Durable: self.tuples.pool.enter(Component::Index));
        dirty.is_free(map, table, key)?;
        let needs = Self::needs(dirty, map, table, 1..layout.index_count(), self.new.len());
        self.reserve(dirty, &needs, true)?;
        dirty.change(|dirty| {
            // The trees' pages hold the tuples.
            observe!(E::Durable: self.tuples.pool.enter(Component::Storage));
            dirty.shadow.insert(tree, key, &self.new)?;
            let row = InlineRow::new(layout, Bytes::from(&self.new))?;
            dirty.add_keys(tree, 1..layout.index_count(), |index| row.key(index))?;
            *dirty.shadow.tuples(table) += 1;
            Ok(())
        })
    }

    fn update(
        &mut self,
        dirty: &mut Directories<Pages<E>>,
        map: &Map,
        (table, key): (u16, &[Value<'_>]),
        changes: &[(u16, Value<'_>)],
    ) -> Result<(), EngineError> {
        self.load(dirty, map, table, key)?;
        let layout = map.layout(table);
        layout.check_changes(changes)?;
        InlineRow::new(layout, Bytes::from(&self.old))?.with_changes(changes, &mut self.new)?;
        let indexes = indexes_with(layout, changes);
        let both = indexes.clone().chain(indexes.clone());
        let needs = Self::needs(dirty, map, table, both, self.new.len());
        self.reserve(dirty, &needs, true)?;
        let (tree, key) = (map.tree(table, 0), layout.primary_key(key)?);
        dirty.change(|dirty| {
            // The trees' pages hold the tuples.
            observe!(E::Durable: self.tuples.pool.enter(Component::Storage));
            dirty.shadow.replace(tree, key.bytes(&mut [0; 8]), &self.new)?;
            let before = InlineRow::new(layout, Bytes::from(&self.old))?;
            let after = InlineRow::new(layout, Bytes::from(&self.new))?;
            dirty.replace_keys(tree, indexes, |index| before.key(index), |index| after.key(index))
        })
    }

    fn delete(
        &mut self,
        dirty: &mut Directories<Pages<E>>,
        map: &Map,
        (table, key): (u16, &[Value<'_>]),
    ) -> Result<(), EngineError> {
        self.load(dirty, map, table, key)?;
        let layout = map.layout(table);
        let needs = Self::needs(dirty, map, table, 1..layout.index_count(), 0);
        self.reserve(dirty, &needs, false)?;
        let (tree, key) = (map.tree(table, 0), layout.primary_key(key)?);
        dirty.change(|dirty| {
            // The trees' pages hold the tuples.
            observe!(E::Durable: self.tuples.pool.enter(Component::Storage));
            dirty.shadow.remove(tree, key.bytes(&mut [0; 8]))?;
            let row = InlineRow::new(layout, Bytes::from(&self.old))?;
            dirty.remove_keys(tree, 1..layout.index_count(), |index| row.key(index))?;
            *dirty.shadow.tuples(table) -= 1;
            Ok(())
        })
    }

    fn write_batch(&mut self, dirty: &mut Directories<Pages<E>>) -> Result<(), EngineError> {
        observe!(E::Durable: self.tuples.pool.enter(Component::Recovery));
        dirty.shadow.write_back()?;
        let store = dirty.shadow.stores().next().ok_or_else(dangling)?;
        let file = store.backend().file();
        self.master.sync_pages(file)?;
        Ok(self.master.move_to(file, dirty.shadow.current())?)
    }

    fn settle_batch(&mut self, dirty: &mut Directories<Pages<E>>) -> Result<(), EngineError> {
        Ok(dirty.shadow.look_ahead(&mut ())?)
    }

    /// Both copies of the master record are the same then: either may be damaged.
    fn close(&mut self, dirty: &Directories<Pages<E>>) -> Result<(), EngineError> {
        let store = dirty.shadow.stores().next().ok_or_else(dangling)?;
        Ok(self.master.finish(store.backend().file())?)
    }

    fn page_bytes(&self) -> u64 {
        self.master.page_bytes().into()
    }

    fn footprint(
        &self,
        current: &Directories<Pages<E>>,
        map: &Map,
    ) -> Result<Footprint, EngineError> {
        let pages = current.shadow.page_use(0, |tree| map.owner(tree).1 == 0)?;
        let page_bytes = u64::from(self.master.page_bytes());
        let stores = current.shadow.stores();
        let cached: u64 = stores.map(|store| store.backend().cached_bytes()).sum();
        Ok(Footprint {
            table: pages.table * page_bytes,
            index: pages.index * page_bytes,
            other: pages.unused * page_bytes + self.master.data_at() + cached,
            ..Footprint::default()
        })
    }

    fn own_stats(pages: PageStats) -> OwnStats {
        CowStats { pages }.into()
    }

    fn check(
        &self,
        current: &Directories<Pages<E>>,
        map: &Map,
        _: &mut dyn FnMut(u64),
    ) -> Result<u64, EngineError> {
        check(map, &current.shadow, &self.tuples, |_, _| Ok(()))
    }
}
