//! The process that does what is left to do when a command has ended, however it ended.
//!
//! Invariant: whatever ends the command (its end, an error, Ctrl-C, SIGKILL), the cleanup process hears of
//! it and is still there: in a process group of its own, deaf to what ends a session or a service,
//! both before the command goes on.
//!
//! How: it holds the reading end of a pipe whose other end only the command has. When the command
//! ends, the kernel closes the pipe. A last word in it says that there is nothing left to do.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};

use crate::process::this_program;

/// The word that the cleanup process says when it is ready, and hears when it is not needed any more.
const WORD: &[u8] = b".\n";

/// The cleanup process, as the command has it.
pub struct CleanupProcess(Child);

impl CleanupProcess {
    /// Starts this binary as a cleanup process of a kind (its first argument), and waits until it is ready.
    ///
    /// # Errors
    /// It does not start, or ends at once.
    pub fn start(kind: &str, argument: &OsStr) -> io::Result<Self> {
        let child = Command::new(this_program()?)
            .arg(kind)
            .arg(argument)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // What a terminal sends does not reach it.
            .process_group(0)
            .spawn()?;
        let mut started = Self(child);
        let mut said = Vec::new();
        if let Some(out) = started.0.stdout.take() {
            BufReader::new(out).read_until(b'\n', &mut said)?;
        }
        if said == WORD { Ok(started) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    }

    /// Dismisses the cleanup process, as there is nothing left to do.
    pub fn dismiss(mut self) {
        if let Some(mut pipe) = self.0.stdin.take() {
            // One that is gone needs no word.
            let _ = pipe.write_all(WORD);
        }
        let _ = self.0.wait();
    }

    /// Lets it do its work now, and waits for that.
    pub fn work(mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// The cleanup process's part: says that it is ready, waits until the command has ended, and returns
/// whether there is something to do. Calls `look` every so often until then.
///
/// # Errors
/// The system takes no handler of signals, or the command is gone before.
pub fn wait_for_end(every: Duration, mut look: impl FnMut()) -> io::Result<bool> {
    for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP] {
        // The handler sets a flag that is never read.
        signal_hook::flag::register(signal, Arc::default())?;
    }
    let (heard, word) = channel();
    thread::spawn(move || {
        let mut said = Vec::new();
        // An error means the same as the end of the input: the command is gone.
        let _ = io::stdin().lock().read_to_end(&mut said);
        let _ = heard.send(said == WORD);
    });
    io::stdout().write_all(WORD)?;
    io::stdout().flush()?;
    loop {
        match word.recv_timeout(every) {
            Err(RecvTimeoutError::Timeout) => look(),
            dismissed => return Ok(dismissed != Ok(true)),
        }
    }
}
