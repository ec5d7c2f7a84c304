//! Placeholder journals that could not be removed after their transaction.

use std::path::Path;
use std::time::Duration;

use perdura_sqlite::database::{Level, MainFile as _, Mapped, OpenOptions};
use rusqlite::{Connection, ErrorCode};

use super::open_stock;
use crate::sql::{check, folder, rows, stock};

/// A database of one table, and successive copies with one more row each.
fn versions(folder: &Path, count: usize) -> (Connection, Vec<Vec<u8>>) {
    let [path, copy] = ["db", "copy"].map(|name| folder.join(name));
    let stocks = open_stock(&path);
    stocks.execute_batch("CREATE TABLE t(a, b); INSERT INTO t VALUES(1, 'one')").unwrap();
    std::fs::copy(&path, &copy).unwrap();
    let next = |_| {
        open_stock(&copy).execute_batch("INSERT INTO t VALUES(2, 'two')").unwrap();
        std::fs::read(&copy).unwrap()
    };
    (stocks, (0..count).map(next).collect())
}

/// Begins to commit a whole file, optionally over several databases.
fn begin_commit(ours: &mut Mapped, file: &[u8], super_journal: Option<&Path>) {
    for level in [Level::Shared, Level::Reserved, Level::Exclusive] {
        ours.lock(level).unwrap();
    }
    ours.write(0, file).unwrap();
    ours.commit(super_journal.map(|path| path.to_str().unwrap().as_bytes())).unwrap();
}

/// A connection whose placeholder could not be removed after its transaction, and the placeholder's bytes. A folder
/// is in its place.
fn with_leftover_placeholder(folder: &Path, file: &[u8]) -> (Mapped, Vec<u8>) {
    let [path, super_journal, journal] =
        ["db", "db-mj01", "db-journal"].map(|name| folder.join(name));
    std::fs::write(&super_journal, format!("{}\0", journal.display())).unwrap();
    let options = OpenOptions { share: Some("stock".into()), ..OpenOptions::default() };
    let mut ours = Mapped::open(&path, &options).unwrap().unwrap();
    begin_commit(&mut ours, file, Some(&super_journal));
    let placeholder = std::fs::read(&journal).unwrap();
    std::fs::remove_file(&super_journal).unwrap();
    // Removing a folder as a file fails.
    std::fs::remove_file(&journal).unwrap();
    std::fs::create_dir(&journal).unwrap();
    ours.end_transaction().unwrap();
    ours.unlock(Level::None).unwrap();
    (ours, placeholder)
}

/// A leftover placeholder that stock SQLite has opened as its journal, and not written to yet.
#[test]
fn stock_journal_in_place_of_a_placeholder_stays() {
    let directory = folder();
    let [path, journal] = ["db", "db-journal"].map(|name| directory.path().join(name));
    let (stocks, files) = versions(directory.path(), 1);
    let (mut ours, placeholder) = with_leftover_placeholder(directory.path(), &files[0]);
    std::fs::remove_dir(&journal).unwrap();
    assert_eq!(rows(&stocks).len(), 2);
    for begins in ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"] {
        stocks.execute_batch(begins).unwrap();
        std::fs::write(&journal, &placeholder).unwrap();
        for level in [Level::Shared, Level::Reserved] {
            let _ = ours.lock(level);
        }
        ours.unlock(Level::None).unwrap();
        assert!(journal.exists(), "{begins}");
        stocks.execute_batch("INSERT INTO t VALUES(3, 'three'); ROLLBACK").unwrap();
    }
    std::fs::write(&journal, &placeholder).unwrap();
    ours.lock(Level::Shared).unwrap();
    ours.lock(Level::Reserved).unwrap();
    ours.unlock(Level::None).unwrap();
    assert!(!journal.exists(), "no connection of stock SQLite is there");
    Box::new(ours).close().unwrap();
    check(&stock(&path));
}

