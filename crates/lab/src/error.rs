//! The errors of the laboratory, in words that say what to do.

use std::path::{Path, PathBuf};

use pm::Escaped;

/// The reason why the laboratory could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// There is no experiment of this name.
    #[error("there is no experiment '{given}'; `perdura lab list` names all: {known}", given = Escaped(.given))]
    UnknownExperiment {
        /// The name that was asked for.
        given: String,
        /// The names that exist.
        known: String,
    },
    /// The file holds something else.
    #[error("{path}: this is not a results file of the laboratory; name another with --results", path = Escaped(.path.display()))]
    NotResults {
        /// The file.
        path: PathBuf,
    },
    /// The file was written by another version.
    #[error(
        "{path}: its format is version {found}, this command reads and writes version {known}; {}",
        if found < known {
            "keep it for the version that wrote it, and name a new file with --results"
        } else {
            "use the newer perdura that wrote it, or name a new file with --results"
        },
        path = Escaped(.path.display())
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
    #[error("{path}: there are no results; `perdura lab run P1 --quick` makes some", path = Escaped(.path.display()))]
    NoResults {
        /// The file.
        path: PathBuf,
    },
    /// Another run is under way.
    #[error(
        "{path}: another `perdura lab run` writes to it; wait until it has ended, since two at once would spoil each other's times",
        path = Escaped(.path.display())
    )]
    Running {
        /// The file.
        path: PathBuf,
    },
    /// Another process holds the file.
    #[error("{path}: another process has locked it; wait until it is done", path = Escaped(.path.display()))]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// No room.
    #[error(
        "{path}: the disk is full; what was measured before is kept, so free some space and run the same command again",
        path = Escaped(.path.display())
    )]
    DiskFull {
        /// The file.
        path: PathBuf,
    },
    /// The file of results cannot be opened or written to.
    #[error("{path}: {source}; name a file that can be written with --results", path = Escaped(.path.display()), source = Escaped(.source))]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// SQLite's error.
        source: rusqlite::Error,
    },
    /// The file of results is damaged.
    #[error("{path}: {source}; keep it for what can be saved of it, and name a new file with --results", path = Escaped(.path.display()), source = Escaped(.source))]
    Damaged {
        /// The file.
        path: PathBuf,
        /// SQLite's error.
        source: rusqlite::Error,
    },
    /// The database of results failed otherwise.
    #[error("{path}: {source}", path = Escaped(.path.display()), source = Escaped(.source))]
    Results {
        /// The file.
        path: PathBuf,
        /// SQLite's error.
        source: rusqlite::Error,
    },
    /// The operating system refused.
    #[error("{path}: {source}", path = Escaped(.path.display()), source = Escaped(.source))]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// Nothing is known of what was named.
    #[error("{what} '{given}' has no results; there are: {known}", given = Escaped(.given), known = Escaped(.known))]
    Nothing {
        /// Commit, host, scale or seed.
        what: &'static str,
        /// The thing that was asked for.
        given: String,
        /// The ones that exist.
        known: String,
    },
    /// More than one thing has this name.
    #[error("'{given}' could be any of: {known}; write more of it", given = Escaped(.given), known = Escaped(.known))]
    Ambiguous {
        /// The thing that was asked for.
        given: String,
        /// The ones that exist.
        known: String,
    },
    /// A file that was given is not what it should be.
    #[error("{path}: {what}", path = Escaped(.path.display()), what = Escaped(.what))]
    Input {
        /// The file.
        path: PathBuf,
        /// The fault.
        what: String,
    },
    /// Our own claims cannot be read.
    #[error("the claims of this build: {text}", text = Escaped(.0))]
    Claims(String),
    /// The room does not suffice for what is to be measured.
    #[error(
        "there is not enough room for what is missing, and nothing was begun:\n{}\nfree some, choose another directory with --path, or name only experiments that fit",
        lines(.lacking)
    )]
    NoRoom {
        /// Each study, with what it takes and what there is.
        lacking: Vec<String>,
    },
    /// A measurement failed.
    #[error("{what}: {why}", what = Escaped(.what), why = Escaped(.why))]
    Measurement {
        /// The measurement.
        what: String,
        /// The reason.
        why: String,
    },
    /// Some measurements failed.
    #[error(
        "{} of the measurements failed; all others are kept, and the same command tries these again:\n{}",
        .failures.len(),
        lines(.failures)
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

/// Returns one line for each text.
fn lines(texts: &[String]) -> String {
    let lines: Vec<String> = texts.iter().map(|text| Escaped(text).to_string()).collect();
    lines.join("\n")
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

    #[test]
    fn errors_make_no_lines_of_what_they_name() {
        const ODD: &str = "a\nDAMAGE\u{1b}\u{202e}";
        let path = || PathBuf::from(ODD);
        let text = || ODD.to_owned();
        let source = || rusqlite::Error::InvalidParameterName(text());
        let all = [
            LabError::UnknownExperiment { given: text(), known: "P1".into() },
            LabError::NotResults { path: path() },
            LabError::Version { path: path(), found: 1, known: 2 },
            LabError::NoResults { path: path() },
            LabError::Running { path: path() },
            LabError::Locked { path: path() },
            LabError::DiskFull { path: path() },
            LabError::Unwritable { path: path(), source: source() },
            LabError::Damaged { path: path(), source: source() },
            LabError::Results { path: path(), source: source() },
            LabError::Io { path: path(), source: std::io::Error::other(ODD) },
            LabError::Nothing { what: "commit", given: text(), known: text() },
            LabError::Ambiguous { given: text(), known: text() },
            LabError::Input { path: path(), what: text() },
            LabError::Claims(text()),
            LabError::NoRoom { lacking: vec![text(), text()] },
            LabError::Measurement { what: text(), why: text() },
            LabError::Failures { failures: vec![text(), text()] },
        ];
        for error in all {
            let shown = error.to_string();
            assert!(shown.contains("a\\nDAMAGE\\u{1b}\\u{202e}"), "{shown:?}");
            assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{shown:?}");
            assert!(!shown.lines().any(|line| line.starts_with("DAMAGE")), "{shown:?}");
        }
    }
}
