//! `perdura sqlite`: databases that are plain, open, or left by a kill; and how to load the extension.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use peers::extension::{Parameters, open, open_stock};
use perdura_sqlite::database::{Level, MainFile as _, Mapped, OpenOptions, RECORDS_SUFFIX};
use rusqlite::{Connection, OpenFlags};
use serde_json::Value;

use crate::common::{Ran, copy_program, perdura, run};

/// A directory in memory: there the extension takes databases by itself.
fn folder() -> tempfile::TempDir {
    tempfile::Builder::new().tempdir_in("/dev/shm").expect("a directory")
}

fn side_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-perdura");
    name.into()
}

fn connect(path: &Path) -> Connection {
    // Whole pages are logged, so that the log alone brings back what was not stored.
    let parameters = Parameters { mode: Some("full"), domain: None, wal: None };
    open(path, parameters, OpenFlags::default()).expect("opens")
}

/// A database with three rows that is open.
fn live(path: &Path) -> Connection {
    let connection = connect(path);
    let rows =
        "CREATE TABLE t(a INTEGER PRIMARY KEY, b); INSERT INTO t VALUES(1, 'one'), (2, 'two')";
    connection.execute_batch(rows).expect("made");
    connection
}

/// Makes the same database in the state after a kill. With `last_lost`, the stores that put the last
/// transaction in its place are lost.
fn killed(directory: &Path, name: &str, last_lost: bool) -> PathBuf {
    let from = directory.join(format!("{name}-live"));
    let connection = live(&from);
    let before = fs::read(&from).expect("there");
    connection.execute_batch("INSERT INTO t VALUES(3, 'three')").expect("inserted");
    let after = fs::read(&from).expect("there");
    let path = directory.join(name);
    fs::write(&path, if last_lost { before } else { after }).expect("written");
    fs::copy(side_of(&from), side_of(&path)).expect("copied");
    drop(connection);
    path
}

fn sqlite(command: &str, path: &Path) -> Ran {
    run(&["sqlite", command, path.to_str().expect("text")])
}

/// The JSON of a check with this exit code, which changes nothing.
fn checked(path: &Path, code: i32) -> Value {
    let files = |path: &Path| {
        let mut side = fs::read(side_of(path)).ok();
        // The words of the locks and of their queue, which concurrent readers take.
        for words in [4096..6144, 6208..8192] {
            if let Some(words) = side.as_mut().and_then(|side| side.get_mut(words)) {
                words.fill(0);
            }
        }
        [fs::read(path).ok(), side]
    };
    let before = files(path);
    let ran = run(&["sqlite", "check", path.to_str().expect("text"), "--json", "-"]);
    assert_eq!(ran.code, Some(code), "{ran:?}");
    assert!(files(path) == before, "nothing is changed");
    serde_json::from_str(&ran.out).expect("JSON")
}

fn rows(path: &Path) -> Vec<i64> {
    let connection = open_stock(path, OpenFlags::SQLITE_OPEN_READ_ONLY).expect("opens");
    let mut select = connection.prepare("SELECT a FROM t ORDER BY a").expect("a plain database");
    select.query_map([], |row| row.get(0)).expect("runs").map(|row| row.expect("a row")).collect()
}

#[test]
fn check_distinguishes_plain_live_and_killed_databases() {
    let directory = folder();
    let path = directory.path().join("db");
    let connection = live(&path);
    let found = checked(&path, 0);
    let of = |found: &Value| ["state", "whole", "journal"].map(|key| found[key].clone());
    assert_eq!(of(&found), ["live".into(), true.into(), Value::from("perdura")]);
    assert_eq!((&found["domain"], &found["page_bytes"]), (&"process".into(), &4096.into()));
    connection.execute_batch("INSERT INTO t VALUES(4, 'it goes on')").expect("still open");
    connection.close().expect("closes");
    let found = checked(&path, 0);
    assert_eq!(of(&found), ["plain".into(), true.into(), Value::from("rollback")]);
    assert!(found["domain"].is_null() && found["replay"].is_null() && found["pages"] == 2);

    let path = killed(directory.path(), "killed", false);
    let found = checked(&path, 0);
    assert_eq!(of(&found), ["killed".into(), true.into(), Value::from("perdura")]);
    assert!(found["replay"].is_null(), "{found}");
    let path = killed(directory.path(), "unfinished", true);
    let found = checked(&path, 0);
    assert_eq!(found["state"], "killed");
    assert!(found["replay"]["bytes"].as_u64().expect("a number") > 5, "{found}");
    let ran = sqlite("check", &path);
    assert_eq!(ran.code, Some(0));
    assert!(ran.out.contains(": whole\n") && ran.out.contains("replays"), "{}", ran.out);

    let path = directory.path().join("stock");
    let stock = open_stock(&path, OpenFlags::default()).expect("opens");
    stock.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t(a)").expect("made");
    stock.close().expect("closes");
    assert_eq!(of(&checked(&path, 0)), ["plain".into(), true.into(), Value::from("wal")]);
}

