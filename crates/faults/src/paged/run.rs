//! Threads that run transactions on a store, recorded for the oracle and for crashes.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use paged::PagedError;
use paged::latch::Followed;
use paged::store::{Restart, RowBound, RowRange, Session};
use paged::threads::{Baton, Threads, Waiter};
use paged::tree::Direction;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sim::{CombinedTrace, RecordingFiles};

use super::stage::{LogKind, Media, Open, Stage, TREES};
use crate::explorer::without_panic;
use crate::history::Rule::Serializable;
use crate::history::{Cell, History, Key, Pending, Range, Recorder};
use crate::quiet::quietly;

/// Keys of a tree.
const KEYS: u16 = 48;
/// Keys that a run of inserts or deletes has.
const RUN: u16 = 10;
/// The time between two passes of the persister, by the baton's clock.
const PAUSE: Duration = Duration::from_micros(150);

type Own = Session<RecordingFiles, Baton>;

/// The contents of a store: all rows of all trees, as the oracle names them.
pub type Contents = Vec<(Key, Cell)>;

/// A recorded run.
#[derive(Debug)]
pub struct Scenario {
    /// The store.
    pub stage: Stage,
    /// The transactions with what they saw.
    pub history: History,
    /// The events of the media, with the history's time at each acknowledgement.
    pub trace: CombinedTrace,
    /// Counts of what happened.
    pub counts: RunCounts,
}

/// Counts of what happened in a run.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct RunCounts {
    /// Transactions that were acknowledged.
    pub committed: u64,
    /// Transactions that were undone, by choice or because they could not go on.
    pub aborted: u64,
    /// Transactions that were victims of others.
    pub conflicts: u64,
    /// Transactions that found no room in the log, or no frame.
    pub refused: u64,
    /// Returns to a savepoint.
    pub rolled_back: u64,
    /// Pages that made way for others.
    pub evictions: u64,
    /// Waits for locks.
    pub waits: u64,
}

/// The transactions of a run, and the store under them.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Workload {
    /// Transactions of every kind.
    #[default]
    Everything,
    /// A few neighbouring keys come and go: a transaction reads the range, changes it, and reads it
    /// again, or inserts one key unseen.
    Gaps,
    /// Many read one of a few keys and no more, few change one. Locks are let go early.
    Readers,
    /// Everything, over segments of the log that are soon full.
    SmallSegments,
}

/// A plan for a run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The store.
    pub stage: Stage,
    /// Chooses the transactions, and who runs when.
    pub seed: u64,
    /// Threads with transactions.
    pub workers: usize,
    /// Transactions of each thread.
    pub transactions: u64,
    /// The kind of transactions.
    pub workload: Workload,
}

impl Plan {
    /// A plan whose details follow from the seed.
    pub fn new(log: LogKind, seed: u64) -> Self {
        let workers = 2 + seed as usize % 2;
        let stage = Stage {
            inherit: seed & 2 == 0,
            early_release: seed & 4 == 0,
            frames: 8 * workers,
            page_bytes: if seed % 3 == 1 { 1024 } else { 512 },
            restart: if seed % 5 < 3 { Restart::OnDemand } else { Restart::Full },
            ..Stage::new(log)
        };
        Self { stage, seed, workers, transactions: 30, workload: Workload::Everything }
    }

    /// The same plan with these transactions.
    #[must_use]
    pub fn with_workload(mut self, workload: Workload) -> Self {
        self.workload = workload;
        self.stage.early_release |= workload == Workload::Readers;
        if workload == Workload::SmallSegments {
            self.stage.segment_records = 1;
        }
        self
    }

    /// Runs it.
    ///
    /// # Errors
    /// The store does something wrong without any crash.
    pub fn run(&self) -> Result<Scenario, String> {
        without_panic(|| self.record())
    }

