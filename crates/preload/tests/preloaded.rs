//! Unchanged programs, the SQLite shell and Python, with the library preloaded. Programs missing on
//! this machine are skipped.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A directory in memory, where the VFS takes databases without being asked.
fn folder() -> tempfile::TempDir {
    tempfile::Builder::new().tempdir_in("/dev/shm").expect("a directory")
}

/// The library, which the build of the tests puts next to them.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("known");
    let library = test.with_file_name("libperdura_preload.so");
    assert!(library.exists(), "{}", library.display());
    library
}

fn is_here(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|ran| ran.status.success())
}

/// A program with the library preloaded.
fn preloaded(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env("LD_PRELOAD", library());
    command
}

/// Each Python of this machine whose module loads SQLite as a library.
fn pythons() -> Vec<&'static str> {
    let probe = "import ctypes, _sqlite3; ctypes.CDLL(_sqlite3.__file__).sqlite3_open16";
    let reaches = |python: &&str| {
        let ran = Command::new(python).args(["-c", probe]).output();
        ran.is_ok_and(|ran| ran.status.success())
    };
    ["/usr/bin/python3", "python3"].into_iter().filter(reaches).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// The output of a program that succeeds and prints only the expected text on standard error.
fn printed(ran: &Output, on_error: &str) -> String {
    let (out, err) = (text(&ran.stdout), text(&ran.stderr));
    assert!(ran.status.success(), "{out}{err}");
    if on_error.is_empty() {
        assert_eq!(err, "");
    } else {
        assert!(err.contains(on_error), "{err}");
        assert_eq!(err.lines().count(), 1, "one warning: {err}");
    }
    out
}

/// The output of a Python program that has the database's path as `DB`, and `answers(connection)`.
fn python(python: &str, directory: &Path, program: &str, on_error: &str) -> String {
    let before = "\
import ctypes, sqlite3, sys, _sqlite3
DB = sys.argv[1]
def answers(connection):
    return len(connection.execute('PRAGMA perdura_stats').fetchall())
";
    let mut command = preloaded(python);
    command.arg("-c").arg(format!("{before}{program}")).arg(directory.join("db"));
    printed(&command.output().expect("runs"), on_error)
}

