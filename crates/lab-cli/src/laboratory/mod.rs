//! `perdura lab`: the experiments of the papers, on this machine.
//!
//! The crate `lab` does the work; here stand the command line, the medium, and the processes that
//! are killed.

mod compare;
mod failed;
mod frame;
mod launcher;
mod progress;
mod report;
mod run;
mod status;

use std::fs;
use std::path::Path;

use command::args::lab::{LabCommand, ListArgs, ScaleArgs};
use command::failure::Failure;
use command::host;
use command::output::{check_target, report, table};
use command::scratch::Scratch;
use lab::run::Identity;
use lab::{Scale, Sizes};
use serde::Serialize;

/// The version of the source that this command was built from.
const COMMIT: &str = env!("PERDURA_COMMIT");

/// Runs a command of the laboratory.
///
/// # Errors
/// What that fails of.
pub(crate) fn run(command: &LabCommand) -> Result<(), Failure> {
    match command {
        LabCommand::List(args) => list(args),
        LabCommand::Run(args) => run::run(args),
        LabCommand::Status(args) => status::run(args),
        LabCommand::Report(args) => report::run(args),
        LabCommand::Compare(args) => compare::run(args),
    }
}

/// Under which names results of this command on this machine are kept.
fn identity(scratch: &Scratch, seed: u64) -> Identity {
    let facts = host::Host::new(scratch.medium());
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = if name.trim().is_empty() { "host" } else { name.trim() };
    Identity {
        commit: COMMIT.to_owned(),
        host: lab::Host {
            name: name.to_owned(),
            cpu: facts.cpu,
            cores: facts.cores,
            flush: facts.flush,
            medium: host::medium_with_device(scratch.medium(), scratch.path()),
            kernel: facts.kernel,
            memory_bytes: memory_bytes(),
        },
        seed,
    }
}

/// Memory of the machine: the same on every call, so that sizes that depend on it are, too.
fn memory_bytes() -> u64 {
    host::Memory::of_this_process().map_or(0, |memory| memory.total)
}

fn sizes(args: &ScaleArgs) -> Sizes {
    let asked = [(args.quick, Scale::Quick), (args.full, Scale::Full), (args.tiny, Scale::Tiny)];
    let asked = asked.into_iter().find(|(asked, _)| *asked);
    let scale = asked.map_or(Scale::Quick, |(_, scale)| scale);
    Sizes::new(scale, memory_bytes()).one_in(args.one_in)
}

/// Refuses a file that cannot be written before the work is done rather than after.
fn check_writable(path: &Path) -> Result<(), Failure> {
    if path.is_dir() {
        return Err(Failure::about(path.display(), "this is a directory; name a file in it"));
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    if parent.is_dir() {
        return Ok(());
    }
    Err(Failure::about(path.display(), "there is no such directory"))
}

#[derive(Serialize)]
struct Listed {
    experiment: &'static str,
    title: &'static str,
    about: &'static str,
    paper: &'static str,
    study: &'static str,
}

fn list(args: &ListArgs) -> Result<(), Failure> {
    check_target(args.json.as_ref(), &[])?;
    let all: Vec<Listed> = lab::experiments::EXPERIMENTS
        .iter()
        .map(|experiment| Listed {
            experiment: experiment.id,
            title: experiment.title,
            about: experiment.about,
            paper: experiment.paper,
            study: experiment.study.name(),
        })
        .collect();
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|one| [one.experiment, one.study, one.paper, one.title].map(str::to_owned).to_vec())
        .collect();
    let head = ["id", "measured by", "in the paper", "what"].map(str::to_owned);
    let text = table(&head, &rows, 4)
        + "\nExperiments that are measured by the same study are done together. `P1`, `P3`, `P4` and `PEERS` name all of these.\n";
    report(&text, &all, args.json.as_ref())
}
