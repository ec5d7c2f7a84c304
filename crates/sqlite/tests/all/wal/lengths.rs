//! Changes of the lengths of the log and of the database, next to other connections, and in processes that are killed.

use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;

use super::costs::in_domain;
use super::*;
use crate::children::child;
use crate::failing::child::Process;
use crate::kernel_calls::watching_syncs;
use crate::ptrace::{Call, End, kill_after_truncation, work_at};

/// The places of the durable lengths of a log and of a database in the index file.
const LOG_SYNCED_AT: usize = 4624;
const SYNCED_AT: usize = 4640;

fn word(path: &Path, at: usize) -> u64 {
    let index = std::fs::read(index_of(path)).unwrap();
    u64::from_le_bytes(index[at..][..8].try_into().unwrap())
}

/// The durable length of a log, as its index file has it.
pub(super) fn synced_length(path: &Path) -> u64 {
    word(path, LOG_SYNCED_AT)
}

pub(super) fn length_of_log(path: &Path) -> u64 {
    std::fs::metadata(log_of(path)).unwrap().len()
}

/// A process that opens a database, runs statements, and closes it, once it is let go.
fn runs(uri: &Path, sql: &str) -> Process {
    Process::spawn(child("creator").arg(with_wal(uri)).arg(sql))
}

fn create(connection: &Connection) {
    connection
        .execute_batch(
            "PRAGMA page_size = 512; PRAGMA auto_vacuum = FULL; PRAGMA wal_autocheckpoint = 0;
             CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)",
        )
        .unwrap();
    assert_eq!(journal_mode(connection, "wal"), "wal");
}

fn insert(by: &Connection, keys: std::ops::Range<i64>) {
    for key in keys {
        by.execute("INSERT INTO t VALUES(?1, hex(zeroblob(150)))", [key]).unwrap();
    }
}

#[test]
fn killed_truncation_leaves_no_durable_length() {
    let directory = folder();
    let path = directory.path().join("db");
    let one = in_domain(&path, "adr");
    one.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)").unwrap();
    let uri = format!("file:{}?perdura_domain=adr", path.display());
    for number in 1..4 {
        insert(&one, number * 2..number * 2 + 2);
        assert_eq!(synced_length(&path), length_of_log(&path));
        let mut process = runs(Path::new(&uri), "PRAGMA wal_checkpoint(TRUNCATE)");
        let go = || process.stdin.write_all(b"\n").unwrap();
        let end = kill_after_truncation(&mut process.child, process.thread, go, || {});
        assert_eq!((end, length_of_log(&path)), (End::Killed, 0));
        assert_eq!(synced_length(&path), 0);
        assert_eq!(rows(&one).len() as i64, number * 2);
    }
}

/// Another connection truncates the log, and begins it anew, at each call of one that opens it.
#[test]
fn log_is_truncated_while_another_opens_it() {
    let directory = folder();
    let path = directory.path().join("db");
    let one = open(&path).unwrap();
    create(&one);
    one.busy_timeout(Duration::ZERO).unwrap();
    let (mut key, mut truncated) = (0, 0);
    for number in 1.. {
        let before = key;
        insert(&one, key..key + 6);
        key += 8;
        let theirs = key - 1;
        let mut process = runs(&path, &format!("INSERT INTO t VALUES({theirs}, 'theirs')"));
        let go = || process.stdin.write_all(b"\n").unwrap();
        let mut worked = false;
        let work = || {
            worked = true;
            // If the other one has a lock, this one goes without.
            let _ = one.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
            truncated += usize::from(length_of_log(&path) == 0);
            let _ = one.execute("INSERT INTO t VALUES(?1, 'ours')", [theirs - 1]);
        };
        let counts = Call::is_of_files;
        work_at(&mut process.child, process.thread, number, counts, go, work);
        let keys: Vec<i64> = rows(&one).into_iter().map(|row| row.0).collect();
        assert!(keys.contains(&theirs), "call {number}");
        assert!((before..before + 6).all(|key| keys.contains(&key)), "call {number}");
        check(&one);
        if !worked {
            break;
        }
    }
    assert!(truncated > 20, "{truncated}");
    one.close().unwrap();
    closed(&path, 2);
}

