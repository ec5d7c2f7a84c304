//! The command line of the laboratory, as both programs know it: `perdura` explains, checks and
//! completes it, and starts `perdura-lab`, which does the work.

pub mod crash;
pub mod demo;
pub mod lab;
pub mod lists;

use clap::Subcommand;

/// The commands that `perdura-lab` has.
#[derive(Debug, Subcommand)]
pub enum Laboratory {
    /// Explore what a crash can leave, and whether every engine recovers from each state.
    #[command(
        after_help = "A scenario of random transactions runs on a medium that records every store, flush, fence, write and sync. From the record come the states that a power cut or a kill can leave; each is recovered and compared with what had been acknowledged. The same seed gives the same states. --inject puts a fault into the record, which has to be noticed: then the exit code is 1, and what is wrong is shown; a fault that is not noticed is an error.\n\nExample:\n  perdura crash --engine nvm-inp,nvm-cow --states 100k --nested 20k\n  perdura crash --list-faults\n  perdura crash --inject all\n  perdura crash --kills 50"
    )]
    Crash(crash::CrashArgs),
    /// Show live, on a page of this machine, what a crash costs: engines under load that you kill.
    #[command(
        after_help = "The page is at an address of this machine alone (127.0.0.1), which is printed. Each engine runs TATP in a process of its own. Its button kills that process with SIGKILL; the next one recovers, and what had been acknowledged is looked for. Named transactions of many statements go on where they were, in engines that continue transactions (sofort). Ctrl-C ends it, and nothing is left. docs/demo.md says what one sees.\n\nExample:\n  perdura demo --engine sofort --beside wal --users 4"
    )]
    Demo(demo::DemoArgs),
    /// Run the papers' experiments, test their claims, and write a report.
    #[command(
        arg_required_else_help = true,
        after_help = "Example:\n  perdura lab run P1 --quick && perdura lab report"
    )]
    Lab {
        /// The command.
        #[command(subcommand)]
        lab: lab::LabCommand,
    },
}
