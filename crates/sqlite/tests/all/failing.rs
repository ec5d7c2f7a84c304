//! Calls to the kernel that fail, or at which the process is killed, in a commit, also beside stock SQLite.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};

use crate::registered::open;
use crate::sql::{check, folder, stock};
use crate::traced::{End, kill_at_call};

const PATH: &str = "PERDURA_TEST_PATH";
const KEY: &str = "PERDURA_TEST_KEY";
const WAY: &str = "PERDURA_TEST_WAY";
/// The work of the process while calls fail.
const WORK: &str = "PERDURA_TEST_WORK";
/// Keys of what is inserted when nothing fails any more.
const THEN: i64 = 1_000_000;

/// How the database is opened: beside stock SQLite or not, with one fence and with a log of frames.
const WAYS: [&str; 4] = [
    "perdura_share=stock&perdura_mode=fash1",
    "perdura_share=stock&perdura_mode=nvwal",
    "perdura_share=perdura&perdura_mode=fash1",
    "perdura_share=perdura&perdura_mode=nvwal",
];

fn is_shared(way: &str) -> bool {
    way.contains("=stock")
}

fn open_as(path: &Path, way: &str) -> Connection {
    let uri = format!("file:{}?{way}", path.display());
    let connection = open(Path::new(&uri)).unwrap();
    connection.busy_timeout(Duration::from_secs(60)).unwrap();
    connection
}

/// The file grows with one transaction, and is cut with the next one.
fn large(key: i64) -> &'static str {
    match key % 2 {
        0 => "INSERT INTO t VALUES(0, hex(zeroblob(20000)))",
        _ => "DELETE FROM t WHERE a = 0",
    }
}

#[test]
#[ignore = "a process of the other tests"]
fn committer() {
    let Ok(path) = std::env::var(PATH) else { return };
    let key: i64 = std::env::var(KEY).unwrap().parse().unwrap();
    let way = std::env::var(WAY).unwrap();
    let ready = || {
        let thread = std::fs::read_link("/proc/thread-self").unwrap();
        println!("=ready {}", thread.file_name().unwrap().to_str().unwrap());
        // That may be the call that fails.
        let _ = std::io::stdin().read_line(&mut String::new());
    };
    let insert = format!("INSERT INTO t VALUES({key}, 'x')");
    match &std::env::var(WORK).unwrap()[..] {
        "open" => {
            crate::registered::register();
            ready();
            let uri = format!("file:{path}?{way}");
            println!("=told {:?}", open(Path::new(&uri)).and_then(|one| keys(&one)));
            // One call fails: it goes well by the second time.
            let insert = insert.replace("INSERT", "INSERT OR IGNORE");
            let then = || open(Path::new(&uri)).and_then(|one| one.execute_batch(&insert));
            println!("=then {:?}", then().or_else(|_| then()));
            std::process::exit(0);
        }
        "close" => {
            let connection = open_as(Path::new(&path), &way);
            connection.execute_batch(&insert).unwrap();
            ready();
            println!("=told {}", connection.close().is_ok());
            std::process::exit(0);
        }
        _ => {}
    }
    let connection = open_as(Path::new(&path), &way);
    let begun = format!("BEGIN IMMEDIATE; INSERT INTO t VALUES({key}, 'x'); {}", large(key));
    connection.execute_batch(&begun).unwrap();
    ready();
    let committed = connection.execute_batch("COMMIT");
    println!("=told {committed:?}");
    let _ = connection.execute_batch("ROLLBACK");
    // What was wrong has gone.
    let then = connection.execute_batch(&format!("INSERT INTO t VALUES({}, 'then')", THEN + key));
    println!("=then {then:?}");
    // Without closing anything.
    std::process::exit(0);
}

