//! Processes that write, and are killed, wait for locks or for room.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};

use crate::attached::{attach, insert};
use crate::committer::ready;
use crate::contents::{MORE, SHARE, check};
use crate::register::{open, register};
use crate::shared::{ALONE, open_shared, open_stock};
use crate::system::fork_a_child_that_lives_on;

/// The longest wait for a lock.
const LONG: Duration = Duration::from_secs(60);

/// Inserts one number, and changes the row of another one.
fn insert_and_update(connection: &Connection, first: i64, number: i64) -> rusqlite::Result<()> {
    let text = "x".repeat(number as usize * 37 % 900);
    connection.execute_batch(&format!(
        "BEGIN IMMEDIATE; INSERT INTO t VALUES({number}, '{text}');
         UPDATE t SET b = b || 'y' WHERE a = {first} + abs(random()) % {}; COMMIT",
        number - first + 1
    ))
}

fn acknowledge(number: i64) {
    let mut out = std::io::stdout();
    writeln!(out, "=done {number}").unwrap();
    out.flush().unwrap();
}

/// Inserts and prints numbers, and waits for input from time to time.
pub(crate) fn write(path: &Path, first: i64) {
    let connection = open(path).unwrap();
    connection.busy_timeout(LONG).unwrap();
    let mut left = SHARE;
    for number in first.. {
        if left == 0 {
            // With an open connection and no lock.
            if std::io::stdin().read_line(&mut String::new()).unwrap() == 0 {
                return;
            }
            println!("=going on");
            left = MORE;
        }
        left -= 1;
        insert_and_update(&connection, first, number).unwrap();
        acknowledge(number);
    }
}

/// Inserts and prints numbers, in a database that stock SQLite uses, too.
pub(crate) fn write_shared(path: &Path, way: &str, first: i64) {
    let connection = match way {
        "stock" => open_stock(path),
        ALONE => open(path).unwrap(),
        mode => open_shared(path, mode),
    };
    connection.busy_timeout(LONG).unwrap();
    for number in first..first + 5_000 {
        let mut refused = 0;
        loop {
            match insert_and_update(&connection, first, number) {
                Ok(()) => break,
                // Until a connection of this VFS has recovered after a kill.
                Err(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => {
                    let _ = connection.execute_batch("ROLLBACK");
                    refused += 1;
                    assert!(refused < 20_000, "no connection has recovered it");
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(error) => panic!("{error}"),
            }
        }
        acknowledge(number);
    }
    // It may have finished before stock SQLite began, which an unshared connection keeps out.
    if way == ALONE {
        connection.execute_batch("PRAGMA perdura_share=stock; PRAGMA user_version = 1").unwrap();
    }
}

/// Commits to two databases, and prints the keys.
pub(crate) fn write_pairs([one, two]: [&Path; 2], first: i64) {
    let connection = open(one).unwrap();
    connection.busy_timeout(LONG).unwrap();
    attach(&connection, two, "two", "perdura");
    for key in first.. {
        // Every third one is in one database only, and every fifth is rolled back.
        let names = if key % 3 == 0 { &["main"][..] } else { &["main", "two"] };
        let both = insert(names, key).replace("BEGIN", "BEGIN IMMEDIATE");
        let end = if key % 5 == 0 { "ROLLBACK" } else { "COMMIT" };
        connection.execute_batch(&both.replace("COMMIT", end)).unwrap();
        println!("=done {key}");
    }
}

/// Changes all rows, and prints whether it could commit.
pub(crate) fn commit_once(path: &Path, mode: &str) {
    let connection = open(path).unwrap();
    connection.busy_timeout(Duration::ZERO).unwrap();
    connection.execute_batch(&format!("PRAGMA perdura_mode = {mode}")).unwrap();
    match connection.execute_batch("UPDATE t SET b = b + 1, c = c || b") {
        Ok(()) => println!("=committed"),
        Err(error) => {
            assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy));
            println!("=busy");
        }
    }
}

/// Fills a database until there is no room, and continues when there is some.
pub(crate) fn fill(path: &Path) {
    let connection = open(path).unwrap();
    connection.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)").unwrap();
    let insert = |number: i64| {
        connection.execute("INSERT INTO t VALUES(?1, hex(zeroblob(20000)))", [number])
    };
    let (number, error) =
        (1..).find_map(|number| insert(number).err().map(|error| (number, error))).unwrap();
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DiskFull));
    check(&connection);
    let there: i64 = connection.query_row("SELECT max(a) FROM t", [], |row| row.get(0)).unwrap();
    assert_eq!(there, number - 1);
    // It continues once there is room.
    connection.execute("DELETE FROM t WHERE a > ?1", [number - 5]).unwrap();
    insert(number - 4).unwrap();
    connection.close().unwrap();
}

/// Creates a database by some statements.
pub(crate) fn create(uri: &Path, sql: &str) {
    register();
    ready();
    let one = open(uri).unwrap();
    one.execute_batch(sql).unwrap();
    one.close().unwrap();
    // The calls of the program's own end do not count.
    std::process::exit(0);
}

/// Runs statements and then idles. At the statement `FORK` it forks a child that lives on.
pub(crate) fn hold(path: &Path, sql: &str) {
    let connection = open(path).unwrap();
    for statement in sql.split(';') {
        if statement.trim() == "FORK" {
            fork_a_child_that_lives_on();
            continue;
        }
        // A busy connection keeps its locks.
        let _ = connection.execute_batch(statement);
    }
    println!("=holds");
    // Until it is killed, or its parent ends.
    let _ = std::io::stdin().read_line(&mut String::new());
}
