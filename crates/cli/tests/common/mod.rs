//! Running the built command, `perdura` or `perdura-lab`: whichever is of the package under test.

use std::process::{Command, Output};

/// The program.
const PROGRAM: &str =
    match (option_env!("CARGO_BIN_EXE_perdura"), option_env!("CARGO_BIN_EXE_perdura-lab")) {
        (Some(program), _) | (_, Some(program)) => program,
        (None, None) => panic!("this package has no such program"),
    };

/// The command, ready for arguments.
pub(crate) fn perdura() -> Command {
    Command::new(PROGRAM)
}

/// Returns the command, run by `programs` and ready for arguments. It can be interrupted even if
/// the tests themselves run in the background or under `nohup`, and so ignore these signals.
#[allow(dead_code, reason = "not all tests send signals")]
pub(crate) fn interruptible(programs: &[&str]) -> Command {
    let mut command = Command::new("env");
    command.arg("--default-signal=INT,HUP").args(programs).arg(PROGRAM);
    command
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
