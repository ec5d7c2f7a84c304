//! `perdura pool load`: JSON lines into a database, which is created if it is not there.

use std::fs::File;
use std::io::{self, BufRead, BufReader};

use command::failure::Failure;
use command::output::check_target;
use perdura::{CopySummary, Database, Error, LinesError, LoadOptions};
use pm::Escaped;

use super::copy::{Shown, report_copy};
use super::create::read_schema;
use super::{about_new, open, options};
use crate::args::LoadArgs;

pub(super) fn run(args: &LoadArgs) -> Result<(), Failure> {
    let there = args.file.symlink_metadata().is_ok();
    if there {
        refuse_options_of_new(args)?;
    }
    if !there && args.accept_loss {
        return Err(Failure::Usage("--accept-loss is for a database that exists".into()));
    }
    let mut others = vec![args.file.as_path(), &args.input];
    others.extend(args.schema.as_deref());
    check_target(args.json.as_ref(), &others)?;
    let standard_input = args.input.as_os_str() == "-";
    let name =
        if standard_input { "standard input".into() } else { args.input.display().to_string() };
    let mut load = LoadOptions::new(&name).batch(args.batch).existing(args.existing.into());
    let summary = if standard_input {
        into(args, there, &mut io::stdin().lock(), &load)?
    } else {
        let about = |error: io::Error| Failure::about(&name, error);
        let file = File::open(&args.input).map_err(about)?;
        let meta = file.metadata().map_err(about)?;
        if meta.is_dir() {
            return Err(about(io::ErrorKind::IsADirectory.into()));
        }
        if meta.is_file() {
            load = load.total_bytes(meta.len());
        }
        into(args, there, &mut BufReader::with_capacity(256 << 10, file), &load)?
    };
    let to = args.file.display().to_string();
    let made = if there { "" } else { "created and " };
    let done = format!("{to}: {made}loaded from {name}");
    report_copy(&done, (&name, &to), &summary, None, args.json.as_ref())
}

/// Refuses options that only a new database takes.
fn refuse_options_of_new(args: &LoadArgs) -> Result<(), Failure> {
    let schema = args.schema.is_some().then_some("--schema");
    let named: Vec<&str> = schema.into_iter().chain(args.new.named()).collect();
    let (is, it) = match named.len() {
        0 => return Ok(()),
        1 => ("is", "it"),
        _ => ("are", "them"),
    };
    Err(Failure::Usage(format!(
        "{} exists, and {} {is} for a new database; leave {it} out, or name a file that does not exist",
        Escaped(args.file.display()),
        named.join(", ")
    )))
}

/// Returns what else can be done with a tuple that is there already.
fn existing_hint(error: &LinesError) -> &'static str {
    match error {
        LinesError::Refused { source, .. } if matches!(**source, Error::DuplicateKey { .. }) => {
            " (--existing skip passes over such lines, --existing replace takes them)"
        }
        _ => "",
    }
}

/// Loads the lines into the database that is there, or into a new one.
fn into(
    args: &LoadArgs,
    there: bool,
    input: &mut dyn BufRead,
    load: &LoadOptions,
) -> Result<CopySummary, Failure> {
    let mut shown = Shown::new();
    let mut see = |at| shown.see(at);
    let failed = |error: Error| match error {
        // These name the input.
        Error::Lines(error) => Failure::Failed(format!("{error}{}", existing_hint(&error))),
        error => about_new(&args.file, &error),
    };
    if there {
        let database = open(&args.file, args.accept_loss)?;
        let summary = database.load(input, load, &mut see).map_err(failed)?;
        database.close().map_err(failed)?;
        return Ok(summary);
    }
    let schema = args.schema.as_deref().map(read_schema).transpose()?;
    let options = options(&args.new);
    Database::create_from_lines(&args.file, schema.as_ref(), &options, input, load, &mut see)
        .map_err(failed)
}
