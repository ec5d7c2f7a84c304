//! `perdura pool check`: what is damaged, where, what is lost; and saving the rest.
//!
//! Invariants: a check recovers before it reports, and changes nothing else; repairing never
//! changes the damaged database.

use std::path::Path;

use perdura::{Database, Error, Findings, Options, PoolError, examine_parts, salvage};

use super::damage_text;
use crate::failure::Failure;
use crate::output::print;
use crate::units::grouped;

/// Checks a pool; what can be read of it goes into a new one, if that is asked for.
///
/// # Errors
/// What is wrong with the pool, or [`Failure::Found`] if the check found something.
pub(super) fn run(file: &Path, accept_loss: bool, into: Option<&Path>) -> Result<(), Failure> {
    match into {
        Some(into) => repair(file, into),
        None => check(file, accept_loss),
    }
}

/// An error about the pool at `file`; of one that a reboot hit it says what to do.
fn about(file: &Path, accept_loss: bool) -> impl Fn(Error) -> Failure {
    move |error| match error {
        Error::Pool(error @ PoolError::Rebooted { .. }) if !accept_loss => {
            Failure::about(file.display(), format!("{error} --accept-loss"))
        }
        error => Failure::about(file.display(), error),
    }
}

fn check(file: &Path, accept_loss: bool) -> Result<(), Failure> {
    let (about, name) = (about(file, accept_loss), file.display());
    let options = Options::new().accept_loss(accept_loss);
    let database = match Database::open(file, &options) {
        Ok(database) => database,
        Err(error @ (Error::Damaged(_) | Error::Engine(_) | Error::Invalid(_))) => {
            return check_parts(file, &options, error);
        }
        Err(error) => return Err(about(error)),
    };
    let pool = database.pool_info();
    let recovered = database.recovery_report();
    let mut text = format!(
        "{name}: engine {}, domain {}\nrecovered   {} operations undone, {} transactions redone, {} slots reclaimed\n",
        database.engine(),
        pool.domain_text(),
        grouped(recovered.undone),
        grouped(recovered.redone),
        grouped(recovered.reclaimed),
    );
    if recovered.second_copies > 0 {
        text += "NOTE        the first copy of a master record is torn or damaged; the second one was used. A crash in the middle of a commit leaves it so; if there was none, the last commit is lost\n";
    }
    let header_damage = damage_text(pool);
    if let Some(damage) = header_damage {
        text += &format!(
            "DAMAGE      one copy of the header: {damage}; the other one is whole and was used\n"
        );
    }
    let found = database.examine();
    let whole = found.findings.is_empty();
    text += &findings_text(&found.findings);
    text += &format!("tuples      {}\n", grouped(found.report.tuples));
    text += &format!("objects     {}\n", grouped(found.report.objects));
    if whole {
        let report = &found.report;
        text += &format!("leaked      {}\n", grouped(report.leaked));
        text += &format!("dangling    {}\n", grouped(report.dangling));
    }
    let closed = database.close();
    let good =
        whole && found.report.leaked == 0 && found.report.dangling == 0 && header_damage.is_none();
    text += if good { "no damage found\n" } else { "" };
    print(&text)?;
    if !whole {
        // A damaged partition may not even close.
        eprintln!("perdura: {name}: is damaged; {WHAT_TO_DO}");
        return Err(Failure::Found);
    }
    closed.map_err(about)?;
    if good {
        return Ok(());
    }
    if found.report.dangling > 0 {
        eprintln!("perdura: {name}: data lead to objects that are not stored; restore a backup");
    }
    if found.report.leaked > 0 {
        eprintln!("perdura: {name}: stored objects that nothing leads to take up space");
    }
    Err(Failure::Found)
}

const WHAT_TO_DO: &str = "restore a backup, or take over what can be read with `perdura pool check FILE --repair-into NEW`";

/// Checks the partitions of a database that does not open as a whole, for the reason `error`.
fn check_parts(file: &Path, options: &Options, error: Error) -> Result<(), Failure> {
    let name = file.display();
    let Ok(found) = examine_parts(file, options) else {
        return Err(Failure::about(name, error));
    };
    let mut text = format!("{name}: does not open: {error}\n");
    text += &findings_text(&found.findings);
    text += &format!("tuples      {} can be read\n", grouped(found.report.tuples));
    print(&text)?;
    eprintln!("perdura: {name}: is damaged; {WHAT_TO_DO}");
    Err(Failure::Found)
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

fn repair(file: &Path, into: &Path) -> Result<(), Failure> {
    let done = salvage(file, into).map_err(about(file, true))?;
    let mut text = format!("{}: what can be read of {}\n", into.display(), file.display());
    for table in &done.tables {
        text += &format!(
            "taken over  partition {}, table `{}`: {} tuples",
            table.partition,
            table.table,
            grouped(table.tuples)
        );
        if table.by_secondary > 0 {
            text += &format!(", {} of them found by other indexes", grouped(table.by_secondary));
        }
        text += "\n";
    }
    text += &findings_text(&done.findings);
    text += &format!("tuples      {}\n", grouped(done.tuples()));
    if done.findings.is_empty() {
        text += "nothing is missing\n";
        return print(&text);
    }
    print(&text)?;
    eprintln!("perdura: {}: what is listed above is missing", into.display());
    Err(Failure::Found)
}
