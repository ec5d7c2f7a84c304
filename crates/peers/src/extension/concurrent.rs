//! A connection that writes and others that read the same database at the same time, each in a thread or a process of
//! its own.
//!
//! 1. [`load_concurrent`] makes the database, loads it and closes it.
//! 2. Each side opens a connection of its own, and makes its inputs. Then it waits until all sides are there.
//! 3. The writer runs its transactions. The readers read rows that were loaded, until the writer has ended. So all
//!    sides have the same span: from the moment at which the last one was there until the writer's last commit.
//! 4. SQLite without the VFS reads and checks what is left.
//!
//! A connection that finds the database busy waits as long as [`BUSY_TIMEOUT`], by SQLite's own busy handler.
//!
//! Sides see each other by words in a mapped file, [`Signals`], in threads as in processes. A side that fails ends the
//! others.

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};
use serde::{Deserialize, Serialize};
use workloads::{Measurement, Progress, Random, StoreError};

use super::connection::{Stats, answer};
use super::contents::Contents;
use super::inputs::{Keys, Operation, Spec, SpecError, Workload};
use super::mobibench::{
    Input, Ran, Runner, SqliteMode, configure, connect, counted_since, counts, create, file_bytes,
};
use crate::mapping::Mapping;

/// The time that a connection waits for a lock before it fails.
const BUSY_TIMEOUT: Duration = Duration::from_secs(60);
/// Transactions whose inputs a reader makes; it runs them again and again.
const READS: u64 = 16 << 10;

/// The part of a run that a connection has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Side {
    /// Runs the transactions of the workload.
    Writer,
    /// The reader of a number, from 0 on.
    Reader(u32),
}

impl Side {
    /// All sides of a run with so many readers.
    pub fn all(readers: u32) -> impl Iterator<Item = Self> {
        std::iter::once(Self::Writer).chain((0..readers).map(Self::Reader))
    }
}

/// A run: the same for all sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    /// The way in which SQLite commits.
    pub mode: SqliteMode,
    /// The workload of the writer.
    pub spec: Spec,
    /// The domain of the VFS's commits.
    pub domain: Option<String>,
    /// The number of readers.
    pub readers: u32,
    /// The rate that the writer keeps to on average, in transactions a second; `None` if it does not wait.
    pub writes_per_second: Option<u64>,
    /// A directory for the database, with nothing else in it.
    pub directory: PathBuf,
    /// The file of [`Signals`].
    pub signals: PathBuf,
}

impl Setup {
    fn database(&self) -> PathBuf {
        self.directory.join("database")
    }

    /// Returns whether the run is possible.
    ///
    /// # Errors
    /// The reason why it is not.
    pub fn check(&self) -> Result<Workload, SpecError> {
        let workload = Workload::generate(&self.spec)?;
        if !matches!(self.spec.operation, Operation::Insert | Operation::Update) {
            let what = self.spec.operation.name();
            let why = format!("a writer next to readers inserts or updates: {what} is no such");
            return Err(SpecError::new(why));
        }
        if self.spec.records == 0 {
            return Err(SpecError::new("there is no row to read: load some with --records".into()));
        }
        if self.spec.exclusive {
            return Err(SpecError::new("a connection that keeps its lock has no readers".into()));
        }
        Ok(workload)
    }
}

/// Bytes from one word to the next: no two on neighbouring lines.
const STRIDE: usize = 128;
/// The number of sides that are there.
const ARRIVED: usize = 0;
/// Whether the span has ended, and how.
const END: usize = STRIDE;
/// Transactions of the writer.
const WRITTEN: usize = 2 * STRIDE;
const WORDS: usize = 3;

/// The end of a span.
const DONE: u64 = 1;
const FAILED: u64 = 2;

/// The words by which sides see each other, in a mapped file.
pub struct Signals {
    mapping: Mapping,
    sides: u64,
}

impl Signals {
    /// Makes the file of a run.
    ///
    /// # Errors
    /// It cannot be created or mapped.
    pub fn create(setup: &Setup) -> Result<Self, StoreError> {
        Self::map(setup, true)
    }

    /// Opens the file of a run.
    ///
    /// # Errors
    /// It is not there, or cannot be mapped.
    pub fn open(setup: &Setup) -> Result<Self, StoreError> {
        Self::map(setup, false)
    }

