//! `perdura pool create`: an empty database.

use std::path::Path;

use command::failure::Failure;
use command::output::{check_target, report};
use perdura::{Database, Schema};
use pm::Escaped;
use serde::Serialize;

use super::{about_new, options};
use crate::args::CreateArgs;

/// The JSON of `pool create`.
#[derive(Debug, Serialize)]
struct Created {
    perdura: &'static str,
    file: String,
    engine: &'static str,
    domain: &'static str,
    modelled: bool,
    partitions: usize,
}

pub(super) fn run(args: &CreateArgs) -> Result<(), Failure> {
    check_target(args.json.as_ref(), &[&args.file, &args.schema])?;
    let schema = read_schema(&args.schema)?;
    let options = options(&args.new);
    let database = Database::create(&args.file, &schema, &options)
        .map_err(|error| about_new(&args.file, &error))?;
    let made = format!(
        "{}: created, engine {}, domain {}\n",
        Escaped(args.file.display()),
        database.engine(),
        database.pool_info().domain_text(),
    );
    let header = &database.pool_info().header;
    let created = Created {
        perdura: env!("CARGO_PKG_VERSION"),
        file: args.file.display().to_string(),
        engine: database.engine().name(),
        domain: header.domain.name(),
        modelled: header.modelled,
        partitions: database.partition_count(),
    };
    database.close().map_err(|error| Failure::about(args.file.display(), error))?;
    report(&made, &created, args.json.as_ref())
}

/// The schema in a file of JSON.
///
/// # Errors
/// There is none, or it is no schema.
pub(super) fn read_schema(path: &Path) -> Result<Schema, Failure> {
    let about = |error: String| Failure::about(path.display(), error);
    let text = std::fs::read(path).map_err(|error| about(error.to_string()))?;
    Schema::from_json(&text)
        .map_err(|error| about(format!("{error}; `perdura pool create --help` shows a schema")))
}
