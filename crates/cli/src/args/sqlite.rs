//! The options of `perdura bench sqlite`.

use clap::Args;
use command::units::{parse_number, parse_positive, parse_u32};
use peers::extension::{Keys, Operation, SqliteMode};
use perdura::Domain;

use super::{List, MeasureArgs, list, not_empty};

pub(super) const HELP: &str = "Each mode does the same work through the same SQLite, in turns, in a database of its own that is loaded off the clock. A transaction is BEGIN, its statements, COMMIT. Afterwards each database is closed, and SQLite without the VFS checks and reads it: all must have the same contents. Lines, fences and logged bytes are those that the VFS counts; it must have seen every transaction, or the run fails.

With --readers one connection writes and the others read, each a thread, or a process with --processes. The writer runs --txns transactions, each an insert or an update; the readers select rows that were loaded, from the moment at which all are there until the writer has ended. So each side's rate is of the same time, and each is divided by the same side's rate in the baseline. Inputs are made before. Where there are fewer processors than connections a faster writer takes time from the readers: --writes-per-second gives it the same rate in all modes that reach it.

Example:
  perdura bench sqlite --domain adr --repeat 3
  perdura bench sqlite --mode wal,stock-wal --mix insert --keys random \\
      --record 64,1024 --txns 100k --json sqlite.json
  perdura bench sqlite --mode wal,stock-wal --mix insert,update --prepared \\
      --readers 3 --processes --txns 200k --repeat 5";

/// `perdura bench sqlite`.
#[derive(Debug, Args)]
pub(crate) struct SqliteBenchArgs {
    /// Ways in which SQLite commits, by comma: wal (its write-ahead log, through the VFS), wal-diff (the same with a
    /// differential log, in the domain adr), lean, fash1, fash, fast, nvwal, full (the VFS's own), stock-wal,
    /// stock-journal (without it, synchronous FULL), stock-wal-lines (as stock-wal, and each sync writes back the lines
    /// that were written); `all` of these, of which wal-diff is left out if --domain names another domain. Without
    /// --domain wal-diff runs in a modelled adr.
    #[arg(long, value_name = "LIST", default_value = "all", value_parser = modes)]
    pub(crate) mode: List<SqliteMode>,
    /// Operations, by comma: insert, update, delete, select; `all`.
    #[arg(long, value_name = "LIST", default_value = "all", value_parser = operations)]
    pub(crate) mix: List<Operation>,
    /// Order of the keys of new rows, and of rows that are changed, by comma: ascending, random;
    /// `all`.
    #[arg(long, value_name = "LIST", default_value = "all", value_parser = orders)]
    pub(crate) keys: List<Keys>,
    /// Bytes of a row's text, by comma. Mobibench has 100.
    #[arg(long, value_name = "BYTES", default_value = "100", value_delimiter = ',',
          value_parser = parse_u32)]
    pub(crate) record: Vec<u32>,
    /// Operations of a transaction, by comma.
    #[arg(long, value_name = "N", default_value = "1", value_delimiter = ',',
          value_parser = parse_u32)]
    pub(crate) per_txn: Vec<u32>,
    /// Rows that are there before.
    #[arg(long, visible_alias = "tuples", value_name = "N", default_value = "20k",
          value_parser = parse_number)]
    pub(crate) records: u64,
    /// Transactions of a run.
    #[arg(long, value_name = "N", default_value = "20k", value_parser = parse_positive)]
    pub(crate) txns: u64,
    /// Bytes of a page of SQLite's: a power of two from 512 to 64 KiB.
    #[arg(long, value_name = "BYTES", default_value = "4096", value_parser = parse_u32)]
    pub(crate) page: u32,
    /// Prepare statements once. Mobibench has each transaction as a text, which SQLite parses.
    #[arg(long)]
    pub(crate) prepared: bool,
    /// Keep the lock between transactions (`locking_mode = EXCLUSIVE`), in all modes.
    #[arg(long)]
    pub(crate) exclusive: bool,
    /// Readers next to one writer, each with a connection of its own. Needs operations that insert or update.
    #[arg(long, value_name = "N", conflicts_with = "exclusive",
          value_parser = clap::value_parser!(u32).range(1..=128))]
    pub(crate) readers: Option<u32>,
    /// Writer and readers are processes instead of threads.
    #[arg(long, requires = "readers")]
    pub(crate) processes: bool,
    /// Transactions a second, on average, of the writer next to readers, which is as fast as it can otherwise.
    #[arg(long, value_name = "N", requires = "readers",
          value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub(crate) writes_per_second: Option<u64>,
    /// Mode that the others are divided by [default: stock-wal if it runs, else the first].
    #[arg(long, value_name = "MODE")]
    pub(crate) baseline: Option<SqliteMode>,
    /// The rest.
    #[command(flatten)]
    pub(crate) measure: MeasureArgs,
}

impl SqliteBenchArgs {
    /// The modes that run. A list of all has one that has a domain of its own only in that one.
    pub(crate) fn modes(&self) -> Vec<SqliteMode> {
        let named = self.measure.domain.0.map(Domain::name);
        let is_all = self.mode.0.len() == SqliteMode::ALL.len();
        let runs = |mode: &SqliteMode| {
            !is_all || named.is_none() || mode.own_domain().is_none_or(|own| named == Some(own))
        };
        self.mode.0.iter().copied().filter(runs).collect()
    }
}

fn modes(text: &str) -> Result<List<SqliteMode>, String> {
    list(text, Some(&SqliteMode::ALL)).and_then(not_empty)
}

fn operations(text: &str) -> Result<List<Operation>, String> {
    list(text, Some(&Operation::ALL)).and_then(not_empty)
}

fn orders(text: &str) -> Result<List<Keys>, String> {
    list(text, Some(&Keys::ALL)).and_then(not_empty)
}