#[test]
fn shell_keeps_acknowledged_rows_through_a_kill() {
    if !is_here("sqlite3") {
        return;
    }
    let directory = folder();
    let path = directory.path().join("db");
    let mut shell = preloaded("sqlite3");
    let mut shell = shell
        .arg("-batch")
        .arg(&path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut input = shell.stdin.take().expect("piped");
    let mut output = BufReader::new(shell.stdout.take().expect("piped")).lines();
    input.write_all(b"CREATE TABLE t(a INTEGER PRIMARY KEY);\n").expect("taken");
    for row in 0..20 {
        // The shell itself writes to a pipe only when it ends.
        let insert = format!("INSERT INTO t VALUES({row});\n.shell echo {row}\n");
        input.write_all(insert.as_bytes()).expect("taken");
        assert_eq!(output.next().expect("a line").expect("read"), row.to_string());
    }
    shell.kill().expect("killed");
    shell.wait().expect("ends");

    let select = "SELECT count(*), max(a) FROM t; PRAGMA integrity_check";
    let stock = Command::new("sqlite3").arg(&path).arg(select).output().expect("runs");
    assert!(text(&stock.stderr).contains("not a database"), "{stock:?}");
    let ran = preloaded("sqlite3").arg(&path).arg(select).output().expect("runs");
    assert_eq!(printed(&ran, ""), "20|19\nok\n");
    let stock = Command::new("sqlite3").arg(&path).arg(select).output().expect("runs");
    assert_eq!(printed(&stock, ""), "20|19\nok\n");
}

/// The shell configures SQLite before it opens a database. URIs are then allowed, and can name
/// another VFS.
#[test]
fn named_vfs_is_used() {
    if !is_here("sqlite3") {
        return;
    }
    let directory = folder();
    let path = directory.path().join("db");
    let answer = |name: String, pragma: &str| {
        let ran = preloaded("sqlite3").arg(name).arg(pragma).output().expect("runs");
        printed(&ran, "")
    };
    let path = path.display();
    assert_eq!(answer(format!("file:{path}?vfs=unix"), "PRAGMA perdura_share"), "");
    assert_eq!(answer(format!("file:{path}?perdura_mode=full"), "PRAGMA perdura_mode"), "full\n");
    assert_eq!(answer(path.to_string(), "PRAGMA perdura_share"), "perdura\n");
}

#[test]
fn program_without_sqlite_is_unaffected() {
    let script = "echo out; echo err >&2; cat /dev/null; exit 3";
    let ran = preloaded("/bin/sh").args(["-c", script]).output().expect("runs");
    assert_eq!((text(&ran.stdout), text(&ran.stderr)), ("out\n".into(), "err\n".into()));
    assert_eq!(ran.status.code(), Some(3));
}

#[test]
fn every_open_function_uses_the_vfs_for_files_only() {
    for interpreter in pythons() {
        let directory = folder();
        // By these names a program calls this library.
        let program = "
program = ctypes.CDLL(None)
kept = sqlite3.connect(DB)
print(answers(kept), answers(sqlite3.connect(':memory:')), answers(sqlite3.connect('')))
def share(code, connection):
    assert code == 0, code
    rows = []
    note = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_char_p), ctypes.c_void_p)(
        lambda unused, count, values, names: rows.append(values[0]) or 0)
    library = ctypes.CDLL(_sqlite3.__file__)
    assert library.sqlite3_exec(connection, b'PRAGMA perdura_share', note, None, None) == 0
    assert library.sqlite3_close(connection) == 0
    print(rows)
connection = ctypes.c_void_p()
share(program.sqlite3_open(DB.encode(), ctypes.byref(connection)), connection)
share(program.sqlite3_open16(ctypes.create_string_buffer(DB.encode('utf-16-le') + bytes(2)), ctypes.byref(connection)), connection)
share(program.sqlite3_open_v2(DB.encode(), ctypes.byref(connection), 6, None), connection)
share(program.sqlite3_open_v2(DB.encode(), ctypes.byref(connection), 6, b'unix'), connection)
connection.value = 17
assert program.sqlite3_open_v2(DB.encode() + b'/no', ctypes.byref(connection), 6, None) == 14
assert ctypes.CDLL(_sqlite3.__file__).sqlite3_close(connection) == 0
";
        let ours = "[b'perdura']\n";
        let expected = format!("1 0 0\n{ours}{ours}{ours}[]\n");
        assert_eq!(python(interpreter, directory.path(), program, ""), expected);
    }
}

#[test]
fn threads_opening_first_databases_together_get_the_vfs() {
    for interpreter in pythons() {
        let directory = folder();
        let program = "
import threading
found = []
gate = threading.Barrier(8)
def work(number):
    gate.wait()
    connection = sqlite3.connect(DB + str(number))
    connection.execute('CREATE TABLE t(a)')
    found.append(answers(connection))
threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(sum(found))
";
        assert_eq!(python(interpreter, directory.path(), program, ""), "8\n");
    }
}

#[test]
fn vfs_is_default_again_after_sqlite_shutdown() {
    for interpreter in pythons() {
        let directory = folder();
        let program = "
connection = sqlite3.connect(DB)
print(answers(connection))
connection.close()
assert ctypes.CDLL(_sqlite3.__file__).sqlite3_shutdown() == 0
print(answers(sqlite3.connect(DB)))
";
        assert_eq!(python(interpreter, directory.path(), program, ""), "1\n1\n");
    }
}

#[test]
fn default_vfs_chosen_by_program_stays_with_one_warning() {
    for interpreter in pythons() {
        let directory = folder();
        let program = "
library = ctypes.CDLL(_sqlite3.__file__)
library.sqlite3_vfs_find.restype = ctypes.c_void_p
library.sqlite3_vfs_register(ctypes.c_void_p(library.sqlite3_vfs_find(b'unix-dotfile')), 1)
print(answers(sqlite3.connect(DB)), answers(sqlite3.connect(DB)))
";
        let out = python(interpreter, directory.path(), program, "chosen the VFS unix-dotfile");
        assert_eq!(out, "0 0\n");
    }
}