/// A process that truncates the database dies directly after that. Another one has looked at the length before.
#[test]
fn killed_truncation_of_the_database_is_seen() {
    let directory = folder();
    let path = directory.path().join("db");
    let one = open(&path).unwrap();
    create(&one);
    one.execute_batch("PRAGMA cache_size = 2").unwrap();
    one.busy_timeout(Duration::from_secs(10)).unwrap();
    insert(&one, 0..100);
    checkpoint(&one, "TRUNCATE");
    let mut process = runs(&path, "DELETE FROM t WHERE a >= 50; PRAGMA wal_checkpoint(FULL)");
    let go = || process.stdin.write_all(b"\n").unwrap();
    let length = || std::fs::metadata(&path).unwrap().len();
    let before = length();
    let work = || assert_eq!(rows(&one).len(), 50);
    let end = kill_after_truncation(&mut process.child, process.thread, go, work);
    assert_eq!(end, End::Killed);
    assert!(length() < before);
    // Pages are stored again where the file has been longer.
    insert(&one, 200..245);
    assert_eq!(checkpoint(&one, "TRUNCATE").0, 0);
    assert_eq!(rows(&one).len(), 95);
    check(&one);
    one.close().unwrap();
    assert_eq!(rows(&closed(&path, 2)).len(), 95);
}

/// A later store into a hole would need space, which a full medium has not.
#[test]
fn partial_checkpoint_leaves_no_hole() {
    let directory = folder();
    let path = directory.path().join("db");
    let one = open(&path).unwrap();
    create(&one);
    one.execute_batch("BEGIN").unwrap();
    insert(&one, 0..200);
    one.execute_batch("COMMIT").unwrap();
    let reader = open_wal(&path);
    reader.execute_batch("BEGIN; SELECT count(*) FROM t").unwrap();
    one.execute_batch("UPDATE t SET b = hex(randomblob(150)) WHERE a < 100").unwrap();
    let before = std::fs::metadata(&path).unwrap().len();
    let (_, log, done) = checkpoint(&one, "PASSIVE");
    assert!(0 < done && done < log, "{done} of {log}");
    let file = std::fs::metadata(&path).unwrap();
    assert!(file.len() > before + 50_000, "{before}, {}", file.len());
    assert!(file.blocks() * 512 >= file.len(), "{} of {}", file.blocks() * 512, file.len());
    reader.execute_batch("COMMIT").unwrap();
    drop(reader);
    assert_eq!(checkpoint(&one, "TRUNCATE").0, 0);
    assert_eq!(rows(&one).len(), 200);
    one.close().unwrap();
    closed(&path, 2);
}

/// In a domain that outlasts a power cut a length does not, unless it is synced.
#[test]
fn length_of_the_log_is_synced_where_nothing_is_flushed() {
    for (domain, is_synced) in [("process", false), ("eadr", true), ("adr", true)] {
        let directory = folder();
        let path = directory.path().join("db");
        let one = in_domain(&path, domain);
        one.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)").unwrap();
        insert(&one, 0..20);
        let length = if is_synced { length_of_log(&path) } else { 0 };
        assert_eq!(synced_length(&path), length, "{domain}");
        checkpoint(&one, "TRUNCATE");
        let length = if is_synced { std::fs::metadata(&path).unwrap().len() } else { 0 };
        assert_eq!(word(&path, SYNCED_AT), length, "{domain}");
    }
}

/// A database that has left WAL mode may change without a log. One that a power cut brought back would undo that.
#[test]
fn name_of_a_removed_log_stays_removed() {
    let directory = folder();
    let path = directory.path().join("db");
    let one = open_wal(&path);
    one.execute_batch("CREATE TABLE t(a, b); INSERT INTO t VALUES(1, 'one')").unwrap();
    let (log, folder) = (log_of(&path), directory.path().to_owned());
    let (sent, synced) = std::sync::mpsc::channel();
    let watch = move |path: &Path| {
        if path == folder {
            sent.send(log.exists()).unwrap();
        }
    };
    watching_syncs(Box::new(watch), || assert_eq!(journal_mode(&one, "delete"), "delete"));
    assert!(synced.iter().any(|is_there| !is_there));
}
