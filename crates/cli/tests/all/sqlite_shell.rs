//! `perdura sqlite shell`: the installed sqlite3 with the extension, and what it says where something is missing.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{Ran, copy_program, perdura, run, write_script};

/// What the first run of the shell prints of a database that the extension has opened.
const OPENED: &str = "printf 'process\\n0|main|/somewhere\\n'";

/// A directory with a file that passes for the extension, and an empty directory on PATH.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        // In memory: there the extension takes databases by itself.
        let directory = tempfile::Builder::new().tempdir_in("/dev/shm").expect("a directory");
        let place = Self(directory);
        fs::create_dir(place.at("path")).expect("made");
        fs::write(place.library(), b"\x7fELF sqlite3_perdurasqlite_init perdura_register")
            .expect("written");
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn library(&self) -> PathBuf {
        self.at("an \"odd\" name.so")
    }

    /// Writes a `sqlite3` that runs one script to look at the database, and another one as the shell.
    fn sqlite3(&self, looks: &str, runs: &str) {
        self.beginning(looks, "echo wal", runs);
    }

    /// As [`sqlite3`](Self::sqlite3), with a script that puts a new database into WAL mode.
    fn beginning(&self, looks: &str, begins: &str, runs: &str) {
        let path = self.at("path/sqlite3");
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in *database_list*) {looks};; *journal_mode*) {begins};; *) {runs};; esac\n"
        );
        write_script(&path, &script);
    }

    /// The command, with that `sqlite3` and the file that passes for the extension.
    fn shell(&self, arguments: &[&str]) -> Command {
        let mut command = perdura();
        command.args(["sqlite", "shell", "--library"]).arg(self.library());
        command.arg(self.at("my db?")).args(arguments).env("PATH", self.at("path"));
        command
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        ended(self.shell(arguments), "")
    }
}

/// Runs a command that reads this input, to its end.
fn ended(mut command: Command, input: &str) -> Ran {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the command starts");
    let mut stdin = child.stdin.take().expect("piped");
    // One that ends early does not read all of it.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let ran = Ran::from(child.wait_with_output().expect("it ends"));
    assert!(!ran.err.contains("panicked"), "{ran:?}");
    ran
}

