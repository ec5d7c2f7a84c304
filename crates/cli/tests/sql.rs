//! `perdura sql` with input that is not typed.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use common::{Ran, perdura, run};
use peers::extension::open_stock;
use rusqlite::OpenFlags;
use rustix::process::{Pid, Signal};

/// A directory in memory: there the extension takes databases by itself.
fn folder() -> tempfile::TempDir {
    tempfile::Builder::new().tempdir_in("/dev/shm").expect("a directory")
}

/// Runs the shell on a database with options and this input.
fn shell(path: &Path, options: &[&str], input: &str) -> Ran {
    let mut child = perdura()
        .arg("sql")
        .arg(path)
        .args(options)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut stdin = child.stdin.take().expect("piped");
    // A shell that ends early does not read all of it.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let ran = Ran::from(child.wait_with_output().expect("ends"));
    assert!(!ran.err.contains("panicked"), "{ran:?}");
    ran
}

/// Returns the output of a shell that ends well.
fn printed(path: &Path, options: &[&str], input: &str) -> String {
    let ran = shell(path, options, input);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{ran:?}");
    ran.out
}

fn side_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-perdura");
    name.into()
}

const ROWS: &str = "CREATE TABLE t(a INTEGER PRIMARY KEY, b);\n\
    INSERT INTO t VALUES(1, 'one'), (2, NULL), (3, x'00ff'), (4, 1.0);\n";

#[test]
fn statements_are_run_through_the_extension_and_leave_a_plain_file() {
    let directory = folder();
    let path = directory.path().join("a b?c.db");
    let out = printed(&path, &[], &format!("{ROWS}SELECT * FROM t;\n.stats\nPRAGMA perdura_mode;"));
    assert!(out.starts_with("1|one\n2|\n3|X'00FF'\n4|1.0\n2 commits"), "{out}");
    assert!(out.ends_with("\nfash1\n"), "{out}");
    assert!(path.exists() && !side_of(&path).exists());
    let stock = open_stock(&path, OpenFlags::SQLITE_OPEN_READ_ONLY).expect("opens");
    let count: i64 =
        stock.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).expect("plain");
    assert_eq!(count, 4);
    let words = ["--mode", "full", "--domain", "adr", "PRAGMA perdura_mode", ".databases"];
    let out = printed(&path, &words, "");
    assert!(out.starts_with("full\nmain: ") && out.ends_with("(Perdura, domain adr)\n"), "{out}");
    let out = printed(&path, &["--mode", "stock", ".databases"], "");
    assert!(out.ends_with("(SQLite's own)\n"), "{out}");
}

#[test]
fn results_have_the_form_that_is_asked_for() {
    let directory = folder();
    let path = directory.path().join("db");
    printed(&path, &[], ROWS);
    let query = "SELECT a, b AS \"x,y\" FROM t WHERE a < 3;";
    for (options, wanted) in [
        (&["--format", "list", "--headers"][..], "a|x,y\n1|one\n2|\n"),
        (&["--format", "csv", "--headers"], "a,\"x,y\"\n1,one\n2,\n"),
        (&["--format", "json"], "[{\"a\":1,\"x,y\":\"one\"},\n{\"a\":2,\"x,y\":null}]\n"),
        (&["--format", "line"], "  a = 1\nx,y = one\n\n  a = 2\nx,y = \n"),
        (&["--format", "table"], "a  x,y\n-  ---\n1  one\n2\n"),
    ] {
        assert_eq!(printed(&path, options, query), wanted, "{options:?}");
    }
    let out =
        printed(&path, &[], ".mode csv\n.headers on\n.nullvalue nothing\nSELECT b FROM t;\n.mode");
    assert_eq!(out, "b\none\nnothing\nX'00FF'\n1.0\ncsv\n");
}

#[test]
fn errors_are_told_with_their_line_and_by_the_exit_code() {
    let directory = folder();
    let path = directory.path().join("db");
    let input =
        "CREATE TABLE t(a);\n-- a comment\n\nSELECT a,\n  absent\nFROM t;\n.fly\nSELECT 1;\n";
    let ran = shell(&path, &[], input);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), "1\n"), "the rest is run");
    let lines: Vec<&str> = ran.err.lines().collect();
    assert_eq!(lines.len(), 2, "{}", ran.err);
    assert!(lines[0].starts_with("perdura: standard input, line 5: no such column: absent"));
    assert!(lines[1].contains("line 7: `.fly` is no command"), "{}", ran.err);
    let ran = shell(&path, &["--bail"], input);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);

    let file = directory.path().join("script");
    fs::write(&file, "SELECT 2;\nSELEC 3;\n").expect("written");
    let ran = shell(&path, &[], &format!(".read '{}'\nSELECT 4", file.display()));
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), "2\n4\n"), "{ran:?}");
    assert!(ran.err.contains("script, line 2: near \"SELEC\""), "{}", ran.err);
    fs::write(&file, format!(".read {}\n", file.display())).expect("written");
    let ran = shell(&path, &[&format!(".read {}", file.display())], "");
    assert!(ran.code == Some(1) && ran.err.contains("is there an end?"), "{ran:?}");

    let ran = run(&["sql", "/nowhere/db", "SELECT 1"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("/nowhere/db: unable to open database file"), "{}", ran.err);
    let path = path.to_str().expect("text");
    assert_eq!(run(&["sql", path, "--format", "xml"]).code, Some(2));
    let ran = run(&["sql", path, "--read-only", "INSERT INTO t VALUES(1)"]);
    assert!(ran.code == Some(1) && ran.err.contains("readonly"), "{ran:?}");
}

