//! `perdura pool dump`: a database as JSON lines.

use std::io::{self, Write};

use command::failure::{Failure, say};
use perdura::{Database, Error, Table};

use super::copy::{Shown, Source};
use crate::args::DumpArgs;

pub(super) fn run(args: &DumpArgs) -> Result<(), Failure> {
    let source = Source::open(&args.file, args.accept_loss, args.path.as_deref())?;
    let database = &source.database;
    let about = |error: Error| Failure::about(args.file.display(), error);
    let tables: Vec<Table> = args
        .table
        .iter()
        .map(|name| database.table(name))
        .collect::<Result<_, _>>()
        .map_err(about)?;
    let mut shown = Shown::new();
    match &args.out {
        Some(path) if path.as_os_str() != "-" => {
            database
                .dump(path, &tables, &mut |at| shown.see(at))
                .map_err(|error| Failure::about(path.display(), error))?;
        }
        _ => to_standard_output(database, &tables, &mut shown)?,
    }
    drop(shown);
    if let Some(pause) = source.close().map_err(about)? {
        // Standard output may be the dump.
        say(pause.text().trim_end());
    }
    Ok(())
}

fn to_standard_output(
    database: &Database,
    tables: &[Table],
    shown: &mut Shown,
) -> Result<(), Failure> {
    // A lock of its own has a buffer that ends each line with a call.
    let mut out = io::BufWriter::with_capacity(64 << 10, io::stdout().lock());
    let done = database.dump_to(&mut out, "standard output", tables, &mut |at| shown.see(at));
    match done {
        Ok(_) => out.flush().map_err(|error| Failure::about("standard output", error)),
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::BrokenPipe => {
            // What is left in the buffer has no reader.
            let _unwritten = out.into_parts();
            Err(Failure::PipeClosed)
        }
        Err(error) => Err(error.into()),
    }
}
