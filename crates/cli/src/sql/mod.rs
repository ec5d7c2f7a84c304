//! `perdura sql`: a shell for SQLite with the extension.
//!
//! Invariants:
//! - A statement's result is written out before the next one is read.
//! - A failure is reported with its file and line. The exit code is then 1, whatever comes after.
//! - Ctrl-C ends the statement that runs, or the line at the prompt. A shell that is not
//!   interactive ends as a whole.

mod commands;
mod completion;
mod dump;
mod import;
mod input;
mod interrupts;
mod session;
mod show;

use std::io::IsTerminal;

use peers::extension::{Parameters, open, stats};
use perdura::Domain;
use rusqlite::{Connection, OpenFlags};

use self::input::{Lines, Typed};
use self::interrupts::Interrupts;
use self::session::Shell;
pub(crate) use self::show::Format;
use self::show::Settings;
use crate::args::SqlArgs;
use command::failure::{Failure, say};

/// Runs the shell.
///
/// # Errors
/// The database cannot be opened; [`Failure::Found`] if a statement has failed and was reported.
pub(crate) fn run(args: &SqlArgs) -> Result<(), Failure> {
    let connection = connect(args)?;
    let typed = args.statements.is_empty() && std::io::stdin().is_terminal();
    let format = if typed { Format::Table } else { Format::List };
    let settings = Settings {
        format: args.format.unwrap_or(format),
        headers: args.headers,
        bail: args.bail,
        ..Settings::default()
    };
    let interrupts = Interrupts::watch(&connection, typed)?;
    let mut shell = Shell::new(&connection, settings, &interrupts);
    let ran = if typed {
        greet(args, &connection)?;
        let mut typed = Typed::new(&connection)?;
        shell.run(&mut typed)
    } else if args.statements.is_empty() {
        shell.run(&mut Lines::of_standard_input())
    } else {
        shell.run(&mut Lines::of_arguments(&args.statements))
    };
    let outcome = ran.and_then(|()| if shell.has_failed() { Err(Failure::Found) } else { Ok(()) });
    drop(shell);
    let closed = connection.close().map_err(|(_, error)| error);
    closed.map_err(|error| Failure::about(args.file.display(), error))?;
    interrupts.end_if_it_should();
    outcome
}

fn connect(args: &SqlArgs) -> Result<Connection, Failure> {
    let flags = match args.read_only {
        true => OpenFlags::SQLITE_OPEN_READ_ONLY,
        false => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
    };
    let domain = args.domain.0.map(Domain::name);
    let parameters = Parameters { mode: args.mode.as_deref(), domain };
    let opened = open(&args.file, parameters, flags).and_then(|connection| {
        connection.busy_timeout(std::time::Duration::from_millis(args.busy.into()))?;
        // SQLite opens the file at the first read: this reports now what is wrong with it.
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
        Ok(connection)
    });
    opened.map_err(|error| {
        let hint = match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::CannotOpen | rusqlite::ErrorCode::NotADatabase) => {
                "; `perdura sqlite check` says more"
            }
            _ => "",
        };
        Failure::about(args.file.display(), format!("{error}{hint}"))
    })
}

/// Says at a terminal with what one talks.
fn greet(args: &SqlArgs, connection: &Connection) -> Result<(), Failure> {
    let failed = |error| Failure::about(args.file.display(), error);
    let version = (env!("CARGO_PKG_VERSION"), rusqlite::version());
    say(format_args!("Perdura {}, SQLite {}; .help says what there is", version.0, version.1));
    if stats(connection).map_err(failed)?.is_none() && args.mode.as_deref() != Some("stock") {
        say(
            "without the extension: the database lies on an ordinary disk (see --domain), or is in WAL mode",
        );
    }
    Ok(())
}
