//! The processes that a crash needs: one that is killed, and one that opens what it left.
//!
//! Both are this binary, started by [`crate::kill`] with a task in JSON. They end when their
//! standard input does, so that none outlives the command that started it.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use peers::{Access, AcknowledgedFile, PeerKind, Visitor, with_store};
use perdura::{Database, Domain, EngineKind, OpeningTimes, Options, RecoveryReport};
use serde::{Deserialize, Serialize};
use workloads::ycsb::{self, Spec, Verification, Workload};
use workloads::{Commit, PerduraStore, Random, RowBuffer, Session, Store};

use crate::contestant::{Contestant, create_store, pool_path};
use crate::failure::Failure;
use crate::output::print;
use crate::plan::{database_options, run_options};
use crate::scratch;

/// First argument of the process that is killed.
pub(crate) const VICTIM: &str = "__victim";
/// First argument of the process that opens what the other one left.
pub(crate) const WITNESS: &str = "__witness";
/// Log after which InP would take a checkpoint: never, so that its log holds what ran since the
/// one that was taken after loading, and recovery has as much to do as the user asked for.
const NO_CHECKPOINT_BYTES: u64 = 1 << 50;

/// What to run, by names, so that it can be passed on a command line.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Task {
    engine: Option<String>,
    peer: Option<String>,
    domain: Option<String>,
    directory: PathBuf,
    acknowledged: PathBuf,
    mix: String,
    skew: String,
    tuples: u64,
    transactions: u64,
    partitions: usize,
    update_columns: usize,
    seed: u64,
    workers: usize,
    group: Option<u32>,
}

impl Task {
    /// A task for a contestant in a directory of its own.
    pub(crate) fn new(
        contestant: Contestant,
        domain: Option<Domain>,
        directory: &Path,
        acknowledged: &Path,
        spec: &Spec,
        run: &workloads::RunOptions,
    ) -> Self {
        Self {
            engine: contestant.engine().map(Into::into),
            peer: contestant.peer().map(Into::into),
            domain: domain.map(|domain| domain.name().into()),
            directory: directory.to_owned(),
            acknowledged: acknowledged.to_owned(),
            mix: spec.mix.name().into(),
            skew: spec.skew.name().into(),
            tuples: spec.tuples,
            transactions: spec.transactions,
            partitions: spec.partitions,
            update_columns: spec.update_columns,
            seed: spec.seed,
            workers: run.workers,
            group: crate::plan::commit_group(run.commit),
        }
    }

    fn contestant(&self) -> Result<Contestant, Failure> {
        match (&self.engine, &self.peer) {
            (Some(name), None) => name.parse().map(Contestant::Engine).map_err(wrong),
            (None, Some(name)) => name.parse().map(Contestant::Peer).map_err(wrong),
            _ => Err(wrong("an engine or a peer")),
        }
    }

    fn domain(&self) -> Result<Option<Domain>, Failure> {
        self.domain.as_deref().map(|name| name.parse().map_err(wrong)).transpose()
    }

    fn commit(&self) -> Commit {
        self.group.map_or(Commit::Durable, Commit::Grouped)
    }

    fn options(&self) -> Options {
        database_options(self.commit()).checkpoint_bytes(NO_CHECKPOINT_BYTES)
    }

    fn workload(&self) -> Result<Workload, Failure> {
        let spec = Spec {
            tuples: self.tuples,
            transactions: self.transactions,
            mix: self.mix.parse().map_err(wrong)?,
            skew: self.skew.parse().map_err(wrong)?,
            update_columns: self.update_columns,
            partitions: self.partitions,
            seed: self.seed,
        };
        Ok(Workload::generate(&spec)?)
    }
}

fn wrong(what: impl std::fmt::Display) -> Failure {
    Failure::about("the task of a child process", what)
}

/// What the second process found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Found {
    /// Milliseconds of the open call.
    pub(crate) open_ms: f64,
    /// From the start of the open call to the first tuple read.
    pub(crate) first_read_ms: f64,
    /// From the start of the open call to the first durable commit.
    pub(crate) first_commit_ms: f64,
    /// What recovery did; `None` for a peer, which does not say.
    pub(crate) recovered: Option<Recovered>,
    /// Acknowledged transactions of which something is gone, and loaded tuples that are gone.
    pub(crate) lost: u64,
    /// Contents that nobody wrote who was acknowledged or under way, and transactions of which only
    /// a part is there.
    pub(crate) surplus: u64,
    /// Whole transactions that were under way when the process was killed: allowed to be there.
    pub(crate) in_flight: u64,
    /// Where the open call's time went; `None` for a peer, which does not say.
    pub(crate) opening: Option<Opening>,
    /// Mean microseconds of a read, from the first on.
    pub(crate) reads: Reads,
}

