//! Shadow directories (P1 3.2, 4.2): the current one has what committed transactions did, the
//! dirty one what the open one does; a master record leads to a durable one.
//!
//! | directory | has | lives in |
//! |---|---|---|
//! | durable | all transactions up to the last batch | the master record |
//! | current | committed ones; what snapshots take | volatile memory, shared with readers |
//! | dirty | the open one too | volatile memory |
//!
//! The trees below them share their pages. A batch is the transactions that one move of the master
//! record makes durable:
//! 1. [`Shadow::write_back`]: pages go to their medium. The caller adds what else is new, and the
//!    directory; then one fence or sync.
//! 2. The caller moves the master record ([`FileMaster`], [`PoolMaster`]) and makes that durable.
//! 3. [`Shadow::reclaim`]: what only older directories lead to becomes free.
//!
//! A transaction copies pages that an earlier one of its batch has made once more. So aborting is
//! forgetting: nothing of the earlier ones has changed. It costs no write, since pages are written
//! back when their batch ends, and those superseded by then are not.

mod batch;
mod directory;
mod file_master;
mod pool_master;
mod trees;
mod versions;

use index::IndexError;
use index::clock::MixSet;
use index::cow::{Pages, Root, TreeBuffers, TreeShape};
use index::pages::PageBackend;
use pm::{Bad, Bytes};

use crate::work_done::WorkDone;

pub use batch::ObjectBatch;
pub use directory::Directory;
pub use file_master::{FileMaster, MASTER_BLOCK_BYTES, MasterError};
pub use pool_master::{ListEntry, PoolMaster};
pub use trees::{SnapshotTrees, Snapshots, TreePlace, Trees};
pub use versions::{Pin, Versions};

/// Stores of pages that a directory can have: one for each size of page.
pub const MAX_STORES: usize = 6;

/// Reports what a [`Shadow`] has done since it was opened.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct ShadowStats {
    /// Moves of the master record.
    pub batches: u64,
    /// Pages that changes of trees have made, most of them copies.
    pub made_pages: u64,
    /// Bytes of pages written back.
    pub written_bytes: u64,
    /// Bytes of pages that the collection has still to look at, about.
    pub uncollected_bytes: u64,
    /// The work that the collection has done.
    pub collected: WorkDone,
}

/// The uses of the pages of a store; see [`Shadow::page_use`].
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct PageUse {
    /// Leaves with tuples, and what does not fit them.
    pub table: u64,
    /// Other nodes.
    pub index: u64,
    /// Pages that nothing leads to but older versions.
    pub unused: u64,
}

/// The number of pages that a change may take, for each store.
#[derive(Clone, Copy, Default, Debug)]
pub struct Needs([u64; MAX_STORES]);

/// The directories of one partition with the pages below them.
#[derive(Debug)]
pub struct Shadow<B: PageBackend> {
    stores: Vec<Pages<B>>,
    snapshots: Snapshots<B::Source>,
    buffers: TreeBuffers,
    committed: Directory,
    dirty: Directory,
    /// The last transaction that is durable.
    durable: u64,
    pins: Vec<u64>,
    /// Snapshots have gone since [`Self::snapshots_gone`].
    gone: bool,
    changed: bool,
    /// Snapshots do not see the batch before it is durable.
    hidden: bool,
    /// Transactions committed since the last batch.
    pending: u32,
    /// Keeps the directory that was opened, while the collection walks it.
    collecting: Option<Pin>,
    /// The steps that the last commit could spend on the collection.
    pace: u64,
    /// The pages that only deletes may take, for each store: enough for one of any table.
    spare: Vec<u64>,
    batches: u64,
}

impl<B: PageBackend> Shadow<B> {
    /// The directories of a partition whose durable one is `directory`. If it was opened, the
    /// collection of pages begins.
    pub fn new(
        backends: Vec<B>,
        places: Vec<TreePlace>,
        directory: Directory,
        opened: bool,
    ) -> Self {
        assert!(backends.len() <= MAX_STORES, "one store for each size of page");
        let durable = directory.transaction;
        let mut stores: Vec<_> =
            backends.into_iter().map(|backend| Pages::new(backend, durable)).collect();
        let versions = Versions::new(directory.clone());
        let spare: Vec<u64> = (0..stores.len()).map(|store| spare_pages(&places, store)).collect();
        let mut collecting = None;
        if opened {
            for (number, store) in stores.iter_mut().enumerate() {
                let mine = places.iter().zip(&directory.roots);
                let mine = mine.filter(|(place, _)| place.store == number);
                let trees = mine.map(|(place, root)| (place.shape, *root));
                store.start_collection(trees, AHEAD * spare[number]);
            }
            collecting = Some(versions.pin());
        }
        let snapshots = Snapshots {
            sources: stores.iter().map(|store| store.source().clone()).collect(),
            places: places.into(),
            versions,
        };
        let pins = collecting.iter().map(|pin| pin.directory().transaction).collect();
        Self {
            spare,
            stores,
            snapshots,
            buffers: TreeBuffers::default(),
            dirty: directory.clone(),
            committed: directory,
            durable,
            pins,
            gone: false,
            changed: false,
            hidden: false,
            pending: 0,
            collecting,
            batches: 0,
            pace: 0,
        }
    }

