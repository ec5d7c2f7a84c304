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
//! | `tour`, `bench`, `pool`, `sqlite` | the commands |
//! | `laboratory` | the commands of `perdura-lab`, which it starts |
//! | `plan`, `bench_thread` | what is measured, and how do several take turns? |
//! | `signals` | what happens to a copy that a signal cuts off? |
//!
//! What it shares with `perdura-lab` is in the crate `command`.

#![forbid(unsafe_code)]

mod args;
mod bench;
mod bench_thread;
mod laboratory;
mod plan;
mod pool;
mod signals;
mod sqlite;
mod tour;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use command::failure::{Failure, report_usage};
use command::process::dispatch;

use crate::args::{Bench, Cli, Command};

/// The answer to a command of earlier versions.
const SQL: &str = "there is no command `sql` any more: `perdura sqlite shell FILE` starts the installed sqlite3 with the extension";

fn main() -> ExitCode {
    // Before clap: child processes are no part of the command's surface.
    let side = (bench::sqlite_readers::SIDE, bench::sqlite_readers::side as _);
    let own = [(pool::WAKER, pool::wake as _), side];
    if let Some(code) = dispatch(&[&command::CHILDREN[..], &own].concat()) {
        return code;
    }
    if std::env::args_os().nth(1).is_some_and(|word| word == "sql") {
        return Failure::Usage(SQL.into()).report();
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return report_usage::<Cli>(&error),
    };
    match run(&cli.command) {
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
        Command::Bench { bench: Bench::Sqlite(args) } => match args.readers {
            None => bench::sqlite::run(args),
            Some(readers) => bench::sqlite_readers::run(args, readers),
        },
        Command::Bench { bench: Bench::Recovery(args) } => bench::recovery::run(args),
        Command::Pool { pool } => pool::run(pool),
        Command::Sqlite { sqlite } => sqlite::run(sqlite),
        Command::Laboratory(_) => laboratory::start(),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "perdura", &mut script);
            command::output::print(&String::from_utf8_lossy(&script))
        }
    }
}
