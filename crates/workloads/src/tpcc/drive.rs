//! The loop in which TPC-C is measured; as that of YCSB (see [`crate::ycsb::run`]), but every
//! transaction has its latency taken, each kind by itself.

use std::sync::Barrier;
use std::time::Instant;

use hdrhistogram::Histogram;
use perdura::{Database, Environment, Error};

use super::inputs::{Inputs, Kind, Workload};
use super::terminal::{Outcome, Terminal};
use super::{check_partitions, failed};
use crate::crew::crew;
use crate::measure::{Observer, RunError, RunOptions, latency_histogram};
use crate::store::Commit;

/// Transactions of one partition before its worker turns to the next.
const BLOCK: usize = 16;

/// The figures of a run.
#[derive(Debug, Clone)]
pub struct Measured {
    /// The time from the start of the first worker to the end of the last one.
    pub seconds: f64,
    /// Latencies in nanoseconds to durability, of each of [`Kind::ALL`], of every committed
    /// transaction.
    pub latency_ns: [Histogram<u64>; 5],
    /// New orders that were rolled back; they have no latency.
    pub aborted: u64,
}

impl Measured {
    /// Committed transactions of a kind.
    #[must_use]
    pub fn committed(&self, kind: Kind) -> u64 {
        self.latency_ns[kind as usize].len()
    }

    /// Committed transactions of all kinds.
    #[must_use]
    pub fn transactions(&self) -> u64 {
        Kind::ALL.into_iter().map(|kind| self.committed(kind)).sum()
    }

    /// Durable transactions a second, reads included.
    #[must_use]
    pub fn throughput_txn_s(&self) -> f64 {
        self.transactions() as f64 / self.seconds.max(1e-9)
    }

    /// Durable new orders a minute; those that were rolled back do not count.
    #[must_use]
    pub fn new_orders_per_minute(&self) -> f64 {
        self.committed(Kind::NewOrder) as f64 * 60.0 / self.seconds.max(1e-9)
    }
}

/// Runs the whole workload on a populated database. The observer counts transactions, those that
/// were rolled back included.
///
/// # Errors
/// The first error of any worker.
pub fn run<E: Environment, O: Observer>(
    database: &Database<E>,
    workload: &Workload,
    options: &RunOptions,
    observer: &O,
) -> Result<Measured, RunError> {
    let partitions = check_partitions(database, workload.spec(), options.workers)?;
    let workers = options.workers.min(partitions);
    let shared = Shared { database, workload, options, observer, workers };
    let outcomes = crew(workers, |number, barrier| shared.work(number, barrier))?;
    let started = outcomes.iter().map(|outcome| outcome.started).min();
    let ended = outcomes.iter().map(|outcome| outcome.ended).max();
    let mut measured = Measured {
        seconds: started.zip(ended).map_or(0.0, |(from, to)| (to - from).as_secs_f64()),
        latency_ns: std::array::from_fn(|_| latency_histogram()),
        aborted: outcomes.iter().map(|outcome| outcome.aborted).sum(),
    };
    for outcome in &outcomes {
        for (sum, one) in measured.latency_ns.iter_mut().zip(&outcome.latency_ns) {
            sum.add(one).expect("all histograms have the same bounds");
        }
    }
    Ok(measured)
}

/// The state that all workers share.
struct Shared<'a, E: Environment, O> {
    database: &'a Database<E>,
    workload: &'a Workload,
    options: &'a RunOptions,
    observer: &'a O,
    workers: usize,
}

/// The work of one worker.
struct WorkerOutcome {
    started: Instant,
    ended: Instant,
    latency_ns: [Histogram<u64>; 5],
    aborted: u64,
}

