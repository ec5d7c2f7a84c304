//! Running the built command.

use std::process::{Command, Output};

/// The command, ready for arguments.
pub(crate) fn perdura() -> Command {
    Command::new(env!("CARGO_BIN_EXE_perdura"))
}

/// The result of a run of the command.
#[derive(Debug)]
pub(crate) struct Ran {
    /// Exit code; `None` after a signal.
    pub(crate) code: Option<i32>,
    /// Standard output.
    pub(crate) out: String,
    /// Standard error.
    pub(crate) err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).expect("text"),
            err: String::from_utf8(output.stderr).expect("text"),
        }
    }
}

/// Runs the command to its end. It never panics, whatever is asked of it.
pub(crate) fn run(arguments: &[&str]) -> Ran {
    let ran = Ran::from(perdura().args(arguments).output().expect("the command starts"));
    assert!(!ran.err.contains("panicked"), "{arguments:?}: {ran:?}");
    ran
}
