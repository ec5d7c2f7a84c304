//! `perdura pool backup`: a backup of a database that nobody else has open.

use super::copy::{Shown, open_to_copy, report_copy};
use crate::args::BackupArgs;
use crate::failure::Failure;
use crate::output::check_target;

pub(super) fn run(args: &BackupArgs) -> Result<(), Failure> {
    check_target(args.json.as_ref())?;
    let database = open_to_copy(&args.file, args.accept_loss, "Database::backup")?;
    let mut shown = Shown::new();
    let summary = database
        .backup_watched(&args.to, &mut |at| shown.see(at))
        .map_err(|error| Failure::about(args.to.display(), error))?;
    drop(shown);
    database.close().map_err(|error| Failure::about(args.file.display(), error))?;
    let (from, to) = (args.file.display().to_string(), args.to.display().to_string());
    report_copy(&format!("{to}: backup of {from}"), (&from, &to), &summary, args.json.as_ref())
}
