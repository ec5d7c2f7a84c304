//! A database of SQLite's and its side files, seen from outside.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use command::failure::Failure;
use perdura_sqlite::database::{Failure as Refusal, RECORDS_SUFFIX, SIDE_SUFFIX, name_at_end};
use perdura_sqlite::store::page1::is_marked;
use pm::{MarkerFile, Range};
use serde::Serialize;

/// The first bytes of a database of SQLite's.
const MAGIC: &[u8] = b"SQLite format 3\0";
/// Bytes of the header of page 1.
const HEADER_BYTES: u64 = 100;
/// Every byte that may be locked.
const ALL: Range = Range::new(0, 1 << 62);
/// More bytes than a stub has.
const STUB_BYTES_MAX: usize = 8192;

/// The state of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    /// A file of SQLite's own.
    Plain,
    /// A process has it open through the VFS.
    Live,
    /// It was not closed, and no process has it open.
    Killed,
}

impl State {
    /// Returns the state with what it means.
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Plain => "plain: SQLite opens it without the extension",
            Self::Live => "live: a process has it open through the extension",
            Self::Killed => "killed: it was not closed, and no process has it open",
        }
    }
}

/// The files of a database.
#[derive(Debug)]
pub(super) struct DatabaseFiles {
    /// The database.
    pub(super) path: PathBuf,
    /// The side file's path, whether it is there or not.
    pub(super) side: PathBuf,
    /// The first bytes, as many as there are.
    pub(super) header: Vec<u8>,
    /// Bytes of the database.
    pub(super) bytes: u64,
    /// Bytes of the side file, if there is one.
    pub(super) side_bytes: Option<u64>,
    /// It has a differential log.
    pub(super) has_records: bool,
    /// A process has the side file locked.
    pub(super) is_open: bool,
}

impl DatabaseFiles {
    /// Looks at a database.
    ///
    /// # Errors
    /// It is not there, no file, or cannot be read.
    pub(super) fn inspect(path: &Path) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::about(path.display(), error);
        // As SQLite does: the side files are in the directory that a link leads to.
        let path = fs::canonicalize(path).map_err(failed)?;
        let mut file = File::open(&path).map_err(failed)?;
        let meta = file.metadata().map_err(failed)?;
        if !meta.is_file() {
            return Err(Failure::about(path.display(), "this is no file"));
        }
        let mut header = Vec::new();
        (&mut file).take(HEADER_BYTES).read_to_end(&mut header).map_err(failed)?;
        let side = with_suffix(&path, SIDE_SUFFIX);
        let side_bytes = fs::metadata(&side).ok().map(|meta| meta.len());
        let is_open = side_bytes.is_some() && is_locked(&side)?;
        let has_records = with_suffix(&path, RECORDS_SUFFIX).exists();
        Ok(Self { bytes: meta.len(), path, side, header, side_bytes, has_records, is_open })
    }

    /// Returns whether only the extension reads it.
    pub(super) fn is_marked(&self) -> bool {
        is_marked(&self.header)
    }

    /// Returns whether it may be a database: a file with nothing in it is an empty one.
    pub(super) fn is_database(&self) -> bool {
        self.bytes == 0 || self.is_marked() || self.header.starts_with(MAGIC)
    }

    /// Its state.
    pub(super) fn state(&self) -> State {
        match (self.is_open, self.is_marked() || self.has_records) {
            (true, _) => State::Live,
            (false, true) => State::Killed,
            (false, false) => State::Plain,
        }
    }

    /// Returns whether SQLite itself has left something to do: a journal, or a log that is not in the database
    /// yet.
    pub(super) fn has_stock_journal(&self) -> bool {
        STOCK_SUFFIXES.iter().any(|suffix| {
            let ends = MarkerFile::new(&with_suffix(&self.path, suffix), false).ends(0);
            // SQLite does nothing with a journal that begins with a zero, as a stub does.
            ends.is_ok_and(|ends| ends.and_then(|ends| ends.first).is_some_and(|first| first != 0))
        })
    }

    /// The file whose end ends a transaction over several databases that was cut off, if this database has a part of
    /// one.
    pub(super) fn super_journal(&self) -> Option<PathBuf> {
        let stub = MarkerFile::new(&with_suffix(&self.path, STOCK_SUFFIXES[0]), false);
        let ends = stub.ends(STUB_BYTES_MAX).ok()??;
        let name = name_at_end(&ends.last).filter(|_| ends.first == Some(0) && self.is_marked())?;
        Some(OsStr::from_bytes(name).into())
    }
}

/// The suffixes of the side files that SQLite itself makes.
pub(super) const STOCK_SUFFIXES: [&str; 2] = ["-journal", "-wal"];

/// Returns a path with a suffix added to its name.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Returns whether any byte of a side file is locked, as every connection locks one.
fn is_locked(side: &Path) -> Result<bool, Failure> {
    match pm::is_locked(side, ALL) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        locked => locked.map_err(|error| Failure::about(side.display(), error)),
    }
}

/// The reason why the VFS does not take a database.
pub(super) fn reason(refusal: Refusal) -> String {
    match refusal {
        Refusal::Busy => "another process is in the way".into(),
        Refusal::Memory => "there is no memory for it".into(),
        Refusal::ReadOnly => "it may not be written to".into(),
        Refusal::Full(why)
        | Refusal::CannotOpen(why)
        | Refusal::Corrupt(why)
        | Refusal::Io(why) => why,
    }
}
