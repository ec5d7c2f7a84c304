//! `perdura sqlite`: where the extension is, SQLite's shell with it, and the state of databases under it.

mod check;
mod database_files;
mod install;
mod library;
mod plain;
mod recipes;
mod shell;

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
        SqliteCommand::Shell(args) => shell::run(args),
    }
}
