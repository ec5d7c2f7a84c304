//! A new database that has its name only when all of it is there.
//!
//! Invariants:
//! - Under its name the database is whole, durable, closed and compared with what was put into it,
//!   or there is none. Nothing is ever replaced.
//! - A failure leaves nothing behind, nor does a signal whose handler calls
//!   [`remove_unfinished`](crate::remove_unfinished). A kill or a power cut may leave `<name>.new` and
//!   `<name>.new.files`, which mean nothing, and which the next attempt removes; or, between two
//!   renames, `<name>.files` without a database.
//!
//! 1. The database is made as `<name>.new`, filled, and closed, which makes it durable.
//! 2. It is opened again, which reads what is on the medium, checked, compared, and closed.
//! 3. Its directory of files is renamed, if it has one; then the pool; then their directory is
//!    synced. Without the pool the files are nobody's, so the pool comes last.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use engines::below::{
    Environment, FOREIGN, Left, Native, Place, Pool, PoolError, Row, Schema, Unfinished,
};

use crate::administration::progress::{CopyProgress, CopyStep, WATCH_EVERY, Watch};
use crate::administration::tuple_code::Tally;
use crate::database::Database;
use crate::error::Error;
use crate::host::{FILES, place_of};
use crate::options::Options;

/// The tuples that each table of each partition is to hold.
pub(crate) type Tallies = Vec<Vec<Tally>>;

/// No tuples in any table of any partition.
pub(crate) fn no_tuples(partitions: usize, schema: &Schema) -> Tallies {
    vec![vec![Tally::default(); schema.tables().len()]; partitions]
}

/// Makes a database at `path`. `fill` puts everything into it, and says what it must hold then.
pub(crate) fn create_whole<R>(
    path: &Path,
    schema: &Schema,
    options: &Options,
    watch: Watch<'_>,
    fill: impl FnOnce(&Database<Native>, Watch<'_>) -> Result<(Tallies, R), Error>,
) -> Result<R, Error> {
    let io = |source| Error::Io { path: path.display().to_string(), source };
    let place = place_of(path)?;
    let new = place.beside(NEW);
    check_free_at(&place)?;
    let mut made_as = options.clone();
    made_as.pool.unfinished = true;
    let named = |error| named(error, &new, path);
    let make = || {
        let database = Database::create_at(&new, schema, &made_as)?;
        let (pool, files) = database.named()?;
        Ok((database, [Some(pool), files]))
    };
    let (made, database) = Unfinished::begin(make).map_err(named)?;
    let (tallies, result) = fill(&database, watch).map_err(named)?;
    database.close().map_err(named)?;
    let database = Database::open_at(&new, options).map_err(named)?;
    compare(&database, &tallies, watch).map_err(|error| match error {
        Error::Differs { what, .. } => Error::Differs { path: path.display().to_string(), what },
        other => named(other),
    })?;
    database.close().map_err(named)?;
    let whereabouts = made
        .finish(|pool, files| {
            let pool = pool.expect("it was made with one");
            if let Some(files) = files {
                files.rename_new(place.beside(FILES))?;
            }
            pool.rename_new(place.clone())?;
            place.sync_directory()?;
            Ok(pool.whereabouts())
        })
        .map_err(io)?;
    Pool::remove_mark(&place);
    PoolError::of_whereabouts(path.into(), whereabouts)?;
    Ok(result)
}

/// An error about the database while it is made, as one about the path that it is to have: only that
/// one the user has heard of.
fn named(mut error: Error, new: &Place, path: &Path) -> Error {
    let of = |found: &Path| {
        let rest = found.as_os_str().as_bytes().strip_prefix(new.path().as_os_str().as_bytes())?;
        let mut own = path.as_os_str().to_owned();
        own.push(OsStr::from_bytes(rest));
        Some(PathBuf::from(own))
    };
    match &mut error {
        Error::Pool(error) => {
            let found = error.path_mut();
            *found = of(found).unwrap_or_else(|| std::mem::take(found));
        }
        Error::Io { path: found, .. } => {
            if let Some(own) = of(Path::new(found)) {
                *found = own.display().to_string();
            }
        }
        _ => {}
    }
    error
}

/// The suffix of a database's name while it is made.
const NEW: &str = ".new";

/// A database can be made at `path`: nothing is in the way.
pub(crate) fn check_free(path: &Path) -> Result<(), Error> {
    check_free_at(&place_of(path)?)
}

fn check_free_at(place: &Place) -> Result<(), Error> {
    free(place, "exists already; choose another path, or remove it")?;
    let (new, files) = (place.beside(NEW), place.beside(NEW).beside(FILES));
    let path = new.path().display().to_string();
    Pool::sweep(&new, &files).map_err(|left| match left {
        Left::InUse(who) => {
            Error::InTheWay { path, what: format!("is being made {who}; wait for that") }
        }
        Left::Foreign => Error::InTheWay { path, what: FOREIGN.into() },
        Left::Io(source) => Error::Io { path, source },
    })?;
    free(&new, FOREIGN)
}

/// Nothing is at a place, and no files that would belong to a database there.
fn free(place: &Place, what: &str) -> Result<(), Error> {
    for place in [place, &place.beside(FILES)] {
        let path = place.path().display().to_string();
        match place.is_taken() {
            Ok(false) => {}
            Ok(true) => return Err(Error::InTheWay { path, what: what.into() }),
            Err(source) => return Err(Error::Io { path, source }),
        }
    }
    Ok(())
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