    fn record(&self) -> Result<Scenario, String> {
        let Self { stage, seed, workers, .. } = *self;
        let baton = stage.baton(seed);
        let (media, open) = stage.create(&baton);
        media.start();
        note(&stage, &media, 0);
        let scene = Scene {
            plan: self,
            media: &media,
            open: &open,
            recorder: Recorder::default(),
            counts: Default::default(),
            ages: AtomicU64::new(1),
            left: AtomicUsize::new(workers),
            ended: AtomicBool::new(false),
            persister: Arc::default(),
            failed: Mutex::new(None),
            threads: &baton,
        };
        let persisters = usize::from(open.persisted.is_some());
        baton.run(workers + persisters, |me| {
            Followed::by(baton.clone(), || quietly(|| scene.play(me)));
        });
        if let Some(why) = scene.failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(why);
        }
        let trace = media.stop();
        let mut last = scene.recorder.begin(workers);
        last.scan(Range::ALL, contents(&stage, &open)?);
        scene.recorder.committed(last, None);
        checks(&open)?;
        let held = open.store.lock_counts().held;
        if held > 0 && !stage.inherit {
            return Err(format!("{held} locks are held when no thread works"));
        }
        let history = scene.recorder.history();
        history.check(Serializable).map_err(|found| found.to_string())?;
        let mut counts = scene.counts.into_inner().unwrap_or_else(PoisonError::into_inner);
        counts.evictions = open.store.pool_stats().evictions;
        counts.waits = open.store.lock_counts().waits;
        Ok(Scenario { stage, history, trace, counts })
    }
}

/// Puts a note where the log lies, so that a fault can move it across the log's barriers.
pub(super) fn note(stage: &Stage, media: &Media, time: u64) {
    if stage.log.is_nv() { media.memory.note(time) } else { media.files.note(time) }
}

/// Everything that a run's threads share.
struct Scene<'a> {
    plan: &'a Plan,
    media: &'a Media,
    open: &'a Open,
    recorder: Recorder,
    counts: Mutex<RunCounts>,
    ages: AtomicU64,
    left: AtomicUsize,
    ended: AtomicBool,
    persister: Arc<Waiter>,
    failed: Mutex<Option<String>>,
    threads: &'a Arc<Baton>,
}

impl Scene<'_> {
    fn play(&self, me: usize) {
        if me == self.plan.workers {
            let log = self.open.persisted.as_ref().expect("it has a persister");
            let served =
                catch_unwind(AssertUnwindSafe(|| log.serve(&self.persister, PAUSE, &self.ended)));
            match served {
                Ok(served) => self.note_failure(served.map_err(|error| error.to_string())),
                Err(_) => self.note_failure(Err("the persister panics".into())),
            }
            return;
        }
        let mut session = self.open.store.session();
        let random = SmallRng::seed_from_u64(self.plan.seed << 8 | me as u64);
        let worked = catch_unwind(AssertUnwindSafe(|| self.work(&mut session, random, me)));
        match worked {
            Ok(Ok(())) => drop(session),
            Ok(failed) => {
                std::mem::forget(session);
                self.note_failure(failed);
            }
            Err(panic) => {
                // Undoing could panic once more.
                std::mem::forget(session);
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).into()));
                self.note_failure(Err(format!("a thread panics: {}", text.unwrap_or_default())));
            }
        }
        if self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.end();
        }
    }

    fn note_failure(&self, done: Result<(), String>) {
        if let Err(why) = done {
            let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
            failed.get_or_insert(why);
            drop(failed);
            self.end();
        }
    }

    fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
        self.threads.wake(&self.persister);
    }

    fn work(&self, session: &mut Own, mut random: SmallRng, me: usize) -> Result<(), String> {
        for turn in 0..self.plan.transactions {
            if self.ended.load(Ordering::SeqCst) {
                return Ok(());
            }
            let Self { plan, open, recorder, ages, .. } = self;
            let done = transaction(plan.workload, session, open, recorder, &mut random, me, ages)
                .map_err(|error| format!("transaction {turn} of thread {me}: {error}"))?;
            if done.committed > 0 {
                note(&self.plan.stage, self.media, self.recorder.now());
            }
            if random.random_ratio(1, 12) {
                self.open.store.checkpoint().map_err(|error| format!("a checkpoint: {error}"))?;
            }
            let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
            counts.committed += done.committed;
            counts.aborted += done.aborted;
            counts.conflicts += done.conflicts;
            counts.refused += done.refused;
            counts.rolled_back += done.rolled_back;
        }
        Ok(())
    }
}