/// Microseconds of each part of an open call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Opening {
    /// File, lock, header, mapping.
    pub(crate) map: f64,
    /// Mini-transactions, description, schema.
    pub(crate) describe: f64,
    /// The mark that the pool is open.
    pub(crate) mark: f64,
    /// Recovery.
    pub(crate) recovery: f64,
}

impl From<OpeningTimes> for Opening {
    fn from(times: OpeningTimes) -> Self {
        let us = |part: Duration| part.as_secs_f64() * 1e6;
        Self {
            map: us(times.map),
            describe: us(times.describe),
            mark: us(times.mark),
            recovery: us(times.recovery),
        }
    }
}

/// Mean microseconds of a read of a whole tuple, by how many came before it since the store was
/// opened. The first one was timed for [`Found::first_read_ms`] and is not among them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Reads {
    /// Reads 2 to 10.
    pub(crate) ten: f64,
    /// Reads 11 to 100.
    pub(crate) hundred: f64,
    /// Reads 101 to 1,000.
    pub(crate) thousand: f64,
    /// 1,000 more, of tuples that have been read before.
    pub(crate) again: f64,
}

impl Reads {
    /// Reads 1,000 tuples at random, and those again.
    fn measure<S: Session>(session: &mut S, mut key: impl FnMut() -> u64) -> Result<Self, Failure> {
        let keys: Vec<u64> = (0..1000).map(|_| key()).collect();
        let mut row = RowBuffer::new();
        let mut mean = |keys: &[u64]| -> Result<f64, Failure> {
            let start = Instant::now();
            for &key in keys {
                session.read(key, &mut row)?;
            }
            Ok(start.elapsed().as_secs_f64() * 1e6 / keys.len() as f64)
        };
        Ok(Self {
            ten: mean(&keys[1..10])?,
            hundred: mean(&keys[10..100])?,
            thousand: mean(&keys[100..])?,
            again: mean(&keys)?,
        })
    }
}

/// A recovery report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Recovered {
    /// Operations undone.
    pub(crate) undone: u64,
    /// Transactions redone.
    pub(crate) redone: u64,
    /// Slots freed.
    pub(crate) reclaimed: u64,
}

impl From<RecoveryReport> for Recovered {
    fn from(report: RecoveryReport) -> Self {
        Self { undone: report.undone, redone: report.redone, reclaimed: report.reclaimed }
    }
}

/// Runs what the arguments ask for, if they are those of a child process.
pub(crate) fn dispatch() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next()?;
    let argument = arguments.next();
    let work: fn(&Task) -> Result<(), Failure> = match first.to_str()? {
        scratch::JANITOR => return Some(scratch::janitor(Path::new(&argument?))),
        VICTIM => victim,
        WITNESS => witness,
        _ => return None,
    };
    end_with_standard_input();
    let task = serde_json::from_str(argument?.to_str()?).map_err(wrong);
    Some(match task.and_then(|task| work(&task)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    })
}

/// Ends this process when the one that started it has ended.
fn end_with_standard_input() {
    thread::spawn(|| {
        let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
        std::process::exit(1);
    });
}

