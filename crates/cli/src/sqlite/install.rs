//! `perdura sqlite install`: where the extension is, and how it is loaded.
//!
//! The command does not carry the extension: both come out of one build, `cargo build --release`, and lie side
//! by side, so it is looked for there. So does the library to preload, which has the extension in it.

use pm::Escaped;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use command::failure::Failure;
use command::output::{check_target, report, write_whole};
use serde::Serialize;

use super::recipes::{DATABASE, Language};
use crate::args::InstallArgs;

/// The name of the extension's file.
const LIBRARY: &str = "libperdura_sqlite.so";
/// The name of the library to preload, which is in the same directory.
const PRELOAD: &str = "libperdura_preload.so";
/// Where it is looked for from the command's directory: where a build puts it, where a package does, and where
/// a build of the tests does.
const PLACES: [&str; 3] = ["", "../lib", "deps"];
/// Names that are in the extension and in no other library.
const ENTRIES: [&[u8]; 2] = [b"sqlite3_perdurasqlite_init", b"perdura_register"];

/// The JSON of `sqlite install`.
#[derive(Debug, Serialize)]
struct Installed {
    perdura: &'static str,
    /// The extension's path.
    library: String,
    /// The path of the library to preload, if it is there.
    preload: Option<String>,
    recipes: Vec<Recipe>,
}

/// A recipe.
#[derive(Debug, Serialize)]
struct Recipe {
    language: Language,
    text: String,
}

/// Finds the extension, copies it if it is to be elsewhere, and says how to load it.
///
/// # Errors
/// It is nowhere, or cannot be copied.
pub(super) fn run(args: &InstallArgs) -> Result<(), Failure> {
    let found = match &args.library {
        Some(named) => checked(named)?,
        None => find()?,
    };
    check_target(args.json.as_ref(), &[&found])?;
    let beside = found.with_file_name(PRELOAD);
    let has_preload = beside.exists();
    if has_preload {
        checked(&beside)?;
    } else if args.languages.contains(&Language::Preload) {
        return Err(Failure::about(
            beside.display(),
            "it is not there; build it with `cargo build --release -p perdura-preload`",
        ));
    }
    let library = match &args.to {
        Some(directory) => copy(&found, directory)?,
        None => found,
    };
    let preload = match &args.to {
        Some(directory) if has_preload => copy(&beside, directory)?,
        _ => beside,
    };
    let there = |language: &Language| has_preload || *language != Language::Preload;
    let languages: Vec<Language> = match &args.languages[..] {
        [] => Language::ALL.into_iter().filter(there).collect(),
        named => named.to_vec(),
    };
    let recipe = |language: &Language| Recipe {
        language: *language,
        text: language.recipe(&library, &preload),
    };
    let installed = Installed {
        perdura: env!("CARGO_PKG_VERSION"),
        library: library.display().to_string(),
        preload: has_preload.then(|| preload.display().to_string()),
        recipes: languages.iter().map(recipe).collect(),
    };
    report(&installed.people(), &installed, args.json.as_ref())
}

impl Installed {
    fn people(&self) -> String {
        let mut text = format!(
            "{}\n\nLoad it once in each process, before a database is opened with it; it stays until the process ends. The database in the examples is {DATABASE}.\n",
            Escaped(&self.library)
        );
        for Recipe { language, text: recipe } in &self.recipes {
            text += &format!("\n{}:\n\n", language.title());
            for line in recipe.lines() {
                text += format!("    {line}").trim_end();
                text.push('\n');
            }
        }
        text
    }
}

/// Looks for the extension where it should be.
fn find() -> Result<PathBuf, Failure> {
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

/// Returns the path of an extension, without links, if it is one.
fn checked(path: &Path) -> Result<PathBuf, Failure> {
    let failed = |error: io::Error| Failure::about(path.display(), error);
    let found = fs::canonicalize(path).map_err(failed)?;
    let bytes = fs::read(&found).map_err(failed)?;
    let has = |name: &[u8]| bytes.windows(name.len()).any(|part| part == name);
    if bytes.starts_with(b"\x7fELF") && ENTRIES.iter().all(|name| has(name)) {
        return Ok(found);
    }
    Err(Failure::about(path.display(), "this is not Perdura's extension"))
}

/// Copies the extension, or the library to preload, into a directory: whole, or not at all, so that a process that has it loaded keeps what
/// it has.
fn copy(library: &Path, directory: &Path) -> Result<PathBuf, Failure> {
    let failed = |error: io::Error| Failure::about(directory.display(), error);
    let directory = fs::canonicalize(directory).map_err(failed)?;
    let to = directory.join(library.file_name().unwrap_or(LIBRARY.as_ref()));
    if to == library {
        return Ok(to);
    }
    let bytes = fs::read(library).map_err(|error| Failure::about(library.display(), error))?;
    write_whole(&to, &bytes).map_err(|error| Failure::about(to.display(), error))?;
    Ok(to)
}
