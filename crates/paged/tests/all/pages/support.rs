//! A log in memory, and a database of pages on files in memory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use paged::file::NewFile;
use paged::ids::{Lsn, PageNo, TreeNo, TxNo};
use paged::latch::Latching;
use paged::log::{Chain, Kind, LogManager, Logged, Record, RoomWait};
use paged::pool::{Appender, Pool, Settled};
use paged::threads::Waiter;
use paged::tree::{BATCH_ROWS, Batch, Bound, Direction, Met, Permitted, Scan, Tree};
use paged::{PagedError, Result};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use sim::RecordingFiles;

pub(crate) type TestPool = Pool<RecordingFiles>;
pub(crate) type Model = BTreeMap<Vec<u8>, Vec<u8>>;

pub(crate) const TREE: TreeNo = TreeNo(7);
const STAMP: u64 = 0x5eed_0042;

/// A log whose LSNs count its records, from 1 on.
#[derive(Debug, Default)]
pub(crate) struct TestLog {
    records: Mutex<Vec<Logged>>,
    durable: AtomicU64,
    forces: AtomicU64,
    /// The number of changes for which there is room, if there is an end to it.
    room: Mutex<Option<u64>>,
}

impl TestLog {
    /// A log that has these records, all durable.
    pub(crate) fn of(records: Vec<Logged>) -> Arc<Self> {
        let durable = AtomicU64::new(records.len() as u64);
        Arc::new(Self { records: Mutex::new(records), durable, ..Self::default() })
    }

    pub(crate) fn records(&self) -> Vec<Logged> {
        self.records.lock().clone()
    }

    /// The records that a crash leaves.
    pub(crate) fn durable_records(&self) -> Vec<Logged> {
        let durable = self.durable().0 as usize;
        self.records.lock()[..durable].to_vec()
    }

    /// Lets so many changes find room, and none after them. What undoes others always does.
    pub(crate) fn limit(&self, changes: Option<u64>) {
        *self.room.lock() = changes;
    }

