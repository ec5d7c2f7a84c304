//! Random transactions of several threads in a store of the paged engine, one thread at a time: who
//! goes on follows from a seed.
//!
//! The store has two trees: rows by their keys, and the keys by their tags, as an engine has a
//! table with an index.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use faults::history::{By, Cell, History, Key, Pending, Range, Recorder};
use faults::sharing::{Mix, Reads, Scanned, Shown, TAGS, Work, Writes, body, cell_of};
use paged::flaw::Flaw;
use paged::ids::{Lsn, TreeNo};
use paged::latch::{Followed, Latched};
use paged::lock::{LockCounts, LockOptions};
use paged::log::LogManager;
use paged::log::central::{Central, CentralOptions};
use paged::store::{RowBound, RowLock, RowRange, RowScan, Session, Store, StoreOptions};
use paged::threads::{Baton, Host, Threads};
use paged::tree::Direction;
use paged::{PagedError, Result};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sim::{DiskTrace, RecordingFiles};

const ROWS: TreeNo = TreeNo(1);
const BY_TAG: TreeNo = TreeNo(2);

/// The kind of the transactions.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Plan {
    /// Random ones.
    Random(Mix),
    /// Each reads some rows to change them, and changes them, in the order of their keys: there can
    /// be no deadlock.
    Ascending,
    /// Each changes some rows without a look at them, in any order; the tags stay.
    Blind,
    /// Each reads two rows and changes one of them, each thread another one.
    Skewed,
    /// Every other thread deletes a row or inserts it, the others look at all there is.
    Vanishing,
}

/// A scenario.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    /// Chooses the transactions, and who goes on when.
    pub(crate) seed: u64,
    pub(crate) threads: usize,
    /// Transactions of a thread.
    pub(crate) each: usize,
    pub(crate) keys: u64,
    pub(crate) plan: Plan,
    pub(crate) early_release: bool,
    pub(crate) inherit_after: Option<u64>,
    pub(crate) escalate_after: usize,
    /// One transaction in so many is undone at its end; 0: none.
    pub(crate) aborts: u32,
    /// Points between a commit and the wait for it, at most: others run on what is not durable yet.
    pub(crate) lag: usize,
    /// A transaction in a conflict goes on as if nothing had been.
    pub(crate) heedless: bool,
    pub(crate) flaw: Option<Flaw>,
    /// The operations on the medium are recorded, for crashes.
    pub(crate) crashes: bool,
    /// Random transactions that only read try it without locks first.
    pub(crate) unlocked: bool,
}

/// A scenario that has been run.
#[derive(Debug)]
pub(crate) struct Ran {
    /// The things that the transactions saw; the last one sees all that is there.
    pub(crate) history: History,
    pub(crate) locks: LockCounts,
    /// The number of tries that ended in a conflict.
    pub(crate) conflicts: u64,
    /// The number of transactions that have read without locks.
    pub(crate) unlocked: u64,
    /// The operations on the medium, if they were recorded.
    pub(crate) trace: Option<DiskTrace>,
}

fn files_options(frames: usize, scenario: Option<&Scenario>) -> StoreOptions {
    let (inherit_after, escalate_after, early_release) = match scenario {
        Some(scenario) => (scenario.inherit_after, scenario.escalate_after, scenario.early_release),
        None => (None, usize::MAX, true),
    };
    let timeout = Duration::from_secs(20);
    let locks =
        LockOptions { shards: 4, timeout, inherit_after, escalate_after, ..Default::default() };
    StoreOptions {
        page_bytes: 512,
        frames,
        locks,
        early_release,
        background: false,
        room_wait: Duration::from_millis(20),
        ..StoreOptions::default()
    }
}

fn log_options() -> CentralOptions {
    CentralOptions {
        partitions: 4,
        partition_bytes: 64 << 10,
        buffer_bytes: 64 << 10,
        group_bytes: 16 << 10,
        record_bytes: 2048,
        reserve_bytes: 4096,
        checkpoint_bytes: 24 << 10,
        group_wait: Duration::ZERO,
    }
}