#[test]
fn a_dump_makes_the_same_database_again() {
    let directory = folder();
    let (one, two) = (directory.path().join("one"), directory.path().join("two"));
    let odd = "CREATE TABLE \"odd \"\"name\"\"\"(k TEXT PRIMARY KEY, v, \
        twice AS (v || v)) WITHOUT ROWID;\n\
        INSERT INTO \"odd \"\"name\"\"\" VALUES('it''s', 'a\nb'), ('zero', 'c' || char(0) || 'd');\n\
        CREATE TABLE counted(i INTEGER PRIMARY KEY AUTOINCREMENT, r REAL);\n\
        INSERT INTO counted(r) VALUES(0.1), (9e999), (-1e-300); DELETE FROM counted WHERE i = 3;\n\
        CREATE INDEX by_r ON counted(r); CREATE VIEW v AS SELECT i FROM counted;\n\
        CREATE TRIGGER g AFTER INSERT ON t BEGIN DELETE FROM t WHERE a = -1; SELECT 1; END;\n";
    printed(&one, &[], &format!("{ROWS}{odd}"));
    let dump = printed(&one, &[".dump"], "");
    printed(&two, &[], &dump);
    assert_eq!(printed(&two, &[".dump"], ""), dump);
    let query = "SELECT k, hex(v), length(CAST(twice AS BLOB)) FROM \"odd \"\"name\"\"\"; SELECT * FROM counted; \
        SELECT seq FROM sqlite_sequence; SELECT quote(b) FROM t; PRAGMA integrity_check;";
    let found = printed(&two, &[query], "");
    assert_eq!(found, printed(&one, &[query], ""));
    assert!(found.contains("zero|630064|6\n") && found.ends_with("ok\n"), "{found}");
    let tables = printed(&two, &[".tables", ".indexes counted", ".schema v"], "");
    assert_eq!(
        tables,
        "counted\nodd \"name\"\nt\nv\nby_r\nCREATE VIEW v AS SELECT i FROM counted;\n"
    );
    assert!(printed(&one, &[".dump counted"], "").lines().count() < dump.lines().count());
}

#[test]
fn an_import_is_whole_or_nothing() {
    let directory = folder();
    let (path, csv) = (directory.path().join("db"), directory.path().join("a b.csv"));
    fs::write(&csv, "id,name\n1,Ada\n2,\"x, \"\"y\"\"\"\n").expect("written");
    let command = format!(".import '{}' people", csv.display());
    assert_eq!(printed(&path, &[&command, "SELECT * FROM people"], ""), "1|Ada\n2|x, \"y\"\n");
    fs::write(&csv, "3,Grace\n4\n").expect("written");
    let ran = shell(&path, &[&command, "SELECT count(*) FROM people"], "");
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), "2\n"));
    assert!(ran.err.contains("line 2: 1 values for 2 columns"), "{}", ran.err);
}

/// Answered statements are there after a kill, and nothing of the transaction that was open.
#[test]
fn a_killed_shell_loses_nothing_that_it_has_answered() {
    let directory = folder();
    let path = directory.path().join("db");
    let mut child = perdura()
        .arg("sql")
        .arg(&path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut stdin = child.stdin.take().expect("piped");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    writeln!(stdin, "CREATE TABLE t(a);").expect("taken");
    for number in 1..=20 {
        writeln!(stdin, "INSERT INTO t VALUES({number}) RETURNING a;").expect("taken");
        let answer = lines.next().expect("an answer").expect("text");
        assert_eq!(answer, number.to_string());
    }
    writeln!(stdin, "BEGIN; INSERT INTO t VALUES(21) RETURNING a;").expect("taken");
    assert_eq!(lines.next().expect("an answer").expect("text"), "21");
    child.kill().expect("killed");
    child.wait().expect("ends");
    assert!(side_of(&path).exists(), "it was not closed");
    let query = "SELECT count(*), max(a) FROM t; PRAGMA integrity_check;";
    assert_eq!(printed(&path, &[query], ""), "20|20\nok\n");
    assert!(!side_of(&path).exists());
}

/// Ctrl-C ends a shell that is not interactive; its open transaction is rolled back.
#[test]
fn an_interrupted_shell_ends() {
    let directory = folder();
    let path = directory.path().join("db");
    let mut child = perdura()
        .arg("sql")
        .arg(&path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut stdin = child.stdin.take().expect("piped");
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)";
    writeln!(stdin, "CREATE TABLE t(a); BEGIN; INSERT INTO t VALUES(1) RETURNING a;")
        .expect("taken");
    writeln!(stdin, "{endless} SELECT i FROM n WHERE i IN (1, -1);").expect("taken");
    writeln!(stdin, "SELECT 'behind';").expect("taken");
    let mut out = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    out.read_line(&mut line).expect("text");
    assert_eq!(line, "1\n");
    // Whether the endless one runs already does not show: it is asked to end until it has.
    let status = loop {
        // It may be gone already.
        let _ = rustix::process::kill_process(Pid::from_child(&child), Signal::INT);
        std::thread::yield_now();
        if let Some(status) = child.try_wait().expect("asked") {
            break status;
        }
    };
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(2), "{status}");
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut out, &mut rest).expect("text");
    assert!(!rest.contains("behind"), "{rest}");
    assert_eq!(printed(&path, &["SELECT count(*) FROM t"], ""), "0\n");
}
