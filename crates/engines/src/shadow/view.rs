//! SELECT of the copy-on-write engines, in the open transaction and in snapshots: the steps of P1's
//! Table 2. The engines differ in where a tuple stands: in the primary tree's leaf, or in slots
//! that the leaf leads to. That is a [`TupleForm`].

use std::fmt::Debug;
use std::ops::{ControlFlow, Deref};
use std::sync::Arc;

use index::IndexError;
use index::pages::{PageBackend, PageSource};
use pm::{Bytes, Component, Memory, observe};
use storage::shadow::{Shadow, SnapshotTrees, Snapshots, Trees};
use storage::{Row, TableKey, TableLayout, Value};

use super::tables::{TreeMap, dangling};
use crate::contract::{Read, Reader, Scan, SnapshotSource, VersionSource};
use crate::error::{EngineError, sound};
use crate::table2::{FIND, RETRIEVE};
use crate::version::Version;

/// Leads from what a primary tree has for a key, `stored`, to the tuple.
pub trait TupleForm: Clone + Debug + Send + Sync + 'static {
    /// A memory that is asked whether it is still good: what is read from a bad one does not count.
    type Memory: Memory;
    /// The layout of a table, with what the engine adds to what its declaration says.
    type Layout: Deref<Target = TableLayout> + Debug + Send + Sync + 'static;

    fn memory(&self) -> &Self::Memory;

    fn read(
        &self,
        layout: &Self::Layout,
        stored: Bytes<'_>,
        columns: Option<&[u16]>,
        row: &mut Row,
    ) -> Result<(), EngineError>;

    fn read_bytes(
        &self,
        layout: &Self::Layout,
        stored: Bytes<'_>,
        columns: &[u16],
        out: &mut [u8],
    ) -> Result<usize, EngineError>;

    /// The tuple's key in an index; 0 is the primary one.
    fn key(
        &self,
        layout: &Self::Layout,
        stored: Bytes<'_>,
        index: usize,
    ) -> Result<TableKey, EngineError>;
}

/// The tables of a directory.
#[derive(Debug)]
pub(crate) struct View<'a, S, T: TupleForm> {
    pub(crate) map: &'a TreeMap<T::Layout>,
    pub(crate) trees: Trees<'a, S>,
    pub(crate) tuples: &'a T,
}

impl<S: PageSource, T: TupleForm> View<'_, S, T> {
    #[inline]
    pub(crate) fn get(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: Option<&[u16]>,
        row: &mut Row,
    ) -> Result<bool, EngineError> {
        let (layout, memory) = (self.map.layout(table), self.tuples.memory());
        sound(memory, || {
            observe!(T::Memory: memory.enter(Component::Index));
            let found = self.map.find(self.trees, table, key, |stored| {
                observe!(T::Memory: self.tuples.memory().mark(FIND));
                observe!(T::Memory: self.tuples.memory().enter(Component::Storage));
                self.tuples.read(layout, stored, columns, row)
            })?;
            let Some(read) = found else { return Ok(false) };
            read?;
            observe!(T::Memory: memory.mark(RETRIEVE));
            Ok(true)
        })
    }

    #[inline]
    pub(crate) fn get_bytes(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: &[u16],
        out: &mut [u8],
    ) -> Result<Option<usize>, EngineError> {
        let (layout, memory) = (self.map.layout(table), self.tuples.memory());
        sound(memory, || {
            observe!(T::Memory: memory.enter(Component::Index));
            let found = self.map.find(self.trees, table, key, |stored| {
                observe!(T::Memory: self.tuples.memory().mark(FIND));
                observe!(T::Memory: self.tuples.memory().enter(Component::Storage));
                self.tuples.read_bytes(layout, stored, columns, out)
            })?;
            let Some(read) = found else { return Ok(None) };
            let bytes = read?;
            observe!(T::Memory: memory.mark(RETRIEVE));
            Ok(Some(bytes))
        })
    }

    pub(crate) fn scan(
        &self,
        table: u16,
        what: &Scan<'_>,
        row: &mut Row,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<(), EngineError> {
        let layout = self.map.layout(table);
        sound(self.tuples.memory(), || {
            self.map.scan(self.trees, table, what, |stored| {
                self.tuples.read(layout, stored, what.columns, row)?;
                Ok(visit(row))
            })
        })
    }
}

/// Checks the tables of the current directory: pages, trees, and that every tuple can be read and
/// has its keys in every index. Calls `also` with what the primary tree has for each tuple. Returns
/// the number of tuples.
pub(crate) fn check<B: PageBackend, T: TupleForm>(
    map: &TreeMap<T::Layout>,
    shadow: &Shadow<B>,
    tuples: &T,
    mut also: impl FnMut(&T::Layout, Bytes<'_>) -> Result<(), EngineError>,
) -> Result<u64, EngineError> {
    let trees = shadow.trees();
    let (mut counts, mut row) = (vec![0; map.tree_count()], Row::new());
    let mut check = |tree: usize, key: &[u8], stored: Bytes<'_>| -> Result<(), EngineError> {
        counts[tree] += 1;
        let (table, index) = map.owner(tree);
        let layout = map.layout(table);
        if index > 0 {
            return Ok(());
        }
        tuples.read(layout, stored, None, &mut row)?;
        layout.check_row(&row, 0)?;
        also(layout, stored)?;
        for index in 0..layout.index_count() {
            let (owned, mut narrow) = (tuples.key(layout, stored, index)?, [0; 8]);
            let expected = owned.bytes(&mut narrow);
            let found = match index {
                0 => expected == key,
                _ => trees.get(tree + index, expected, |_| ())?.is_some(),
            };
            if !found {
                return Err(dangling());
            }
        }
        Ok(())
    };
    let mut failed = None;
    shadow.check(|tree, key, stored| -> Result<(), IndexError> {
        if failed.is_none() {
            failed = check(tree, key, stored).err();
        }
        Ok(())
    })?;
    failed.map_or(Ok(()), Err)?;
    map.check_counts(shadow.current(), &counts)
}