impl<E: Environment, O: Observer> Shared<'_, E, O> {
    fn work(&self, number: usize, barrier: &Barrier) -> Result<WorkerOutcome, RunError> {
        if let Some(pin) = self.options.pin {
            pin(number);
        }
        let lanes: Result<Vec<_>, _> = (number..self.workload.spec().partitions)
            .step_by(self.workers)
            .map(|partition| self.lane(partition))
            .collect();
        let mut latency_ns = std::array::from_fn(|_| latency_histogram());
        // Before the error is looked at: the other workers wait here too.
        barrier.wait();
        let mut lanes = lanes?;
        let started = Instant::now();
        let mut running = lanes.len();
        while running > 0 {
            for lane in lanes.iter_mut().filter(|lane| !lane.finished) {
                lane.block(&mut latency_ns, self.observer).map_err(|error| {
                    failed(self.database, lane.partition, lane.next as u64, error)
                })?;
                running -= usize::from(lane.finished);
            }
        }
        let ended = Instant::now();
        let aborted = lanes.iter().map(|lane| lane.aborted).sum();
        Ok(WorkerOutcome { started, ended, latency_ns, aborted })
    }

    fn lane(&self, partition: usize) -> Result<Lane<'_, E>, RunError> {
        let terminal = Terminal::new(self.database, self.workload.spec(), partition)
            .map_err(|error| failed(self.database, partition, 0, error))?;
        let group = match self.options.commit {
            Commit::Durable => None,
            Commit::Grouped(updates) => Some(updates as usize),
        };
        Ok(Lane {
            terminal,
            partition,
            inputs: self.workload.inputs(partition),
            group,
            next: 0,
            open: Vec::with_capacity(group.unwrap_or(0).min(self.workload.inputs(partition).len())),
            aborted: 0,
            finished: false,
        })
    }
}

/// One partition on its way through its inputs.
struct Lane<'a, E: Environment> {
    terminal: Terminal<'a, E>,
    partition: usize,
    inputs: &'a Inputs,
    /// Transactions that one sync makes durable together; `None` if each commit is durable.
    group: Option<usize>,
    next: usize,
    /// Transactions that have returned but are not yet durable, and when they started.
    open: Vec<(Kind, Instant)>,
    aborted: u64,
    finished: bool,
}

impl<E: Environment> Lane<'_, E> {
    /// Runs the next block; after the last one makes everything durable.
    fn block<O: Observer>(
        &mut self,
        latency_ns: &mut [Histogram<u64>; 5],
        observer: &O,
    ) -> Result<(), Error> {
        let end = (self.next + BLOCK).min(self.inputs.len());
        while self.next < end {
            let kind = self.inputs.all()[self.next].kind();
            let started = Instant::now();
            let outcome = self.terminal.run(self.inputs, self.next)?;
            self.next += 1;
            match (outcome, self.group) {
                (Outcome::RolledBack, _) => self.aborted += 1,
                (Outcome::Committed, Some(group)) if !kind.is_read_only() => {
                    self.open.push((kind, started));
                    if self.open.len() >= group {
                        self.close_group(latency_ns, observer)?;
                    }
                }
                (Outcome::Committed, _) => record(latency_ns, kind, started),
            }
            if self.group.is_none() && (self.next as u64).is_multiple_of(O::EVERY) {
                observer.completed(self.partition, self.next as u64);
            }
        }
        if self.next == self.inputs.len() {
            self.close_group(latency_ns, observer)?;
            self.finished = true;
        }
        Ok(())
    }

    /// Makes everything so far durable and says so.
    #[cold]
    fn close_group<O: Observer>(
        &mut self,
        latency_ns: &mut [Histogram<u64>; 5],
        observer: &O,
    ) -> Result<(), Error> {
        self.terminal.sync()?;
        for (kind, started) in self.open.drain(..) {
            record(latency_ns, kind, started);
        }
        observer.completed(self.partition, self.next as u64);
        Ok(())
    }
}

fn record(latency_ns: &mut [Histogram<u64>; 5], kind: Kind, started: Instant) {
    let nanoseconds = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
    latency_ns[kind as usize].saturating_record(nanoseconds);
}
