//! The loop in which every store is measured.
//!
//! 1. Each worker opens a session for each of its partitions, then waits for all others.
//! 2. It serves its partitions in turn, [`BLOCK`] transactions at a time.
//! 3. With grouped commits it syncs a partition after every group of updates, and once at its end.
//!
//! The loop allocates nothing: what it needs is set up in step 1. A worker that fails stops; the
//! others finish, and the first error is returned.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

use hdrhistogram::Histogram;

use super::{COLUMN_BYTES, COLUMNS, Column, Operation, Values, Workload};
use crate::crew::crew;
use crate::measure::{Measurement, Observer, RunError, RunOptions, latency_histogram};
use crate::store::{Commit, RowBuffer, Session, Store, StoreError};

/// Transactions of one partition before its worker turns to the next.
const BLOCK: usize = 64;

/// Loads every tuple at version 0, in key order in each partition; durable when it returns. The
/// observer counts tuples.
///
/// # Errors
/// The first error of any worker.
pub fn load<S: Store, O: Observer>(
    store: &S,
    workload: &Workload,
    workers: usize,
    observer: &O,
) -> Result<(), RunError> {
    let workers = check(store, workload, workers)?;
    crew(workers, |worker, _| {
        (worker..store.partitions())
            .step_by(workers)
            .try_for_each(|partition| load_partition(store, workload, partition, observer))
    })?;
    Ok(())
}

fn load_partition<S: Store, O: Observer>(
    store: &S,
    workload: &Workload,
    partition: usize,
    observer: &O,
) -> Result<(), RunError> {
    let at = |transaction| move |source| failed(store, partition, transaction, source);
    let mut session = store.session(partition).map_err(at(0))?;
    let mut columns = [[0; COLUMN_BYTES]; COLUMNS];
    let mut tuples = 0_u64;
    for key in workload.spec().keys_of(partition) {
        for (column, contents) in columns.iter_mut().enumerate() {
            workload.values().fill(key, column, 0, contents);
        }
        session.load(key, &columns).map_err(at(tuples))?;
        tuples += 1;
        if tuples.is_multiple_of(O::EVERY) {
            observer.completed(partition, tuples);
        }
    }
    session.finish_load().map_err(at(tuples))?;
    observer.completed(partition, tuples);
    Ok(())
}

/// Runs the whole workload against a loaded store.
///
/// # Errors
/// The first error of any worker; a read or update of a missing tuple is one.
pub fn run<S: Store, O: Observer>(
    store: &S,
    workload: &Workload,
    options: &RunOptions,
    observer: &O,
) -> Result<Measurement, RunError> {
    let workers = check(store, workload, options.workers)?;
    let shared = Shared { store, workload, options, observer, workers };
    let outcomes = crew(workers, |number, barrier| work(shared, number, barrier))?;
    let mut latency_ns = latency_histogram();
    for outcome in &outcomes {
        latency_ns.add(&outcome.latency_ns).expect("all histograms have the same bounds");
    }
    let started = outcomes.iter().map(|outcome| outcome.started).min();
    let ended = outcomes.iter().map(|outcome| outcome.ended).max();
    let seconds = started.zip(ended).map_or(0.0, |(from, to)| (to - from).as_secs_f64());
    Ok(Measurement {
        seconds,
        transactions: outcomes.iter().map(|outcome| outcome.transactions).sum(),
        latency_ns,
        aborted: outcomes.iter().map(|outcome| outcome.aborted).sum(),
    })
}

/// Returns the number of workers to start.
fn check<S: Store>(store: &S, workload: &Workload, workers: usize) -> Result<usize, RunError> {
    let (has, wants) = (store.partitions(), workload.spec().partitions);
    if has != wants {
        return Err(RunError::Partitions { store: has, workload: wants });
    }
    if workers == 0 {
        return Err(RunError::NoWorkers);
    }
    Ok(workers.min(wants))
}

fn failed<S: Store>(store: &S, partition: usize, transaction: u64, source: StoreError) -> RunError {
    RunError::Store { store: store.name().to_owned(), partition, transaction, source }
}

/// The state that all workers share.
struct Shared<'a, S, O> {
    store: &'a S,
    workload: &'a Workload,
    options: &'a RunOptions,
    observer: &'a O,
    workers: usize,
}

impl<S, O> Clone for Shared<'_, S, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S, O> Copy for Shared<'_, S, O> {}

/// The work of one worker.
struct Outcome {
    started: Instant,
    ended: Instant,
    transactions: u64,
    aborted: u64,
    latency_ns: Histogram<u64>,
}

fn work<S: Store, O: Observer>(
    shared: Shared<'_, S, O>,
    number: usize,
    barrier: &Barrier,
) -> Result<Outcome, RunError> {
    if let Some(pin) = shared.options.pin {
        pin(number);
    }
    let lanes: Result<Vec<_>, _> = (number..shared.store.partitions())
        .step_by(shared.workers)
        .map(|partition| Lane::new(shared, partition))
        .collect();
    let mut scratch = Scratch {
        row: RowBuffer::new(),
        values: [[0; COLUMN_BYTES]; COLUMNS],
        latency_ns: latency_histogram(),
    };
    // Before the error is looked at: the other workers wait here too.
    barrier.wait();
    let mut lanes = lanes?;
    let started = Instant::now();
    let mut running = lanes.len();
    while running > 0 {
        for lane in lanes.iter_mut().filter(|lane| !lane.finished) {
            lane.block(&mut scratch, shared.observer)
                .map_err(|source| failed(shared.store, lane.partition, lane.next as u64, source))?;
            running -= usize::from(lane.finished);
        }
    }
    let ended = Instant::now();
    let aborted = lanes.iter().map(|lane| lane.aborted).sum();
    let attempted: u64 = lanes.iter().map(|lane| lane.operations.len() as u64).sum();
    let transactions = attempted - aborted;
    Ok(Outcome { started, ended, transactions, aborted, latency_ns: scratch.latency_ns })
}

