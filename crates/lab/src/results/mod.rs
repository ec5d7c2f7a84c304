//! All results in one SQLite file.
//!
//! ```text
//! host         key, facts (JSON)
//! calibration  what a line costs on a host, by commit and the size of the memory (JSON)
//! file_cost    what calls of the kernel for files cost on a host, by commit; made when it is needed
//! measurement  one cell of a study: study, configuration (JSON), scale, commit, host, seed; when it
//!              was made, how long that took, what was scaled and how
//! point        the numbers of a measurement: experiment, panel, series, x, metric, unit, value,
//!              low, high, n, exact, emulated
//! ```
//!
//! Invariants:
//! - A measurement is there with all its points or not at all: it is one transaction.
//! - There is at most one measurement of a study, configuration, scale, commit, host and seed.
//! - A host is calibrated once for each commit, whose memory may lie in other pages: what is
//!   computed from it does not change when a run goes on.
//! - `application_id` says that the file is one of ours, `user_version` in which format. A file of
//!   another version is left alone.
//! - At most one run writes at a time: it holds a lock on `<file>.lock`, which the kernel lets go
//!   of when the run ends, however it does.

mod read;
mod rounds;
mod write;

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::error::LabError;

pub use read::{Configured, Measurement, Selection, Wanted};
pub use rounds::{Round, Unequal};
pub use write::Key;

/// The key in a configuration for which of `repeat` rounds a measurement is. Rounds are measured
/// and saved by themselves, and read as repetitions of one measurement.
pub const ROUND: &str = "round";

/// Distinguishes our files from others: "PLAB".
const APPLICATION_ID: i64 = 0x504c_4142;
/// Version of the format.
pub const FORMAT_VERSION: i64 = 3;
/// The time to wait for another process that is in the middle of a transaction.
const PATIENCE: Duration = Duration::from_secs(5);

const TABLES: &str = "
CREATE TABLE host (
    key TEXT PRIMARY KEY,
    facts TEXT NOT NULL
) STRICT;
CREATE TABLE calibration (
    host TEXT NOT NULL REFERENCES host (key),
    commit_id TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    line TEXT NOT NULL,
    PRIMARY KEY (host, commit_id, bytes)
) STRICT;
CREATE TABLE measurement (
    id INTEGER PRIMARY KEY,
    study TEXT NOT NULL,
    configuration TEXT NOT NULL,
    scale TEXT NOT NULL,
    commit_id TEXT NOT NULL,
    host TEXT NOT NULL REFERENCES host (key),
    seed INTEGER NOT NULL,
    scaled TEXT NOT NULL,
    finished_s INTEGER NOT NULL,
    seconds REAL NOT NULL,
    UNIQUE (study, configuration, scale, commit_id, host, seed)
) STRICT;
CREATE TABLE point (
    measurement INTEGER NOT NULL REFERENCES measurement (id) ON DELETE CASCADE,
    experiment TEXT NOT NULL,
    panel TEXT NOT NULL,
    series TEXT NOT NULL,
    x ANY NOT NULL,
    metric TEXT NOT NULL,
    unit TEXT NOT NULL,
    value REAL NOT NULL,
    low REAL NOT NULL,
    high REAL NOT NULL,
    n INTEGER NOT NULL,
    exact INTEGER NOT NULL,
    emulated TEXT
) STRICT;
CREATE INDEX point_of ON point (measurement);
";

/// An open file of results.
pub struct Results {
    connection: Connection,
    path: PathBuf,
}

/// The right to write measurements; ends when it is dropped.
#[derive(Debug)]
pub struct RunLock {
    _file: File,
}

impl Results {
    /// Opens a file of results; makes it if there is none.
    ///
    /// # Errors
    /// It is something else, of another version, locked, or cannot be made.
    pub fn open_or_create(path: &Path) -> Result<Self, LabError> {
        let results = Self::connect(path, OpenFlags::default())?;
        if results.is_fresh()? {
            results.connection.execute_batch("BEGIN EXCLUSIVE").map_err(results.failed())?;
            // Two may have come this far: the second waited for the first one.
            let make = match results.is_fresh()? {
                true => format!(
                    "{TABLES} PRAGMA application_id = {APPLICATION_ID}; \
                     PRAGMA user_version = {FORMAT_VERSION}; COMMIT"
                ),
                false => "ROLLBACK".to_owned(),
            };
            results.connection.execute_batch(&make).map_err(results.failed())?;
        }
        results.check()?;
        Ok(results)
    }

