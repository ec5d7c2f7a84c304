//! The options of `perdura tour`.

use std::path::PathBuf;

use clap::Args;
use command::units::parse_positive;

pub(super) const HELP: &str = "Each engine gets a database in the domain adr, modelled unless the medium is persistent memory, and one in process. \
SQLite and LMDB get one each, at their durable settings. All have 20,000 tuples of 1 KB and run 40,000 transactions \
of YCSB, half of them updates, each durable by itself, on one thread: three times in turns, of which the median counts. \
Flushes and fences are counted apart. Then a process with another database of each is killed with SIGKILL in the \
middle of its work, and a fresh process looks for every acknowledged transaction. Nothing is left of it.

On a disk the engines are those whose data or log are files, in the domain disk, a run has 1,000 transactions, and syncs and written bytes are counted.

Exit code 1: a store failed, or lost what it had acknowledged.

Example:
  perdura tour";

/// `perdura tour`; the sizes are for tests.
#[derive(Debug, Args)]
pub(crate) struct TourArgs {
    /// Directory to make the pools in [default: /dev/shm if it has room for them, else the directory
    /// for temporary files].
    #[arg(long, value_name = "DIR")]
    pub(crate) path: Option<PathBuf>,
    /// Tuples in each pool.
    #[arg(long, hide = true, default_value = "20k", value_parser = parse_positive)]
    pub(crate) tuples: u64,
    /// Transactions of each run [default: 40,000, on a disk 1,000].
    #[arg(long, hide = true, value_parser = parse_positive)]
    pub(crate) txns: Option<u64>,
}