/// Returns an error if snapshots may not be taken and read: a writer that has stopped may have
/// shown what never became durable.
#[inline]
fn readable<M: Memory>(memory: &M, stopped: Option<&str>) -> Result<(), EngineError> {
    match stopped {
        Some(why) => Err(EngineError::Stopped { why: why.into() }),
        None => Ok(memory.healthy()?),
    }
}

/// Takes snapshots of a partition.
#[derive(Debug)]
pub(crate) struct ShadowSnapshots<S, T: TupleForm> {
    pub(crate) snapshots: Snapshots<S>,
    pub(crate) map: TreeMap<T::Layout>,
    pub(crate) tuples: T,
}

impl<S: PageSource, T: TupleForm> ShadowSnapshots<S, T> {
    pub(crate) fn of<B: PageBackend<Source = S>>(
        shadow: &Shadow<B>,
        map: &TreeMap<T::Layout>,
        tuples: &T,
    ) -> Arc<dyn SnapshotSource> {
        let (snapshots, map, tuples) = (shadow.snapshots().clone(), map.clone(), tuples.clone());
        Arc::new(Self { snapshots, map, tuples })
    }

    /// The tables of a version, as long as they may be read.
    #[inline]
    fn view<'a>(&'a self, version: &'a Version) -> Result<View<'a, S, T>, EngineError> {
        readable(self.tuples.memory(), self.snapshots.stopped())?;
        let Self { snapshots, map, tuples } = self;
        Ok(View { map, trees: snapshots.trees(version.directory()), tuples })
    }
}

impl<S: PageSource, T: TupleForm> SnapshotSource for ShadowSnapshots<S, T> {
    fn snapshot(&self) -> Result<Box<dyn Reader>, EngineError> {
        let Self { snapshots, map, tuples } = self;
        readable(tuples.memory(), snapshots.stopped())?;
        let (trees, map, tuples) = (snapshots.take(), map.clone(), tuples.clone());
        Ok(Box::new(ShadowSnapshot { trees, map, tuples }))
    }
}

impl<S: PageSource, T: TupleForm> VersionSource for ShadowSnapshots<S, T> {
    fn lend(&self) -> Result<Version, EngineError> {
        readable(self.tuples.memory(), self.snapshots.stopped())?;
        Ok(Version::of(self.snapshots.versions().lend()))
    }

    fn take_back(&self, version: Version) {
        self.snapshots.versions().take_back(version.into_directory());
    }

    fn get_in(
        &self,
        version: &Version,
        table: u16,
        key: &[Value<'_>],
        columns: Option<&[u16]>,
        row: &mut Row,
    ) -> Result<bool, EngineError> {
        self.view(version)?.get(table, key, columns, row)
    }

    fn get_bytes_in(
        &self,
        version: &Version,
        table: u16,
        key: &[Value<'_>],
        columns: &[u16],
        out: &mut [u8],
    ) -> Result<Option<usize>, EngineError> {
        self.view(version)?.get_bytes(table, key, columns, out)
    }

    fn scan_in(
        &self,
        version: &Version,
        table: u16,
        what: &Scan<'_>,
        row: &mut Row,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<(), EngineError> {
        self.view(version)?.scan(table, what, row, visit)
    }
}

/// A version of a partition. The memory of `tuples` keeps the pool open and locked.
#[derive(Debug)]
struct ShadowSnapshot<S, T: TupleForm> {
    trees: SnapshotTrees<S>,
    map: TreeMap<T::Layout>,
    tuples: T,
}

impl<S: PageSource, T: TupleForm> ShadowSnapshot<S, T> {
    /// The tables, as long as they may be read.
    fn view(&self) -> Result<View<'_, S, T>, EngineError> {
        readable(self.tuples.memory(), self.trees.stopped())?;
        Ok(View { map: &self.map, trees: self.trees.trees(), tuples: &self.tuples })
    }
}

impl<S: PageSource, T: TupleForm> Read for ShadowSnapshot<S, T> {
    fn get(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: Option<&[u16]>,
        row: &mut Row,
    ) -> Result<bool, EngineError> {
        self.view()?.get(table, key, columns, row)
    }

    fn get_bytes(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: &[u16],
        out: &mut [u8],
    ) -> Result<Option<usize>, EngineError> {
        self.view()?.get_bytes(table, key, columns, out)
    }

    fn scan(
        &self,
        table: u16,
        what: &Scan<'_>,
        row: &mut Row,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<(), EngineError> {
        self.view()?.scan(table, what, row, visit)
    }
}
