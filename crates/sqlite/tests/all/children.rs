//! The processes that tests start. What each does is in `tests/children`.

use std::process::Command;

/// Returns the command of the child of this name. Its arguments are still to be added.
pub(crate) fn child(name: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_perdura-sqlite-children"));
    command.arg(name);
    command
}