/// Another user may read the files. Without root's rights there is no other user here.
#[test]
fn check_needs_no_right_to_write() {
    let folder = folder();
    let root = fs::metadata("/proc/self").expect("there").uid() == 0;
    let program = folder.path().join("program");
    copy_program(&program);
    let set = |path: &Path, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
    };
    set(folder.path(), 0o755);
    for (name, state) in [("plain", "plain"), ("killed", "killed")] {
        let path = match name {
            "killed" => killed(folder.path(), name, true),
            _ => {
                let path = folder.path().join(name);
                drop(live(&path));
                path
            }
        };
        for file in [path.clone(), side_of(&path)] {
            if file.exists() {
                set(&file, 0o444);
            }
        }
        let mut command = Command::new(&program);
        if root {
            command.uid(65_534).gid(65_534);
        }
        command.args(["sqlite", "check", path.to_str().expect("text"), "--json", "-"]);
        let ran = Ran::from(command.output().expect("the command starts"));
        assert_eq!(ran.code, Some(0), "{name}: {ran:?}");
        let found: Value = serde_json::from_str(&ran.out).expect("JSON");
        assert_eq!((&found["state"], &found["whole"]), (&state.into(), &true.into()), "{ran:?}");
    }
}

#[test]
fn damaged_database_has_exit_code_1() {
    let directory = folder();
    let path = killed(directory.path(), "lonely", false);
    fs::remove_file(side_of(&path)).expect("removed");
    let found = checked(&path, 1);
    assert_eq!(found["whole"], false);
    assert!(found["problems"][0].as_str().expect("text").contains("side file"), "{found}");

    let path = killed(directory.path(), "cut", false);
    let side = fs::read(side_of(&path)).expect("there");
    fs::write(side_of(&path), &side[..4096]).expect("written");
    assert_eq!(checked(&path, 1)["whole"], false);

    let path = directory.path().join("damaged");
    live(&path).close().expect("closes");
    let mut bytes = fs::read(&path).expect("there");
    bytes[4096..].fill(0x5a);
    fs::write(&path, bytes).expect("written");
    let found = checked(&path, 1);
    assert_eq!(found["state"], "plain");
    assert!(!found["problems"].as_array().expect("a list").is_empty(), "{found}");

    let path = directory.path().join("text");
    fs::write(&path, "no database".repeat(100)).expect("written");
    assert!(checked(&path, 1)["problems"][0].as_str().expect("text").contains("begins like no"));
    let ran = sqlite("plain", &path);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let ran = sqlite("check", &directory.path().join("nowhere"));
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains("nowhere"), "{}", ran.err);
}

#[test]
fn killed_database_becomes_plain_with_all_that_committed() {
    let directory = folder();
    for last_lost in [false, true] {
        let path = killed(directory.path(), &format!("db-{last_lost}"), last_lost);
        let stock = open_stock(&path, OpenFlags::SQLITE_OPEN_READ_ONLY).expect("opens lazily");
        stock.execute_batch("SELECT * FROM t").expect_err("only the extension reads it");
        drop(stock);
        let ran = sqlite("plain", &path);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert_eq!(rows(&path), [1, 2, 3]);
        assert!(!side_of(&path).exists());
        let ran = sqlite("plain", &path);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(ran.out.contains("already"), "{}", ran.out);
    }
}

/// After a kill the rows are in the differential log alone, if the image of SQLite's log is lost.
#[test]
fn killed_database_with_a_differential_log_is_whole_and_becomes_plain() {
    let directory = folder();
    let from = directory.path().join("live");
    let parameters = Parameters { domain: Some("adr"), wal: Some("diff"), ..Parameters::default() };
    let connection = open(&from, parameters, OpenFlags::default()).expect("opens");
    let rows_of_three = "PRAGMA journal_mode = wal; CREATE TABLE t(a INTEGER PRIMARY KEY, b);
        INSERT INTO t VALUES(1, 'one'), (2, 'two'), (3, 'three')";
    connection.execute_batch(rows_of_three).expect("made");
    let path = directory.path().join("killed");
    let file = |path: &Path, suffix: &str| PathBuf::from(format!("{}{suffix}", path.display()));
    for suffix in ["", "-wal", RECORDS_SUFFIX] {
        let mut bytes = fs::read(file(&from, suffix)).expect("there");
        if suffix == "-wal" {
            bytes[32..].fill(0);
        }
        fs::write(file(&path, suffix), bytes).expect("written");
    }
    drop(connection);
    let found = checked(&path, 0);
    assert_eq!((&found["state"], &found["whole"]), (&"killed".into(), &true.into()), "{found}");
    let ran = sqlite("plain", &path);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(rows(&path), [1, 2, 3]);
    assert!(!file(&path, RECORDS_SUFFIX).exists());
    assert_eq!(checked(&path, 0)["state"], "plain");
}

