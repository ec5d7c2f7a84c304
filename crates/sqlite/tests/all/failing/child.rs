//! Processes whose calls fail, or that are killed.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

pub(crate) use super::protocol::{
    AGAIN, ALONE, CLOSE, HeldLocks, KEEP, LONG, NAMES, Size, THEN, Work, connect, keys_of,
    transaction,
};
use crate::children::child;

/// A started process, which waits for input.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) child: Child,
    pub(crate) thread: i32,
    pub(crate) stdin: ChildStdin,
    out: BufReader<ChildStdout>,
}

impl Process {
    pub(crate) fn start(
        uris: &[String],
        (work, size, held_locks): (Work, Size, HeldLocks),
        key: i64,
    ) -> Self {
        let names = [format!("{work:?}"), format!("{size:?}"), format!("{held_locks:?}")];
        Self::spawn(child("committer").args(names).arg(key.to_string()).args(uris))
    }

    /// Starts a process, up to where it is ready.
    pub(crate) fn spawn(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let output = output_until(&mut out, "=ready ");
        let thread = output.split("=ready ").nth(1).expect("it is ready").trim().parse().unwrap();
        let stdin = child.stdin.take().unwrap();
        Self { child, thread, stdin, out }
    }

    /// Returns its output up to a line with a word, or to the end.
    pub(crate) fn output_until(&mut self, word: &str) -> String {
        output_until(&mut self.out, word)
    }
}

fn output_until(out: &mut impl BufRead, word: &str) -> String {
    let mut output = String::new();
    while out.read_line(&mut output).unwrap() > 0 {
        if output.lines().last().is_some_and(|line| line.contains(word)) {
            break;
        }
    }
    output
}

/// Returns whether a process reported success or an error of a step.
pub(crate) fn outcome(output: &str, what: &str) -> Option<bool> {
    let line = output.split(&format!("={what} ")).nth(1)?;
    Some(line.starts_with("Ok"))
}
