//! The `perdura` command.
//!
//! Invariants:
//! - Exit code 0: done. 1: it failed, or a check found something. 2: wrong usage.
//! - Results go to standard output, all else to standard error. No input leads to a panic.
//! - Whatever a command creates for itself is gone when it ends, however it ends.
//!
//! | module | its question |
//! |---|---|
//! | `args` | what can be asked? |
//! | `tour`, `bench`, `pool`, `sql`, `sqlite`, `crash`, `demo`, `laboratory` | the commands |
//! | `plan`, `contestant`, `racer` | what is measured, and how do several take turns? |
//! | `job`, `kill`, `child` | what runs, who is killed, and who looks at what is left? |
//! | `attendant`, `signals` | who does what is left when a command has ended, or is ended? |
//! | `scratch`, `host`, `progress`, `output`, `units`, `failure` | where, on what, how far, to whom |

#![forbid(unsafe_code)]

mod args;
mod attendant;
mod bench;
mod child;
mod contestant;
mod crash;
mod demo;
mod failure;
mod host;
mod job;
mod kill;
mod laboratory;
mod output;
mod plan;
mod pool;
mod progress;
mod racer;
mod scratch;
mod signals;
mod sql;
mod sqlite;
mod tour;
mod units;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::args::{Bench, Cli, Command};
use crate::failure::Failure;

fn main() -> ExitCode {
    // Before clap: child processes are no part of the command's surface.
    if let Some(code) = child::dispatch() {
        return code;
    }
    match run(&Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Tour(args) => tour::run(args),
        Command::Bench { bench: Bench::Ycsb(args) } => bench::ycsb::run(args),
        Command::Bench { bench: Bench::Tpcc(args) } => bench::tpcc::run(args),
        Command::Bench { bench: Bench::Tpcb(args) } => bench::tpcb::run(args),
        Command::Bench { bench: Bench::Tatp(args) } => bench::tatp::run(args),
        Command::Bench { bench: Bench::Slotted(args) } => bench::slotted::run(args),
        Command::Bench { bench: Bench::Sqlite(args) } => bench::sqlite::run(args),
        Command::Bench { bench: Bench::Recovery(args) } => bench::recovery::run(args),
        Command::Pool { pool } => pool::run(pool),
        Command::Sql(args) => sql::run(args),
        Command::Sqlite { sqlite } => sqlite::run(sqlite),
        Command::Crash(args) => crash::run(args),
        Command::Demo(args) => demo::run(args),
        Command::Lab { lab } => laboratory::run(lab),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "perdura", &mut script);
            output::print(&String::from_utf8_lossy(&script))
        }
    }
}