/// A process that commits this key when it is told to, the number of its thread, and the rest of what it tells.
fn start(path: &Path, way: &str, work: &str, key: i64) -> (Child, i32, BufReader<ChildStdout>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "failing::committer", "--ignored", "--nocapture", "--test-threads=1"])
        .env(PATH, path)
        .env(WAY, way)
        .env(WORK, work)
        .env(KEY, key.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let thread = thread_of(&mut out);
    (child, thread, out)
}

/// The number of the thread of a process that is ready.
fn thread_of(out: &mut impl BufRead) -> i32 {
    let mut lines = out.lines().map_while(Result::ok);
    let line = lines.find(|line| line.contains("=ready ")).expect("it is ready");
    line.split("=ready ").nth(1).unwrap().trim().parse().unwrap()
}

/// The keys of a database.
fn keys(connection: &Connection) -> rusqlite::Result<Vec<i64>> {
    let mut select = connection.prepare("SELECT a FROM t ORDER BY a")?;
    select.query_map([], |row| row.get(0))?.collect()
}

/// Returns what stock SQLite finds, if it is not refused, and then ours, which have to be alike.
fn found(path: &Path, way: &str, number: i64) -> (bool, Vec<i64>) {
    let stocks = Connection::open(path).unwrap();
    let first = match keys(&stocks) {
        Ok(keys) => {
            check(&stocks);
            Some(keys)
        }
        Err(error) => {
            let code = error.sqlite_error_code();
            assert_eq!(code, Some(ErrorCode::NotADatabase), "{way}, call {number}: {error}");
            None
        }
    };
    let ours = open_as(path, way);
    check(&ours);
    let found = keys(&ours).unwrap();
    assert_eq!(first.clone().unwrap_or_else(|| found.clone()), found, "{way}, call {number}");
    if !is_shared(way) {
        ours.close().unwrap();
    }
    // Whoever opens it lets stock SQLite in again, or whoever closes it.
    assert_eq!(keys(&stocks).unwrap(), found, "{way}, call {number}");
    let wants_large = found.iter().rfind(|key| (1..THEN).contains(*key)).map(|key| key % 2 == 0);
    assert_eq!(wants_large.unwrap_or(false), found.first() == Some(&0), "{way}, call {number}");
    (first.is_none(), found)
}

/// Does what a transaction was to do that was not committed: the next one finds what it expects.
fn insert_late(path: &Path, key: i64) {
    let sql = format!("BEGIN; INSERT INTO t VALUES({key}, 'late'); {}; COMMIT", large(key));
    Connection::open(path).unwrap().execute_batch(&sql).unwrap();
}

