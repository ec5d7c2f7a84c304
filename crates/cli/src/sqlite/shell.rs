//! `perdura sqlite shell`: the installed `sqlite3`, on a database that the extension opens.
//!
//! 1. A first run of `sqlite3` loads the extension, opens the database and ends. It shows whether the
//!    program is there, loads extensions and gets the database open: where it does not, `sqlite3` itself
//!    would go on with an empty database in memory.
//! 2. If the file is new or empty, a second run puts the database into WAL mode. One that has pages keeps its mode.
//! 3. The last run takes the place of this process. Its terminal, the signals that it is sent and its
//!    exit code are those of the command.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use command::failure::{Failure, say};
use peers::extension::{Parameters, VFS, uri};
use pm::Escaped;

use super::library::find;
use crate::args::ShellArgs;

/// The program.
const SHELL: &str = "sqlite3";
/// Options of the program that say how it opens a file; the dot-command that opens one through the
/// extension has no such option.
const OPENING: [&str; 5] = ["append", "deserialize", "nofollow", "vfs", "zip"];
/// The database that the program begins with: extensions are loaded into an open one.
const FIRST: &str = ":memory:";
/// The statements of the first run. A database that the extension has not taken has no domain.
const LOOK: &str = "PRAGMA perdura_domain; PRAGMA database_list;";
/// The statement of the second run.
const BEGIN: &str = "PRAGMA journal_mode = WAL;";
/// The beginning of the line in which the program names the file of the main database, which is empty if there
/// is none.
const MAIN: &str = "0|main|";

/// Starts the shell.
///
/// # Errors
/// The program or the extension is missing, or the database is not opened. On success this does not return.
pub(super) fn run(args: &ShellArgs) -> Result<(), Failure> {
    let is = |argument: &OsStr, names: &[&str]| names.iter().any(|name| is_option(argument, name));
    if let Some(option) = args.arguments.iter().find(|argument| is(argument, &OPENING)) {
        let option = option.display();
        let why = format!("{option}: {SHELL} does not open a database through the extension so");
        return Err(Failure::Usage(why));
    }
    let library = find(args.library.as_deref())?;
    let read_only = args.arguments.iter().any(|argument| is(argument, &["readonly"]));
    let opening = opening(&library, &args.file, read_only);
    // Looked at before the first run, which makes the file.
    let new = is_empty(&args.file) && !read_only;
    let taken = look(&library, &args.file, &opening)?;
    if new && taken {
        begin_in_wal_mode(&args.file, &opening)?;
    }
    let error = Command::new(SHELL).args(&opening).arg(FIRST).args(&args.arguments).exec();
    Err(not_started(&error))
}

/// Returns whether an argument is an option of the program, which begins with one or two hyphens.
fn is_option(argument: &OsStr, name: &str) -> bool {
    let bytes = argument.as_bytes();
    let word = bytes.strip_prefix(b"--").or_else(|| bytes.strip_prefix(b"-"));
    word == Some(name.as_bytes())
}

/// The arguments with which the program loads the extension and opens a database.
fn opening(library: &Path, file: &Path, read_only: bool) -> [OsString; 4] {
    let mut load = OsString::from(".load ");
    load.push(quoted(library));
    let option = if read_only { "--readonly " } else { "" };
    let uri = uri(file, Parameters::default());
    let open = format!(".open {option}{uri}?vfs={VFS}");
    ["-cmd".into(), load, "-cmd".into(), open.into()]
}

/// A path as a word of a dot-command.
fn quoted(path: &Path) -> OsString {
    let mut word = vec![b'"'];
    for &byte in path.as_os_str().as_bytes() {
        if matches!(byte, b'"' | b'\\') {
            word.push(b'\\');
        }
        word.push(byte);
    }
    word.push(b'"');
    OsString::from_vec(word)
}

/// Returns whether there is no file yet, or one without a byte. Other errors are those of opening it.
fn is_empty(file: &Path) -> bool {
    match fs::metadata(file) {
        Ok(found) => found.len() == 0,
        Err(error) => error.kind() == ErrorKind::NotFound,
    }
}

/// Runs the program with these statements alone; returns the answers, and the errors as one line.
fn ask(opening: &[OsString], statements: &str) -> Result<(String, String), Failure> {
    let mut command = Command::new(SHELL);
    // The user's own settings would change the form of the answer.
    command.args(["-batch", "-bail", "-init", "/dev/null", "-list", "-noheader"]);
    command.args(opening).args([FIRST, statements]).stdin(Stdio::null());
    let Output { stdout, stderr, .. } = command.output().map_err(|error| not_started(&error))?;
    let said = String::from_utf8_lossy(&stderr).trim().replace('\n', "; ");
    Ok((String::from_utf8_lossy(&stdout).into_owned(), said))
}

/// Puts a new database into WAL mode. If another connection writes its first pages meanwhile, that one decides the
/// mode.
///
/// # Errors
/// The database stays in a rollback mode for another reason.
fn begin_in_wal_mode(file: &Path, opening: &[OsString]) -> Result<(), Failure> {
    let (answer, said) = ask(opening, BEGIN)?;
    if answer.trim() == "wal" || said.contains("locked") {
        return Ok(());
    }
    let why = format!("{SHELL} does not put it into WAL mode: {}{said}", answer.trim());
    Err(Failure::about(file.display(), why))
}

/// Runs the program to see whether it opens the database. Returns whether it does so with the extension, and says if
/// not.
///
/// # Errors
/// As [`run`].
fn look(library: &Path, file: &Path, opening: &[OsString]) -> Result<bool, Failure> {
    let (answer, said) = ask(opening, LOOK)?;
    match answer.lines().find_map(|line| line.strip_prefix(MAIN)) {
        // It does not know the command that loads.
        None if said.contains("\"load\"") => Err(Failure::Missing(format!(
            "the {SHELL} on PATH was built without loading of extensions; install another one, as Debian's package sqlite3, before it on PATH"
        ))),
        None => {
            let why = format!("it does not load {}: {said}", library.display());
            Err(Failure::about(SHELL, why))
        }
        Some("") => {
            let why = format!("{SHELL} does not open it: {said}; `perdura sqlite check` says more");
            Err(Failure::about(file.display(), why))
        }
        Some(_) => {
            let taken = !answer.starts_with(MAIN);
            if !taken {
                let file = Escaped(file.display());
                say(format_args!(
                    "{file}: opened by SQLite without the extension: it lies on an ordinary disk, or stock SQLite has it open in WAL mode"
                ));
            }
            Ok(taken)
        }
    }
}

/// The failure of a program that does not start.
fn not_started(error: &io::Error) -> Failure {
    match error.kind() {
        ErrorKind::NotFound => Failure::Missing(format!(
            "this command starts {SHELL}, SQLite's shell, which is not on PATH; install it, on Debian and Ubuntu with `apt install sqlite3`"
        )),
        _ => Failure::about(SHELL, error),
    }
}

#[cfg(test)]
mod tests {
    use super::{is_option, quoted};

    #[test]
    fn paths_are_quoted_as_sqlite3_reads_them() {
        let word = quoted("/a b/\"c\\d'e".as_ref());
        assert_eq!(word, r#""/a b/\"c\\d'e""#);
    }

    #[test]
    fn options_have_one_hyphen_or_two() {
        assert!(is_option("-zip".as_ref(), "zip") && is_option("--zip".as_ref(), "zip"));
        assert!(!is_option("zip".as_ref(), "zip") && !is_option("-zipped".as_ref(), "zip"));
    }
}