/// Buffers of a worker.
struct Scratch {
    row: RowBuffer,
    values: [Column; COLUMNS],
    latency_ns: Histogram<u64>,
}

impl Scratch {
    fn record(&mut self, started: Instant) {
        let nanoseconds = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.latency_ns.saturating_record(nanoseconds);
    }
}

/// One partition on its way through its operations.
struct Lane<'a, X> {
    session: X,
    partition: usize,
    operations: &'a [Operation],
    /// Transactions of this partition in earlier pieces of the workload.
    before: u64,
    values: &'a Values,
    update_columns: usize,
    commit: Commit,
    sample_every: u32,
    /// Transactions until the next one whose latency is taken; 0 takes the next.
    until_sample: u32,
    next: usize,
    /// Updates that have returned but are not yet durable.
    open_updates: u32,
    /// The times at which the sampled ones among them started.
    open_samples: Vec<Instant>,
    aborted: u64,
    finished: bool,
}

impl<'a, X: Session> Lane<'a, X> {
    fn new<S: Store<Session<'a> = X>, O: Observer>(
        shared: Shared<'a, S, O>,
        partition: usize,
    ) -> Result<Self, RunError> {
        let session = shared
            .store
            .session(partition)
            .map_err(|source| failed(shared.store, partition, 0, source))?;
        let operations = shared.workload.operations(partition);
        let open = match shared.options.commit {
            Commit::Durable => 0,
            Commit::Grouped(updates) => operations.len().min(updates as usize),
        };
        Ok(Self {
            session,
            partition,
            operations,
            before: shared.workload.before(partition),
            values: shared.workload.values(),
            update_columns: shared.workload.spec().update_columns,
            commit: shared.options.commit,
            sample_every: shared.options.sample_every,
            until_sample: 0,
            next: 0,
            open_updates: 0,
            open_samples: Vec::with_capacity(open),
            aborted: 0,
            finished: false,
        })
    }

    /// Runs the next block; after the last one makes everything durable.
    #[inline]
    fn block<O: Observer>(
        &mut self,
        scratch: &mut Scratch,
        observer: &O,
    ) -> Result<(), StoreError> {
        let end = (self.next + BLOCK).min(self.operations.len());
        while self.next < end {
            let started = self.sample();
            let operation = self.operations[self.next];
            match self.execute(operation, scratch) {
                Ok(()) => {}
                Err(StoreError::Aborted) => self.aborted += 1,
                Err(error) => return Err(error),
            }
            self.next += 1;
            match self.commit {
                Commit::Grouped(updates) if operation.is_update() => {
                    self.open_samples.extend(started);
                    self.open_updates += 1;
                    if self.open_updates >= updates {
                        self.close_group(scratch, observer)?;
                    }
                }
                Commit::Grouped(_) => started.into_iter().for_each(|start| scratch.record(start)),
                Commit::Durable => {
                    started.into_iter().for_each(|start| scratch.record(start));
                    if (self.next as u64).is_multiple_of(O::EVERY) {
                        observer.completed(self.partition, self.next as u64);
                    }
                }
            }
        }
        if self.next == self.operations.len() {
            self.close_group(scratch, observer)?;
            self.finished = true;
        }
        Ok(())
    }

    /// The time, if the next transaction is one of those whose latency is taken.
    #[inline]
    fn sample(&mut self) -> Option<Instant> {
        if self.sample_every == 0 {
            return None;
        }
        if self.until_sample > 0 {
            self.until_sample -= 1;
            return None;
        }
        self.until_sample = self.sample_every - 1;
        Some(Instant::now())
    }

    #[inline]
    fn execute(&mut self, operation: Operation, scratch: &mut Scratch) -> Result<(), StoreError> {
        let key = operation.key();
        if operation.is_update() {
            let first_column = operation.first_column();
            let version = self.before + self.next as u64 + 1;
            let values = &mut scratch.values[..self.update_columns];
            for (at, contents) in values.iter_mut().enumerate() {
                self.values.fill(key, first_column + at, version, contents);
            }
            self.session.update(key, first_column, values)
        } else if self.session.read(key, &mut scratch.row)? {
            black_box(&scratch.row);
            Ok(())
        } else {
            Err(StoreError::Missing { key })
        }
    }

    /// Makes everything so far durable and says so.
    #[cold]
    fn close_group<O: Observer>(
        &mut self,
        scratch: &mut Scratch,
        observer: &O,
    ) -> Result<(), StoreError> {
        self.session.sync()?;
        for started in self.open_samples.drain(..) {
            scratch.record(started);
        }
        self.open_updates = 0;
        observer.completed(self.partition, self.next as u64);
        Ok(())
    }
}
