//! The reasons why a command ends early, and their exit codes.
//!
//! Invariant: a command exits the process in `main` alone; what was created is cleaned up by unwinding
//! through `Result`s. A child process, which has created nothing to be cleaned up, may exit in [`or_end`].

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use pm::{Escaped, is_invisible};

/// The reason why a command did not end with exit code 0.
#[derive(Debug)]
pub enum Failure {
    /// The command failed: exit code 1. The text names the file, what is wrong and what to do.
    Failed(String),
    /// The command worked, and found what should not be; the report is printed already: exit code
    /// 1.
    Found,
    /// The options make no sense together: exit code 2, as for an option that does not exist.
    Usage(String),
    /// A program that the command starts is not installed: exit code 2, since it has neither worked nor found
    /// anything.
    Missing(String),
    /// The reader of the output has gone, as `head` does: not an error.
    PipeClosed,
}

impl Failure {
    /// A failure about something, usually a file. Errors of the layers below name the file
    /// themselves where they can; then it is not named twice.
    pub fn about(what: impl Display, error: impl Display) -> Self {
        let (what, error) = (Escaped(what).to_string(), Escaped(error).to_string());
        let text = if error.starts_with(&what) { error } else { format!("{what}: {error}") };
        Self::Failed(text)
    }

    /// Returns the result of a command that has printed its report: what the report says is wrong
    /// stays wrong where its reader has gone.
    ///
    /// # Errors
    /// The report could not be printed, or the verdict's.
    pub fn or_verdict(
        printed: Result<(), Self>,
        verdict: impl FnOnce() -> Result<(), Self>,
    ) -> Result<(), Self> {
        match printed {
            Ok(()) | Err(Self::PipeClosed) => verdict().and(printed),
            failed => failed,
        }
    }

    /// The reason in words; empty where it has been printed already.
    pub fn why(&self) -> &str {
        match self {
            Self::Failed(why) | Self::Usage(why) | Self::Missing(why) => why,
            Self::Found | Self::PipeClosed => "",
        }
    }

    /// Says why on standard error, and gives the exit code.
    pub fn report(&self) -> ExitCode {
        match self {
            Self::Failed(why) => {
                say(format_args!("perdura: {why}"));
                ExitCode::from(1)
            }
            Self::Found => ExitCode::from(1),
            Self::Usage(why) => {
                say(format_args!("perdura: {why}\n\nFor more information, try '--help'."));
                ExitCode::from(2)
            }
            Self::Missing(why) => {
                say(format_args!("perdura: {why}"));
                ExitCode::from(2)
            }
            Self::PipeClosed => ExitCode::SUCCESS,
        }
    }
}

/// Ends a child process with a failure: its other threads have no end.
pub fn or_end(done: Result<(), Failure>) {
    if let Err(failure) = done {
        failure.report();
        std::process::exit(1);
    }
}

/// Says what clap finds wrong with the command line of `C`, or what it was asked for. Arguments are shown as
/// [`Escaped`] does.
pub fn report_usage<C: Parser>(error: &clap::Error) -> ExitCode {
    let given: Vec<String> =
        std::env::args_os().map(|one| one.to_string_lossy().into_owned()).collect();
    if given.iter().all(|one| !one.contains(is_invisible)) {
        error.exit();
    }
    // The message may name an argument in part, and without its escape sequences: it cannot be looked for
    // there. So the arguments are escaped, and parsed again.
    match C::try_parse_from(given.iter().map(|one| Escaped(one).to_string())) {
        Err(error) => error.exit(),
        Ok(_) => {
            say(Escaped(error.render()));
            ExitCode::from(2)
        }
    }
}

/// Says a line on standard error. One that takes no more changes nothing about what a command does.
pub fn say(line: impl Display) {
    let _ = io::stderr().lock().write_all(format!("{line}\n").as_bytes());
}

macro_rules! failed {
    ($($error:ty),*) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::Failed(Escaped(error).to_string())
            }
        })*
    };
}

failed!(perdura::Error, workloads::StoreError, workloads::RunError);

macro_rules! usage {
    ($($error:ty),*) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::Usage(Escaped(error).to_string())
            }
        })*
    };
}

usage!(
    workloads::ycsb::SpecError,
    workloads::tpcb::SpecError,
    workloads::tpcc::SpecError,
    workloads::tatp::SpecError
);