    /// The trees as the open transaction sees them.
    #[inline]
    pub fn trees(&self) -> Trees<'_, B::Source> {
        let Snapshots { sources, places, .. } = &self.snapshots;
        Trees { sources, places, roots: &self.dirty.roots }
    }

    /// Takes snapshots.
    pub fn snapshots(&self) -> &Snapshots<B::Source> {
        &self.snapshots
    }

    /// The current directory.
    pub fn current(&self) -> &Directory {
        &self.committed
    }

    /// The last committed transaction.
    pub fn committed(&self) -> u64 {
        self.committed.transaction
    }

    /// The open transaction, or the next one.
    pub fn open(&self) -> u64 {
        self.committed.transaction + 1
    }

    /// The last transaction that is durable.
    pub fn durable(&self) -> u64 {
        self.durable
    }

    /// Returns how many transactions have committed since the last batch.
    pub fn pending(&self) -> u32 {
        self.pending
    }

    /// Returns whether the open transaction has changed anything.
    pub fn is_changed(&self) -> bool {
        self.changed
    }

    /// The transactions whose state snapshots see, as far as it matters.
    pub fn pins(&self) -> &[u64] {
        &self.pins
    }

    /// The tuples of a table, as the open transaction sees them.
    pub fn tuples(&mut self, table: u16) -> &mut u64 {
        &mut self.dirty.tuples[usize::from(table)]
    }

    /// Adds to `needs` what a change of a tree may take, with so many overflow pages.
    #[inline]
    pub fn need(&self, needs: &mut Needs, tree: usize, overflow: u64) {
        let store = self.snapshots.places[tree].store;
        needs.0[store] += self.dirty.roots[tree].pages_for_change() + overflow;
    }

    /// The overflow pages that a value takes.
    pub fn overflow_pages(&self, tree: usize, key_bytes: usize, value_bytes: usize) -> u64 {
        self.snapshots.places[tree].shape.overflow_pages(key_bytes, value_bytes)
    }

    /// Makes sure that there are pages for a change. `spare`: pages that must be left in addition,
    /// for deleting tuples when there is no more room.
    ///
    /// # Errors
    /// No room; nothing has changed.
    #[inline]
    pub fn reserve(
        &mut self,
        needs: &Needs,
        spare: bool,
        room: &mut B::Room,
    ) -> Result<(), IndexError> {
        for ((store, needed), left) in self.stores.iter_mut().zip(needs.0).zip(&self.spare) {
            let left = if spare && needed > 0 { *left } else { 0 };
            store.reserve(needed + left, room)?;
        }
        Ok(())
    }

    /// Keeps pages that were never used, after a batch, for the first transactions after a crash.
    ///
    /// # Errors
    /// The medium failed.
    #[inline]
    pub fn look_ahead(&mut self, room: &mut B::Room) -> Result<(), IndexError> {
        for (store, spare) in self.stores.iter_mut().zip(&self.spare) {
            store.look_ahead(AHEAD * spare, room)?;
        }
        Ok(())
    }

    fn parts(&mut self, tree: usize) -> (&TreeShape, &mut Pages<B>, &mut TreeBuffers, &mut Root) {
        self.changed = true;
        let TreePlace { shape, store, .. } = &self.snapshots.places[tree];
        let root = &mut self.dirty.roots[tree];
        (shape, &mut self.stores[*store], &mut self.buffers, root)
    }

    /// Inserts a key into a tree; returns whether it was not there. Pages are reserved.
    ///
    /// # Errors
    /// Damage: the transaction must be aborted.
    pub fn insert(&mut self, tree: usize, key: &[u8], value: &[u8]) -> Result<bool, IndexError> {
        let (shape, pages, buffers, root) = self.parts(tree);
        shape.insert(pages, buffers, root, key, value)
    }

    /// Gives a key another value; returns whether it was there. Pages are reserved.
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn replace(&mut self, tree: usize, key: &[u8], value: &[u8]) -> Result<bool, IndexError> {
        let (shape, pages, buffers, root) = self.parts(tree);
        shape.replace(pages, buffers, root, key, value)
    }

    /// Removes a key; returns whether it was there. Pages are reserved.
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn remove(&mut self, tree: usize, key: &[u8]) -> Result<bool, IndexError> {
        let (shape, pages, buffers, root) = self.parts(tree);
        shape.remove(pages, buffers, root, key)
    }

    /// Commits the open transaction, which has changed something: the dirty directory becomes the
    /// current one. Returns its number. If it is `hidden`, snapshots see its batch when that is
    /// durable; else they see what a group has committed so far.
    pub fn commit(&mut self, hidden: bool) -> u64 {
        self.dirty.transaction += 1;
        self.committed.copy_from(&self.dirty);
        self.hidden = hidden;
        // If it is hidden, what it supersedes is durable or belongs to its batch. Durable data is
        // not freed before the commit is decided, and data of the batch has no reader.
        if !hidden {
            self.publish();
        }
        for store in &mut self.stores {
            store.commit(&self.pins);
        }
        self.changed = false;
        self.pending += 1;
        self.committed.transaction
    }

    fn publish(&mut self) {
        let Self { snapshots, committed, pins, stores, gone, hidden, .. } = self;
        let versions = &snapshots.versions;
        let gone_now =
            if *hidden { versions.look(pins) } else { versions.publish(committed, pins) };
        if gone_now {
            *gone = true;
            stores.iter_mut().for_each(|store| store.unpin(pins));
        }
    }

    /// Undoes the open transaction.
    pub fn abort(&mut self) {
        self.dirty.copy_from(&self.committed);
        self.stores.iter_mut().for_each(Pages::abort);
        self.changed = false;
    }

    /// Writes back the pages of the batch; durable after the next fence or sync. The master record
    /// is to lead to [`Self::current`] then.
    ///
    /// # Errors
    /// The medium failed.
    #[track_caller]
    pub fn write_back(&mut self) -> Result<(), IndexError> {
        for (number, store) in self.stores.iter_mut().enumerate() {
            store.write_back()?;
            self.committed.marks[number] = store.backend().mark();
        }
        Ok(())
    }

    /// The master record leads to the current directory, durably.
    pub fn reclaim(&mut self) {
        self.durable = self.committed.transaction;
        self.pending = 0;
        self.hidden = false;
        self.batches += 1;
        for store in &mut self.stores {
            store.made_durable(self.durable);
        }
        self.publish();
        for store in &mut self.stores {
            store.reclaim(&self.pins);
        }
    }

    /// A batch could not be made durable: nothing is committed or shown any more.
    pub fn stop(&self, why: &str) {
        self.snapshots.versions.stop(why);
    }

    /// Returns whether snapshots have gone since this was asked last.
    pub fn snapshots_gone(&mut self) -> bool {
        std::mem::take(&mut self.gone)
    }

    /// Frees what snapshots have let go of.
    pub fn release_unpinned(&mut self) {
        self.publish();
    }

    /// Returns whether the search for pages that a crash leaked is still going on.
    pub fn is_collecting(&self) -> bool {
        self.collecting.is_some()
    }

    /// Returns about how many pages are still to be looked at.
    pub fn uncollected(&self) -> u64 {
        self.stores.iter().map(Pages::uncollected).sum()
    }

    /// Looks for pages that a crash leaked, for about as long as it takes to read so many pages.
    /// Returns whether there is nothing more to do.
    ///
    /// # Errors
    /// Damage.
    pub fn collect(&mut self, steps: u64) -> Result<bool, IndexError> {
        if self.collecting.is_none() {
            return Ok(true);
        }
        for store in &mut self.stores {
            if store.is_collecting() && !store.collect(steps)? {
                return Ok(false);
            }
        }
        self.collecting = None;
        self.publish();
        Ok(true)
    }

    /// The collection's steps, and the bytes of the pages that it has looked at, about.
    pub fn collected(&self) -> WorkDone {
        let mut done = WorkDone::default();
        for store in &self.stores {
            let ((steps, pages), page_bytes) = (store.collected(), store.backend().page_bytes());
            done += WorkDone { steps, bytes: pages.saturating_mul(u64::from(page_bytes)) };
        }
        done
    }

    /// Returns what has been done since the directory was opened.
    pub fn stats(&self) -> ShadowStats {
        let mut stats = ShadowStats { batches: self.batches, ..ShadowStats::default() };
        for store in &self.stores {
            stats.made_pages += store.made_ever();
            stats.written_bytes += store.backend().written_bytes();
            stats.uncollected_bytes +=
                store.uncollected().saturating_mul(u64::from(store.backend().page_bytes()));
        }
        stats.collected = self.collected();
        stats
    }

    /// Pages of a store by what they are for: nodes that only serve finding tuples, all others that
    /// the current directory leads to, and those that it does not lead to. `is_primary` says of a
    /// tree whether its leaves have the tuples. While the collection is at work the pages that it
    /// has not found yet count as the second. Reads inner nodes.
    ///
    /// # Errors
    /// Damage.
    pub fn page_use(
        &self,
        store: usize,
        is_primary: impl Fn(usize) -> bool,
    ) -> Result<PageUse, IndexError> {
        let mut index = 0;
        let trees = self.snapshots.places.iter().zip(&self.committed.roots).enumerate();
        for (tree, (place, root)) in trees.filter(|(_, (place, _))| place.store == store) {
            let source = &self.snapshots.sources[store];
            let (inner, leaves) = place.shape.count_nodes(source, *root)?;
            index += if is_primary(tree) { inner } else { inner + leaves };
        }
        let pages = &self.stores[store];
        let all = pages.backend().bytes() / u64::from(pages.backend().page_bytes());
        let unused = pages.unused().min(all);
        let index = index.min(all - unused);
        Ok(PageUse { table: all - unused - index, index, unused })
    }

    /// Acts as [`Self::collect`], after a commit, which can spare so many `steps`. The first
    /// commits after opening do less, one more step each: each step touches a page for the first
    /// time, and an application that opens after a crash waits for the first commit.
    ///
    /// # Errors
    /// As [`Self::collect`].
    #[inline]
    pub fn collect_after_commit(&mut self, steps: u64) -> Result<(), IndexError> {
        if self.collecting.is_some() {
            self.pace = steps.min(self.pace + 1);
            self.collect(self.pace)?;
        }
        Ok(())
    }

    /// Calls `visit` with each store of pages.
    pub fn stores(&self) -> impl Iterator<Item = &Pages<B>> {
        self.stores.iter()
    }

    /// Checks the current directory: trees and pages are sound, no page has two owners, none that
    /// is in use counts as free, and all below the high-water mark are accounted for. Calls
    /// `record` with the tree, key and value of each record. There is no open transaction.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(
        &self,
        mut record: impl FnMut(usize, &[u8], Bytes<'_>) -> Result<(), IndexError>,
    ) -> Result<(), IndexError> {
        let mut owned = vec![MixSet::default(); self.stores.len()];
        let twice = |page| Bad::Damaged { what: "page with two owners", at: page };
        for (tree, TreePlace { shape, store, .. }) in self.snapshots.places.iter().enumerate() {
            let pages = &mut owned[*store];
            shape.check(
                &self.snapshots.sources[*store],
                self.committed.roots[tree],
                &mut |page| if pages.insert(page) { Ok(()) } else { Err(twice(page).into()) },
                &mut |key, value| record(tree, key, value),
            )?;
        }
        for (store, pages) in self.stores.iter().zip(&mut owned) {
            let mut wrong = None;
            store.for_each_unused(|page| {
                if !pages.insert(page) {
                    wrong = Some(page);
                }
            });
            if let Some(page) = wrong {
                return Err(twice(page).into());
            }
            let below = store.backend().used_pages()?;
            if !store.is_collecting() && pages.len() as u64 != below {
                return Err(
                    Bad::Damaged { what: "number of pages: some are lost", at: below }.into()
                );
            }
        }
        Ok(())
    }
}

/// Pages for each tree that a delete may take. It returns them when it commits.
const SPARE_PAGES: u64 = 12;

/// The factor by which a store keeps more of the pages that were never used than it keeps for
/// deletes.
const AHEAD: u64 = 4;

/// Pages of a store that a delete may take, in the table that has most trees there.
fn spare_pages(places: &[TreePlace], store: usize) -> u64 {
    let trees = |table| {
        let mine = places.iter().filter(|place| place.store == store && place.table == table);
        mine.count() as u64
    };
    places.iter().map(|place| trees(place.table)).max().unwrap_or(0) * SPARE_PAGES
}