const FRAMES: usize = 24;

type Stored<T> = Store<RecordingFiles, T>;

fn create<T: Latched>(
    threads: &Arc<T>,
    files: &RecordingFiles,
    scenario: &Scenario,
) -> Arc<Stored<T>> {
    let log = Central::create(files, "log-", log_options(), Arc::clone(threads)).expect("a log");
    let (threads, options) = (Arc::clone(threads), files_options(FRAMES, Some(scenario)));
    Store::create_by(threads, files, "", 77, Arc::new(log), options, &[ROWS, BY_TAG])
        .expect("a store")
}

/// Opens what a crash has left, and returns all that is there.
pub(crate) fn left(image: BTreeMap<String, Vec<u8>>) -> Result<Vec<(Key, Cell)>> {
    let files = RecordingFiles::from_image(image);
    let log: Central<_, Host> = Central::open(&files, "log-", log_options(), Arc::default())?;
    let log: Arc<dyn LogManager> = Arc::new(log);
    let (store, _) = Store::open(&files, "", log, files_options(FRAMES, None))?;
    store.pool().check()?;
    Ok(contents(&store))
}

/// Everything that is there, which has to be the same in both orders.
fn contents<T: Latched>(store: &Arc<Stored<T>>) -> Vec<(Key, Cell)> {
    let mut session = store.session();
    let mut at = At { session: &mut session };
    at.session.begin(u64::MAX, None);
    let mut both = [By::Key, By::Tag].map(|by| {
        let mut rows = Vec::new();
        at.scan(&Scanned { by, ..Scanned::ALL }, &mut |key, cell| {
            rows.push((key, cell));
            true
        })
        .expect("scanned");
        rows
    });
    let [rows, by_tag] = &mut both;
    assert!(by_tag.is_sorted_by_key(|(key, cell)| (cell.tag, *key)), "{by_tag:?}");
    by_tag.sort_by_key(|(key, _)| *key);
    assert_eq!(rows, by_tag, "by key and by tag");
    let seen = session.commit().expect("committed");
    store.wait(seen).expect("durable");
    both.into_iter().next().expect("two")
}

/// A transaction of a session.
struct At<'s, T: Latched> {
    session: &'s mut Session<RecordingFiles, T>,
}

fn row(cell: Cell) -> Vec<u8> {
    let numbers = [cell.tag, cell.value].map(u64::to_be_bytes).concat();
    [numbers, body(cell.value)].concat()
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes[..8].try_into().expect("eight bytes"))
}

fn cell(row: &[u8]) -> Cell {
    cell_of(number(&row[8..]), number(row), &row[16..])
}

fn bound<'k>(bound: Bound<u64>, bytes: &'k [u8]) -> RowBound<'k> {
    match bound {
        Bound::Included(_) => RowBound::Included(bytes),
        Bound::Excluded(_) => RowBound::Excluded(bytes),
        Bound::Unbounded => RowBound::Unbounded,
    }
}

fn tagged(key: Key, cell: Cell) -> Vec<u8> {
    [cell.tag, key].map(u64::to_be_bytes).concat()
}

impl<T: Latched> Reads for At<'_, T> {
    type Error = PagedError;

    fn get(&mut self, key: Key) -> Result<Option<Cell>> {
        Ok(self.session.get(ROWS, &key.to_be_bytes())?.as_deref().map(cell))
    }

    fn scan(&mut self, what: &Scanned, shown: Shown<'_>) -> Result<()> {
        let (low, high) = (bytes_of(what.low), bytes_of(what.high));
        let range = RowRange { low: bound(what.low, &low), high: bound(what.high, &high) };
        let direction = if what.backward { Direction::Backward } else { Direction::Forward };
        if what.by == By::Key {
            let mut visit = |key: &[u8], row: &[u8]| Ok(shown(number(key), cell(row)));
            return self.session.scan(ROWS, &range, direction, &mut visit);
        }
        let mut keys = Vec::new();
        self.session.scan(BY_TAG, &range, direction, &mut |key, _| {
            keys.push(number(&key[8..]));
            Ok(true)
        })?;
        for key in keys {
            // A tag without a row would be one of a row that was never written.
            let cell = self.get(key)?.unwrap_or(Cell { value: u64::MAX, tag: u64::MAX });
            if !shown(key, cell) {
                break;
            }
        }
        Ok(())
    }
}

