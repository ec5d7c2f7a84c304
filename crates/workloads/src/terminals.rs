//! The loop that measures workloads whose transactions are entered at terminals: TPC-B, TPC-C and
//! TATP. It works as that of YCSB (see [`crate::ycsb::run`]), but every transaction has its latency
//! taken, each kind by itself.

use std::sync::Barrier;
use std::time::Instant;

use hdrhistogram::Histogram;
use perdura::{Database, Environment, Error};

use crate::connection::{Connection, Tries};
use crate::crew::crew;
use crate::lanes::{Lane, Lanes};
use crate::measure::{Observer, RunError, RunOptions, latency_histogram};
use crate::store::{Commit, StoreError};

/// Transactions of one lane before its worker turns to the next.
const BLOCK: usize = 16;

/// The end of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Committed; with grouped commits it is durable with its group.
    Committed,
    /// Rolled back, or found nothing, as its workload foresees; nothing of it is left.
    Failed,
}

/// The figures of a run.
#[derive(Debug, Clone)]
pub struct Measured {
    /// From the start of the first worker to the end of the last one.
    pub seconds: f64,
    /// Latencies in nanoseconds to durability of every committed transaction, for each kind.
    pub latency_ns: Vec<Histogram<u64>>,
    /// Transactions of each kind that failed as the workload foresees; they have no latency.
    pub failed: Vec<u64>,
    /// Runs of a transaction after its first one, for a conflict with others.
    pub retries: u64,
    /// Transactions whose time was over while they were in a conflict; each was entered again.
    pub conflicts: u64,
}

impl Measured {
    /// The figures of a run of one kind of transactions that another program has measured: all of them
    /// committed, with these latencies in nanoseconds.
    #[must_use]
    pub fn of_one_kind(seconds: f64, latencies_ns: impl Iterator<Item = u64>) -> Self {
        let mut sums = Sums::new(1);
        latencies_ns.for_each(|latency| sums.latency_ns[0].saturating_record(latency));
        let Sums { latency_ns, failed, .. } = sums;
        Self { seconds, latency_ns, failed, retries: 0, conflicts: 0 }
    }

    /// Committed transactions of a kind.
    #[must_use]
    pub fn committed(&self, kind: usize) -> u64 {
        self.latency_ns[kind].len()
    }

    /// Committed transactions of all kinds.
    #[must_use]
    pub fn transactions(&self) -> u64 {
        self.latency_ns.iter().map(Histogram::len).sum()
    }

    /// Durable transactions a second, reads included, those that failed not.
    #[must_use]
    pub fn throughput_txn_s(&self) -> f64 {
        self.transactions() as f64 / self.seconds.max(1e-9)
    }
}

/// A workload as the driver sees it: transactions by their partition and number.
pub(crate) trait Script<E: Environment>: Sync {
    /// The place at which its transactions are entered.
    type Terminal<'a>: Perform
    where
        Self: 'a,
        E: 'a;

    /// The number of kinds of transactions.
    const KINDS: usize;

    /// Transactions of a partition.
    fn transactions(&self, partition: usize) -> usize;

    /// The kind of a transaction, and whether it changes nothing.
    fn kind(&self, partition: usize, number: usize) -> (usize, bool);

    /// A terminal with a connection to a partition.
    ///
    /// # Errors
    /// The database does not have the workload's tables.
    fn terminal<'a>(
        &'a self,
        database: &Database<E>,
        connection: Connection<'a, E>,
        partition: usize,
    ) -> Result<Self::Terminal<'a>, Error>;
}

/// The place at which transactions of a partition are entered.
pub(crate) trait Perform {
    /// Runs transaction `number` of the partition.
    ///
    /// # Errors
    /// The store's; nothing of the transaction is left then.
    fn perform(&mut self, number: usize) -> Result<Outcome, StoreError>;

    /// Makes everything committed so far in the partition durable.
    ///
    /// # Errors
    /// The medium failed.
    fn sync(&mut self) -> Result<(), StoreError>;

    /// The conflicts of its transactions so far.
    fn tries(&self) -> Tries;
}

/// A store with a workload, as the driver sees both: it asks for a terminal for each lane.
pub(crate) trait Backend: Sync {
    /// The place at which the transactions of a lane are entered.
    type Terminal<'a>: Perform
    where
        Self: 'a;

    /// The number of kinds of transactions.
    const KINDS: usize;

    /// The store's name in errors.
    fn name(&self) -> &str;

    /// Transactions of a partition.
    fn transactions(&self, partition: usize) -> usize;

    /// The kind of a transaction, and whether it changes nothing.
    fn kind(&self, partition: usize, number: usize) -> (usize, bool);

    /// A terminal for a lane.
    ///
    /// # Errors
    /// The store's.
    fn terminal(&self, lane: Lane) -> Result<Self::Terminal<'_>, StoreError>;
}

