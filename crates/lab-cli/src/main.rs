//! The `perdura-lab` program: the commands of `perdura` that only the laboratory has.
//!
//! `perdura lab`, `perdura crash` and `perdura demo` start it with their own arguments, so it takes them as
//! they are: `perdura-lab crash --engine nvm-inp`.
//!
//! | module | its question |
//! |---|---|
//! | `laboratory` | what do the papers claim, and is it so here? |
//! | `crash` | what states can a crash leave, and does every engine recover from them? |
//! | `demo` | what does a crash cost, shown on a page? |

#![forbid(unsafe_code)]

mod crash;
mod demo;
mod laboratory;

use std::process::ExitCode;

use clap::Parser;
use command::args::Laboratory;
use command::failure::{Failure, report_usage};
use command::process::dispatch;

/// The commands of the laboratory.
#[derive(Debug, Parser)]
#[command(name = "perdura-lab", bin_name = "perdura", version, arg_required_else_help = true)]
struct Cli {
    /// The command.
    #[command(subcommand)]
    command: Laboratory,
}

fn main() -> ExitCode {
    let own = [(demo::WORKER, demo::worker as _), (crash::SOAKED, crash::soaked as _)];
    // Before clap: child processes are no part of the command's surface.
    if let Some(code) = dispatch(&[&command::CHILDREN[..], &own].concat()) {
        return code;
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

fn run(command: &Laboratory) -> Result<(), Failure> {
    match command {
        Laboratory::Crash(args) => crash::run(args),
        Laboratory::Demo(args) => demo::run(args),
        Laboratory::Lab { lab } => laboratory::run(lab),
    }
}
