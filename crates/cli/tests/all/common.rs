//! Running the built command, `perdura` or `perdura-lab`: whichever is of the package under test.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

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

/// Copies the command to `path`. Another process writes the copy: a file that this one had open for
/// writing could not be run while a command that another test starts has inherited it.
#[allow(dead_code, reason = "the tests of one package alone copy it")]
pub(crate) fn copy_program(path: &Path) {
    let status = Command::new("cp").arg(PROGRAM).arg(path).status().expect("cp");
    assert!(status.success(), "{status}");
}

/// Writes a script that can be run, in another process for the same reason.
#[allow(dead_code, reason = "the tests of one package alone write one")]
pub(crate) fn write_script(path: &Path, text: &str) {
    let mut shell = Command::new("sh");
    shell.args(["-c", "rm -f \"$0\" && cat >\"$0\" && chmod 755 \"$0\""]).arg(path);
    let mut child = shell.stdin(Stdio::piped()).spawn().expect("sh");
    child.stdin.take().expect("piped").write_all(text.as_bytes()).expect("written");
    let status = child.wait().expect("ended");
    assert!(status.success(), "{status}");
}
