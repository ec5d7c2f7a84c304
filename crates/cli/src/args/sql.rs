//! The options of `perdura sql`.

use std::path::PathBuf;

use clap::Args;

use super::{DomainChoice, domain};
use crate::sql::Format;

pub(super) const HELP: &str = "On a terminal it has history and completion; .help lists its commands. Elsewhere it reads what is piped in. A statement ends with a semicolon. What fails is told with its line, and the rest goes on, unless --bail is given. Ctrl-C ends the statement that runs.

Exit code 1: the database cannot be opened, or something has failed.

Example:
  perdura sql /dev/shm/my.db
  perdura sql /dev/shm/my.db --format json 'SELECT * FROM t'
  perdura sql /dev/shm/new.db < dump.sql";

/// `perdura sql`.
#[derive(Debug, Args)]
pub(crate) struct SqlArgs {
    /// The database; it is made if it is not there.
    pub(crate) file: PathBuf,
    /// Statements and dot-commands to run, each an argument. Without them they are read from standard
    /// input.
    pub(crate) statements: Vec<String>,
    /// Way in which commits are made: fash1, fash, fast, nvwal, full, or stock, without the extension.
    #[arg(long, value_name = "MODE", value_parser = ["fash1", "fash", "fast", "nvwal", "full", "stock"])]
    pub(crate) mode: Option<String>,
    /// Domain, which says what a commit survives: auto (the medium's own), process, adr, eadr,
    /// disk. One that is stronger than the medium's is modelled.
    #[arg(long, value_name = "DOMAIN", default_value = "auto", value_parser = domain)]
    pub(crate) domain: DomainChoice,
    /// Form of results [default: table on a terminal, else list].
    #[arg(long, value_enum)]
    pub(crate) format: Option<Format>,
    /// Show the names of columns in list and csv.
    #[arg(long)]
    pub(crate) headers: bool,
    /// End at the first error.
    #[arg(long)]
    pub(crate) bail: bool,
    /// Only read.
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Wait so long for other connections before a statement is refused, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 5000)]
    pub(crate) busy: u32,
}
