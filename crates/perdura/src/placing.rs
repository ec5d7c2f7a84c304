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

use std::path::{Path, PathBuf};

use engines::below::{Environment, Files, HostFiles, Native, Pool, Row, Schema};

use crate::database::{Database, files_directory};
use crate::error::Error;
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
    let (directory, name) = HostFiles::around(path).map_err(io)?;
    let new = new_path(path, &name);
    check_free(path)?;
    let database = Database::create(&new, schema, options)?;
    let mut made = Made(vec![new.clone(), files_directory(&new)]);
    let (tallies, result) = fill(&database, watch)?;
    database.close()?;
    let database = Database::open(&new, options)?;
    compare(&database, &tallies, watch).map_err(|error| match error {
        Error::Differs { what, .. } => Error::Differs { path: path.display().to_string(), what },
        other => other,
    })?;
    database.close()?;
    let (name, new) = ([name.clone(), format!("{name}.files")], format!("{name}.new"));
    if Pool::exists(&made.0[1]) {
        directory.rename_new(&format!("{new}.files"), &name[1]).map_err(io)?;
        made.0[1] = files_directory(path);
    }
    directory.rename_new(&new, &name[0]).map_err(io)?;
    made.0[0] = path.into();
    directory.sync_directory().map_err(io)?;
    made.0.clear();
    Ok(result)
}

/// What the database is called while it is made.
fn new_path(path: &Path, name: &str) -> PathBuf {
    path.with_file_name(format!("{name}.new"))
}

/// A database can be made at `path`: nothing is in the way.
pub(crate) fn check_free(path: &Path) -> Result<(), Error> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    free(path, "exists already; choose another path, or remove it")?;
    let made = "is being made, or was left by a kill; if nobody makes it, remove it";
    free(&new_path(path, name), made)
}

/// Nothing is at `path`, and no files that would belong to a database there.
fn free(path: &Path, what: &'static str) -> Result<(), Error> {
    for place in [path, &files_directory(path)] {
        if Pool::exists(place) {
            return Err(Error::InTheWay { path: place.display().to_string(), what });
        }
    }
    Ok(())
}

/// The pool and the files of a database that is not finished: removed when dropped.
struct Made(Vec<PathBuf>);

impl Drop for Made {
    fn drop(&mut self) {
        if let [pool, files] = &self.0[..] {
            // What cannot be removed stays under a name that means nothing.
            let _ = Pool::remove(pool);
            let _ = HostFiles::remove(files);
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
            part.each(table as u16, &mut row, |row| {
                found.add_row(row, &mut buffer);
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
