//! `perdura sqlite install`: where the extension is, and how it is loaded.
//!
//! The library to preload, which has the extension in it, is in the extension's directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use command::failure::Failure;
use command::output::{check_target, report, write_whole};
use pm::Escaped;
use serde::Serialize;

use super::library::{LIBRARY, checked, find};
use super::recipes::DATABASE;
use crate::args::{InstallArgs, Language};

/// The name of the library to preload, which is in the same directory.
const PRELOAD: &str = "libperdura_preload.so";
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
    let found = find(args.library.as_deref())?;
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
    report(&installed.human_text(), &installed, args.json.as_ref())
}

impl Installed {
    fn human_text(&self) -> String {
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

/// Copies the extension, or the library to preload, into a directory: whole, or not at all. A
/// process that has it loaded keeps the file that it has.
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
