//! `perdura pool backup`: a backup of a database, whether another process has it open or not.

use std::path::Path;

use command::failure::Failure;
use command::output::check_target;

use super::archive;
use super::copy::{Shown, Source, report_base, report_copy};
use crate::args::BackupArgs;

pub(super) fn run(args: &BackupArgs) -> Result<(), Failure> {
    check_target(args.json.as_ref(), &[&args.file, &args.to])?;
    if let Some(archive) = &args.archive {
        return base(args, archive);
    }
    let source = Source::open(&args.file, args.accept_loss, args.path.as_deref())?;
    let mut shown = Shown::new();
    let summary = source
        .database
        .backup_watched(&args.to, &mut |at| shown.see(at))
        .map_err(|error| Failure::about(args.to.display(), error))?;
    drop(shown);
    let pause = source.close().map_err(|error| Failure::about(args.file.display(), error))?;
    let (from, to) = (args.file.display().to_string(), args.to.display().to_string());
    let done = format!("{to}: backup of {from}");
    report_copy(&done, (&from, &to), &summary, pause, args.json.as_ref())
}

/// Makes a base backup of a database that is not open in any process.
fn base(args: &BackupArgs, directory: &Path) -> Result<(), Failure> {
    let database = archive::open(&args.file, directory, args.accept_loss)?;
    let mut shown = Shown::of_pages();
    let summary = database
        .base_backup_watched(&args.to, &mut |at| shown.see(at))
        .map_err(|error| Failure::about(args.to.display(), error))?;
    drop(shown);
    database.close().map_err(|error| Failure::about(args.file.display(), error))?;
    let (from, to) = (args.file.display().to_string(), args.to.display().to_string());
    report_base(&format!("{to}: base backup of {from}"), (&from, &to), &summary, args.json.as_ref())
}
