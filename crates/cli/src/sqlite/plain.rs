//! `perdura sqlite plain`: makes a database that was not closed a plain file.
//!
//! It is opened through the VFS, which recovers it, and closed, which makes it plain. Both are steps that
//! a kill may end anywhere; the next open goes on.

use command::failure::Failure;
use command::output::{check_target, report};
use command::progress::timed;
use peers::extension::{Parameters, open, open_stock};
use perdura_sqlite::database::{MainFile as _, Mapped, OpenOptions};
use pm::Escaped;
use rusqlite::OpenFlags;
use serde::Serialize;

use super::database_files::{DatabaseFiles, State, reason};
use crate::args::FileArgs;

/// The JSON of `sqlite plain`.
#[derive(Debug, Serialize)]
struct PlainReport {
    perdura: &'static str,
    file: String,
    /// The state that it was in.
    was: State,
    /// False if there was nothing to do.
    changed: bool,
}

/// Makes a database plain.
///
/// # Errors
/// Another process has it open, or it cannot be recovered; it is as it was then.
pub(super) fn run(args: &FileArgs) -> Result<(), Failure> {
    let files = DatabaseFiles::inspect(&args.file)?;
    check_target(args.json.as_ref(), &[&files.path, &files.side])?;
    let about = |why: String| Failure::about(files.path.display(), why);
    if !files.is_database() {
        return Err(about("it begins like no database of SQLite's".into()));
    }
    let was = files.state();
    match was {
        State::Live => return Err(about(IN_USE.into())),
        State::Plain => {}
        State::Killed => {
            timed("making it plain", || make_plain(&files)).map_err(about)?;
            let now = DatabaseFiles::inspect(&files.path)?;
            if now.is_marked() || now.is_open {
                return Err(about(IN_USE.into()));
            }
        }
    }
    let looked = open_stock(&files.path, OpenFlags::SQLITE_OPEN_READ_ONLY).and_then(|connection| {
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
    });
    // One with a journal of SQLite's own is SQLite's to open, for writing.
    if !files.has_stock_journal() {
        looked.map_err(|error| about(format!("it is plain now, and SQLite says: {error}")))?;
    }
    let changed = was == State::Killed;
    let file = files.path.display().to_string();
    let shown = Escaped(&file);
    let text = match changed {
        true => format!("{shown}: a plain file of SQLite's now\n"),
        false => format!("{shown}: is a plain file of SQLite's already\n"),
    };
    let made = PlainReport { perdura: env!("CARGO_PKG_VERSION"), file, was, changed };
    report(&text, &made, args.json.as_ref())
}

const IN_USE: &str = "a process has it open; end it, or let it close the database, and try again";

fn make_plain(files: &DatabaseFiles) -> Result<(), String> {
    if files.has_stock_journal() {
        // SQLite rolls back what it has left before anything else.
        let opened = open(&files.path, Parameters::default(), OpenFlags::SQLITE_OPEN_READ_WRITE);
        let looked = opened.and_then(|connection| {
            connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
        });
        looked.map_err(|error| error.to_string())?;
    }
    match Mapped::open(&files.path, &OpenOptions::default()).map_err(reason)? {
        Some(mapped) => Box::new(mapped).close().map_err(reason),
        // That of a journal may have been the last connection.
        None => Ok(()),
    }
}