    fn map(setup: &Setup, create: bool) -> Result<Self, StoreError> {
        let path = &setup.signals;
        let io = |error| StoreError::io(path, error);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(create).truncate(create);
        let file = options.open(path).map_err(io)?;
        let bytes = WORDS * STRIDE;
        if create {
            file.set_len(bytes as u64).map_err(io)?;
        } else if file.metadata().map_err(io)?.len() < bytes as u64 {
            let what = "too short for the signals of a run".into();
            return Err(StoreError::Damaged { path: path.clone(), what });
        }
        let mapping = Mapping::new(&file, path, bytes)?;
        Ok(Self { mapping, sides: u64::from(setup.readers) + 1 })
    }

    /// Transactions of the writer so far.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.mapping.counter(WRITTEN).load(Ordering::Relaxed)
    }

    fn end(&self) -> u64 {
        self.mapping.counter(END).load(Ordering::Acquire)
    }

    /// Ends the run of all sides, since one has failed.
    pub fn fail(&self) {
        self.mapping.counter(END).store(FAILED, Ordering::Release);
    }

    /// Waits until all sides are there.
    fn meet(&self) -> Result<(), StoreError> {
        self.mapping.counter(ARRIVED).fetch_add(1, Ordering::AcqRel);
        while self.mapping.counter(ARRIVED).load(Ordering::Acquire) < self.sides {
            self.check()?;
            thread::yield_now();
        }
        self.check()
    }

    fn check(&self) -> Result<(), StoreError> {
        if self.end() == FAILED {
            return Err(StoreError::engine(OTHER_FAILED));
        }
        Ok(())
    }
}

/// The failure of a side that another one's failure has ended.
const OTHER_FAILED: &str = "another connection has failed";

/// Fails the run unless it is defused, also if this side panics.
struct FailUnlessDone<'a>(&'a Signals, bool);

impl Drop for FailUnlessDone<'_> {
    fn drop(&mut self) {
        if !self.1 {
            self.0.fail();
        }
    }
}

/// The result of one side.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SideRan {
    transactions: u64,
    /// The span; the writer's counts.
    seconds: f64,
    /// Latencies in nanoseconds, and how many transactions had each.
    latencies: Vec<(u64, u64)>,
    stats: Option<Stats>,
    domain: Option<String>,
    /// Bytes of the database, and of its other files, at the end of the span.
    file_bytes: (u64, u64),
}

impl SideRan {
    fn add_to(&self, all: &mut Measurement) {
        all.transactions += self.transactions;
        for &(latency, count) in &self.latencies {
            all.latency_ns.saturating_record_n(latency, count);
        }
    }
}

/// The results of all sides.
#[derive(Debug, Clone)]
pub struct ConcurrentRan {
    /// The writer's part, and the database afterwards.
    pub writer: Ran,
    /// All readers' transactions, in the writer's span.
    pub reads: Measurement,
}

/// Makes the database of a run, loads and closes it.
///
/// # Errors
/// As [`run`](super::run).
pub fn load_concurrent(
    setup: &Setup,
    workload: &Workload,
    progress: &Progress,
) -> Result<(), StoreError> {
    let domain = setup.domain.as_deref();
    let connection = create(setup.mode, &setup.database(), domain, workload, progress)?;
    connection.close().map_err(|(_, error)| StoreError::engine(error))
}

/// Runs one side to the end of the span.
///
/// # Errors
/// As [`run`](super::run); or another side has failed.
pub fn run_side(
    setup: &Setup,
    side: Side,
    workload: &Workload,
    signals: &Signals,
) -> Result<SideRan, StoreError> {
    let mut failing = FailUnlessDone(signals, false);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
    let connection = connect(setup.mode, &setup.database(), setup.domain.as_deref(), flags)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(StoreError::engine)?;
    configure(setup.mode, &connection, &setup.spec)?;
    let ran = match side {
        Side::Writer => write(setup, &connection, workload, signals)?,
        Side::Reader(number) => read(setup, number, &connection, workload, signals)?,
    };
    failing.1 = true;
    drop(failing);
    connection.close().map_err(|(_, error)| StoreError::engine(error))?;
    Ok(ran)
}