/// Loads, runs and counts until it is killed; when it runs out of work it waits for that.
fn victim(task: &Task) -> Result<(), Failure> {
    let workload = task.workload()?;
    match task.contestant()? {
        Contestant::Engine(kind) => {
            let (partitions, options) = (task.partitions, task.options());
            let store = create_store(kind, &task.directory, partitions, &options, task.domain()?)?;
            run_until_killed(&store, task, &workload, Some(store.database()))
        }
        Contestant::Peer(kind) => {
            let visit = Victim { task, workload: &workload };
            with_store(kind, &task.directory, workload.spec(), Access::Create, visit)?
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
        run_until_killed(store, self.task, self.workload, None)
    }
}

fn run_until_killed<S: Store>(
    store: &S,
    task: &Task,
    workload: &Workload,
    database: Option<&Database>,
) -> Result<(), Failure> {
    ycsb::load(store, workload, task.workers, &())?;
    if let Some(database) = database {
        database.checkpoint()?;
    }
    let acknowledged = AcknowledgedFile::open(&task.acknowledged, task.partitions)?;
    ycsb::run(store, workload, &run_options(task.workers, task.commit()), &acknowledged)?;
    loop {
        thread::park();
    }
}

/// Opens what is left on the clock, then verifies all of it; prints what it found.
fn witness(task: &Task) -> Result<(), Failure> {
    let workload = task.workload()?;
    let counts = AcknowledgedFile::open(&task.acknowledged, task.partitions)?.counts();
    let look = Witness { task, workload: &workload, counts: &counts, started: Instant::now() };
    let found = match task.contestant()? {
        Contestant::Engine(kind) => look.at_engine(kind)?,
        Contestant::Peer(kind) => look.at_peer(kind)?,
    };
    let encoded = serde_json::to_string(&found).map_err(wrong)?;
    print(&(encoded + "\n"))
}

struct Witness<'a> {
    task: &'a Task,
    workload: &'a Workload,
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
        let open_ms = self.elapsed_ms();
        let report = database.recovery_report();
        let opening = database.opening_times().map(Opening::from);
        let store = PerduraStore::new(database, kind.name(), &path, self.task.partitions)?;
        let found = self.look(&store, open_ms)?;
        Ok(Found { recovered: Some(report.into()), opening, ..found })
    }

    fn at_peer(mut self, kind: PeerKind) -> Result<Found, Failure> {
        let (directory, spec) = (&self.task.directory, self.workload.spec());
        self.started = Instant::now();
        with_store(kind, directory, spec, Access::OpenExisting, self)?
    }

    fn elapsed_ms(&self) -> f64 {
        self.started.elapsed().as_secs_f64() * 1000.0
    }

    /// Times the first read and the first commit, then verifies. The commit writes back what the
    /// read found, so that the verification sees what recovery left.
    fn look<S: Store>(&self, store: &S, open_ms: f64) -> Result<Found, Failure> {
        let mut random = Random::new(self.task.seed, u64::MAX);
        let partitions = self.task.partitions as u64;
        let key = random.below(self.task.tuples);
        let partition = key % partitions;
        let mut row = RowBuffer::new();
        let (first_read_ms, first_commit_ms, reads) = {
            let mut session = store.session(partition as usize)?;
            let there = session.read(key, &mut row)?;
            let first_read_ms = self.elapsed_ms();
            if there {
                session.update(key, 0, &row.columns()[..1])?;
                session.sync()?;
            }
            let first_commit_ms = self.elapsed_ms();
            let here = self.task.tuples.saturating_sub(partition).div_ceil(partitions).max(1);
            let reads =
                Reads::measure(&mut session, || random.below(here) * partitions + partition)?;
            (first_read_ms, first_commit_ms, reads)
        };
        let Verification { lost, surplus, torn, missing_tuples, damaged_columns, .. } =
            ycsb::verify(store, self.workload, self.counts, self.window())?;
        Ok(Found {
            open_ms,
            first_read_ms,
            first_commit_ms,
            recovered: None,
            lost: lost + missing_tuples,
            surplus: torn + damaged_columns,
            in_flight: surplus,
            opening: None,
            reads,
        })
    }

    /// Transactions of a partition that may have been under way: one, or as many as it takes to
    /// fill a group with updates.
    fn window(&self) -> u64 {
        let Commit::Grouped(updates) = self.task.commit() else { return 1 };
        let window = |(partition, &count): (usize, &u64)| {
            let open = &self.workload.operations(partition)[count as usize..];
            let ends = open.iter().enumerate().filter(|(_, operation)| operation.is_update());
            ends.take(updates as usize).last().map_or(0, |(at, _)| at as u64 + 1)
        };
        self.counts.iter().enumerate().map(window).max().unwrap_or(0)
    }
}

impl Visitor for Witness<'_> {
    type Output = Result<Found, Failure>;

    fn visit<S: Store>(self, store: &S) -> Self::Output {
        let open_ms = self.elapsed_ms();
        self.look(store, open_ms)
    }
}

#[cfg(test)]
mod tests {
    use workloads::ycsb::{Mix, Skew};

    use super::*;

    #[test]
    fn a_task_survives_the_command_line() {
        let spec = Spec { mix: Mix::WriteHeavy, skew: Skew::High, ..Spec::default() };
        let run = run_options(3, Commit::Grouped(7));
        let contestant = Contestant::Peer(PeerKind::Lmdb);
        let (here, there) = (Path::new("/a b"), Path::new("/\"c\""));
        let task = Task::new(contestant, Some(Domain::Adr), here, there, &spec, &run);
        let encoded = serde_json::to_string(&task).expect("encodes");
        let decoded: Task = serde_json::from_str(&encoded).expect("decodes");
        assert_eq!(decoded.contestant().expect("named"), contestant);
        assert_eq!(decoded.domain().expect("named"), Some(Domain::Adr));
        assert_eq!(decoded.commit(), Commit::Grouped(7));
        assert_eq!(*decoded.workload().expect("valid").spec(), spec);
        assert_eq!(decoded.acknowledged, there);
    }

    #[test]
    fn contestants_have_the_names_of_the_command_line() {
        for kind in EngineKind::ALL {
            assert_eq!(Contestant::Engine(kind).to_string().parse::<EngineKind>().ok(), Some(kind));
        }
    }
}