#[test]
fn sqlite3_gets_arguments_input_and_the_process() {
    let place = Place::new();
    place.sqlite3(OPENED, "echo $$; printf '<%s>\\n' \"$@\"; read line; echo \"$line\"; exit 7");
    let mut command = place.shell(&["--", "-json", "SELECT 'a b'"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let id = child.id();
    child.stdin.take().expect("a pipe").write_all(b"input\n").expect("written");
    let ran = Ran::from(child.wait_with_output().expect("it ends"));
    assert_eq!(ran.code, Some(7), "{ran:?}");
    let directory = place.0.path().display();
    let wanted = format!(
        "{id}\n<-cmd>\n<.load \"{directory}/an \\\"odd\\\" name.so\">\n<-cmd>\n\
         <.open file:{directory}/my%20db%3F?vfs=perdura>\n<:memory:>\n<-json>\n<SELECT 'a b'>\ninput\n"
    );
    assert_eq!(ran.out, wanted);
}

#[test]
fn options_that_open_a_file_are_passed_on_or_refused() {
    let place = Place::new();
    place.sqlite3(OPENED, "echo \"$4\"");
    for option in ["-readonly", "--readonly"] {
        let ran = place.run(&["--", "-csv", option]);
        assert!(ran.out.starts_with(".open --readonly file:/"), "{ran:?}");
    }
    for option in ["-nofollow", "--zip", "-append", "-deserialize", "-vfs"] {
        let ran = place.run(&["--", "-csv", option]);
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{ran:?}");
        assert!(ran.err.contains(&format!("perdura: {option}: sqlite3 does not")), "{ran:?}");
    }
}

#[test]
fn missing_sqlite3_is_named_with_its_package() {
    let ran = Place::new().run(&[]);
    // Not 1: sqlite3 ends with that where a statement has failed.
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{ran:?}");
    assert!(ran.err.contains("sqlite3, SQLite's shell, which is not on PATH"), "{ran:?}");
    assert!(ran.err.contains("`apt install sqlite3`"), "{ran:?}");
}

#[test]
fn missing_extension_is_named_with_its_build() {
    let place = Place::new();
    place.sqlite3(OPENED, "echo started");
    fs::create_dir(place.at("bin")).expect("made");
    copy_program(&place.at("bin/perdura"));
    let mut alone = Command::new(place.at("bin/perdura"));
    alone.args(["sqlite", "shell"]).arg(place.at("db")).env("PATH", place.at("path"));
    let ran = ended(alone, "");
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{ran:?}");
    for word in ["no libperdura_sqlite.so here", "`cargo build --release -p perdura-sqlite`"] {
        assert!(ran.err.contains(word), "{ran:?}");
    }
}

/// None of these may end in a shell on an empty database in memory.
#[test]
fn sqlite3_that_opens_nothing_is_not_the_shell() {
    let place = Place::new();
    let unknown =
        "Error: unknown command or invalid arguments:  \"load\". Enter \".help\" for help";
    place.sqlite3(&format!("echo '{unknown}' >&2; exit 1"), "echo started");
    let ran = place.run(&[]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{ran:?}");
    assert!(ran.err.contains("built without loading of extensions"), "{ran:?}");

    place.sqlite3("echo 'Error: SQLite is too old' >&2; exit 1", "echo started");
    let ran = place.run(&[]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{ran:?}");
    assert!(ran.err.contains("sqlite3: it does not load /dev/shm/"), "{ran:?}");
    assert!(ran.err.contains(": Error: SQLite is too old"), "{ran:?}");

    place.sqlite3("echo '0|main|'; echo 'Error: no such file' >&2", "echo started");
    let ran = place.run(&[]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{ran:?}");
    assert!(ran.err.contains("/my db?: sqlite3 does not open it: Error: no such file"), "{ran:?}");
}

#[test]
fn database_without_the_extension_is_named() {
    let place = Place::new();
    place.sqlite3("echo '0|main|/somewhere'", "echo started");
    let ran = place.run(&[]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "started\n"), "{ran:?}");
    assert!(ran.err.contains("/my db?: opened by SQLite without the extension"), "{ran:?}");
    place.sqlite3(OPENED, "echo started");
    assert_eq!(place.run(&[]).err, "");
}

#[test]
fn new_database_that_gets_no_wal_mode_is_an_error() {
    let place = Place::new();
    place.beginning(OPENED, "echo delete", "echo started");
    let ran = place.run(&[]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{ran:?}");
    assert!(ran.err.contains("/my db?: sqlite3 does not put it into WAL mode: delete"), "{ran:?}");
    // Another connection makes the database.
    place.beginning(OPENED, "echo 'Error: database is locked' >&2; exit 5", "echo started");
    assert_eq!(place.run(&[]).out, "started\n");
    // One that has pages, one that is only read, and one that the extension has not taken.
    place.beginning(OPENED, "echo delete", "echo started");
    assert_eq!(place.run(&["--", "-readonly"]).out, "started\n");
    fs::write(place.at("my db?"), "pages").expect("written");
    assert_eq!(place.run(&[]).out, "started\n");
    fs::remove_file(place.at("my db?")).expect("removed");
    place.beginning("echo '0|main|/somewhere'", "echo delete", "echo started");
    assert_eq!(place.run(&[]).out, "started\n");
}

#[test]
fn sql_names_the_command_in_its_place() {
    for arguments in [&["sql"][..], &["sql", "/dev/shm/my.db", "SELECT 1"], &["sql", "--help"]] {
        let ran = run(arguments);
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{arguments:?}: {ran:?}");
        assert!(ran.err.contains("`perdura sqlite shell FILE`"), "{ran:?}");
    }
    let completions = run(&["completions", "bash"]).out;
    assert!(completions.contains(" pool sqlite "), "{completions}");
    assert!(!completions.contains(" sql "), "a command that is gone");
}

/// Runs the installed sqlite3 on a database with the extension of this build.
fn real(path: &Path, arguments: &[&str], input: &str) -> Ran {
    let mut command = perdura();
    // The settings of the user could change the form of results.
    command.args(["sqlite", "shell"]).arg(path).args(["--", "-init", "/dev/null"]).args(arguments);
    ended(command, input)
}

#[test]
fn installed_sqlite3_commits_through_the_extension() {
    if let Err(error) = Command::new("sqlite3").arg("--version").output() {
        eprintln!("skipped: this test starts the installed sqlite3, and there is none: {error}");
        return;
    }
    let place = Place::new();
    let path = place.at("a b?c.db");
    let input = "CREATE TABLE t(a);\nINSERT INTO t VALUES(1), (2);\nPRAGMA perdura_stats;\n";
    let ran = real(&path, &[], input);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{ran:?}");
    assert!(ran.out.contains("\"commits\":2"), "{ran:?}");
    assert!(!ran.out.contains("wal\n"), "the shell prints what it was not asked: {ran:?}");
    // A clean end leaves a plain file.
    assert!(path.exists() && !place.at("a b?c.db-perdura").exists());
    let ran = real(&path, &["-json", "SELECT sum(a) AS s FROM t"], "");
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "[{\"s\":3}]\n"), "{ran:?}");
    let ran = real(&path, &["-readonly", "INSERT INTO t VALUES(3)"], "");
    assert!(ran.code != Some(0) && ran.err.contains("readonly"), "{ran:?}");
    let ran = real(&place.at("nowhere/db"), &[], "SELECT 'started';");
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{ran:?}");
    assert!(ran.err.contains("nowhere/db: sqlite3 does not open it: "), "{ran:?}");
}

#[test]
fn new_database_of_the_shell_begins_in_wal_mode() {
    if let Err(error) = Command::new("sqlite3").arg("--version").output() {
        eprintln!("skipped: this test starts the installed sqlite3, and there is none: {error}");
        return;
    }
    let place = Place::new();
    fs::write(place.at("empty.db"), "").expect("written");
    for name in ["new.db", "empty.db"] {
        let path = place.at(name);
        let ran = real(&path, &["PRAGMA journal_mode"], "");
        assert_eq!((ran.code, ran.out.as_str()), (Some(0), "wal\n"), "{ran:?}");
        let ran = real(&path, &["CREATE TABLE t(a); PRAGMA perdura_stats"], "");
        assert!(
            ran.out.contains("\"commits\":1") && !ran.out.contains("\"wal_frames\":0"),
            "{ran:?}"
        );
        // One that has pages keeps its mode, whichever it is.
        let ran = real(&path, &["PRAGMA journal_mode = DELETE"], "");
        assert_eq!(ran.out, "delete\n", "{ran:?}");
        let ran = real(&path, &["PRAGMA journal_mode"], "");
        assert_eq!(ran.out, "delete\n", "{ran:?}");
    }
}
