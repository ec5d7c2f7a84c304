//! The processes that a crash needs: one that is killed, and one that opens what it left.
//!
//! Both are started by [`crate::kill`].

mod opening;
mod tpcb;
mod tpcc;
mod ycsb;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use peers::AcknowledgedFile;
use perdura::{Background, Domain, EngineKind, Options, RecoveryReport};
use serde::{Deserialize, Serialize};
use workloads::Commit;

use crate::failure::Failure;
use crate::job::Job;
use crate::output::print;
use crate::process::{about_task as wrong, end_with_standard_input, run_task};
use crate::settings::{database_options, placed};
use crate::system::System;

pub use self::opening::{Opening, Reads};

/// First argument of the process that is killed.
pub const VICTIM: &str = "__victim";
/// First argument of the process that opens what the other one left.
pub const WITNESS: &str = "__witness";
/// Log after which InP would take a checkpoint: never, so that its log holds what ran since the
/// one that was taken after loading, and recovery has as much to do as the user asked for.
const NO_CHECKPOINT_BYTES: u64 = 1 << 50;

/// A task by names, so that it can be passed on a command line.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Task {
    engine: Option<String>,
    peer: Option<String>,
    domain: Option<String>,
    directory: PathBuf,
    acknowledged: PathBuf,
    job: Job,
    workers: usize,
    group: Option<u32>,
    /// The work that an engine puts off is done by a thread.
    #[serde(default)]
    thread: bool,
    /// The size of the nodes of a copy-on-write tree, if it is not the engine's default.
    #[serde(default)]
    tree_node_bytes: Option<u64>,
    /// Per cent of the indexes of sofort that lie in persistent memory; `None` is its default.
    #[serde(default)]
    placement: Option<u32>,
}

impl Task {
    /// A task for a system in a directory of its own.
    pub fn new(
        system: System,
        domain: Option<Domain>,
        directory: &Path,
        acknowledged: &Path,
        job: &Job,
        run: &workloads::RunOptions,
    ) -> Self {
        Self {
            engine: system.engine().map(Into::into),
            peer: system.peer().map(Into::into),
            domain: domain.map(|domain| domain.name().into()),
            directory: directory.to_owned(),
            acknowledged: acknowledged.to_owned(),
            job: job.clone(),
            workers: run.workers,
            group: crate::settings::commit_group(run.commit),
            thread: false,
            tree_node_bytes: None,
            placement: None,
        }
    }

    /// Chooses the thread that does the work which an engine puts off.
    pub fn with_background(self, background: Background) -> Self {
        Self { thread: background == Background::Thread, ..self }
    }

    /// Places the indexes of sofort.
    pub fn with_placement(self, placement: Option<u32>) -> Self {
        Self { placement, ..self }
    }

    /// Gives nodes another size.
    pub fn with_tree_node_bytes(self, tree_node_bytes: Option<u64>) -> Self {
        Self { tree_node_bytes, ..self }
    }

    fn system(&self) -> Result<System, Failure> {
        match (&self.engine, &self.peer) {
            (Some(name), None) => name.parse().map(System::Engine).map_err(wrong),
            (None, Some(name)) => name.parse().map(System::Peer).map_err(wrong),
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
        let background = if self.thread { Background::Thread } else { Background::Inline };
        let options = database_options(self.commit(), background);
        let options = placed(options, self.placement);
        let options = match self.system() {
            Ok(System::Engine(EngineKind::Inp)) => {
                options.set("checkpoint_bytes", NO_CHECKPOINT_BYTES)
            }
            _ => options,
        };
        match self.tree_node_bytes {
            None => options,
            Some(bytes) => options.tune("tree_node_bytes", bytes),
        }
    }
}

/// The findings of the second process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// Milliseconds of the open call.
    pub open_ms: f64,
    /// The time from the start of the open call to the first tuple read.
    pub first_read_ms: f64,
    /// The time from the start of the open call to the first durable commit.
    pub first_commit_ms: f64,
    /// The work of recovery; `None` for a peer, which does not say.
    pub recovered: Option<Recovered>,
    /// Acknowledged transactions of which something is gone, and loaded tuples that are gone.
    pub lost: u64,
    /// Contents that no acknowledged or unfinished transaction wrote, and transactions of which
    /// only a part is there.
    pub surplus: u64,
    /// Whole transactions that were under way when the process was killed: allowed to be there.
    pub in_flight: u64,
    /// The parts of the open call's time; `None` for a peer, which does not say.
    pub opening: Option<Opening>,
    /// YCSB: mean microseconds of a read, from the first on.
    pub reads: Option<Reads>,
    /// YCSB: percent of the indexes that were built at the first commit, of an engine that opens without
    /// them.
    pub built_percent: Option<f64>,
    /// TPC-B, TPC-C: tuples of all tables when it was reopened.
    pub tuples: Option<u64>,
    /// TPC-B, TPC-C: bytes of their values.
    pub user_bytes: Option<u64>,
    /// TPC-B, TPC-C: which checks or conditions hold.
    pub consistency: Option<BTreeMap<String, bool>>,
    /// The errors, in words.
    pub wrong: Vec<String>,
}

