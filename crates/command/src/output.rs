//! Standard output: plain tables for people, JSON for programs.
//!
//! Invariants:
//! - Results go to standard output, everything else to standard error.
//! - A reader that has gone ends the command quietly; what was found wrong is still wrong.
//! - What a command reads or makes, and any database, is never replaced by its report.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use pm::{Escaped, visible_json};
use serde::Serialize;

use crate::failure::Failure;
use crate::host::Host;

/// The first bytes of files that a report must not replace, whatever their owner: pools, backups,
/// and SQLite's, such as the results of the laboratory.
const DATABASES: [&[u8]; 3] = [b"PERDURA\0", b"PERDBAK\0", b"SQLite format 3\0"];

/// The place that JSON goes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JsonTarget {
    /// `-`: standard output, in place of the table.
    Stdout,
    /// A file, in addition to the table.
    File(PathBuf),
}

impl JsonTarget {
    /// Reads the value of `--json`.
    ///
    /// # Errors
    /// An empty value.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "" => Err("name a file, or `-` for standard output".into()),
            "-" => Ok(Self::Stdout),
            path => Ok(Self::File(path.into())),
        }
    }
}

/// A report as programs read it.
#[derive(Debug, Serialize)]
pub struct Report<'a, R> {
    perdura: &'static str,
    host: &'a Host,
    runs: &'a [R],
}

impl<'a, R: Serialize> Report<'a, R> {
    /// Runs of this build on a host.
    pub fn new(host: &'a Host, runs: &'a [R]) -> Self {
        Self { perdura: env!("CARGO_PKG_VERSION"), host, runs }
    }
}

/// Prints text.
///
/// # Errors
/// Standard output takes no more.
pub fn print(text: &str) -> Result<(), Failure> {
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
pub fn report(
    text: &str,
    value: &impl Serialize,
    json: Option<&JsonTarget>,
) -> Result<(), Failure> {
    let Some(target) = json else { return print(text) };
    let encoded = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::about("the JSON report", error))?;
    let mut encoded = visible_json(&encoded).into_owned();
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

/// Writes a file whole, or leaves what was there. The bytes go to a temporary file in the same
/// directory, which replaces the file when all of them are stored. A device, a pipe, or anything
/// else that is no plain file is written to directly.
///
/// # Errors
/// There is no room, or the system refuses; no temporary file remains.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let known = match fs::metadata(path) {
        Ok(meta) if !meta.is_file() => return fs::write(path, bytes),
        Ok(meta) => Some(meta.permissions()),
        Err(_) => None,
    };
    // A link stays one: what it leads to is replaced.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| resolve_link(path));
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

/// Refuses a JSON file that cannot or must not be written before the work is done rather than after.
/// `others` are the files that the command reads and makes.
///
/// # Errors
/// As [`check_replaceable`], or it cannot be opened for writing.
pub fn check_target(json: Option<&JsonTarget>, others: &[&Path]) -> Result<(), Failure> {
    let Some(JsonTarget::File(path)) = json else { return Ok(()) };
    check_replaceable(path, others)?;
    let known = fs::metadata(path);
    // To open a pipe would wait for its reader, and to close it again end what he reads.
    if known.as_ref().is_ok_and(|meta| !meta.is_file() && !meta.is_dir()) {
        return Ok(());
    }
    File::options()
        .append(true)
        .create(true)
        .open(path)
        .map_err(|error| Failure::about(path.display(), error))?;
    if known.is_err() {
        // A link that led to nothing stays: the file that it leads to was made now.
        remove_quietly(&fs::canonicalize(path).unwrap_or_else(|_| path.clone()));
    }
    Ok(())
}

/// Refuses a report that would replace one of `others`, by whatever name, or any database. To know
/// the command's own files is not enough: a wrong name may be that of another database.
///
/// # Errors
/// Which file, and why.
pub fn check_replaceable(path: &Path, others: &[&Path]) -> Result<(), Failure> {
    let place = Place::of(path);
    let what = if others.iter().any(|other| Place::of(other) == place) {
        "this command reads or makes this file itself, and the report would replace it"
    } else if is_database(path) {
        "this is a database or a backup, and the report would replace it"
    } else {
        return Ok(());
    };
    Err(Failure::Usage(format!("{}: {what}; name another file", Escaped(path.display()))))
}

/// The file that a path leads to.
#[derive(PartialEq, Eq)]
enum Place {
    /// One that is there: device and inode.
    File(u64, u64),
    /// One that is not there yet, without links.
    Name(PathBuf),
}

impl Place {
    fn of(path: &Path) -> Self {
        if let Ok(meta) = fs::metadata(path) {
            return Self::File(meta.dev(), meta.ino());
        }
        let path = resolve_link(path);
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        let parent = fs::canonicalize(parent).unwrap_or_else(|_| parent.to_owned());
        Self::Name(parent.join(path.file_name().unwrap_or_default()))
    }
}

/// Returns where a link leads; else the path itself.
fn resolve_link(path: &Path) -> PathBuf {
    fs::read_link(path).map_or_else(|_| path.to_owned(), |to| path.with_file_name(to))
}

fn is_database(path: &Path) -> bool {
    // Anything else may wait for a writer.
    if !path.is_file() {
        return false;
    }
    let mut begin = Vec::new();
    let read = File::open(path).and_then(|file| file.take(16).read_to_end(&mut begin));
    read.is_ok() && DATABASES.iter().any(|magic| begin.starts_with(magic))
}

fn remove_quietly(path: &Path) {
    // What stays does no harm: it is empty, or has a name that is never asked for.
    let _ = fs::remove_file(path);
}

/// A table with a head: the first `left` columns are words, the others numbers. A row is one line,
/// whatever its cells contain.
pub fn table(head: &[String], rows: &[Vec<String>], left: usize) -> String {
    let shown = |row: &Vec<String>| row.iter().map(|cell| Escaped(cell).to_string()).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(shown).collect();
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
    use super::{JsonTarget, check_target, table, write_whole};

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
        assert_eq!(mode & 0o777, 0o600, "its readers are no more than before");
        assert_eq!(fs::read_dir(directory.path()).expect("read").count(), 2, "nothing else");

        let nowhere = directory.path().join("nowhere").join("file");
        write_whole(&nowhere, b"").expect_err("there is no such directory");
    }

    /// A link that leads to nothing yet stays one, and leads to the report afterwards.
    #[test]
    fn a_link_to_nothing_is_written_through() {
        use std::fs;
        use std::os::unix::fs::symlink;

        let directory = tempfile::tempdir().expect("a directory");
        let link = directory.path().join("link");
        symlink("file", &link).expect("made");
        check_target(Some(&JsonTarget::File(link.clone())), &[]).expect("it can be written");
        assert!(fs::symlink_metadata(&link).expect("there").is_symlink(), "it stays");
        assert!(!link.exists(), "nothing is made before its time");
        write_whole(&link, b"one").expect("written");
        assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
        assert_eq!(fs::read(directory.path().join("file")).expect("there"), b"one");
    }

    #[test]
    fn words_stand_left_and_numbers_right() {
        let cells = |row: [&str; 2]| row.map(str::to_owned).to_vec();
        let text = table(&cells(["who", "n"]), &[cells(["a", "10"]), cells(["long", "7"])], 1);
        assert_eq!(text, "who    n\n----  --\na     10\nlong   7\n");
        let text = table(&cells(["a", "n"]), &[cells(["x\ny", "10"]), cells(["z", "7"])], 1);
        assert_eq!(text, "a      n\n----  --\nx\\ny  10\nz      7\n");
    }
}