    /// Returns true if the file has no contents yet, neither ours nor another program's. A process
    /// that was stopped while it made the tables leaves a file that is not empty, and nothing in
    /// it.
    fn is_fresh(&self) -> Result<bool, LabError> {
        let tables = "SELECT count(*) FROM sqlite_schema";
        let read = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
        let tables = self.connection.query_row(tables, [], read).map_err(self.failed())?;
        Ok(tables == 0 && self.number("application_id")? == 0)
    }

    fn number(&self, pragma: &str) -> Result<i64, LabError> {
        let read = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
        self.connection.query_row(&format!("PRAGMA {pragma}"), [], read).map_err(self.failed())
    }

    /// Opens a file of results to look at it.
    ///
    /// # Errors
    /// There is none, it is something else, of another version, or locked.
    pub fn open(path: &Path) -> Result<Self, LabError> {
        if !path.exists() {
            return Err(LabError::NoResults { path: path.to_owned() });
        }
        let results = Self::connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        if results.is_fresh()? {
            return Err(LabError::NoResults { path: path.to_owned() });
        }
        results.check()?;
        Ok(results)
    }

    fn connect(path: &Path, flags: OpenFlags) -> Result<Self, LabError> {
        let connection = Connection::open_with_flags(path, flags).map_err(failed(path))?;
        let results = Self { connection, path: path.to_owned() };
        results.connection.busy_timeout(PATIENCE).map_err(results.failed())?;
        results.connection.execute_batch("PRAGMA foreign_keys = ON").map_err(results.failed())?;
        Ok(results)
    }

    fn check(&self) -> Result<(), LabError> {
        if self.number("application_id")? != APPLICATION_ID {
            return Err(LabError::NotResults { path: self.path.clone() });
        }
        let found = self.number("user_version")?;
        if found != FORMAT_VERSION {
            let (path, known) = (self.path.clone(), FORMAT_VERSION);
            return Err(LabError::Version { path, found, known });
        }
        Ok(())
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps other runs away.
    ///
    /// # Errors
    /// [`LabError::Running`], or the lock cannot be made.
    pub fn lock(&self) -> Result<RunLock, LabError> {
        // The file has one lock, whatever it is called.
        let file = std::fs::canonicalize(&self.path);
        let mut name = file.map_err(|error| LabError::io(&self.path, error))?.into_os_string();
        name.push(".lock");
        let path = PathBuf::from(name);
        let file = File::options().write(true).create(true).truncate(false).open(&path);
        let file = file.map_err(|error| LabError::io(&path, error))?;
        match file.try_lock() {
            Ok(()) => Ok(RunLock { _file: file }),
            Err(TryLockError::WouldBlock) => Err(LabError::Running { path: self.path.clone() }),
            Err(TryLockError::Error(error)) => Err(LabError::io(&path, error)),
        }
    }

    fn failed(&self) -> impl Fn(rusqlite::Error) -> LabError + use<> {
        failed(&self.path)
    }
}

/// Turns SQLite's error about a file into ours.
fn failed(path: &Path) -> impl Fn(rusqlite::Error) -> LabError + use<> {
    let path = path.to_owned();
    move |source| {
        let path = path.clone();
        match source.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => LabError::NotResults { path },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => LabError::Locked { path },
            Some(ErrorCode::DiskFull) => LabError::DiskFull { path },
            Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::ReadOnly) => {
                LabError::Unwritable { path, source }
            }
            Some(ErrorCode::DatabaseCorrupt) => LabError::Damaged { path, source },
            _ => LabError::Results { path, source },
        }
    }
}

#[cfg(test)]
mod tests;
