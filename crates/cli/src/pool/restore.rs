//! `perdura pool restore`: a database of a backup.

use command::failure::Failure;
use command::output::check_target;
use perdura::{Backup, Error, inspect};

use super::copy::{Shown, report_copy};
use super::{about_new, options};
use crate::args::RestoreArgs;

pub(super) fn run(args: &RestoreArgs) -> Result<(), Failure> {
    check_target(args.json.as_ref(), &[&args.backup, &args.file])?;
    let about_backup = |error: Error| Failure::about(args.backup.display(), error);
    let backup = Backup::open(&args.backup).map_err(about_backup)?;
    let mut shown = Shown::new();
    let (options, until) = (options(&args.new), args.until.unwrap_or_default());
    let mut see = |at| shown.see(at);
    let restored = match &args.archive {
        None => backup.restore(&args.file, &options, &mut see),
        Some(archive) => backup.restore_until(&args.file, archive, until, &options, &mut see),
    };
    let summary = restored.map_err(|error| match error {
        Error::Backup(_) => about_backup(error),
        error => about_new(&args.file, &error),
    })?;
    drop(shown);
    let made = inspect(&args.file).map_err(|error| Failure::about(args.file.display(), error))?;
    let (from, to) = (args.backup.display().to_string(), args.file.display().to_string());
    let done = format!(
        "{to}: restored from {from}, engine {}, domain {}",
        made.engine,
        made.pool.domain_text()
    );
    report_copy(&done, (&from, &to), &summary, None, args.json.as_ref())
}
