//! `perdura pool archive`: what the archive of a database's log lacks is copied there.

use std::path::Path;

use perdura::{Database, Error, Options, PoolError};

use super::not_open;
use crate::args::ArchiveArgs;
use crate::failure::Failure;
use crate::output::print;
use crate::progress::timed;

/// Opens a database with the archive of its log.
///
/// # Errors
/// It cannot be opened, or the archive is not its own; the text says what to do.
pub(super) fn open(file: &Path, archive: &Path, accept_loss: bool) -> Result<Database, Failure> {
    let options = Options::new().accept_loss(accept_loss).archive(archive);
    let opened = timed("opening", || Database::open(file, &options));
    opened.map_err(|error| match error {
        Error::Pool(PoolError::InUse { .. }) => {
            let what = format!("{error}; that process archives its log by itself, and takes base backups with `Database::base_backup`");
            Failure::about(file.display(), what)
        }
        error => not_open(file, &error),
    })
}

pub(super) fn run(args: &ArchiveArgs) -> Result<(), Failure> {
    let database = open(&args.file, &args.archive, args.accept_loss)?;
    let about = |error| Failure::about(args.file.display(), error);
    timed("archiving", || database.checkpoint()).map_err(about)?;
    database.close().map_err(about)?;
    let (file, archive) = (args.file.display(), args.archive.display());
    print(&format!("{archive}: has the log of {file} up to its end\n"))
}
