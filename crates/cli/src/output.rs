//! Standard output: plain tables for people, JSON for programs.
//!
//! Invariants:
//! - Results go to standard output, everything else to standard error.
//! - A reader that has gone ends the command quietly.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::failure::Failure;

/// Where JSON goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum JsonTarget {
    /// `-`: standard output, in place of the table.
    Stdout,
    /// A file, beside the table.
    File(PathBuf),
}

impl JsonTarget {
    /// Reads the value of `--json`.
    ///
    /// # Errors
    /// An empty value.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match text {
            "" => Err("name a file, or `-` for standard output".into()),
            "-" => Ok(Self::Stdout),
            path => Ok(Self::File(path.into())),
        }
    }
}

/// Prints text.
///
/// # Errors
/// Standard output takes no more.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::PipeClosed,
        _ => Failure::about("standard output", error),
    })
}

/// Prints the text for people and hands the value to programs, as `--json` says.
///
/// # Errors
/// The output takes no more, or the file cannot be written.
pub(crate) fn report(
    text: &str,
    value: &impl Serialize,
    json: Option<&JsonTarget>,
) -> Result<(), Failure> {
    let Some(target) = json else { return print(text) };
    let mut encoded = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::about("the JSON report", error))?;
    encoded.push('\n');
    match target {
        JsonTarget::Stdout => print(&encoded),
        JsonTarget::File(path) => {
            std::fs::write(path, encoded).map_err(|error| Failure::about(path.display(), error))?;
            print(text)
        }
    }
}

/// Refuses a JSON file that cannot be written before the work is done rather than after.
///
/// # Errors
/// It cannot be opened for writing.
pub(crate) fn check_target(json: Option<&JsonTarget>) -> Result<(), Failure> {
    let Some(JsonTarget::File(path)) = json else { return Ok(()) };
    let existed = path.exists();
    std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .map_err(|error| Failure::about(path.display(), error))?;
    if !existed {
        remove_quietly(path);
    }
    Ok(())
}

fn remove_quietly(path: &Path) {
    // An empty file that stays does no harm: the report replaces it.
    let _ = std::fs::remove_file(path);
}

/// A table with a head: the first `left` columns are words, the others numbers.
pub(crate) fn table(head: &[String], rows: &[Vec<String>], left: usize) -> String {
    let widths: Vec<usize> = (0..head.len())
        .map(|column| {
            let cells = rows.iter().map(|row| row[column].chars().count());
            cells.chain([head[column].chars().count()]).max().unwrap_or(0)
        })
        .collect();
    let line = |cells: &[String]| {
        let cells: Vec<String> =
            cells
                .iter()
                .zip(&widths)
                .enumerate()
                .map(|(column, (cell, &width))| {
                    if column < left {
                        format!("{cell:<width$}")
                    } else {
                        format!("{cell:>width$}")
                    }
                })
                .collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    let rule: Vec<String> = widths.iter().map(|&width| "-".repeat(width)).collect();
    let mut text = line(head) + &line(&rule);
    rows.iter().for_each(|row| text += &line(row));
    text
}

#[cfg(test)]
mod tests {
    use super::table;

    #[test]
    fn words_stand_left_and_numbers_right() {
        let cells = |row: [&str; 2]| row.map(str::to_owned).to_vec();
        let text = table(&cells(["who", "n"]), &[cells(["a", "10"]), cells(["long", "7"])], 1);
        assert_eq!(text, "who    n\n----  --\na     10\nlong   7\n");
    }
}
