//! The process whose calls fail, or that is killed: its work on one or two databases, and its output.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use rusqlite::Connection;

use crate::register::open;

const URIS: &str = "PERDURA_TEST_URIS";
const KEY: &str = "PERDURA_TEST_KEY";
const WORK: &str = "PERDURA_TEST_WORK";
const SIZE: &str = "PERDURA_TEST_SIZE";
const HELD_LOCKS: &str = "PERDURA_TEST_HELD_LOCKS";

/// The databases of a connection.
pub(crate) const NAMES: [&str; 2] = ["main", "two"];
/// Added to the key in later transactions: one of a single database, one of both, and one after the failures end.
pub(crate) const ALONE: i64 = 1_000_000;
pub(crate) const AGAIN: i64 = 2_000_000;
pub(crate) const THEN: i64 = 3_000_000;

/// The longest wait of a connection that is not locked out.
pub(crate) const LONG: Duration = Duration::from_secs(10);

/// Input lines that let it continue, and close what it opens then, or keep it open.
pub(crate) const CLOSE: &str = "close\n";
pub(crate) const KEEP: &str = "keep\n";

/// What the process does while calls fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Work {
    /// Commits.
    Commit,
    /// Commits, runs other transactions, and closes nothing.
    Commits,
    /// Commits, runs other transactions, and closes.
    Life,
    Close,
    /// Opens, reads, and closes.
    Open,
}

/// The locks that a connection keeps after a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HeldLocks {
    /// None.
    Normal,
    /// All.
    Exclusive,
    /// Those of a statement that is still reading.
    Reading,
}

/// How a transaction changes the file's length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Size {
    Stays,
    /// The file grows.
    Grows,
    /// The file shrinks.
    Cuts,
}

impl Size {
    fn sql(self) -> &'static str {
        match self {
            Self::Stays => "",
            Self::Grows => "INSERT INTO {}.t VALUES(0, hex(zeroblob(20000)));",
            Self::Cuts => "DELETE FROM {}.t WHERE a = 0;",
        }
    }
}

/// The SQL of a transaction over some databases, without its end. It must not lock all attached databases, which
/// would make it a transaction over all of them.
pub(crate) fn transaction(names: &[&str], key: i64, size: Size) -> String {
    let each = format!("INSERT INTO {{}}.t VALUES({key}, 'x'); {}", size.sql());
    let all = names.iter().map(|name| each.replace("{}", name));
    format!("BEGIN; {}", all.collect::<String>())
}

/// A connection that waits for locks at most that long.
pub(crate) fn connect(uris: &[String], wait: Duration) -> rusqlite::Result<Connection> {
    let connection = open(Path::new(&uris[0]))?;
    connection.busy_timeout(wait)?;
    for (uri, name) in uris.iter().zip(NAMES).skip(1) {
        connection.execute_batch(&format!("ATTACH '{uri}' AS {name}"))?;
    }
    Ok(connection)
}

/// The keys in each database.
pub(crate) fn keys_of(connection: &Connection, names: &[&str]) -> rusqlite::Result<Vec<Vec<i64>>> {
    let keys = |name: &&str| {
        let mut select = connection.prepare(&format!("SELECT a FROM {name}.t ORDER BY a"))?;
        select.query_map([], |row| row.get(0))?.collect()
    };
    names.iter().map(keys).collect()
}

fn named<T: std::fmt::Debug>(mut all: impl Iterator<Item = T>, variable: &str) -> T {
    let name = std::env::var(variable).unwrap();
    all.find(|one| format!("{one:?}") == name).unwrap()
}

/// Reports this thread, and waits for a line.
pub(crate) fn ready() {
    let thread = std::fs::read_link("/proc/thread-self").unwrap();
    println!("=ready {}", thread.file_name().unwrap().to_str().unwrap());
    wait();
}

/// Reads a line.
fn wait() -> String {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    line
}