fn new_database(path: &Path) {
    let create = "PRAGMA auto_vacuum = full; CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)";
    Connection::open(path).unwrap().execute_batch(create).unwrap();
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_call_that_fails_in_a_commit_is_told_and_all_is_as_before_or_does_no_harm() {
    WAYS.into_iter().for_each(fail_at_every_call);
}

#[cfg(target_arch = "x86_64")]
fn fail_at_every_call(way: &str) {
    let folder = folder();
    let path = &folder.path().join("db");
    new_database(path);
    let (mut committed, mut refused, mut marked) = (0, 0, 0);
    // Each call once in a transaction with which the file grows, and once in one that cuts it.
    for number in 1.. {
        let mut has_failed = false;
        for key in [2 * number, 2 * number + 1] {
            let (mut child, thread, mut out) = start(path, way, "commit", key);
            let mut stdin = child.stdin.take().unwrap();
            let go = || stdin.write_all(b"\n").unwrap();
            has_failed |= crate::traced::fail_at_call(&mut child, thread, number as usize, go);
            let mut told = String::new();
            out.read_to_string(&mut told).unwrap();
            let (is_marked, keys) = found(path, way, number);
            let has = keys.contains(&key);
            assert_eq!(has, told.contains("=told Ok"), "{way}, call {number}, {key}: {told}");
            let then = keys.contains(&(THEN + key));
            assert_eq!(then, told.contains("=then Ok"), "{way}, call {number}, {key}: {told}");
            *if has { &mut committed } else { &mut refused } += 1;
            marked += i32::from(is_marked);
            if !has {
                insert_late(path, key);
            }
        }
        if !has_failed {
            break;
        }
    }
    println!(
        "{way}: {committed} with the transaction, {refused} without it, {marked} with the marker"
    );
    assert!(committed > 5 && refused > 2, "{way}: {committed}, {refused}");
    drop(open_as(path, way));
    check(&stock(path));
}

#[test]
fn a_kill_at_any_call_of_a_commit_leaves_all_of_it_or_nothing() {
    WAYS.into_iter().for_each(kill_at_every_call);
}

fn kill_at_every_call(way: &str) {
    let folder = folder();
    let path = &folder.path().join("db");
    new_database(path);
    let (mut committed, mut refused, mut marked) = (0, 0, 0);
    for number in 1.. {
        let mut exits = true;
        for key in [2 * number, 2 * number + 1] {
            let (mut child, thread, mut out) = start(path, way, "commit", key);
            let mut stdin = child.stdin.take().unwrap();
            let go = || stdin.write_all(b"\n").unwrap();
            let end = kill_at_call(&mut child, thread, number as usize, go);
            let mut told = String::new();
            out.read_to_string(&mut told).unwrap();
            exits &= end == End::Exited;
            let (is_marked, keys) = found(path, way, number);
            let has = keys.contains(&key);
            assert!(has || !told.contains("=told Ok"), "{way}, call {number}, {key}: {told}");
            *if has { &mut committed } else { &mut refused } += 1;
            marked += i32::from(is_marked);
            if !has {
                insert_late(path, key);
            }
        }
        if exits {
            break;
        }
    }
    println!(
        "{way}: {committed} with the transaction, {refused} without it, {marked} with the marker"
    );
    assert!(committed > 5 && refused > 2 && marked > 2, "{way}: {committed}, {refused}, {marked}");
    drop(open_as(path, way));
    check(&stock(path));
}

/// Behind a kill, or rather an end without closing anything, and behind a clean close.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_call_that_fails_while_a_database_is_opened_or_closed_loses_nothing() {
    for way in WAYS {
        for work in ["open", "close"] {
            let folder = folder();
            let path = &folder.path().join("db");
            new_database(path);
            let mut told_errors = 0;
            for number in 1.. {
                let (mut child, thread, mut out) = start(path, way, work, number);
                let mut stdin = child.stdin.take().unwrap();
                let go = || stdin.write_all(b"\n").unwrap();
                let failed = crate::traced::fail_at_call(&mut child, thread, number as usize, go);
                let mut told = String::new();
                out.read_to_string(&mut told).unwrap();
                let text = || format!("{way}, {work}, call {number}: {told}");
                // Telling is a call, too: then it was opened, and the calls behind that are those of a commit.
                let is_behind =
                    work == "open" && told.contains("=told Ok") && told.contains("FAILED");
                let before: Vec<i64> = (1..number).collect();
                let right = format!("=told Ok({before:?})");
                assert!(
                    work == "close" || told.contains("=told Err") || told.contains(&right),
                    "{}",
                    text()
                );
                let goes_on = work == "close" || is_behind || told.contains("=then Ok");
                assert!(goes_on, "{}", text());
                told_errors +=
                    i32::from(told.contains("=told Err") || told.contains("=told false"));
                // Every second time the next one opens what is left.
                if number % 2 == 0 && !is_behind {
                    let ours = open_as(path, way);
                    check(&ours);
                    assert_eq!(
                        keys(&ours).unwrap(),
                        (1..=number).collect::<Vec<_>>(),
                        "{}",
                        text()
                    );
                }
                if !failed || is_behind {
                    println!("{way}, {work}: {number} calls, {told_errors} errors");
                    assert!(
                        number > 10 && (told_errors > 2 || work == "close"),
                        "{number}, {told_errors}"
                    );
                    break;
                }
            }
            drop(open_as(path, way));
            check(&stock(path));
        }
    }
}
