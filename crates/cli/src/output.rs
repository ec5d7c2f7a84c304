//! Standard output: plain tables for people, JSON for programs.
//!
//! Invariants:
//! - Results go to standard output, everything else to standard error.
//! - A reader that has gone ends the command quietly.

use std::fs::{self, File};
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
            write_whole(path, encoded.as_bytes())
                .map_err(|error| Failure::about(path.display(), error))?;
            print(text)
        }
    }
}

/// Writes a file whole, or leaves what was there: the bytes go to a file beside it, which takes its
/// place when all of them are stored. What is no plain file (a device, a pipe) is written to as it is.
///
/// # Errors
/// There is no room, or the system refuses; nothing is left behind.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let known = match fs::metadata(path) {
        Ok(meta) if !meta.is_file() => return fs::write(path, bytes),
        Ok(meta) => Some(meta.permissions()),
        Err(_) => None,
    };
    // A link stays one: what it leads to is replaced.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let part = path.with_file_name(name);
    let written = File::create(&part).and_then(|mut file| {
        file.write_all(bytes)?;
        known.map_or(Ok(()), |permissions| file.set_permissions(permissions))?;
        file.sync_all()?;
        fs::rename(&part, path)
    });
    if written.is_err() {
        remove_quietly(&part);
    }
    written
}

/// Refuses a JSON file that cannot be written before the work is done rather than after.
///
/// # Errors
/// It cannot be opened for writing.
pub(crate) fn check_target(json: Option<&JsonTarget>) -> Result<(), Failure> {
    let Some(JsonTarget::File(path)) = json else { return Ok(()) };
    let existed = path.exists();
    File::options()
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
    // What stays does no harm: it is empty, or has a name that nobody asks for.
    let _ = fs::remove_file(path);
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
    use super::{table, write_whole};

    #[test]
    fn what_is_written_takes_the_place_of_what_was_there() {
        use std::fs;
        use std::os::unix::fs::{PermissionsExt, symlink};

        let directory = tempfile::tempdir().expect("a directory");
        let (file, link) = (directory.path().join("file"), directory.path().join("link"));
        write_whole(&file, b"one").expect("written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("set");
        symlink("file", &link).expect("made");
        write_whole(&link, b"another").expect("written");
        assert_eq!(fs::read(&file).expect("there"), b"another");
        assert!(fs::symlink_metadata(&link).expect("there").is_symlink(), "a link stays one");
        let mode = fs::metadata(&file).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "whoever could not read it still cannot");
        assert_eq!(fs::read_dir(directory.path()).expect("read").count(), 2, "nothing else");

        let nowhere = directory.path().join("nowhere").join("file");
        write_whole(&nowhere, b"").expect_err("there is no such directory");
    }

    #[test]
    fn words_stand_left_and_numbers_right() {
        let cells = |row: [&str; 2]| row.map(str::to_owned).to_vec();
        let text = table(&cells(["who", "n"]), &[cells(["a", "10"]), cells(["long", "7"])], 1);
        assert_eq!(text, "who    n\n----  --\na     10\nlong   7\n");
    }
}
