//! `perdura sqlite check`: is a database whole, who has it open, and what will its next open do?
//!
//! Invariant: nothing is changed but the words of locks.
//!
//! - A plain file is read by SQLite without the extension.
//! - A database that another process has open is read through the VFS, together with that process.
//! - A database that was not closed is copied with its side files, and the copy is recovered. So is
//!   one with a journal that SQLite would have to roll back.

use pm::Escaped;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use command::failure::Failure;
use command::output::{check_target, report};
use command::progress::timed;
use command::scratch::Scratch;
use command::units::grouped;
use peers::extension::{Parameters, answer, open, open_stock};
use perdura_sqlite::database::{Mapped, OpenOptions};
use pm::MarkerFile;
use rusqlite::{Connection, OpenFlags};
use serde::Serialize;

use super::database_files::{DatabaseFiles, STOCK_SUFFIXES, State, reason, with_suffix};
use crate::args::FileArgs;

/// Problems of one database that are reported, at most.
const MOST_PROBLEMS: usize = 20;
/// Bytes that are compared together: no page of SQLite's is smaller.
const COMPARED_BYTES: usize = 512;
/// Bytes of page 1 that differ between a database that is live and one that is plain, or with every commit: the
/// read version, the tag, and the counters that only caches compare.
const HEADER_ALONE: [std::ops::Range<usize>; 4] = [19..20, 24..28, 72..80, 92..100];

/// The JSON of `sqlite check`.
#[derive(Debug, Serialize)]
struct Checked {
    perdura: &'static str,
    file: String,
    state: State,
    /// SQLite finds nothing wrong, and what is committed can be had.
    whole: bool,
    problems: Vec<String>,
    /// The way in which it commits: `perdura`, or SQLite's `wal` or `rollback`.
    journal: &'static str,
    /// The domain in which it is open; `None` if no process has it open through the VFS.
    domain: Option<String>,
    page_bytes: Option<u64>,
    pages: Option<u64>,
    side_file_bytes: Option<u64>,
    /// SQLite has left a journal, or a log, that its next open brings home.
    stock_journal: bool,
    /// A part of a transaction over several databases that was cut off; `None` if there is none.
    part: Option<Part>,
    /// The next open's stores; `None` if it has nothing to replay.
    replay: Option<Replay>,
}

/// A part of a transaction over several databases.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Part {
    /// The file that decides: SQLite has removed it if the transaction is committed.
    super_journal: String,
    committed: bool,
}

/// The stores with which a recovery changes a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
struct Replay {
    /// Parts of 512 bytes that change.
    blocks: u64,
    /// Bytes that change.
    bytes: u64,
}

/// Checks a database.
///
/// # Errors
/// It cannot be looked at; [`Failure::Found`] if it is not whole.
pub(super) fn run(args: &FileArgs) -> Result<(), Failure> {
    let files = DatabaseFiles::inspect(&args.file)?;
    check_target(args.json.as_ref(), &[&files.path, &files.side])?;
    let checked = Checked::of(&files)?;
    let printed = report(&checked.human_text(), &checked, args.json.as_ref());
    Failure::or_verdict(printed, || if checked.whole { Ok(()) } else { Err(Failure::Found) })
}

impl Checked {
    fn new(files: &DatabaseFiles) -> Self {
        let wal = files.header.get(18..20) == Some(&[2, 2][..]);
        let ours = files.is_marked() || files.is_open;
        Self {
            perdura: env!("CARGO_PKG_VERSION"),
            file: files.path.display().to_string(),
            state: files.state(),
            whole: false,
            problems: Vec::new(),
            journal: if ours {
                "perdura"
            } else if wal {
                "wal"
            } else {
                "rollback"
            },
            domain: None,
            page_bytes: None,
            pages: None,
            side_file_bytes: files.side_bytes,
            stock_journal: files.has_stock_journal(),
            part: None,
            replay: None,
        }
    }

