//! The options of `perdura crash`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use perdura::{Domain, EngineKind};

use super::lists::{List, domains, some_engines};
use crate::output::JsonTarget;
use crate::units::{parse_number, parse_positive};

/// States of a crash point where the user does not say.
pub const BOUND: u64 = 12;
/// The longest life of a process with `--kills` where the user does not say.
pub const LIFE_MS: u64 = 15;

/// The workload of the scenarios.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ScenarioWorkload {
    /// Random operations of every kind, and every error.
    #[value(name = "story")]
    Scenario,
    /// YCSB.
    Ycsb,
    /// TPC-C.
    Tpcc,
}

/// `perdura crash`.
#[derive(Debug, Args)]
pub struct CrashArgs {
    /// Engines, by comma: inp, cow, log, nvm-inp, nvm-cow, nvm-log (`p1`); nv-disk, nv-logging-foi,
    /// nv-logging-foc; fast, fash, nvwal, journal, wal; sofort; `all` [default: all].
    #[arg(long, value_name = "LIST", value_parser = some_engines)]
    pub engine: Option<List<EngineKind>>,
    /// Workload of the scenarios: story (random operations of every kind, and every error), ycsb
    /// (balanced), tpcc (all five transactions).
    #[arg(long, value_name = "NAME", value_enum, default_value_t = ScenarioWorkload::Scenario,
          conflicts_with = "kills")]
    pub workload: ScenarioWorkload,
    /// Number of the first random scenario; those after it have the next numbers. The standard
    /// scenario comes before them in any case.
    #[arg(long, value_name = "S", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(1..=u64::MAX / 2))]
    pub seed: u64,
    /// Explore at least so many states of each engine, distinct within a scenario; random scenarios
    /// have half of them.
    #[arg(long, value_name = "N", default_value = "20k", value_parser = parse_number)]
    pub states: u64,
    /// Explore at least so many states of crashes in recovery; those soon after it come on top.
    #[arg(long, value_name = "N", default_value = "2k", value_parser = parse_number)]
    pub nested: u64,
    /// States of a crash point, where there are more; every two lines in all four combinations are
    /// looked at whatever the bound.
    #[arg(long, value_name = "N", default_value_t = BOUND,
          value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub bound: u64,
    /// A fault that the engine is to have; `all` for one after the other.
    #[arg(long, value_name = "FAULT")]
    pub inject: Option<String>,
    /// Only the scenario with this number; 0 is the standard one. To see a violation again, give
    /// the other options too, as they were.
    #[arg(long, value_name = "SEED")]
    pub replay: Option<u64>,
    /// Run only so many transactions of the scenario that is replayed.
    #[arg(long, value_name = "N", requires = "replay",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub transactions: Option<u32>,
    /// Share of the indexes of sofort, by their number, that lie in persistent memory, in per cent
    /// [default: 0].
    #[arg(long, value_name = "P", conflicts_with_all = ["kills", "inject", "list_faults"],
          value_parser = clap::value_parser!(u32).range(0..=100))]
    pub placement: Option<u32>,
    /// Kill real processes instead of exploring: run a process under load, kill it with SIGKILL at
    /// a random time, and so on, so often. Each next one verifies what the one before had
    /// acknowledged.
    #[arg(long, value_name = "N", value_parser = parse_positive,
          conflicts_with_all = ["inject", "replay", "list_faults", "states", "nested", "bound"])]
    pub kills: Option<u64>,
    /// Longest life of a process with --kills, in milliseconds; more than its start takes.
    #[arg(long, value_name = "N", default_value_t = LIFE_MS,
          value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub life_ms: u64,
    /// Domains with --kills, which say what a commit survives: process, adr, eadr, disk, by comma;
    /// stronger than the medium's is modelled.
    #[arg(long, value_name = "LIST", default_value = "process,adr", value_parser = domains,
          requires = "kills")]
    pub domain: List<Domain>,
    /// Directory to make the pools in, with --kills [default: /dev/shm, else the directory for
    /// temporary files].
    #[arg(long, value_name = "DIR", requires = "kills")]
    pub path: Option<PathBuf>,
    /// Say which faults there are.
    #[arg(long, conflicts_with_all = ["inject", "replay", "kills"])]
    pub list_faults: bool,
    /// Write the results as JSON to a file, or to standard output with `-`.
    #[arg(long, value_name = "FILE", value_parser = JsonTarget::parse)]
    pub json: Option<JsonTarget>,
}
