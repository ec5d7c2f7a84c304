//! `perdura pool backup`: a backup of a database, whether another process has it open or not.

use super::copy::{Shown, Source, report_copy};
use crate::args::BackupArgs;
use crate::failure::Failure;
use crate::output::check_target;

pub(super) fn run(args: &BackupArgs) -> Result<(), Failure> {
    check_target(args.json.as_ref(), &[&args.file, &args.to])?;
    let source = Source::open(&args.file, args.accept_loss, args.path.as_deref())?;
    let mut shown = Shown::new();
    let summary = source
        .database
        .backup_watched(&args.to, &mut |at| shown.see(at))
        .map_err(|error| Failure::about(args.to.display(), error))?;
    drop(shown);
    let stood = source.close().map_err(|error| Failure::about(args.file.display(), error))?;
    let (from, to) = (args.file.display().to_string(), args.to.display().to_string());
    let done = format!("{to}: backup of {from}");
    report_copy(&done, (&from, &to), &summary, stood, args.json.as_ref())
}
