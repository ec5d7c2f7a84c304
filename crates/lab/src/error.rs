//! The errors of the laboratory, in words that say what to do.

use std::path::{Path, PathBuf};

/// The reason why the laboratory could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// There is no experiment of this name.
    #[error("there is no experiment '{given}'; `perdura lab list` names all: {known}")]
    UnknownExperiment {
        /// The name that was asked for.
        given: String,
        /// The names that exist.
        known: String,
    },
    /// The file holds something else.
    #[error("{}: this is not a results file of the laboratory; name another with --results", path.display())]
    NotResults {
        /// The file.
        path: PathBuf,
    },
    /// The file was written by another version.
    #[error(
        "{}: its format is version {found}, this command reads and writes version {known}; {}",
        path.display(),
        if found < known {
            "keep it for the version that wrote it, and name a new file with --results"
        } else {
            "use the newer perdura that wrote it, or name a new file with --results"
        }
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The version of this command.
        known: i64,
    },
    /// No such file exists, or it is empty.
    #[error("{}: there are no results; `perdura lab run P1 --quick` makes some", path.display())]
    NoResults {
        /// The file.
        path: PathBuf,
    },
    /// Another run is under way.
    #[error(
        "{}: another `perdura lab run` writes to it; wait until it has ended, since two at once would spoil each other's times",
        path.display()
    )]
    Running {
        /// The file.
        path: PathBuf,
    },
    /// Another process holds the file.
    #[error("{}: another process has locked it; wait until it is done", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// No room.
    #[error(
        "{}: the disk is full; what was measured before is kept, so free some space and run the same command again",
        path.display()
    )]
    DiskFull {
        /// The file.
        path: PathBuf,
    },
    /// The file of results cannot be opened or written to.
    #[error("{}: {source}; name a file that can be written with --results", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// SQLite's error.
        source: rusqlite::Error,
    },
    /// The file of results is damaged.
    #[error("{}: {source}; keep it for what can be saved of it, and name a new file with --results", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// SQLite's error.
        source: rusqlite::Error,
    },
    /// The database of results failed otherwise.
    #[error("{}: {source}", path.display())]
    Results {
        /// The file.
        path: PathBuf,
        /// SQLite's error.
        source: rusqlite::Error,
    },
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// Nothing is known of what was named.
    #[error("{what} '{given}' has no results; there are: {known}")]
    Nothing {
        /// Commit, host, scale or seed.
        what: &'static str,
        /// The thing that was asked for.
        given: String,
        /// The ones that exist.
        known: String,
    },
    /// More than one thing has this name.
    #[error("'{given}' could be any of: {known}; write more of it")]
    Ambiguous {
        /// The thing that was asked for.
        given: String,
        /// The ones that exist.
        known: String,
    },
    /// A file that was given is not what it should be.
    #[error("{}: {what}", path.display())]
    Input {
        /// The file.
        path: PathBuf,
        /// The fault.
        what: String,
    },
    /// Our own claims cannot be read.
    #[error("the claims of this build: {0}")]
    Claims(String),
    /// The room does not suffice for what is to be measured.
    #[error(
        "there is not enough room for what is missing, and nothing was begun:\n{}\nfree some, choose another directory with --path, or name only experiments that fit",
        lacking.join("\n")
    )]
    NoRoom {
        /// Each study, with what it takes and what there is.
        lacking: Vec<String>,
    },
    /// A measurement failed.
    #[error("{what}: {why}")]
    Measurement {
        /// The measurement.
        what: String,
        /// The reason.
        why: String,
    },
    /// Some measurements failed.
    #[error(
        "{} of the measurements failed; all others are kept, and the same command tries these again:\n{}",
        failures.len(),
        failures.join("\n")
    )]
    Failures {
        /// Each with what it is and why it failed.
        failures: Vec<String>,
    },
}

impl LabError {
    /// The operating system refused something about a path.
    #[must_use]
    pub fn io(path: &Path, source: std::io::Error) -> Self {
        match source.kind() {
            std::io::ErrorKind::StorageFull => Self::DiskFull { path: path.to_owned() },
            _ => Self::Io { path: path.to_owned(), source },
        }
    }

    /// Results cannot be written to this file: there is no use in measuring on. A medium that fills
    /// up while it is measured is none of that.
    pub(crate) fn is_of_results(&self, results: &Path) -> bool {
        match self {
            Self::DiskFull { path }
            | Self::Results { path, .. }
            | Self::Unwritable { path, .. }
            | Self::Damaged { path, .. }
            | Self::Locked { path } => path == results,
            _ => false,
        }
    }

    /// A measurement of `what` failed.
    pub fn measuring(what: &str) -> impl Fn(&dyn std::fmt::Display) -> Self + use<> {
        let what = what.to_owned();
        move |why| Self::Measurement { what: what.clone(), why: why.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_medium_is_not_a_full_file_of_results() {
        let full = |path: &str| {
            LabError::io(Path::new(path), std::io::Error::from(std::io::ErrorKind::StorageFull))
        };
        let results = Path::new("/data/results.db");
        assert!(full("/data/results.db").is_of_results(results));
        assert!(!full("/dev/shm/pool").is_of_results(results));
    }
}