    fn take_room(&self, kind: Kind) -> Result<()> {
        match &mut *self.room.lock() {
            Some(0) if kind == Kind::Change => {
                Err(PagedError::LogFull { bytes: 1, free: 0, most: 1, medium: false })
            }
            Some(room) if kind == Kind::Change => {
                *room -= 1;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn forces(&self) -> u64 {
        self.forces.load(Ordering::Relaxed)
    }
}

impl LogManager for TestLog {
    fn reserve(&self, _chain: &mut Chain, _payload: u64) -> Result<()> {
        Ok(())
    }

    fn await_room(&self, _: &Arc<RoomWait>) {}

    fn forget_wait(&self, _: &Arc<RoomWait>) {}

    fn unreserve(&self, _chain: &mut Chain) {}

    fn append(&self, chain: &mut Chain, record: &Record<'_>) -> Result<Lsn> {
        self.take_room(record.kind)?;
        let mut records = self.records.lock();
        let lsn = Lsn(records.len() as u64 + 1);
        records.push(Logged {
            lsn,
            tx: chain.tx,
            prev: chain.last,
            kind: record.kind,
            page: record.page,
            page_before: record.page_before,
            undo_next: record.undo_next,
            payload: record.payload.to_vec(),
        });
        if chain.first == Lsn::NONE {
            chain.first = lsn;
        }
        chain.last = lsn;
        Ok(lsn)
    }

    fn commit(&self, chain: &mut Chain) -> Result<Lsn> {
        let (page, none) = (PageNo::default(), Lsn::NONE);
        let kind = Kind::Commit;
        self.append(chain, &Record { kind, page, page_before: none, undo_next: none, payload: &[] })
    }

    fn durable(&self) -> Lsn {
        Lsn(self.durable.load(Ordering::Acquire))
    }

    fn end(&self) -> Lsn {
        Lsn(self.records.lock().len() as u64 + 1)
    }

    fn force(&self, to: Lsn) -> Result<()> {
        let there = self.records.lock().len() as u64;
        self.durable.fetch_max(to.0.min(there), Ordering::AcqRel);
        self.forces.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn read(&self, at: Lsn) -> Result<Logged> {
        let found = self.records.lock().get(at.0 as usize - 1).cloned();
        found.ok_or(PagedError::DamagedLog { at, what: "there is no record".into() })
    }

    fn consumed(&self) -> u64 {
        self.records.lock().len() as u64
    }

    fn largest(&self) -> usize {
        1 << 20
    }

    fn attend(&self, _checkpointer: Arc<Waiter>) {}

    fn is_due(&self) -> bool {
        false
    }

    fn start(&self) -> Lsn {
        Lsn(1)
    }

    fn truncate(&self, _start: Lsn, _keep: Lsn) -> Result<()> {
        Ok(())
    }

    fn adopt(&self, _chain: &mut Chain) {}

    fn scan(&self, from: Lsn, visit: &mut dyn FnMut(Logged) -> Result<()>) -> Result<()> {
        let records = self.durable_records();
        records.into_iter().filter(|record| record.lsn >= from).try_for_each(visit)
    }
}

/// A knowledge that no row is locked.
#[derive(Debug)]
pub(crate) struct AllSettled;

impl Settled for AllSettled {
    fn is_settled(&self, _tree: TreeNo, _key: &[u8]) -> bool {
        true
    }

    fn ghost_goes(&self, _tree: TreeNo, _key: &[u8]) {}
}

pub(crate) fn create(
    files: &RecordingFiles,
    page_bytes: usize,
    frames: usize,
) -> (Arc<TestLog>, TestPool) {
    let log = TestLog::of(Vec::new());
    let pool = create_over(files, page_bytes, frames, log.clone());
    (log, pool)
}

/// Creates a file of pages over any log, with one tree, whose transaction has the number 1.
pub(crate) fn create_over<T: Latching>(
    files: &RecordingFiles,
    page_bytes: usize,
    frames: usize,
    log: Arc<dyn LogManager>,
) -> Pool<RecordingFiles, T> {
    let new = NewFile { page_bytes, stamp: STAMP };
    let pool = Pool::create(files, "", &new, frames, log).expect("created");
    let mut chain = transaction(1);
    pool.create_tree(&mut chain, TREE).expect("a tree");
    let at = pool.log().commit(&mut chain).expect("committed");
    pool.log().force(at).expect("durable");
    pool
}

pub(crate) fn tree<T: Latching>(pool: &Pool<RecordingFiles, T>) -> Tree<'_, RecordingFiles, T> {
    pool.tree(TREE).expect("readable").expect("there")
}

pub(crate) fn transaction(number: u64) -> Chain {
    Chain::new(TxNo(number))
}

/// All rows, in the order that a scan gives them.
pub(crate) fn rows<T: Latching>(
    tree: &Tree<'_, RecordingFiles, T>,
    direction: Direction,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut scan = Scan::new(direction, Bound::Unbounded);
    let (mut batch, mut rows) = (Batch::default(), Vec::new());
    loop {
        let permit = &mut |_: Met<'_>| Permitted::Yes;
        tree.next(&mut scan, &mut batch, BATCH_ROWS, permit).expect("scanned");
        if batch.rows.is_empty() {
            return rows;
        }
        rows.append(&mut batch.rows);
    }
}

/// Compares a tree with a model: rows both ways, and its pages with each other.
pub(crate) fn assert_same<T: Latching>(pool: &Pool<RecordingFiles, T>, model: &Model, what: &str) {
    let tree = tree(pool);
    let mut expected: Vec<_> = model.iter().map(|(key, row)| (key.clone(), row.clone())).collect();
    assert!(rows(&tree, Direction::Forward) == expected, "{what}: forward");
    expected.reverse();
    assert!(rows(&tree, Direction::Backward) == expected, "{what}: backward");
    let checked = pool.check().unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(checked.lost, 0, "{what}: every used page is led to");
    assert_eq!(checked.rows, model.len() as u64 + 1, "{what}: with the catalog's row");
}

/// A change of one row.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Insert(Vec<u8>, Vec<u8>),
    Update(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    Settle(Vec<u8>),
    Load(Vec<(Vec<u8>, Vec<u8>)>),
}

impl Step {
    pub(crate) fn run<T: Latching>(
        &self,
        tree: &Tree<'_, RecordingFiles, T>,
        chain: &mut dyn Appender,
    ) -> Result<()> {
        match self {
            Self::Insert(key, row) => tree.insert(chain, key, row),
            Self::Update(key, row) => tree.update(chain, key, row).map(drop),
            Self::Delete(key) => tree.delete(chain, key),
            Self::Settle(key) => tree.settle(key).map(drop),
            Self::Load(rows) => {
                let rows = rows.iter().map(|(key, row)| (key, row));
                tree.load(chain, rows).map(drop)
            }
        }
    }

    pub(crate) fn apply(&self, model: &mut Model) {
        match self {
            Self::Insert(key, row) | Self::Update(key, row) => {
                model.insert(key.clone(), row.clone());
            }
            Self::Delete(key) => {
                model.remove(key);
            }
            Self::Settle(_) => {}
            Self::Load(rows) => model.extend(rows.iter().cloned()),
        }
    }
}

/// Random changes that fit a model. Some rows are long.
#[derive(Debug)]
pub(crate) struct Steps {
    random: StdRng,
    page_bytes: usize,
    /// Deletes among a hundred steps.
    pub(crate) deletes: u32,
}

impl Steps {
    pub(crate) fn new(seed: u64, page_bytes: usize) -> Self {
        Self { random: StdRng::seed_from_u64(seed), page_bytes, deletes: 20 }
    }

    pub(crate) fn key(&mut self) -> Vec<u8> {
        let mut key = self.random.random_range(0..3000_u32).to_be_bytes().to_vec();
        let most = paged::layout::limit_key(self.page_bytes) - key.len();
        let more = match self.random.random_range(0..8) {
            0 => most,
            1 | 2 => most / 4,
            _ => 6,
        };
        key.resize(key.len() + more, b'k');
        key
    }

    pub(crate) fn row(&mut self) -> Vec<u8> {
        let page = self.page_bytes;
        let bytes = match self.random.random_range(0..20) {
            0 => self.random.random_range(page / 4..4 * page),
            1 | 2 => self.random.random_range(page / 8..page / 3),
            3 => 0,
            _ => self.random.random_range(1..page / 12),
        };
        let fill = self.random.random::<u8>();
        (0..bytes).map(|at| if at % 7 == 0 { fill } else { at as u8 }).collect()
    }

    fn some_key(&mut self, model: &Model) -> Option<Vec<u8>> {
        let from = self.key();
        let mut after = model.range(from..);
        after.next().or_else(|| model.iter().next()).map(|(key, _)| key.clone())
    }

    pub(crate) fn next(&mut self, model: &Model) -> Step {
        let what = self.random.random_range(0..100);
        let there = self.some_key(model);
        match there {
            Some(key) if what < self.deletes => Step::Delete(key),
            Some(key) if what < self.deletes + 20 => {
                let mut row = self.row();
                if self.random.random_bool(0.3) {
                    row = model[&key].clone();
                    if let Some(byte) = row.last_mut() {
                        *byte = byte.wrapping_add(1);
                    }
                }
                Step::Update(key, row)
            }
            _ if what < self.deletes + 25 => Step::Settle(self.key()),
            _ if what < self.deletes + 27 => self.load(model),
            _ => {
                let mut key = self.key();
                while model.contains_key(&key) {
                    key = self.key();
                }
                let row = self.row();
                Step::Insert(key, row)
            }
        }
    }

    fn load(&mut self, model: &Model) -> Step {
        let rows: Model = (0..30).map(|_| (self.key(), self.row())).collect();
        Step::Load(rows.into_iter().filter(|(key, _)| !model.contains_key(key)).collect())
    }
}