    fn of(files: &DatabaseFiles) -> Result<Self, Failure> {
        let mut checked = Self::new(files);
        if !files.is_database() {
            checked.problems.push("it begins like no database of SQLite's".into());
        } else if checked.state == State::Live {
            checked.read(open(&files.path, Parameters::default(), READ));
        } else if checked.state == State::Killed || checked.stock_journal {
            checked.recover(files)?;
        } else {
            checked.read(open_stock(&files.path, READ));
        }
        checked.whole = checked.problems.is_empty();
        Ok(checked)
    }

    /// Lets SQLite read all of it.
    fn read(&mut self, opened: rusqlite::Result<Connection>) {
        let found = timed("checking", || opened.and_then(|connection| Found::of(&connection)));
        match found {
            Err(error) => self.problems.push(error.to_string()),
            Ok(found) => {
                self.problems.extend(found.problems);
                (self.page_bytes, self.pages) = (Some(found.page_bytes), Some(found.pages));
                self.domain = found.domain;
            }
        }
    }

    /// Recovers a copy.
    fn recover(&mut self, files: &DatabaseFiles) -> Result<(), Failure> {
        let scratch = Scratch::with_room(None, |_| files.bytes + files.side_bytes.unwrap_or(0))?;
        let copy = timed("copying", || copy(files, scratch.path()))?;
        // A process that opened it meanwhile may have changed it during the copy.
        if DatabaseFiles::inspect(&files.path)?.is_open {
            self.state = State::Live;
            self.read(open(&files.path, Parameters::default(), READ));
            return Ok(());
        }
        if !files.is_marked() {
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
            self.read(match files.has_records {
                true => open(&copy, Parameters::default(), flags),
                false => open_stock(&copy, flags),
            });
            self.domain = None;
            return Ok(());
        }
        let before = read(&copy)?;
        match Mapped::open(&copy, &OpenOptions::default()) {
            Err(refusal) => {
                self.problems.push(reason(refusal));
                return Ok(());
            }
            Ok(None) => {
                self.problems.push("the extension does not take it".into());
                return Ok(());
            }
            // Without closing it: the copy stays as recovery leaves it.
            Ok(Some(mapped)) => drop(mapped),
        }
        self.part = files.super_journal().map(|file| Part {
            committed: MarkerFile::new(&file, false).is_there().is_ok_and(|there| !there),
            super_journal: file.display().to_string(),
        });
        self.replay = Replay::between(&before, &read(&copy)?);
        self.read(open(&copy, Parameters::default(), OpenFlags::SQLITE_OPEN_READ_WRITE));
        // That of the copy, which may lie on another medium.
        self.domain = None;
        Ok(())
    }

    fn human_text(&self) -> String {
        let verdict = if self.whole { "whole" } else { "not whole" };
        let mut text = format!("{}: {verdict}\n", Escaped(&self.file));
        let mut line = |name: &str, what: &str| text += &format!("  {name:<9} {}\n", Escaped(what));
        line("state", self.state.text());
        line(
            "commits",
            match self.journal {
                "perdura" => "through the extension",
                "wal" => "SQLite's write-ahead log",
                _ => "SQLite's rollback journal",
            },
        );
        if let Some(domain) = &self.domain {
            line("domain", domain);
        }
        if let (Some(pages), Some(bytes)) = (self.pages, self.page_bytes) {
            line("pages", &format!("{} of {bytes} bytes", grouped(pages)));
        }
        if self.state == State::Plain && self.side_file_bytes.is_some() {
            line("beside it", "a side file that means nothing, since the database is plain");
        }
        if let Some(Part { super_journal, committed }) = &self.part {
            let verdict = match committed {
                true => format!("committed: {super_journal} is gone"),
                false => format!("not committed: {super_journal} is there"),
            };
            line("others", &format!("its part of a transaction with other databases is {verdict}"));
        }
        match (self.replay, self.state) {
            (Some(Replay { blocks, bytes }), _) => {
                let (bytes, blocks) = (grouped(bytes), grouped(blocks));
                line("next open", &format!("replays {bytes} bytes, in {blocks} blocks of 512"));
            }
            (None, State::Killed) if self.whole && !self.stock_journal => {
                line("next open", "has nothing to replay");
            }
            _ if self.stock_journal => line("next open", "SQLite brings home what it has left"),
            _ => {}
        }
        for problem in &self.problems {
            line("problem", problem);
        }
        text
    }
}