fn write(
    setup: &Setup,
    connection: &Connection,
    workload: &Workload,
    signals: &Signals,
) -> Result<SideRan, StoreError> {
    let spec = &setup.spec;
    let input = |(number, rows)| Input::new(workload, spec.operation, rows, number);
    let inputs: Vec<Input> = (1..).zip(workload.transactions()).map(input).collect();
    let mut runner = Runner::new(connection, spec.operation, spec.record_bytes)?;
    let mut measured = Measurement::nothing();
    let before = counts(setup.mode, connection)?;
    signals.meet()?;
    let begun = Instant::now();
    for (number, input) in (1..).zip(&inputs) {
        if let Some(rate) = setup.writes_per_second {
            await_turn(begun, number, rate);
            signals.check()?;
        }
        let took_ns = runner.run(number, input)?;
        measured.latency_ns.saturating_record(took_ns);
        signals.mapping.counter(WRITTEN).store(number, Ordering::Relaxed);
        if number % 64 == 0 {
            signals.check()?;
        }
    }
    measured.seconds = begun.elapsed().as_secs_f64();
    // A failure is not hidden.
    let end = signals.mapping.counter(END);
    let _ = end.compare_exchange(0, DONE, Ordering::AcqRel, Ordering::Acquire);
    measured.transactions = spec.transactions;
    let stats = counted_since(setup.mode, connection, before, spec)?;
    side_ran(setup, connection, &measured, stats)
}

/// Sleeps until the transaction of a number may begin, if that is a millisecond and more: of faster writers several
/// transactions follow each other after a sleep.
fn await_turn(begun: Instant, number: u64, per_second: u64) {
    let due = Duration::from_secs_f64((number - 1) as f64 / per_second as f64);
    let early = due.saturating_sub(begun.elapsed());
    if early >= Duration::from_millis(1) {
        thread::sleep(early);
    }
}

fn read(
    setup: &Setup,
    number: u32,
    connection: &Connection,
    workload: &Workload,
    signals: &Signals,
) -> Result<SideRan, StoreError> {
    let spec = &setup.spec;
    let inputs = reads_of(workload, number);
    let mut runner = Runner::new(connection, Operation::Select, spec.record_bytes)?;
    let mut measured = Measurement::nothing();
    // It is what it has to be.
    let before = counts(setup.mode, connection)?;
    signals.meet()?;
    for input in inputs.iter().cycle() {
        if signals.end() != 0 {
            break;
        }
        let took_ns = runner.run(measured.transactions + 1, input)?;
        measured.latency_ns.saturating_record(took_ns);
        measured.transactions += 1;
    }
    signals.check()?;
    let stats =
        counts(setup.mode, connection)?.zip(before).map(|(after, before)| after.since(&before));
    side_ran(setup, connection, &measured, stats)
}

/// The inputs of a reader: rows that were loaded, in the order of the workload's keys.
fn reads_of(workload: &Workload, reader: u32) -> Vec<Input> {
    let spec = workload.spec();
    let mut random = Random::new(spec.seed, 0x7ead_0000 | u64::from(reader));
    let count = READS / u64::from(spec.per_txn).min(READS);
    let mut next = random.below(spec.records);
    (0..count)
        .map(|_| {
            let rows: Vec<u32> = (0..spec.per_txn)
                .map(|_| {
                    next = match spec.keys {
                        Keys::Ascending => (next + 1) % spec.records,
                        Keys::Random => random.below(spec.records),
                    };
                    next as u32
                })
                .collect();
            Input::new(workload, Operation::Select, &rows, 0)
        })
        .collect()
}

fn side_ran(
    setup: &Setup,
    connection: &Connection,
    measured: &Measurement,
    stats: Option<Stats>,
) -> Result<SideRan, StoreError> {
    let latency = &measured.latency_ns;
    Ok(SideRan {
        transactions: measured.transactions,
        seconds: measured.seconds,
        latencies: latency
            .iter_recorded()
            .map(|step| (step.value_iterated_to(), step.count_at_value()))
            .collect(),
        stats,
        domain: answer(connection, "perdura_domain").map_err(StoreError::engine)?,
        file_bytes: file_bytes(&setup.directory, &setup.database())?,
    })
}

/// Runs all sides in threads of this process.
///
/// # Errors
/// As [`run_side`]; the first reason.
pub fn run_threads(
    setup: &Setup,
    workload: &Workload,
    signals: &Signals,
) -> Result<ConcurrentRan, StoreError> {
    let all = thread::scope(|scope| {
        let start = |side| scope.spawn(move || run_side(setup, side, workload, signals));
        let threads: Vec<_> = Side::all(setup.readers).map(start).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect::<Vec<_>>()
    });
    let mut sides = Vec::new();
    let mut failure = None;
    for side in all {
        match side {
            Ok(ran) => sides.push(ran),
            // The reason of the others is this one's failure, or that another one has failed.
            Err(error) if failure.is_none() || !is_of_another(&error) => failure = Some(error),
            Err(_) => {}
        }
    }
    match failure {
        Some(error) => Err(error),
        None => combine(setup, &sides),
    }
}

