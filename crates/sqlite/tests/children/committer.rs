//! A process whose calls fail, or that is killed: its work on one or two databases, and its output.

use std::time::Duration;

use rusqlite::Connection;

use crate::protocol::{
    AGAIN, ALONE, CLOSE, HeldLocks, LONG, NAMES, Size, THEN, Work, connect, keys_of, transaction,
};

fn named<T: std::fmt::Debug>(mut all: impl Iterator<Item = T>, name: &str) -> T {
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

/// Does its work; calls fail from where it is [`ready`].
pub(crate) fn commit(uris: &[String], [work, size, held_locks]: [&str; 3], key: i64) {
    let names = &NAMES[..uris.len()];
    let size = named([Size::Stays, Size::Grows, Size::Cuts].into_iter(), size);
    let works = [Work::Commit, Work::Commits, Work::Life, Work::Close, Work::Open].into_iter();
    let work = named(works, work);
    let all = [HeldLocks::Normal, HeldLocks::Exclusive, HeldLocks::Reading].into_iter();
    let held_locks = named(all, held_locks);
    let begun = transaction(names, key, size);
    let mut connection = None;
    // If the kernel does not say who holds a lock, no connection is waited for.
    let short = Duration::from_millis(20);
    let new = |wait| connect(uris, wait);
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
    crate::system::mark();
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