/// A database of ours with a script.
struct DatabaseBackend<'a, E: Environment, S> {
    database: &'a Database<E>,
    script: &'a S,
}

impl<E: Environment, S: Script<E>> Backend for DatabaseBackend<'_, E, S> {
    type Terminal<'a>
        = S::Terminal<'a>
    where
        Self: 'a;

    const KINDS: usize = S::KINDS;

    fn name(&self) -> &str {
        self.database.engine().name()
    }

    fn transactions(&self, partition: usize) -> usize {
        self.script.transactions(partition)
    }

    #[inline]
    fn kind(&self, partition: usize, number: usize) -> (usize, bool) {
        self.script.kind(partition, number)
    }

    fn terminal(&self, lane: Lane) -> Result<S::Terminal<'_>, StoreError> {
        Connection::open(self.database, lane.partition, lane.step == 1)
            .and_then(|connection| self.script.terminal(self.database, connection, lane.partition))
            .map_err(StoreError::engine)
    }
}

/// Refuses a database that is not cut as the workload is; returns the number of its partitions.
pub(crate) fn check_partitions<E: Environment>(
    database: &Database<E>,
    wants: usize,
    workers: usize,
) -> Result<usize, RunError> {
    let has = database.partition_count();
    if has != wants {
        return Err(RunError::Partitions { store: has, workload: wants });
    }
    if workers == 0 { Err(RunError::NoWorkers) } else { Ok(has) }
}

/// Refuses what a peer cannot do: it has one partition, and commits that are durable.
pub(crate) fn check_peer(
    name: &str,
    workload: &str,
    partitions: usize,
    options: &RunOptions,
) -> Result<(), RunError> {
    if partitions != 1 {
        return Err(RunError::Partitions { store: 1, workload: partitions });
    }
    if options.commit != Commit::Durable {
        let why = format!("peers run {workload} with durable commits");
        let (store, source) = (name.to_owned(), StoreError::Unsupported(why));
        return Err(RunError::Store { store, partition: 0, transaction: 0, source });
    }
    Ok(())
}

/// The error of a run about a transaction.
#[cold]
pub(crate) fn failed<E: Environment>(
    database: &Database<E>,
    partition: usize,
    transaction: u64,
    error: Error,
) -> RunError {
    let store = database.engine().name().to_owned();
    RunError::Store { store, partition, transaction, source: StoreError::engine(error) }
}

/// Runs the whole script on a populated database. The observer counts the transactions of each lane
/// (see [`Lanes`]), those that failed included.
///
/// # Errors
/// The first error of any worker.
pub(crate) fn run<E: Environment, S: Script<E>, O: Observer>(
    database: &Database<E>,
    script: &S,
    partitions: usize,
    options: &RunOptions,
    observer: &O,
) -> Result<Measured, RunError> {
    let partitions = check_partitions(database, partitions, options.workers)?;
    drive(&DatabaseBackend { database, script }, partitions, options, observer)
}

/// Acts as [`run`], for any store that is populated.
///
/// # Errors
/// The first error of any worker.
pub(crate) fn drive<H: Backend, O: Observer>(
    backend: &H,
    partitions: usize,
    options: &RunOptions,
    observer: &O,
) -> Result<Measured, RunError> {
    if options.workers == 0 {
        return Err(RunError::NoWorkers);
    }
    let lanes = Lanes::new(options.workers, partitions);
    let shared = Shared { backend, options, observer, lanes };
    let workers = options.workers.min(lanes.count());
    let outcomes = crew(workers, |number, barrier| shared.work(number, barrier))?;
    let started = outcomes.iter().map(|outcome| outcome.started).min();
    let ended = outcomes.iter().map(|outcome| outcome.ended).max();
    let mut sum = Sums::new(H::KINDS);
    for outcome in &outcomes {
        sum.add(&outcome.sums);
    }
    Ok(Measured {
        seconds: started.zip(ended).map_or(0.0, |(from, to)| (to - from).as_secs_f64()),
        latency_ns: sum.latency_ns,
        failed: sum.failed,
        retries: sum.tries.retries,
        conflicts: sum.tries.conflicts,
    })
}

/// The state that all workers share.
struct Shared<'a, H, O> {
    backend: &'a H,
    options: &'a RunOptions,
    observer: &'a O,
    lanes: Lanes,
}

/// The work of one worker.
struct WorkerOutcome {
    started: Instant,
    ended: Instant,
    sums: Sums,
}

/// Counts for each kind of transaction.
struct Sums {
    latency_ns: Vec<Histogram<u64>>,
    failed: Vec<u64>,
    tries: Tries,
}

impl Sums {
    fn new(kinds: usize) -> Self {
        let latency_ns = (0..kinds).map(|_| latency_histogram()).collect();
        Self { latency_ns, failed: vec![0; kinds], tries: Tries::default() }
    }