/// A database whose third row is a part of a transaction over several databases, which a kill has cut off.
fn prepared(directory: &Path, super_journal: &Path) -> PathBuf {
    let path = directory.join("db");
    live(&path).close().expect("closed");
    let copy = directory.join("copy");
    fs::copy(&path, &copy).expect("copied");
    let insert = "INSERT INTO t VALUES(3, 'three')";
    let stock = open_stock(&copy, OpenFlags::default()).expect("opens");
    stock.execute_batch(insert).expect("inserted");
    let names = format!("{}-journal\0", path.display());
    fs::write(super_journal, names).expect("written");
    let mut part =
        Mapped::open(&path, &OpenOptions::default()).expect("opens").expect("it is ours");
    for level in [Level::Shared, Level::Reserved, Level::Exclusive] {
        part.lock(level).expect("no other connection has it");
    }
    part.write(0, &fs::read(copy).expect("there")).expect("written");
    part.commit(Some(super_journal.as_os_str().as_encoded_bytes())).expect("prepared");
    path
}

#[test]
fn part_of_a_multi_database_transaction_is_decided() {
    for committed in [false, true] {
        let directory = folder();
        let super_journal = directory.path().join("other-mj012345678");
        let path = prepared(directory.path(), &super_journal);
        let stub = directory.path().join("db-journal");
        if committed {
            fs::remove_file(&super_journal).expect("removed");
        }
        let found = checked(&path, 0);
        assert_eq!(found["part"]["committed"], committed, "{found}");
        assert_eq!(found["part"]["super_journal"], super_journal.to_str().expect("text"));
        assert_eq!(found["replay"].is_null(), !committed, "{found}");
        assert_eq!(found["stock_journal"], false);
        assert_eq!((stub.exists(), super_journal.exists()), (true, !committed));
        let ran = sqlite("check", &path);
        assert!(ran.out.contains(if committed { " is gone" } else { " is there" }), "{ran:?}");
        assert_eq!(sqlite("plain", &path).code, Some(0));
        let wanted: &[i64] = if committed { &[1, 2, 3] } else { &[1, 2] };
        assert_eq!(rows(&path), wanted);
        assert_eq!((stub.exists(), super_journal.exists()), (false, false));
        assert!(checked(&path, 0)["part"].is_null());
    }
}

#[test]
fn a_database_that_is_open_elsewhere_is_not_made_plain() {
    let directory = folder();
    let path = directory.path().join("db");
    let connection = live(&path);
    let before = fs::read(&path).expect("there");
    let ran = sqlite("plain", &path);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains("a process has it open"), "{}", ran.err);
    assert!(fs::read(&path).expect("there") == before && side_of(&path).exists());
    connection.execute_batch("INSERT INTO t VALUES(3, 'three')").expect("still open");
    connection.close().expect("closes");
    assert_eq!(rows(&path), [1, 2, 3]);
}

/// Wherever a kill ends it, the database is one or the other, and the next try ends it.
#[test]
fn a_kill_in_the_middle_leaves_nothing_half() {
    let directory = folder();
    for round in 0..6_u32 {
        let path = killed(directory.path(), &format!("db-{round}"), true);
        let mut child = perdura()
            .args(["sqlite", "plain"])
            .arg(&path)
            .stdout(Stdio::null())
            .spawn()
            .expect("the command starts");
        // Somewhere on its way: the result has to be right wherever it is.
        (0..round * 40_000).for_each(|number| {
            std::hint::black_box(number);
        });
        child.kill().expect("killed, or ended");
        child.wait().expect("ends");
        if side_of(&path).exists() {
            assert_eq!(checked(&path, 0)["whole"], true);
        }
        assert_eq!(sqlite("plain", &path).code, Some(0));
        assert_eq!(rows(&path), [1, 2, 3]);
    }
}