/// Returns whether a side has failed only because another one has.
fn is_of_another(error: &StoreError) -> bool {
    error.to_string().contains(OTHER_FAILED)
}

/// Puts the results of all sides together, the writer's first, and checks the database, which no connection has open.
///
/// # Errors
/// The database is not whole.
///
/// # Panics
/// There is no writer.
pub fn combine(setup: &Setup, sides: &[SideRan]) -> Result<ConcurrentRan, StoreError> {
    let (writer, readers) = sides.split_first().expect("a writer");
    let (mut measured, mut reads) = (Measurement::nothing(), Measurement::nothing());
    writer.add_to(&mut measured);
    readers.iter().for_each(|reader| reader.add_to(&mut reads));
    (measured.seconds, reads.seconds) = (writer.seconds, writer.seconds);
    let contents = Contents::of_plain_file(&setup.database())?;
    let (database_bytes, log_bytes) = writer.file_bytes;
    let writer = Ran {
        measured,
        stats: writer.stats,
        domain: writer.domain.clone(),
        contents,
        database_bytes,
        log_bytes,
    };
    Ok(ConcurrentRan { writer, reads })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn setup(mode: SqliteMode, directory: &Path) -> Setup {
        let spec = Spec {
            operation: Operation::Update,
            keys: Keys::Random,
            records: 100,
            transactions: 200,
            per_txn: 2,
            record_bytes: 100,
            page_bytes: 1024,
            prepared: true,
            exclusive: false,
            seed: 1,
        };
        let (domain, signals) = (None, directory.join("signals"));
        let directory = directory.join("data");
        std::fs::create_dir(&directory).expect("a directory");
        let (readers, writes_per_second) = (2, None);
        Setup { mode, spec, domain, readers, writes_per_second, directory, signals }
    }

    fn folder() -> tempfile::TempDir {
        tempfile::Builder::new().tempdir_in("/dev/shm").expect("a directory")
    }

    fn ran(setup: &Setup) -> Result<ConcurrentRan, StoreError> {
        let workload = setup.check().expect("possible");
        load_concurrent(setup, &workload, &Progress::new(1))?;
        let signals = Signals::create(setup)?;
        let ran = run_threads(setup, &workload, &signals);
        assert_eq!(signals.written(), setup.spec.transactions);
        ran
    }

    #[test]
    fn all_modes_end_alike_next_to_readers() {
        let mut found = None;
        for mode in SqliteMode::ALL {
            let folder = folder();
            let setup = setup(mode, folder.path());
            let ran = ran(&setup).expect("runs");
            let (writer, reads) = (&ran.writer.measured, &ran.reads);
            assert_eq!((writer.transactions, writer.latency_ns.len()), (200, 200), "{mode}");
            assert_eq!(reads.transactions, reads.latency_ns.len(), "{mode}");
            assert!(writer.seconds > 0.0 && reads.seconds == writer.seconds, "{mode}");
            let commits = ran.writer.stats.filter(|_| mode.is_ours()).map(|stats| stats.commits);
            assert_eq!(commits, mode.is_ours().then_some(200), "{mode}");
            assert_eq!(*found.get_or_insert(ran.writer.contents), ran.writer.contents, "{mode}");
        }
    }

    /// A side that fails ends the others, which would wait for it.
    #[test]
    fn failed_side_ends_the_others() {
        let folder = folder();
        let mut setup = setup(SqliteMode::StockWal, folder.path());
        let workload = setup.check().expect("possible");
        load_concurrent(&setup, &workload, &Progress::new(1)).expect("loaded");
        setup.directory.push("elsewhere");
        let signals = Signals::create(&setup).expect("made");
        let error = run_threads(&setup, &workload, &signals).expect_err("there is no database");
        assert!(!is_of_another(&error), "{error}");
    }

    #[test]
    fn impossible_runs_are_refused() {
        let folder = folder();
        let setup = setup(SqliteMode::Wal, folder.path());
        let with = |spec: Spec| Setup { spec, ..setup.clone() }.check().expect_err("impossible");
        let spec = || setup.spec.clone();
        for (bad, says) in [
            (Spec { operation: Operation::Select, ..spec() }, "select is no such"),
            (Spec { operation: Operation::Insert, records: 0, ..spec() }, "no row to read"),
            (Spec { exclusive: true, ..spec() }, "keeps its lock"),
            (Spec { page_bytes: 1000, ..spec() }, "power of two"),
        ] {
            let why = with(bad).to_string();
            assert!(why.contains(says), "{why}");
        }
    }
}