/// The state below a horizon.
struct Below<'s, T: Latched> {
    store: &'s Stored<T>,
    horizon: Lsn,
}

impl<T: Latched> Reads for Below<'_, T> {
    type Error = PagedError;

    fn get(&mut self, key: Key) -> Result<Option<Cell>> {
        let mut found = Vec::new();
        let is_there = self.store.read_below(self.horizon, ROWS, &key.to_be_bytes(), &mut found)?;
        Ok(is_there.then(|| cell(&found)))
    }

    fn scan(&mut self, what: &Scanned, shown: Shown<'_>) -> Result<()> {
        let tree = if what.by == By::Key { ROWS } else { BY_TAG };
        let mut scan = scan_of(what, tree);
        while !scan.is_done() {
            for (key, row) in self.store.next_rows_below(self.horizon, &mut scan, None)? {
                let (key, cell) = if what.by == By::Key {
                    (number(&key), cell(&row))
                } else {
                    let key = number(&key[8..]);
                    (key, self.get(key)?.unwrap_or(Cell { value: u64::MAX, tag: u64::MAX }))
                };
                if !shown(key, cell) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// A scan of a tree without locks.
fn scan_of(what: &Scanned, tree: TreeNo) -> RowScan {
    let (low, high) = (bytes_of(what.low), bytes_of(what.high));
    let range = RowRange { low: bound(what.low, &low), high: bound(what.high, &high) };
    let direction = if what.backward { Direction::Backward } else { Direction::Forward };
    RowScan::new(tree, &range, direction, RowLock::None)
}

fn bytes_of(bound: Bound<u64>) -> [u8; 8] {
    match bound {
        Bound::Included(at) | Bound::Excluded(at) => at.to_be_bytes(),
        Bound::Unbounded => [0; 8],
    }
}

impl<T: Latched> Writes for At<'_, T> {
    type Savepoint = Lsn;

    fn get_for_update(&mut self, key: Key) -> Result<Option<Cell>> {
        Ok(self.session.get_for_update(ROWS, &key.to_be_bytes())?.as_deref().map(cell))
    }

    fn insert(&mut self, key: Key, cell: Cell) -> Result<bool> {
        match self.session.insert(ROWS, &key.to_be_bytes(), &row(cell)) {
            Err(PagedError::Duplicate) => return Ok(false),
            done => done?,
        }
        self.session.insert(BY_TAG, &tagged(key, cell), &[])?;
        Ok(true)
    }

    fn update(&mut self, key: Key, new: Cell) -> Result<bool> {
        let bytes = key.to_be_bytes();
        let Some(old) = self.session.get_exclusive(ROWS, &bytes)? else { return Ok(false) };
        let old = cell(&old);
        self.session.update(ROWS, &bytes, &row(new))?;
        if old.tag != new.tag {
            self.session.delete(BY_TAG, &tagged(key, old))?;
            self.session.insert(BY_TAG, &tagged(key, new), &[])?;
        }
        Ok(true)
    }

    fn delete(&mut self, key: Key) -> Result<bool> {
        let bytes = key.to_be_bytes();
        let Some(old) = self.session.get_exclusive(ROWS, &bytes)? else { return Ok(false) };
        self.session.delete(ROWS, &bytes)?;
        self.session.delete(BY_TAG, &tagged(key, cell(&old)))?;
        Ok(true)
    }

    fn savepoint(&mut self) -> Result<Lsn> {
        Ok(self.session.savepoint())
    }

    fn rollback_to(&mut self, savepoint: Lsn) -> Result<()> {
        self.session.rollback_to(savepoint)
    }
}

/// The state that the threads share.
struct Shared<'a> {
    scenario: &'a Scenario,
    baton: Arc<Baton>,
    store: Arc<Stored<Baton>>,
    files: RecordingFiles,
    recorder: Recorder,
    ages: AtomicU64,
    conflicts: AtomicU64,
    unlocked: AtomicU64,
}

impl Scenario {
    /// A scenario of four threads with random transactions on a few keys.
    pub(crate) fn new(seed: u64, mix: Mix) -> Self {
        Self {
            seed,
            threads: 4,
            each: 12,
            keys: 6,
            plan: Plan::Random(mix),
            early_release: true,
            inherit_after: Some(1),
            escalate_after: usize::MAX,
            aborts: 10,
            lag: 20,
            heedless: false,
            flaw: None,
            crashes: false,
            unlocked: false,
        }
    }

    fn work(&self) -> Work {
        let mix = match self.plan {
            Plan::Random(mix) => mix,
            Plan::Ascending | Plan::Blind | Plan::Skewed | Plan::Vanishing => Mix::NONE,
        };
        Work { keys: self.keys, mix }
    }

    /// Runs it.
    ///
    /// # Panics
    /// An operation fails, or the store is not whole at the end.
    pub(crate) fn run(&self) -> Ran {
        // What is wrong may come to no end.
        let points = if self.flaw.is_some() { 400_000 } else { u64::MAX };
        let baton = Arc::new(Baton::new(self.seed).with(self.flaw).at_most(points));
        let files = RecordingFiles::new();
        let store = create(&baton, &files, self);
        let initial = self.work().initial();
        let mut session = store.session();
        session.begin(0, None);
        for (key, cell) in &initial {
            At { session: &mut session }.insert(*key, *cell).expect("inserted");
        }
        let filled = session.commit().expect("committed");
        store.sync().expect("durable");
        assert!(filled <= store.log().durable());
        drop(session);
        if self.crashes {
            files.start();
            files.note(0);
        }
        let shared = Shared {
            scenario: self,
            baton: Arc::clone(&baton),
            store: Arc::clone(&store),
            files: files.clone(),
            recorder: Recorder::new(initial),
            ages: AtomicU64::new(1),
            conflicts: AtomicU64::new(0),
            unlocked: AtomicU64::new(0),
        };
        baton.run(self.threads, |me| {
            Followed::by(baton.clone(), || shared.thread(me));
        });
        let trace = self.crashes.then(|| files.stop());
        let mut last = shared.recorder.begin(self.threads);
        last.scan(Range::ALL, contents(&store));
        shared.recorder.committed(last, None);
        let lost = store.pool().check().expect("checked").lost;
        assert_eq!(lost, 0, "seed {}: pages are lost", self.seed);
        Ran {
            history: shared.recorder.history(),
            locks: store.lock_counts(),
            conflicts: shared.conflicts.into_inner(),
            unlocked: shared.unlocked.into_inner(),
            trace,
        }
    }
}

/// The end of a try.
enum Ended {
    Over,
    Conflict,
}

impl Shared<'_> {
    fn thread(&self, me: usize) {
        let mut random = SmallRng::seed_from_u64(self.scenario.seed * 16 + me as u64);
        let mut session = self.store.session();
        for _ in 0..self.scenario.each {
            let age = self.ages.fetch_add(1, Ordering::Relaxed);
            let plan: u64 = random.random();
            while let Ended::Conflict = self.attempt(&mut session, me, age, plan) {
                self.conflicts.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn attempt(
        &self,
        session: &mut Session<RecordingFiles, Baton>,
        me: usize,
        age: u64,
        plan: u64,
    ) -> Ended {
        let mut random = SmallRng::seed_from_u64(plan);
        if self.scenario.unlocked && self.read_unlocked(me, plan) {
            return Ended::Over;
        }
        let mut pending = self.recorder.begin(me);
        session.begin(age, None);
        let done = self.operations(session, me, &mut random, &mut pending);
        match done {
            Ok(()) => {}
            Err(PagedError::Conflict(_)) => {
                let committed = self.scenario.heedless && session.commit().is_ok();
                if !committed {
                    session.abort().expect("aborted");
                }
                self.recorder.aborted(pending);
                return Ended::Conflict;
            }
            Err(error) => panic!("seed {}: {error}", self.scenario.seed),
        }
        let aborts = self.scenario.aborts;
        if aborts > 0 && random.random_ratio(1, aborts) {
            session.abort().expect("aborted");
            self.recorder.aborted(pending);
            return Ended::Over;
        }
        let changed = session.has_changed();
        let at = session.commit().expect("committed");
        let order = changed.then_some(at.0);
        for _ in 0..random.random_range(0..=self.scenario.lag) {
            self.baton.point();
        }
        self.store.wait(at).expect("durable");
        self.recorder.committed(pending, order);
        if self.scenario.crashes {
            self.files.note(self.recorder.now());
        }
        Ended::Over
    }

    /// Reads without locks, if the transaction is one that only reads; returns whether it did.
    fn read_unlocked(&self, me: usize, plan: u64) -> bool {
        let mut random = SmallRng::seed_from_u64(plan);
        let is_read = matches!(self.scenario.plan, Plan::Random(_)) && random.random_ratio(1, 4);
        if !is_read {
            return false;
        }
        let mut pending = self.recorder.begin(me);
        let mut at = Below { store: &self.store, horizon: self.store.horizon() };
        match self.scenario.work().read(&mut at, &mut random, &mut pending) {
            Ok(()) => {}
            Err(PagedError::TooOld) => {
                self.recorder.aborted(pending);
                return false;
            }
            Err(error) => panic!("seed {}: {error}", self.scenario.seed),
        }
        self.recorder.committed(pending, None);
        if self.scenario.crashes {
            self.files.note(self.recorder.now());
        }
        self.unlocked.fetch_add(1, Ordering::Relaxed);
        true
    }

    fn operations(
        &self,
        session: &mut Session<RecordingFiles, Baton>,
        me: usize,
        random: &mut SmallRng,
        pending: &mut Pending,
    ) -> Result<()> {
        let (work, mut at) = (self.scenario.work(), At { session });
        match self.scenario.plan {
            Plan::Random(_) if random.random_ratio(1, 4) => work.read(&mut at, random, pending),
            Plan::Random(_) => work.change(&mut at, random, &self.recorder, pending),
            Plan::Ascending => {
                for key in (0..self.scenario.keys).filter(|_| random.random()) {
                    let found = at.get_for_update(key)?;
                    pending.read(key, found);
                    if found.is_some() {
                        self.replace(&mut at, key, pending)?;
                    }
                }
                Ok(())
            }
            Plan::Skewed => {
                for key in [0, 2] {
                    let found = at.get(key)?;
                    pending.read(key, found);
                }
                self.replace(&mut at, me as Key * 2, pending)
            }
            Plan::Vanishing if me % 2 == 1 => {
                let mut saw = Vec::new();
                at.scan(&Scanned::ALL, &mut |key, cell| {
                    saw.push((key, cell));
                    true
                })?;
                pending.scan(Range::ALL, saw);
                Ok(())
            }
            Plan::Vanishing => {
                let key = random.random_range(0..self.scenario.keys);
                let there = at.delete(key)?;
                pending.found(key, there);
                let cell = Cell { value: self.recorder.unique(), tag: key % TAGS };
                if !there {
                    assert!(at.insert(key, cell)?, "it is not there");
                }
                pending.write(key, (!there).then_some(cell));
                Ok(())
            }
            Plan::Blind => {
                for _ in 0..random.random_range(1..6) {
                    // Only these are there.
                    let key = random.random_range(0..self.scenario.keys) / 2 * 2;
                    pending.found(key, true);
                    self.replace(&mut at, key, pending)?;
                }
                Ok(())
            }
        }
    }

    /// Replaces a row that is there; its tag stays.
    fn replace(&self, at: &mut At<'_, Baton>, key: Key, pending: &mut Pending) -> Result<()> {
        let cell = Cell { value: self.recorder.unique(), tag: key % TAGS };
        assert!(at.update(key, cell)?, "it is there");
        pending.write(key, Some(cell));
        Ok(())
    }
}
