//! Killing a process in the middle of its work, and having another one look at what is left.
//!
//! 1. A child process (the victim) creates a store, loads it, runs transactions and counts each
//!    acknowledged one in a mapped file outside the store.
//! 2. When enough are counted it is killed with SIGKILL. It has seconds of work left, so the kill
//!    hits it in the middle.
//! 3. A second, fresh child process (the witness) opens the store on the clock and verifies it. A
//!    fresh one, because an application that comes back after a crash is a new process too: nothing
//!    is mapped, no allocator and no cache of ours is warm.
//!
//! What it shows: the `process` domain. The kernel keeps the pages of a killed process, so a kill
//! says nothing about flushes.

use std::path::Path;
use std::thread;
use std::time::Duration;

use peers::AcknowledgedFile;
use perdura::{Background, Domain};
use workloads::RunOptions;

use crate::child::{Found, Task, VICTIM, WITNESS};
use crate::failure::Failure;
use crate::job::Job;
use crate::process::ChildProcess;
use crate::progress::Bar;
use crate::system::System;

/// The time between two looks whether it is time to kill.
const AIM_EVERY: Duration = Duration::from_micros(500);

/// A kill to be made.
#[derive(Debug, Clone)]
pub struct Kill<'a> {
    /// The system.
    pub system: System,
    /// The domain of an engine.
    pub domain: Option<Domain>,
    /// The options with which the victim runs.
    pub run: RunOptions,
    /// The size of the nodes of a copy-on-write tree, if it is not the engine's default.
    pub tree_node_bytes: Option<u64>,
    /// Per cent of the indexes of sofort that lie in persistent memory; `None` is its default.
    pub placement: Option<u32>,
    /// The threads that do the work which an engine puts off.
    pub background: Background,
    /// The job of the victim before it is killed.
    pub job: &'a Job,
    /// An empty directory.
    pub directory: &'a Path,
}

/// The result of a kill.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Transactions acknowledged before the kill.
    pub acknowledged: u64,
    /// The findings afterwards.
    pub found: Found,
}

impl Kill<'_> {
    /// Kills the child process, and looks at what it has left.
    ///
    /// # Errors
    /// A child process failed, or finished before it could be killed.
    pub fn run(&self, bar: &mut Bar) -> Result<Outcome, Failure> {
        let wanted = self.job.transactions();
        let job = self.job.with_more()?;
        let store = self.directory.join("store");
        std::fs::create_dir(&store).map_err(|error| Failure::about(store.display(), error))?;
        let file = self.directory.join("acknowledged");
        let acknowledged = AcknowledgedFile::create(&file, job.counters(self.run.workers))?;
        let task = Task::new(self.system, self.domain, &store, &file, &job, &self.run)
            .with_background(self.background)
            .with_tree_node_bytes(self.tree_node_bytes)
            .with_placement(self.placement);

        bar.phase(format!("{}: to be killed", self.system), wanted);
        let total = || acknowledged.counts().iter().sum::<u64>();
        let mut victim = ChildProcess::start(VICTIM, &task)?;
        while total() < wanted {
            if victim.has_ended()? {
                return Err(victim.failure(self.system));
            }
            thread::sleep(AIM_EVERY);
            bar.at(total());
        }
        victim.kill()?;
        let acknowledged = total();
        if acknowledged >= job.transactions() {
            let why = "it had finished before it could be killed; ask for more --txns";
            return Err(Failure::about(self.system, why));
        }

        bar.phase(format!("{}: reopening and verifying", self.system), 1);
        let found = self.look(&task, bar)?;
        Ok(Outcome { acknowledged, found })
    }

    fn look(&self, task: &Task, bar: &mut Bar) -> Result<Found, Failure> {
        let mut witness = ChildProcess::start(WITNESS, task)?;
        let text = witness.last_words(|| bar.at(0))?;
        serde_json::from_str(&text).map_err(|_| witness.failure(self.system))
    }
}