/// Another library with SQLite's functions is loaded by its own name. The one that Python's module
/// is linked with has to open the database: a connection of the other one would be useless to it.
#[test]
fn callers_sqlite_is_chosen_among_several() {
    for interpreter in pythons() {
        let directory = folder();
        let program = "
import shutil, os
(own,) = {line.split()[-1] for line in open('/proc/self/maps') if 'libsqlite3' in line}
copy = os.path.join(os.path.dirname(DB), 'other.so')
shutil.copy(own, copy)
other = ctypes.CDLL(copy)
assert ctypes.cast(other.sqlite3_open, ctypes.c_void_p).value != ctypes.cast(ctypes.CDLL(_sqlite3.__file__).sqlite3_open, ctypes.c_void_p).value
print(answers(sqlite3.connect(DB)))
other.sqlite3_vfs_find.restype = ctypes.c_void_p
print(other.sqlite3_vfs_find(b'perdura'))
# A caller in a library without SQLite may mean either.
connection = ctypes.c_void_p(17)
print(ctypes.CDLL(None).sqlite3_open(DB.encode(), ctypes.byref(connection)), connection.value)
";
        let out = python(interpreter, directory.path(), program, "several SQLites");
        assert_eq!(out, "1\nNone\n1 None\n");
    }
}

#[test]
fn open_functions_fail_without_sqlite() {
    for interpreter in pythons() {
        let program = "
import ctypes
connection = ctypes.c_void_p(17)
print(ctypes.CDLL(None).sqlite3_open(b'db', ctypes.byref(connection)), connection.value)
";
        let ran = preloaded(interpreter).args(["-c", program]).output().expect("runs");
        assert_eq!(printed(&ran, "there is no SQLite"), "1 None\n");
    }
}

/// A stand-in for a SQLite that is too old for the extension, and a program that opens a database
/// with it.
const OLD: &str = r#"
#include <string.h>
typedef struct { int version, file_bytes, longest_path; void *next; const char *name; } vfs;
static vfs own = {3, 8, 512, 0, "unix"};
static int (*extension)(void *, char **, void **);
static int refused;
static int number(void) { return 3033000; }
const char *sqlite3_libversion(void) { return "3.33.0"; }
vfs *sqlite3_vfs_find(const char *name) { return !name || !strcmp(name, "unix") ? &own : 0; }
int sqlite3_vfs_register(vfs *which, int is_default) { (void)which, (void)is_default; return 1; }
int sqlite3_auto_extension(int (*which)(void *, char **, void **)) { extension = which; return 0; }
int sqlite3_cancel_auto_extension(int (*which)(void *, char **, void **)) {
    int known = extension == which;
    if (known) extension = 0;
    return known;
}
int sqlite3_close(void *connection) { return connection ? 0 : 21; }
int sqlite3_open_v2(const char *name, void **connection, int flags, const char *vfs_name) {
    static void *routines[300];
    (void)name, (void)flags, (void)vfs_name;
    routines[67] = (void *)number;
    *connection = &own;
    if (extension && extension(*connection, 0, routines)) { refused++; return 1; }
    return 0;
}
int counted(void) { return refused; }
"#;
const CALLER: &str = r#"
#include <stdio.h>
int sqlite3_open_v2(const char *, void **, int, const char *);
int counted(void);
int main(void) {
    void *connection = 0;
    int first = sqlite3_open_v2("db", &connection, 6, 0), second = sqlite3_open_v2("db", &connection, 6, 0);
    printf("%d %d %d %d\n", first, second, connection != 0, counted());
    return 0;
}
"#;

#[test]
fn too_old_sqlite_runs_without_the_vfs_with_one_warning() {
    if !is_here("cc") {
        return;
    }
    let directory = folder();
    let at = |name: &str| directory.path().join(name);
    std::fs::write(at("old.c"), OLD).expect("written");
    std::fs::write(at("caller.c"), CALLER).expect("written");
    let compile = |arguments: &[&str]| {
        let mut compiler = Command::new("cc");
        compiler.current_dir(directory.path()).args(["-Wall", "-Wextra", "-Werror"]);
        assert!(compiler.args(arguments).status().expect("runs").success());
    };
    compile(&["-shared", "-fPIC", "-o", "libold.so", "old.c"]);
    compile(&["-o", "caller", "caller.c", "-L.", "-lold", "-Wl,-rpath,$ORIGIN"]);
    let caller = at("caller");
    let ran = preloaded(caller.to_str().expect("text")).output().expect("runs");
    // The extension refused both tries, and the calls continued.
    assert_eq!(printed(&ran, "SQLite 3.33.0 does not take the extension"), "0 0 1 2\n");
}
