//! Child processes of this program: each is the program itself, started with a word that says what it does
//! and a task in JSON.
//!
//! They end when their standard input does, so that none outlives the command that started it.

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use signal_hook::consts::SIGKILL;

use crate::failure::Failure;
use crate::progress::LOOK_EVERY;

/// The main function of a child process, which is given the arguments after its word.
pub type Main = fn(&[OsString]) -> ExitCode;

/// Runs the child process that the arguments of this program name, if they name one.
pub fn dispatch(known: &[(&str, Main)]) -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let word = arguments.next()?;
    let (_, main) = known.iter().find(|(name, _)| word == *name)?;
    Some(main(&arguments.collect::<Vec<_>>()))
}

/// Does the task of a child process, which is its only argument.
pub fn run_task<T: DeserializeOwned>(
    arguments: &[OsString],
    work: impl FnOnce(T) -> Result<(), Failure>,
) -> ExitCode {
    let task = arguments.first().and_then(|task| task.to_str()).unwrap_or_default();
    let task = serde_json::from_str(task).map_err(about_task);
    match task.and_then(work) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// Ends this process when the one that started it has ended.
pub fn end_with_standard_input() {
    thread::spawn(|| {
        let _ = io::stdin().lock().read_to_end(&mut Vec::new());
        std::process::exit(1);
    });
}

/// A failure about the task of a child process.
pub fn about_task(what: impl Display) -> Failure {
    Failure::about("the task of a child process", what)
}

/// Returns the program to start as a child process: the program that runs, whatever has become of
/// its file since, such as a newer one of the same name.
///
/// # Errors
/// The system does not say which it is.
pub fn this_program() -> io::Result<PathBuf> {
    let running = PathBuf::from("/proc/self/exe");
    if running.exists() { Ok(running) } else { std::env::current_exe() }
}

/// A child process that is killed when this is dropped, and that ends by itself when this process
/// does, because the kernel then closes its standard input.
pub struct ChildProcess(Child);

impl ChildProcess {
    /// Starts this binary as a child of a kind, with its task.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(what: &str, task: &impl Serialize) -> Result<Self, Failure> {
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
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Takes its standard output, for who reads it while the child lives.
    pub fn take_output(&mut self) -> Option<ChildStdout> {
        self.0.stdout.take()
    }

    /// Waits until it has ended, and returns what it has said: a line, which fits the pipe, so that it
    /// can end before the line is read. `meanwhile` is called now and then.
    ///
    /// # Errors
    /// The system does not say whether it has ended.
    pub fn last_words(&mut self, mut meanwhile: impl FnMut()) -> Result<String, Failure> {
        while !self.has_ended()? {
            thread::sleep(LOOK_EVERY.min(Duration::from_millis(5)));
            meanwhile();
        }
        Ok(self.output())
    }

    /// Sends a line to it. If it has ended, the line is lost, and the next check shows the end.
    pub fn tell(&mut self, line: &str) {
        if let Some(pipe) = &mut self.0.stdin {
            let _ = writeln!(pipe, "{line}");
        }
    }

    /// Returns whether it has ended by SIGKILL, from any sender; `None` while it lives.
    ///
    /// # Errors
    /// The system does not say.
    pub fn was_killed(&mut self) -> Result<Option<bool>, Failure> {
        let ended = self.0.try_wait().map_err(about_child)?;
        Ok(ended.map(|status| status.signal() == Some(SIGKILL)))
    }

    /// Returns whether it has ended.
    ///
    /// # Errors
    /// The system does not say.
    pub fn has_ended(&mut self) -> Result<bool, Failure> {
        Ok(self.was_killed()?.is_some())
    }

    /// SIGKILL, and waits until it has hit.
    ///
    /// # Errors
    /// The system refuses.
    pub fn kill(&mut self) -> Result<(), Failure> {
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
    pub fn failure(&mut self, system: impl Display) -> Failure {
        let mut text = String::new();
        if let Some(pipe) = &mut self.0.stderr {
            let _ = pipe.read_to_string(&mut text);
        }
        let text = text.trim().strip_prefix("perdura: ").unwrap_or(text.trim());
        let text = if text.is_empty() { "a child process ended without a word" } else { text };
        Failure::about(system, text)
    }
}

fn about_child(error: impl Display) -> Failure {
    Failure::about("a child process", error)
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
