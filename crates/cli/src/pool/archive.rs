//! `perdura pool archive`: what the archive of a database's log lacks is copied there.

use std::path::Path;

use command::failure::Failure;
use command::output::print;
use command::progress::timed;
use perdura::{Database, Error, Options, PoolError};
use pm::Escaped;

use super::not_open;
use crate::args::ArchiveArgs;

/// Opens a database with the archive of its log.
///
/// # Errors
/// It cannot be opened, or the archive is not its own; the text says what to do.
pub(super) fn open(file: &Path, archive: &Path, accept_loss: bool) -> Result<Database, Failure> {
    open_as(file, &Options::new().accept_loss(accept_loss).archive(archive))
}

fn open_as(file: &Path, options: &Options) -> Result<Database, Failure> {
    let opened = timed("opening", || Database::open(file, options));
    opened.map_err(|error| match error {
        Error::Pool(PoolError::InUse { .. }) => {
            let what = format!("{error}; that process archives its log by itself, takes base backups with `Database::base_backup`, and ends its archive with `Database::end_archive`");
            Failure::about(file.display(), what)
        }
        error => not_open(file, &error),
    })
}

pub(super) fn run(args: &ArchiveArgs) -> Result<(), Failure> {
    let about = |error| Failure::about(args.file.display(), error);
    let file = Escaped(args.file.display());
    let Some(archive) = &args.archive else {
        let database = open_as(&args.file, &Options::new().accept_loss(args.accept_loss))?;
        database.end_archive().map_err(about)?;
        database.close().map_err(about)?;
        return print(&format!("{file}: has no archive of its log from now on\n"));
    };
    let database = open(&args.file, archive, args.accept_loss)?;
    timed("archiving", || database.checkpoint()).map_err(about)?;
    database.close().map_err(about)?;
    let archive = Escaped(archive.display());
    print(&format!("{archive}: has the log of {file} up to its end\n"))
}
