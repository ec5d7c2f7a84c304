//! The command line.
//!
//! Invariant: what can be refused by looking at one option is refused here, with exit code 2; what
//! needs two options to see is refused before any work is done.

mod extension;
mod forms;
mod measure;
mod outage;
mod peer;
mod pool;
mod slotted;
mod sqlite;
mod tour;

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use peers::PeerKind;
use perdura::EngineKind;
use workloads::Form;
use workloads::ycsb::{Mix, Skew};

pub(crate) use self::extension::{FileArgs, InstallArgs, Language, ShellArgs, SqliteCommand};
pub(crate) use self::forms::{BackgroundForm, CommitForm};
pub(crate) use self::measure::MeasureArgs;
pub(crate) use self::outage::OutageArgs;
pub(crate) use self::peer::PeerArgs;
pub(crate) use self::pool::{
    ArchiveArgs, BackupArgs, CreateArgs, DumpArgs, LoadArgs, NewDatabase, OptionValue, OptionsArgs,
    PoolCommand, RestoreArgs,
};
pub(crate) use self::slotted::{MixName, SlottedArgs};
pub(crate) use self::sqlite::SqliteBenchArgs;
pub(crate) use self::tour::TourArgs;
use command::args::Laboratory;
use command::args::lists::{DomainChoice, List, domain, engines, list, not_empty};
use command::output::JsonTarget;
use command::units::{parse_positive, parse_u32};

/// An embedded transactional database that is already there when you restart it.
#[derive(Debug, Parser)]
#[command(
    name = "perdura",
    version,
    arg_required_else_help = true,
    after_help = "Example:\n  perdura tour"
)]
pub(crate) struct Cli {
    /// The command.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show in under a minute what Perdura does: measure every engine beside SQLite and LMDB, kill,
    /// reopen, verify.
    #[command(after_help = tour::HELP)]
    Tour(TourArgs),
    /// Measure engines, and what a user would pick instead.
    #[command(
        arg_required_else_help = true,
        after_help = "Example:\n  perdura bench ycsb --engine all --peer lmdb --domain adr"
    )]
    Bench {
        /// The benchmark.
        #[command(subcommand)]
        bench: Bench,
    },
    /// Look at, check, create or copy a database.
    #[command(
        arg_required_else_help = true,
        after_help = "Example:\n  perdura pool info /dev/shm/accounts"
    )]
    Pool {
        /// The command for it.
        #[command(subcommand)]
        pool: PoolCommand,
    },
    /// Use SQLite with Perdura's extension, and look after databases under it.
    #[command(
        arg_required_else_help = true,
        after_help = "Example:\n  perdura sqlite check /dev/shm/my.db"
    )]
    Sqlite {
        /// The command.
        #[command(subcommand)]
        sqlite: SqliteCommand,
    },
    /// The commands of the laboratory, which are in a program of their own.
    #[command(flatten)]
    Laboratory(Laboratory),
    /// Print a completion script for a shell.
    #[command(
        after_help = "Example:\n  perdura completions bash \\\n      > ~/.local/share/bash-completion/completions/perdura"
    )]
    Completions {
        /// The shell.
        shell: Shell,
    },
}

