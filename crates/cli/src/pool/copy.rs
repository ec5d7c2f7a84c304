//! The parts that the commands that copy have in common: what they copy, how far they are, what
//! came of it.

use std::path::Path;
use std::time::Duration;

use command::failure::Failure;
use command::output::{JsonTarget, report};
use command::progress::{Bar, timed};
use command::units::{bytes, grouped};
use perdura::{CopyProgress, CopyStep, CopySummary, Database, Error, Options, PoolError};
use pm::Escaped;
use serde::Serialize;

use super::not_open;
use super::still::{self, ConsistentCopy};

/// The bar of a copy.
pub(super) struct Shown {
    bar: Bar,
    step: Option<CopyStep>,
    /// The text of the step that writes.
    writes: &'static str,
}

impl Shown {
    pub(super) fn new() -> Self {
        Self { bar: Bar::new(), step: None, writes: "writing, tuples" }
    }

    /// The bar of a copy that consists of pages.
    pub(super) fn of_pages() -> Self {
        Self { writes: "writing, pages", ..Self::new() }
    }

    /// The copy has come so far.
    pub(super) fn see(&mut self, at: CopyProgress) {
        if self.step != Some(at.step) {
            self.step = Some(at.step);
            let what = match at.step {
                CopyStep::Verify => "verifying, bytes",
                CopyStep::Load => "loading, bytes",
                CopyStep::Check => "checking, tuples",
                _ => self.writes,
            };
            match at.total {
                Some(total) => self.bar.phase(what, total),
                None => self.bar.endless_phase(what),
            }
        }
        self.bar.at(at.done);
    }
}

/// A database that is copied.
pub(super) struct Source {
    pub(super) database: Database,
    /// The treatment of a process that has it open.
    taken: Option<ConsistentCopy>,
}

/// The process that stood still for a copy, and for how long.
#[derive(Clone, Copy)]
pub(super) struct Pause {
    process: i32,
    stopped: Option<Duration>,
}

impl Source {
    /// Opens the database at `file` to copy it; if another process has it open, a copy of it as it
    /// is now, which lies in `directory` until this is closed.
    ///
    /// # Errors
    /// As [`super::open`] and [`still::take`].
    pub(super) fn open(
        file: &Path,
        accept_loss: bool,
        directory: Option<&Path>,
    ) -> Result<Self, Failure> {
        let options = Options::new().accept_loss(accept_loss);
        let plain = || timed("opening", || Database::open(file, &options));
        match plain() {
            Ok(database) => return Ok(Self { database, taken: None }),
            Err(Error::Pool(PoolError::InUse { .. })) => {}
            Err(error) => return Err(not_open(file, &error)),
        }
        let Some(taken) = still::take(file, directory)? else {
            // It was closed just now; or who has it cannot be seen from here.
            let database = plain().map_err(|error| not_open(file, &error))?;
            return Ok(Self { database, taken: None });
        };
        let opened = timed("opening the copy", || Database::open(&taken.pool, &options));
        let database = opened.map_err(|error| {
            let why = match error {
                Error::Pool(PoolError::DomainTooStrong { wanted, natural, .. }) => format!(
                    "{wanted} is stronger than {natural}, the domain of its medium; choose a directory on the database's medium with --path"
                ),
                error => error.to_string(),
            };
            Failure::about(file.display(), format!("its copy: {why}"))
        })?;
        Ok(Self { database, taken: Some(taken) })
    }

    /// Closes the database and removes a copy. Returns the process that was stopped for it, if any.
    ///
    /// # Errors
    /// The database does not close.
    pub(super) fn close(self) -> Result<Option<Pause>, Error> {
        let Self { database, taken } = self;
        database.close()?;
        Ok(taken.map(|taken| Pause { process: taken.process, stopped: taken.stopped }))
    }
}

impl Pause {
    /// A line about it.
    pub(super) fn text(self) -> String {
        let who = format!("process {}, which has it open,", self.process);
        match self.stopped {
            Some(stopped) => {
                format!("{who} stood still for {:.1} ms meanwhile\n", milliseconds(stopped))
            }
            None => format!("{who} had been stopped before\n"),
        }
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[derive(Debug, Serialize)]
struct Counted<'a> {
    name: &'a str,
    tuples: u64,
}

/// The JSON of a copy.
#[derive(Debug, Serialize)]
struct CopyReport<'a> {
    perdura: &'static str,
    from: String,
    to: String,
    tuples: u64,
    skipped: u64,
    bytes: u64,
    tables: Vec<Counted<'a>>,
    /// The time that a process stood still which had the database open; 0 if it had been stopped
    /// before.
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped_ms: Option<f64>,
}

/// Says what came of a base backup. `done` begins the line for people.
///
/// # Errors
/// As [`report_copy`].
pub(super) fn report_base(
    done: &str,
    (from, to): (&str, &str),
    summary: &CopySummary,
    json: Option<&JsonTarget>,
) -> Result<(), Failure> {
    let text = format!("{}, {}\n", Escaped(done), bytes(summary.bytes));
    let value = BaseBackupReport {
        perdura: env!("CARGO_PKG_VERSION"),
        from: from.into(),
        to: to.into(),
        bytes: summary.bytes,
    };
    report(&text, &value, json)
}

/// The JSON of a base backup.
#[derive(Debug, Serialize)]
struct BaseBackupReport {
    perdura: &'static str,
    from: String,
    to: String,
    bytes: u64,
}

/// Prints the outcome of a copy: a line that begins with `done`, or JSON where that was asked for.
///
/// # Errors
/// Standard output, or the file for the JSON, cannot be written.
pub(super) fn report_copy(
    done: &str,
    (from, to): (&str, &str),
    summary: &CopySummary,
    pause: Option<Pause>,
    json: Option<&JsonTarget>,
) -> Result<(), Failure> {
    let mut text = format!(
        "{}, {} tuples in {} tables, {}\n",
        Escaped(done),
        grouped(summary.tuples()),
        summary.tables.len(),
        bytes(summary.bytes),
    );
    if summary.skipped > 0 {
        text += &format!("{} tuples were there already and stayed\n", grouped(summary.skipped));
    }
    if let Some(pause) = pause {
        text += &pause.text();
    }
    let tables = summary.tables.iter().map(|(name, tuples)| Counted { name, tuples: *tuples });
    let value = CopyReport {
        perdura: env!("CARGO_PKG_VERSION"),
        from: from.into(),
        to: to.into(),
        tuples: summary.tuples(),
        skipped: summary.skipped,
        bytes: summary.bytes,
        tables: tables.collect(),
        stopped_ms: pause.map(|pause| pause.stopped.map_or(0.0, milliseconds)),
    };
    report(&text, &value, json)
}
