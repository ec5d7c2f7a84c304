//! The search for the extension's file.
//!
//! The command does not carry the extension: both come out of one build, `cargo build --release`, and lie side
//! by side, so it is looked for there.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use command::failure::Failure;

/// The name of the extension's file.
pub(super) const LIBRARY: &str = "libperdura_sqlite.so";
/// Places of the extension, from the command's directory: where a build puts it, where a package does, and where
/// a build of the tests does.
const PLACES: [&str; 3] = ["", "../lib", "deps"];
/// Names that are in the extension and in no other library.
const ENTRIES: [&[u8]; 2] = [b"sqlite3_perdurasqlite_init", b"perdura_register"];

/// Returns the path of the extension, which is `named` or where a build puts it.
///
/// # Errors
/// It is not there, or is another file.
pub(super) fn find(named: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(named) = named {
        return checked(named);
    }
    let command = std::env::current_exe().and_then(fs::canonicalize);
    let command = command.map_err(|error| Failure::about("the command's own file", error))?;
    let directory = command.parent().unwrap_or(Path::new("/"));
    let places = PLACES.map(|place| directory.join(place).join(LIBRARY));
    // A build of the command alone renews the one in `deps`.
    let age = |place: &&PathBuf| fs::metadata(place).and_then(|meta| meta.modified()).ok();
    match places.iter().filter(|place| place.exists()).max_by_key(age) {
        Some(place) => checked(place),
        None => Err(Failure::about(
            directory.display(),
            format!(
                "no {LIBRARY} here or in ../lib; build it with `cargo build --release -p perdura-sqlite`, or name it with --library"
            ),
        )),
    }
}

/// Returns the path of an extension, without links.
///
/// # Errors
/// It cannot be read, or is another file.
pub(super) fn checked(path: &Path) -> Result<PathBuf, Failure> {
    let failed = |error: io::Error| Failure::about(path.display(), error);
    let found = fs::canonicalize(path).map_err(failed)?;
    let bytes = fs::read(&found).map_err(failed)?;
    let has = |name: &[u8]| bytes.windows(name.len()).any(|part| part == name);
    if bytes.starts_with(b"\x7fELF") && ENTRIES.iter().all(|name| has(name)) {
        return Ok(found);
    }
    Err(Failure::about(path.display(), "this is not Perdura's extension"))
}
