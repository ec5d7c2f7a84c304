//! `perdura lab`, `crash` and `demo`: the program `perdura-lab` has them, and is started here.
//!
//! It takes the place of this process, so its arguments, its terminal, the signals that it is sent and its exit
//! code are those of the command.

use std::io::{self, ErrorKind};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use command::failure::Failure;

/// The program, which is built into the same directory as this one.
const PROGRAM: &str = "perdura-lab";

/// Starts the program with the arguments of this one. It is looked for first in this program's
/// directory, then on PATH.
///
/// # Errors
/// The program is not found or cannot be started. On success this does not return.
pub(crate) fn start() -> Result<(), Failure> {
    let own = std::env::current_exe().and_then(std::fs::canonicalize);
    let beside = own.map(|own| own.with_file_name(PROGRAM));
    let places = beside.iter().map(PathBuf::as_path).chain([Path::new(PROGRAM)]);
    for place in places {
        let error = become_program(place);
        if error.kind() != ErrorKind::NotFound {
            return Err(Failure::about(place.display(), error));
        }
    }
    let beside = beside
        .map_or_else(|_| String::new(), |path| format!(" {} or", pm::Escaped(path.display())));
    Err(Failure::Missing(format!(
        "this command is in the program {PROGRAM}, which is not{beside} on PATH; build it with `cargo build --release --workspace`"
    )))
}

/// Runs a program in place of this one; returns why not.
fn become_program(program: &Path) -> io::Error {
    Command::new(program).args(std::env::args_os().skip(1)).exec()
}