/// Runs one transaction to its end; returns what became of it.
pub(super) fn transaction(
    workload: Workload,
    session: &mut Own,
    open: &Open,
    recorder: &Recorder,
    random: &mut SmallRng,
    me: usize,
    ages: &AtomicU64,
) -> paged::Result<RunCounts> {
    let mut counts = RunCounts::default();
    let mut doing = Doing { session, pending: recorder.begin(me), recorder, random };
    doing.session.begin(ages.fetch_add(1, Ordering::SeqCst), None);
    let mut done = match workload {
        Workload::Everything | Workload::SmallSegments => doing.several(&mut counts),
        Workload::Gaps => doing.change_a_gap(),
        Workload::Readers => doing.read_or_change_one(),
    };
    if matches!(done, Err(PagedError::Conflict(_))) && doing.random.random() {
        // It is doomed: the half of it that was done may not be committed.
        done = match doing.session.commit() {
            Err(error @ PagedError::Conflict(_)) => Err(error),
            Ok(at) => open.store.wait(at),
            other => other.map(drop),
        };
    } else if done.is_ok() && doing.random.random_ratio(7, 8) {
        let at = doing.session.commit()?;
        open.store.wait(at)?;
        recorder.committed(doing.pending, Some(at.0));
        counts.committed = 1;
        return Ok(counts);
    }
    match done {
        Ok(()) => {}
        Err(PagedError::Conflict(_)) => counts.conflicts = 1,
        Err(
            PagedError::LogFull { .. }
            | PagedError::NoFrame { .. }
            | PagedError::TransactionTooLarge { .. },
        ) => counts.refused = 1,
        Err(error) => return Err(error),
    }
    counts.aborted = 1;
    let Doing { session, pending, .. } = doing;
    session.abort()?;
    recorder.aborted(pending);
    Ok(counts)
}

/// Commits a row that no scenario has.
pub(super) fn add_one(open: &Open) -> paged::Result<()> {
    let mut session = open.store.session();
    session.begin(1, None);
    session.insert(TREES[0], &bytes_of(KEYS), &row_of(1 << 40))?;
    let at = session.commit()?;
    open.store.wait(at)
}

/// A transaction under way.
struct Doing<'a> {
    session: &'a mut Own,
    pending: Pending,
    recorder: &'a Recorder,
    random: &'a mut SmallRng,
}

/// Returns the place of a row, for the oracle.
fn key_of(tree: usize, number: u16) -> Key {
    (tree as u64) << 16 | u64::from(number)
}

fn bytes_of(number: u16) -> Vec<u8> {
    let mut key = number.to_be_bytes().to_vec();
    key.resize(2 + usize::from(number % 23), b'k');
    key
}

fn number_of(key: &[u8]) -> u16 {
    u16::from_be_bytes([key[0], key[1]])
}

/// The row with a value. Some are longer than a quarter of a page, and lie in chains.
fn row_of(value: u64) -> Vec<u8> {
    let bytes = if value % 9 == 4 { 150 + value * 13 % 500 } else { value * 7 % 60 };
    let mut row = value.to_le_bytes().to_vec();
    row.extend((0..bytes).map(|at| (value * 31 + at) as u8));
    row
}

/// The cell of a row. A cell put together from two was never written.
fn cell_of(row: &[u8]) -> Cell {
    let value = row.first_chunk().map_or(u64::MAX, |value| u64::from_le_bytes(*value));
    Cell { value: if row_of(value) == row { value } else { u64::MAX }, tag: 0 }
}