#[test]
fn the_extension_is_found_copied_and_explained() {
    let directory = folder();
    let to = directory.path().to_str().expect("text");
    let ran = run(&["sqlite", "install", "--to", to, "--json", "-"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let found: Value = serde_json::from_str(&ran.out).expect("JSON");
    let library = found["library"].as_str().expect("text");
    assert_eq!(Path::new(library).parent(), Some(directory.path()));
    let recipes = found["recipes"].as_array().expect("a list");
    // A build of this crate alone makes none.
    let preload = found["preload"].as_str();
    assert_eq!(recipes.len(), 7 + usize::from(preload.is_some()));
    for recipe in recipes {
        let text = recipe["text"].as_str().expect("text");
        assert!(!text.contains('@') || text.contains("(@"), "{text}");
        let loads =
            ["sqlalchemy", "django", "preload"].iter().all(|none| recipe["language"] != *none);
        if recipe["language"] == "preload" {
            assert!(text.contains(preload.expect("there")), "{text}");
        }
        assert_eq!(text.contains(library), loads, "{text}");
    }
    let ran = run(&["sqlite", "install", "c", "shell", "--library", library]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.contains(".load ") && ran.out.contains("sqlite3_load_extension"));
    assert!(!ran.out.contains("import sqlite3"), "{}", ran.out);
    let ran = run(&["sqlite", "install", "--library", "/dev/null"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains("not Perdura's extension"), "{}", ran.err);
    assert_eq!(run(&["sqlite", "install", "cobol"]).code, Some(2));
    let alone = folder();
    let copied = alone.path().join("libperdura_sqlite.so");
    fs::copy(library, &copied).expect("copied");
    let copied = copied.to_str().expect("text");
    let ran = run(&["sqlite", "install", "preload", "--library", copied]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains("-p perdura-preload"), "{}", ran.err);
    let ran = run(&["sqlite", "install", "--library", copied]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(!ran.out.contains("LD_PRELOAD"), "{}", ran.out);
}

/// The recipe of a language, about a database of this directory.
fn recipe(language: &str, directory: &Path) -> String {
    let ran = run(&["sqlite", "install", language, "--json", "-"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let found: Value = serde_json::from_str(&ran.out).expect("JSON");
    let text = found["recipes"][0]["text"].as_str().expect("text");
    let database = directory.join("db");
    text.replace("/dev/shm/my.db", database.to_str().expect("text"))
}

/// Runs a program, if this machine has it, that commits through the extension and says so.
fn commits(mut command: Command, input: &str, directory: &Path) {
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut child) = child else { return };
    let mut stdin = child.stdin.take().expect("piped");
    std::io::Write::write_all(&mut stdin, input.as_bytes()).expect("taken");
    drop(stdin);
    let ran = Ran::from(child.wait_with_output().expect("ends"));
    assert_eq!(ran.code, Some(0), "{command:?}: {ran:?}");
    // WAL mode, the table and the row.
    assert!(ran.out.contains("\"commits\":3"), "{command:?}: {ran:?}");
    let path = directory.join("db");
    let connection = open_stock(&path, OpenFlags::SQLITE_OPEN_READ_ONLY).expect("plain");
    let count: i64 =
        connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).expect("a table");
    assert_eq!(count, 1);
}

#[test]
fn the_recipes_of_languages_that_are_here_work() {
    let directory = folder();
    let shell = recipe("shell", directory.path());
    commits(Command::new("sqlite3"), &shell, directory.path());
    for python in ["/usr/bin/python3", "python3"] {
        let directory = folder();
        let program = directory.path().join("program.py");
        fs::write(&program, recipe("python", directory.path())).expect("written");
        let mut command = Command::new(python);
        command.arg(&program);
        commits(command, "", directory.path());
    }
    if Path::new("/usr/include/sqlite3.h").exists() {
        let directory = folder();
        let (source, program) = (directory.path().join("program.c"), directory.path().join("c"));
        fs::write(&source, recipe("c", directory.path())).expect("written");
        let flags = ["-Wall", "-Wextra", "-Werror"];
        let mut compiler = Command::new("cc");
        compiler.args(flags).arg("-o").arg(&program).arg(&source).arg("-lsqlite3");
        assert!(compiler.status().expect("a compiler").success());
        commits(Command::new(&program), "", directory.path());
    }
}

/// The library is there if the whole workspace is built; `crates/preload/tests` has what it promises.
#[test]
fn an_unchanged_program_commits_by_the_recipe_for_it() {
    let found = run(&["sqlite", "install", "--json", "-"]);
    let found: Value = serde_json::from_str(&found.out).expect("JSON");
    if found["preload"].is_null() || Command::new("sqlite3").arg("--version").output().is_err() {
        return;
    }
    let directory = folder();
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(recipe("preload", directory.path()));
    commits(shell, "", directory.path());
}
