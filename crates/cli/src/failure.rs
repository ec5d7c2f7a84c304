//! The reasons why a command ends early, and their exit codes.
//!
//! Invariant: nobody exits the process below `main`; what was created is cleaned up by unwinding
//! through `Result`s.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

/// The reason why a command did not end with exit code 0.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command failed: exit code 1. The text names the file, what is wrong and what to do.
    Failed(String),
    /// The command worked, and found what should not be; the report is printed already: exit code
    /// 1.
    Found,
    /// The options make no sense together: exit code 2, as for an option that does not exist.
    Usage(String),
    /// The reader of the output has gone, as `head` does: not an error.
    PipeClosed,
}

impl Failure {
    /// A failure about something, usually a file. Errors of the layers below name the file
    /// themselves where they can; then it is not named twice.
    pub(crate) fn about(what: impl Display, error: impl Display) -> Self {
        let (what, error) = (what.to_string(), error.to_string());
        let text = if error.starts_with(&what) { error } else { format!("{what}: {error}") };
        Self::Failed(text)
    }

    /// Returns the result of a command that has printed its report: what the report says is wrong
    /// stays wrong where its reader has gone.
    ///
    /// # Errors
    /// The report could not be printed, or the verdict's.
    pub(crate) fn or_verdict(
        printed: Result<(), Self>,
        verdict: impl FnOnce() -> Result<(), Self>,
    ) -> Result<(), Self> {
        match printed {
            Ok(()) | Err(Self::PipeClosed) => verdict().and(printed),
            failed => failed,
        }
    }

    /// The reason in words; empty where it has been printed already.
    pub(crate) fn why(&self) -> &str {
        match self {
            Self::Failed(why) | Self::Usage(why) => why,
            Self::Found | Self::PipeClosed => "",
        }
    }

    /// Says why on standard error, and gives the exit code.
    pub(crate) fn report(&self) -> ExitCode {
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
            Self::PipeClosed => ExitCode::SUCCESS,
        }
    }
}

/// Says a line on standard error. One that takes no more changes nothing about what a command does.
pub(crate) fn say(line: impl Display) {
    let _ = io::stderr().lock().write_all(format!("{line}\n").as_bytes());
}

macro_rules! failed {
    ($($error:ty),*) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::Failed(error.to_string())
            }
        })*
    };
}

failed!(perdura::Error, workloads::StoreError, workloads::RunError);

impl From<lab::LabError> for Failure {
    fn from(error: lab::LabError) -> Self {
        let text = error.to_string();
        match error {
            // What was asked for does not exist: a wrong word on the command line.
            lab::LabError::UnknownExperiment { .. } => Self::Usage(text),
            _ => Self::Failed(text),
        }
    }
}

macro_rules! usage {
    ($($error:ty),*) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::Usage(error.to_string())
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