/// The benchmarks.
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// YCSB: reads and updates of tuples of 1 KB, each by its key.
    #[command(
        after_help = "Example:\n  perdura bench ycsb --engine inp,nvm-inp --peer lmdb,floor-undo \\\n      --mix balanced,write-heavy --tuples 200k --txns 800k --domain adr \\\n      --repeat 3 --json ycsb.json\n  perdura bench ycsb --engine all --tuples 200k --txns 20M --fifths\n  perdura bench ycsb --engine all --peer lmdb,sqlite \\\n      --tuples 10k,100k,1M,10M --txns 500k"
    )]
    Ycsb(YcsbArgs),
    /// TPC-C: orders, payments and deliveries of a wholesale supplier, 45/43/4/4/4.
    #[command(
        after_help = "Inputs and population follow from --seed: the engines do the same work and must end with the same contents. They run one after the other, so that only one database at a time takes memory. More --workers than --partitions share them, as in `bench tpcb`; then the order in which they meet is open, and contents are not compared. docs/tpcc.md says what is as in the specification and what is not.\n\nExample:\n  perdura bench tpcc --engine all --warehouses 2 --txns 100k --domain adr \\\n      --repeat 3 --check --json tpcc.json"
    )]
    Tpcc(TpccArgs),
    /// TPC-B: amounts that are drawn from and paid into the accounts of a bank.
    #[command(
        after_help = "More --workers than --partitions share them. With P1's engines, and with fast, fash and nvwal, which run one transaction of a partition at a time, workers of a partition queue for it; --as shore-kits with as many --partitions gives each a part of its own. As specified, 15% of the accounts are of another branch than the teller: then there is one partition. Contents are the same whatever the engine and the workers.\n\nExample:\n  perdura bench tpcb --engine all --branches 2 --txns 100k --workers 4 --check \\\n      --domain adr --json tpcb.json\n  perdura bench tpcb --as shore-kits --branches 4 --partitions 2 --workers 2"
    )]
    Tpcb(TpcbArgs),
    /// TATP: a telephone network asks and changes a register of subscribers.
    #[command(
        after_help = "Seven transactions at 35/10/35/2/14/2/2 percent, of which some fail as the benchmark foresees: txn/s counts those that succeed, and --check their rates, too. With --kill-at the process of the users is killed in the middle and another one goes on: throughput and response time every 100 ms, and how long it takes until they are what they were. More --workers than --partitions share them, as in `bench tpcb`; then the order in which they meet is open, and contents are not compared.\n\nExample:\n  perdura bench tatp --engine all --subscribers 100k --txns 1M --check \\\n      --domain adr --json tatp.json\n  perdura bench tatp --as shore-kits --scale 20 --partitions 2 --workers 2\n  perdura bench tatp --engine sofort,nvm-inp --peer sqlite --txns 300k\n  perdura bench tatp --engine sofort --users 2 --kill-at 15 --series kill.csv"
    )]
    Tatp(TatpArgs),
    /// Slotted pages: P3's inserts, updates, deletes and reads, below tables, by scheme.
    #[command(
        after_help = "Each scheme does the same work, in turns, in a pool of its own that is loaded off the clock; afterwards its pages are checked, and all must have the same contents. Lines and fences are counted in a further run; --steps adds one that says where the time goes, by the parts of P3's figures 6 to 8.\n\nExample:\n  perdura bench slotted --domain adr --repeat 3 --steps\n  perdura bench slotted --engine p3 --record 16,64,256,1024 --domain adr\n  perdura bench slotted --engine fash,nvwal --per-txn 1,8,64,512 --txns 2000\n  perdura bench slotted --mix all --reads 90 --json slotted.json"
    )]
    Slotted(SlottedArgs),
    /// SQLite: Mobibench's inserts, updates and deletes (P3), through Perdura's VFS and without it.
    #[command(after_help = sqlite::HELP)]
    Sqlite(SqliteBenchArgs),
    /// Recovery: how soon data is there again after SIGKILL, and whether all of it is.
    #[command(
        after_help = "A child process loads --tuples, runs --txns and goes on until it is killed with SIGKILL. A fresh process reopens, reads, commits, and verifies every acknowledged transaction.\n\nExample:\n  perdura bench recovery --engine all --peer lmdb --tuples 10k,100k \\\n      --txns 10k,100k\n  perdura bench recovery --workload tpcc --engine all --warehouses 1,2 \\\n      --txns 20k\n  perdura bench recovery --workload tpcb --engine all --branches 1,2 --workers 4"
    )]
    Recovery(RecoveryArgs),
}