#[test]
#[ignore = "a process of the other tests"]
fn committer() {
    let Ok(uris) = std::env::var(URIS) else { return };
    let uris: Vec<String> = uris.split('\n').map(str::to_owned).collect();
    let names = &NAMES[..uris.len()];
    let key: i64 = std::env::var(KEY).unwrap().parse().unwrap();
    let sizes = [Size::Stays, Size::Grows, Size::Cuts].into_iter();
    let size = named(sizes, SIZE);
    let works = [Work::Commit, Work::Commits, Work::Life, Work::Close, Work::Open].into_iter();
    let work = named(works, WORK);
    let held_locks = [HeldLocks::Normal, HeldLocks::Exclusive, HeldLocks::Reading].into_iter();
    let held_locks = named(held_locks, HELD_LOCKS);
    let begun = transaction(names, key, size);
    let mut connection = None;
    // If the kernel does not say who holds a lock, no connection is waited for.
    let short = Duration::from_millis(20);
    let new = |wait| connect(&uris, wait);
    if work == Work::Open {
        crate::register::register();
        ready();
        println!("=first {:?}", new(short).and_then(|one| keys_of(&one, names)));
    } else {
        let one = new(LONG).unwrap();
        if held_locks == HeldLocks::Exclusive {
            one.execute_batch("PRAGMA locking_mode = EXCLUSIVE").unwrap();
        }
        let tables = names.iter().map(|name| format!("{name}.sqlite_schema")).collect::<Vec<_>>();
        let mut select = one.prepare(&format!("SELECT 1 FROM {}", tables.join(", "))).unwrap();
        let mut reading = select.query([]).unwrap();
        if held_locks == HeldLocks::Reading {
            reading.next().unwrap().unwrap();
        }
        one.execute_batch(&begun).unwrap();
        if work == Work::Close {
            one.execute_batch("COMMIT").unwrap();
            drop(reading);
            drop(select);
            ready();
            println!("=first {:?}", one.close().map_err(|(_, error)| error));
        } else {
            one.busy_timeout(short).unwrap();
            ready();
            println!("=first {:?}", one.execute_batch("COMMIT"));
            if work == Work::Commit {
                std::process::exit(0);
            }
            go_on(&one, names, key);
            drop(reading);
            drop(select);
            if work == Work::Life {
                println!("=closed {:?}", one.close().map_err(|(_, error)| error));
            } else {
                connection = Some(one);
            }
        }
    }
    println!("=marked");
    crate::ptrace::mark();
    if connection.is_none() {
        let closes = wait() == CLOSE;
        let sql = transaction(names, THEN + key, Size::Stays);
        let then = new(LONG).and_then(|one| {
            one.execute_batch(&format!("{sql} COMMIT"))?;
            if !closes {
                connection = Some(one);
            }
            Ok(())
        });
        println!("=then {then:?}");
        wait();
    }
    // Open connections are not closed.
    std::process::exit(0);
}

/// Ends the first transaction in any case, and commits others.
fn go_on(connection: &Connection, names: &[&str], key: i64) {
    let commit = |sql: String| {
        let result = connection.execute_batch(&format!("{sql} COMMIT"));
        if !connection.is_autocommit() {
            let _ = connection.execute_batch("ROLLBACK");
        }
        result
    };
    if !connection.is_autocommit() {
        let _ = connection.execute_batch("ROLLBACK");
    }
    for (number, name) in names.iter().enumerate() {
        let sql = transaction(&[name], ALONE + key, Size::Stays);
        println!("=alone-{number} {:?}", commit(sql));
    }
    println!("=again {:?}", commit(transaction(names, AGAIN + key, Size::Stays)));
}

/// A started process, which waits for input.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) child: Child,
    pub(crate) thread: i32,
    pub(crate) stdin: ChildStdin,
    out: BufReader<ChildStdout>,
}

impl Process {
    pub(crate) fn start(
        uris: &[String],
        (work, size, held_locks): (Work, Size, HeldLocks),
        key: i64,
    ) -> Self {
        let mut command = Self::of_test("failing::child::committer");
        command
            .env(URIS, uris.join("\n"))
            .env(WORK, format!("{work:?}"))
            .env(KEY, key.to_string())
            .env(SIZE, format!("{size:?}"))
            .env(HELD_LOCKS, format!("{held_locks:?}"));
        Self::spawn(&mut command)
    }

    /// The command that runs an ignored test in a process of its own.
    pub(crate) fn of_test(name: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", name, "--ignored", "--nocapture", "--test-threads=1"]);
        command
    }

    /// Starts a process, up to where it is [`ready`].
    pub(crate) fn spawn(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let output = output_until(&mut out, "=ready ");
        let thread = output.split("=ready ").nth(1).expect("it is ready").trim().parse().unwrap();
        let stdin = child.stdin.take().unwrap();
        Self { child, thread, stdin, out }
    }

    /// Returns its output up to a line with a word, or to the end.
    pub(crate) fn output_until(&mut self, word: &str) -> String {
        output_until(&mut self.out, word)
    }
}

fn output_until(out: &mut impl BufRead, word: &str) -> String {
    let mut output = String::new();
    while out.read_line(&mut output).unwrap() > 0 {
        if output.lines().last().is_some_and(|line| line.contains(word)) {
            break;
        }
    }
    output
}

/// Returns whether a process reported success or an error of a step.
pub(crate) fn outcome(output: &str, what: &str) -> Option<bool> {
    let line = output.split(&format!("={what} ")).nth(1)?;
    Some(line.starts_with("Ok"))
}
