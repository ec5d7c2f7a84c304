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

use std::fmt::Display;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use peers::AcknowledgedFile;
use perdura::{Background, Domain};
use serde::Serialize;
use signal_hook::consts::SIGKILL;
use workloads::RunOptions;

use crate::attendant::this_program;
use crate::child::{Found, Task, VICTIM, WITNESS};
use crate::contestant::Contestant;
use crate::failure::Failure;
use crate::job::Job;
use crate::progress::{Bar, LOOK_EVERY};

/// The time between two looks whether it is time to kill.
const AIM_EVERY: Duration = Duration::from_micros(500);

/// A kill to be made.
#[derive(Debug, Clone)]
pub(crate) struct Kill<'a> {
    /// The contestant.
    pub(crate) contestant: Contestant,
    /// The domain of an engine.
    pub(crate) domain: Option<Domain>,
    /// The options with which the victim runs.
    pub(crate) run: RunOptions,
    /// The size of the nodes of a copy-on-write tree, if it is not the engine's default.
    pub(crate) tree_node_bytes: Option<u64>,
    /// Per cent of the indexes of sofort that lie in persistent memory; `None` is its default.
    pub(crate) placement: Option<u32>,
    /// The threads that do the work which an engine puts off.
    pub(crate) background: Background,
    /// The job of the victim before it is killed.
    pub(crate) job: &'a Job,
    /// An empty directory.
    pub(crate) directory: &'a Path,
}

/// The result of a kill.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    /// Transactions acknowledged before the kill.
    pub(crate) acknowledged: u64,
    /// The findings afterwards.
    pub(crate) found: Found,
}

impl Kill<'_> {
    /// Kills and looks.
    ///
    /// # Errors
    /// A child process failed, or finished before it could be killed.
    pub(crate) fn run(&self, bar: &mut Bar) -> Result<Outcome, Failure> {
        let wanted = self.job.transactions();
        let job = self.job.with_more()?;
        let store = self.directory.join("store");
        std::fs::create_dir(&store).map_err(|error| Failure::about(store.display(), error))?;
        let file = self.directory.join("acknowledged");
        let acknowledged = AcknowledgedFile::create(&file, job.counters(self.run.workers))?;
        let task = Task::new(self.contestant, self.domain, &store, &file, &job, &self.run)
            .with_background(self.background)
            .with_tree_node_bytes(self.tree_node_bytes)
            .with_placement(self.placement);

        bar.phase(format!("{}: to be killed", self.contestant), wanted);
        let total = || acknowledged.counts().iter().sum::<u64>();
        let mut victim = Guarded::start(VICTIM, &task)?;
        while total() < wanted {
            if victim.has_ended()? {
                return Err(victim.failure(self.contestant));
            }
            thread::sleep(AIM_EVERY);
            bar.at(total());
        }
        victim.kill()?;
        let acknowledged = total();
        if acknowledged >= job.transactions() {
            let why = "it had finished before it could be killed; ask for more --txns";
            return Err(Failure::about(self.contestant, why));
        }

        bar.phase(format!("{}: reopening and verifying", self.contestant), 1);
        let found = self.look(&task, bar)?;
        Ok(Outcome { acknowledged, found })
    }

    fn look(&self, task: &Task, bar: &mut Bar) -> Result<Found, Failure> {
        let mut witness = Guarded::start(WITNESS, task)?;
        let text = witness.last_words(|| bar.at(0))?;
        serde_json::from_str(&text).map_err(|_| witness.failure(self.contestant))
    }
}

/// A child process that is killed when this is dropped, and that ends by itself when this process
/// does, because the kernel then closes its standard input.
pub(crate) struct Guarded(Child);

impl Guarded {
    /// Starts this binary as a child of a kind, with its task.
    ///
    /// # Errors
    /// It does not start.
    pub(crate) fn start(what: &str, task: &impl Serialize) -> Result<Self, Failure> {
        let binary = this_program().map_err(about_child)?;
        let encoded = serde_json::to_string(task).map_err(about_child)?;
        Command::new(binary)
            .args([what, &encoded])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map(Self)
            .map_err(about_child)
    }

    /// Its number in the system.
    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Takes its standard output, for who reads it while the child lives.
    pub(crate) fn take_output(&mut self) -> Option<ChildStdout> {
        self.0.stdout.take()
    }

    /// Waits until it has ended, and returns what it has said: a line, which fits the pipe, so that it
    /// can end before the line is read. `meanwhile` is called now and then.
    ///
    /// # Errors
    /// The system does not say whether it has ended.
    pub(crate) fn last_words(&mut self, mut meanwhile: impl FnMut()) -> Result<String, Failure> {
        while !self.has_ended()? {
            thread::sleep(LOOK_EVERY.min(Duration::from_millis(5)));
            meanwhile();
        }
        Ok(self.output())
    }

    /// Tells it a line. One that has ended hears nothing, and whoever looks sees that it has.
    pub(crate) fn tell(&mut self, line: &str) {
        if let Some(pipe) = &mut self.0.stdin {
            let _ = writeln!(pipe, "{line}");
        }
    }

    /// Returns whether it has ended by SIGKILL, whoever sent that; `None` while it lives.
    ///
    /// # Errors
    /// The system does not say.
    pub(crate) fn was_killed(&mut self) -> Result<Option<bool>, Failure> {
        let ended = self.0.try_wait().map_err(about_child)?;
        Ok(ended.map(|status| status.signal() == Some(SIGKILL)))
    }

    fn has_ended(&mut self) -> Result<bool, Failure> {
        Ok(self.was_killed()?.is_some())
    }

    /// SIGKILL, and waits until it has hit.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn kill(&mut self) -> Result<(), Failure> {
        let killed = self.0.kill().and_then(|()| self.0.wait());
        killed.map(|_| ()).map_err(about_child)
    }

    fn output(&mut self) -> String {
        let mut text = String::new();
        if let Some(pipe) = &mut self.0.stdout {
            let _ = pipe.read_to_string(&mut text);
        }
        text
    }

    /// Returns what a child that has ended said of its failure.
    pub(crate) fn failure(&mut self, contestant: Contestant) -> Failure {
        let mut text = String::new();
        if let Some(pipe) = &mut self.0.stderr {
            let _ = pipe.read_to_string(&mut text);
        }
        let text = text.trim().strip_prefix("perdura: ").unwrap_or(text.trim());
        let text = if text.is_empty() { "a child process ended without a word" } else { text };
        Failure::about(contestant, text)
    }
}

fn about_child(error: impl Display) -> Failure {
    Failure::about("a child process", error)
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
