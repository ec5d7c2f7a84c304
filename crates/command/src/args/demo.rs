//! `perdura demo`.

use std::path::PathBuf;

use clap::{Args, value_parser};
use perdura::EngineKind;

use crate::units::{parse_number, parse_u32};

/// Users that there can be at an engine.
pub const MOST_USERS: u32 = 16;
/// The longest latency that is emulated.
pub const MOST_LATENCY_NS: u64 = 100_000;

/// `perdura demo`; some sizes are for tests.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Port of the page; 0 for any that is free.
    #[arg(long, value_name = "N", default_value_t = 7070)]
    pub port: u16,
    /// The engine.
    #[arg(long, value_name = "E", default_value = "sofort")]
    pub engine: EngineKind,
    /// The engine beside it.
    #[arg(long, value_name = "E2", default_value = "nvm-inp")]
    pub beside: EngineKind,
    /// Users at each engine at first.
    #[arg(long, value_name = "N", default_value_t = 2,
          value_parser = value_parser!(u32).range(1..=i64::from(MOST_USERS)))]
    pub users: u32,
    /// Emulated: nanoseconds that each fence takes longer at first; reads take no longer.
    #[arg(long, value_name = "NS", default_value = "0", value_parser = latency)]
    pub latency: u64,
    /// Subscribers of TATP in a partition.
    #[arg(long, value_name = "N", default_value = "10k", value_parser = parse_u32)]
    pub subscribers: u32,
    /// Statements of a long transaction.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = value_parser!(u32).range(2..=10_000))]
    pub statements: u32,
    /// Directory to make the databases in [default: /dev/shm, else the directory for temporary files].
    #[arg(long, value_name = "DIR")]
    pub path: Option<PathBuf>,
    /// Milliseconds between two statements of a long transaction.
    #[arg(long, value_name = "MS", default_value_t = 50, value_parser = value_parser!(u32).range(1..=10_000))]
    pub pace: u32,
}

fn latency(text: &str) -> Result<u64, String> {
    match parse_number(text)? {
        ns if ns <= MOST_LATENCY_NS => Ok(ns),
        ns => Err(format!("{ns} ns: at most {} are possible", MOST_LATENCY_NS)),
    }
}
