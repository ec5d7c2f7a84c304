//! Connections that do, and do not, ask for a differential log: all of a database have it, or none.

use super::*;

fn in_domain(path: &Path, domain: &str, wal: &str) -> rusqlite::Result<Connection> {
    let uri = format!("file:{}?perdura_domain={domain}&perdura_wal={wal}", path.display());
    open(Path::new(&uri))
}

fn code<T: std::fmt::Debug>(result: rusqlite::Result<T>) -> Option<ErrorCode> {
    result.unwrap_err().sqlite_error_code()
}

#[test]
fn differential_log_is_refused_where_nothing_has_to_be_flushed() {
    let directory = folder();
    let path = directory.path().join("db");
    for domain in ["process", "eadr", "disk"] {
        assert_eq!(code(in_domain(&path, domain, "diff")), Some(ErrorCode::CannotOpen), "{domain}");
    }
    let uri = |text: &str| PathBuf::from(format!("{}{text}", with_records(&path).display()));
    for text in ["&perdura_share=stock", "&perdura_mode=stock"] {
        assert_eq!(code(open(&uri(text))), Some(ErrorCode::CannotOpen), "{text}");
    }
    // The medium's own domain is that of memory.
    let natural = format!("file:{}?perdura_wal=diff", path.display());
    assert_eq!(code(open(Path::new(&natural))), Some(ErrorCode::CannotOpen));
    assert!(!records_of(&path).exists() && !side_of(&path).exists());
    let one = in_domain(&path, "adr", "diff").unwrap();
    assert_eq!(journal_mode(&one, "wal"), "wal");
    assert!(one.execute_batch("PRAGMA perdura_wal = on").is_err());
}

/// Stock SQLite has the database in WAL mode: a connection that asks for a differential log is not left to it.
#[test]
fn differential_log_is_refused_next_to_stock() {
    let directory = folder();
    let path = directory.path().join("db");
    let stock = Connection::open(&path).unwrap();
    stock.execute_batch(&format!("PRAGMA journal_mode = wal; {CREATE}")).unwrap();
    assert_eq!(code(open(&with_records(&path))), Some(ErrorCode::CannotOpen));
    stock.close().unwrap();
    assert_eq!(log_in_use(&open_diff(&path)), "diff");
}

#[test]
fn later_connections_get_what_the_first_one_has() {
    let directory = folder();
    let path = directory.path().join("db");
    let first = open_diff(&path);
    first.execute_batch(CREATE).unwrap();
    let other = open_wal(&without_records(&path));
    other.execute_batch("INSERT INTO t VALUES(1, 'other')").unwrap();
    assert_eq!(log_in_use(&other), "diff");
    // One that flushes nothing would commit nothing durably.
    let process = open(&path).unwrap();
    assert_eq!(code(process.execute_batch("SELECT * FROM t")), Some(ErrorCode::CannotOpen));
    drop(process);
    drop(first);
    first_is_gone(&path, &other);
    other.close().unwrap();
    assert_eq!(rows(&closed_diff(&path)).len(), 2);
    // The other way round.
    let first = open_wal(&without_records(&path));
    first.execute_batch("INSERT INTO t VALUES(3, 'first')").unwrap();
    assert_eq!(log_in_use(&first), "on");
    let second = open(&with_records(&path)).unwrap();
    assert_eq!(code(second.execute_batch("SELECT * FROM t")), Some(ErrorCode::CannotOpen));
    drop(first);
    assert_eq!(rows(&second).len(), 3);
    assert_eq!(log_in_use(&second), "diff");
    second.close().unwrap();
    assert_eq!(rows(&closed_diff(&path)).len(), 3);
}

/// The differential log stays with the connections that have it, and is there after a kill of theirs.
fn first_is_gone(path: &Path, other: &Connection) {
    assert_eq!(log_in_use(other), "diff");
    other.execute_batch("INSERT INTO t VALUES(2, 'other')").unwrap();
    let image = std::fs::read(log_of(path)).unwrap();
    assert_eq!(image[4..8], 3_007_080_u32.to_be_bytes());
}

/// A log that was left without a differential one goes on as it is until it begins anew.
#[test]
fn log_of_a_kill_is_taken_over() {
    let directory = folder();
    let path = directory.path().join("db");
    let one = open_wal(&without_records(&path));
    one.execute_batch(CREATE).unwrap();
    one.close().unwrap();
    killed_after(&without_records(&path), "INSERT INTO t VALUES(1, 'one')");
    for number in 2..6 {
        let insert = format!("INSERT INTO t VALUES({number}, 'x')");
        if number == 4 {
            killed_after(
                &with_records(&path),
                &format!("PRAGMA wal_checkpoint(TRUNCATE); {insert}"),
            );
        } else {
            killed_after(&with_records(&path), &insert);
        }
        let version = std::fs::read(log_of(&path)).unwrap()[7];
        assert_eq!(version == 3_007_080_u32.to_be_bytes()[3], number >= 4, "{number}");
    }
    let one = open_diff(&path);
    check(&one);
    assert_eq!(rows(&one).len(), 5);
    one.close().unwrap();
    assert_eq!(rows(&closed_diff(&path)).len(), 5);
}

#[test]
fn missing_or_foreign_differential_log_is_refused() {
    let directory = folder();
    let path = directory.path().join("db");
    let one = open_diff(&path);
    one.execute_batch(CREATE).unwrap();
    one.close().unwrap();
    killed_after(&with_records(&path), "INSERT INTO t VALUES(1, 'one')");
    let records = std::fs::read(records_of(&path)).unwrap();
    let refused = |what: &str| {
        for uri in [with_records(&path), without_records(&path)] {
            let result = open(&uri).unwrap().execute_batch("SELECT * FROM t");
            assert_eq!(code(result), Some(ErrorCode::CannotOpen), "{what}");
        }
        assert_eq!(stocks_error(&path), Some(ErrorCode::CannotOpen), "{what}");
    };
    std::fs::remove_file(records_of(&path)).unwrap();
    refused("missing");
    std::fs::write(records_of(&path), b"another program's file").unwrap();
    refused("foreign");
    let mut later = records.clone();
    later[8] += 1;
    std::fs::write(records_of(&path), later).unwrap();
    refused("a later version");
    // That of another log.
    let other = directory.path().join("other");
    let two = open_diff(&other);
    two.execute_batch(CREATE).unwrap();
    two.close().unwrap();
    killed_after(&with_records(&other), "INSERT INTO t VALUES(1, 'one')");
    std::fs::copy(records_of(&other), records_of(&path)).unwrap();
    refused("another log's");
    std::fs::write(records_of(&path), records).unwrap();
    let one = open_diff(&path);
    assert_eq!(rows(&one).len(), 1);
    one.close().unwrap();
    closed_diff(&path);
    // A file of that name without a log is in the way only of those that need the name.
    std::fs::write(records_of(&path), b"another program's file").unwrap();
    let result = open(&with_records(&path)).unwrap().execute_batch("SELECT * FROM t");
    assert_eq!(code(result), Some(ErrorCode::CannotOpen));
    let one = open_wal(&without_records(&path));
    one.execute_batch("INSERT INTO t VALUES(2, 'two')").unwrap();
    one.close().unwrap();
    assert_eq!(std::fs::read(records_of(&path)).unwrap(), b"another program's file");
}