/// Options that all benchmarks have.
#[derive(Debug, Args)]
pub(crate) struct CommonArgs {
    /// Engines, by comma: inp, cow, log, nvm-inp, nvm-cow, nvm-log (`p1`); nv-disk, nv-logging-foi,
    /// nv-logging-foc; fast, fash, nvwal, journal, wal; sofort; `all`; `none`.
    #[arg(long, value_name = "LIST", default_value = "all", value_parser = engines)]
    pub(crate) engine: List<EngineKind>,
    /// Partitions; transactions of different partitions run at the same time.
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) partitions: u32,
    /// Threads, each pinned to a core [default: one for each partition, up to the cores].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) workers: Option<u32>,
    /// Domain, which says what a commit survives: auto (the medium's own), process, adr, eadr,
    /// disk. One that is stronger than the medium's is modelled.
    #[arg(long, value_name = "DOMAIN", default_value = "auto", value_parser = domain)]
    pub(crate) domain: DomainChoice,
    /// Moment at which a commit returns.
    #[arg(long, value_enum, default_value_t = CommitForm::Durable)]
    pub(crate) commit: CommitForm,
    /// Updates that one sync makes durable together, with --commit grouped [default: 100].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) group: Option<u32>,
    /// Do the work that engines put off, such as merging runs, in the transactions or in a thread.
    #[arg(long, value_enum, default_value_t = BackgroundForm::Inline)]
    pub(crate) background: BackgroundForm,
    /// Directory to make the pools in [default: /dev/shm, else the directory for temporary files].
    #[arg(long, value_name = "DIR")]
    pub(crate) path: Option<PathBuf>,
    /// Leave the pools where they are.
    #[arg(long)]
    pub(crate) keep: bool,
    /// Seed of keys and values: the same seed gives the same work.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Do it so often and report the median.
    #[arg(long, value_name = "R", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repeat: u32,
    /// Write the results as JSON to a file, or to standard output with `-`.
    #[arg(long, value_name = "FILE", value_parser = JsonTarget::parse)]
    pub(crate) json: Option<JsonTarget>,
}

/// `perdura bench ycsb`.
#[derive(Debug, Args)]
pub(crate) struct YcsbArgs {
    /// Mixtures, by comma: read-only, read-heavy, balanced, write-heavy; `all`.
    #[arg(long, value_name = "LIST", default_value = "balanced", value_parser = mixes)]
    pub(crate) mix: List<Mix>,
    /// Skews, which say where transactions go, by comma: low, high, uniform; `all`.
    #[arg(long, value_name = "LIST", default_value = "low", value_parser = skews)]
    pub(crate) skew: List<Skew>,
    /// Tuples of 1 KB, in all partitions together. With several sizes, by comma, stores run one
    /// after the other at each, and what does not fit is left out.
    #[arg(long, value_name = "LIST", default_value = "200k", value_delimiter = ',',
          value_parser = parse_positive)]
    pub(crate) tuples: Vec<u64>,
    /// Transactions of a run, in all partitions together.
    #[arg(long, value_name = "N", default_value = "800k", value_parser = parse_positive)]
    pub(crate) txns: u64,
    /// Neighbouring columns that an update replaces.
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u8).range(1..=10))]
    pub(crate) update_columns: u8,
    /// Tell engines that an update is all that its transaction does: nvm-inp makes it and its
    /// commit durable with one fence if it has at most two columns.
    #[arg(long)]
    pub(crate) statements: bool,
    /// Tell engines to keep columns within the tuple: nvm-inp does so, the others keep them as ever.
    #[arg(long)]
    pub(crate) inline: bool,
    /// Threads that read in one partition which others write: their rate alone and beside one writer.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) readers: Option<u32>,
    /// Threads that write in one partition, each transaction durable by itself: the rate of one and
    /// of all.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) writers: Option<u32>,
    /// Length of each phase of --readers and --writers, in turns, in milliseconds [default: 2000].
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    pub(crate) phase_ms: Option<u64>,
    /// Report throughput, memory, files and pool of each fifth, for long runs. Stores run one after
    /// the other.
    #[arg(long)]
    pub(crate) fifths: bool,
    /// Peers.
    #[command(flatten)]
    pub(crate) peers: PeerArgs,
    /// The rest.
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

