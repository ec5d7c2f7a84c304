//! A new database that has its name only when all of it is there.
//!
//! Invariants:
//! - Under its name the database is whole, durable, closed and compared with what was put into it,
//!   or there is none. Nothing is ever replaced.
//! - From its beginning until it has its name the pool is locked, also between the two openings: no other
//!   process takes it for one that was cut off.
//! - A failure leaves no files, nor does a signal whose handler calls
//!   [`remove_unfinished`](crate::remove_unfinished). A kill or a power cut may leave
//!   `<name>.perdura-new` and, of its files, `<name>.files`. They mean nothing, and the next
//!   attempt removes them: see [`NewPool`].
//!
//! 1. The database is made as `<name>.perdura-new`, filled, and closed, which makes it durable.
//! 2. It is opened again, which reads what is on the medium, checked, compared, and closed.
//! 3. Its pool is renamed, and their directory is synced.

use std::path::Path;

use engines::below::{Environment, Left, Native, NewPool, Place, Row, Schema};

use crate::administration::progress::{CopyProgress, CopyStep, WATCH_EVERY, Watch};
use crate::administration::tuple_code::Tally;
use crate::database::Database;
use crate::error::Error;
use crate::host::{FILES, belonging, place_of};
use crate::options::Options;

/// The tuples that each table of each partition is to hold.
pub(crate) type Tallies = Vec<Vec<Tally>>;

/// No tuples in any table of any partition.
pub(crate) fn no_tuples(partitions: usize, schema: &Schema) -> Tallies {
    vec![vec![Tally::default(); schema.tables().len()]; partitions]
}

/// Makes a database at `path`. `fill` puts everything into it, and returns what it must hold then;
/// it is also given the pool that is being made, and its handle.
pub(crate) fn create_whole<R>(
    path: &Path,
    schema: &Schema,
    options: &Options,
    watch: Watch<'_>,
    fill: impl FnOnce(&Database<Native>, &NewPool, Watch<'_>) -> Result<(Tallies, R), Error>,
) -> Result<R, Error> {
    let place = place_of(path)?;
    check_free_at(&place)?;
    let (mut new, database) = Database::begin_at(&place, schema, options)?;
    let (tallies, result) = fill(&database, &new, watch)?;
    database.close()?;
    let database = Database::open_new(&mut new, options)?;
    compare(&database, &tallies, watch).map_err(|error| match error {
        Error::Differs { what, .. } => Error::Differs { path: path.display().to_string(), what },
        other => other,
    })?;
    database.close()?;
    new.finish(None)?;
    Ok(result)
}

/// A database can be made at `path`: nothing is in the way.
pub(crate) fn check_free(path: &Path) -> Result<(), Error> {
    check_free_at(&place_of(path)?)
}

fn check_free_at(place: &Place) -> Result<(), Error> {
    unless_taken(place, place.is_taken().map(|taken| !taken))?;
    NewPool::sweep(place, &belonging(place)).map_err(|(at, left)| {
        let path = at.path().display().to_string();
        match left {
            Left::InUse(who) => {
                Error::InTheWay { path, what: format!("is being made {who}; wait for that") }
            }
            Left::Foreign => Error::InTheWay { path, what: Left::FOREIGN.into() },
            Left::Io(source) => Error::Io { path, source },
        }
    })?;
    check_free_for_files(&place.with_suffix(FILES))
}

/// A directory with files can be made at a place.
pub(crate) fn check_free_for_files(place: &Place) -> Result<(), Error> {
    unless_taken(place, place.is_free_for_files())
}

fn unless_taken(place: &Place, is_free: std::io::Result<bool>) -> Result<(), Error> {
    let path = place.path().display().to_string();
    let what = "exists already; choose another path, or remove it".into();
    match is_free {
        Ok(true) => Ok(()),
        Ok(false) => Err(Error::InTheWay { path, what }),
        Err(source) => Err(Error::Io { path, source }),
    }
}

/// Checks the database and that it holds what it is to hold.
fn compare<E: Environment>(
    database: &Database<E>,
    tallies: &Tallies,
    watch: Watch<'_>,
) -> Result<(), Error> {
    let differs = |what: String| Err(Error::Differs { path: String::new(), what });
    let report = database.check()?;
    let total: u64 = tallies.iter().flatten().map(|tally| tally.tuples).sum();
    if (report.leaked, report.dangling, report.tuples) != (0, 0, total) {
        return differs(format!("{report:?}, of {total} tuples"));
    }
    let found = tally(database, Some(total), watch)?;
    for (partition, (found, wanted)) in found.iter().zip(tallies).enumerate() {
        if let Some(table) = (0..wanted.len()).find(|table| found[*table] != wanted[*table]) {
            let name = database.schema().tables()[table].name();
            return differs(format!("table `{name}` in partition {partition}"));
        }
    }
    Ok(())
}

/// Reads every tuple of a database.
pub(crate) fn tally<E: Environment>(
    database: &Database<E>,
    total: Option<u64>,
    watch: Watch<'_>,
) -> Result<Tallies, Error> {
    let (mut done, mut row, mut buffer) = (0, Row::new(), Vec::new());
    let mut tallies = no_tuples(database.partitions.len(), database.schema());
    for (partition, part) in database.point_in_time()?.into_iter().enumerate() {
        for (table, found) in tallies[partition].iter_mut().enumerate() {
            let layout = &database.catalog.tables[table];
            part.each((table as u16, layout), &mut row, |row| {
                found.add_row(&layout.declared, row, &mut buffer);
                done += 1;
                if done % WATCH_EVERY == 0 {
                    watch(CopyProgress { step: CopyStep::Check, done, total });
                }
                Ok(())
            })?;
        }
    }
    Ok(tallies)
}
