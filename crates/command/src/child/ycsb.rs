//! The two children of YCSB.

use std::time::Instant;

use peers::{Access, AcknowledgedFile, PeerKind, Visitor, with_store};
use perdura::{Database, EngineKind, OwnStats};
use workloads::ycsb::{self, Spec, Verification, Workload};
use workloads::{Commit, PerduraStore, Random, RowBuffer, Session, Store};

use super::{Found, Opening, Reads, Task, elapsed_ms};
use crate::failure::Failure;
use crate::settings::run_options;
use crate::system::{System, create_store, pool_path};

/// Loads, runs and counts.
pub(super) fn victim(task: &Task, spec: &Spec) -> Result<(), Failure> {
    let workload = Workload::generate(spec)?;
    match task.system()? {
        System::Engine(kind) => {
            let (partitions, options) = (spec.partitions, task.options());
            let store =
                create_store(kind, &task.directory, partitions, &options, task.domain()?, false)?;
            run(&store, task, &workload, Some(store.database()))
        }
        System::Peer(kind) => {
            let visit = Victim { task, workload: &workload };
            with_store(kind, &task.directory, spec, task.commit(), Access::Create, visit)?
        }
    }
}

struct Victim<'a> {
    task: &'a Task,
    workload: &'a Workload,
}

impl Visitor for Victim<'_> {
    type Output = Result<(), Failure>;

    fn visit<S: Store>(self, store: &S) -> Self::Output {
        run(store, self.task, self.workload, None)
    }
}

fn run<S: Store>(
    store: &S,
    task: &Task,
    workload: &Workload,
    database: Option<&Database>,
) -> Result<(), Failure> {
    ycsb::load(store, workload, task.workers, &())?;
    if let Some(database) = database {
        database.checkpoint()?;
    }
    let acknowledged = AcknowledgedFile::open(&task.acknowledged, workload.spec().partitions)?;
    ycsb::run(store, workload, &run_options(task.workers, task.commit()), &acknowledged)?;
    super::wait_for_the_end()
}

/// Opens on the clock, then verifies. The operations are worked out only then: an application that
/// restarts does no such work first, and this work fills more cache the more tuples there are.
pub(super) fn witness(task: &Task, spec: &Spec, counts: &[u64]) -> Result<Found, Failure> {
    let look = Witness { task, spec, counts, started: Instant::now() };
    match task.system()? {
        System::Engine(kind) => look.at_engine(kind),
        System::Peer(kind) => look.at_peer(kind),
    }
}

struct Witness<'a> {
    task: &'a Task,
    spec: &'a Spec,
    counts: &'a [u64],
    /// The start of the open call.
    started: Instant,
}

impl Witness<'_> {
    fn at_engine(mut self, kind: EngineKind) -> Result<Found, Failure> {
        let path = pool_path(&self.task.directory);
        let options = self.task.options();
        self.started = Instant::now();
        let database = Database::open(&path, &options)?;
        let open_ms = elapsed_ms(self.started);
        let report = database.recovery_report();
        let opening = database.opening_times().map(Opening::from);
        let store = PerduraStore::new(database, kind.name(), &path, self.spec.partitions)?;
        let found = self.look(&store, open_ms, || built_percent(store.database()))?;
        Ok(Found { recovered: Some(report.into()), opening, ..found })
    }

    fn at_peer(mut self, kind: PeerKind) -> Result<Found, Failure> {
        let (directory, spec) = (&self.task.directory, self.spec);
        let commit = self.task.commit();
        self.started = Instant::now();
        with_store(kind, directory, spec, commit, Access::OpenExisting, self)?
    }

    /// Times the first read and the first commit, then verifies. The commit writes back what the
    /// read found, so that the verification sees what recovery left.
    fn look<S: Store>(
        &self,
        store: &S,
        open_ms: f64,
        built_percent: impl FnOnce() -> Result<Option<f64>, Failure>,
    ) -> Result<Found, Failure> {
        let spec = self.spec;
        let mut random = Random::new(spec.seed, u64::MAX);
        let partitions = spec.partitions as u64;
        let key = random.below(spec.tuples);
        let partition = key % partitions;
        let mut row = RowBuffer::new();
        let (first_read_ms, first_commit_ms) = {
            let mut session = store.session(partition as usize)?;
            let there = session.read(key, &mut row)?;
            let first_read_ms = elapsed_ms(self.started);
            if there {
                session.update(key, 0, &row.columns()[..1])?;
                session.sync()?;
            }
            (first_read_ms, elapsed_ms(self.started))
        };
        // No session may have the partition meanwhile.
        let built_percent = built_percent()?;
        let reads = {
            let mut session = store.session(partition as usize)?;
            let here = spec.tuples.saturating_sub(partition).div_ceil(partitions).max(1);
            Reads::measure(&mut session, || random.below(here) * partitions + partition)?
        };
        let workload = Workload::generate(spec)?;
        let window = self.window(&workload);
        let Verification { lost, surplus, torn, missing_tuples, damaged_columns, .. } =
            ycsb::verify(store, &workload, self.counts, window)?;
        Ok(Found {
            open_ms,
            first_read_ms,
            first_commit_ms,
            lost: lost + missing_tuples,
            surplus: torn + damaged_columns,
            in_flight: surplus,
            reads: Some(reads),
            built_percent,
            ..Found::default()
        })
    }

    /// Transactions of a partition that may have been under way: one, or as many as it takes to
    /// fill a group with updates.
    fn window(&self, workload: &Workload) -> u64 {
        let Commit::Grouped(updates) = self.task.commit() else { return 1 };
        let window = |(partition, &count): (usize, &u64)| {
            let open = &workload.operations(partition)[count as usize..];
            let ends = open.iter().enumerate().filter(|(_, operation)| operation.is_update());
            ends.take(updates as usize).last().map_or(0, |(at, _)| at as u64 + 1)
        };
        self.counts.iter().enumerate().map(window).max().unwrap_or(0)
    }
}

/// The share of the indexes that is built, in percent; `None` of an engine that opens with all of them.
fn built_percent(database: &Database) -> Result<Option<f64>, Failure> {
    let OwnStats::Sofort(own) = database.stats()?.own else { return Ok(None) };
    let all = own.built + own.unbuilt;
    Ok((all > 0).then(|| own.built as f64 * 100.0 / all as f64))
}

impl Visitor for Witness<'_> {
    type Output = Result<Found, Failure>;

    fn visit<S: Store>(self, store: &S) -> Self::Output {
        let open_ms = elapsed_ms(self.started);
        self.look(store, open_ms, || Ok(None))
    }
}
