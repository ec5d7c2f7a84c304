//! The settings with which databases are opened and driven: the form of commits, the threads that do
//! the work that engines put off.

use perdura::{Background, Options};
use workloads::{Commit, RunOptions};

/// Returns the options with which the driver runs: every worker on a core of its own.
pub fn run_options(workers: usize, commit: Commit) -> RunOptions {
    RunOptions { workers, commit, pin: Some(peers::pin_to_core), ..RunOptions::default() }
}

/// The options of a database whose commits have this form, and whose work that is put off is done
/// so.
pub fn database_options(commit: Commit, background: Background) -> Options {
    Options::new().background(background).commit(match commit {
        Commit::Durable => perdura::Commit::Durable,
        Commit::Grouped(updates) => perdura::Commit::grouped(updates),
    })
}

/// Places the indexes of sofort; other engines pass it over.
pub fn placed(options: Options, placement: Option<u32>) -> Options {
    match placement {
        Some(percent) => options.tune("placement", percent.into()),
        None => options,
    }
}

/// Returns the name in JSON of who does what engines put off.
pub const fn background_name(background: Background) -> &'static str {
    match background {
        Background::Inline => "inline",
        Background::Thread => "thread",
    }
}

/// Returns the name in JSON of a commit form.
pub const fn commit_name(commit: Commit) -> &'static str {
    match commit {
        Commit::Durable => "durable",
        Commit::Grouped(_) => "grouped",
    }
}

/// The size of the group, if there is one.
pub const fn commit_group(commit: Commit) -> Option<u32> {
    match commit {
        Commit::Durable => None,
        Commit::Grouped(updates) => Some(updates),
    }
}

/// The form as people read it.
pub fn commit_text(commit: Commit) -> String {
    let group = commit_group(commit).map(|n| format!(" by {n} updates"));
    commit_name(commit).to_owned() + &group.unwrap_or_default()
}
