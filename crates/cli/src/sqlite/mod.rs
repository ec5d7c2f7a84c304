//! `perdura sqlite`: where the extension is, and what has become of a database under it.

mod check;
mod install;
mod look;
mod plain;
mod recipes;

pub(crate) use self::recipes::Language;
use command::failure::Failure;

use crate::args::SqliteCommand;

/// Runs a command.
///
/// # Errors
/// As each of them says.
pub(crate) fn run(command: &SqliteCommand) -> Result<(), Failure> {
    match command {
        SqliteCommand::Install(args) => install::run(args),
        SqliteCommand::Check(args) => check::run(args),
        SqliteCommand::Plain(args) => plain::run(args),
    }
}
