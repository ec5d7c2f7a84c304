//! A new database that has its name only when all of it is there.
//!
//! Invariants:
//! - Under its name the database is whole, durable, closed and compared with what was put into it,
//!   or there is none. Nothing is ever replaced.
//! - A failure leaves nothing behind. A kill or a power cut may leave `<name>.new` and
//!   `<name>.new.files`, which mean nothing; or, between two renames, `<name>.files` without a
//!   database.
//!
//! 1. The database is made as `<name>.new`, filled, and closed, which makes it durable.
//! 2. It is opened again, which reads what is on the medium, checked, compared, and closed.
//! 3. Its directory of files is renamed, if it has one; then the pool; then their directory is
//!    synced. Without the pool the files are nobody's, so the pool comes last.

use std::path::Path;

use engines::below::{Environment, Named, Native, Place, PoolError, Row, Schema};

use crate::database::Database;
use crate::error::Error;
use crate::host::{FILES, place_of};
use crate::options::Options;
use crate::progress::{CopyProgress, CopyStep, WATCH_EVERY, Watch};
use crate::tuple_code::Tally;

/// What each table of each partition is to hold.
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
    let database = Database::create_at(&new, schema, options)?;
    let mut made = Made::of(&database)?;
    let (tallies, result) = fill(&database, watch)?;
    database.close()?;
    let database = Database::open_at(&new, options)?;
    if !made.pool.has_its_name().map_err(io)? {
        return Err(io(std::io::ErrorKind::NotFound.into()));
    }
    compare(&database, &tallies, watch).map_err(|error| match error {
        Error::Differs { what, .. } => Error::Differs { path: path.display().to_string(), what },
        other => other,
    })?;
    database.close()?;
    if let Some(files) = &mut made.files {
        files.rename_new(place.beside(FILES)).map_err(io)?;
    }
    made.pool.rename_new(place.clone()).map_err(io)?;
    place.sync_directory().map_err(io)?;
    let whereabouts = made.pool.whereabouts();
    made.keep();
    PoolError::of_whereabouts(path.into(), whereabouts)?;
    Ok(result)
}

/// What stands behind the name of a database while it is made.
const NEW: &str = ".new";

/// A database can be made at `path`: nothing is in the way.
pub(crate) fn check_free(path: &Path) -> Result<(), Error> {
    check_free_at(&place_of(path)?)
}

fn check_free_at(place: &Place) -> Result<(), Error> {
    free(place, "exists already; choose another path, or remove it")?;
    let made = "is being made, or was left by a kill; if nobody makes it, remove it";
    free(&place.beside(NEW), made)
}

/// Nothing is at a place, and no files that would belong to a database there.
fn free(place: &Place, what: &'static str) -> Result<(), Error> {
    for place in [place, &place.beside(FILES)] {
        let path = place.path().display().to_string();
        match place.is_taken() {
            Ok(false) => {}
            Ok(true) => return Err(Error::InTheWay { path, what }),
            Err(source) => return Err(Error::Io { path, source }),
        }
    }
    Ok(())
}

/// The pool and the files of a database that is not finished: removed when dropped.
struct Made {
    pool: Named,
    files: Option<Named>,
    kept: bool,
}

impl Made {
    fn of(database: &Database<Native>) -> Result<Self, Error> {
        let (pool, files) = database.named()?;
        Ok(Self { pool, files, kept: false })
    }

    fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        // What cannot be removed stays under a name that means nothing; what somebody else has given
        // the name is theirs.
        let _ = self.pool.remove();
        if let Some(files) = &self.files {
            let _ = files.remove_directory();
        }
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
    let (mut done, mut row, mut buffer) = (0, Row::new(), Vec::new());
    for (partition, part) in database.moment()?.into_iter().enumerate() {
        for (table, wanted) in tallies[partition].iter().enumerate() {
            let mut found = Tally::default();
            let layout = &database.catalog.tables[table];
            part.each((table as u16, layout), &mut row, |row| {
                found.add_row(&layout.declared, row, &mut buffer);
                done += 1;
                if done % WATCH_EVERY == 0 {
                    watch(CopyProgress { step: CopyStep::Check, done, total: Some(total) });
                }
                Ok(())
            })?;
            if found != *wanted {
                let name = database.schema().tables()[table].name();
                return differs(format!("table `{name}` in partition {partition}"));
            }
        }
    }
    Ok(())
}
