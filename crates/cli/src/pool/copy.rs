//! What the commands that copy have in common: how far they are, and what came of it.

use std::path::Path;

use perdura::{CopyProgress, CopyStep, CopySummary, Database, Error, Options, PoolError};
use serde::Serialize;

use super::not_open;
use crate::failure::Failure;
use crate::output::{JsonTarget, report};
use crate::progress::Bar;
use crate::units::{bytes, grouped};

/// The bar of a copy.
pub(super) struct Shown {
    bar: Bar,
    step: Option<CopyStep>,
}

impl Shown {
    pub(super) fn new() -> Self {
        Self { bar: Bar::new(), step: None }
    }

    /// The copy has come so far.
    pub(super) fn see(&mut self, at: CopyProgress) {
        if self.step != Some(at.step) {
            self.step = Some(at.step);
            let what = match at.step {
                CopyStep::Verify => "verifying, bytes",
                CopyStep::Load => "loading, bytes",
                CopyStep::Check => "checking, tuples",
                _ => "writing, tuples",
            };
            match at.total {
                Some(total) => self.bar.phase(what, total),
                None => self.bar.endless_phase(what),
            }
        }
        self.bar.at(at.done);
    }
}

/// Opens the database to copy it.
///
/// # Errors
/// As [`super::open`]; one that is in use is copied by who uses it, with `call`.
pub(super) fn open_to_copy(
    file: &Path,
    accept_loss: bool,
    call: &str,
) -> Result<Database, Failure> {
    let options = Options::new().accept_loss(accept_loss);
    Database::open(file, &options).map_err(|error| match error {
        Error::Pool(PoolError::InUse { .. }) => {
            let hint =
                format!("or let the process that has it open call `{call}`, while it goes on");
            Failure::about(file.display(), format!("{error}, {hint}"))
        }
        error => not_open(file, &error),
    })
}

#[derive(Debug, Serialize)]
struct Counted<'a> {
    name: &'a str,
    tuples: u64,
}

/// What `--json` writes.
#[derive(Debug, Serialize)]
struct Copied<'a> {
    perdura: &'static str,
    from: String,
    to: String,
    tuples: u64,
    skipped: u64,
    bytes: u64,
    tables: Vec<Counted<'a>>,
}

/// Says what came of a copy. `done` begins the line for people.
///
/// # Errors
/// Standard output or the file takes no more.
pub(super) fn report_copy(
    done: &str,
    (from, to): (&str, &str),
    summary: &CopySummary,
    json: Option<&JsonTarget>,
) -> Result<(), Failure> {
    let mut text = format!(
        "{done}, {} tuples in {} tables, {}\n",
        grouped(summary.tuples()),
        summary.tables.len(),
        bytes(summary.bytes),
    );
    if summary.skipped > 0 {
        text += &format!("{} tuples were there already and stayed\n", grouped(summary.skipped));
    }
    let tables = summary.tables.iter().map(|(name, tuples)| Counted { name, tuples: *tuples });
    let value = Copied {
        perdura: env!("CARGO_PKG_VERSION"),
        from: from.into(),
        to: to.into(),
        tuples: summary.tuples(),
        skipped: summary.skipped,
        bytes: summary.bytes,
        tables: tables.collect(),
    };
    report(&text, &value, json)
}