/// A connection that only reads, or closes a database that others have open, does not know whether another one is
/// creating its own placeholder.
#[test]
fn leftover_placeholder_is_removed_by_writer_or_last_close() {
    let directory = folder();
    let [path, journal] = ["db", "db-journal"].map(|name| directory.path().join(name));
    let (stocks, files) = versions(directory.path(), 3);
    let options = OpenOptions { share: Some("perdura".into()), ..OpenOptions::default() };
    for marked in [false, true] {
        let (mut ours, placeholder) = with_leftover_placeholder(directory.path(), &files[0]);
        std::fs::remove_dir(&journal).unwrap();
        let mut other = Mapped::open(&path, &options).unwrap().unwrap();
        if marked {
            begin_commit(&mut other, &files[1], None);
            other.unlock(Level::None).unwrap();
            other.lock(Level::Shared).unwrap();
        }
        // The beginning of another connection's, and one that looks like its own.
        for bytes in [&placeholder[..9], &placeholder] {
            std::fs::write(&journal, bytes).unwrap();
            ours.lock(Level::Shared).unwrap();
            ours.unlock(Level::None).unwrap();
            assert_eq!(std::fs::read(&journal).unwrap(), bytes, "{marked}");
        }
        if marked {
            other.unlock(Level::None).unwrap();
            begin_commit(&mut ours, &files[2], None);
            assert!(!journal.exists());
            ours.unlock(Level::None).unwrap();
            Box::new(ours).close().unwrap();
        } else {
            Box::new(ours).close().unwrap();
            assert_eq!(std::fs::read(&journal).unwrap(), placeholder);
        }
        Box::new(other).close().unwrap();
        assert!(!journal.exists(), "{marked}");
    }
    assert_eq!(rows(&stocks).len(), 4);
    check(&stocks);
}

/// The next commit tries again to remove a leftover placeholder.
#[test]
fn stock_waits_for_a_commit_after_a_leftover_placeholder() {
    let directory = folder();
    let [path, journal] = ["db", "db-journal"].map(|name| directory.path().join(name));
    let (stocks, files) = versions(directory.path(), 3);
    stocks.busy_timeout(Duration::ZERO).unwrap();
    let (mut ours, placeholder) = with_leftover_placeholder(directory.path(), &files[0]);
    for (file, goes) in files[1..].iter().zip([false, true]) {
        std::fs::remove_dir(&journal).unwrap();
        if goes {
            std::fs::write(&journal, &placeholder).unwrap();
        } else {
            std::fs::create_dir(&journal).unwrap();
        }
        begin_commit(&mut ours, file, None);
        assert_eq!(journal.exists(), !goes);
        let _ = std::fs::remove_dir(&journal);
        let error = stocks.execute_batch("SELECT * FROM t").unwrap_err();
        assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy), "{goes}: {error}");
        std::fs::create_dir(&journal).unwrap();
        ours.unlock(Level::None).unwrap();
    }
    std::fs::remove_dir(&journal).unwrap();
    assert_eq!(rows(&stocks).len(), 4);
    Box::new(ours).close().unwrap();
    check(&stock(&path));
}

/// Its own placeholder is long gone, and without a lock it cannot know that the other transaction is prepared.
#[test]
fn leftover_placeholder_does_not_remove_anothers() {
    let directory = folder();
    let [path, journal, super_journal] =
        ["db", "db-journal", "db-mj02"].map(|name| directory.path().join(name));
    let (stocks, files) = versions(directory.path(), 3);
    let (mut ours, _) = with_leftover_placeholder(directory.path(), &files[0]);
    std::fs::remove_dir(&journal).unwrap();
    let options = OpenOptions { share: Some("perdura".into()), ..OpenOptions::default() };
    let mut other = Mapped::open(&path, &options).unwrap().unwrap();
    begin_commit(&mut other, &files[1], None);
    other.unlock(Level::None).unwrap();
    // It has set the marker, and holds no lock of stock SQLite's.
    std::fs::write(&super_journal, format!("{}\0", journal.display())).unwrap();
    begin_commit(&mut other, &files[2], Some(&super_journal));
    let placeholder = std::fs::read(&journal).unwrap();
    ours.unlock(Level::None).unwrap();
    Box::new(ours).close().unwrap();
    assert_eq!(std::fs::read(&journal).unwrap(), placeholder);
    std::fs::remove_file(&super_journal).unwrap();
    other.end_transaction().unwrap();
    other.unlock(Level::None).unwrap();
    assert!(!journal.exists());
    Box::new(other).close().unwrap();
    assert_eq!(rows(&stocks).len(), 4);
    check(&stocks);
}
