//! `perdura pool create`: an empty database.

use std::path::Path;

use perdura::{Database, Schema};

use super::{about_new, options};
use crate::args::CreateArgs;
use crate::failure::Failure;
use crate::output::print;

pub(super) fn run(args: &CreateArgs) -> Result<(), Failure> {
    let schema = read_schema(&args.schema)?;
    let options = options(&args.new);
    let database = Database::create(&args.file, &schema, &options)
        .map_err(|error| about_new(&args.file, &error))?;
    let made = format!(
        "{}: created, engine {}, domain {}\n",
        args.file.display(),
        database.engine(),
        database.pool_info().domain_text(),
    );
    database.close().map_err(|error| Failure::about(args.file.display(), error))?;
    print(&made)
}

/// The schema in a file of JSON.
///
/// # Errors
/// There is none, or it is no schema.
pub(super) fn read_schema(path: &Path) -> Result<Schema, Failure> {
    let about = |error: String| Failure::about(path.display(), error);
    let text = std::fs::read_to_string(path).map_err(|error| about(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| {
        about(format!("is no schema: {error}; `perdura pool create --help` shows a schema"))
    })
}