impl Doing<'_> {
    fn several(&mut self, counts: &mut RunCounts) -> paged::Result<()> {
        let tree = self.random.random_range(0..TREES.len());
        let from = [0, 5, 20, KEYS - RUN][self.random.random_range(0..4)];
        match self.random.random_range(0..10) {
            // Rows that come and go together: pages are split and merged.
            0 | 1 => (from..from + RUN).try_for_each(|number| self.insert(tree, number)),
            2 | 3 => (from..from + RUN).try_for_each(|number| self.delete(tree, number)),
            4 => self.look(),
            5 | 6 => self.change_what_was_seen(tree, from),
            _ => self.mixed(counts),
        }
    }

    /// Reads a few neighbouring keys, inserts or deletes some of them, and reads them again; or
    /// inserts one unseen: only the lock of its gap stops that.
    fn change_a_gap(&mut self) -> paged::Result<()> {
        const TO: u16 = 5;
        if self.random.random() {
            let number = self.random.random_range(0..=TO);
            return self.insert(0, number);
        }
        self.scan(0, 0, TO)?;
        for _ in 0..self.random.random_range(1..3) {
            let number = self.random.random_range(0..=TO);
            match self.random.random() {
                true => self.insert(0, number)?,
                false => self.delete(0, number)?,
            }
        }
        self.scan(0, 0, TO)
    }

    fn read_or_change_one(&mut self) -> paged::Result<()> {
        let number = self.random.random_range(0..3);
        match self.random.random_range(0..8) {
            0 => self.insert(0, number),
            1 => self.update(0, number),
            _ => self.get(0, number),
        }
    }

    /// Chooses a key: one of a few that all threads want, or any.
    fn number(&mut self) -> u16 {
        let most = if self.random.random() { 6 } else { KEYS };
        self.random.random_range(0..most)
    }

    /// Only reads.
    fn look(&mut self) -> paged::Result<()> {
        for _ in 0..self.random.random_range(1..4) {
            let tree = self.random.random_range(0..TREES.len());
            let number = self.number();
            match self.random.random() {
                true => self.get(tree, number)?,
                false => self.scan(tree, number, KEYS - 1)?,
            }
        }
        Ok(())
    }

    /// Reads a range, changes what is in it, and perhaps reads it again: who does that at the same
    /// time must not miss the other one.
    fn change_what_was_seen(&mut self, tree: usize, from: u16) -> paged::Result<()> {
        let to = from + RUN - 1;
        self.scan(tree, from, to)?;
        for _ in 0..self.random.random_range(1..3) {
            let number = self.random.random_range(from..=to);
            match self.random.random_range(0..3) {
                0 | 1 => self.insert(tree, number)?,
                _ => self.delete(tree, number)?,
            }
        }
        if self.random.random() { self.scan(tree, from, to) } else { Ok(()) }
    }

    fn mixed(&mut self, counts: &mut RunCounts) -> paged::Result<()> {
        let mut saved = None;
        for _ in 0..self.random.random_range(1..6) {
            let tree = self.random.random_range(0..TREES.len());
            let number = self.number();
            match self.random.random_range(0..12) {
                0 | 1 => self.get(tree, number)?,
                2 | 3 => self.get_and_update(tree, number)?,
                4 | 5 => self.update(tree, number)?,
                6 | 7 => self.insert(tree, number)?,
                8 | 9 => self.delete(tree, number)?,
                _ => {
                    let high = self.random.random_range(number..KEYS);
                    self.scan(tree, number, high)?;
                }
            }
            if self.random.random_ratio(1, 5) {
                saved = Some((self.session.savepoint(), self.pending.operations()));
            }
        }
        if let Some((savepoint, operations)) = saved
            && self.random.random()
        {
            self.session.rollback_to(savepoint)?;
            self.pending.roll_back_to(operations);
            counts.rolled_back += 1;
            let number = self.random.random_range(0..KEYS);
            self.get(0, number)?;
        }
        Ok(())
    }

    fn new_cell(&self) -> (Cell, Vec<u8>) {
        let value = self.recorder.unique();
        (Cell { value, tag: 0 }, row_of(value))
    }

    fn saw(&mut self, tree: usize, number: u16, row: Option<&[u8]>) {
        self.pending.read(key_of(tree, number), row.map(cell_of));
    }

    fn get(&mut self, tree: usize, number: u16) -> paged::Result<()> {
        let row = self.session.get(TREES[tree], &bytes_of(number))?;
        self.saw(tree, number, row.as_deref());
        Ok(())
    }

    fn get_and_update(&mut self, tree: usize, number: u16) -> paged::Result<()> {
        let row = self.session.get_for_update(TREES[tree], &bytes_of(number))?;
        self.saw(tree, number, row.as_deref());
        if row.is_some() { self.update(tree, number) } else { Ok(()) }
    }

    fn update(&mut self, tree: usize, number: u16) -> paged::Result<()> {
        let (cell, row) = self.new_cell();
        let done = self.session.update(TREES[tree], &bytes_of(number), &row);
        self.changed(tree, number, true, Some(cell), done)
    }

    fn insert(&mut self, tree: usize, number: u16) -> paged::Result<()> {
        let (cell, row) = self.new_cell();
        let done = self.session.insert(TREES[tree], &bytes_of(number), &row);
        self.changed(tree, number, false, Some(cell), done)
    }

    fn delete(&mut self, tree: usize, number: u16) -> paged::Result<()> {
        let done = self.session.delete(TREES[tree], &bytes_of(number));
        self.changed(tree, number, true, None, done)
    }

    /// Records a change, which is done where there is a row, or where there is none.
    fn changed(
        &mut self,
        tree: usize,
        number: u16,
        where_there: bool,
        cell: Option<Cell>,
        done: paged::Result<()>,
    ) -> paged::Result<()> {
        let key = key_of(tree, number);
        match done {
            Ok(()) => {
                self.pending.found(key, where_there);
                self.pending.write(key, cell);
                Ok(())
            }
            Err(PagedError::Duplicate | PagedError::Missing) => {
                self.pending.found(key, !where_there);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Scans a range in one of the directions, and perhaps not to its end.
    fn scan(&mut self, tree: usize, low: u16, high: u16) -> paged::Result<()> {
        let (first, last) = (low.to_be_bytes(), high.to_be_bytes());
        let range = RowRange { low: RowBound::Included(&first), high: RowBound::Included(&last) };
        let backward = self.random.random();
        let direction = if backward { Direction::Backward } else { Direction::Forward };
        let most = if self.random.random_ratio(1, 3) { 2 } else { usize::MAX };
        let mut saw: Contents = Vec::new();
        self.session.scan(TREES[tree], &range, direction, &mut |key, row| {
            saw.push((key_of(tree, number_of(key)), cell_of(row)));
            Ok(saw.len() < most)
        })?;
        let mut covered = Range::keys(key_of(tree, low), key_of(tree, high));
        if let Some((key, cell)) = saw.last().filter(|_| saw.len() >= most) {
            let place = Range::place(covered.by, *key, *cell);
            *(if backward { &mut covered.low } else { &mut covered.high }) = place;
        }
        self.pending.scan(covered, saw);
        Ok(())
    }
}

/// Returns all rows, and checks that both directions show the same.
///
/// # Errors
/// They can't be read, or differ.
pub fn contents(stage: &Stage, open: &Open) -> Result<Contents, String> {
    let unreadable = |error: PagedError| format!("cannot be read: {error}");
    Followed::by(stage.baton(2), || {
        let mut session = open.store.session();
        session.begin(0, None);
        let mut rows = [BTreeMap::new(), BTreeMap::new()];
        for (direction, rows) in
            [Direction::Forward, Direction::Backward].into_iter().zip(&mut rows)
        {
            let all = RowRange { low: RowBound::Unbounded, high: RowBound::Unbounded };
            for (tree, number) in TREES.into_iter().enumerate() {
                let shown = session.scan(number, &all, direction, &mut |key, row| {
                    rows.insert(key_of(tree, number_of(key)), cell_of(row));
                    Ok(true)
                });
                shown.map_err(unreadable)?;
            }
        }
        let seen = session.commit().map_err(unreadable)?;
        open.store.wait(seen).map_err(unreadable)?;
        let [forward, backward] = rows;
        if forward != backward {
            return Err("shows other rows forward than backward".into());
        }
        Ok(forward.into_iter().collect())
    })
}

/// Checks that all pages agree, and that none is lost.
///
/// # Errors
/// The violation.
pub fn checks(open: &Open) -> Result<(), String> {
    let checked = open.store.pool().check().map_err(|error| format!("is damaged: {error}"))?;
    if checked.lost > 0 { Err(format!("has lost {} pages", checked.lost)) } else { Ok(()) }
}