/// A recovery report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recovered {
    /// Operations undone.
    pub undone: u64,
    /// Transactions redone.
    pub redone: u64,
    /// Slots freed.
    pub reclaimed: u64,
}

impl From<RecoveryReport> for Recovered {
    fn from(report: RecoveryReport) -> Self {
        Self { undone: report.undone, redone: report.redone, reclaimed: report.reclaimed }
    }
}

/// The process that is killed.
pub fn victim(arguments: &[OsString]) -> ExitCode {
    end_with_standard_input();
    run_task(arguments, |task: Task| run(&task))
}

/// The process that opens what the other one left.
pub fn witness(arguments: &[OsString]) -> ExitCode {
    end_with_standard_input();
    run_task(arguments, |task: Task| look(&task))
}

/// Loads, runs and counts until it is killed; when it runs out of work it waits for that.
fn run(task: &Task) -> Result<(), Failure> {
    match &task.job {
        Job::Ycsb(spec) => ycsb::victim(task, spec),
        Job::Tpcc(spec) => tpcc::victim(task, spec),
        Job::Tpcb(spec) => tpcb::victim(task, spec),
    }
}

/// The work is done, but the end has to come from outside; until then the store stays open.
fn wait_for_the_end() -> ! {
    loop {
        thread::park();
    }
}

/// Opens what is left on the clock, then verifies all of it; prints what it found.
fn look(task: &Task) -> Result<(), Failure> {
    let counters = task.job.counters(task.workers);
    let counts = AcknowledgedFile::open(&task.acknowledged, counters)?.counts();
    let found = match &task.job {
        Job::Ycsb(spec) => ycsb::witness(task, spec, &counts)?,
        Job::Tpcc(spec) => tpcc::witness(task, spec, &counts)?,
        Job::Tpcb(spec) => tpcb::witness(task, spec, &counts)?,
    };
    let encoded = serde_json::to_string(&found).map_err(wrong)?;
    print(&(encoded + "\n"))
}

/// Milliseconds since the start of the open call.
fn elapsed_ms(started: Instant) -> f64 {
    started.elapsed().as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use peers::PeerKind;
    use workloads::ycsb::{Mix, Skew, Spec};

    use super::*;
    use crate::settings::run_options;

    #[test]
    fn a_task_survives_the_command_line() {
        let spec = Spec { mix: Mix::WriteHeavy, skew: Skew::High, ..Spec::default() };
        let shop = workloads::tpcc::Spec { remote: true, ..workloads::tpcc::Spec::default() };
        let bank = workloads::tpcb::Spec { form: workloads::Form::ShoreKits, ..Default::default() };
        for job in [Job::Ycsb(spec), Job::Tpcc(shop), Job::Tpcb(bank)] {
            let run = run_options(3, Commit::Grouped(7));
            let system = System::Peer(PeerKind::Lmdb);
            let (here, there) = (Path::new("/a b"), Path::new("/\"c\""));
            let task = Task::new(system, Some(Domain::Adr), here, there, &job, &run)
                .with_background(Background::Thread)
                .with_tree_node_bytes(Some(4096))
                .with_placement(Some(40));
            let encoded = serde_json::to_string(&task).expect("encodes");
            let decoded: Task = serde_json::from_str(&encoded).expect("decodes");
            assert_eq!(decoded.system().expect("named"), system);
            assert_eq!(decoded.domain().expect("named"), Some(Domain::Adr));
            assert_eq!(decoded.commit(), Commit::Grouped(7));
            assert!(decoded.thread);
            assert_eq!(decoded.tree_node_bytes, Some(4096));
            assert_eq!(decoded.placement, Some(40));
            assert_eq!(decoded.job, job);
            assert_eq!(decoded.acknowledged, there);
        }
    }

    #[test]
    fn contestants_have_the_names_of_the_command_line() {
        for kind in EngineKind::ALL {
            assert_eq!(System::Engine(kind).to_string().parse::<EngineKind>().ok(), Some(kind));
        }
    }
}