impl YcsbArgs {
    /// Returns true if threads share one partition.
    pub(crate) fn is_shared(&self) -> bool {
        self.readers.is_some() || self.writers.is_some()
    }

    /// Returns the length of a phase.
    pub(crate) fn phase(&self) -> Duration {
        Duration::from_millis(self.phase_ms.unwrap_or(2000))
    }
}

/// The scale of TPC-C.
#[derive(Debug, Args)]
pub(crate) struct TpccScale {
    /// TPC-C: items, and stock of each warehouse.
    #[arg(long, value_name = "N", default_value = "100k", value_parser = parse_u32)]
    pub(crate) items: u32,
    /// TPC-C: customers of a district, and orders that it has had; for tests.
    #[arg(long, hide = true, value_name = "N", default_value = "3000", value_parser = parse_u32)]
    pub(crate) customers: u32,
    /// TPC-C: 1% of the order lines and 15% of the payments concern another warehouse; needs
    /// --partitions 1.
    #[arg(long)]
    pub(crate) remote: bool,
}

/// `perdura bench tpcc`.
#[derive(Debug, Args)]
pub(crate) struct TpccArgs {
    /// Warehouses; warehouse w lies in partition (w - 1) modulo the partitions.
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_u32)]
    pub(crate) warehouses: u32,
    /// The rest of the scale.
    #[command(flatten)]
    pub(crate) scale: TpccScale,
    /// Transactions of a run, in all partitions together.
    #[arg(long, value_name = "N", default_value = "100k", value_parser = parse_positive)]
    pub(crate) txns: u64,
    /// Check the consistency conditions 1 to 12 (clause 3.3.2) after the run.
    #[arg(long)]
    pub(crate) check: bool,
    /// The rest.
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// `perdura bench tpcb`.
#[derive(Debug, Args)]
pub(crate) struct TpcbArgs {
    /// Branches; branch b lies in partition (b - 1) modulo the partitions.
    #[arg(long, visible_alias = "scale", value_name = "N", default_value = "1",
          value_parser = parse_u32)]
    pub(crate) branches: u32,
    /// Accounts of a branch; figures with other than 100k are no TPC-B figures.
    #[arg(long, value_name = "N", default_value = "100k", value_parser = parse_u32)]
    pub(crate) accounts: u32,
    /// The form: specification, or shore-kits, with accounts of the teller's branch alone [default:
    /// specification].
    #[arg(long = "as", value_name = "FORM", value_parser = Form::from_str)]
    pub(crate) form: Option<Form>,
    /// Transactions of a run, in all partitions together.
    #[arg(long, value_name = "N", default_value = "100k", value_parser = parse_positive)]
    pub(crate) txns: u64,
    /// Check after the run that the balances of branches, tellers and accounts agree with each other
    /// and with the history.
    #[arg(long)]
    pub(crate) check: bool,
    /// Peers to compare with, by comma: lmdb, sqlite, postgres (its package has to be installed: a
    /// server of its own is started, and pgbench runs the transactions); they have one partition, and
    /// commits that are durable. Peers alone with `--engine none`.
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true,
          value_parser = peer::tpcb_peers)]
    pub(crate) peer: List<PeerKind>,
    /// The rest.
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// `perdura bench tatp`.
#[derive(Debug, Args)]
pub(crate) struct TatpArgs {
    /// Subscribers; subscriber s lies in partition (s - 1) modulo the partitions [default: 100k].
    #[arg(long, value_name = "N", value_parser = parse_u32)]
    pub(crate) subscribers: Option<u32>,
    /// Subscribers in units of 10,000, as other implementations count them.
    #[arg(long, value_name = "N", value_parser = parse_u32, conflicts_with = "subscribers")]
    pub(crate) scale: Option<u32>,
    /// The form: specification, or shore-kits, with subscribers of equal probability [default:
    /// specification].
    #[arg(long = "as", value_name = "FORM", value_parser = Form::from_str)]
    pub(crate) form: Option<Form>,
    /// Transactions of a run, in all partitions together [default: 100k].
    #[arg(long, value_name = "N", value_parser = parse_positive, conflicts_with = "kill_at")]
    pub(crate) txns: Option<u64>,
    /// Peers to compare with: sqlite; it has one partition, and commits that are durable. Alone with
    /// `--engine none`.
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true,
          value_parser = peer::tatp_peers, conflicts_with = "kill_at")]
    pub(crate) peer: List<PeerKind>,
    /// Check the rows and the rates of success after the run; with --kill-at always.
    #[arg(long)]
    pub(crate) check: bool,
    /// A kill in the middle.
    #[command(flatten)]
    pub(crate) kill: OutageArgs,
    /// The rest.
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// `perdura bench recovery`.
#[derive(Debug, Args)]
pub(crate) struct RecoveryArgs {
    /// The workload that is killed.
    #[arg(long, value_enum, default_value_t = WorkloadName::Ycsb)]
    pub(crate) workload: WorkloadName,
    /// YCSB: mixture: read-only, read-heavy, balanced, write-heavy [default: balanced].
    #[arg(long, value_parser = Mix::from_str)]
    pub(crate) mix: Option<Mix>,
    /// YCSB: where transactions go: low, high, uniform [default: low].
    #[arg(long, value_parser = Skew::from_str)]
    pub(crate) skew: Option<Skew>,
    /// YCSB: tuples of 1 KB, by comma [default: 200k].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_positive)]
    pub(crate) tuples: Option<Vec<u64>>,
    /// YCSB: neighbouring columns that an update replaces [default: 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=10))]
    pub(crate) update_columns: Option<u8>,
    /// TPC-C: warehouses, by comma [default: 1].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_u32)]
    pub(crate) warehouses: Option<Vec<u32>>,
    /// The rest of the scale.
    #[command(flatten)]
    pub(crate) scale: TpccScale,
    /// TPC-B: branches, by comma [default: 1].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_u32)]
    pub(crate) branches: Option<Vec<u32>>,
    /// TPC-B: accounts of a branch [default: 100k].
    #[arg(long, value_name = "N", value_parser = parse_u32)]
    pub(crate) accounts: Option<u32>,
    /// TPC-B: the form, as in `bench tpcb` [default: specification].
    #[arg(long = "as", value_name = "FORM", value_parser = Form::from_str)]
    pub(crate) form: Option<Form>,
    /// Transactions before the kill, by comma.
    #[arg(long, value_name = "LIST", default_value = "100k", value_delimiter = ',',
          value_parser = parse_positive)]
    pub(crate) txns: Vec<u64>,
    /// Share of the indexes of sofort, by their number, that lie in persistent memory, in per cent: they
    /// are there after a kill [default: 0].
    #[arg(long, value_name = "P", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub(crate) placement: Option<u32>,
    /// Peers.
    #[command(flatten)]
    pub(crate) peers: PeerArgs,
    /// The rest.
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// The workload that `bench recovery` kills.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum WorkloadName {
    /// YCSB.
    Ycsb,
    /// TPC-C.
    Tpcc,
    /// TPC-B.
    Tpcb,
}

fn mixes(text: &str) -> Result<List<Mix>, String> {
    list(text, Some(&Mix::ALL)).and_then(not_empty)
}

fn skews(text: &str) -> Result<List<Skew>, String> {
    list(text, Some(&Skew::ALL)).and_then(not_empty)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Cli;

    #[test]
    fn the_definition_of_the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
