//! The options of `perdura sqlite`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use command::output::JsonTarget;
use serde::Serialize;

/// The commands of `perdura sqlite`.
#[derive(Debug, Subcommand)]
pub(crate) enum SqliteCommand {
    /// Say where the extension is, and how to load it from each language.
    #[command(
        after_help = "The extension is one file, libperdura_sqlite.so. It is looked for beside this command, and in ../lib; so is libperdura_preload.so, which is preloaded before a program that cannot be changed. SQLite 3.34 and newer load it. Without a language, all of them are shown.\n\nExample:\n  perdura sqlite install\n  perdura sqlite install python django\n  perdura sqlite install --to ~/.local/lib shell"
    )]
    Install(InstallArgs),
    /// Say whether a database is whole, who has it open, and what its next open will do.
    #[command(
        after_help = "Nothing is changed: what a kill has left is copied, and recovered there. A database that is open is read while others use it.\n\nExit code 1: the database is not whole, or cannot be looked at.\n\nExample:\n  perdura sqlite check /dev/shm/my.db\n  perdura sqlite check /dev/shm/my.db --json -"
    )]
    Check(FileArgs),
    /// Make a database that was not closed a plain file, which SQLite opens without the extension.
    #[command(
        after_help = "What was committed is replayed, the marker is cleared, and the side file goes: as at a clean close. It is done whole, whatever ends it; after a kill, run it again. A database that another process has open is refused.\n\nExample:\n  perdura sqlite plain /dev/shm/my.db && sqlite3 /dev/shm/my.db .schema"
    )]
    Plain(FileArgs),
    /// Start the installed sqlite3, SQLite's shell, on a database that the extension opens.
    #[command(
        after_help = "The shell takes the place of this command; what stands after `--` is passed on to it: its options, and statements to run instead of what it reads. `PRAGMA perdura_mode` and `PRAGMA perdura_stats` answer in it. A database that the extension does not take, on an ordinary disk or in WAL mode, is opened by SQLite alone, and the command says so.\n\nExit code 2: sqlite3 is not installed, or was built without loading of extensions. 1: the database is not opened. Else it is that of sqlite3.\n\nExample:\n  perdura sqlite shell /dev/shm/my.db\n  perdura sqlite shell /dev/shm/my.db -- -json 'SELECT * FROM t'\n  perdura sqlite shell /dev/shm/new.db < dump.sql"
    )]
    Shell(ShellArgs),
}

/// A language, a library of one, or another way to load the extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Language {
    /// The sqlite3 shell.
    Shell,
    /// Python's sqlite3.
    Python,
    /// Python: SQLAlchemy.
    Sqlalchemy,
    /// Python: Django.
    Django,
    /// Node: better-sqlite3.
    Node,
    /// Rust: rusqlite.
    Rust,
    /// C.
    C,
    /// An unchanged program, with a library preloaded.
    Preload,
}

impl Language {
    /// All of them, in the order in which they are shown.
    pub(crate) const ALL: [Self; 8] = [
        Self::Shell,
        Self::Python,
        Self::Sqlalchemy,
        Self::Django,
        Self::Node,
        Self::Rust,
        Self::C,
        Self::Preload,
    ];
}

/// `perdura sqlite install`.
#[derive(Debug, Args)]
pub(crate) struct InstallArgs {
    /// Languages to show.
    #[arg(value_enum, value_name = "LANGUAGE")]
    pub(crate) languages: Vec<Language>,
    /// Copy the extension, and the library to preload, into this directory first.
    #[arg(long, value_name = "DIR")]
    pub(crate) to: Option<PathBuf>,
    /// The extension, if it is not where it is looked for.
    #[arg(long, value_name = "FILE")]
    pub(crate) library: Option<PathBuf>,
    /// Write what is found as JSON to a file, or to standard output with `-`.
    #[arg(long, value_name = "FILE", value_parser = JsonTarget::parse)]
    pub(crate) json: Option<JsonTarget>,
}

/// `perdura sqlite check` and `plain`.
#[derive(Debug, Args)]
pub(crate) struct FileArgs {
    /// The database.
    pub(crate) file: PathBuf,
    /// Write what is found as JSON to a file, or to standard output with `-`.
    #[arg(long, value_name = "FILE", value_parser = JsonTarget::parse)]
    pub(crate) json: Option<JsonTarget>,
}

/// `perdura sqlite shell`.
#[derive(Debug, Args)]
pub(crate) struct ShellArgs {
    /// The database; it is made if it is not there.
    pub(crate) file: PathBuf,
    /// The extension, if it is not where it is looked for.
    #[arg(long, value_name = "FILE")]
    pub(crate) library: Option<PathBuf>,
    /// Arguments of sqlite3.
    #[arg(last = true, value_name = "ARGS")]
    pub(crate) arguments: Vec<OsString>,
}
