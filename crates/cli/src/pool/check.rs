//! `perdura pool check`: what is damaged, where, what is lost; and saving the rest.
//!
//! Invariants: a check recovers before it reports, and changes nothing else; repairing never
//! changes the damaged database.

use std::path::Path;

use command::failure::{Failure, say};
use command::footprint::FootprintBytes;
use command::output::{JsonTarget, check_target, report};
use command::progress::timed;
use command::units::{bytes, grouped};
use perdura::{Bad, Database, Error, Findings, Options, PoolError, examine_parts, salvage};
use pm::Escaped;
use serde::Serialize;

use super::damage_text;

/// The JSON of `pool check`. `null` is what the damage does not let be known.
#[derive(Debug, Default, Serialize)]
struct Checked {
    perdura: &'static str,
    file: String,
    /// True if it opens; if not, `error` says why.
    opens: bool,
    error: Option<String>,
    engine: Option<&'static str>,
    domain: Option<&'static str>,
    modelled: Option<bool>,
    undone: Option<u64>,
    redone: Option<u64>,
    reclaimed: Option<u64>,
    second_copies: Option<u64>,
    header_damage: Option<&'static str>,
    damage: Vec<Place>,
    /// Damaged places beyond those listed.
    unlisted: u64,
    tuples: u64,
    objects: Option<u64>,
    leaked: Option<u64>,
    dangling: Option<u64>,
    footprint_bytes: Option<FootprintBytes>,
    /// The new database, if what can be read was taken over.
    repaired_into: Option<String>,
    good: bool,
}

/// A place that is damaged.
#[derive(Debug, Serialize)]
struct Place {
    partition: Option<u32>,
    table: Option<String>,
    index: Option<String>,
    what: String,
    lost: String,
}

impl Checked {
    fn new(file: &Path, findings: Findings) -> Self {
        let damage = findings.listed.into_iter().map(|one| Place {
            partition: one.partition,
            table: one.table,
            index: one.index,
            what: one.what,
            lost: one.lost,
        });
        Self {
            perdura: env!("CARGO_PKG_VERSION"),
            file: file.display().to_string(),
            damage: damage.collect(),
            unlisted: findings.unlisted,
            ..Self::default()
        }
    }
}

/// Checks a pool; what can be read of it goes into a new one, if that is asked for.
///
/// # Errors
/// What is wrong with the pool, or [`Failure::Found`] if the check found something.
pub(super) fn run(
    file: &Path,
    accept_loss: bool,
    into: Option<&Path>,
    json: Option<&JsonTarget>,
) -> Result<(), Failure> {
    check_target(json, &[file, into.unwrap_or(file)])?;
    match into {
        Some(into) => repair(file, into, json),
        None => check(file, accept_loss, json),
    }
}

/// An error about the pool at `file`; of one that a reboot hit it says what to do.
fn about(file: &Path, accept_loss: bool) -> impl Fn(Error) -> Failure {
    move |error| match error {
        Error::Pool(error @ PoolError::Rebooted { .. }) if !accept_loss => {
            Failure::about(file.display(), format!("{error} (--accept-loss)"))
        }
        error => Failure::about(file.display(), text_of(&error)),
    }
}

/// An error without the advice to do what is being done.
fn text_of(error: &Error) -> String {
    match error {
        Error::Damaged(Bad::Poisoned) => {
            "the medium failed while it was read; take what can be read to another one with --repair-into".into()
        }
        Error::Damaged(bad) => bad.to_string(),
        other => other.to_string(),
    }
}