    fn add(&mut self, other: &Self) {
        for (sum, one) in self.latency_ns.iter_mut().zip(&other.latency_ns) {
            sum.add(one).expect("all histograms have the same bounds");
        }
        self.failed.iter_mut().zip(&other.failed).for_each(|(sum, one)| *sum += one);
        self.tries.retries += other.tries.retries;
        self.tries.conflicts += other.tries.conflicts;
    }

    #[inline]
    fn record(&mut self, kind: usize, started: Instant) {
        let nanoseconds = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.latency_ns[kind].saturating_record(nanoseconds);
    }
}

impl<H: Backend, O: Observer> Shared<'_, H, O> {
    fn work(&self, worker: usize, barrier: &Barrier) -> Result<WorkerOutcome, RunError> {
        if let Some(pin) = self.options.pin {
            pin(worker);
        }
        let lanes: Result<Vec<_>, _> =
            self.lanes.of_worker(worker).map(|number| self.lane(number)).collect();
        let mut sums = Sums::new(H::KINDS);
        // Before the error is looked at: the other workers wait here too.
        barrier.wait();
        let mut lanes = lanes?;
        let started = Instant::now();
        let kind = |partition, number| self.backend.kind(partition, number);
        let mut running = lanes.len();
        while running > 0 {
            for lane in lanes.iter_mut().filter(|lane| !lane.finished) {
                lane.block(&mut sums, kind, self.observer)
                    .map_err(|source| self.failed(lane.lane.partition, lane.next as u64, source))?;
                running -= usize::from(lane.finished);
            }
        }
        let ended = Instant::now();
        for lane in &lanes {
            let Tries { retries, conflicts } = lane.terminal.tries();
            sums.tries.retries += retries;
            sums.tries.conflicts += conflicts;
        }
        Ok(WorkerOutcome { started, ended, sums })
    }

    #[cold]
    fn failed(&self, partition: usize, transaction: u64, source: StoreError) -> RunError {
        RunError::Store { store: self.backend.name().to_owned(), partition, transaction, source }
    }

    fn lane(&self, number: usize) -> Result<Running<H::Terminal<'_>>, RunError> {
        let lane = self.lanes.lane(number);
        let terminal =
            self.backend.terminal(lane).map_err(|source| self.failed(lane.partition, 0, source))?;
        let group = match self.options.commit {
            Commit::Durable => None,
            Commit::Grouped(updates) => Some(updates as usize),
        };
        let end = self.backend.transactions(lane.partition);
        Ok(Running {
            terminal,
            number,
            lane,
            end,
            group,
            next: lane.first,
            done: 0,
            open: Vec::with_capacity(group.unwrap_or(0).min(end)),
            finished: false,
        })
    }
}

/// One lane on its way through its transactions.
struct Running<T> {
    terminal: T,
    number: usize,
    lane: Lane,
    /// Transactions of the partition.
    end: usize,
    /// Transactions that one sync makes durable together; `None` if each commit is durable.
    group: Option<usize>,
    /// The number in the partition of the lane's next transaction.
    next: usize,
    /// Transactions of the lane that have returned.
    done: u64,
    /// Transactions that have returned but are not yet durable: kind and start.
    open: Vec<(usize, Instant)>,
    finished: bool,
}

impl<T: Perform> Running<T> {
    /// Runs the next block; after the last one makes everything durable.
    fn block<O: Observer>(
        &mut self,
        sums: &mut Sums,
        kind: impl Fn(usize, usize) -> (usize, bool),
        observer: &O,
    ) -> Result<(), StoreError> {
        for _ in 0..BLOCK {
            if self.next >= self.end {
                break;
            }
            let (kind, is_read_only) = kind(self.lane.partition, self.next);
            let started = Instant::now();
            let outcome = self.terminal.perform(self.next)?;
            self.next += self.lane.step;
            self.done += 1;
            match (outcome, self.group) {
                (Outcome::Failed, _) => sums.failed[kind] += 1,
                (Outcome::Committed, Some(group)) if !is_read_only => {
                    self.open.push((kind, started));
                    if self.open.len() >= group {
                        self.close_group(sums, observer)?;
                    }
                }
                (Outcome::Committed, _) => sums.record(kind, started),
            }
            if self.group.is_none() && self.done.is_multiple_of(O::EVERY) {
                observer.completed(self.number, self.done);
            }
        }
        if self.next >= self.end {
            self.close_group(sums, observer)?;
            self.finished = true;
        }
        Ok(())
    }

    /// Makes everything so far durable and says so.
    #[cold]
    fn close_group<O: Observer>(
        &mut self,
        sums: &mut Sums,
        observer: &O,
    ) -> Result<(), StoreError> {
        // Others are in a partition that is shared: their commits are durable by themselves.
        if self.group.is_some() || self.lane.step == 1 {
            self.terminal.sync()?;
        }
        for (kind, started) in self.open.drain(..) {
            sums.record(kind, started);
        }
        observer.completed(self.number, self.done);
        Ok(())
    }
}