const READ: OpenFlags = OpenFlags::SQLITE_OPEN_READ_ONLY;

/// The answers of SQLite about a database.
struct Found {
    problems: Vec<String>,
    page_bytes: u64,
    pages: u64,
    domain: Option<String>,
}

impl Found {
    fn of(connection: &Connection) -> rusqlite::Result<Self> {
        let check = format!("PRAGMA integrity_check({MOST_PROBLEMS})");
        let mut statement = connection.prepare(&check)?;
        let lines: rusqlite::Result<Vec<String>> =
            statement.query_map([], |row| row.get(0))?.collect();
        let number = |pragma: &str| {
            let found: i64 = connection.pragma_query_value(None, pragma, |row| row.get(0))?;
            Ok::<_, rusqlite::Error>(found.unsigned_abs())
        };
        Ok(Self {
            problems: lines?.into_iter().filter(|line| line != "ok").collect(),
            page_bytes: number("page_size")?,
            pages: number("page_count")?,
            domain: answer(connection, "perdura_domain")?,
        })
    }
}

/// Copies a database and its side files into a directory.
fn copy(files: &DatabaseFiles, directory: &Path) -> Result<PathBuf, Failure> {
    let to = directory.join("database");
    let side =
        files.side_bytes.map(|_| (files.side.clone(), perdura_sqlite::database::SIDE_SUFFIX));
    let others = STOCK_SUFFIXES.into_iter().chain([perdura_sqlite::database::RECORDS_SUFFIX]);
    let others = others.map(|suffix| (with_suffix(&files.path, suffix), suffix));
    let side_files = side.into_iter().chain(others.filter(|(path, _)| path.exists()));
    for (from, suffix) in [(files.path.clone(), "")].into_iter().chain(side_files) {
        let copy = with_suffix(&to, suffix);
        // The original may be read-only.
        fs::copy(&from, &copy)
            .and_then(|_| fs::set_permissions(&copy, fs::Permissions::from_mode(0o600)))
            .map_err(|error| Failure::about(from.display(), error))?;
    }
    Ok(to)
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|error| Failure::about(path.display(), error))
}

impl Replay {
    /// Returns in how many bytes a database differs after recovery from before. The bytes that say
    /// that it is live, or which caches are valid, do not count.
    fn between(before: &[u8], after: &[u8]) -> Option<Self> {
        let (mut blocks, mut bytes) = (0, 0);
        let header = |at: usize| HEADER_ALONE.iter().any(|range| range.contains(&at));
        for (number, part) in after.chunks(COMPARED_BYTES).enumerate() {
            let start = number * COMPARED_BYTES;
            let old = before.get(start..).unwrap_or_default();
            let differs = |(at, byte): (usize, &u8)| {
                !header(start + at) && old.get(at).copied().unwrap_or(0) != *byte
            };
            let count = part.iter().enumerate().filter(|one| differs(*one)).count() as u64;
            (blocks, bytes) = (blocks + u64::from(count > 0), bytes + count);
        }
        (bytes > 0).then_some(Self { blocks, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_is_counted_without_what_every_open_changes() {
        let before = vec![0; 2048];
        let mut after = before.clone();
        (after[19], after[25], after[75], after[99]) = (1, 1, 1, 1);
        assert_eq!(Replay::between(&before, &after), None);
        (after[100], after[511], after[2047]) = (1, 2, 3);
        assert_eq!(Replay::between(&before, &after), Some(Replay { blocks: 2, bytes: 3 }));
        after.extend([7; 10]);
        assert_eq!(Replay::between(&before, &after), Some(Replay { blocks: 3, bytes: 13 }));
    }
}