fn check(file: &Path, accept_loss: bool, json: Option<&JsonTarget>) -> Result<(), Failure> {
    let (about, name) = (about(file, accept_loss), Escaped(file.display()));
    let options = Options::new().accept_loss(accept_loss);
    let database = match timed("opening", || Database::open(file, &options)) {
        Ok(database) => database,
        Err(error @ (Error::Damaged(_) | Error::Engine(_) | Error::Invalid(_))) => {
            return check_parts(file, &options, &error, json);
        }
        Err(error) => return Err(about(error)),
    };
    let pool = database.pool_info().clone();
    let (engine, recovered) = (database.engine(), database.recovery_report());
    let mut text = format!(
        "{name}: engine {}, domain {}\nrecovered   {} operations undone, {} transactions redone, {} slots reclaimed\n",
        engine,
        pool.domain_text(),
        grouped(recovered.undone),
        grouped(recovered.redone),
        grouped(recovered.reclaimed),
    );
    if recovered.second_copies > 0 {
        text += "NOTE        the first copy of a master record is torn or damaged; the second one was used. A crash in the middle of a commit leaves it so; if there was none, the last commit is lost\n";
    }
    let header_damage = damage_text(&pool);
    if let Some(damage) = header_damage {
        text += &format!(
            "DAMAGE      one copy of the header: {damage}; the other one is whole and was used\n"
        );
    }
    let found = timed("checking", || database.examine()).map_err(&about)?;
    let whole = found.findings.is_empty();
    text += &findings_text(&found.findings);
    text += &format!("tuples      {}\n", grouped(found.report.tuples));
    text += &format!("objects     {}\n", grouped(found.report.objects));
    if whole {
        let report = &found.report;
        text += &format!("leaked      {}\n", grouped(report.leaked));
        text += &format!("dangling    {}\n", grouped(report.dangling));
    }
    let footprint = database.footprint().ok();
    if let Some(found) = &footprint {
        text += &format!(
            "footprint   {}: tables {}, indexes {}, logs {}, checkpoints {}, other {}\n",
            bytes(found.total()),
            bytes(found.table),
            bytes(found.index),
            bytes(found.log),
            bytes(found.checkpoint),
            bytes(found.other),
        );
    }
    let closed = database.close();
    let good = whole
        && found.report.leaked == 0
        && found.report.dangling == 0
        && header_damage.is_none()
        && closed.is_ok();
    text += if good { "no damage found\n" } else { "" };
    let checked = Checked {
        opens: true,
        engine: Some(engine.name()),
        domain: Some(pool.header.domain.name()),
        modelled: Some(pool.header.modelled),
        undone: Some(recovered.undone),
        redone: Some(recovered.redone),
        reclaimed: Some(recovered.reclaimed),
        second_copies: Some(recovered.second_copies),
        header_damage,
        tuples: found.report.tuples,
        objects: Some(found.report.objects),
        leaked: whole.then_some(found.report.leaked),
        dangling: whole.then_some(found.report.dangling),
        footprint_bytes: footprint.map(FootprintBytes::from),
        good,
        ..Checked::new(file, found.findings)
    };
    Failure::or_verdict(report(&text, &checked, json), || {
        if !whole {
            // A damaged partition may not even close.
            say(format_args!("perdura: {name}: is damaged; {WHAT_TO_DO}"));
            return Err(Failure::Found);
        }
        closed.map_err(about)?;
        if good {
            return Ok(());
        }
        if found.report.dangling > 0 {
            let why = "data lead to objects that are not stored; restore a backup";
            say(format_args!("perdura: {name}: {why}"));
        }
        if found.report.leaked > 0 {
            let why = "stored objects that nothing leads to take up space";
            say(format_args!("perdura: {name}: {why}"));
        }
        Err(Failure::Found)
    })
}

const WHAT_TO_DO: &str = "restore a backup, or take over what can be read with `perdura pool check FILE --repair-into NEW`";

/// Checks the partitions of a database that does not open as a whole, for the reason `error`.
fn check_parts(
    file: &Path,
    options: &Options,
    error: &Error,
    json: Option<&JsonTarget>,
) -> Result<(), Failure> {
    let name = Escaped(file.display());
    let why = text_of(error);
    let Ok(found) = timed("checking", || examine_parts(file, options)) else {
        return Err(Failure::about(name, why));
    };
    let mut text = format!("{name}: does not open: {}\n", Escaped(&why));
    text += &findings_text(&found.findings);
    text += &format!("tuples      {} can be read\n", grouped(found.report.tuples));
    let checked = Checked {
        error: Some(why),
        tuples: found.report.tuples,
        ..Checked::new(file, found.findings)
    };
    Failure::or_verdict(report(&text, &checked, json), || {
        say(format_args!("perdura: {name}: is damaged; {WHAT_TO_DO}"));
        Err(Failure::Found)
    })
}

fn findings_text(findings: &Findings) -> String {
    let mut text = String::new();
    for finding in &findings.listed {
        text += &format!("DAMAGE      {finding}\n");
    }
    if findings.unlisted > 0 {
        text += &format!("DAMAGE      and {} places more\n", grouped(findings.unlisted));
    }
    text
}

fn repair(file: &Path, into: &Path, json: Option<&JsonTarget>) -> Result<(), Failure> {
    let done = timed("saving", || salvage(file, into)).map_err(|error| {
        // Most often it is about FILE; if it names NEW, FILE is not to be blamed.
        let text = match &error {
            Error::Pool(PoolError::DomainTooStrong { path, wanted, natural, .. }) => format!(
                "{}: {wanted} is stronger than {natural}, the domain of its medium; put NEW on a medium that keeps it",
                Escaped(path.display())
            ),
            error => text_of(error),
        };
        let blamed = if text.starts_with(&Escaped(into.display()).to_string()) { into } else { file };
        Failure::about(blamed.display(), text)
    })?;
    let mut text =
        format!("{}: what can be read of {}\n", Escaped(into.display()), Escaped(file.display()));
    for table in &done.tables {
        text += &format!(
            "taken over  partition {}, table `{}`: {} tuples",
            table.partition,
            Escaped(&table.table),
            grouped(table.tuples)
        );
        if table.by_secondary > 0 {
            text += &format!(", {} of them found by other indexes", grouped(table.by_secondary));
        }
        text += "\n";
    }
    text += &findings_text(&done.findings);
    text += &format!("tuples      {}\n", grouped(done.tuples()));
    let good = done.findings.is_empty();
    text += if good { "nothing is missing\n" } else { "" };
    let checked = Checked {
        tuples: done.tuples(),
        repaired_into: Some(into.display().to_string()),
        good,
        ..Checked::new(file, done.findings)
    };
    Failure::or_verdict(report(&text, &checked, json), || {
        if good {
            return Ok(());
        }
        say(format_args!("perdura: {}: what is listed above is missing", Escaped(into.display())));
        Err(Failure::Found)
    })
}
